// SPDX-License-Identifier: GPL-2.0-or-later
// See rate_limit.h.
#include "reports/rate_limit.h"

#include <algorithm>

namespace arena {
namespace {

/// Looking through all buckets for full ones is left until there are so many.
constexpr std::size_t few = 1024;

}  // namespace

double TokenBucket::tokens(double now_s) const {
    return std::min(tokens_ + std::max(now_s - at_s_, 0.0) / rate_.every_s, rate_.burst);
}

void TokenBucket::take_one(double now_s) {
    tokens_ = tokens(now_s) - 1;
    at_s_ = std::max(at_s_, now_s);
}

/// A full bucket is what a new one is.
void ReportLimit::forget_full(Buckets& buckets, double now_s) {
    if (buckets.size() < few) return;
    std::erase_if(buckets, [&](const auto& entry) { return entry.second.is_full(now_s); });
}

bool ReportLimit::take(JobId job, std::uint32_t user, double now_s) {
    if (!all_.has_one(now_s)) return false;
    forget_full(jobs_, now_s);
    forget_full(users_, now_s);
    TokenBucket& of_job = jobs_.try_emplace(job, rates_.job, now_s).first->second;
    TokenBucket& of_user = users_.try_emplace(user, rates_.user, now_s).first->second;
    if (!of_job.has_one(now_s) || !of_user.has_one(now_s)) return false;
    for (TokenBucket* bucket : {&of_job, &of_user, &all_}) bucket->take_one(now_s);
    return true;
}

}  // namespace arena
