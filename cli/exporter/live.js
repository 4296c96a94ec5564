"use strict";
// Text of users goes into the page as text nodes only.
const at = id => document.getElementById(id);
const make = (tag, kind, text) => {
  const element = document.createElement(tag);
  if (kind) element.className = kind;
  if (text !== undefined && text !== null) element.textContent = String(text);
  return element;
};
const two = n => String(n).padStart(2, "0");
const clock = s => {
  const d = new Date(s * 1000), today = new Date().toDateString() === d.toDateString();
  const time = two(d.getHours()) + ":" + two(d.getMinutes()) + ":" + two(d.getSeconds());
  return today ? time : d.getFullYear() + "-" + two(d.getMonth() + 1) + "-" + two(d.getDate()) + " " + time;
};
const span = s => {
  s = Math.max(0, Math.round(s));
  if (s < 60) return s + " s";
  if (s < 3600) return Math.floor(s / 60) + " min " + two(s % 60) + " s";
  if (s < 86400) return Math.floor(s / 3600) + " h " + two(Math.floor(s % 3600 / 60)) + " min";
  return Math.floor(s / 86400) + " d " + Math.floor(s % 86400 / 3600) + " h";
};
const counted = (n, thing) => n + " " + thing + (n === 1 ? "" : "s");
const none = text => make("p", "none", text);

// columns: [title, kind, text of a row]; key: of a row; the cells that changed since the last look are marked.
let seen = {};
function table(id, columns, rows, key, empty) {
  const box = at(id), before = seen[id], now = {};
  seen[id] = now;
  if (!rows.length) { box.replaceChildren(none(empty)); return; }
  const head = make("tr"), body = make("tbody");
  for (const [title, kind] of columns) head.append(make("th", kind === "n" ? "n" : "", title));
  for (const row of rows) {
    const line = make("tr");
    for (const [title, kind, text] of columns) {
      const words = text(row), name = key(row) + " " + title, cell = make("td", kind, words);
      now[name] = String(words ?? "");
      if (before && kind === "why" && before[name] !== now[name]) cell.classList.add("new");
      if (kind === "name") cell.title = String(words ?? "");
      if (title) cell.dataset.title = title;
      line.append(cell);
    }
    body.append(line);
  }
  const all = make("table"), top = make("thead"), scroll = make("div", "scroll");
  top.append(head);
  all.append(top, body);
  scroll.append(all);
  box.replaceChildren(scroll);
}

function pools(list) {
  const cards = list.map(p => {
    const card = make("div", "pool"), bar = make("div", "bar"), busy = p.gpus - p.free - p.down;
    card.append(make("strong", "", p.gpu_type || "no type"));
    card.append(" " + counted(p.gpus, "GPU") + " on " + counted(p.nodes, "node"));
    for (const [kind, n] of [["busy", busy], ["free", p.free], ["down", p.down]]) {
      const part = make("span", kind);
      part.style.width = (p.gpus ? 100 * n / p.gpus : 0) + "%";
      bar.append(part);
    }
    bar.setAttribute("role", "img");
    bar.setAttribute("aria-label", busy + " busy, " + p.free + " free, " + p.down + " down");
    const words = [busy + " busy", p.free + " free"];
    if (p.down) words.push(p.down + " down");
    if (p.lent) words.push(p.lent + " lent by inference");
    if (p.slow_nodes) words.push(counted(p.slow_nodes, "slow node"));
    card.append(bar, words.join(", "));
    return card;
  });
  at("pools").replaceChildren(...(cards.length ? cards : [none("No round has looked at the cluster yet.")]));
}

function nodes(d) {
  at("nodes-box").hidden = !d.nodes.length;
  at("nodes-title").textContent = counted(d.nodes_in_all, "node") +
    (d.nodes.length < d.nodes_in_all ? ", the first " + d.nodes.length : "");
  at("nodes").replaceChildren(...d.nodes.map(n => {
    const kind = !n.up ? " is-down" : n.why ? " is-slow" : n.lent ? " is-lent" : n.free === n.gpus ? " is-free" : "";
    const words = n.node + " " + n.gpu_type + " " + (n.gpus - n.free) + "/" + n.gpus + " busy" + (n.up ? "" : ", down") +
      (n.lent ? ", lent " + n.lent : "") + (n.returning_s ? ", back by " + clock(n.returning_s) : "") + (n.why ? ", " + n.why : "") + (n.watch ? ", to be watched: " + n.watch : "");
    return make("span", "node" + kind, words);
  }));
}

