// SPDX-License-Identifier: GPL-2.0-or-later
// How many reports a job, a user and all together may send: token buckets. Pure: the time, of a
// clock that nobody sets, is an argument.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "core/cluster.h"

namespace arena {

/// So many at once, and then one each so many seconds.
struct Rate {
    double burst = 1;
    double every_s = 1;
};

class TokenBucket {
  public:
    TokenBucket(Rate rate, double now_s) : rate_(rate), tokens_(rate.burst), at_s_(now_s) {}
    /// What is in it; a time before the last one counts as that.
    [[nodiscard]] double tokens(double now_s) const;
    [[nodiscard]] bool has_one(double now_s) const { return tokens(now_s) >= 1; }
    [[nodiscard]] bool is_full(double now_s) const { return tokens(now_s) >= rate_.burst; }
    void take_one(double now_s);

  private:
    Rate rate_;
    double tokens_, at_s_;
};

struct ReportRates {
    Rate job{6, 10}, user{60, 1}, all{240, 0.25};
};

/// What is refused takes nothing from anybody: one who floods is refused alone.
class ReportLimit {
  public:
    explicit ReportLimit(const ReportRates& rates = {}) : rates_(rates), all_(rates.all, 0) {}
    /// Whether this report may pass; it is counted then.
    bool take(JobId job, std::uint32_t user, double now_s);
    [[nodiscard]] std::size_t kept() const { return jobs_.size() + users_.size(); }

  private:
    using Buckets = std::unordered_map<std::uint32_t, TokenBucket>;
    static void forget_full(Buckets& buckets, double now_s);

    ReportRates rates_;
    TokenBucket all_;
    Buckets jobs_, users_;
};

}  // namespace arena
