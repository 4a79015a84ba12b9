// The start of an episode as something to click on: walls, markers, the agent.
import { useRef, useState } from "preact/hooks";
import { Canvas } from "./canvas.jsx";
import { COUNT, WALL, drawWorld, fit } from "./drawing.js";
import { palette } from "./theme.js";
import { describeWorld } from "./world.jsx";

export const TOOLS = { marker: "Marker", wall: "Wall", agent: "Agent" };
const ARROWS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

/** The world after a tool was used on a cell; the same object if it cannot be. */
export function apply(tool, world, cell, mostMarkers) {
  const [rows, columns] = world.size;
  const [row, col] = [Math.floor(cell / columns), cell % columns];
  const isRing = row === 0 || col === 0 || row === rows - 1 || col === columns - 1;
  const cells = [...world.cells];
  const agent = world.pose >> 2;
  if (isRing) return world;
  if (tool === "agent") {
    const facing = cell === agent ? ((world.pose & 3) + 1) % 4 : world.pose & 3;
    cells[cell] &= COUNT;
    return { ...world, cells, pose: 4 * cell + facing };
  }
  if (tool === "wall") {
    if (cell === agent) return world;
    cells[cell] = cells[cell] & WALL ? 0 : WALL;
  } else {
    cells[cell] = cells[cell] & WALL ? 1 : ((cells[cell] & COUNT) + 1) % (mostMarkers + 1);
  }
  return { ...world, cells };
}

/** Props: `world` (as sent), `tool`, `mostMarkers`, `onChange(world)`. */
export function StartEditor({ world, tool, mostMarkers, onChange }) {
  const [rows, columns] = world.size;
  const [cursor, setCursor] = useState(null);
  const box = useRef(null);
  const plain = { width: columns, height: rows, cells: world.cells, pose: world.pose };
  const draw = (pen, wide, high, ratio) => {
    box.current = { ...fit(plain, wide, high), ratio };
    drawWorld(pen, plain, box.current, palette());
    if (cursor !== null) drawCursor(pen, cursor, columns, box.current, palette());
  };
  const use = (cell) => {
    const next = apply(tool, world, cell, mostMarkers);
    if (next !== world) onChange(next);
  };
  const press = (event) => {
    const cell = cellAt(event, box.current, rows, columns);
    if (cell !== null) use(cell);
  };
  const type = (event) => {
    const arrow = ARROWS[event.key];
    const here = cursor ?? world.pose >> 2;
    if (arrow) setCursor(moved(here, arrow, rows, columns));
    else if (event.key === "Enter" || event.key === " ") use(here);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div class="world">
      <Canvas
        class="editable"
        draw={draw}
        data={[world, cursor]}
        tabIndex={0}
        role="application"
        aria-label={`${describeWorld(plain)} Arrows choose a cell, Enter changes it.`}
        onPointerDown={press}
        onKeyDown={type}
        onBlur={() => setCursor(null)}
      />
    </div>
  );
}

function cellAt(event, { cell, left, top, ratio }, rows, columns) {
  const col = Math.floor((event.offsetX * ratio - left) / cell);
  const row = Math.floor((event.offsetY * ratio - top) / cell);
  return row >= 0 && col >= 0 && row < rows && col < columns ? row * columns + col : null;
}

function moved(cell, [down, right], rows, columns) {
  const row = Math.min(Math.max(Math.floor(cell / columns) + down, 1), rows - 2);
  const col = Math.min(Math.max((cell % columns) + right, 1), columns - 2);
  return row * columns + col;
}

function drawCursor(pen, cursor, columns, { cell, left, top }, colours) {
  pen.strokeStyle = colours.accent;
  pen.lineWidth = Math.max(2, cell / 16);
  pen.strokeRect(
    left + (cursor % columns) * cell,
    top + Math.floor(cursor / columns) * cell,
    cell,
    cell,
  );
}
