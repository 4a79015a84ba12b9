// Where the modes of a machine stand and which way its transitions go.
import dagre from "@dagrejs/dagre";

const CHARACTER = 7.6; // pixels, about
const HEIGHT = 34;
const TIP = 8; // length of an arrow's head
const LOOP = 30; // how far a loop leaves its node

/** Lay out `nodes` (`id`, `label`) and `edges` (`from`, `to`); `across`: from left to right. */
export function layOut(nodes, edges, across) {
  const graph = new dagre.graphlib.Graph({ multigraph: false });
  graph.setGraph({
    rankdir: across ? "LR" : "TB",
    nodesep: 40,
    edgesep: 16,
    ranksep: 46,
    marginx: edges.some(({ from, to }) => from === to) ? LOOP + 8 : 14,
    marginy: 14,
  });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const { id, label } of nodes) {
    const width = Math.max(58, label.length * CHARACTER + 26);
    graph.setNode(String(id), { width, height: HEIGHT });
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

/** An edge from a node to itself: a loop at its right side. */
function looped(edge, { x, y, width }) {
  const [right, out, half] = [x + width / 2, x + width / 2 + LOOP, HEIGHT / 4];
  const way = `M${right} ${y - half}C${out} ${y - 2.6 * half} ${out} ${y + 2.6 * half} ${right + 0.92 * TIP} ${y + half + 0.38 * TIP}`;
  return {
    ...edge,
    way,
    tip: arrowHead({ x: right, y: y + half }, Math.PI * 1.12),
    middle: { x: out + 2, y },
  };
}

function placed(edge, { points }) {
  const end = points[points.length - 1];
  const before = points[points.length - 2];
  const angle = Math.atan2(end.y - before.y, end.x - before.x);
  const stop = { x: end.x - TIP * Math.cos(angle), y: end.y - TIP * Math.sin(angle) };
  const way = smooth([...points.slice(0, -1), stop]);
  return { ...edge, way, tip: arrowHead(end, angle), middle: points[points.length >> 1] };
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
