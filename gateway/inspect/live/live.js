"use strict";
/* Asks the edge every second, and shows what it says. All text of peers goes in as text, never as markup. */

const EVERY = 1000;
const HISTORY = 60;
const TAPPED = 200;
const NONE = "–";
const STAGES = { received: ["refused", "dropped"], logged: [], decoded: ["rejected", "duplicates"], events: [], routed: [], delivered: ["undelivered"] };
const LOST = { refused: "refused", dropped: "dropped", rejected: "rejected", duplicates: "repeats", undelivered: "undelivered" };
const LATENCY = { acknowledge: "acknowledge", produce: "of it, Kafka", route: "through the router", end_to_end: "end to end" };
const LAG = {
  raw_records: "records to route", egress_records: "records to deliver", queued_deliveries: "deliveries", in_flight_bytes: "bytes to log",
  requests: "open requests", last_commit_seconds: "since the last commit",
};

const at = id => document.getElementById(id);
const history = Object.fromEntries(Object.keys(STAGES).map(name => [name, []]));
const shown = new Map();
const read = { tap: 0, rejections: 0 };
let version = null;
let place = "events";
let tapped = [];
let rejections = [];

/* -- numbers ---------------------------------------------------------------------------------------------- */

function count(value) {
  if (value === null || value === undefined) return NONE;
  for (const [step, unit] of [[1e9, "G"], [1e6, "M"], [1e5, "k"]]) {
    if (value >= step) return (value / (unit === "k" ? 1e3 : step)).toPrecision(3) + unit;
  }
  if (Number.isInteger(value) || value >= 100) return Math.floor(value).toLocaleString("en");
  return value >= 1 ? value.toFixed(1) : String(Number(value.toPrecision(2)));
}

function lasting(seconds) {
  if (seconds === null || seconds === undefined) return NONE;
  if (seconds >= 1) return `${Number(seconds.toPrecision(3))} s`;
  return `${(seconds * 1e3).toPrecision(seconds >= 0.01 ? 3 : 2).replace(/\.0+$/, "")} ms`;
}

const percent = share => share < 0.005 ? "<1 %" : `${Math.round(100 * share)} %`;
/* As the mesh writes it, in UTC: what is shown of it says so. */
const clock = (time, to = 23) => `${time.slice(11, to).replace("Z", "")}Z`;

/* -- the document ----------------------------------------------------------------------------------------- */

function el(tag, className, ...children) {
  const made = document.createElement(tag);
  made.className = className;
  made.append(...children.map(child => child ?? NONE));
  return made;
}

/* What has not changed is left as it is, so that it can be read, selected and scrolled. */
function put(id, value, make) {
  const text = JSON.stringify(value);
  if (shown.get(id) === text) return;
  shown.set(id, text);
  at(id).replaceChildren(...make(value));
  const none = document.querySelector(`[data-for="${id}"]`);
  if (none) {
    none.hidden = at(id).childElementCount > 0;
    at(id).closest("table").hidden = !none.hidden;
  }
}

const row = (...cells) => el("tr", "", ...cells);
const cell = (text, className = "") => el("td", className, text === "" ? NONE : text);

function line(values) {
  const most = Math.max(...values, 1e-9);
  const points = values.map((value, index) => `${HISTORY - values.length + index},${(19 - 18 * value / most).toFixed(2)}`);
  const drawing = (tag, attributes) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    return made;
  };
  const svg = drawing("svg", { viewBox: `0 0 ${HISTORY - 1} 20`, preserveAspectRatio: "none", "aria-hidden": "true" });
  const first = HISTORY - values.length;
  svg.append(drawing("path", { d: `M${first},20 L${points.join(" L")} L${HISTORY - 1},20 Z` }), drawing("polyline", { points: points.join(" ") }));
  return svg;
}

/* -- what is shown ---------------------------------------------------------------------------------------- */

