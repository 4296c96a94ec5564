// SPDX-License-Identifier: GPL-2.0-or-later
// Profiling: what the ranks' calls took, by communicator. Names groups whose links are worth a
// check; who waits least in them is slowdown/waits.h's.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "slowdown/waits.h"
#include "watch/wire/frames.h"

namespace arena::watch {

class GroupProfile {
  public:
    static constexpr std::int64_t iterations = 5;
    static constexpr std::size_t most_groups = 65'536;  ///< members of all groups together

    void clear() { *this = GroupProfile(); }
    void add(const GroupTimes& times);
    [[nodiscard]] std::size_t ranks() const { return ranks_.size(); }
    /// Of ranks whose iterations are known.
    [[nodiscard]] const slowdown::Look& look() const { return look_; }

    struct Suspicious {
        std::string group;
        std::vector<int> ranks;  ///< in their order, two and more
        double factor = 1;       ///< over the median of comparable groups
        bool is_alone = false;   ///< nothing to compare it with
    };
    /// Comparable: the same kind of calls, bytes and number of ranks. The slowest first.
    [[nodiscard]] std::vector<Suspicious> suspicious(double threshold) const;

  private:
    struct Group {
        std::string kind;
        std::int64_t bytes = 0;
        std::map<std::int64_t, double> seconds;  ///< by rank
    };
    std::map<std::pair<std::string, std::string>, Group> groups_;  ///< by name and kind
    std::set<std::int64_t> ranks_;
    slowdown::Look look_;
    std::size_t members_ = 0;
};

}  // namespace arena::watch
