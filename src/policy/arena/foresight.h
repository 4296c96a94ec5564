// SPDX-License-Identifier: GPL-2.0-or-later
// What waiting jobs that will never be changed should take. Their choice is for life, so each
// choice is weighed against what the job could have a little later, when running jobs end, and
// against what the GPUs are worth to others: a list schedule of all such jobs on the GPUs as they
// will come free. Leaves out on purpose: jobs that have not come yet, but for as many as waited
// lately; elastic jobs, whose GPUs can be had at any time by the rules of the policy.
#pragma once

#include <map>
#include <span>
#include <utility>
#include <vector>

#include "policy/arena/arena_rules.h"
#include "policy/order/turn.h"
#include "policy/packing.h"

namespace arena {

/// Of one task. What is foreseen only for jobs that wait and are not elastic; else as here.
struct Prospect {
    const Choice* best =
        nullptr;             ///< what it should take, now or later; nullptr: nothing is foreseen
    double wait_s = 0;       ///< until then; 0: its nodes are free now
    double least_cost = 0;   ///< of `best`, with the wait
    bool scattered = false;  ///< enough GPUs are free now, but not on nodes together: waits for the
                             ///< next that are
    double price = 0;        ///< of a GPU-second, in seconds of delay of all others together
};

/// A cost is in seconds: the time until the job ends with the choice, the boot of nodes that sleep
/// now included, and the delay of others,
/// which is price x worth of the type x the GPU-seconds that it takes, or leaves idle while it
/// waits for the last of them. The price of a GPU-second: how many jobs wait behind this one, and
/// as many as waited on average over the last twelve hours (as far as they are still here), over
/// all GPUs; half of it for GPUs that are idle now. The worth of
/// a type: the speed per GPU of its best count, relative to the job's best type, averaged over
/// jobs, with a mean over the GPUs of 1. Jobs choose in the order of their least worth x GPUs x
/// time by weight. Of choices of a type that cost hardly more than the best the one with the fewest
/// GPUs counts as the best. Nobody waits for a job that has overrun or of whose end nothing is
/// known. Without running jobs the first one starts. GPUs that are idle while a job that was
/// promised an end waits for more are there for those of lower steps, where the packing gives them:
/// to who is gone in time for the promise. A choice that is free by count but not on nodes together
/// is free when the known ends leave such nodes; of one type and count it is waited for only where
/// the job ends sooner by that than with a layout that is free now.
class Foresight {
  public:
    /// weights: by task, > 0. Keeps the references. O(jobs x choices + steps): jobs that the budget
    /// of options.search_steps does not reach, the last of the order, have no prospect.
    /// turn: may be null; else who stands in a higher step chooses first, and who was promised an
    /// end only of what ends in time.
    Foresight(const Problem&, const Packing&, std::span<const double> weights, const ArenaRules&,
              const Turn* turn = nullptr);
    /// By task.
    [[nodiscard]] const std::vector<Prospect>& prospects() const { return prospects_; }
    /// What the choice costs without any wait, over the least that the job can have: at most 1 when
    /// it should not wait for another one.
    [[nodiscard]] double over(std::size_t task, const Choice&) const;

  private:
    /// GPUs of a type by when they are free, in seconds from now, earliest first.
    class Releases {
      public:
        void add(double in_s, double gpus) { blocks_.emplace_back(in_s, gpus); }
        void sort();
        /// When so many are free; `idle`: the GPU-seconds that the earlier ones wait for the last.
        [[nodiscard]] double earliest(double gpus, double& idle, std::int64_t& steps) const;
        /// The next time, from now on, that any are.
        [[nodiscard]] double next() const;
        void take(double gpus, double until_s);
        /// The job that takes so many waits until all are there: those that are free now are lent
        /// until then.
        void lend(double gpus);
        /// Of so many that a job takes now, those that are lent: it takes so many fewer.
        void borrow(double& gpus);
        /// Free now, or lent.
        [[nodiscard]] double now() const;

      private:
        std::vector<std::pair<double, double>> blocks_;
        double lent_ = 0;
    };

    void count_gpus();
    void count_releases();
    [[nodiscard]] const std::vector<Releases>* releases_in(std::uint32_t node_set);
    [[nodiscard]] double earliest_on_its_nodes(std::size_t task, const Choice&, bool refused);
    [[nodiscard]] double when_free(std::size_t task, NodeIndex, std::int64_t per_node) const;
    [[nodiscard]] double when_together(std::size_t task, const Place&, const Choice&, const Offer&,
                                       std::int64_t per_node);
    [[nodiscard]] double first_allowed_s(std::vector<std::pair<double, NodeIndex>>& times,
                                         std::int64_t nodes, const Choice&, const Offer&) const;
    [[nodiscard]] double earliest_layout(std::size_t task, const Choice&);
    template <typename Layout>
    void count_releases_of(const JobState&, const std::vector<NodeIndex>&, const Layout&,
                           double in_s);
    void weigh_types();
    [[nodiscard]] double waited_lately() const;
    [[nodiscard]] std::vector<std::size_t> order() const;
    [[nodiscard]] bool is_uneven_only(const Choice&) const;
    [[nodiscard]] bool is_late(std::size_t task, const Choice&, double in_s) const;
    [[nodiscard]] double cost(std::size_t task, const Choice&, double price, double boot_s = 0,
                              double idle_gpu_s = 0) const;
    [[nodiscard]] bool may_borrow(std::size_t task) const;
    [[nodiscard]] Prospect prospect_of(std::size_t task, const Choice&, double price,
                                       double not_before_s);
    [[nodiscard]] Prospect best_of(std::size_t task, double price,
                                   const std::vector<double>& not_before_s);
    [[nodiscard]] bool comes_later(std::size_t task, const Prospect&, double& not_before_s);
    void choose(std::size_t task, double price);

    const Problem& problem_;
    Packing packing_;
    std::span<const double> weights_;
    const ArenaRules& rules_;
    const Turn* turn_;
    std::vector<Releases> releases_;  ///< by type, as are
    std::vector<double> worth_, total_;
    /// By node set that is not all nodes, then type; without what the jobs before will take.
    std::map<std::uint32_t, std::vector<Releases>> releases_of_set_;
    /// What a node gets back, and in how many seconds.
    struct Release {
        double in_s;
        std::int64_t gpus, cpus, memory_mb;
        bool operator<(const Release& other) const { return in_s < other.in_s; }
    };
    std::vector<std::vector<Release>>
        releases_of_node_;  ///< earliest first; empty where an offer holds for any layout
    double gpus_ = 0;
    std::uint32_t lent_from_ = 0;  ///< the highest level of those that lend
    std::int64_t steps_;           ///< left of the budget
    std::vector<Prospect> prospects_;
};

}  // namespace arena
