// SPDX-License-Identifier: GPL-2.0-or-later
#include "slowdown/micro_batches.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <queue>
#include <string>
#include <utility>

#include "base/statistics.h"

namespace arena::slowdown {

namespace {

bool is_positive(double value) { return std::isfinite(value) && value > 0; }

Status check(std::span<const double> times, std::int64_t micro_batches, std::int64_t stages) {
    if (times.empty()) return usage_error("no replica");
    if (stages < 1 || stages > most_micro_batches)
        return usage_error("the number of pipeline stages is not 1 to 10,000,000");
    if (micro_batches > most_micro_batches)
        return usage_error("more than 10,000,000 micro-batches");
    if (micro_batches < static_cast<std::int64_t>(times.size()))
        return no_error("fewer micro-batches than replicas: each needs one");
    for (std::size_t i = 0; i < times.size(); ++i)
        if (!is_positive(times[i]))
            return usage_error("its time per micro-batch is no number above 0",
                               "replica " + std::to_string(i));
    return Done{};
}

}  // namespace

double greatest_time(std::span<const double> times, std::span<const std::int64_t> counts,
                     std::int64_t stages) {
    double greatest = 0;
    for (std::size_t i = 0; i < times.size(); ++i)
        greatest = std::max(greatest, static_cast<double>(counts[i] + stages - 1) * times[i]);
    return greatest;
}

Result<MicroBatchSplit> split_micro_batches(std::span<const double> times,
                                            std::int64_t micro_batches, std::int64_t stages) {
    if (const auto checked = check(times, micro_batches, stages); !checked) return checked.error();
    // Each time is what the replica would take with one more. Taking the least is exact: the k-th
    // one taken is the k-th least of all such times, and no plan has a lower greatest one.
    using WithOneMore = std::pair<double, std::size_t>;
    const auto with_one_more = [&](std::int64_t count, std::size_t i) {
        return WithOneMore{static_cast<double>(count + stages) * times[i], i};
    };
    std::vector<WithOneMore> first;
    for (std::size_t i = 0; i < times.size(); ++i) first.push_back(with_one_more(1, i));
    std::priority_queue heap(std::greater<>{}, std::move(first));
    MicroBatchSplit plan{std::vector<std::int64_t>(times.size(), 1)};
    for (auto left = micro_batches - static_cast<std::int64_t>(times.size()); left > 0; --left) {
        const std::size_t i = heap.top().second;
        heap.pop();
        heap.push(with_one_more(++plan.counts[i], i));
    }
    plan.value = greatest_time(times, plan.counts, stages);
    return plan;
}

std::vector<double> gradient_weights(std::span<const std::int64_t> counts) {
    const auto sum = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
    std::vector<double> weights;
    for (const std::int64_t count : counts)
        weights.push_back(static_cast<double>(count) * static_cast<double>(counts.size()) /
                          static_cast<double>(sum));
    return weights;
}

Result<Calibration> calibrate(std::span<const Observed> observed) {
    if (observed.empty()) return usage_error("no iteration was observed");
    double x_sum = 0, y_sum = 0;
    for (const Observed& o : observed) {
        if (!is_positive(o.value) || !is_positive(o.iteration))
            return usage_error("an observed time is no number above 0");
        x_sum += o.value;
        y_sum += o.iteration;
    }
    const double n = static_cast<double>(observed.size());
    const double x_mean = x_sum / n, y_mean = y_sum / n;
    double xx = 0, xy = 0, about_zero_xx = 0, about_zero_xy = 0;
    for (const Observed& o : observed) {
        xx += (o.value - x_mean) * (o.value - x_mean);
        xy += (o.value - x_mean) * (o.iteration - y_mean);
        about_zero_xx += o.value * o.value;
        about_zero_xy += o.value * o.iteration;
    }
    const bool one_split = xx <= 1e-12 * about_zero_xx;
    const double slope = one_split ? 1 : std::max(0.0, xy / xx);
    const double fixed = y_mean - slope * x_mean;
    if (fixed >= 0) return Calibration{fixed, slope};
    return Calibration{0, about_zero_xy / about_zero_xx};
}

Result<std::vector<double>> times_from_products(std::span<const double> products,
                                                const Bounds& bounds) {
    if (products.empty()) return usage_error("no replica");
    if (!std::all_of(products.begin(), products.end(), is_positive))
        return usage_error("a time of a matrix product is no number above 0");
    if (!is_positive(bounds.healthy) || !is_positive(bounds.even_share) ||
        !std::isfinite(bounds.current) || bounds.current < bounds.healthy)
        return usage_error("the iteration now is not at least the healthy one, above 0");
    const auto [fastest, slowest] = std::ranges::minmax(products);
    const double usual = median_low_of({products.begin(), products.end()});  // of two: the other
    std::vector<double> times;
    for (const double product : products) {
        const bool healthy = product <= 1.10 * usual;
        const double share = healthy ? 0 : (product - fastest) / (slowest - fastest);
        times.push_back(std::lerp(bounds.healthy, bounds.current, share) / bounds.even_share);
    }
    return times;
}

}  // namespace arena::slowdown
