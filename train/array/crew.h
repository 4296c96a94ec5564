// SPDX-License-Identifier: GPL-2.0-or-later
// What the array does between two rounds, as its first rank decides it and tells it the others: who
// leaves, who joins, who sits out, whether it ends.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "train/members/member_source.h"

namespace arena::train {

struct Boundary {
    struct Leaver {
        MemberId id = 0;
        bool save = false;
        bool operator==(const Leaver&) const = default;
    };
    struct Newcomer {
        MemberId id = 0;
        MemberOptions options;
    };
    std::vector<Leaver> leavers;
    std::vector<Newcomer> newcomers;  ///< after the leavers
    std::vector<MemberId> idle;       ///< sit out the next round
    Index iterations = 1;             ///< of the next round, at most
    bool end = false;                 ///< after the leavers
};
std::string to_text(const Boundary&);
/// Of what to_text() made.
Boundary read_boundary(const std::string&);

class Crew {
  public:
    using Clock = std::function<double()>;  ///< seconds that do not go back
    /// The array ends when it had no member for idle_s.
    Crew(MemberSource&, ArrayLimits, double idle_s, Clock);

    /// `told`: the array was told to leave, and all members with it.
    Boundary next(bool told, Index iterations);
    /// Members that are here no more: next() has them no longer.
    void ended(MemberId);
    /// Whether next() would have something else to say than to go on; `told` as there.
    bool has_news(bool told);
    [[nodiscard]] bool is_empty() const { return members_.empty(); }

  private:
    void take_events();
    void take_in(MemberEvent&, Boundary&);
    [[nodiscard]] std::string why_not(const MemberOptions&) const;

    MemberSource& source_;
    ArrayLimits limits_;
    double idle_s_;
    Clock clock_;
    double empty_since_s_;
    std::map<MemberId, Index> members_;  ///< their places in the job array
    std::vector<MemberEvent> events_;
};

}  // namespace arena::train
