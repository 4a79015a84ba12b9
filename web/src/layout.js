// Where the modes of a machine stand and which way its transitions go.
import dagre from "@dagrejs/dagre";

const CHARACTER = 7.6; // pixels, about
const HEIGHT = 34;
const TIP = 8; // length of an arrow's head
const LOOP = 30; // how far a loop leaves its node
const SHARE = 30; // and how much room its probability takes
const BEND = 0.55; // how far an edge of a ring leans to the middle
const APART = 14; // pixels that the two edges of a pair of nodes lean from each other
const GAP = 16; // pixels between neighbours of a ring
const CLOSEST = 1.05; // their sizes with this gap, that their middles are apart

/** Lay out `nodes` (`id`, `label`) and `edges` (`from`, `to`); `across`: from left to right. */
export function layOut(nodes, edges, across) {
  const graph = new dagre.graphlib.Graph({ multigraph: false });
  graph.setGraph({
    rankdir: across ? "LR" : "TB",
    nodesep: 40,
    edgesep: 16,
    ranksep: 46,
    marginx: edges.some(({ from, to }) => from === to) ? LOOP + SHARE : 14,
    marginy: 14,
  });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const { id, label } of nodes) {
    graph.setNode(String(id), { width: widthOf(label), height: HEIGHT });
  }
  for (const { from, to } of edges)
    if (from !== to) graph.setEdge(String(from), String(to), { width: 30, height: 14 });
  dagre.layout(graph);
  const { width, height } = graph.graph();
  return {
    width,
    height,
    nodes: nodes.map((node) => ({ ...node, ...graph.node(String(node.id)) })),
    edges: edges.map((edge) =>
      edge.from === edge.to
        ? looped(edge, graph.node(String(edge.from)))
        : placed(edge, graph.edge(String(edge.from), String(edge.to))),
    ),
  };
}

function widthOf(label) {
  return Math.max(58, label.length * CHARACTER + 26);
}

/** The same on an ellipse that fills a box of `width` x `height`, clockwise in the order given. */
export function layRound(nodes, edges, { width, height }) {
  const sizes = nodes.map(({ label }) => widthOf(label));
  const widest = Math.max(...sizes);
  const side = widest / 2 + LOOP + SHARE;
  const { a, b, angles } = spread(nodes.length, width / 2 - side, height / 2 - HEIGHT, widest);
  const centre = { x: a + side, y: b + HEIGHT };
  const placedNodes = nodes.map(({ id, label }, n) => {
    const [x, y] = [centre.x + a * Math.sin(angles[n]), centre.y - b * Math.cos(angles[n])];
    return { id, label, x, y, width: sizes[n], height: HEIGHT };
  });
  const node = new Map(placedNodes.map((one) => [one.id, one]));
  const pairs = new Set(edges.map(({ from, to }) => `${from}>${to}`));
  return {
    width: 2 * centre.x,
    height: 2 * centre.y,
    nodes: placedNodes,
    edges: edges.map((edge) => {
      const [from, to] = [node.get(edge.from), node.get(edge.to)];
      if (from === to) return looped(edge, from, from.x < centre.x - 1 ? -1 : 1);
      const apart = pairs.has(`${edge.to}>${edge.from}`) ? APART : 0;
      return bent(edge, from, to, centre, apart);
    }),
  };
}

/** Angles at which nodes stand equally far apart, each taking its width and height; and radii. */
function spread(count, a, b, widest) {
  const [across, down] = [widest + GAP, HEIGHT + GAP];
  const [wide, high] = [Math.max(a, across), Math.max(b, down)];
  const fine = Array.from({ length: 721 }, (_, n) => (2 * Math.PI * n) / 720);
  const along = [0];
  for (let n = 1; n < fine.length; n++) {
    const dx = (wide * (Math.sin(fine[n]) - Math.sin(fine[n - 1]))) / across;
    const dy = (high * (Math.cos(fine[n]) - Math.cos(fine[n - 1]))) / down;
    along.push(along[n - 1] + Math.hypot(dx, dy));
  }
  const round = along[along.length - 1];
  const angles = Array.from({ length: count }, (_, n) => {
    const wanted = (round * n) / count;
    return fine[along.findIndex((reached) => reached >= wanted)];
  });
  const grown = Math.max(1, (CLOSEST * count) / round);
  return { a: grown * wide, b: grown * high, angles };
}

