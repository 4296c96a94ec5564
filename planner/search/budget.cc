// SPDX-License-Identifier: GPL-2.0-or-later
#include "planner/search/budget.h"

#include <algorithm>
#include <cmath>
#include <ctime>

namespace arena {

namespace {

constexpr std::int64_t no_limit = std::numeric_limits<std::int64_t>::max();

double thread_cpu_s() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

PlanBudget::PlanBudget(Limits limits)
    : limits_(limits),
      until_s_(std::isfinite(limits.seconds) ? thread_cpu_s() + limits.seconds : limits.seconds),
      half_s_(until_s_ - limits.seconds / 2),
      until_polls_(limits.polls) {}

bool PlanBudget::has_limits() const {
    return std::isfinite(until_s_) || until_polls_ != no_limit || limits_.stop != nullptr;
}

bool PlanBudget::look() {
    polled_ += looked_ - to_look_;
    looked_ = to_look_ = stride;
    is_spent_ = has_limits() && (is_stopped() || polled_ >= until_polls_ ||
                                 (std::isfinite(until_s_) && thread_cpu_s() >= until_s_));
    return is_spent_;
}

PlanBudget::Slice::Slice(PlanBudget& budget, double share)
    : budget_(budget), until_s_(budget.until_s_), until_polls_(budget.until_polls_) {
    if (std::isfinite(until_s_)) {
        const double now_s = thread_cpu_s();
        const double own_s = now_s + share * std::max(0.0, until_s_ - now_s);
        budget.until_s_ = std::min(until_s_, std::max(own_s, budget.half_s_));
    }
    if (until_polls_ != no_limit) {
        const double left = static_cast<double>(until_polls_ - budget.polls());
        const std::int64_t own =
            budget.polls() + static_cast<std::int64_t>(share * std::max(0.0, left));
        budget.until_polls_ = std::min(until_polls_, std::max(own, budget.limits_.polls / 2));
    }
}

PlanBudget::Slice::~Slice() {
    budget_.until_s_ = until_s_;
    budget_.until_polls_ = until_polls_;
    budget_.look();
}

}  // namespace arena
