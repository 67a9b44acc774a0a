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
let looks = 0;
let token = "";

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

/* What has not changed is left as it is, so that it can be read, selected and scrolled. What had the focus keeps it. */
function put(id, value, make) {
  const text = JSON.stringify(value);
  if (shown.get(id) === text) return;
  shown.set(id, text);
  const focused = at(id).contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  at(id).replaceChildren(...make(value));
  if (focused) at(id).querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
  const none = document.querySelector(`[data-for="${id}"]`);
  if (none) {
    none.hidden = at(id).childElementCount > 0;
    at(id).closest("table").hidden = !none.hidden;
  }
}

const row = (...cells) => el("tr", "", ...cells);
const cell = (text, className = "") => el("td", className, text === "" ? NONE : text);

/* What people call a node, and below it its id. */
function named(one, shown = one.node) {
  return one.label ? el("td", "nowrap", one.label, el("span", "sub", shown)) : cell(shown, "nowrap");
}

function line(values) {
  const most = Math.max(...values, 1e-9);
  const points = values.map((value, index) => `${HISTORY - values.length + index},${(19 - 18 * value / most).toFixed(2)}`);
  const first = HISTORY - values.length;
  return drawn("svg", { viewBox: `0 0 ${HISTORY - 1} 20`, preserveAspectRatio: "none", "aria-hidden": "true" },
    drawn("path", { d: `M${first},20 L${points.join(" L")} L${HISTORY - 1},20 Z` }), drawn("polyline", { points: points.join(" ") }));
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
    cell(one.session, "nowrap"), cell(one.protocol, "nowrap"), cell(one.peer, "nowrap"), named(one, one.node.startsWith("anon:") ? "" : one.node),
    cell(count(one.received_frames), "n"), cell(count(one.delivered_frames), "n"), cell(count(one.pending_deliveries), "n"),
    el("td", "act", button("kick", `kick ${one.session}`, () => act("kick", { session: one.session }, said => `kicked ${said.kicked}`))))));
  put("interests", said.standing.shown, interests => interests.map(one => row(
    cell(one.verb, "nowrap"), cell(one.pattern, "code"), cell(one.group ?? ""), named(one, one.subscriber),
    cell(one.expires ? clock(one.expires, 19) : "", "nowrap"))));
  at("sessions-more").textContent = more(said.shown_sessions.length, said.sessions ?? 0, true);
  at("interests-more").textContent = more(said.standing.shown.length, said.standing.count, said.standing.is_whole);
}

function more(some, all, isWhole) {
  return some < all || !isWhole ? `${count(some)} of ${count(all)}${isWhole ? "" : " or more"}` : count(all);
}

function showRejections() {
  put("rejections", rejections.slice(-50).reverse(), rows => rows.map(one => row(
    cell(clock(one.time), "nowrap"), el("td", "nowrap", one.id, " ", traceButton(one.id)), cell(one.reason, "bad nowrap"), cell(one.protocol, "nowrap"),
    cell(one.more.peer ?? "", "nowrap"), cell(one.more.detail ?? ""), cell(one.data, "code cut"),
    el("td", "act", button("redrive", `redrive ${one.id}`, () => act("redrive", { event_id: one.id }, redriven))))));
}

/* -- the tap ---------------------------------------------------------------------------------------------- */

