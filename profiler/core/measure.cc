// SPDX-License-Identifier: GPL-2.0-or-later
// Median and its interval from order statistics; the sampling loop. Uses only what execute()
// returns, never a clock of its own, so that tests can drive it with invented timings.
#include "profiler/core/measure.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/statistics.h"

namespace arena {
namespace {

/// How many samples lie outside the interval at each end: the largest l with 2 P(Bin(n, 1/2) <= l)
/// <= 5 %, exactly for small n, by the normal approximation (less one, to stay above 95 %) beyond.
std::size_t samples_outside(std::size_t n) {
    const auto size = static_cast<double>(n);
    if (n > 60) return static_cast<std::size_t>(std::floor(size / 2 - 0.98 * std::sqrt(size))) - 1;
    double term = std::ldexp(1.0, -static_cast<int>(n)), sum = term;
    std::size_t l = 0;
    for (double k = 1; 2 * (sum + term * (size - k + 1) / k) <= 0.05; ++k, ++l) {
        term *= (size - k + 1) / k;
        sum += term;
    }
    return l;
}

/// A broken timer must not reach the sorting of samples, nor the arithmetic of batches.
bool is_time(double seconds) { return std::isfinite(seconds) && seconds >= 0; }

Measurement no_measurement() {
    Measurement m;
    m.seconds = m.spent_s = std::numeric_limits<double>::quiet_NaN();
    return m;
}

std::int64_t batch_for(double seconds, const StopRule& rule) {
    if (seconds >= rule.min_sample_s) return 1;
    const double floor = std::max(seconds, rule.min_sample_s / 1000);
    return static_cast<std::int64_t>(std::ceil(rule.min_sample_s / floor));
}

/// Warm-up after the cold execution: some runs and some time, at most a fifth of the share.
double warm_up(Operator& op, const StopRule& rule, double cold, double* spent) {
    double last = cold;
    const double until = std::min(rule.warm_up_s, rule.share_s / 5);
    for (std::int64_t run = 0; run < rule.warm_up_runs || *spent < until;) {
        if (*spent + last > rule.share_s / 2) break;
        const auto batch = run < rule.warm_up_runs ? 1 : batch_for(last, rule);
        const double t = op.execute(batch);
        last = t / static_cast<double>(batch);
        if (!is_time(t) || (t == 0 && run >= rule.warm_up_runs)) break;  // a clock that stands
        *spent += t;
        run += batch;
    }
    return last;
}

}  // namespace

MedianInterval median_interval(std::vector<double> samples) {
    std::sort(samples.begin(), samples.end());
    const std::size_t n = samples.size();
    if (n == 0) return {};
    MedianInterval r;
    r.median = median(samples);
    if (n == 1 || r.median <= 0) return r;
    const std::size_t low = n < 6 ? 0 : samples_outside(n);
    r.spread = (samples[n - 1 - low] - samples[low]) / 2 / r.median;
    r.confident = n >= 6;
    return r;
}

Measurement measure(Operator& op, const StopRule& rule) {
    Measurement m;
    std::vector<double> samples;
    const double cold = op.execute(1);
    if (!is_time(cold)) return no_measurement();
    m.spent_s = cold;
    double last = cold;
    if (2 * cold > rule.share_s + rule.reserve_s) {
        samples.push_back(cold);
        m.repeats = 1;
    } else if (4 * cold <= rule.share_s) {
        last = warm_up(op, rule, cold, &m.spent_s);
        if (!is_time(last)) return no_measurement();
    }
    const std::int64_t batch = batch_for(last, rule);
    MedianInterval interval = median_interval(samples);
    while (static_cast<std::int64_t>(samples.size()) < rule.max_samples) {
        const auto n = static_cast<std::int64_t>(samples.size());
        const double next = m.spent_s + last * static_cast<double>(batch);
        const double limit = rule.share_s + (n < rule.min_samples ? rule.reserve_s : 0);
        if (n > 0 && next > limit) break;
        if (interval.confident && interval.spread <= rule.target_spread) break;
        const double t = op.execute(batch);
        if (!is_time(t)) return no_measurement();
        m.spent_s += t;
        m.repeats += batch;
        last = t / static_cast<double>(batch);
        samples.push_back(last);
        interval = median_interval(samples);
    }
    m.seconds = interval.median;
    m.spread = interval.spread;
    return m;
}

}  // namespace arena
