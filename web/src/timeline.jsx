// The whole episode at a glance: curves, the modes as a strip, marks for events; and where we are.
import { useSignalEffect } from "@preact/signals";
import { useRef } from "preact/hooks";
import { Canvas } from "./canvas.jsx";
import { EVENTS } from "./episode.js";
import { modeColour, palette } from "./theme.js";
import { shorten } from "./world.jsx";

const TALL = { strip: 18, marks: 6 }; // CSS pixels of the strip of modes and of a row of marks
const LOW = { strip: 13, marks: 4.5 }; // where the whole has less than
const LOWEST = 70;
const WRITTEN = 34; // pixels of the curves below which no number is written beside them
const THINNEST = 1.5; // CSS pixels of a mark where there are many
const THICKEST = 4;

/** Props: `clock`, `episode`, `span` (frames across, if more than its own), `caption`. */
export function Timeline({ clock, episode, span = episode.last, caption }) {
  const frame = useRef(null);
  const head = useRef(null);
  const slider = useRef(null);
  useSignalEffect(() => {
    const t = Math.min(clock.t.value, span);
    head.current.style.left = `${span ? (100 * t) / span : 0}%`;
    slider.current.value = t;
    slider.current.setAttribute("aria-valuetext", `action ${t} of ${span}`);
  });
  const seek = (event) => {
    const { left, width } = frame.current.getBoundingClientRect();
    clock.seek(((event.clientX - left) / width) * span);
  };
  const press = (event) => {
    event.currentTarget.setPointerCapture(event.pointerId);
    seek(event);
  };
  return (
    <div class="timeline" ref={frame}>
      <Canvas
        data={[episode, span]}
        draw={(pen, wide, high, ratio) =>
          drawTimeline(pen, episode, Math.round((wide * episode.last) / (span || 1)), high, ratio)
        }
        onPointerDown={press}
        onPointerMove={(event) => event.buttons && seek(event)}
        aria-hidden="true"
      />
      <div class="head" ref={head} />
      <input
        type="range"
        min={0}
        max={span}
        ref={slider}
        aria-label={caption}
        onInput={(event) => clock.seek(Number(event.currentTarget.value))}
      />
    </div>
  );
}

function drawTimeline(pen, episode, wide, high, ratio) {
  const colours = palette();
  const heights = high < LOWEST * ratio ? LOW : TALL;
  const strip = Math.round(heights.strip * ratio);
  const row = Math.round(heights.marks * ratio);
  const rows = EVENTS.filter(({ key }) => episode.marks[key].length);
  const marksTop = high - rows.length * row;
  const stripTop = marksTop - strip - Math.round(3 * ratio);
  drawStrip(pen, episode, wide, stripTop, strip);
  rows.forEach(({ key, colour, tall }, number) => {
    pen.fillStyle = colours[colour];
    drawMarks(pen, episode, key, wide, marksTop + number * row, tall ? row - 1 : row * 0.6, ratio);
  });
  drawCurves(pen, episode, wide, stripTop - Math.round(5 * ratio), ratio, colours);
}

/** In each column, the modes that ran there, as high as their share of it. */
function drawStrip(pen, episode, wide, top, high) {
  const { last, mode, modeCount } = episode;
  const shares = new Float64Array(modeCount + 1);
  for (let x = 0; x < wide; x++) {
    const from = 1 + Math.floor((x / wide) * last);
    const to = Math.max(from + 1, 1 + Math.floor(((x + 1) / wide) * last));
    shares.fill(0);
    for (let t = from; t < to && t <= last; t++) if (mode[t] >= 0) shares[mode[t]]++;
    let below = top;
    for (let k = 0; k <= modeCount; k++) {
      if (!shares[k]) continue;
      const part = (shares[k] / (to - from)) * high;
      pen.fillStyle = modeColour(k, modeCount);
      pen.fillRect(x, below, 1, part);
      below += part;
    }
  }
}

function drawMarks(pen, episode, key, wide, top, high, ratio) {
  const room = (0.5 * wide) / (episode.last || 1);
  const thick = Math.round(Math.min(Math.max(room, THINNEST * ratio), THICKEST * ratio));
  let drawn = -2 * thick;
  for (const t of episode.marks[key]) {
    const x = Math.round((t / episode.last) * wide);
    if (x - drawn < thick) continue;
    pen.fillRect(Math.min(x, wide - thick), top, thick, high);
    drawn = x;
  }
}

function drawCurves(pen, episode, wide, high, ratio, colours) {
  const pad = Math.ceil(2 * ratio);
  const { low, top } = episode.range;
  const y = (value) => pad + (high - 2 * pad) * (1 - (value - low) / (top - low || 1));
  pen.lineWidth = Math.max(1, ratio);
  pen.strokeStyle = colours.line;
  for (const value of [low, 0, top]) {
    pen.beginPath();
    pen.moveTo(0, Math.round(y(value)) + 0.5);
    pen.lineTo(wide, Math.round(y(value)) + 0.5);
    pen.stroke();
  }
  for (const { values, colour, dash, thick } of episode.curves) {
    pen.setLineDash(dash ? [4 * ratio, 3 * ratio] : []);
    pen.lineWidth = thick * ratio;
    pen.lineJoin = "round";
    pen.strokeStyle = colours[colour];
    drawCurve(pen, values, wide, y);
  }
  pen.setLineDash([]);
  if (high < WRITTEN * ratio) return;
  pen.fillStyle = colours.muted;
  pen.font = `${Math.round(10.5 * ratio)}px system-ui, sans-serif`;
  pen.textBaseline = "top";
  pen.fillText(shorten(top), 9 * ratio, y(top) + 2.5 * ratio);
}

/** A curve in steps; where many moments share a column, from their least to their greatest. */
function drawCurve(pen, values, wide, y) {
  const last = values.length - 1;
  pen.beginPath();
  if (last < wide) {
    pen.moveTo(0, y(values[0]));
    for (let t = 1; t <= last; t++) {
      pen.lineTo((t / last) * wide, y(values[t - 1]));
      pen.lineTo((t / last) * wide, y(values[t]));
    }
  } else {
    for (let x = 0; x < wide; x++) {
      const from = Math.floor((x / wide) * last);
      const to = Math.floor(((x + 1) / wide) * last);
      let [least, most] = [values[from], values[from]];
      for (let t = from; t <= to; t++) {
        least = Math.min(least, values[t]);
        most = Math.max(most, values[t]);
      }
      pen.lineTo(x, y(values[from]));
      if (most > least) (pen.lineTo(x, y(least)), pen.lineTo(x, y(most)));
      pen.lineTo(x, y(values[to]));
    }
  }
  pen.stroke();
}
