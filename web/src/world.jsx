// The world of a frame, and the numbers below it.
import { Canvas } from "./canvas.jsx";
import { COUNT, drawWorld, fit } from "./drawing.js";
import { modeColour, palette } from "./theme.js";

const FACINGS = ["north", "east", "south", "west"];

/** Props: `episode`, `t`. */
export function World({ episode, t }) {
  const draw = (pen, wide, high) => {
    const world = episode.worldAt(t);
    world.trail = episode.trailAt(t).map(({ from, to, mode }) => ({
      from,
      to,
      colour: modeColour(mode, episode.modeCount),
    }));
    drawWorld(pen, world, fit(world, wide, high), palette());
  };
  return (
    <div class="world">
      <Canvas draw={draw} data={[episode, t]} role="img" aria-label={describe(episode, t)} />
    </div>
  );
}

/** A world in words, for those who cannot see it. */
export function describeWorld({ width, height, cells, pose }) {
  const cell = pose >> 2;
  let markers = 0;
  for (const byte of cells) markers += byte & COUNT;
  const place = `row ${Math.floor(cell / width) + 1}, column ${(cell % width) + 1}`;
  return (
    `World of ${height} rows and ${width} columns. The agent is at ${place}, ` +
    `facing ${FACINGS[pose & 3]}. Markers: ${markers}.`
  );
}

const describe = (episode, t) => describeWorld(episode.worldAt(t));

/** Props: `episode`, `t`. */
export function Numbers({ episode, t }) {
  const { sent } = episode;
  const last = t === episode.last;
  const { actions, modes } = episode.countsAt(t);
  return (
    <dl class="numbers">
      <Figure name="return" of={sent.ceiling}>
        {shorten(last ? sent.return : episode.value[t])}
      </Figure>
      <Figure name="progress">{shorten(episode.progress[t])}</Figure>
      <Figure name="penalty">{shorten(episode.penalty[t])}</Figure>
      <Figure name="actions">{last ? sent.actions : actions}</Figure>
      <Figure name="modes run">{last ? sent.modes : modes}</Figure>
    </dl>
  );
}

function Figure({ name, of, children }) {
  return (
    <div>
      <dt>
        {name}
        {of != null && `, of ${of}`}
      </dt>
      <dd data-number={name}>{children}</dd>
    </div>
  );
}

/** A number of at most six digits. */
export function shorten(value) {
  if (!value) return "0";
  const text = Math.abs(value) >= 1e-3 ? value.toFixed(4) : value.toPrecision(2);
  return text.includes("e") ? text : text.replace(/\.?0+$/, "").replace("-", "\u2212");
}
