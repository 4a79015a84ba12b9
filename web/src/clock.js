// Time: which moment is shown, and how it moves. Every way to move is here, and all use one order.
import { batch, computed, effect, signal } from "@preact/signals";

export const SLOWEST = 1; // actions a second
export const FASTEST = 4096;
const LATE = 0.25; // seconds of delay that are made up for

/** A clock over one episode: `t` runs from 0, the start, to `last`. */
export class Clock {
  constructor() {
    this.episode = signal(null);
    this.t = signal(0);
    this.isPlaying = signal(false);
    this.speed = signal(8);
    this.lineBreaks = signal(new Set()); // "mode:line"
    this.edgeBreaks = signal(new Set()); // "from>to"
    this.stopped = signal(""); // why it stopped by itself
    this.rivalLast = signal(0); // of a second episode that is shown beside
    this.last = computed(() => Math.max(this.episode.value?.last ?? 0, this.rivalLast.value));
    this.due = 0;
    this.frame = 0;
    effect(() => this.isPlaying.value && this.begin());
  }

  /** Show an episode at a moment, and perhaps a second one beside it. */
  load(episode, t = 0, rival = null) {
    batch(() => {
      if (!isSameMachine(this.episode.peek(), episode)) {
        this.lineBreaks.value = new Set();
        this.edgeBreaks.value = new Set();
      }
      this.episode.value = episode;
      this.rivalLast.value = rival?.last ?? 0;
      this.isPlaying.value = false;
      this.stopped.value = "";
      this.t.value = Math.min(Math.max(t, 0), this.last.value);
    });
  }

  /** Go to a moment and stay there. */
  seek(t) {
    batch(() => {
      this.isPlaying.value = false;
      this.stopped.value = "";
      this.t.value = Math.min(Math.max(Math.round(t), 0), this.last.value);
    });
  }

  /** Go where a method of the episode says, such as `nextMode`. */
  jump(name) {
    const now = this.t.peek();
    const episode = this.episode.peek();
    if (now <= episode.last) this.seek(episode[name](now));
  }

  toggle() {
    if (this.isPlaying.value) this.isPlaying.value = false;
    else this.play();
  }

  play() {
    if (!this.episode.value) return;
    batch(() => {
      if (this.t.value >= this.last.value) this.t.value = 0;
      this.stopped.value = "";
      this.isPlaying.value = true;
    });
  }

  /** Run until something stops it: a breakpoint or the end. */
  runToEnd() {
    const stop = this.nextStop(this.t.value, this.last.value);
    this.seek(stop?.t ?? this.last.value);
    this.stopped.value = stop?.why ?? "";
  }

  /** Let real time pass. */
  begin() {
    this.due = performance.now();
    cancelAnimationFrame(this.frame);
    const tick = (now) => {
      if (!this.isPlaying.peek()) return;
      this.advance(now);
      if (this.isPlaying.peek()) this.frame = requestAnimationFrame(tick);
    };
    this.frame = requestAnimationFrame(tick);
  }

  advance(now) {
    const period = 1000 / this.speed.peek();
    this.due = Math.max(this.due, now - 1000 * LATE);
    const steps = Math.floor((now - this.due) / period);
    if (steps < 1) return;
    this.due += steps * period;
    const from = this.t.peek();
    const to = Math.min(from + steps, this.last.peek());
    const stop = this.nextStop(from, to);
    batch(() => {
      this.t.value = stop?.t ?? to;
      if (stop || to === this.last.peek()) this.isPlaying.value = false;
      this.stopped.value = stop?.why ?? "";
    });
  }

  /** The first breakpoint after `from` and up to `to`, or null. */
  nextStop(from, to) {
    const episode = this.episode.peek();
    const [lines, edges] = [this.lineBreaks.peek(), this.edgeBreaks.peek()];
    if (!lines.size && !edges.size) return null;
    for (let t = from + 1; t <= Math.min(to, episode.last); t++) {
      if (lines.has(`${episode.mode[t]}:${episode.line[t]}`))
        return { t, why: `Stopped at line ${episode.line[t] + 1} of ${episode.modeName(t)}.` };
      if (edges.size && episode.begins(t) && edges.has(episode.edgeAt(t)))
        return { t, why: `Stopped: the machine went on to ${episode.modeName(t)}.` };
    }
    return null;
  }

  toggleIn(breaks, key) {
    const next = new Set(breaks.peek());
    if (!next.delete(key)) next.add(key);
    breaks.value = next;
  }

  toggleLine(mode, line) {
    this.toggleIn(this.lineBreaks, `${mode}:${line}`);
  }

  toggleEdge(from, to) {
    this.toggleIn(this.edgeBreaks, `${from}>${to}`);
  }
}

/** Whether breakpoints in the machine of one episode mean the same in that of another. */
function isSameMachine(one, other) {
  const kept = ({ sent: { machine } }) =>
    JSON.stringify([machine.modes.map(({ lines }) => lines), machine.edges]);
  return one !== null && kept(one) === kept(other);
}

/** The slider's position, 0 to 100, of a speed; and back. */
export function positionOf(speed) {
  return (100 * Math.log(speed / SLOWEST)) / Math.log(FASTEST / SLOWEST);
}

export function speedAt(position) {
  const speed = SLOWEST * (FASTEST / SLOWEST) ** (position / 100);
  return speed < 10 ? Math.round(speed * 2) / 2 : Math.round(speed);
}
