// SPDX-License-Identifier: GPL-2.0-or-later
// A snapshot and its offers in numbers: GPU types as small integers, each job's offers as choices
// of (type, GPU count), what may be given out. Policies decide on it; packing.h turns choices into
// nodes. Leaves out on purpose: stages and plans (an offer keeps them) and all text.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "policy/fabric.h"
#include "policy/policy.h"

namespace arena {

/// A GPU type and count that a job could take. `offers` are its layouts, fastest first; layouts
/// more than a twentieth slower than the fastest are left out, or are a choice of their own. Where
/// all faster ones need a domain the fastest that needs none stays in any case.
struct Choice {
    std::int32_t type = 0;
    std::int32_t gpus = 0;
    double iteration_s = 0;                          ///< of the fastest layout
    std::uint32_t first_offer = 0, offer_count = 0;  ///< into Problem::offers()
};

struct Task {
    const JobState* job = nullptr;
    std::uint32_t first_choice = 0,
                  choice_count = 0;  ///< by type, then GPUs ascending, then time ascending
    std::int32_t current = -1;       ///< running and may be moved: index of its choice
    /// Tasks of one kind have the same choices, may use the same nodes and need the same beside
    /// each GPU.
    std::uint32_t kind = 0;
    double remaining = 0;  ///< iterations; never zero
    double fastest_s =
        0;  ///< an iteration, of all its offers, whether nodes could hold them or not
    [[nodiscard]] bool runs() const { return current >= 0; }
    /// What a start or a restart costs it.
    [[nodiscard]] double restart_s(const RestartCost& cost, std::int64_t gpus) const {
        return cost.seconds(gpus, job->moves_took_s);
    }
};

/// As offers.find(job), where `from` is likely to be it: jobs and offers are usually in the order
/// of ids.
inline Offers::const_iterator find_from(const Offers& offers, Offers::const_iterator from,
                                        JobId job) {
    if (from != offers.end() && from->first < job) ++from;
    return from != offers.end() && from->first == job ? from : offers.find(job);
}

/// Whether the same of the same offers are for both: range of GPUs, types, nodes, needs.
bool are_of_a_kind(const JobState&, const JobState&);

/// What of a snapshot becomes tasks: all there is; or the same, with slow layouts of a type and
/// count as choices of their own; or, for policies that only start jobs as they were requested,
/// waiting jobs with their one choice (or none); or, for those that know no values, waiting jobs
/// with every layout, however slow, and whether nodes could hold it or not. Ordinary jobs are tasks
/// with `layouts` alone.
enum class Scope { all, layouts, requests, starts };

/// Jobs that a policy may start or change, and the GPUs it may give out. Running jobs that are not
/// elastic, or whose nodes or offer are unknown, or that stand on a returning node, are left out
/// together with the GPUs they hold.
class Problem {
  public:
    /// Keeps references to the arguments. O(nodes + jobs + offers). `left_out`: jobs that are to be
    /// no tasks, by index in the snapshot; empty: none.
    Problem(const Snapshot&, const Offers&, const PolicyOptions&, Scope = Scope::all,
            const std::vector<bool>& left_out = {});

