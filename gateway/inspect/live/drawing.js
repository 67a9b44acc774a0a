"use strict";
/* Draws what the page shows as pictures: plots of the last hour, and the mesh as a graph. It asks for nothing itself. */

const SHORTEST_SECONDS = 120;
const DECADES = [0.001, 0.01, 0.1, 1, 10];
const RATES = { received: "received", delivered: "delivered", refused: "refused" };
const LATENCIES = {
  ack_p50: "acknowledge p50", ack_p99: "acknowledge p99", end_to_end_p50: "end to end p50", end_to_end_p99: "end to end p99",
};
const [WIDTH, HEIGHT, LINE, PAD, GAP] = [196, 18, 16, 6, 30];
const [TITLE_LETTERS, SHOWN_LETTERS] = [22, 25];
const COLUMNS = { peer: 0, listener: 1, edge: 2, raw: 3, lane: 4, rules: 4, topic: 5 };
const BACK = 14;

function drawn(tag, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/* -- plots ------------------------------------------------------------------------------------------------ */

/* What the edge has seen so far is as wide as the plot: an hour, once it has run for that long. */
const lastingOf = at => Math.max(SHORTEST_SECONDS, (at.at(-1) ?? 0) - (at[0] ?? 0));

/* A line is broken where nothing was measured. */
function way(values, at, height) {
  const [end, span] = [at.at(-1) ?? 0, lastingOf(at)];
  let pen = "M";
  return values.map((value, index) => {
    if (value === null) { pen = "M"; return ""; }
    const point = `${pen}${(360 - 360 * (end - at[index]) / span).toFixed(1)},${(100 - 100 * height(value)).toFixed(1)}`;
    pen = "L";
    return point;
  }).join("");
}

function plot(hour, names, height, grid, words) {
  const lines = Object.keys(names).map((name, index) => drawn("path", { class: `s${index}`, d: way(hour[name], hour.at, height) }));
  const rules = grid.map(value => drawn("line", { x1: 0, x2: 360, y1: 100 - 100 * height(value), y2: 100 - 100 * height(value) }));
  const svg = drawn("svg", { viewBox: "0 0 360 100", preserveAspectRatio: "none", "aria-hidden": "true" }, ...rules, ...lines);
  const marks = grid.map(value => {
    const mark = el("span", "", words(value));
    mark.style.top = `${(1 - height(value)) * 120}px`;
    return mark;
  });
  const legend = Object.entries(names).map(([name, text], index) => {
    const measured = hour[name].filter(value => value !== null);
    const swatch = drawn("svg", { viewBox: "0 0 26 8", "aria-hidden": "true" }, drawn("path", { class: `s${index}`, d: "M0,4 L26,4" }));
    const numbers = measured.length ? `${words(measured.at(-1))}, at most ${words(Math.max(...measured))}` : NONE;
    return el("li", "", swatch, `${text} ${numbers}`);
  });
  return [el("div", "plot", svg, ...marks), el("div", "ends", el("span", "", `${Math.round(lastingOf(hour.at) / 60)} minutes ago`), el("span", "", "now")), el("ul", "legend", ...legend)];
}

function plotRates(hour) {
  const most = Math.max(1, ...Object.keys(RATES).flatMap(name => hour[name]));
  return plot(hour, RATES, value => 0.94 * value / most, [most], count);
}

function plotLatencies(hour) {
  const most = Math.max(0.01, ...Object.keys(LATENCIES).flatMap(name => hour[name]));
  const top = DECADES.find(decade => decade >= most) ?? 100;
  const height = value => 0.94 * Math.max(0, Math.log10(value / 0.0001) / Math.log10(top / 0.0001));
  return plot(hour, LATENCIES, height, DECADES.filter(decade => decade <= top), lasting);
}

/* -- the graph -------------------------------------------------------------------------------------------- */

/* What leads back to the edges stands lowest, so that its arrow crosses nothing. */
const lowest = (one, other) => (one.id === "egress") - (other.id === "egress");
const column = node => COLUMNS[node.id] ?? COLUMNS[node.kind];
const short = (text, letters) => text.length > letters ? `${text.slice(0, letters - 1)}…` : text;

function placed(nodes) {
  const columns = Array.from({ length: 6 }, (_, number) => nodes.filter(node => column(node) === number).sort(lowest));
  const size = node => 2 * PAD + LINE * node.lines.length;
  const tall = Math.max(...columns.map(some => some.reduce((sum, node) => sum + size(node) + HEIGHT, 0)));
  const boxes = new Map();
  columns.forEach((some, number) => {
    let y = (tall - some.reduce((sum, node) => sum + size(node) + HEIGHT, -HEIGHT)) / 2;
    for (const node of some) {
      boxes.set(node.id, { x: 1 + number * (WIDTH + GAP), y, height: size(node), node });
      y += size(node) + HEIGHT;
    }
  });
  return { boxes, tall };
}

/* From side to side; what leads back over more than one column runs below everything. */
function arrow(from, to, tall) {
  const leads = column(to.node) - column(from.node);
  const [start, end] = leads > 0 ? [from.x + WIDTH, to.x] : [from.x, to.x + WIDTH];
  const [y1, y2] = [from.y + from.height / 2, to.y + to.height / 2];
  if (leads >= -1) return `M${start},${y1} C${(start + end) / 2},${y1} ${(start + end) / 2},${y2} ${end},${y2}`;
  const [x1, x2, below] = [from.x + WIDTH / 2, to.x + WIDTH / 2, tall + BACK];
  return `M${x1},${from.y + from.height} V${below} H${x2} V${to.y + to.height}`;
}

function drawGraph({ nodes, arrows }) {
  const { boxes, tall } = placed(nodes);
  const lines = arrows.filter(one => boxes.has(one.start) && boxes.has(one.end)).map(one => drawn("path", {
    d: arrow(boxes.get(one.start), boxes.get(one.end), tall), "marker-end": "url(#tip)", ...(one.both && { "marker-start": "url(#tip)" }),
  }));
  const tip = drawn("marker", { id: "tip", viewBox: "0 0 8 8", refX: 8, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto-start-reverse" },
    drawn("path", { d: "M0,0 L8,4 L0,8 Z" }));
  const shapes = [...boxes.values()].map(({ x, y, height, node }) => drawn("g", { class: node.up ? "" : "down" },
    drawn("title", {}, node.lines.join("\n")),
    drawn("rect", { x, y, width: WIDTH, height, rx: 5 }),
    ...node.lines.map((text, index) => drawn("text", { x: x + PAD, y: y + PAD + LINE * (index + 0.75), class: index ? "" : "first" },
      short(text, index ? SHOWN_LETTERS : TITLE_LETTERS)))));
  const wide = 2 + 6 * WIDTH + 5 * GAP;
  return [drawn("svg", { viewBox: `0 0 ${wide} ${tall + BACK + 2}` }, drawn("defs", {}, tip), ...lines, ...shapes)];
}

/* The same as a list: edges with their listeners and peers, then what lies between them. */
function listGraph({ nodes, arrows }) {
  const ends = new Map(arrows.map(one => [one.start, one.end]));
  const item = (node, below = []) => el("li", "",
    el("span", "", node.lines[0] + (node.up ? "" : " (does not answer)")), el("span", "sub", node.lines.slice(1).join(" · ")),
    ...(below.length ? [el("ul", "", ...below)] : []));
  const kind = name => nodes.filter(node => node.kind === name);
  const peersOf = listener => kind("peer").filter(peer => ends.get(peer.id) === listener.id).map(peer => item(peer));
  const edges = kind("edge").map(edge => item(edge,
    kind("listener").filter(one => one.within === edge.id).map(listener => item(listener, peersOf(listener)))));
  return [...edges, ...["lane", "topic", "rules"].flatMap(name => kind(name).map(node => item(node)))];
}
