// A world on a canvas: whole device pixels per cell, so that it is crisp at any size.

export const COUNT = 15; // bits of a cell: how many markers
export const WALL = 16;
const DART = [[0, -0.38], [0.3, 0.34], [0, 0.16], [-0.3, 0.34]]; // prettier-ignore
const MOST_LABELS = 14; // pixels of a cell below which no count is written

/** Where a world lies in a box of `wide` x `high` device pixels. */
export function fit(world, wide, high) {
  const cell = Math.max(1, Math.floor(Math.min(wide / world.width, high / world.height)));
  const left = Math.floor((wide - cell * world.width) / 2);
  const top = Math.floor((high - cell * world.height) / 2);
  return { cell, left, top };
}

/** Draw `world` (`width`, `height`, `cells` and `pose`) into a box of device pixels. */
export function drawWorld(pen, world, box, colours) {
  const { cell, left, top } = box;
  pen.fillStyle = colours.ground;
  pen.fillRect(left, top, cell * world.width, cell * world.height);
  drawGrid(pen, world, box, colours);
  drawWalls(pen, world, box, colours);
  if (world.trail) drawTrail(pen, world, box);
  drawMarkers(pen, world, box, colours);
  drawAgent(pen, world, box, colours);
}

function drawGrid(pen, world, { cell, left, top }, colours) {
  if (cell < 5) return;
  const thick = Math.max(1, Math.round(cell / 48));
  pen.fillStyle = colours.grid;
  for (let col = 1; col < world.width; col++)
    pen.fillRect(left + col * cell, top, thick, cell * world.height);
  for (let row = 1; row < world.height; row++)
    pen.fillRect(left, top + row * cell, cell * world.width, thick);
}

function drawWalls(pen, world, { cell, left, top }, colours) {
  const { width, cells } = world;
  pen.fillStyle = colours.wall;
  for (let row = 0; row < world.height; row++) {
    for (let col = 0; col < width; col++) {
      if (!(cells[row * width + col] & WALL)) continue;
      let end = col + 1;
      while (end < width && cells[row * width + end] & WALL) end++;
      pen.fillRect(left + col * cell, top + row * cell, (end - col) * cell, cell);
      col = end - 1;
    }
  }
}

/** The latest cells of the agent, fainter the longer ago. */
function drawTrail(pen, world, { cell, left, top }) {
  const at = (index) => [
    left + ((index % world.width) + 0.5) * cell,
    top + (Math.floor(index / world.width) + 0.5) * cell,
  ];
  pen.lineWidth = Math.max(1.5, cell * 0.09);
  world.trail.forEach(({ from, to, colour }, number) => {
    pen.globalAlpha = (0.55 * (number + 1)) / world.trail.length;
    pen.strokeStyle = colour;
    pen.beginPath();
    pen.moveTo(...at(from));
    pen.lineTo(...at(to));
    pen.stroke();
  });
  pen.globalAlpha = 1;
}

function drawMarkers(pen, world, { cell, left, top }, colours) {
  const { width, cells } = world;
  const reach = cell * 0.27;
  pen.font = `600 ${Math.round(cell * 0.3)}px system-ui, sans-serif`;
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  for (let index = 0; index < cells.length; index++) {
    const count = cells[index] & COUNT;
    if (!count || cells[index] & WALL) continue;
    const x = left + ((index % width) + 0.5) * cell;
    const y = top + (Math.floor(index / width) + 0.5) * cell;
    pen.fillStyle = colours.marker;
    pen.beginPath();
    pen.moveTo(x, y - reach);
    pen.lineTo(x + reach, y);
    pen.lineTo(x, y + reach);
    pen.lineTo(x - reach, y);
    pen.fill();
    if (count < 2 || cell < MOST_LABELS) continue;
    pen.fillStyle = colours.count;
    pen.fillText(String(count), x, y + cell * 0.015);
  }
}

function drawAgent(pen, world, { cell, left, top }, colours) {
  const index = world.pose >> 2;
  const x = left + ((index % world.width) + 0.5) * cell;
  const y = top + (Math.floor(index / world.width) + 0.5) * cell;
  pen.save();
  pen.translate(x, y);
  pen.rotate(((world.pose & 3) * Math.PI) / 2);
  pen.scale(cell, cell);
  pen.beginPath();
  DART.forEach(([dx, dy], corner) => (corner ? pen.lineTo(dx, dy) : pen.moveTo(dx, dy)));
  pen.closePath();
  pen.lineJoin = "round";
  pen.lineWidth = 0.07;
  pen.strokeStyle = colours.ground;
  pen.stroke();
  pen.fillStyle = colours.agent;
  pen.fill();
  pen.restore();
}
