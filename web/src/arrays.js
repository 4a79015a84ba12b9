// Arrays as they travel: base64 of little-endian bytes with a type and a shape.
const TYPES = {
  u8: Uint8Array,
  i8: Int8Array,
  u16: Uint16Array,
  i16: Int16Array,
  u32: Uint32Array,
  i32: Int32Array,
  f32: Float32Array,
  f64: Float64Array,
};

/** The numbers of an array, flat. */
export function numbersOf({ type, data }) {
  return new TYPES[type](bytesOf(data).buffer);
}

/** The bytes that base64 stands for. */
export function bytesOf(base64) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(base64);
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

/** Base64 that can stand in an address. */
export function addressable(bytes) {
  const text = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

export function fromAddress(text) {
  const plain = text.replaceAll("-", "+").replaceAll("_", "/");
  return bytesOf(plain + "=".repeat((4 - (plain.length % 4)) % 4));
}

/** Send bytes through a (de)compression of the browser. */
export async function through(bytes, stream) {
  const answer = new Response(new Blob([bytes]).stream().pipeThrough(stream));
  return new Uint8Array(await answer.arrayBuffer());
}
