// SPDX-License-Identifier: GPL-2.0-or-later
// Streams of communication calls: the step that repeats in them, and how long each took.
#include <fmt/format.h>

#include <algorithm>

#include "base/csv.h"
#include "base/statistics.h"
#include "base/text.h"
#include "slowdown/period.h"
#include "tests/lab/slowdown/kinds.h"
#include "tests/lab/slowdown/truth/calls_file.h"
#include "tests/lab/slowdown/truth/steps.h"

namespace arena::cli {
namespace {

using slowdown::Call;
using slowdown::CallStream;
using slowdown::DetectorOptions;

Result<std::vector<CallStream>> read_streams(const SlowdownFile& file) {
    auto streams = slowdown::parse_calls(file.text, file.path);
    if (streams && streams->empty()) return usage_error("no rows", file.path);
    return streams;
}

Status evaluate(const SlowdownFiles& files, const DetectorOptions&, SlowdownReport& report) {
    const auto streams = read_streams(files.at("calls"));
    if (!streams) return streams.error();
    const SlowdownFile& known = files.at("steps");
    const auto steps = slowdown::parse_steps(known.text, known.path);
    if (!steps) return steps.error();
    double worst_error = 0;
    std::size_t latest_answer = 0, longest_wrong = 0;
    for (const CallStream& stream : *streams) {
        const auto truth = steps->find(stream.name);
        if (truth == steps->end())
            return usage_error("no steps of sequence " + stream.name, known.path);
        const auto score = slowdown::score_period(stream, truth->second);
        if (!score) return score.error();
        worst_error = std::max(worst_error, score->median_error);
        latest_answer = std::max(latest_answer, score->first_answer);
        longest_wrong = std::max(longest_wrong, score->longest_wrong);
        report.expect(stream.name, score->is_good(),
                      {{"period", score->period},
                       {"first_answer", score->first_answer},
                       {"longest_wrong", score->longest_wrong},
                       {"median_error", score->median_error}},
                      {{"period", score->wanted},
                       {"first_answer", "<= 5"},
                       {"longest_wrong", "<= 5"},
                       {"median_error", "<= 0.012"}});
    }
    report.metrics["worst_median_error"] = worst_error;
    report.metrics["latest_first_answer"] = latest_answer;
    report.metrics["longest_wrong"] = longest_wrong;
    return Done{};
}

struct Found {
    std::size_t period = 0;
    std::string anchor;
    std::vector<slowdown::Iteration> iterations;
    double median_us = 0;  ///< of the last series
};

Result<Found> find(const CallStream& stream) {
    slowdown::PeriodFinder finder;
    Found found;
    for (const Call& call : stream.calls) {
        const auto iteration = finder.add(call);
        if (!iteration) return iteration.error();
        if (*iteration) found.iterations.push_back(**iteration);
    }
    found.period = finder.period();
    const slowdown::CallKey& anchor = finder.anchor();
    if (found.period > 0)
        found.anchor =
            fmt::format("({}, {}, {})", static_cast<int>(anchor.op), anchor.count, anchor.comm);
    std::vector<double> durations;
    for (const auto& iteration : found.iterations)
        if (iteration.series == found.iterations.back().series)
            durations.push_back(static_cast<double>(iteration.duration_us));
    std::sort(durations.begin(), durations.end());
    found.median_us = median(durations);
    return found;
}

Json json_of(const CallStream& stream, const Found& found) {
    Json iterations = Json::array();
    for (const auto& iteration : found.iterations)
        iterations.push_back({{"end_us", iteration.end_us},
                              {"duration_us", iteration.duration_us},
                              {"period", iteration.period},
                              {"series", iteration.series}});
    return {{"sequence", stream.name},  {"calls", stream.calls.size()},
            {"period", found.period},   {"anchor_key", found.anchor},
            {"iterations", iterations}, {"median_iteration_us", found.median_us}};
}

Result<SlowdownAnswer> solve(const SlowdownFiles& files, const DetectorOptions&) {
    const auto streams = read_streams(files.at("calls"));
    if (!streams) return streams.error();
    SlowdownAnswer answer{.columns = {"sequence", "calls", "period", "anchor_key", "iterations",
                                      "median_iteration_us"},
                          .rows = {}};
    answer.json["sequences"] = Json::array();
    for (const CallStream& stream : *streams) {
        const auto found = find(stream);
        if (!found) return found.error();
        answer.json["sequences"].push_back(json_of(stream, *found));
        answer.rows.push_back({stream.name, fmt::format("{}", stream.calls.size()),
                               fmt::format("{}", found->period), found->anchor,
                               fmt::format("{}", found->iterations.size()),
                               fmt::format("{:.0f}", found->median_us)});
    }
    return answer;
}

/// The operations of one period, repeated: what the log of another tool says of itself.
Status evaluate_pattern(const SlowdownFiles& files, const DetectorOptions&,
                        SlowdownReport& report) {
    constexpr std::size_t turns = 6, most_ops = 100'000;
    const SlowdownFile& file = files.at("pattern");
    auto csv = sim::Csv::open(file.text, file.path, {"period_calls", "op_ids"});
    if (!csv) return csv.error();
    while (csv->next()) {
        const auto wanted = csv->integer("period_calls", 1, most_ops);
        CallStream stream;
        std::int64_t now_us = 0;
        for (std::size_t turn = 0; turn < turns && !csv->error(); ++turn)
            for (const std::string_view word : split(csv->cell("op_ids"), ' ')) {
                const auto op = parse_integer(word, 0, slowdown::most_op);
                if (!op) csv->refuse("op_ids are numbers of operations with blanks between");
                const auto key = static_cast<slowdown::Op>(op.value_or(0));
                stream.calls.push_back({{.op = key}, now_us += 1000});
            }
        if (csv->error()) break;
        const auto found = find(stream);
        if (!found) return found.error();
        report.expect(csv->where(), found->period == static_cast<std::size_t>(wanted),
                      found->period, wanted);
    }
    if (csv->error()) return *csv->error();
    return Done{};
}

}  // namespace

SlowdownKind period_kind() {
    return {.name = "period",
            .command = "period",
            .parts = {{"calls", {"sequence", "t_us", "op_id", "count", "comm"}, ".csv"},
                      {"steps", {"sequence", "start_us", "duration_us", "calls"}, "_truth.csv"},
                      {"expected", {"sequence", "true_period"}, "_expected.csv", false}},
            .evaluate = evaluate,
            .solve = solve};
}

SlowdownKind pattern_kind() {
    return {.name = "pattern",
            .command = "",
            .parts = {{"pattern", {"period_calls", "op_ids"}, ".csv"}},
            .evaluate = evaluate_pattern,
            .solve = nullptr};
}

}  // namespace arena::cli
