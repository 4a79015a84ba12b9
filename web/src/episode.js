// A recorded episode: what each frame shows, found in any order. docs/STUDIO.md says what is sent.
import { numbersOf } from "./arrays.js";

export const ACTIONS = ["move", "turnLeft", "turnRight", "pickMarker", "putMarker"];
export const NONE = 255;
const NO_TOKEN = 65535;
const TRAIL = 24; // moves that leave a trace in the world

/** The kinds of events in the order of their numbers; `colour` is one of the palette. */
export const EVENTS = [
  { key: "change", name: "mode change", colour: "edge" },
  { key: "reward", name: "reward", colour: "good", tall: true },
  { key: "penalty", name: "penalty", colour: "bad", tall: true },
  { key: "bump", name: "bump", colour: "muted" },
  { key: "cut", name: "cut", colour: "marker", tall: true },
  { key: "done", name: "task done", colour: "accent", tall: true },
];

/** Frames run from 0, the start, to `last`; arrays by frame hold what led to it. */
export class Episode {
  constructor(sent) {
    this.sent = sent;
    this.machine = withGraph(sent.machine);
    [this.height, this.width] = sent.size;
    this.last = sent.frames;
    this.modeCount = sent.machine.modes.length;
    this.readMoments(sent.moments);
    this.readSteps(sent.steps);
    this.readEvents(sent);
    this.cells = Object.fromEntries(
      Object.entries(sent.cells).map(([name, array]) => [name, numbersOf(array)]),
    );
    this.shown = { frame: 0, next: 0, cells: Uint8Array.from(sent.world.cells) };
    this.line = this.readLines();
    this.machine = withVisits(this.machine, this);
  }

  readMoments(moments) {
    this.action = shifted(numbersOf(moments.action), NONE);
    this.pose = numbersOf(moments.pose);
    this.token = shifted(numbersOf(moments.token), NO_TOKEN);
    this.rounds = numbersOf(moments.rounds);
    this.depth = moments.rounds.shape[1];
    this.value = numbersOf(moments.return);
    this.say = numbersOf(moments.say);
    this.acted = new Uint32Array(this.last + 1);
    for (let t = 1; t <= this.last; t++)
      this.acted[t] = this.acted[t - 1] + (this.action[t] !== NONE ? 1 : 0);
  }

  readSteps(steps) {
    this.first = numbersOf(steps.first);
    this.stepMode = numbersOf(steps.mode);
    this.rule = numbersOf(steps.rule);
    this.stepSay = numbersOf(steps.say);
    this.probs = steps.probs && numbersOf(steps.probs);
    this.step = new Int32Array(this.last + 1).fill(-1); // the macro step that led to a frame
    this.mode = new Int16Array(this.last + 1).fill(-1); // and its mode
    for (let m = 0; m < this.stepMode.length; m++) {
      this.step.fill(m, this.first[m] + 1, this.first[m + 1] + 1);
      this.mode.fill(this.stepMode[m], this.first[m] + 1, this.first[m + 1] + 1);
    }
  }

  /** The line of its mode's program that led to each frame; -1: none. */
  readLines() {
    const { modes, end } = this.machine;
    const tables = [...modes.map(({ line_of }) => line_of), end?.line_of ?? []];
    return Int16Array.from(this.token, (token, t) =>
      token === NO_TOKEN || this.mode[t] < 0 ? -1 : (tables[this.mode[t]][token] ?? -1),
    );
  }

  readEvents({ events, cost, ceiling }) {
    const [at, kind, amount] = [events.at, events.kind, events.amount].map(numbersOf);
    this.marks = Object.fromEntries(EVENTS.map(({ key }) => [key, []]));
    this.progress = new Float64Array(this.last + 1);
    this.penalty = new Float64Array(this.last + 1);
    for (let t = 1; t <= this.last; t++) if (this.action[t] !== NONE) this.penalty[t] -= cost ?? 0;
    at.forEach((frame, n) => {
      this.marks[EVENTS[kind[n]].key].push(frame);
      if (EVENTS[kind[n]].key === "reward") this.progress[frame] += amount[n];
      if (EVENTS[kind[n]].key === "penalty") this.penalty[frame] += amount[n];
    });
    this.stops = Uint32Array.from(new Set(at)).sort();
    for (let t = 1; t <= this.last; t++) {
      this.progress[t] += this.progress[t - 1];
      this.penalty[t] += this.penalty[t - 1];
    }
    this.setCurves(ceiling);
  }

  setCurves(ceiling) {
    const hasPenalty = this.penalty[this.last] !== 0;
    const all = [
      { name: "progress", values: this.progress, colour: "good", dash: true, thick: 1.2 },
      { name: "penalty", values: this.penalty, colour: "bad", dash: true, thick: 1.2 },
      { name: "return", values: this.value, colour: "ink", thick: 1.6 },
    ];
    this.curves = hasPenalty ? all : all.slice(2);
    const least = (values) => values.reduce((a, b) => Math.min(a, b), 0);
    const most = (values) => values.reduce((a, b) => Math.max(a, b), 0);
    const low = Math.min(...this.curves.map(({ values }) => least(values)));
    const high = Math.max(...this.curves.map(({ values }) => most(values)));
    this.range = { low, top: Math.max(high, ceiling ?? 0, low + 1e-9) };
  }

