// What the page was asked to show, kept in its address, and the episodes that answer it.
import { batch, computed, effect, signal } from "@preact/signals";
import { addressable, fromAddress, through } from "./arrays.js";
import { Refusal, get, post } from "./api.js";
import { Clock } from "./clock.js";
import { Episode } from "./episode.js";

export const VIEWS = { watch: "Watch", write: "Write", runs: "Runs" };
const PLAIN = ["view", "task", "machine", "seed", "scale", "size", "other"];
const PACKED = ["text", "world"]; // what is long, and compressed in the address
const DEFAULTS = {
  view: "watch",
  task: "",
  machine: "",
  seed: "0",
  scale: "1",
  size: "",
  other: "",
};
const SETTLE = 300; // milliseconds after which the address follows

/** The address without the moment, which is the clock's. */
export const asked = signal({ ...DEFAULTS, text: "", world: null });
export const tasks = signal([]);
export const machines = signal([]);
export const limits = signal({});
export const clock = new Clock();
/** The second episode, when two machines are compared. */
export const rival = signal(null);
export const isLoading = signal(false);
/** The latest refusal, or null. */
export const refusal = signal(null);

/** The task that is asked for, or that of the machine. */
export const task = computed(() => {
  const name = asked.value.task || clock.episode.value?.sent.task;
  return tasks.value.find((one) => one.name === name);
});

/** Change what is asked for. */
export function ask(changes) {
  asked.value = { ...asked.value, ...changes };
}

/** Read the address. */
export async function readAddress() {
  const query = new URLSearchParams(location.search);
  const found = { ...DEFAULTS, text: "", world: null };
  for (const name of PLAIN) if (query.get(name)) found[name] = query.get(name);
  if (!(found.view in VIEWS)) found.view = "watch";
  if (query.get("text")) found.text = (await unpack(query.get("text"))) ?? "";
  if (query.get("world")) found.world = readJson(await unpack(query.get("world")));
  return { found, t: Number(query.get("t")) || 0 };
}

async function unpack(packed) {
  try {
    const bytes = await through(fromAddress(packed), new DecompressionStream("deflate-raw"));
    return new TextDecoder().decode(bytes);
  } catch {
    return null;
  }
}

/** What JSON says, or null: an address is anybody's. */
function readJson(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

async function pack(text) {
  return addressable(
    await through(new TextEncoder().encode(text), new CompressionStream("deflate-raw")),
  );
}

async function writeAddress(wanted, t) {
  const query = new URLSearchParams();
  for (const name of PLAIN) if (wanted[name] !== DEFAULTS[name]) query.set(name, wanted[name]);
  if (wanted.text) query.set("text", await pack(wanted.text));
  if (wanted.world) query.set("world", await pack(JSON.stringify(wanted.world)));
  if (t) query.set("t", t);
  const text = query.toString().replaceAll("%3A", ":").replaceAll("%2F", "/");
  history.replaceState(null, "", text ? `?${text}` : location.pathname);
}

let settling = 0;

function keepAddress() {
  const wanted = asked.value;
  const t = clock.t.value;
  clearTimeout(settling);
  settling = setTimeout(() => writeAddress(wanted, t), SETTLE);
}

/** The body of a request for the episode of a machine, or of the text if there is no name. */
export function requestOf({ task, seed, scale, size, text, world }, machine) {
  const isText = machine === "text";
  return {
    machine: isText ? null : machine,
    text: isText ? text : null,
    task,
    seed: Number(seed),
    scale: Number(scale),
    size,
    world,
  };
}

let running = null;

/** Ask for what is wanted; a request that is overtaken is given up, and the server stops. */
async function fetchEpisodes(wanted, t) {
  running?.abort();
  running = new AbortController();
  const { signal: stop } = running;
  isLoading.value = true;
  try {
    const names = [wanted.machine, wanted.other].filter(Boolean);
    const sent = await Promise.all(
      names.map((name) => post("episode", requestOf(wanted, name), stop)),
    );
    const [episode, second] = sent.map((one) => new Episode(one));
    batch(() => {
      refusal.value = null;
      rival.value = second ?? null;
      clock.load(episode, t, second);
      isLoading.value = false;
    });
  } catch (error) {
    if (error.name === "AbortError") return;
    if (!(error instanceof Refusal)) throw error;
    batch(() => {
      refusal.value = error;
      isLoading.value = false;
    });
  }
}

/** Load what the page stands on, then follow every change. */
export async function begin() {
  const [{ found, t }, about, listed, zoo] = await Promise.all([
    readAddress(),
    get("about"),
    get("tasks"),
    get("machines"),
  ]);
  batch(() => {
    limits.value = about.limits;
    tasks.value = listed.tasks;
    machines.value = zoo.machines;
    asked.value = complete(found);
  });
  let first = t;
  let before = "";
  effect(() => {
    const { view, ...wanted } = asked.value;
    const key = JSON.stringify(wanted);
    if (key === before || !wanted.machine || (wanted.machine === "text" && !wanted.text)) return;
    before = key;
    fetchEpisodes(wanted, first);
    first = 0;
  });
  effect(keepAddress);
  effect(() => {
    const episode = clock.episode.value;
    if (episode)
      document.title = `${episode.sent.task}, seed ${episode.sent.seed} \u2013 pomp studio`;
  });
}

/** Fill in what an address leaves out. */
function complete(wanted) {
  if (wanted.text && !wanted.machine) wanted.machine = "text";
  if (!wanted.machine) wanted.machine = machineFor(wanted.task) ?? firstMachine();
  wanted.machine = listedAs(wanted.machine);
  wanted.other = listedAs(wanted.other);
  const own = wanted.machine.match(/^zoo:([^/]+)/)?.[1];
  if (!wanted.task) wanted.task = tasks.value.find(({ name }) => name === own)?.name ?? "";
  return wanted;
}

/** What a machine is listed as: `zoo:TASK` is the best one for its task. */
function listedAs(name) {
  return machines.value.find((one) => one.is_best && one.name.startsWith(`${name}/`))?.name ?? name;
}

/** The machine that is shown to those who asked for none: the one with the most modes. */
function firstMachine() {
  const [first] = [...machines.value].sort((a, b) => b.modes - a.modes);
  return first?.name ?? "";
}

/** The machine of the zoo that is shown for a task. */
export function machineFor(name) {
  return machines.value.find(({ task }) => task === name)?.name;
}
