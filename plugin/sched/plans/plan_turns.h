// SPDX-License-Identifier: GPL-2.0-or-later
// PlanTurns: whose plan is made next. Users have equal shares of the planner's time, whatever they
// ask for: one whose models take a second each keeps another's, of milliseconds, waiting for one of
// his own at most. Pure: seconds are told, keys are text.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace arena {

class PlanTurns {
  public:
    using User = std::uint32_t;
    struct Turn {
        User user;
        std::string key;
        bool operator==(const Turn&) const = default;
    };
    /// Plans that wait, of one user; of many users together it is one each from max_queued on.
    static constexpr std::size_t max_of_user = 16, max_queued = 256;
    /// A plan that nobody has asked for in so many rounds is not made.
    static constexpr std::uint64_t rounds_kept = 3;

    /// Begins a round, and forgets what nobody asks for any more; returns what it forgot.
    std::vector<std::string> begin_round();
    /// Puts the plan into the user's queue, or keeps it there; false where that is full.
    bool ask(User user, const std::string& key);
    /// Takes out the oldest plan of the user who has had the least time.
    std::optional<Turn> next();
    /// What a turn has taken.
    void charge(User user, double seconds);
    [[nodiscard]] bool empty() const { return asked_.empty(); }
    [[nodiscard]] std::size_t size() const { return asked_.size(); }

  private:
    struct Queue {
        std::deque<std::string> keys;
        double used_s = 0;
    };
    [[nodiscard]] double least_used_s() const;
    void remove(const std::string& key);

    std::map<User, Queue> users_;
    std::map<std::string, std::uint64_t> asked_;  ///< of what waits: the last round that asked
    std::uint64_t round_ = 0;
};

}  // namespace arena