// ---- the map: nodes by leaf switch or block, a square for each GPU, in the colour of its job ----
const hue = job => Math.round(job * 137.508 % 360);
const paint = (element, job, ours) => {
  if (ours.has(job)) element.style.setProperty("--hue", hue(job));
  element.className = "gpu " + (ours.has(job) ? "ours" : "ordinary");
};
const asleep = n => n.up && n.boot_s > 0;
function words(n, ours) {
  const jobs = (n.jobs || []).map(j => counted(j.gpus, "GPU") + " of " + (ours.has(j.job) ? "job " : "ordinary job ") + j.job +
    (ours.get(j.job) ? " (" + ours.get(j.job) + ")" : ""));
  return [n.node + ", " + n.gpu_type, n.up ? "" : "down", asleep(n) ? "asleep, up within " + span(n.boot_s) : "", ...jobs,
    n.up ? n.free + " of " + counted(n.gpus, "GPU") + " free" : "", n.lent ? "lent by inference: " + n.lent : "", n.why || "", n.watch ? "to be watched: " + n.watch : ""].filter(Boolean).join("\n");
}
function cell(n, ours) {
  const box = make("div", "cell" + (!n.up ? " is-down" : asleep(n) ? " is-asleep" : "") + (n.lent ? " is-lent" : "") + (n.why ? " is-slow" : ""));
  const gpus = [];
  for (const j of n.jobs || []) for (let i = 0; i < j.gpus && gpus.length < n.gpus; ++i) { const g = make("i"); paint(g, j.job, ours); gpus.push(g); }
  const busy = n.up ? n.gpus - n.free : 0;
  while (gpus.length < busy) gpus.push(make("i", "gpu ordinary"));
  while (gpus.length < n.gpus) gpus.push(make("i", "gpu"));
  const row = make("span", "gpus");
  row.append(...gpus);
  box.append(make("b", "", n.node), row);
  box.title = words(n, ours);
  return box;
}
// Where the network is flat, by GPU type.
const home = n => n.below && n.below.length ? n.below.slice(-2) : [n.gpu_type];
function leaves(nodes) {
  const found = new Map();
  for (const n of nodes) {
    const path = home(n), key = path.join(" ");
    if (!found.has(key)) found.set(key, { path, nodes: [] });
    found.get(key).nodes.push(n);
  }
  return [...found.values()];
}
let drawn = "";
function map(d, ours) {
  const shown = JSON.stringify([d.nodes, [...ours]]);
  if (shown === drawn) return;   // a new element would take a tooltip away
  drawn = shown;
  const groups = leaves(d.nodes), pods = new Set(groups.map(g => g.path.length > 1 ? g.path[0] : ""));
  at("map").replaceChildren(...groups.map(g => {
    const box = make("div", "leaf"), free = g.nodes.reduce((sum, n) => sum + (n.up ? n.free : 0), 0);
    const gpus = g.nodes.reduce((sum, n) => sum + n.gpus, 0), cells = make("div", "cells");
    box.append(make("h3", "", (pods.size > 1 ? g.path.join(" / ") : g.path[g.path.length - 1]) + ": " + free + " of " + gpus + " free"));
    cells.append(...g.nodes.map(n => cell(n, ours)));
    box.append(cells);
    return box;
  }));
  const kinds = [["gpu ours", "a colour for each job of Arena's"], ["gpu ordinary", "ordinary job"], ["gpu", "free"], ["cell is-asleep", "asleep"],
    ["cell is-down", "down"], ["cell is-lent", "lent by inference"], ["cell is-slow", "slow, or avoided"]];
  at("legend").replaceChildren(...(d.nodes.length ? kinds.map(([kind, text]) => { const s = make("span"); s.append(make("i", kind), text); return s; }) : []));
}

