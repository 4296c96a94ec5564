// SPDX-License-Identifier: GPL-2.0-or-later
// What inference lent, on the page of page.h: numbers and a chart for each run with an inference
// curve.
#include <fmt/format.h>

#include <algorithm>

#include "base/count_text.h"
#include "sim/page_parts.h"

namespace arena::sim {
namespace {

constexpr std::size_t most_points = 1500;
constexpr double hour_s = 3600;

/// By time: the mean over so many parts of the run, so that the page does not grow with it.
Series series_of(const LoanMetrics& loans, std::string name, double until_s,
                 std::int64_t LoanMetrics::Moment::*count) {
    Series series{std::move(name), {}};
    const std::size_t every = loans.moments.size() / most_points + 1;
    for (std::size_t i = 0; i < loans.moments.size(); i += every) {
        double sum = 0;
        const std::size_t end = std::min(i + every, loans.moments.size());
        for (std::size_t k = i; k < end; ++k) sum += static_cast<double>(loans.moments[k].*count);
        series.points.emplace_back(loans.moments[i].time_s, sum / static_cast<double>(end - i));
    }
    if (!series.points.empty()) series.points.emplace_back(until_s, series.points.back().second);
    return series;
}

std::string row_of(const Metrics& run) {
    const LoanMetrics& m = *run.loans;
    std::string out = fmt::format("<tr><th scope=\"row\">{}</th>", escaped(run.policy));
    const auto cell = [&](const std::string& text) { out += fmt::format("<td>{}</td>", text); };
    cell(m.lend ? "on" : "off");
    cell(fmt::format("{:.1f}%", 100 * m.usage_both));
    cell(fmt::format("{:.1f}%", 100 * m.usage_training));
    cell(readable(m.lent_gpu_s / hour_s));
    for (const std::int64_t n : {m.servers_lent, m.servers_returned, m.late_returns, m.preemptions,
                                 m.least_preemptions, m.scaled_in})
        cell(std::to_string(n));
    cell(readable(m.short_server_s));
    cell(readable(m.short_late_s));
    return out + "</tr>\n";
}

std::string table_of(const std::vector<const Metrics*>& runs) {
    std::string out =
        "<div class=\"wide\"><table><caption>Inference: lent servers, and how they came back. "
        "Usage "
        "counts inference's own GPU time, too.</caption>";
    out += html::table_head({"policy", "loans", "both clusters used", "training GPUs used",
                             "GPU-hours lent", "servers lent", "returned", "late", "jobs preempted",
                             "at least", "jobs scaled in", "server-seconds short",
                             "seconds short beyond the deadline"});
    for (const Metrics* run : runs) out += row_of(*run);
    return out + "</tbody></table></div>\n";
}

}  // namespace

std::string loans_section(const std::vector<Metrics>& runs) {
    std::vector<const Metrics*> with;
    for (const Metrics& run : runs)
        if (run.loans) with.push_back(&run);
    if (with.empty()) return "";
    std::string out = "<section><h2>Loans</h2>\n" + table_of(with) + "<div class=\"charts\">";
    for (const Metrics* run : with) {
        const LoanMetrics& loans = *run->loans;
        Chart chart{.title = "Servers of inference under " + run->policy, .x_label = "time"};
        using Moment = LoanMetrics::Moment;
        chart.series.push_back(series_of(loans, "needed", run->makespan_s, &Moment::needed));
        chart.series.push_back(series_of(loans, "lent", run->makespan_s, &Moment::lent));
        chart.series.push_back(series_of(loans, "returning", run->makespan_s, &Moment::returning));
        chart.summary = fmt::format("{}; {} lent, {} returned, {} late",
                                    counted(loans.inference_servers, "server"), loans.servers_lent,
                                    loans.servers_returned, loans.late_returns);
        out += chart_svg(chart);
    }
    return out +
           "</div><p>First line: servers that inference needs; second: lent; third: on their "
           "way back.</p></section>\n";
}

}  // namespace arena::sim