  /** The world of a frame; its `cells` are overwritten by the next call. */
  worldAt(t) {
    this.goTo(t);
    const { width, height } = this;
    return { width, height, cells: this.shown.cells, pose: this.pose[t] };
  }

  /** Flip cells from the frame that is shown, or from the nearest key frame if that is closer. */
  goTo(t) {
    const { at, keys } = this.cells;
    const every = this.sent.every;
    const size = this.width * this.height;
    const key = Math.min(Math.round(t / every), keys.length / size - 1);
    if (Math.abs(t - this.shown.frame) > Math.abs(t - key * every)) {
      this.shown.cells.set(keys.subarray(key * size, (key + 1) * size));
      this.shown.next = countUpTo(at, key * every);
    }
    const target = countUpTo(at, t);
    for (; this.shown.next < target; this.shown.next++) this.flip(this.shown.next);
    for (; this.shown.next > target; this.shown.next--) this.flip(this.shown.next - 1);
    this.shown.frame = t;
  }

  flip(n) {
    this.shown.cells[this.cells.cell[n]] ^= this.cells.flip[n];
  }

  /** The latest moves before a frame, the oldest first: `from`, `to`, `mode`. */
  trailAt(t) {
    const moves = [];
    for (let f = t; f > 0 && t - f < 6 * TRAIL && moves.length < TRAIL; f--) {
      const [from, to] = [this.pose[f - 1] >> 2, this.pose[f] >> 2];
      if (from !== to) moves.unshift({ from, to, mode: this.mode[f] });
    }
    return moves;
  }

  /** How many actions and modes there were up to a frame. */
  countsAt(t) {
    const end = t > 0 && this.mode[t] === this.modeCount ? 1 : 0;
    return { actions: this.acted[t], modes: this.step[t] + 1 - end };
  }

  modeName(t) {
    return this.titleOf(this.mode[t]);
  }

  titleOf(mode) {
    return mode < 0 ? "start" : (this.machine.names[mode] ?? "end");
  }

  /** Whether a macro step begins with the moment that led to a frame. */
  begins(t) {
    return t > 0 && this.step[t] !== this.step[t - 1];
  }

  /** The transition that led to the mode of a frame: the numbers of both blocks. */
  transitionAt(t) {
    const m = this.step[t];
    return m < 0 ? null : { from: m ? this.stepMode[m - 1] : -1, to: this.stepMode[m], step: m };
  }

  edgeAt(t) {
    const { from, to } = this.transitionAt(t);
    return `${from}>${to}`;
  }

  /** How likely each choice was at the macro step of a frame, or null. */
  probsAt(t) {
    const count = this.modeCount + 1;
    const m = this.step[t];
    return this.probs && m >= 0 ? this.probs.subarray(m * count, (m + 1) * count) : null;
  }

  /** The loops around the token of a frame: `line`, `round`, `count` (null: until it is false). */
  loopsAt(t) {
    const [mode, token] = [this.mode[t], this.token[t]];
    if (mode < 0 || token === NO_TOKEN) return [];
    const { loops = [] } = this.machine.modes[mode] ?? this.machine.end ?? {};
    return loops
      .filter(({ first, last }) => first <= token && token <= last)
      .map((loop, n) => ({
        ...loop,
        round: n < this.depth ? this.rounds[(t - 1) * this.depth + n] : 0,
      }));
  }

  wordsAt(t) {
    const { words } = this.sent;
    return t > 0 ? { what: words[this.say[t - 1]], why: words[this.stepSay[this.step[t]]] } : null;
  }

  /** The next (`by` 1) or previous (-1) frame that a test accepts, or null. */
  find(t, by, test) {
    for (let f = t + by; f > 0 && f <= this.last; f += by) if (test(f)) return f;
    return null;
  }

  /** The next execution of a line, or the previous one. */
  findLine(t, by, mode, line) {
    return this.find(t, by, (f) => this.line[f] === line && this.mode[f] === mode);
  }

  /** The frame at which the next macro step has begun, or the end. */
  nextMode(t) {
    return this.find(t, 1, (f) => this.begins(f)) ?? this.last;
  }

  previousMode(t) {
    return this.find(t, -1, (f) => this.begins(f)) ?? 0;
  }

  nextEvent(t) {
    return this.stops[countUpTo(this.stops, t)] ?? this.last;
  }

  previousEvent(t) {
    return this.stops[countUpTo(this.stops, t - 1) - 1] ?? 0;
  }
}

/** Values of moments by frame: nothing led to the start. */
function shifted(values, nothing) {
  const longer = new values.constructor(values.length + 1);
  longer[0] = nothing;
  longer.set(values, 1);
  return longer;
}

/** How many of ascending numbers are not above a limit. */
function countUpTo(numbers, limit) {
  let [low, high] = [0, numbers.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (numbers[middle] <= limit) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** A machine with what its graph needs: names, and edges as objects. */
export function withGraph(machine) {
  return {
    ...machine,
    names: machine.modes.map(({ title }) => title),
    edges: machine.edges.map(([from, to]) => ({ from, to })),
  };
}

/** The same with only the edges that an episode took, if no rules say which there are. */
function withVisits(machine, { stepMode }) {
  if (machine.lists.some((list) => list.length)) return machine;
  const pairs = new Set(Array.from(stepMode, (to, m) => `${m ? stepMode[m - 1] : -1}>${to}`));
  return { ...machine, edges: machine.edges.filter(({ from, to }) => pairs.has(`${from}>${to}`)) };
}
