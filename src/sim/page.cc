// SPDX-License-Identifier: GPL-2.0-or-later
// The document around the charts: see page.h.
#include "sim/page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/text.h"
#include "sim/page_parts.h"

namespace arena::sim {
namespace {

constexpr std::string_view style_sheet = R"(
summary h2{display:inline}td.best{font-weight:700}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(420px,1fr));gap:1rem}
.labels text{font-size:9.5px;fill:#111;pointer-events:none}
.stays path{stroke:#fff;stroke-width:.25}.stays.pick path{opacity:.25}.stays.pick path.on{opacity:1;stroke:#000;stroke-width:1}
svg:focus-visible,summary:focus-visible,input:focus-visible{outline:3px solid #0072b2;outline-offset:2px}
output{display:inline-block;min-height:1.5em;margin-left:1rem;font-weight:600}summary{cursor:pointer;padding:.3rem 0}
)";

/// No < and no & in it, so that the page stays well-formed XML.
constexpr std::string_view script = R"(
for (const figure of document.querySelectorAll('.gantt')) {
  const svg = figure.querySelector('svg'), group = figure.querySelector('.stays');
  const out = figure.querySelector('output'), stays = [...group.children];
  let at = -1;
  const pick = index => {
    at = index;
    group.classList.toggle('pick', at !== -1);
    const job = at === -1 ? null : stays[at].dataset.j;
    for (const s of stays) s.classList.toggle('on', s.dataset.j === job);
    out.textContent = at === -1 ? 'No stay is picked.' : stays[at].querySelector('title').textContent;
  };
  const step = (by, same) => {
    for (let i = 1; i !== stays.length + 1; ++i) {
      const next = (at + by * i + stays.length * 2 + (at === -1 ? by === -1 ? 1 : 0 : 0)) % stays.length;
      if (!same || at === -1 || stays[next].dataset.j === stays[at].dataset.j) return pick(next);
    }
  };
  svg.addEventListener('keydown', e => {
    const moves = {ArrowRight: [1, false], ArrowLeft: [-1, false], ArrowDown: [1, true], ArrowUp: [-1, true]};
    if (e.key === 'Escape') pick(-1);
    if (!(e.key in moves) || stays.length === 0) return;
    e.preventDefault();
    step(...moves[e.key]);
  });
  group.addEventListener('click', e => { const s = e.target.closest('path'); if (s) pick(stays.indexOf(s)); });
  figure.querySelector('input').addEventListener('input', e => {
    const start = 'job ' + e.target.value.trim() + ',';
    pick(e.target.value ? stays.findIndex(s => s.querySelector('title').textContent.startsWith(start)) : -1);
  });
}
)";

std::string styles() {
    std::string out = html::chart_style() + std::string(style_sheet);
    // Neighbouring jobs get hues far apart: steps of the golden angle.
    for (int k = 0; k < 36; ++k) {
        out += fmt::format(".k{}{{fill:hsl({:.0f},{}%,{}%)}}", k, std::fmod(137.508 * k, 360.0),
                           k % 2 == 0 ? 62 : 48, k % 3 == 0 ? 66 : 76);
    }
    return out;
}

std::vector<std::string> policies_of(const std::vector<Metrics>& runs) {
    std::vector<std::string> names;
    for (const Metrics& run : runs) names.push_back(run.policy);
    return names;
}

struct Column {
    std::string_view name;
    double (*value)(const Metrics&);
    int better;  ///< -1 less, 1 more, 0 neither
    bool is_percent = false;
};

double per_job(const Metrics& m) {
    return static_cast<double>(m.restarts) / static_cast<double>(std::max<std::int64_t>(1, m.jobs));
}

constexpr Column columns[] = {
    {"jobs", [](const Metrics& m) { return static_cast<double>(m.jobs); }, 0},
    {"finished", [](const Metrics& m) { return static_cast<double>(m.finished); }, 1},
    {"JCT mean, s", [](const Metrics& m) { return m.jct_s.mean; }, -1},
    {"p50", [](const Metrics& m) { return m.jct_s.p50; }, -1},
    {"p90", [](const Metrics& m) { return m.jct_s.p90; }, -1},
    {"p99", [](const Metrics& m) { return m.jct_s.p99; }, -1},
    {"queued mean, s", [](const Metrics& m) { return m.queuing_s.mean; }, -1},
    {"fairness p99", [](const Metrics& m) { return m.finish_time_fairness.p99; }, -1},
    {"makespan, s", [](const Metrics& m) { return m.makespan_s; }, -1},
    {"samples/s", [](const Metrics& m) { return m.throughput_mean; }, 1},
    {"normalised", [](const Metrics& m) { return m.normalized_throughput_mean; }, 1},
    {"GPUs held", [](const Metrics& m) { return m.gpu_utilization; }, 0, true},
    {"restarts/job", per_job, -1},
};

constexpr Column power_columns[] = {
    {"boots", [](const Metrics& m) { return static_cast<double>(m.power->boots); }, -1},
    {"node-hours awake", [](const Metrics& m) { return m.power->awake_node_s / 3600; }, -1},
};

std::vector<Column> columns_of(const std::vector<Metrics>& runs) {
    std::vector<Column> all(std::begin(columns), std::end(columns));
    if (runs.front().power)
        all.insert(all.end(), std::begin(power_columns), std::end(power_columns));
    return all;
}

/// Whether no other run does better in the column, and some do worse.
bool is_best(const std::vector<Metrics>& runs, const Metrics& m, const Column& column) {
    bool worse = false;
    for (const Metrics& other : runs) {
        const double lead = column.better * (column.value(m) - column.value(other));
        if (lead < 0) return false;
        worse = worse || lead > 0;
    }
    return worse;
}

std::string metrics_row(const std::vector<Metrics>& runs, const Metrics& m,
                        const std::optional<Bound>& bound) {
    std::string out = fmt::format("<tr><th scope=\"row\">{}</th>", escaped(m.policy));
    for (const Column& c : columns_of(runs)) {
        const double value = c.value(m);
        out += fmt::format("<td{}>{}</td>", is_best(runs, m, c) ? " class=\"best\"" : "",
                           c.is_percent ? fmt::format("{:.1f}%", 100 * value) : readable(value));
    }
    if (bound) out += fmt::format("<td>{:.1f}%</td>", 100 * (m.jct_s.mean / bound->mean_jct_s - 1));
    return out + "</tr>\n";
}

std::string metrics_table(const std::vector<Metrics>& runs, const std::optional<Bound>& bound) {
    if (runs.empty()) return "";
    std::string out =
        "<div class=\"wide\"><table><caption>JCT counts unfinished jobs until the end. The best of "
        "a column is bold.</caption>";
    std::vector<std::string_view> names = {"policy"};
    for (const Column& c : columns_of(runs)) names.push_back(c.name);
    if (bound) names.push_back("above the bound");
    out += html::table_head(names);
    for (const Metrics& m : runs) out += metrics_row(runs, m, bound);
    return out + "</tbody></table></div>\n";
}

std::string bound_text(const std::optional<Bound>& bound) {
    if (!bound) return "";
    return fmt::format("<p>No policy has a mean JCT below {} s ({} s were each job alone).</p>\n",
                       readable(bound->mean_jct_s), readable(bound->alone_s));
}

/// What each job ran as, in order, equal neighbours once.
std::vector<std::string> shapes_by_job(const Workload& workload, const Metrics& run) {
    constexpr std::size_t longest = 160;
    std::vector<std::string> out(run.outcomes.size()), last(run.outcomes.size());
    for (const Stay& stay : run.stays) {
        const std::string shape =
            shape_of(workload.profiles[workload.jobs[stay.job].profile].offers[stay.offer]);
        std::string& text = out[stay.job];
        if (shape == std::exchange(last[stay.job], shape)) continue;
        if (text.size() < longest) {
            text += (text.empty() ? "" : ", then ") + shape;
        } else if (!text.ends_with("...")) {
            text += " ...";
        }
    }
    return out;
}

std::string jobs_table(const Workload& workload, const Metrics& run, std::size_t most) {
    std::vector<std::size_t> order(run.outcomes.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return run.outcomes[a].jct_s > run.outcomes[b].jct_s;
    });
    const std::size_t shown = std::min(most, order.size());
    std::string out = fmt::format(
        "<details><summary>Jobs under {}: {} of {}, the longest JCT first</summary>"
        "<div class=\"wide\"><table>",
        escaped(run.policy), shown, order.size());
    out += html::table_head(
        {"job", "model", "submitted", "JCT", "queued", "restarts", "ended", "ran as"});
    const std::vector<std::string> shapes = shapes_by_job(workload, run);
    for (std::size_t i = 0; i < shown; ++i) {
        const JobOutcome& o = run.outcomes[order[i]];
        const SimJob& job = workload.jobs[order[i]];
        const std::string ran_as = shapes[order[i]];
        out += fmt::format(
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>"
            "<td>{}</td></tr>\n",
            escaped(job.name), escaped(workload.profiles[job.profile].model),
            short_time(job.submit_s), short_time(o.jct_s), short_time(o.queuing_s), o.restarts,
            o.finished ? "yes" : "no", ran_as.empty() ? "never" : escaped(ran_as, 400));
    }
    return out + "</tbody></table></div></details>\n";
}

