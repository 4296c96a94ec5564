// SPDX-License-Identifier: GPL-2.0-or-later
// See keeping.h.
#include "policy/order/keeping.h"

#include <algorithm>
#include <map>
#include <optional>

#include "policy/order/availability.h"
#include "policy/reservation.h"

namespace arena {
namespace {

constexpr std::size_t most_attempts = 18, most_ahead = 200;

class Keeper {
  public:
    Keeper(const Problem& problem, const SlurmOrder& order)
        : problem_(problem), order_(order), nobody_(problem), free_(nobody_) {
        result_.now.assign(problem.tasks().size(), false);
        stays_.assign(problem.tasks().size(), false);
        std::size_t choices = 0;
        for (const Task& task : problem.tasks())
            choices = std::max<std::size_t>(choices, task.first_choice + task.choice_count);
        result_.late.assign(choices, false);
    }
    Keeping run();

  private:
    using Start = Availability::Start;
    struct Held {
        std::size_t task;
        Start start;
        bool lost;            ///< nothing ends in time any more
        double latest_s = 0;  ///< from now: its nodes are held from then
    };
    [[nodiscard]] const Task& task(std::size_t i) const { return problem_.tasks()[i]; }
    [[nodiscard]] std::uint32_t place(std::size_t i) const {
        return order_.place[problem_.job_of(task(i))];
    }
    [[nodiscard]] double left_s(const Task& task) const {
        return task.job->due_s - problem_.snapshot().time_s;
    }
    [[nodiscard]] double run_s(const Task& task, const Choice& choice, bool here) const {
        return here ? Problem::time_left_s(task, choice) + problem_.restart_left_s(task)
                    : problem_.run_s(task, choice);
    }
    /// Nobody gives way for pieces that differ, nor for what Slurm starts.
    [[nodiscard]] bool has_way(std::size_t i) {
        std::optional<bool>& known = has_way_[i];
        if (!known) known = !task(i).job->ordinary && !only_in_pieces(problem_, task(i));
        return *known;
    }
    /// With no other job in the cluster.
    [[nodiscard]] double least_s(const Task& task) const {
        double least_s = Availability::at_its_end;
        for (const Choice& choice : problem_.choices(task))
            least_s = std::min(least_s, problem_.run_s(task, choice));
        return least_s;
    }
    void keep_running(std::size_t i);
    void let_go_of_the_lost();
    void find_yielding();
    void look_as(std::size_t i);
    [[nodiscard]] std::vector<bool> who_gives_way(std::size_t i);
    [[nodiscard]] std::pair<Start, bool> start_of(std::size_t i);
    bool find_start(std::size_t i);
    [[nodiscard]] std::vector<std::size_t> find_all(const std::vector<std::size_t>& waiting);
    [[nodiscard]] std::vector<std::size_t> with_those_ahead(
        const std::vector<std::size_t>& waiting) const;
    [[nodiscard]] bool is_before_another(const Held&) const;
    [[nodiscard]] double latest_start_s(const Held&) const;
    [[nodiscard]] Resources resources_on(const Held&, NodeIndex) const;
    void hold(const Held&);
    [[nodiscard]] static bool stands(const Held& held, double at_s) {
        return held.start.in_s <= at_s && at_s < held.start.in_s + held.start.stay_s;
    }
    /// As long as others may put off its start.
    [[nodiscard]] static bool may_stand(const Held& held, double at_s) {
        return held.start.in_s <= at_s && at_s < held.latest_s + held.start.stay_s;
    }
    [[nodiscard]] static bool has_node(const Held& held, NodeIndex n) {
        return std::binary_search(held.start.nodes.begin(), held.start.nodes.end(), n);
    }

