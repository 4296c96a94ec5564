// SPDX-License-Identifier: GPL-2.0-or-later
// PlanDesk: where plans are made. A model is a user's file, and a few kilobytes of it can ask for
// hours of search: a thread of its own makes one plan after another, within a budget, users in turn
// (plan_turns.h). A round waits a moment for new plans, which is enough for ordinary models, and
// goes on without the rest. Without the thread, as in unit tests, whoever asks makes them.
#pragma once

#include <condition_variable>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "planner/arrays/array_offers.h"
#include "planner/search/planner.h"
#include "plugin/sched/plans/plan_turns.h"

namespace arena {

struct Infeasible {
    Grid grid;
    std::string reason;
};

/// What one plan_grids() found.
struct PlanOutcome {
    std::vector<Offer> offers;
    std::vector<Infeasible> infeasible;
    std::string would_fit;    ///< where there are no offers; "" = nothing known
    std::size_t in_part = 0;  ///< grids that the budget did not do for
    double seconds = 0;       ///< it took
    std::string fault;        ///< of the planner itself
    bool no_room = false;     ///< nothing was looked at, for want of memory: `fault`
    std::string model_name;   ///< that its reasons name
    std::shared_ptr<const ArrayOffers> array;  ///< instead, where siblings were priced
};

/// What makes one, by the thread, within the limits.
using PlanWork = std::function<PlanOutcome(const PlanBudget::Limits&)>;
PlanWork price_siblings(ArrayQuery query);

struct PlanLimits {
    PlanBudget::Limits own;  ///< of one plan; own.stop is the desk's
    double round_wait_s = std::numeric_limits<double>::infinity();  ///< for all plans of a round
    bool has_thread = false;
    const std::atomic<bool>* stop = nullptr;  ///< nobody waits from then on
    std::function<void()> on_done = {};       ///< by the thread, after each plan
    /// Asked before each plan: see address_space_left().
    std::function<std::optional<std::size_t>()> memory_left = {};
};

/// In slurmctld: ordinary models take 0.1 s at most, and what a round waits for new plans is a part
/// of the half second that it may take.
PlanLimits slurm_plan_limits();

class PlanDesk {
  public:
    struct Stats {
        std::size_t waiting = 0;
        std::uint64_t made = 0, in_part = 0;
        double longest_s = 0;
    };

    explicit PlanDesk(PlanLimits);
    /// Stops the plan that is being made, within milliseconds.
    ~PlanDesk();
    PlanDesk(const PlanDesk&) = delete;
    PlanDesk& operator=(const PlanDesk&) = delete;

    /// What a round may wait is there again.
    void begin_round();
    /// The plan, if it is made or gets made in what is left of the round's wait; else it is in the
    /// user's queue and has to be asked for again. make_query, make_work are called where it is
    /// new.
    std::optional<PlanOutcome> ask(std::uint32_t user, const std::string& key,
                                   const std::function<PlanQuery()>& make_query);
    std::optional<PlanOutcome> ask_for(std::uint32_t user, const std::string& key,
                                       const std::function<PlanWork()>& make_work);
    /// All plans that were made and not yet given out.
    std::map<std::string, PlanOutcome> take_made();
    [[nodiscard]] Stats stats() const;
    [[nodiscard]] double own_seconds() const { return limits_.own.seconds; }

  private:
    void run();
    bool make_next(std::unique_lock<std::mutex>&);
    [[nodiscard]] PlanOutcome make(const PlanWork&) const;
    void wait_for(const std::string& key, std::unique_lock<std::mutex>&);

    PlanLimits limits_;
    std::atomic<bool> quits_{false};
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    PlanTurns turns_;
    std::map<std::string, PlanWork> works_;  ///< of what is in a queue
    std::string in_work_;
    std::map<std::string, PlanOutcome> made_;
    std::set<std::string> slow_;  ///< waited for in vain once: no round waits again
    double wait_left_s_ = 0;
    Stats stats_;
    std::thread thread_;
};

}  // namespace arena
