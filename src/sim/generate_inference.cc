// SPDX-License-Identifier: GPL-2.0-or-later
// See generate_inference.h.
#include "sim/generate_inference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "sim/generate.h"
#include "sim/random.h"

namespace arena::sim {
namespace {

constexpr double spike_s = 1800, spike_share = 0.1;

Status check(const InferenceGeneratorOptions& o) {
    const auto is_within = [](double x, double low, double high) { return x >= low && x <= high; };
    if (!is_within(o.gpus, 1, 1e6)) return usage_error("GPUs from 1 to 1,000,000 are needed");
    if (!is_within(o.days, 1e-3, 1000)) return usage_error("days from 0.001 to 1,000 are needed");
    if (!is_within(o.low, 0, 1) || !is_within(o.high, o.low, 1))
        return usage_error("0 <= low <= high <= 1 is needed");
    if (!is_within(o.noise, 0, 1)) return usage_error("noise from 0 to 1 is needed");
    if (!is_within(o.spikes_per_day, 0, 100)) return usage_error("0 to 100 spikes a day");
    if (!is_within(o.step_s, 1, day_s)) return usage_error("steps from 1 to 86,400 s are needed");
    return Done{};
}

}  // namespace

Result<InferenceCurve> generate_inference(const InferenceGeneratorOptions& o) {
    if (const Status status = check(o); !status) return status.error();
    InferenceCurve curve;
    InferenceLoad& load = curve.loads.emplace_back(InferenceLoad{o.gpu_type, {}});
    Random random(o.seed);
    double height = 1, spike_until_s = -1;
    const auto steps = static_cast<std::int64_t>(std::ceil(o.days * day_s / o.step_s));
    const auto steps_a_day = static_cast<std::int64_t>(std::ceil(day_s / o.step_s));
    for (std::int64_t i = 0; i < steps; ++i) {
        const double time_s = static_cast<double>(i) * o.step_s;
        if (i % steps_a_day == 0) height = std::exp(o.noise * random.normal());
        const double sine = std::sin(std::numbers::pi * time_s / day_s);
        const double share =
            (o.low + (o.high - o.low) * sine * sine) * height * (1 + o.noise / 3 * random.normal());
        if (random.uniform() < o.spikes_per_day * o.step_s / day_s)
            spike_until_s = time_s + spike_s;
        const double with_spike = share + (time_s < spike_until_s ? spike_share : 0);
        load.steps.push_back({time_s, std::round(o.gpus * std::clamp(with_spike, 0.0, 1.0))});
    }
    return curve;
}

}  // namespace arena::sim
