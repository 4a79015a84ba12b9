// An embedding as a map: every point of the plane can be decoded into a program.
import { select } from "d3-selection";
import { zoom, zoomIdentity } from "d3-zoom";
import { useEffect, useRef, useState } from "preact/hooks";
import { get } from "./api.js";
import { numbersOf } from "./arrays.js";
import { Canvas } from "./canvas.jsx";
import { Coloured } from "./program.jsx";
import { ask } from "./state.js";
import { modeColour, modeVariable, palette } from "./theme.js";

const STEPS = { ArrowUp: [0, 1], ArrowDown: [0, -1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };

/** Props: `name` of an embedding. */
export function EmbeddingMap({ name }) {
  const [map, setMap] = useState(null);
  const [error, setError] = useState(null);
  const [place, setPlace] = useState(null);
  useEffect(() => {
    setMap(null);
    setPlace(null);
    get("embedding", { name }).then((sent) => setMap(readMap(sent)), setError);
  }, [name]);
  if (error) return <p class="error">{error.message}</p>;
  if (!map) return <p class="message">Reading the embedding…</p>;
  return (
    <div class="mapping">
      <Plane map={map} place={place} onPlace={setPlace} />
      <Decoded name={name} place={place} share={map.share} />
    </div>
  );
}

function readMap(sent) {
  const points = numbersOf(sent.points);
  let [left, right, top, bottom] = [Infinity, -Infinity, Infinity, -Infinity];
  for (let i = 0; i < points.length; i += 2) {
    [left, right] = [Math.min(left, points[i]), Math.max(right, points[i])];
    [top, bottom] = [Math.min(top, points[i + 1]), Math.max(bottom, points[i + 1])];
  }
  return { ...sent, points, kind: numbersOf(sent.kind), box: { left, right, top, bottom } };
}

/** From the plane to CSS pixels of a canvas before it is moved: one scale for both axes. */
function scaleOf({ left, right, top, bottom }, width, height) {
  const unit = 0.92 * Math.min(width / (right - left || 1), height / (bottom - top || 1));
  const [x, y] = [(left + right) / 2, (top + bottom) / 2];
  return {
    to: (px, py) => [width / 2 + (px - x) * unit, height / 2 - (py - y) * unit],
    from: (sx, sy) => [x + (sx - width / 2) / unit, y - (sy - height / 2) / unit],
  };
}

function Plane({ map, place, onPlace }) {
  const frame = useRef(null);
  const [moved, setMoved] = useState(zoomIdentity);
  useEffect(() => {
    const target = select(frame.current);
    target.call(
      zoom()
        .scaleExtent([0.5, 60])
        .clickDistance(4)
        .on("zoom", ({ transform }) => setMoved(transform)),
    );
    return () => target.on(".zoom", null);
  }, []);
  const draw = (pen, wide, high, ratio) => drawMap(pen, { map, moved, place, wide, high, ratio });
  const click = (event) => {
    const { left, top, width, height } = frame.current.getBoundingClientRect();
    const at = moved.invert([event.clientX - left, event.clientY - top]);
    const [x, y] = scaleOf(map.box, width, height).from(...at);
    onPlace({ x, y });
  };
  const type = (event) => {
    const step = STEPS[event.key];
    if (!step) return;
    event.preventDefault();
    onPlace(stepped(map.box, place, step));
  };
  const said = `Map of ${map.programs.length} programs. Arrows move the point that is decoded.`;
  return (
    <div class="plane">
      <figure ref={frame}>
        <Canvas
          draw={draw}
          data={[map, moved, place]}
          onClick={click}
          onKeyDown={type}
          tabIndex={0}
          role="application"
          aria-label={said}
        />
      </figure>
      <div class="legend">
        {map.kinds.map((kind, n) => (
          <span key={kind} style={{ "--tone": modeVariable(n, map.kinds.length - 1) }}>
            <i class="mark round" />
            {kind}
          </span>
        ))}
      </div>
    </div>
  );
}

/** A point a fiftieth of the map further; the first one is its middle. */
function stepped({ left, right, top, bottom }, place, [dx, dy]) {
  const from = place ?? { x: (left + right) / 2, y: (top + bottom) / 2 };
  return { x: from.x + (dx * (right - left)) / 50, y: from.y + (dy * (bottom - top)) / 50 };
}

function drawMap(pen, { map, moved, place, wide, high, ratio }) {
  const colours = palette();
  const scale = scaleOf(map.box, wide / ratio, high / ratio);
  const reach = 2.3 * Math.sqrt(moved.k) * ratio;
  pen.globalAlpha = 0.7;
  for (let i = 0; i < map.kind.length; i++) {
    const [x, y] = moved.apply(scale.to(map.points[2 * i], map.points[2 * i + 1]));
    pen.fillStyle = modeColour(map.kind[i], map.kinds.length - 1); // the last: it does nothing
    pen.beginPath();
    pen.arc(x * ratio, y * ratio, reach, 0, 2 * Math.PI);
    pen.fill();
  }
  pen.globalAlpha = 1;
  if (!place) return;
  const [x, y] = moved.apply(scale.to(place.x, place.y));
  pen.strokeStyle = colours.ink;
  pen.lineWidth = 2 * ratio;
  pen.beginPath();
  pen.arc(x * ratio, y * ratio, 7 * ratio, 0, 2 * Math.PI);
  pen.stroke();
}

/** The program at a point, and what it does. */
function Decoded({ name, place, share }) {
  const [found, setFound] = useState(null);
  const [error, setError] = useState(null);
  useEffect(() => {
    if (!place) return undefined;
    const stop = new AbortController();
    get("embedding/at", { name, ...place }, stop.signal).then(
      (sent) => (setFound(sent), setError(null)),
      (trouble) => trouble.name !== "AbortError" && setError(trouble),
    );
    return () => stop.abort();
  }, [name, place]);
  if (error) return <p class="error">{error.message}</p>;
  if (!found)
    return (
      <p>
        Each point is a program. The plane shows {(100 * share).toFixed(0)} % of their variance.
        Click anywhere to see what is decoded there.
      </p>
    );
  return (
    <section aria-live="polite" data-decoded>
      <h2>Program at this point</h2>
      <pre>{found.lines.map((line, n) => [<Coloured key={n} text={line} />, "\n"])}</pre>
      <p>{found.words}</p>
      {found.behaviour?.length > 0 && <Behaviour rows={found.behaviour} />}
      <button
        type="button"
        class="button"
        disabled={!found.is_valid}
        onClick={() =>
          ask({ view: "write", machine: "text", text: found.program, world: null, other: "" })
        }
      >
        Run it
      </button>
    </section>
  );
}

function Behaviour({ rows }) {
  return (
    <table>
      <thead>
        <tr>
          <th>task</th>
          <th>return</th>
          <th>actions</th>
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={row.task}>
            <td>{row.task}</td>
            <td>{Number(row.return).toFixed(3)}</td>
            <td>{row.actions}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