function showStages(stages) {
  at("stages").replaceChildren(...Object.entries(STAGES).map(([name, losses]) => {
    const { per_second: rate, total } = stages[name];
    history[name] = [...history[name], rate ?? 0].slice(-HISTORY);
    const lost = losses.filter(loss => stages[loss].total).map(loss => `${LOST[loss]} ${count(stages[loss].per_second)}`);
    const some = losses.some(loss => stages[loss].per_second > 0);
    return el("li", "",
      el("div", "name", name), el("div", "rate", count(rate)), line(history[name]),
      el("div", "total", `${count(total)} since start`), el("div", some ? "lost some" : "lost", lost.join(" · ")));
  }));
}

function showNumbers(said) {
  at("latency").replaceChildren(...Object.entries(LATENCY).map(([name, words]) => {
    const { p50_seconds: half, p99_seconds: most } = said.latency[name];
    return el("div", "", el("dt", "", words), el("dd", "", half === null ? NONE : `${lasting(half)} · ${lasting(most)}`));
  }));
  at("lag").replaceChildren(...Object.entries(LAG).map(([name, words]) => {
    const value = said.lag[name];
    return el("div", "", el("dt", "", words), el("dd", "", name.endsWith("_seconds") ? lasting(value) : count(value)));
  }));
}

/* Of an edge in a cluster the router may be out of reach, so that is no alarm. */
function showParts(said) {
  const lanes = Object.values(said.realtime);
  const mode = lanes.length === 0 ? "starting" : lanes.every(Boolean) ? "real time" : lanes.some(Boolean) ? "partly real time" : "micro-batch";
  const away = said.missing["the router"] ?? "";
  const router = away ? ["part away", `no word of the router: ${away}`] : [lanes.length ? "part" : "part coming", `router, ${mode}`];
  put("parts", [said.edge, router], () => [el("span", "part", said.edge), el("span", ...router)]);
  at("mesh").textContent = said.mesh;
  at("at").textContent = `${said.at.slice(0, 10)} ${clock(said.at, 19)}`;
  document.title = `${said.mesh} · Meshgate`;
  trouble(said.trouble);
  at("away").textContent = said.away.map(one => `${one.what}: ${one.why}`).join("\n");
  at("away").hidden = said.away.length === 0;
}

function trouble(words) {
  at("trouble").textContent = words;
  at("trouble").hidden = !words;
}

function bar(text, share) {
  const made = cell(text, "bar");
  made.style.setProperty("--share", `${(100 * share).toFixed(1)}%`);
  return made;
}

function showTables(said) {
  put("listeners", said.listeners, listeners => listeners.map(one => row(
    cell(one.listener), cell(one.protocol), cell(count(one.sessions), "n"), cell(count(one.received.per_second), "n"),
    cell(count(one.delivered.per_second), "n"), cell(count(one.refused.per_second), one.refused.per_second > 0 ? "n bad" : "n"),
    cell(lasting(one.p50_seconds), "n"), cell(lasting(one.p99_seconds), "n"))));
  put("subjects", said.subjects, subjects => subjects.map(one =>
    row(bar(one.subject, one.share), cell(count(one.per_second), "n"), cell(percent(one.share), "n"))));
  put("reasons", said.rejected, reasons => reasons.map(one => row(
    cell(one.reason), cell(one.where), cell(count(one.per_second), one.per_second > 0 ? "n bad" : "n"), cell(count(one.total), "n"))));
  put("sessions", said.shown_sessions, sessions => sessions.map(one => row(
    cell(one.session, "nowrap"), cell(one.protocol, "nowrap"), cell(one.peer, "nowrap"), cell(one.node.startsWith("anon:") ? "" : one.node, "nowrap"),
    cell(count(one.received_frames), "n"), cell(count(one.delivered_frames), "n"), cell(count(one.pending_deliveries), "n"))));
  put("interests", said.standing.shown, interests => interests.map(one => row(
    cell(one.verb, "nowrap"), cell(one.pattern, "code"), cell(one.group ?? ""), cell(one.subscriber, "nowrap"),
    cell(one.expires ? clock(one.expires, 19) : "", "nowrap"))));
  at("sessions-more").textContent = more(said.shown_sessions.length, said.sessions ?? 0, true);
  at("interests-more").textContent = more(said.standing.shown.length, said.standing.count, said.standing.is_whole);
}

