// SPDX-License-Identifier: GPL-2.0-or-later
// Who is slow, by communication alone: in a call of a group the slow rank waits least, because the
// others wait for it; behind a slow link both ends, or all of a ring, wait together. Each rank and
// group is compared with itself as it was before the steps became slow. Source: Greyhound
// (ATC'25) compares groups with each other; that a rank's own time is what its steps take without
// its calls, and that it is held against what the steps have grown by, is ours. What is found here
// is a suspicion: a rank whose script does more work looks the same. A check tells.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace arena::slowdown {

/// A rank's calls of one communicator in some iterations.
struct WaitedCalls {
    std::string group;            ///< the same on all of its ranks
    int peer = -1;                ///< rank in the group, of sends and receives; -1: of collectives
    std::vector<double> seconds;  ///< in the calls, of each iteration; finite, >= 0
};

/// Iterations of one rank. Those of other ranks need not be the same ones.
struct RankWaits {
    int rank = 0;
    std::vector<double> step_s;  ///< of each iteration, finite, > 0
    std::vector<WaitedCalls> calls;
};

/// One moment of a job: each rank at most once.
using Look = std::vector<RankWaits>;

/// Puts the iterations of `more` behind those of `into`.
void add_look(Look& into, const Look& more);

struct WaitLimits {
    double threshold = 1.10;   ///< steps that grew by less than half of it say nothing; > 1
    double share = 0.5;        ///< of the growth, that a culprit explains alone
    double confidence = 0.95;  ///< that it explains so much
    std::size_t steps = 4;     ///< of each rank in a look; fewer say nothing
    std::size_t looks = 3;     ///< that agree
};

struct SlowRank {
    int rank = 0;
    double share = 0;       ///< of what the steps grew by: 1, all waited for it
    double factor = 1;      ///< its time outside of calls, now over before; > 1
    double confidence = 0;  ///< below 1
};
/// A pair, or all members of a group of which it is not known which pair.
struct SlowGroup {
    std::string group;
    std::vector<int> ranks;  ///< ascending, two and more
    double share = 0;        ///< of what the steps grew by
    double factor = 1;       ///< time in its calls of who waits least there; > 1, at most 1000
    double confidence = 0;
};
struct WaitVerdict {
    double step_factor = 1;         ///< steps now over steps before
    bool is_common = false;         ///< all ranks' own time grew: their work did, or all are slow
    std::vector<SlowRank> ranks;    ///< the largest share first
    std::vector<SlowGroup> groups;  ///< none where a rank is named; the fewest ranks first
};

/// What the looks at slow steps, and each of them, say. Fewer looks than limits.looks name
/// nobody.
///
/// Of rank i: own time o_i, the median over iterations of step minus calls; D, the median over
/// ranks of what the median step grew by; e_i = what o_i grew by beyond the rank in the middle. It
/// is slow where e_i > share D, with confidence Phi((e_i - share D) / s_i): s_i from the medians'
/// standard errors (normal; spread by the median absolute deviation, at least that of the usual
/// rank, and 1 % of a step). At most a quarter of the ranks (or one) are named so. Of a group: what
/// the calls' median of the member grew by that has grown least, in place of e_i; a pair's sends
/// and receives count together, both ways. Calls that run beside each other count each: own time
/// may be below 0.
///
/// Errors: a time out of range, a rank twice, calls with another number of iterations. Quadratic in
/// ranks, and in the calls of a rank.
Result<WaitVerdict> find_least_waiting(const Look& before, std::span<const Look> looks,
                                       const WaitLimits& limits = {});

}  // namespace arena::slowdown