// ---- times: what ran in the last day, what runs and until when, what is expected to start ----
const day = 86400;
function runs(d) {
  const rows = [];
  const row = (j, kind) => ({ job: j.job, name: j.name || "", bars: (j.ran || []).map(([from, to]) => ({ from, to, kind: "ran", text: "ran" })), kind });
  for (const j of d.running) {
    const r = row(j, 0);
    if (j.start_s) r.bars.push({ from: j.start_s, to: d.now_s, kind: "runs", text: "runs on " + [j.grid, (j.nodes || []).join(" ")].filter(Boolean).join(", ") });
    if (j.expected_end_s > d.now_s) r.bars.push({ from: d.now_s, to: j.expected_end_s, kind: "goes-on", text: "expected to run" });
    rows.push(r);
  }
  for (const j of d.waiting) {
    const r = row(j, 1);
    if (j.expected_start_s) {
      const from = Math.max(j.expected_start_s, d.now_s);
      r.bars.push({ from, to: Math.max(j.expected_end_s || 0, from), kind: "expected", text: "expected to run with " + planned(j) });
    }
    if (j.ends_by_s) r.bars.push({ from: j.ends_by_s, to: j.ends_by_s, kind: "promise", text: "promised to have ended" });
    rows.push(r);
  }
  for (const j of d.over || []) rows.push(row(j, 2));
  return rows.filter(r => r.bars.length);
}
const steps = [60, 300, 900, 1800, 3600, 10800, 21600, 43200, day];
let timed = "";
function times(d) {
  const all = runs(d), rows = all.slice(0, 40), bars = rows.flatMap(r => r.bars);
  at("times-box").hidden = !rows.length;
  const shown = JSON.stringify([Math.floor(d.now_s / 10), all.map(r => [r.job, r.kind, r.bars.length])]);
  if (!rows.length || shown === timed) return;   // as for the map
  timed = shown;
  const first = Math.max(d.now_s - day, Math.min(d.now_s - 60, ...bars.map(b => b.from)));
  const last = Math.min(d.now_s + day, Math.max(d.now_s + 60, ...bars.map(b => b.to)));
  const place = t => 100 * (Math.min(Math.max(t, first), last) - first) / (last - first);
  const step = steps.find(s => (last - first) / s <= 8) || day;
  const axis = make("div", "axis"), names = make("div", "track");
  const zone = new Date(d.now_s * 1000).getTimezoneOffset() * 60;
  for (let t = Math.ceil((first - zone) / step) * step + zone; t <= last; t += step) {
    const tick = make("span", "tick", clock(t).slice(-8, -3));
    tick.style.left = place(t) + "%";
    names.append(tick);
  }
  axis.append(make("span", "who"), names);
  const now = () => { const line = make("span", "now"); line.style.left = place(d.now_s) + "%"; return line; };
  const lines = rows.map(r => {
    const line = make("div", "line"), track = make("div", "track"), label = make("span", "who", r.job + (r.name ? " " + r.name : ""));
    label.title = label.textContent;
    for (const b of r.bars) {
      if (b.to < first || b.from > last) continue;
      const bar = make("span", "bar-" + b.kind), left = place(b.from);
      bar.style.left = left + "%";
      if (b.kind !== "promise") bar.style.width = Math.max(place(b.to) - left, .25) + "%";
      bar.style.setProperty("--hue", hue(r.job));
      bar.title = "job " + r.job + " " + b.text + (b.kind === "promise" ? " by " + clock(b.from) : ", " + clock(b.from) + " to " + clock(b.to) + ", " + span(b.to - b.from));
      track.append(bar);
    }
    track.append(now());
    line.append(label, track);
    return line;
  });
  at("times").replaceChildren(axis, ...lines);
  const kinds = [["bar-runs", "ran"], ["bar-goes-on", "expected to go on"], ["bar-expected", "expected"], ["bar-promise", "promised end"]];
  at("times-legend").replaceChildren(...kinds.map(([kind, text]) => { const s = make("span"); s.append(make("i", kind), text); return s; }),
    rows.length < all.length ? "the first " + rows.length + " of " + counted(all.length, "job") : "");
}

const hidden = "PrivateData in slurm.conf hides them here; arena queue and arena history show you your own.";
const who = j => j.user || j.uid;
// These say no more than its speed does; other reasons have the speed themselves.
const says_nothing = new Set(["its fastest shape", "its only shape", "fastest offer that fits now"]);
const why = j => {
  const reason = j.reason || "", speed = reason.includes("times as fast") ? "" : j.speed;
  return [speed, ...reason.split("; ").filter(part => !says_nothing.has(part))].filter(Boolean).join("; ");
};
const shape = j => [[j.grid, j.plan].filter(Boolean).join(" "), j.span].filter(Boolean).join(", ");
const planned = j => [j.expected_grid, j.expected_span].filter(Boolean).join(" ");
const expected = (j, now) => {
  const promise = j.ends_by_s ? "ends by " + clock(j.ends_by_s) + " at the latest" : "";
  const start = j.expected_start_s ? (j.expected_start_s <= now ? "now" : "~ " + clock(j.expected_start_s)) + " with " + planned(j) :
    j.ordinary_ahead ? "behind an ordinary job" : "";
  return [start, promise].filter(Boolean).join("; ");
};

function more(title, list, all) { return title + " (" + all + (list.length && list.length < all ? ", the first " + list.length : "") + ")"; }