/// What was slow, and what came of it.
std::string slowdowns_table(const Workload& workload, const Metrics& run, std::size_t most) {
    if (!run.slow) return "";
    const SlowMetrics& slow = *run.slow;
    const std::size_t shown = std::min(most, slow.outcomes.size());
    std::string out = fmt::format(
        "<details><summary>Slow GPUs and links under {}: {} of {}, mode {}; {} GPU-seconds lost"
        "</summary><div class=\"wide\"><table>",
        escaped(run.policy), shown, slow.outcomes.size(), slow.mode, readable(slow.lost_gpu_s));
    out += html::table_head(
        {"where", "cause", "slower", "from", "for", "slowed jobs", "detected after", "answers"});
    for (std::size_t i = 0; i < shown; ++i) {
        const SlowOutcome& o = slow.outcomes[i];
        const std::string slower = o.slow.delay_s > 0 ? "by " + short_time(o.slow.delay_s)
                                                      : fmt::format("x{:.2f}", o.slow.factor);
        out += fmt::format(
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>"
            "<td>{}</td></tr>\n",
            escaped(place_of(o.slow, workload.nodes)), slowdown::name(o.slow.cause), slower,
            short_time(o.slow.start_s), short_time(o.slow.duration_s), o.jobs.size(),
            o.detected_s < 0 ? "never" : short_time(o.detected_s - o.slow.start_s),
            o.answers.empty() ? "none" : fmt::format("{}", fmt::join(o.answers, ", ")));
    }
    return out + "</tbody></table></div></details>\n";
}