function showTap() {
  const words = at("words").value.toLowerCase();
  const fits = one => !words || JSON.stringify(Object.values({ ...one, ...one.more })).toLowerCase().includes(words);
  put("tap", tapped.filter(fits).slice(-TAPPED).reverse(), rows => rows.map(one => {
    const more = one.more;
    const ends = more.sessions ?? more.addresses ?? (one.node.startsWith("anon:") ? more.peer : one.label || one.node) ?? "";
    const opener = el("button", "nowrap", one.id);
    opener.dataset.key = `open ${one.number}`;
    opener.setAttribute("aria-expanded", "false");
    const made = row(
      cell(clock(one.time), "nowrap"), el("td", "nowrap", opener, " ", traceButton(one.id)), cell(one.protocol, "nowrap"), cell(one.subject || one.reason || (more.kind ?? "")),
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

/* -- what an operator may do ------------------------------------------------------------------------------ */

function button(text, label, done) {
  const made = el("button", "act", text);
  made.type = "button";
  made.dataset.key = label;
  made.setAttribute("aria-label", label);
  made.addEventListener("click", event => { event.stopPropagation(); done(); });
  return made;
}

const traceButton = id => button("trace", `trace ${id}`, () => act("trace", { event_id: id }, showTrace));

/* The token stays in this page's memory: it is gone with the tab, and no other page can read it. */
async function act(name, fields, tell) {
  acted(`${name}: under way`);
  try {
    const answer = await fetch(`live/acts/${name}`, {
      method: "POST", headers: { Authorization: `Bearer ${token}` }, body: JSON.stringify(fields), signal: AbortSignal.timeout(90 * EVERY),
    });
    const said = await answer.json();
    if (answer.status === 401) become("");
    if (!answer.ok) throw new Error(said.error);
    acted(tell(said.done ?? said));
  } catch (error) {
    acted(`${name}: ${error.message}`);
  }
}

function acted(words) {
  at("acted").textContent = words;
  at("acted").hidden = !words;
}

function become(given) {
  token = given;
  document.body.className = token ? "acting" : "";
  at("acting").hidden = !token;
}

const redriven = rows => rows.length
  ? rows.map(one => one.put_in_as ? `${one.event_id} is put in again as ${one.put_in_as}` : `${one.event_id} is left alone: ${one.left_alone}`).join("; ")
  : "nothing to send again";

function showTrace(way) {
  const { raw, event } = way;
  const steps = [
    [raw.received_at, "received", `${raw.bytes} bytes by ${raw.protocol} listener ${raw.listener} of ${raw.edge} from ${raw.session || raw.peer}`],
    [raw.logged_at, "logged", `raw partition ${raw.partition}, offset ${raw.offset}, frame ${raw.index} of ${raw.record_frames}`],
    ...way.rejected.map(one => [one.at, "rejected", `${one.reason} (${one.stage}): ${one.detail}`]),
    ...(event ? [[event.routed_at, "accepted", `${event.kind} ${event.subject} of ${event.node || raw.peer} (${way.auth})`]] : []),
    ...(event || way.rejected.length ? [] : [["", way.verdict, way.repeats ? `of ${way.repeats}` : ""]]),
    ...way.deliveries.flatMap(one => [
      [one.sent_at, "sent", `to ${one.destination}, ${one.bytes} bytes of ${one.protocol}`],
      [one.outcome_at, one.outcome ?? "in flight", `${one.node || one.destination}${one.detail ? `: ${one.detail}` : ""}`],
    ]),
  ];
  at("traced").textContent = `The way of ${way.event_id}`;
  at("steps").replaceChildren(...steps.map(([time, what, how]) => row(cell(time ? clock(time) : "", "nowrap"), cell(what, "nowrap"), cell(how))));
  at("trace").showModal();
  return "";
}

/* -- every second ----------------------------------------------------------------------------------------- */

async function ask(path) {
  const answer = await fetch(path, { signal: AbortSignal.timeout(10 * EVERY) });
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  return answer.json();
}

async function readPictures() {
  if (looks % 5 === 0) {
    const graph = await ask("live/graph");
    put("drawing", graph, drawGraph);
    put("tree", graph, listGraph);
  }
  if (looks % 10 === 0) {
    const hour = await ask("live/hour");
    put("rates", hour, plotRates);
    put("latencies", hour, plotLatencies);
  }
  looks += 1;
}

function showOperator(said) {
  at("operator").hidden = !said.has_operators;
  if (!said.has_operators) become("");
  put("via", said.protocols, protocols => protocols.map(name => el("option", "", name)));
}

/* An edge that was upgraded has another page, too. */
function show(said) {
  version ??= said.version;
  if (version !== said.version) location.reload();
  showParts(said);
  showStages(said.stages);
  showNumbers(said);
  showTables(said);
  showOperator(said);
}

async function look() {
  try {
    show(await ask("live/now"));
    await Promise.all([readRejections(), readTap(), readPictures()]);
    document.querySelector("main").className = "";
  } catch (error) {
    trouble(`the edge does not answer as it should; trying again (${error.message})`);
    document.querySelector("main").className = "stale";
  }
  setTimeout(look, EVERY);
}

at("tapping").addEventListener("submit", event => event.preventDefault());
at("words").addEventListener("input", showTap);
at("operator").addEventListener("submit", event => {
  event.preventDefault();
  become(at("token").value);
  at("token").value = "";
  acted(token ? "what you do from here on is logged with your name" : "");
});
at("publishing").addEventListener("submit", event => {
  event.preventDefault();
  act("publish", { subject: at("subject").value, body: at("body").value, via: at("via").value },
    said => `published ${said.subject}: ${said.bytes} bytes, ${said.outcome}`);
});
at("place").addEventListener("change", () => {
  [place, tapped, read.tap] = [at("place").value, [], 0];
  showTap();
});
look();
