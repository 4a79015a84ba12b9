// What is asked of the server. docs/STUDIO.md has the list.

/** A refusal: one line, and where a text was wrong. */
export class Refusal extends Error {
  constructor(message, status, place) {
    super(message);
    this.status = status;
    this.place = place;
  }
}

async function ask(path, options) {
  const answer = await fetch(path, options).catch((error) => {
    if (error.name === "AbortError") throw error;
    throw new Refusal("The server does not answer: is pomp studio still running?", 0, null);
  });
  if (answer.status === 304) return null;
  if (answer.ok) return answer;
  const said = await answer.json().catch(() => ({}));
  const message = said.error ?? `The server answered with status ${answer.status}.`;
  throw new Refusal(message, answer.status, said.place ?? null);
}

/** GET an answer; a value that is a list is given once for each entry, empty values not at all. */
export async function get(path, values = {}, signal) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(values))
    for (const one of [value].flat())
      if (one !== null && one !== undefined && one !== "") query.append(name, one);
  const answer = await ask(`/api/${path}?${query}`, { signal });
  return answer && answer.json();
}

/** POST a body; `read` says what the answer is. */
export async function post(path, body, signal, read = "json") {
  const filled = Object.entries(body).filter(
    ([, value]) => value !== null && value !== undefined && value !== "",
  );
  const answer = await ask(`/api/${path}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(Object.fromEntries(filled)),
    signal,
  });
  return answer[read]();
}

/** Offer a file for download. */
export function download(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
