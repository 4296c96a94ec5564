// SPDX-License-Identifier: GPL-2.0-or-later
// See inference.h.
#include "sim/loans/inference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/csv.h"
#include "core/limits.h"

namespace arena::sim {
namespace {

constexpr double latest_s = 1e10, least_step_s = 1, never = std::numeric_limits<double>::infinity();
constexpr std::size_t most_rows = 1'000'000;

InferenceLoad& load_of(InferenceCurve& curve, std::string_view type) {
    for (InferenceLoad& load : curve.loads)
        if (load.gpu_type == type) return load;
    return curve.loads.emplace_back(InferenceLoad{std::string(type), {}});
}

void read_row(Csv& csv, const char* amount, InferenceCurve& curve) {
    const InferenceLoad::Step step{
        .time_s = csv.number("time_s", 0, latest_s),
        .amount = csv.number(amount, 0, static_cast<double>(limits::gpus))};
    const std::string_view type =
        csv.has("gpu_type") ? csv.word("gpu_type", limits::name_bytes) : "";
    if (csv.error()) return;
    InferenceLoad& load = load_of(curve, type);
    if (!load.steps.empty() && step.time_s < load.steps.back().time_s + least_step_s)
        return csv.refuse(fmt::format(
            "time_s {} does not come a second or more after {}: sort the curve by time_s",
            step.time_s, load.steps.back().time_s));
    load.steps.push_back(step);
}

}  // namespace

double InferenceLoad::period_s() const {
    if (steps.size() < 2) return never;
    return 2 * steps.back().time_s - steps[steps.size() - 2].time_s;
}

double InferenceLoad::at(double time_s) const {
    const double period = period_s();
    if (period < never) time_s -= std::floor(time_s / period) * period;
    const auto after = std::upper_bound(steps.begin(), steps.end(), time_s,
                                        [](double t, const Step& step) { return t < step.time_s; });
    return after == steps.begin() ? steps.front().amount : std::prev(after)->amount;
}

double InferenceLoad::next_change_s(double time_s) const {
    const double period = period_s();
    if (period == never) return never;
    const double begin_s = std::floor(time_s / period) * period;
    for (const Step& step : steps)
        if (begin_s + step.time_s > time_s) return begin_s + step.time_s;
    const double next_s = begin_s + period;  // rounding may have put it at time_s
    return next_s > time_s ? next_s : next_s + period;
}

Result<InferenceCurve> parse_inference_curve(std::string_view text, const std::string& name) {
    Result<Csv> csv = Csv::open(text, name, {"time_s"});
    if (!csv) return csv.error();
    InferenceCurve curve;
    curve.in_nodes = csv->has("nodes");
    if (csv->has("nodes") == csv->has("gpus"))
        return usage_error("one of the columns gpus and nodes is needed", name);
    std::size_t rows = 0;
    while (csv->next()) {
        if (++rows > most_rows) csv->refuse(fmt::format("more than {} rows", most_rows));
        read_row(*csv, curve.in_nodes ? "nodes" : "gpus", curve);
    }
    if (csv->error()) return *csv->error();
    if (curve.loads.empty()) return usage_error("there is no row in it", name);
    return curve;
}

std::string format_inference_curve(const InferenceCurve& curve) {
    const bool typed = curve.loads.size() != 1 || !curve.loads.front().gpu_type.empty();
    std::string text =
        fmt::format("time_s{},{}\n", typed ? ",gpu_type" : "", curve.in_nodes ? "nodes" : "gpus");
    for (const InferenceLoad& load : curve.loads)
        for (const InferenceLoad::Step& step : load.steps)
            text += fmt::format("{}{}{},{}\n", step.time_s, typed ? "," : "", load.gpu_type,
                                step.amount);
    return text;
}

}  // namespace arena::sim
