// SPDX-License-Identifier: GPL-2.0-or-later
// Validation: which links a check measures, how its answers become a verdict. Each GPU and link is
// held against itself in the pre-check; several rounds beat noise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "slowdown/locate.h"
#include "watch/chief/trainer.h"

namespace arena::watch {

/// Links that the job uses in the present placement, in passes: rings of data and tensor
/// parallelism, chains of pipelines both ways; of at most four ranks every link, for a role that
/// moves.
std::vector<slowdown::Pass> links_in_use(const TrainerPlan& plan, const Placement& placement);
/// Rings over the ranks of each group; groups may share ranks.
std::vector<slowdown::Pass> ring_links(std::span<const std::vector<int>> groups);
/// Each link once, in as few passes as they come to one after another.
std::vector<slowdown::Pass> passes_of(std::span<const slowdown::Transfer> links);

inline constexpr std::size_t longest_check = 512 << 10;  ///< bytes of a word

struct CheckWord {
    std::string text;
    std::size_t left_out = 0;  ///< links that found no room
};
/// "check 3 gpus links 0>1,2>3|1>2"; gpus or links must be wanted.
CheckWord check_word(std::int64_t id, bool gpus, const std::vector<slowdown::Pass>& passes);

/// Errors: a rank that is none, a time that is none, a link of a rank with itself; nothing in it.
Result<slowdown::CheckRound> to_round(const Checked& checked, std::int64_t ranks);

inline constexpr int usual_rounds = 3;  ///< of a check, where noise hides nothing

class Rounds {
  public:
    /// at_s: when its answer came, not before the last one's.
    void add(const slowdown::CheckRound& round, double at_s);
    void clear() { *this = Rounds(); }
    /// Without those whose answers came at this time or later.
    void keep_before(double at_s);
    [[nodiscard]] int count() const { return static_cast<int>(ends_.size()); }
    [[nodiscard]] const slowdown::CheckRound& all() const { return all_; }

  private:
    struct End {
        double at_s = 0;
        std::size_t gpus = 0, links = 0;
    };
    slowdown::CheckRound all_;
    std::vector<End> ends_;  ///< of each round in all_, in their order
};

/// From where on a check's GPUs and links are slow: beyond the threshold (links beyond 1.2, too)
/// and beyond what the baseline's rounds differ by themselves.
slowdown::LocateLimits limits_of(const slowdown::CheckRound& baseline,
                                 const slowdown::CheckRound& now, double threshold);

struct Judged {
    slowdown::Verdict verdict;
    bool has_baseline = true;            ///< false: GPUs were compared with others of their type
    slowdown::LocateLimits limits = {};  ///< that the verdict was held to
};
/// A slow GPU slows its links, and they are not blamed for it, unless the links are the larger
/// evidence: steps have become so much slower (step_factor; 0: not known) that no GPU that was
/// found explains it, or other work on the machine slows all GPUs a little and a link is slow by
/// far. Errors: answers that contradict each other.
Result<Judged> judge(const slowdown::CheckRound& baseline, const slowdown::CheckRound& now,
                     double threshold, double step_factor = 0);

inline constexpr double clear_factor = 1.3;  ///< from here on two rounds that agree decide
/// Whether noise leaves what is slow by clear_factor, or by the threshold, to be told from it.
bool is_sharp(double limit, double threshold);
/// Whether nothing that was found could be usual noise.
bool is_clear(const slowdown::Verdict& verdict);
/// What `now` finds and `before` found, too: other work on the machine slows one round, not two.
slowdown::Verdict in_both(const slowdown::Verdict& now, const slowdown::Verdict& before);

}  // namespace arena::watch
