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
      (n.lent ? ", lent " + n.lent : "") + (n.returning_s ? ", back by " + clock(n.returning_s) : "") + (n.why ? ", " + n.why : "");
    return make("span", "node" + kind, words);
  }));
}

const hidden = "PrivateData in slurm.conf hides them here; arena queue and arena history show you your own.";
const who = j => j.user || j.uid;
const shape = j => [j.grid, j.plan].filter(Boolean).join(" ");
const expected = (j, now) => {
  const promise = j.ends_by_s ? "ends by " + clock(j.ends_by_s) + " at the latest" : "";
  const start = j.expected_start_s ? (j.expected_start_s <= now ? "now" : "~ " + clock(j.expected_start_s)) + " with " + j.expected_grid :
    j.ordinary_ahead ? "behind an ordinary job" : "";
  return [start, promise].filter(Boolean).join("; ");
};

function more(title, list, all) { return title + " (" + all + (list.length && list.length < all ? ", the first " + list.length : "") + ")"; }

function show(d) {
  pools(d.pools);
  nodes(d);
  at("h-waiting").textContent = more("Waiting", d.waiting, d.jobs_waiting);
  table("waiting", [["place", "n", j => j.place], ["job", "n", j => j.job], ["name", "name", j => j.name], ["user", "", who],
    ["behind", "n", j => j.behind], ["expected start", "", j => expected(j, d.now_s)], ["why it waits", "why", j => j.reason || j.state]],
    d.waiting, j => j.job, d.jobs_shown ? "No job waits." : hidden);
  at("h-running").textContent = more("Running", d.running, d.jobs_running);
  table("running", [["job", "n", j => j.job], ["name", "name", j => j.name], ["user", "", who], ["since", "n", j => j.start_s ? span(d.now_s - j.start_s) : ""],
    ["shape", "", shape], ["nodes", "", j => (j.nodes || []).join(" ")], ["state", "why", j => [j.state === "running" ? "" : j.state, j.reason, j.slow].filter(Boolean).join("; ")]],
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
    if (d.enabled) state("policy " + d.policy + "; " + age + "; round " + d.rounds + " took " + Math.round(d.round_ms) + " ms", false);
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