/** An edge between two nodes of a ring, `apart` pixels beside the straight line. */
function bent(edge, from, to, centre, apart) {
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const long = Math.hypot(dx, dy) || 1;
  const lean = BEND * Math.min(1, (1.6 * long) / (centre.x + centre.y));
  const between = { x: (from.x + to.x) / 2, y: (from.y + to.y) / 2 };
  const over = {
    x: between.x + lean * (centre.x - between.x) - (apart * dy) / long,
    y: between.y + lean * (centre.y - between.y) + (apart * dx) / long,
  };
  return placed(edge, { points: [border(from, over), over, border(to, over)] });
}

/** Where the line from a node's middle to a point leaves the node. */
function border({ x, y, width, height }, point) {
  const [dx, dy] = [point.x - x, point.y - y];
  const part = Math.min(width / 2 / Math.abs(dx || 1e-9), height / 2 / Math.abs(dy || 1e-9));
  return { x: x + part * dx, y: y + part * dy };
}

/** An edge from a node to itself: a loop at its right side (`by` 1) or its left one (-1). */
function looped(edge, { x, y, width }, by = 1) {
  const [side, out, half] = [x + (by * width) / 2, x + by * (width / 2 + LOOP), HEIGHT / 4];
  const stop = `${side + by * 0.92 * TIP} ${y + half + 0.38 * TIP}`;
  const way = `M${side} ${y - half}C${out} ${y - 2.6 * half} ${out} ${y + 2.6 * half} ${stop}`;
  return {
    ...edge,
    way,
    tip: arrowHead({ x: side, y: y + half }, by > 0 ? Math.PI * 1.12 : -Math.PI * 0.12),
    middle: { x: side + by * (0.75 * LOOP + SHARE / 2), y },
  };
}

function placed(edge, { points }) {
  const end = points[points.length - 1];
  const before = points[points.length - 2];
  const angle = Math.atan2(end.y - before.y, end.x - before.x);
  const stop = { x: end.x - TIP * Math.cos(angle), y: end.y - TIP * Math.sin(angle) };
  const way = smooth([...points.slice(0, -1), stop]);
  return { ...edge, way, tip: arrowHead(end, angle), middle: middleOf(points) };
}

/** The point of a smooth curve that is nearest the middle corner of its polyline. */
function middleOf(points) {
  const n = points.length >> 1;
  const [before, corner, after] = [points[n - 1], points[n], points[n + 1] ?? points[n]];
  const share = (one, two, three) => one / 8 + (3 * two) / 4 + three / 8;
  return { x: share(before.x, corner.x, after.x), y: share(before.y, corner.y, after.y) };
}

/** A curve through the midpoints of a polyline, tangent to it. */
function smooth(points) {
  const at = ({ x, y }) => `${x.toFixed(1)} ${y.toFixed(1)}`;
  let path = `M${at(points[0])}`;
  for (let i = 1; i < points.length - 1; i++) {
    const next = points[i + 1];
    const isLast = i === points.length - 2;
    const to = isLast ? next : { x: (points[i].x + next.x) / 2, y: (points[i].y + next.y) / 2 };
    path += `Q${at(points[i])} ${at(to)}`;
  }
  return points.length === 2 ? `${path}L${at(points[1])}` : path;
}

function arrowHead({ x, y }, angle) {
  const corner = (turn) => {
    const dx = Math.cos(angle + turn) * TIP * 1.15;
    const dy = Math.sin(angle + turn) * TIP * 1.15;
    return `${(x - dx).toFixed(1)} ${(y - dy).toFixed(1)}`;
  };
  return `M${x.toFixed(1)} ${y.toFixed(1)}L${corner(0.42)}L${corner(-0.42)}Z`;
}
