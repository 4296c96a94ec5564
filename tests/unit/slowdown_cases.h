// SPDX-License-Identifier: GPL-2.0-or-later
// Iteration times and call streams by seed, with what is true of them: the noise is that of
// measured training (spread, spikes, a collector's regular pauses, drift).
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <vector>

#include "tests/lab/slowdown/truth/calls_file.h"
#include "tests/lab/slowdown/truth/series.h"

namespace arena::test {

struct Random {
    std::mt19937_64 engine;
    double uniform(double low, double high) {
        return low + (high - low) * std::uniform_real_distribution<>(0, 1)(engine);
    }
    double normal() { return std::normal_distribution<>()(engine); }
    template <typename T>
    T one_of(const std::vector<T>& of) {
        return of[engine() % of.size()];
    }
};

struct NoiseModel {
    std::size_t length = 400;
    std::vector<double> spreads{0.003, 0.01, 0.02, 0.03};
    std::vector<double> factors{1.05, 1.08, 1.13, 1.16, 1.2, 1.35, 1.6, 2, 4};
    double spike_share = 0.015, largest_spike = 2.2, pause = 1.12, drift = 0.02;
    double shortest_event = 16, longest_event = 110;
};

struct LabelledSeries {
    slowdown::Series series;
    std::vector<slowdown::Label> labels;
};

/// Factors of each iteration; labels of what changes them.
inline std::vector<double> make_events(Random& random, const NoiseModel& model,
                                       std::vector<slowdown::Label>& labels) {
    std::vector<double> factors(model.length, 1.0);
    const double last = static_cast<double>(model.length) - 12;
    double at = 30 + random.uniform(10, 60);
    while (at < last) {
        const double factor = random.one_of(model.factors);
        double end = at + random.uniform(model.shortest_event, model.longest_event);
        const bool has_relief = end < last;
        if (!has_relief) end = static_cast<double>(model.length);
        const auto from = static_cast<std::size_t>(at), to = static_cast<std::size_t>(end);
        for (std::size_t i = from; i < to; ++i) factors[i] = factor;
        labels.push_back({from, true, factor > 1.11});
        if (!has_relief) break;
        labels.push_back({to, false, factor > 1.11});
        at = end + model.shortest_event + random.uniform(10, 60);
    }
    return factors;
}

inline LabelledSeries make_series(unsigned seed, const NoiseModel& model, bool has_events = true) {
    Random random{std::mt19937_64(seed)};
    LabelledSeries made;
    const double base_s = std::exp(random.uniform(std::log(0.05), std::log(30.0)));
    const double spread = random.one_of(model.spreads);
    const auto pause = random.one_of(std::vector<std::size_t>{0, 40, 50, 100});
    const double drift = random.uniform(-model.drift, model.drift);
    std::vector<double> factors(model.length, 1.0);
    if (has_events) factors = make_events(random, model, made.labels);
    for (std::size_t i = 0; i < model.length; ++i) {
        double time_s = base_s * factors[i] * (1 + spread * random.normal());
        time_s *= 1 + drift * static_cast<double>(i) / static_cast<double>(model.length);
        if (random.uniform(0, 1) < model.spike_share)
            time_s *= random.uniform(1.15, model.largest_spike);
        if (pause > 0 && i % pause == pause - 1) time_s *= model.pause;
        made.series.push_back({time_s, 0});
    }
    return made;
}

/// Every fifth of `count` series is without events.
inline slowdown::DetectionScore score_of(unsigned seed, unsigned count, const NoiseModel& model,
                                         const slowdown::DetectorOptions& options = {}) {
    slowdown::DetectionScore score;
    for (unsigned i = 0; i < count; ++i) {
        const LabelledSeries made = make_series(seed * 1000 + i, model, i % 5 != 0);
        score.add(made.labels, *slowdown::detect(made.series, options));
    }
    return score;
}

using StepKeys = std::vector<slowdown::CallKey>;
inline slowdown::CallKey key(slowdown::Op op, std::int64_t count, std::int64_t comm) {
    return {op, count, comm, -1};
}
inline void append(StepKeys& keys, std::size_t times, const StepKeys& these) {
    for (std::size_t i = 0; i < times; ++i) keys.insert(keys.end(), these.begin(), these.end());
}

struct MadeStep {
    std::int64_t start_us = 0, duration_us = 0;
    std::size_t calls = 0;
};
struct MadeStream {
    std::vector<slowdown::Call> calls;
    std::vector<MadeStep> steps;
};

/// Steps of about 1 s: the first call at the start, the others at random.
inline MadeStream make_stream(unsigned seed, std::size_t steps,
                              const std::function<StepKeys(std::size_t)>& step) {
    Random random{std::mt19937_64(seed)};
    MadeStream made;
    double now_us = random.uniform(0, 1e7);
    for (std::size_t k = 0; k < steps; ++k) {
        const StepKeys keys = step(k);
        const double duration_us = 1e6 * (1 + 0.01 * random.normal());
        std::vector<double> places{0};
        while (places.size() < keys.size()) places.push_back(random.uniform(0, 1));
        std::sort(places.begin(), places.end());
        made.steps.push_back({std::int64_t(now_us), std::int64_t(duration_us), keys.size()});
        for (std::size_t i = 0; i < keys.size(); ++i)
            made.calls.push_back({keys[i], std::int64_t(now_us + places[i] * duration_us)});
        now_us += duration_us;
    }
    return made;
}

}  // namespace arena::test
