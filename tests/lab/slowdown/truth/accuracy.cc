// SPDX-License-Identifier: GPL-2.0-or-later
#include "tests/lab/slowdown/truth/accuracy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <span>

#include "base/json.h"
#include "base/statistics.h"
#include "base/text.h"

namespace arena::slowdown {
namespace {

constexpr std::size_t most_at_once = 4096;  ///< iterations of a line
constexpr std::size_t looked_at = 500;      ///< of a run, to find where it belongs
constexpr double longest_iteration_s = 1e9;
constexpr double gap_share = 0.2,
                 gap_s = 0.01;  ///< between the end of one and the start of the next

/// Calls `take` with each object; its error ends the reading.
Status each_line(std::string_view text, const std::string& file,
                 const std::function<void(const Json&, std::optional<Error>&)>& take) {
    std::size_t number = 0;
    const bool is_cut = !text.ends_with('\n');
    const auto lines = split(text, '\n');
    for (const std::string_view line : lines) {
        ++number;
        if (trim(line).empty()) continue;
        const auto json = parse_json(line);
        if (!json && is_cut && number == lines.size()) break;
        std::optional<Error> error;
        if (!json)
            error = json.error();
        else if (!json->is_object())
            error = usage_error("is no object");
        else
            take(*json, error);
        if (error) return usage_error(error->message(), fmt::format("{}:{}", file, number));
    }
    return Done{};
}

struct Rank {
    std::int64_t series = -1;
    double end_s = 0;
    EstimatedRun run;
};

double distance(std::span<const double> run, std::span<const double> measured) {
    double sum = 0;
    for (std::size_t i = 0; i < run.size(); ++i)
        sum += std::min(1.0, std::abs(run[i] - measured[i]) / measured[i]);
    return sum;
}

/// Where in `measured` the run lies.
std::size_t place_of(const std::vector<double>& run, const std::vector<double>& measured) {
    const std::span<const double> head(run.data(), std::min(run.size(), looked_at));
    std::size_t best = 0;
    double least = std::numeric_limits<double>::max();
    for (std::size_t at = 0; at + run.size() <= measured.size(); ++at) {
        const double own = distance(head, std::span(measured).subspan(at, head.size()));
        if (own < least) best = at;
        least = std::min(least, own);
    }
    return best;
}

}  // namespace

Result<std::vector<EstimatedRun>> read_estimates(std::string_view text, const std::string& file) {
    std::vector<EstimatedRun> runs;
    std::map<std::int64_t, Rank> ranks;
    const auto end_run = [&](Rank& rank) {
        if (!rank.run.seconds.empty()) runs.push_back(rank.run);
        rank.run.seconds.clear();
    };
    const Status read = each_line(text, file, [&](const Json& json, std::optional<Error>& error) {
        const JsonFields fields(json, "", error);
        std::string event;
        std::int64_t number = 0, series = 0;
        std::vector<std::int64_t> ends, times;
        fields.text("event", event);
        if (error || event != "iterations") return;
        fields.integer("rank", number, 0, 1 << 20);
        fields.integer("series", series, std::numeric_limits<std::int64_t>::min(),
                       std::numeric_limits<std::int64_t>::max());
        fields.integers("end_ms", ends, 0, std::int64_t{1} << 43, most_at_once);
        fields.integers("time_us", times, 1, static_cast<std::int64_t>(longest_iteration_s * 1e6),
                        most_at_once);
        if (error || ends.size() != times.size()) return;
        Rank& rank = ranks[number];
        rank.run.rank = number;
        for (std::size_t i = 0; i < times.size(); ++i) {
            const double end_s = static_cast<double>(ends[i]) / 1e3,
                         seconds = static_cast<double>(times[i]) / 1e6;
            const double gap = std::abs(end_s - seconds - rank.end_s);
            if (series != rank.series || gap > gap_share * seconds + gap_s) end_run(rank);
            rank.series = series;
            rank.end_s = end_s;
            rank.run.seconds.push_back(seconds);
        }
    });
    if (!read) return read.error();
    for (auto& [number, rank] : ranks) end_run(rank);
    return runs;
}

Result<std::vector<double>> read_measured(std::string_view text, const std::string& file) {
    std::vector<double> measured;
    const Status read = each_line(text, file, [&](const Json& json, std::optional<Error>& error) {
        const JsonFields fields(json, "", error);
        if (!fields.has("iteration_s")) return;
        fields.number("iteration_s", measured.emplace_back(), 1e-9, longest_iteration_s);
    });
    if (!read) return read.error();
    return measured;
}

std::vector<RankAccuracy> accuracy_of(const std::vector<EstimatedRun>& estimates,
                                      const std::vector<double>& measured) {
    std::map<std::int64_t, std::vector<double>> errors;
    for (const EstimatedRun& run : estimates) {
        if (run.seconds.size() < shortest_run || run.seconds.size() > measured.size()) continue;
        const std::size_t at = place_of(run.seconds, measured);
        for (std::size_t i = 0; i < run.seconds.size(); ++i)
            errors[run.rank].push_back(std::abs(run.seconds[i] - measured[at + i]) /
                                       measured[at + i]);
    }
    std::vector<RankAccuracy> ranks;
    for (auto& [rank, all] : errors) {
        std::ranges::sort(all);
        ranks.push_back({rank, all.size(), median(all), percentile(all, 0.95)});
    }
    return ranks;
}

}  // namespace arena::slowdown