// Only where Arena observes: means of the jobs that are over in both worlds, and the latest ones.
function observed(o) {
  at("observe-box").hidden = !o;
  if (!o) return;
  const mean = s => o.jobs ? span(s.planned / o.jobs) + " planned, " + span(s.actual / o.jobs) + " in Slurm" : "nothing yet";
  at("observe-sum").textContent = "Slurm schedules all jobs. " + o.jobs + " jobs are over in both worlds: mean wait " + mean(o.wait_s) +
    "; from first possible start to end " + mean(o.jct_s) + "; " + o.earlier + " would have started earlier, " + o.later + " later." +
    (o.behind_s >= 60 ? " The plan is " + span(o.behind_s) + " behind" + (o.waits_for ? ": it waits for what JobId=" + o.waits_for + " shows in Slurm." : ".") : "");
  table("observe", [["job", "n", l => l.job], ["Arena", "why", l => l.words]], o.lines, l => l.job, "No job has started yet.");
}

// Arena's jobs, for the map; by job, with their names.
const own = d => new Map(d.running.map(j => [j.job, j.name || ""]));

function show(d) {
  pools(d.pools);
  nodes(d);
  map(d, own(d));
  times(d);
  observed(d.observe);
  at("h-waiting").textContent = more("Waiting", d.waiting, d.jobs_waiting);
  table("waiting", [["place", "n", j => j.place], ["job", "n", j => j.job], ["name", "name", j => j.name], ["user", "", who],
    ["behind", "n", j => j.behind], ["expected start", "", j => expected(j, d.now_s)], ["why it waits", "why", j => j.reason || j.state]],
    d.waiting, j => j.job, d.jobs_shown ? "No job waits." : hidden);
  at("h-running").textContent = more("Running", d.running, d.jobs_running);
  table("running", [["job", "n", j => j.job], ["name", "name", j => j.name], ["user", "", who], ["since", "n", j => j.start_s ? span(d.now_s - j.start_s) : ""],
    ["shape", "", shape], ["nodes", "", j => (j.nodes || []).join(" ")], ["state", "why", j => [j.state === "running" ? "" : j.state, why(j), j.slow].filter(Boolean).join("; ")]],
    d.running, j => j.job, d.jobs_shown ? "No Arena job runs." : hidden);
  table("slow", [["job", "n", e => e.job], ["at", "", e => e.peer ? e.at + " + " + e.peer : e.at || "not known"], ["cause", "", e => e.cause],
    ["slower", "n", e => "x" + e.factor.toFixed(1)], ["since", "n", e => span(d.now_s - e.onset_s)], ["action", "why", e => e.action], ["lost", "n", e => span(e.lost_s)]],
    d.slow, e => e.job + e.at + e.peer + e.cause, "No watched job says that a GPU or a link is slow.");
  table("leases", [["node", "", l => l.node], ["of", "", l => l.partition], ["state", "why", l => [l.state, l.why].filter(Boolean).join(": ")],
    ["since", "n", l => l.since_s ? span(d.now_s - l.since_s) : ""], ["back by", "", l => l.deadline_s || l.until_s ? clock(l.deadline_s || l.until_s) : ""], ["jobs", "", l => (l.jobs || []).join(" ")]],
    d.leases, l => l.node, "No node is lent.");
  table("news", [["when", "n", e => clock(e.time_s)], ["job", "n", e => e.job], ["what", "", e => e.state], ["", "why", e => e.text]],
    d.news.slice(-40).reverse(), e => e.time_s + " " + (e.job || "") + e.state, "Nothing has happened yet.");
}

function state(text, bad) {
  at("state").textContent = text;
  at("state").className = bad ? "bad" : "";
}

let timer;
async function look() {
  clearTimeout(timer);
  let next = 1000;
  try {
    const answer = await fetch("live.json", { cache: "no-store" });
    const d = await answer.json();
    if (!answer.ok) throw new Error(d.error ? d.error.text : "HTTP " + answer.status);
    show(d);
    const age = d.round_s ? "cluster as of " + clock(d.round_s) : "no round yet";
    if (d.enabled) state((d.observe ? "only observes: what follows is what would be, had Arena acted; " : "") + "policy " + d.policy + "; " + age + "; round " + d.rounds + " took " + Math.round(d.round_ms) + " ms", false);
    else state("Arena is off: slurmctld's log says why; " + age, true);
  } catch (problem) {
    state("No answer at " + clock(Date.now() / 1000) + ": " + problem.message, true);
    next = 3000;
  }
  clearTimeout(timer);
  timer = setTimeout(look, document.hidden ? 10000 : next);
}
document.addEventListener("visibilitychange", () => { if (!document.hidden) look(); });
look();
