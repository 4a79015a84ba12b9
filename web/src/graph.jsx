// The machine as a graph: the mode that runs is lit, the latest transition travels along its edge.
import { select } from "d3-selection";
import { zoom, zoomIdentity } from "d3-zoom";
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { useSize } from "./canvas.jsx";
import { layOut, layRound } from "./layout.js";
import { modeVariable } from "./theme.js";

const LARGEST = 1.35; // times its natural size
const READABLE = 0.62; // below which a ring is drawn, if that is larger

/**
 * Draw a machine.
 *
 * Props: `machine` (`names`, `edges`), `mode` (lit; -1: the start), `taken` (`from`, `to` of the
 * latest transition, or null), `pulse` (a number that changes with it, or null: no movement),
 * `shares` (probabilities of the next mode by target, or null), `breaks` (edges to stop at),
 * `onBreak(from, to)`.
 */
export function Graph({ machine, mode, taken, pulse, shares, breaks, onBreak }) {
  const frame = useRef(null);
  const size = useSize(frame);
  const ways = useMemo(
    () => [false, true].map((across) => layOut(nodesOf(machine), machine.edges, across)),
    [machine],
  );
  const placed = useMemo(() => chooseWay(machine, ways, size), [machine, ways, size]);
  const moved = useZoom(frame, machine);
  const count = machine.names.length;
  const isTaken = (edge) => taken && edge.from === taken.from && edge.to === taken.to;
  const ordered = [...placed.edges].sort((a, b) => isTaken(a) - isTaken(b));
  const scale = Math.min(scaleIn(placed, size), LARGEST);
  const [wide, high] = [size.width / scale, size.height / scale];
  const box = `${(placed.width - wide) / 2} ${(placed.height - high) / 2} ${wide} ${high}`;
  return (
    <div class="graph" ref={frame}>
      <svg viewBox={box} role="group" aria-label={`Graph of the machine: ${count} modes`}>
        <g transform={moved}>
          {ordered.map((edge) => (
            <Edge
              key={`${edge.from}-${edge.to}`}
              edge={edge}
              machine={machine}
              isTaken={isTaken(edge)}
              share={shares && edge.from === taken?.from ? shares[edge.to] : null}
              pulse={isTaken(edge) ? pulse : null}
              isBreak={breaks.has(`${edge.from}>${edge.to}`)}
              onBreak={onBreak}
            />
          ))}
          {placed.nodes.map((node) => (
            <Node key={node.id} node={node} isLit={node.id === mode} count={count} />
          ))}
        </g>
      </svg>
    </div>
  );
}

/** The layout that is drawn largest; a ring where layers are too small to be read. */
function chooseWay(machine, ways, size) {
  const layers = scaleIn(ways[0], size) >= scaleIn(ways[1], size) ? ways[0] : ways[1];
  const reached = scaleIn(layers, size);
  if (!size.width || reached >= READABLE) return layers;
  const ring = layRound(roundOf(machine, layers), machine.edges, size);
  return scaleIn(ring, size) > reached ? ring : layers;
}

/** The nodes from the start to the end in the order of their layers. */
function roundOf(machine, { nodes, width, height }) {
  const along = height >= width ? ["y", "x"] : ["x", "y"];
  const isEnd = ({ id }) => id >= machine.names.length;
  return [...nodes].sort(
    (a, b) => isEnd(a) - isEnd(b) || a[along[0]] - b[along[0]] || a[along[1]] - b[along[1]],
  );
}

/** How large a layout can be drawn in a box. */
function scaleIn({ width, height }, size) {
  return Math.min((size.width || 1) / width, (size.height || 1) / height);
}

/** What a node is called: a mode's name, or the start or the end. */
export function nameOf(machine, id) {
  return id < 0 ? "start" : id >= machine.names.length ? "end" : machine.names[id];
}

function nodesOf(machine) {
  const ids = new Set(machine.names.keys());
  for (const { from, to } of machine.edges) ids.add(from).add(to);
  return [...ids].sort((a, b) => a - b).map((id) => ({ id, label: nameOf(machine, id) }));
}

function Node({ node, isLit, count }) {
  const { x, y, width, height, label, id } = node;
  const isEnd = id < 0 || id >= count;
  const names = `node${isLit ? " lit" : ""}${isEnd ? " end" : ""}`;
  return (
    <g class={names} style={{ "--tone": modeVariable(id, count) }} data-mode={id}>
      <rect
        x={x - width / 2}
        y={y - height / 2}
        width={width}
        height={height}
        rx={isEnd ? 17 : 7}
      />
      <text x={x} y={y}>
        {label}
      </text>
    </g>
  );
}

function Edge({ edge, machine, isTaken, share, pulse, isBreak, onBreak }) {
  const { from, to, way, tip, middle } = edge;
  const toggle = () => onBreak(from, to);
  const onKey = (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    event.stopPropagation();
    toggle();
  };
  const said = `${nameOf(machine, from)} to ${nameOf(machine, to)}: stop here`;
  const names = `edge${isTaken ? " taken" : ""}${edge.never ? " never" : ""}`;
  const tone = modeVariable(to, machine.names.length);
  return (
    <g
      class={names}
      style={{ "--tone": tone }}
      role="button"
      tabIndex={0}
      aria-pressed={isBreak}
      aria-label={said}
      data-edge={`${from}>${to}`}
      onClick={toggle}
      onKeyDown={onKey}
    >
      <title>{said}</title>
      <path class="way" d={way} />
      <path class="tip" d={tip} />
      <path class="touch" d={way} />
      {pulse != null && <path key={pulse} class="pulse" d={way} pathLength={100} />}
      {share != null && (
        <text x={middle.x} y={middle.y}>
          {share >= 0.995 ? "1" : share.toFixed(2).replace(/^0/, "")}
        </text>
      )}
      {isBreak && <circle class="stop" cx={middle.x} cy={middle.y} r={6} />}
    </g>
  );
}

/** Wheel and drag move the graph; a double click puts it back. */
function useZoom(frame, machine) {
  const [moved, setMoved] = useState(undefined);
  useLayoutEffect(() => {
    const target = select(frame.current.querySelector("svg"));
    const behaviour = zoom()
      .scaleExtent([0.5, 6])
      .filter(
        (event) => !event.button && (event.type !== "wheel" || event.ctrlKey || event.metaKey),
      )
      .on("zoom", ({ transform }) => setMoved(transform.toString()));
    const reset = () => target.call(behaviour.transform, zoomIdentity);
    target.call(behaviour).on("dblclick.zoom", reset);
    reset();
    return () => target.on(".zoom", null);
  }, [machine]);
  return moved;
}
