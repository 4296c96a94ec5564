// SPDX-License-Identifier: GPL-2.0-or-later
// The trainer as the chief knows it: where its ranks are, what it may be told, the word that it was
// told last and has not obeyed yet. One word at a time, and only such that its plan can obey.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reports/slow_report.h"
#include "slowdown/roles.h"
#include "watch/chief/chief.h"

namespace arena::watch {

using Counts = std::vector<std::int64_t>;  ///< micro-batches of each replica
/// Rank as started at each place: (replica * pp + stage) * tp + shard.
using Placement = slowdown::Placement;
/// Of a plan that fits together. arena-train numbers replicas within a stage (frames.h).
Placement ranks_as_started(const TrainerPlan& plan);

/// As even as they can be dealt.
Counts even_split(std::int64_t micro_batches, std::int64_t replicas);

struct Swap {
    std::int64_t a = 0, b = 0;  ///< ranks as started
};
/// Swaps of ranks that lead from one placement to another, one after another; empty: the same.
std::vector<Swap> swaps_between(const Placement& from, const Placement& to);

class Trainer {
  public:
    /// What kind of word it was, and what it makes true.
    struct Word {
        enum class Kind { check, split, swap };
        Kind kind = Kind::check;
        std::string text;
        std::int64_t check = 0;  ///< its number
        Counts counts = {};
        Swap swap = {};
    };

    void hello(PeerId peer, const TrainerHello& hello);
    /// Errors: one that contradicts the hello or itself. Nothing may be said then.
    Status plan(const TrainerPlan& plan);
    void gone();
    /// It is one that was here before, whose ranks have these roles.
    void resume(const Placement& placement) {
        if (placement.size() == placement_.size()) placement_ = placement;
    }

    [[nodiscard]] bool is_here() const { return here_; }
    [[nodiscard]] bool obeys() const { return here_ && has_plan_; }
    [[nodiscard]] PeerId peer() const { return peer_; }
    [[nodiscard]] const TrainerPlan& plan() const { return plan_; }
    [[nodiscard]] std::int64_t ranks() const {
        return static_cast<std::int64_t>(hello_.nodes.size());
    }
    /// Empty node: not known.
    [[nodiscard]] SlowPlace place_of(std::int64_t rank) const;
    [[nodiscard]] const Counts& counts() const { return plan_.micro_batches; }
    [[nodiscard]] std::int64_t micro_batches() const;
    [[nodiscard]] const Placement& placement() const { return placement_; }
    [[nodiscard]] Placement started() const;
    /// The same with nodes, a node being tp ranks that follow one another; empty: a node's ranks
    /// are apart.
    [[nodiscard]] Placement node_placement() const;
    [[nodiscard]] bool is_changed() const;

    [[nodiscard]] bool is_idle() const { return !word_; }
    /// It was told to swap and may have done so.
    [[nodiscard]] bool may_swap() const { return word_ && word_->kind == Word::Kind::swap; }
    /// Only where obeys() and is_idle(); nothing otherwise, and of a word that the plan cannot
    /// obey.
    std::optional<Message> say(Word word, double now_s);
    /// The word that has been obeyed or answered; nothing: another one, or none.
    std::optional<Word> obeyed(const Obeyed& obeyed);
    std::optional<Word> checked(const Checked& checked);
    void step_done(const StepDone& step);
    /// The word that nobody obeys any more: steps went on without it, or too long ago.
    std::optional<Word> lost(double now_s);

    /// Seconds of the dearest swap so far; 0: none yet.
    [[nodiscard]] double swap_s() const { return swap_s_; }
    [[nodiscard]] double step_s() const { return step_s_; }

  private:
    [[nodiscard]] bool can_obey(const Word& word) const;
    void apply(const Word& word);

    bool here_ = false, has_plan_ = false;
    PeerId peer_ = 0;
    TrainerHello hello_;
    TrainerPlan plan_;
    Placement placement_;
    std::optional<Word> word_;
    double said_at_s_ = 0;
    std::int64_t steps_since_ = 0;
    double swap_s_ = 0, step_s_ = 0;
};

}  // namespace arena::watch