    [[nodiscard]] const Snapshot& snapshot() const { return snapshot_; }
    [[nodiscard]] const PolicyOptions& options() const { return options_; }
    [[nodiscard]] const Fabric& fabric() const { return fabric_; }
    [[nodiscard]] std::size_t types() const { return types_.size(); }
    /// -1 when no node has it.
    [[nodiscard]] std::int32_t type_of(std::string_view name) const;
    [[nodiscard]] std::int32_t type_of_node(NodeIndex n) const { return node_types_[n]; }
    /// GPUs of the type that are free or held by a task.
    [[nodiscard]] std::int64_t capacity(std::size_t type) const { return capacity_[type]; }
    [[nodiscard]] const std::vector<Task>& tasks() const { return tasks_; }
    [[nodiscard]] std::size_t kinds() const { return kinds_; }
    [[nodiscard]] std::span<const Choice> choices(const Task& task) const {
        return std::span(choices_).subspan(task.first_choice, task.choice_count);
    }
    [[nodiscard]] const Choice& choice(std::int32_t index) const {
        return choices_[static_cast<std::size_t>(index)];
    }
    [[nodiscard]] std::span<const Offer* const> offers(const Choice& c) const {
        return std::span(offers_).subspan(c.first_offer, c.offer_count);
    }
    /// How far apart nodes may lie at which the choice has this layout: the times of a choice are
    /// alike. widest_span: any; so it is wherever the network costs nothing.
    [[nodiscard]] Span widest(const Choice&, const Offer&) const;
    /// Some choice is of a span: of nodes that lie no farther apart.
    [[nodiscard]] bool has_spans() const { return !spans_.empty(); }
    /// Some layout needs nodes that lie together: within a span, or in whole segments of a block.
    [[nodiscard]] bool needs_near_nodes() const { return has_spans() || has_segments_; }
    /// Some sets of nodes of the place are no job's.
    [[nodiscard]] bool is_limited(const Place& place) const {
        return fabric_.has_limits() && !place.other_network;
    }
    /// Whether the layout may have any nodes of the place, wherever they lie.
    [[nodiscard]] bool may_lie_anywhere(const Place& place, const Choice& choice,
                                        const Offer& offer) const {
        return !is_limited(place) && widest(choice, offer) >= fabric_.widest() &&
               offer.segment == 1;
    }
    /// An iteration with the layout on nodes that lie as far apart, as far as nodes can.
    [[nodiscard]] double iteration_s(const Offer& offer, Span span) const {
        return offer.iteration_s(std::min(span, fabric_.widest()));
    }
    /// Index of the fastest choice (type, gpus) of the task, -1 when there is none.
    [[nodiscard]] std::int32_t find_choice(const Task&, std::int32_t type, std::int64_t gpus) const;
    /// The same, but the one that has this offer's layout, with its segment, over this span, where
    /// one has it.
    [[nodiscard]] std::int32_t find_choice(const Task&, const Offer&, Span = Span::leaf) const;
    /// Index of the choice that the user would have asked Slurm for, -1 when none was.
    [[nodiscard]] std::int32_t requested(const Task&) const;
    /// Seconds that the work left takes with the choice, without a restart.
    [[nodiscard]] static double time_left_s(const Task& task, const Choice& choice) {
        return task.remaining * choice.iteration_s;
    }
    /// The same, and a start or restart before it.
    [[nodiscard]] double run_s(const Task& task, const Choice& choice) const {
        return time_left_s(task, choice) + task.restart_s(options_.restart, choice.gpus);
    }
    /// That with one layout.
    [[nodiscard]] double run_s(const Task& task, const Offer& offer, Span span = Span::leaf) const {
        return task.remaining * iteration_s(offer, span) +
               task.restart_s(options_.restart, offer.grid.gpus());
    }
    /// Index of the task's job in the snapshot.
    [[nodiscard]] std::size_t job_of(const Task& task) const {
        return static_cast<std::size_t>(task.job - snapshot_.jobs.data());
    }
    /// Seconds without progress that remain of the task's last start.
    [[nodiscard]] double restart_left_s(const Task&) const;

  private:
    /// The same where it is likely that one.
    [[nodiscard]] std::int32_t type_of(std::string_view name, std::int32_t likely) const {
        return likely >= 0 && types_[static_cast<std::size_t>(likely)] == name ? likely
                                                                               : type_of(name);
    }
    [[nodiscard]] bool only_starts() const {
        return scope_ == Scope::requests || scope_ == Scope::starts;
    }
    struct Sortable {
        std::int32_t type, gpus;
        double iteration_s;
        const Offer* offer;
        Span span;
    };
    void count_nodes();
    void count_sets();
    void count_together();
    void add_spans(const Offer&, std::int32_t type);
    void add_layout(const Sortable&, std::size_t first);
    [[nodiscard]] bool is_way_out(const Offer&, const Choice&) const;
    [[nodiscard]] bool has_place_for(const JobState&, std::int32_t type, std::int64_t gpus) const;
    void add_task(const JobState&, const std::vector<Offer>&);
    double add_choices(const JobState&, const std::vector<Offer>&);
    void find_choices(const std::vector<Offer>&, Task&);
    void forget(const std::vector<Offer>&, const Task&);

    const Snapshot& snapshot_;
    const PolicyOptions& options_;
    Fabric fabric_;
    Scope scope_;
    std::vector<std::string_view> types_;
    std::vector<std::int32_t> node_types_;
    std::vector<std::int64_t> capacity_, total_;
    std::vector<std::vector<std::int64_t>>
        total_of_set_;  ///< [node set][type]; empty when it has every node
    std::vector<Task> tasks_;
    std::vector<Choice> choices_;
    std::vector<const Offer*> offers_;
    std::vector<Span> spans_;  ///< by offers_; empty: any span of any
    bool has_segments_ = false;
    /// Of the nodes of a type, the most of one leaf and of one pod.
    struct Together {
        std::int64_t in_leaf = 0, in_pod = 0;
    };
    std::vector<Together> together_;

    std::vector<Sortable> scratch_;
    std::uint32_t kinds_ = 0;
    std::map<const std::vector<Offer>*, std::vector<Task>>
        known_;  ///< by list of offers: the first ones of their kinds
};

/// The layout of the choice that holds for every other equal split of its GPUs, too; null where
/// none does. A plan of segments is for its own number of nodes.
inline const Offer* any_split(const Problem& problem, const Choice& choice) {
    if (!problem.options().any_layout) return nullptr;
    const auto layouts = problem.offers(choice);
    const auto free = std::ranges::find(layouts, std::int64_t{1}, &Offer::segment);
    return free == layouts.end() ? nullptr : *free;
}

/// Indices of the waiting tasks in Slurm's order: priority (larger first), submission, id; without
/// ordinary jobs.
std::vector<std::size_t> waiting_in_order(const Problem&);

}  // namespace arena