    const Problem& problem_;
    const SlurmOrder& order_;
    Keeping result_;
    std::vector<bool> stays_;    ///< by task: it runs, and gives way to nobody
    const Availability nobody_;  ///< has been held anything for
    Availability free_;
    struct Yielding {
        std::size_t job;  ///< that runs, and gives way to those before it
        double in_s;
    };
    std::vector<Yielding> yielding_;
    std::vector<Held> held_;
    std::map<std::size_t, std::optional<bool>> has_way_;  ///< by task
    /// How starts are reckoned. Of what ends in time: what may start last, or takes the fewest
    /// GPU-seconds; or what ends first; or as in Slurm, with all that stand before. And whether
    /// elastic jobs that stand behind give way for it, and whether it takes the nodes that are
    /// free first of all.
    struct Manner {
        enum class Pick { latest, fewest, first, slurm } pick;
        bool gives_way, first_nodes;
    };
    Manner manner_{Manner::Pick::latest, true, false};
    std::int64_t steps_ = 0;  ///< nodes looked at
};

/// Elastic: on its feet again when the promised job has ended, or elsewhere. At once, or when it
/// has settled.
void Keeper::find_yielding() {
    for (std::size_t i = 0; i < problem_.tasks().size(); ++i)
        if (task(i).runs() && task(i).job->elastic && !stays_[i])
            yielding_.push_back({problem_.job_of(task(i)), 0});
    const auto& jobs = problem_.snapshot().jobs;
    for (std::size_t j = 0; j < jobs.size(); ++j)
        if (jobs[j].phase == JobPhase::running && !jobs[j].elastic && jobs[j].settles_s > 0)
            yielding_.push_back({j, jobs[j].settles_s});
}

/// What is free is what is so for the task: those behind it give way.
void Keeper::look_as(std::size_t i) {
    const bool gives_way = manner_.gives_way && has_way(i);
    for (const auto& [j, in_s] : yielding_)
        free_.give_way(j,
                       gives_way && order_.place[j] > place(i) ? in_s : Availability::at_its_end);
}

std::vector<bool> Keeper::who_gives_way(std::size_t i) {
    const auto& jobs = problem_.snapshot().jobs;
    std::vector<bool> gives_way(jobs.size(), false);
    if (!has_way(i)) return gives_way;
    for (const Task& other : problem_.tasks()) {
        const std::size_t j = problem_.job_of(other);
        gives_way[j] = !other.runs() && other.job->elastic && order_.place[j] > place(i);
    }
    for (const auto& [j, in_s] : yielding_) gives_way[j] = order_.place[j] > place(i);
    return gives_way;
}

/// A job that runs has its promise, too: it may be stopped or changed as far as that stands.
void Keeper::keep_running(std::size_t i) {
    const Task& task = problem_.tasks()[i];
    const double window_s = problem_.options().window_s;
    double fastest_s = 0;
    bool in_time = false;
    for (std::size_t c = 0; c < task.choice_count; ++c) {
        const std::size_t at = task.first_choice + c;
        const Choice& choice = problem_.choices(task)[c];
        const bool here = static_cast<std::int32_t>(at) == task.current;
        const double time_s = run_s(task, choice, here);
        result_.late[at] = time_s > left_s(task) && !here;
        in_time = in_time || time_s <= left_s(task);
        if (fastest_s == 0 || time_s < fastest_s) fastest_s = time_s;
    }
    result_.now[i] = fastest_s + window_s > left_s(task);
    stays_[i] = in_time && result_.now[i];
}

/// Of the choices that end in time the one that may start last, or, where that left nothing to
/// others, the one that ends first; nothing where none ends in time.
std::pair<Availability::Start, bool> Keeper::start_of(std::size_t i) {
    const Task& task = problem_.tasks()[i];
    if (manner_.pick == Manner::Pick::slurm) {
        Start start = free_.in_slurm(task);
        const bool late = start.in_s + start.run_s > left_s(task);
        return {std::move(start), late};
    }
    const auto better = [&](const Start& a, const Start& b) {
        if (manner_.pick == Manner::Pick::latest) return a.run_s < b.run_s;
        return a.run_s * static_cast<double>(a.choice->gpus) <
               b.run_s * static_cast<double>(b.choice->gpus);
    };
    Start best, first;
    for (const Choice& choice : problem_.choices(task)) {
        const bool late = run_s(task, choice, false) > left_s(task);
        if (late && first.choice != nullptr) continue;
        Start start = free_.first_end(task, choice);
        if (start.choice == nullptr) continue;
        const double end_s = start.in_s + start.run_s;
        if (end_s <= left_s(task) && (best.choice == nullptr || better(start, best))) best = start;
        if (first.choice == nullptr || end_s < first.in_s + first.run_s) first = std::move(start);
    }
    const bool lost = best.choice == nullptr;
    return {lost || manner_.pick == Manner::Pick::first ? std::move(first) : std::move(best), lost};
}

/// False where nothing ends in time any more: the first end counts then.
bool Keeper::find_start(std::size_t i) {
    look_as(i);
    const std::int64_t before = free_.steps();
    auto [start, lost] = start_of(i);
    steps_ += free_.steps() - before + 1;
    if (start.choice == nullptr) return false;
    if (start.in_s >= Availability::guessed_s) return true;  // nobody knows when: nothing is held
    free_.take(task(i), start);
    if (task(i).job->due_s > 0) held_.push_back({i, std::move(start), lost});
    return !lost;
}

/// Answers for whom nothing ends in time.
std::vector<std::size_t> Keeper::find_all(const std::vector<std::size_t>& waiting) {
    held_.clear();
    free_ = nobody_;
    free_.take_first(manner_.first_nodes);
    std::vector<std::size_t> lost;
    for (const std::size_t i : waiting) {
        const bool promised = task(i).job->due_s > 0;
        // A job that could not end in time alone is not helped by others' choices.
        if (!promised && steps_ > problem_.options().search_steps) continue;
        if (!find_start(i) && promised && least_s(task(i)) <= left_s(task(i))) lost.push_back(i);
    }
    return lost;
}

/// In Slurm's order, up to the last of them, as the promises were made; only these where that is a
/// long queue.
std::vector<std::size_t> Keeper::with_those_ahead(const std::vector<std::size_t>& waiting) const {
    std::uint32_t last = 0;
    for (const std::size_t i : waiting) last = std::max(last, place(i));
    std::vector<std::size_t> all;
    for (std::size_t i = 0; i < problem_.tasks().size(); ++i)
        if (!task(i).runs() && !task(i).job->behind_ordinary && place(i) <= last) all.push_back(i);
    if (all.size() > most_ahead) return waiting;
    std::sort(all.begin(), all.end(),
              [&](std::size_t a, std::size_t b) { return place(a) < place(b); });
    return all;
}

/// Another one is to have some of the nodes later: nobody may use up the time that the job can
/// spare, or the next would begin late.
bool Keeper::is_before_another(const Held& own) const {
    return std::any_of(held_.begin(), held_.end(), [&](const Held& other) {
        const auto& a = own.start.nodes;
        const auto& b = other.start.nodes;
        return other.start.in_s > own.start.in_s &&
               std::find_first_of(a.begin(), a.end(), b.begin(), b.end()) != a.end();
    });
}

double Keeper::latest_start_s(const Held& held) const {
    const Start& start = held.start;
    if (is_before_another(held)) return start.in_s;
    return std::max(left_s(task(held.task)) - start.run_s, start.in_s);
}

Resources Keeper::resources_on(const Held& held, NodeIndex n) const {
    const auto& nodes = held.start.nodes;
    const auto at = std::lower_bound(nodes.begin(), nodes.end(), n) - nodes.begin();
    return resources_of(*task(held.task).job, held.start.gpus_on(static_cast<std::size_t>(at)));
}

/// With all starts known: what others may have of its nodes.
void Keeper::hold(const Held& held) {
    const Task& own = task(held.task);
    const Start& start = held.start;
    const double latest_s = held.latest_s;
    const auto number = static_cast<std::uint32_t>(result_.holds.all.size());
    Hold made{own.job->id, problem_.snapshot().time_s + latest_s, held.lost ? 0 : own.job->due_s,
              who_gives_way(held.task), resources_of(*own.job, start.gpus_per_node)};
    for (std::size_t n = 0; n < start.split.size(); ++n)
        made.on_each.emplace(start.nodes[n], resources_of(*own.job, start.split[n]));
    result_.holds.all.push_back(std::move(made));
    look_as(held.task);
    const bool is_there = stands(held, latest_s);
    for (const NodeIndex n : start.nodes) {
        Resources left = free_.free_at(n, latest_s);
        if (!is_there) left -= result_.holds.all.back().on(n);
        std::uint32_t beside = 0;
        for (std::size_t h = 0; h < held_.size(); ++h) {
            if (h == number || !may_stand(held_[h], latest_s) || !has_node(held_[h], n)) continue;
            beside |= std::uint32_t{1} << h;
            if (!stands(held_[h], latest_s)) left -= resources_on(held_[h], n);
        }
        result_.holds.spares.push_back({n, number, left, beside});
    }
    result_.now[held.task] =
        !own.job->ordinary && start.in_s <= 0 && latest_s <= problem_.options().window_s;
    for (std::size_t c = 0; c < own.choice_count; ++c) {
        const Choice& choice = problem_.choices(own)[c];
        // One that is elastic may begin with less, and grow.
        result_.late[own.first_choice + c] =
            !own.job->elastic &&
            (held.lost ? &choice != start.choice : run_s(own, choice, false) > left_s(own));
    }
}

/// A job that runs and ends too late whatever it gets is not stopped for those behind it, but makes
/// room for one before it that has to start now.
void Keeper::let_go_of_the_lost() {
    const auto has_to_start = [&](std::size_t i) {
        return std::any_of(held_.begin(), held_.end(), [&](const Held& held) {
            return result_.now[held.task] && place(held.task) < place(i);
        });
    };
    for (std::size_t i = 0; i < problem_.tasks().size(); ++i)
        if (task(i).runs() && result_.now[i] && !stays_[i] && has_to_start(i))
            result_.now[i] = false;
}

Keeping Keeper::run() {
    std::vector<std::size_t> waiting;
    for (std::size_t i = 0; i < problem_.tasks().size(); ++i) {
        if (task(i).job->due_s <= 0) continue;
        if (task(i).runs()) {
            keep_running(i);
        } else {
            waiting.push_back(i);
        }
    }
    find_yielding();
    std::sort(waiting.begin(), waiting.end(),
              [&](std::size_t a, std::size_t b) { return place(a) < place(b); });
    waiting.resize(std::min(waiting.size(), Holds::most));
    // The third is how the promises were made; the others leave more to all. Then those that found
    // nothing in time choose first.
    using Pick = Manner::Pick;
    constexpr Manner manners[] = {{Pick::latest, true, false}, {Pick::fewest, true, false},
                                  {Pick::slurm, false, false}, {Pick::first, true, false},
                                  {Pick::latest, true, true},  {Pick::first, true, true}};
    Manner best_manner = manners[0];
    std::vector<Held> best;
    std::size_t fewest_lost = waiting.size() + 1;
    for (std::size_t attempt = 0; attempt < most_attempts; ++attempt) {
        manner_ = manners[attempt % std::size(manners)];
        const std::vector<std::size_t> lost =
            find_all(manner_.pick == Pick::slurm ? with_those_ahead(waiting) : waiting);
        if (lost.size() < fewest_lost) {
            fewest_lost = lost.size();
            best_manner = manner_;
            best = held_;
        }
        if (lost.empty() || waiting.size() == 1 || steps_ > problem_.options().search_steps) break;
        if (attempt + 1 < std::size(manners)) continue;
        std::stable_partition(waiting.begin(), waiting.end(), [&](std::size_t w) {
            return std::find(lost.begin(), lost.end(), w) != lost.end();
        });
    }
    manner_ = best_manner;
    held_ = std::move(best);
    free_ = nobody_;
    for (const Held& held : held_) free_.take(task(held.task), held.start);
    for (Held& held : held_) held.latest_s = latest_start_s(held);
    for (const Held& held : held_) hold(held);
    let_go_of_the_lost();
    auto& spares = result_.holds.spares;
    std::stable_sort(spares.begin(), spares.end(),
                     [](const Spare& a, const Spare& b) { return a.node < b.node; });
    return std::move(result_);
}

}  // namespace

Keeping keep_promises(const Problem& problem, const SlurmOrder& order) {
    return Keeper(problem, order).run();
}

}  // namespace arena
