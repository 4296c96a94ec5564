// SPDX-License-Identifier: GPL-2.0-or-later
// PastUses: how much of what they said the last jobs of each user really used (Tsafrir and others,
// TPDS 2007: a user's last jobs predict the next one better than its limit). Bounded; what is
// remembered beyond a restart stands in the history's file.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>

namespace arena {

/// Of what a job says (its steps or its time limit), what its like used: 0 to 1.
struct PastUse {
    double used = 1;          ///< the median; 1 where nothing is known
    std::size_t jobs = 0;     ///< of so many; 0 = too few
    bool of_account = false;  ///< of all jobs of the account, where the user has too few
    bool operator==(const PastUse&) const = default;
};

class PastUses {
  public:
    /// Last jobs that count, and how few tell nothing.
    static constexpr std::size_t last_jobs = 20, few_jobs = 5;
    /// Users, and accounts; of more than so many the one that was longest quiet is forgotten.
    static constexpr std::size_t most = 4096;
    /// No job is taken to use less of what it says.
    static constexpr double least = 0.01;

    /// A job of this user ended. Clamped to least..1; the account "" has no past.
    void note(std::uint32_t uid, const std::string& account, double used);
    [[nodiscard]] PastUse of(std::uint32_t uid, const std::string& account) const;

  private:
    struct Last {
        std::deque<double> used;
        std::uint64_t touched = 0;
    };
    template <typename Key>
    void add(std::map<Key, Last>& pasts, const Key& key, double used);

    std::map<std::uint32_t, Last> users_;
    std::map<std::string, Last> accounts_;
    std::uint64_t touches_ = 0;
};

}  // namespace arena
