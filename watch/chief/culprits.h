// SPDX-License-Identifier: GPL-2.0-or-later
// What is slow while an event is open, each GPU and link a report of its own: said when it is
// found, again when it has changed, and when it is over.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "reports/rate_limit.h"
#include "slowdown/locate.h"
#include "watch/chief/trainer.h"

namespace arena::watch {

struct Culprit {
    SlowReport report;       ///< as it is known now
    int rank = -1;           ///< -1: only its place is known
    int peer = -1;           ///< of a link
    int healthy_checks = 0;  ///< one after another
    std::int64_t healthy_since = 0;
    std::optional<SlowReport> told = {};
    double told_at_s = 0;
    [[nodiscard]] bool is_over() const { return report.relief != 0; }
};

class Culprits {
  public:
    static constexpr std::size_t most = 16;  ///< in an event
    static constexpr int healthy_checks = 2;

    explicit Culprits(std::uint32_t life) : life_(life) {}

    /// Adds what is new, and the factors of what is known. onset: of the new ones.
    void found(const slowdown::Verdict& verdict, const Trainer& trainer, std::int64_t onset);
    /// What no check has measured: a GPU, or a link to the peer where that is a place.
    struct Suspicion {
        SlowPlace at = {}, peer = {};
        double factor = 1, confidence = 1;
        int rank = -1;  ///< -1: only its place is known
    };
    /// These, since `onset`; suspects that are not among them are none any more.
    void suspect(const std::vector<Suspicion>& all, std::int64_t onset, std::int64_t epoch_s);
    /// Without those that are open and have recovered: a machine that others load measures links a
    /// few tens of percent slow for ever, which is no link ten times slow.
    [[nodiscard]] slowdown::Verdict without_recovered(slowdown::Verdict verdict) const;
    /// The steps are slow, and nobody can tell what is.
    void unexplained(double factor, std::int64_t onset);
    /// Without those new ones that can be no cause of what the slowest GPU, or link, does: all wait
    /// for that one. On a busy machine the GPU beside a slow one is a little slow, too.
    [[nodiscard]] slowdown::Verdict without_lesser(slowdown::Verdict verdict) const;
    /// A check has measured `round`: those that are not in its verdict were healthy, once more.
    void rechecked(const slowdown::Verdict& verdict, const slowdown::CheckRound& round,
                   std::int64_t epoch_s, int enough = healthy_checks);
    void lost(double seconds);
    void act(SlowAction action);
    void over(std::int64_t epoch_s);  ///< all of them
    void clear() { all_.clear(); }

    /// What is to be reported now: at most one of each in ten seconds, but for the first and the
    /// last. steps: of the job that were watched so far.
    std::vector<SlowReport> due(double now_s, std::int64_t steps);
    [[nodiscard]] const std::vector<Culprit>& all() const { return all_; }
    /// Any but what is unexplained.
    [[nodiscard]] bool any_open() const;
    [[nodiscard]] bool any_named() const;
    [[nodiscard]] bool any_open(SlowCause cause) const;
    /// Links that no report can name: between GPUs of one node whose numbers are not known.
    [[nodiscard]] std::size_t without_place() const { return without_place_; }

  private:
    void note(Culprit culprit);
    void suspect_one(const Suspicion& suspicion, std::int64_t onset);
    void explained(std::int64_t epoch_s);

    std::uint32_t life_;
    std::vector<Culprit> all_;
    std::size_t without_place_ = 0;
    TokenBucket bucket_{{.burst = 5, .every_s = 10}, 0};
};

}  // namespace arena::watch