function more(some, all, isWhole) {
  return some < all || !isWhole ? `${count(some)} of ${count(all)}${isWhole ? "" : " or more"}` : count(all);
}

function showRejections() {
  put("rejections", rejections.slice(-50).reverse(), rows => rows.map(one => row(
    cell(clock(one.time), "nowrap"), cell(one.id, "nowrap"), cell(one.reason, "bad nowrap"), cell(one.protocol, "nowrap"),
    cell(one.more.peer ?? "", "nowrap"), cell(one.more.detail ?? ""), cell(one.data, "code cut"))));
}

/* -- the tap ---------------------------------------------------------------------------------------------- */

function showTap() {
  const words = at("words").value.toLowerCase();
  const fits = one => !words || JSON.stringify(Object.values({ ...one, ...one.more })).toLowerCase().includes(words);
  put("tap", tapped.filter(fits).slice(-TAPPED).reverse(), rows => rows.map(one => {
    const more = one.more;
    const ends = more.sessions ?? more.addresses ?? (one.node.startsWith("anon:") ? more.peer : one.node) ?? "";
    const opener = el("button", "nowrap", one.id);
    opener.setAttribute("aria-expanded", "false");
    const made = row(
      cell(clock(one.time), "nowrap"), el("td", "nowrap", opener), cell(one.protocol, "nowrap"), cell(one.subject || one.reason || (more.kind ?? "")),
      cell(ends), cell(count(one.bytes), "n"), cell(one.data, "code cut"));
    made.addEventListener("click", () => opener.setAttribute("aria-expanded", String(unfold(made, one))));
    return made;
  }));
}

/* Returns whether it is unfolded now. */
function unfold(folded, one) {
  if (folded.nextElementSibling?.dataset.of === String(one.number)) {
    folded.nextElementSibling.remove();
    return false;
  }
  const { number, more, ...known } = one;
  const whole = el("td", "", el("pre", "", JSON.stringify({ ...known, ...more }, null, 2)));
  whole.colSpan = folded.cells.length;
  const below = row(whole);
  below.dataset.of = String(number);
  folded.after(below);
  return true;
}

async function readTap() {
  if (at("held").checked) return;
  const asked = place;
  const said = await ask(`live/rows?at=${asked}&after=${read.tap}`);
  if (asked !== place) return;
  read.tap = said.rows.at(-1)?.number ?? read.tap;
  tapped = [...tapped, ...said.rows].slice(-TAPPED);
  at("tap-more").textContent = said.skipped ? `${count(said.skipped)} records were not looked at` : "";
  showTap();
}

async function readRejections() {
  const said = await ask(`live/rows?at=rejected&after=${read.rejections}`);
  read.rejections = said.rows.at(-1)?.number ?? read.rejections;
  rejections = [...rejections, ...said.rows].slice(-TAPPED);
  showRejections();
}

/* -- every second ----------------------------------------------------------------------------------------- */

async function ask(path) {
  const answer = await fetch(path, { signal: AbortSignal.timeout(10 * EVERY) });
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  return answer.json();
}

/* An edge that was upgraded has another page, too. */
function show(said) {
  version ??= said.version;
  if (version !== said.version) location.reload();
  showParts(said);
  showStages(said.stages);
  showNumbers(said);
  showTables(said);
}

async function look() {
  try {
    show(await ask("live/now"));
    await Promise.all([readRejections(), readTap()]);
    document.querySelector("main").className = "";
  } catch (error) {
    trouble(`the edge does not answer as it should; trying again (${error.message})`);
    document.querySelector("main").className = "stale";
  }
  setTimeout(look, EVERY);
}

at("tapping").addEventListener("submit", event => event.preventDefault());
at("words").addEventListener("input", showTap);
at("place").addEventListener("change", () => {
  [place, tapped, read.tap] = [at("place").value, [], 0];
  showTap();
});
look();
