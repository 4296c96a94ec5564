// SPDX-License-Identifier: GPL-2.0-or-later
// See history_page.h.
#include "cli/cluster/history_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "base/count_text.h"
#include "html/chart.h"
#include "html/document.h"

namespace arena::cli {
namespace {

using html::escaped;
using html::pixel;
using html::short_time;
using Kind = Stretch::Kind;

constexpr std::size_t most_text = 1024;

constexpr std::string_view page_style = R"(
th{text-align:left}td.text{white-space:normal;text-align:left;min-width:11rem}td.left{text-align:left}
.waits{fill:#b9b9b9}.runs{fill:#56a0d3}.saves{fill:#e69f00}.mark{fill:#b5467f;stroke:#fff}
.note{background:#fff4d6;padding:.5em .8em;border-left:4px solid #d9a400}
)";

/// What an event makes of the job's life; nothing: it stands beside it.
std::optional<Kind> kind_of(const PastEvent& event) {
    if (event.state.starts_with("waiting")) return Kind::waits;
    if (event.state == "running") return Kind::runs;
    if (event.state == "checkpointing") return Kind::saves;
    return std::nullopt;
}

bool is_over(const PastEvent& event) { return event.state == "over"; }

/// What the job reports, or is promised, is no state of its own.
std::string state_of(const Past& past) {
    const auto last = std::find_if(past.events.rbegin(), past.events.rend(), [](const auto& event) {
        return kind_of(event) || is_over(event);
    });
    return last == past.events.rend() ? past.events.back().state : last->state;
}

/// "4xa40 pp1,dp4: why" -> shape and why; a text that begins with no count is a reason alone.
std::pair<std::string, std::string> shape_and_why(const std::string& text) {
    const bool has_shape = !text.empty() && std::isdigit(static_cast<unsigned char>(text[0])) != 0;
    if (!has_shape) return {"", text};
    const std::size_t end = text.find(": ");
    if (end == std::string::npos) return {text, ""};
    return {text.substr(0, end), text.substr(end + 2)};
}

std::string name_of(Kind kind) {
    return kind == Kind::waits ? "waits" : kind == Kind::runs ? "runs" : "saves";
}

/// Rows of the timeline: waits, then each shape as it first came, then what stands beside them.
class Timeline {
  public:
    Timeline(const Past& past, const std::vector<Stretch>& stretches, double until_s)
        : past_(past), stretches_(stretches), from_s_(past.events.front().time_s) {
        length_s_ = std::max(until_s - from_s_, 1.0);
        rows_.emplace_back("waits");
        for (const Stretch& stretch : stretches_) (void)row_of(stretch);
    }

    std::string svg() {
        const double height = top + row * static_cast<double>(rows_.size() + 1) + 22;
        std::string out = fmt::format(
            "<figure><figcaption>From left to right {} since {} UTC. Bars and marks say more when "
            "pointed at.</figcaption>\n<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"waits, "
            "runs and moves over time\">",
            short_time(length_s_), utc_time(from_s_), width, pixel(height));
        for (const double tick : html::time_ticks(length_s_, 8))
            out += fmt::format(
                "<path class=\"grid\" d=\"M{0} {1}V{2}\"/><text x=\"{0}\" y=\"{3}\" "
                "text-anchor=\"middle\">{4}</text>",
                pixel(x(from_s_ + tick)), top, pixel(height - 22), pixel(height - 6),
                short_time(tick));
        for (std::size_t i = 0; i < rows_.size(); ++i) out += label(i, rows_[i]);
        for (const Stretch& stretch : stretches_) out += bar(stretch);
        std::string marks;
        for (const PastEvent& event : past_.events)
            if (!kind_of(event) && !is_over(event)) marks += mark(event);
        if (!marks.empty()) out += label(rows_.size(), "events") + marks;
        return out + "</svg></figure>\n" + key();
    }

  private:
    static constexpr double width = 1200, left = 230, right = 24, top = 4, row = 26;
    static constexpr std::size_t most_rows = 12;

    std::size_t row_of(const Stretch& stretch) {
        std::string name = stretch.kind == Kind::waits ? "waits"
                           : stretch.shape.empty()     ? "runs"
                                                       : stretch.shape;
        auto at = std::find(rows_.begin(), rows_.end(), name);
        if (at == rows_.end() && rows_.size() >= most_rows) name = "other shapes";
        at = std::find(rows_.begin(), rows_.end(), name);
        if (at == rows_.end()) at = rows_.insert(at, name);
        return static_cast<std::size_t>(at - rows_.begin());
    }
    [[nodiscard]] double x(double time_s) const {
        return left + (width - left - right) * std::clamp((time_s - from_s_) / length_s_, 0.0, 1.0);
    }
    static double y(std::size_t index) { return top + row * static_cast<double>(index); }

    static std::string label(std::size_t index, const std::string& name) {
        return fmt::format(
            "<text x=\"0\" y=\"{}\">{}<title>{}</title></text>", pixel(y(index) + row / 2 + 4),
            escaped(name.size() > 36 ? name.substr(0, 34) + ".." : name), escaped(name, most_text));
    }
    std::string bar(const Stretch& stretch) {
        const double from = x(stretch.from_s), to = std::max(x(stretch.to_s), from + 2);
        return fmt::format(
            "<rect class=\"{0}\" x=\"{1}\" y=\"{2}\" width=\"{3}\" height=\"{4}\"><title>{0} {5} "
            "from {6}: {7} {8}</title></rect>\n",
            name_of(stretch.kind), pixel(from), pixel(y(row_of(stretch)) + 3), pixel(to - from),
            row - 6, short_time(stretch.to_s - stretch.from_s), utc_time(stretch.from_s),
            escaped(stretch.shape, most_text), escaped(stretch.why, most_text));
    }
    [[nodiscard]] std::string mark(const PastEvent& event) const {
        return fmt::format(
            "<circle class=\"mark\" cx=\"{}\" cy=\"{}\" r=\"5\"><title>{}, {}: "
            "{}</title></circle>\n",
            pixel(x(event.time_s)), pixel(y(rows_.size()) + row / 2), escaped(event.state),
            utc_time(event.time_s), escaped(event.text, most_text));
    }
    static std::string key() {
        std::string out = "<ul class=\"legend\">";
        for (const auto& [name, words] : {std::pair{"waits", "waits"},
                                          {"runs", "runs"},
                                          {"saves", "saves its state, to leave its nodes"}})
            out += fmt::format(
                "<li><svg viewBox=\"0 0 44 12\" aria-hidden=\"true\"><rect class=\"{}\" "
                "width=\"44\" height=\"12\"/></svg> {}</li>",
                name, words);
        return out + "</ul>\n";
    }

    const Past& past_;
    const std::vector<Stretch>& stretches_;
    double from_s_, length_s_ = 1;
    std::vector<std::string> rows_;
};

double sum_of(const std::vector<Stretch>& stretches, Kind kind) {
    double sum = 0;
    for (const Stretch& stretch : stretches)
        if (stretch.kind == kind) sum += stretch.to_s - stretch.from_s;
    return sum;
}

/// "0.41 s, 2.5 % more than estimated"; "" where nothing was measured.
std::string measured_words(double measured_s, double estimate_s) {
    if (measured_s <= 0) return "";
    if (estimate_s <= 0) return fmt::format("{:.3g} s", measured_s);
    const double off = measured_s / estimate_s - 1;
    return fmt::format("{:.3g} s, {:.1f} % {} than estimated", measured_s, 100 * std::abs(off),
                       off < 0 ? "less" : "more");
}

/// Its runs, each from a start to when it waits again or is over; several stretches where it was
/// told to save.
struct Run {
    Stretch start;
    double to_s = 0, waited_s = 0;
    std::string waited_for, left;
};

std::vector<Run> runs_of(const std::vector<Stretch>& stretches, const Past& past) {
    std::vector<Run> runs;
    double waited_s = 0;
    std::string waited_for;
    bool in_run = false;
    for (const Stretch& stretch : stretches) {
        if (stretch.kind == Kind::waits) {
            if (in_run && runs.back().left.empty()) runs.back().left = stretch.why;
            in_run = false;
            waited_s += stretch.to_s - stretch.from_s;
            if (!stretch.why.empty()) waited_for = stretch.why;
            continue;
        }
        if (!in_run || (stretch.kind == Kind::runs && stretch.shape != runs.back().start.shape))
            runs.push_back({.start = stretch,
                            .waited_s = std::exchange(waited_s, 0.0),
                            .waited_for = std::exchange(waited_for, std::string()),
                            .left = {}});
        in_run = true;
        Run& run = runs.back();
        run.to_s = stretch.to_s;
        if (stretch.measured_s > 0) run.start.measured_s = stretch.measured_s;
        if (stretch.kind == Kind::saves && !stretch.why.empty()) run.left = stretch.why;
    }
    if (in_run && runs.back().left.empty()) runs.back().left = past.over ? "over" : "runs still";
    return runs;
}

std::string runs_table(const std::vector<Run>& runs) {
    if (runs.empty()) return "<p>It has not run.</p>\n";
    std::string out =
        "<div class=\"wide\"><table>" +
        html::table_head({"run", "since (UTC)", "ran", "shape and plan", "because", "left",
                          "iteration estimated", "measured", "waited before", "for"});
    const auto text = [](const std::string& words) {
        return fmt::format("<td class=\"text\">{}</td>", escaped(words, most_text));
    };
    for (std::size_t i = 0; i < runs.size(); ++i) {
        const Run& run = runs[i];
        const Stretch& start = run.start;
        out += fmt::format(
            "<tr><td>{}</td><td>{}</td><td>{}</td>{}{}{}<td>{}</td>{}<td>{}</td>{}</tr>\n", i + 1,
            utc_time(start.from_s), short_time(run.to_s - start.from_s), text(start.shape),
            text(start.why), text(run.left),
            start.estimate_s > 0 ? fmt::format("{:.3g} s", start.estimate_s) : "",
            text(measured_words(start.measured_s, start.estimate_s)), short_time(run.waited_s),
            text(run.waited_for));
    }
    return out + "</tbody></table></div>\n";
}

/// Measured beside estimated, over time; "" where nobody measured.
std::string iterations_section(const Past& past, double until_s) {
    html::Chart chart{.title = "Seconds per iteration", .x_label = "time since its first event"};
    html::Series measured{"measured", {}}, estimated{"estimated", {}};
    const double from_s = past.events.front().time_s;
    for (const PastEvent& event : past.events) {
        if (event.iteration_s > 0)
            measured.points.emplace_back(event.time_s - from_s, event.iteration_s);
        if (event.estimate_s > 0)
            estimated.points.emplace_back(event.time_s - from_s, event.estimate_s);
    }
    if (measured.points.empty()) return "";
    for (html::Series* series : {&measured, &estimated})
        if (!series->points.empty())
            series->points.emplace_back(until_s - from_s, series->points.back().second);
    chart.summary = "measured " + counted(measured.points.size() - 1, "time");
    chart.series = {std::move(measured), std::move(estimated)};
    return "<h2>Iterations</h2>\n" + html::legend({"measured", "estimated"}) +
           html::chart_svg(chart);
}

std::string events_table(const Past& past) {
    std::string out =
        "<div class=\"wide\"><table>" + html::table_head({"time (UTC)", "state", "what"});
    for (std::size_t i = 0; i < past.events.size(); ++i) {
        const PastEvent& event = past.events[i];
        if (past.left_out > 0 && static_cast<std::int64_t>(i) == past.left_out_after)
            out += fmt::format(
                "<tr><td>...</td><td></td><td class=\"text\">{} more are not kept</td></tr>\n",
                past.left_out);
        out += fmt::format(
            "<tr><td>{}</td><td class=\"left\">{}</td><td class=\"text\">{}</td></tr>\n",
            utc_time(event.time_s), escaped(event.state), escaped(event.text, most_text));
    }
    return out + "</tbody></table></div>\n";
}

std::string facts_of(const Past& past, const std::vector<Stretch>& stretches,
                     const std::vector<Run>& runs) {
    return html::facts_list({{"user", fmt::format("uid {}", past.uid)},
                             {"state", state_of(past)},
                             {"runs", fmt::format("{}", runs.size())},
                             {"waited", short_time(sum_of(stretches, Kind::waits))},
                             {"ran", short_time(sum_of(stretches, Kind::runs))},
                             {"saved its state", short_time(sum_of(stretches, Kind::saves))}});
}

double until_of(const Past& past, double now_s) {
    const double last_s = past.events.back().time_s;
    return past.over ? last_s : std::max(now_s, last_s);
}

}  // namespace

std::vector<Stretch> stretches_of(const Past& past, double now_s) {
    std::vector<Stretch> all;
    std::string shape;  // of the run that a checkpoint ends
    const auto close = [&](double at_s) {
        if (!all.empty() && all.back().to_s < 0)
            all.back().to_s = std::max(at_s, all.back().from_s);
    };
    for (const PastEvent& event : past.events) {
        if (is_over(event)) close(event.time_s);
        if (event.iteration_s > 0 && !all.empty() && all.back().kind == Kind::runs)
            all.back().measured_s = event.iteration_s;
        const std::optional<Kind> kind = kind_of(event);
        if (!kind) continue;
        close(event.time_s);
        auto [what, why] = shape_and_why(event.text);
        if (*kind == Kind::waits) what.clear();
        if (*kind == Kind::runs) shape = what;
        if (*kind == Kind::saves && what.empty()) what = shape;
        all.push_back({.kind = *kind,
                       .from_s = event.time_s,
                       .to_s = -1,
                       .shape = std::move(what),
                       .why = std::move(why),
                       .estimate_s = event.estimate_s});
    }
    if (!past.events.empty()) close(until_of(past, now_s));
    return all;
}

std::string history_page(const Past& past, double now_s) {
    const std::vector<Stretch> stretches = stretches_of(past, now_s);
    std::string body = fmt::format("<main><h1>Job {}</h1>\n", past.job);
    if (past.events.empty()) {
        body += "<p>Nothing has happened to it yet.</p>\n";
    } else {
        const double until_s = until_of(past, now_s);
        const std::vector<Run> runs = runs_of(stretches, past);
        body += facts_of(past, stretches, runs);
        if (past.left_out > 0)
            body += fmt::format(
                "<p class=\"note\">{} events after the first {} are not kept: what is drawn there "
                "is not all that happened, and counts and sums are of what is kept.</p>\n",
                past.left_out, past.left_out_after);
        body += "<h2>Its life</h2>\n" + Timeline(past, stretches, until_s).svg();
        body += iterations_section(past, until_s);
        body += "<h2>Runs</h2>\n" + runs_table(runs);
        body += "<h2>Events</h2>\n" + events_table(past);
    }
    return html::page_of({.title = fmt::format("Arena: job {}", past.job),
                          .style = html::chart_style() + std::string(page_style),
                          .body = body + "</main>\n"});
}

}  // namespace arena::cli
