// SPDX-License-Identifier: GPL-2.0-or-later
// What was chosen for each task by count, put on nodes: who keeps its nodes, who waited too long,
// the changes, and then whatever finds nodes in what is left. What finds none makes room where that
// pays (displacement.h), or takes something else. Several assignments can be tried and the best
// kept; nothing here knows what a value means.
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "core/decision.h"
#include "policy/arena/displacement.h"
#include "policy/arena/exhaustive.h"
#include "policy/packing.h"

namespace arena {

/// What an assignment goes by. References are kept.
struct AssignmentInput {
    const Problem* problem;
    std::span<const double>
        values;  ///< by choice, all tasks one after the other; 0 = not to be taken
    std::span<const double> moved;      ///< by task: value of its current choice on other nodes
    const std::vector<bool>* starving;  ///< by task: has what it can have before all others
    /// By task: who stands before others; then none of them makes room for it that stands before
    /// it, and what is worth nothing to it is no help. nullptr: nobody does.
    const std::vector<std::uint32_t>* place = nullptr;
};

class Assignment {
  public:
    /// `packing`: as the snapshot has it. Starts with nothing given to anybody.
    Assignment(const AssignmentInput&, Packing packing);

    /// chosen: by task, index within its choices or -1. Changes are made in the order of their
    /// GPUs, most first, so that small ones fill gaps. Once.
    void place_all(const std::vector<std::int32_t>& chosen, Displacement&);

    /// Gives everybody just that, by task; instead of place_all(). Once.
    void assign(std::vector<Outcome> outcomes);

    [[nodiscard]] double value() const { return value_; }  ///< sum over all tasks
    /// Tasks that did not get what was chosen for them.
    [[nodiscard]] const std::vector<std::size_t>& missed() const { return missed_; }
    [[nodiscard]] std::vector<bool>& given() { return given_; }  ///< have what they will have
    [[nodiscard]] const std::vector<bool>& keeps() const {
        return keeps_;
    }  ///< that is what they run with
    [[nodiscard]] const Packing& packing() const { return packing_; }
    /// Without a reason: what was chosen for the task.
    [[nodiscard]] std::vector<Action>& actions() { return actions_; }
    /// What is idle after all else goes to those of these values, which had none before: as those
    /// of AssignmentInput, and kept as long.
    void give_idle(std::span<const double> values);
    /// A task that keeps its nodes leaves them for the choice, if that finds nodes then which are
    /// worth the seconds that they boot together.
    bool move(std::size_t i, const Choice&, const std::function<bool(double boot_node_s)>& pays,
              std::string_view why);
    /// A task that was given nodes which boot for so many seconds together.
    struct Waking {
        std::size_t task = 0;
        std::int32_t choice = 0;  ///< index into those of the problem
        double node_s = 0;
    };
    [[nodiscard]] const std::vector<Waking>& waking() const { return waking_; }

  private:
    using ByValue = std::vector<std::pair<double, std::size_t>>;  ///< (-value, index of the choice)
    [[nodiscard]] std::size_t item(std::size_t i, std::size_t choice) const {
        return input_.problem->tasks()[i].first_choice + choice;
    }
    [[nodiscard]] ByValue choices_by_value(std::size_t i) const;
    [[nodiscard]] double value_of(std::size_t i, const Placement&) const;
    void keep(std::size_t i);
    void give(std::size_t i, std::string_view why);
    void note_boots(std::size_t i);
    void place_closer(std::vector<Outcome>&);
    [[nodiscard]] std::vector<std::size_t> release_changes();
    void sort_changes(std::vector<std::size_t>&) const;
    bool place_any(std::size_t i);
    [[nodiscard]] double value_of_fall_back(std::size_t i);
    bool displace_for(std::size_t i, const Choice&, double alternative,
                      const std::vector<bool>& may_leave, std::string_view why, Displacement&);
    [[nodiscard]] std::vector<std::size_t> starving_in_order() const;
    void rescue(Displacement&);
    void place_or_fall_back(std::size_t i, Displacement&);
    void fill();

    AssignmentInput input_;
    Packing packing_;
    std::vector<std::int32_t> chosen_;
    std::vector<bool> given_, keeps_;
    std::vector<double> got_;  ///< by task
    std::vector<std::size_t> missed_;
    std::vector<Waking> waking_;
    std::vector<Action> actions_;
    Placement placement_;
    double value_ = 0;
};

}  // namespace arena
