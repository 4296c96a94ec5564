// SPDX-License-Identifier: GPL-2.0-or-later
#include "slowdown/change_points.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

namespace arena::slowdown {
namespace {

constexpr std::size_t shortest = 3, longest = 12;
constexpr double sure = 0.9;

}  // namespace

ChangePoints::ChangePoints(const ChangePrior& prior) : prior_(prior) {
    for (std::size_t r = 0; r <= prior.runs; ++r) {
        Scale scale;
        scale.kappa = prior.kappa + static_cast<double>(r);
        scale.alpha = prior.alpha + static_cast<double>(r) / 2;
        scale.norm = std::exp(std::lgamma(scale.alpha + 0.5) - std::lgamma(scale.alpha)) /
                     std::sqrt(2 * scale.alpha * std::numbers::pi);
        scales_.push_back(scale);
    }
    for (auto* levels : {&levels_, &next_levels_}) levels->reserve(prior.runs + 2);
    for (auto* masses : {&posterior_, &next_}) masses->reserve(prior.runs + 2);
    levels_.push_back({prior.mean, prior.beta});
    posterior_.push_back(1);
}

double ChangePoints::predict(std::size_t r, double x) const {
    const Scale& scale = scales_[r];
    const double variance = levels_[r].beta * (scale.kappa + 1) / (scale.alpha * scale.kappa);
    const double off = x - levels_[r].mean;
    return scale.norm / std::sqrt(variance) *
           std::pow(1 + off * off / (2 * scale.alpha * variance), -scale.alpha - 0.5);
}

void ChangePoints::add(double x) {
    next_.assign(1, 0);
    next_levels_.assign(1, {prior_.mean, prior_.beta});
    double total = 0;
    for (std::size_t r = 0; r < posterior_.size(); ++r) {
        // What no level explains must not make the total 0.
        const double mass =
            posterior_[r] * std::max(predict(r, x), std::numeric_limits<double>::min());
        total += mass;
        next_.push_back(mass * (1 - prior_.hazard));
        const double off = x - levels_[r].mean, kappa = scales_[r].kappa;
        next_levels_.push_back({levels_[r].mean + off / (kappa + 1),
                                levels_[r].beta + kappa * off * off / (2 * (kappa + 1))});
    }
    next_[0] = total * prior_.hazard;
    if (next_.size() > prior_.runs + 1) {  // the longest run forgets its age, not its mass
        next_[prior_.runs] += next_.back();
        next_.pop_back();
        next_levels_.pop_back();
    }
    const double sum = std::accumulate(next_.begin(), next_.end(), 0.0);
    for (double& mass : next_) mass /= sum;
    next_.swap(posterior_);
    next_levels_.swap(levels_);
}

std::optional<RunLength> ChangePoints::recent_change() const {
    if (posterior_.size() <= shortest) return std::nullopt;
    const std::size_t end = std::min(posterior_.size(), longest + 1);
    const auto first = posterior_.begin() + shortest,
               last = posterior_.begin() + static_cast<std::ptrdiff_t>(end);
    const double together = std::accumulate(first, last, 0.0);
    if (together <= sure) return std::nullopt;
    const auto best = std::max_element(first, last);
    return RunLength{static_cast<std::size_t>(best - posterior_.begin()), together};
}

}  // namespace arena::slowdown