std::string run_section(const Workload& workload, const Metrics& run, double until_s,
                        std::size_t runs, bool open, const PageLimits& limits) {
    std::string out = fmt::format(
        "<section><details{}><summary><h2>GPUs under {}</h2>"
        "</summary>\n",
        open ? " open=\"open\"" : "", escaped(run.policy));
    out += gantt_figure(workload, run, until_s, {limits.stays / runs, limits.rectangles / runs});
    return out + "</details>\n" + jobs_table(workload, run, limits.jobs / runs) +
           slowdowns_table(workload, run, limits.jobs / runs) + "</section>\n";
}

std::string charts(const Workload& workload, const std::vector<Metrics>& runs, double until_s) {
    return "<div class=\"charts\">" + chart_svg(throughput_chart(workload, runs, until_s)) +
           chart_svg(utilisation_chart(workload, runs, until_s)) + chart_svg(jct_chart(runs)) +
           "</div>\n";
}

std::string beside_row(const Metrics& run, const Beside& b) {
    return fmt::format(
        "<tr><td>{}</td><td>{}</td><td>{:.3f}</td><td>{:.3f}</td><td>{:.3f}</td><td>{:.3f}</td>"
        "<td>{:.1f}%</td><td>{:.1f}%</td><td>{:.1f}%</td><td>{}</td><td>{}</td></tr>\n",
        escaped(run.policy), escaped(b.policy), b.ratio.mean, b.ratio.p50, b.ratio.p99, b.ratio.max,
        100 * b.above_1, 100 * b.above_1_1, 100 * b.above_2, b.unfinished, b.unfinished_in_both);
}

/// How jobs fared beside stock policies; "" where nobody asked.
std::string beside_section(const std::vector<Metrics>& runs) {
    if (runs.empty() || runs.front().beside.empty()) return "";
    std::string out =
        "<h2>Beside jobs as requested</h2>\n<div class=\"wide\"><table><caption>Each job's JCT / "
        "its JCT under the other policy; a job counts until the end where it is unfinished, "
        "so as 1 where it is in both.</caption>";
    out += html::table_head({"policy", "beside", "mean", "p50", "p99", "max", "above 1",
                             "above 1.1", "above 2", "unfinished", "in both"});
    for (const Metrics& run : runs)
        for (const Beside& b : run.beside) out += beside_row(run, b);
    out += "</tbody></table></div>\n<div class=\"charts\">";
    for (std::size_t i = 0; i < runs.front().beside.size(); ++i)
        out += chart_svg(beside_chart(runs, i));
    return out + "</div>\n";
}

}  // namespace

std::string page_html(const Workload& workload, const std::vector<Metrics>& runs,
                      const std::optional<Bound>& bound, const PageFacts& facts,
                      const PageLimits& limits) {
    double until_s = 1;
    for (const Metrics& run : runs) until_s = std::max(until_s, run.makespan_s);
    std::string out = "<main><h1>Policies on one trace</h1>\n" + html::facts_list(facts);
    out += "<h2>Numbers</h2>\n" + metrics_table(runs, bound) + bound_text(bound);
    if (!runs.empty())
        out += "<h2>Over time</h2>\n" + html::legend(policies_of(runs)) +
               charts(workload, runs, until_s);
    out += beside_section(runs);
    out += loans_section(runs);
    for (std::size_t i = 0; i < runs.size(); ++i) {
        out += run_section(workload, runs[i], until_s, runs.size(), i == 0, limits);
    }
    return html::page_of({.title = "arena simulate",
                          .style = styles(),
                          .body = out + "</main>\n",
                          .script = std::string(script)});
}

}  // namespace arena::sim
