// SPDX-License-Identifier: GPL-2.0-or-later
// See keeping.h.
#include "policy/order/keeping.h"

#include <algorithm>

#include "policy/order/availability.h"

namespace arena {
namespace {

constexpr std::size_t most_attempts = 12, most_ahead = 200;

class Keeper {
  public:
    Keeper(const Problem& problem, const SlurmOrder& order) : problem_(problem), order_(order) {
        result_.now.assign(problem.tasks().size(), false);
        std::size_t choices = 0;
        for (const Task& task : problem.tasks())
            choices = std::max<std::size_t>(choices, task.first_choice + task.choice_count);
        result_.late.assign(choices, false);
    }
    Keeping run();

  private:
    using Start = Availability::Start;
    [[nodiscard]] double left_s(const Task& task) const {
        return task.job->due_s - problem_.snapshot().time_s;
    }
    [[nodiscard]] double run_s(const Task& task, const Choice& choice, bool here) const {
        return here ? Problem::time_left_s(task, choice) + problem_.restart_left_s(task)
                    : problem_.run_s(task, choice);
    }
    void keep_running(std::size_t i);
    [[nodiscard]] std::pair<Start, bool> start_of(std::size_t i, const Availability& free);
    bool hold_for(std::size_t i);
    [[nodiscard]] std::vector<std::size_t> with_those_ahead(
        const std::vector<std::size_t>& waiting) const;
    void close_chains();
    [[nodiscard]] std::vector<std::size_t> hold_for_all(const std::vector<std::size_t>& waiting);
    void hold(const Task&, const Start&, bool lost, const Availability&,
              std::vector<bool> gives_way);
    [[nodiscard]] std::vector<bool> who_gives_way(const Task&) const;

    const Problem& problem_;
    const SlurmOrder& order_;
    Keeping result_;
    std::vector<std::pair<const Task*, Start>> held_;
    std::vector<std::pair<const Task*, Start>> passed_;  ///< nothing is promised to them
    std::vector<Resources> at_start_;  ///< as the spares, at the time that was reckoned with
    /// How starts are reckoned. Of what ends in time: what may start last, or takes the fewest
    /// GPU-seconds; or what ends first; or as in Slurm, with all that stand before. And whether
    /// elastic jobs that stand behind give way for it.
    struct Manner {
        enum class Pick { latest, fewest, first, slurm } pick;
        bool gives_way;
    };
    Manner manner_{Manner::Pick::latest, true};
    std::int64_t steps_ = 0;  ///< nodes looked at
};

/// Elastic, and behind: on its feet again when the promised job has ended, or elsewhere.
std::vector<bool> Keeper::who_gives_way(const Task& task) const {
    const auto& jobs = problem_.snapshot().jobs;
    const std::uint32_t place = order_.place[problem_.job_of(task)];
    std::vector<bool> gives_way(jobs.size(), false);
    for (std::size_t i = 0; i < problem_.tasks().size(); ++i) {
        const Task& other = problem_.tasks()[i];
        const std::size_t j = problem_.job_of(other);
        const bool must_stay = other.runs() && result_.now[i];
        gives_way[j] = other.job->elastic && !must_stay && order_.place[j] > place;
    }
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
    result_.now[i] = in_time && fastest_s + window_s > left_s(task);
}

void Keeper::hold(const Task& task, const Start& start, bool lost, const Availability& free,
                  std::vector<bool> gives_way) {
    const double now_s = problem_.snapshot().time_s;
    const double from_s = std::max(task.job->due_s - start.run_s, now_s + start.in_s);
    const auto number = static_cast<std::uint32_t>(result_.holds.all.size());
    result_.holds.all.push_back(
        {task.job->id, from_s, lost ? 0 : task.job->due_s, std::move(gives_way)});
    const auto left_over = [&](NodeIndex n, double in_s) {
        Resources left = free.free_at(n, in_s);
        return left += resources_of(*task.job, -start.gpus_per_node);
    };
    for (const NodeIndex n : start.nodes) {
        result_.holds.spares.push_back({n, number, left_over(n, from_s - now_s)});
        at_start_.push_back(left_over(n, start.in_s));
    }
}

/// Of the choices that end in time the one that may start last, or, where that left nothing to
/// others, the one that ends first; nothing where none ends in time.
std::pair<Availability::Start, bool> Keeper::start_of(std::size_t i, const Availability& free) {
    const Task& task = problem_.tasks()[i];
    if (manner_.pick == Manner::Pick::slurm) {
        Start start = free.in_slurm(task);
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
        Start start = free.first_end(task, choice);
        if (start.choice == nullptr) continue;
        const double end_s = start.in_s + start.run_s;
        if (end_s <= left_s(task) && (best.choice == nullptr || better(start, best))) best = start;
        if (first.choice == nullptr || end_s < first.in_s + first.run_s) first = std::move(start);
    }
    const bool lost = best.choice == nullptr;
    return {lost || manner_.pick == Manner::Pick::first ? std::move(first) : std::move(best), lost};
}

/// False where nothing ends in time any more: the first end counts then.
bool Keeper::hold_for(std::size_t i) {
    const Task& task = problem_.tasks()[i];
    std::vector<bool> gives_way = who_gives_way(task);
    Availability free(problem_, [&](std::size_t j) { return manner_.gives_way && gives_way[j]; });
    for (const auto* taken : {&held_, &passed_})
        for (const auto& [other, start] : *taken) free.take(*other, start);
    auto [start, lost] = start_of(i, free);
    steps_ += free.steps() + std::ssize(problem_.snapshot().nodes);
    if (start.choice == nullptr) return false;
    if (start.in_s >= Availability::guessed_s) return true;  // nobody knows when: nothing is held
    if (task.job->due_s <= 0) {
        passed_.emplace_back(&task, std::move(start));
        return true;
    }
    for (std::size_t c = 0; c < task.choice_count; ++c) {
        const Choice& choice = problem_.choices(task)[c];
        result_.late[task.first_choice + c] =
            lost ? &choice != start.choice : run_s(task, choice, false) > left_s(task);
        // It may begin with less, and grow.
        if (task.job->elastic) result_.late[task.first_choice + c] = false;
    }
    hold(task, start, lost, free, std::move(gives_way));
    const double in_s = result_.holds.all.back().from_s - problem_.snapshot().time_s;
    result_.now[i] = start.in_s <= 0 && in_s <= problem_.options().window_s;
    held_.emplace_back(&task, std::move(start));
    return !lost;
}

/// Answers for whom nothing ends in time.
std::vector<std::size_t> Keeper::hold_for_all(const std::vector<std::size_t>& waiting) {
    held_.clear();
    passed_.clear();
    at_start_.clear();
    result_.holds = {};
    std::vector<std::size_t> lost;
    for (const std::size_t i : waiting) {
        result_.now[i] = false;
        const Task& task = problem_.tasks()[i];
        const bool promised = task.job->due_s > 0;
        // A job that could not end in time alone is not helped by others' choices.
        const double least_s = task.remaining * task.fastest_s;
        if (!promised && steps_ > problem_.options().search_steps) continue;
        if (!hold_for(i) && promised && least_s <= left_s(task)) lost.push_back(i);
    }
    return lost;
}

/// In Slurm's order, up to the last of them; only these where that is a long queue.
std::vector<std::size_t> Keeper::with_those_ahead(const std::vector<std::size_t>& waiting) const {
    const auto place = [&](std::size_t i) {
        return order_.place[problem_.job_of(problem_.tasks()[i])];
    };
    std::uint32_t last = 0;
    for (const std::size_t i : waiting) last = std::max(last, place(i));
    std::vector<std::size_t> all;
    for (std::size_t i = 0; i < problem_.tasks().size(); ++i)
        if (!problem_.tasks()[i].runs() && place(i) <= last) all.push_back(i);
    if (all.size() > most_ahead) return waiting;
    std::sort(all.begin(), all.end(),
              [&](std::size_t a, std::size_t b) { return place(a) < place(b); });
    return all;
}

/// Where another one is to have the same nodes later, nobody may use up the time that a job can
/// spare: the next would begin late.
void Keeper::close_chains() {
    const auto shares = [](const Start& a, const Start& b) {
        return std::find_first_of(a.nodes.begin(), a.nodes.end(), b.nodes.begin(), b.nodes.end()) !=
               a.nodes.end();
    };
    for (std::size_t h = 0; h < held_.size(); ++h) {
        const auto is_next = [&](const auto& other) {
            return shares(held_[h].second, other.second);
        };
        if (std::none_of(held_.begin() + static_cast<std::ptrdiff_t>(h) + 1, held_.end(), is_next))
            continue;
        result_.holds.all[h].from_s = problem_.snapshot().time_s + held_[h].second.in_s;
        for (std::size_t s = 0; s < at_start_.size(); ++s)
            if (result_.holds.spares[s].hold == h) result_.holds.spares[s].left = at_start_[s];
    }
}

Keeping Keeper::run() {
    std::vector<std::size_t> waiting;
    for (std::size_t i = 0; i < problem_.tasks().size(); ++i) {
        const Task& task = problem_.tasks()[i];
        if (task.job->due_s <= 0) continue;
        if (task.runs()) {
            keep_running(i);
        } else {
            waiting.push_back(i);
        }
    }
    std::sort(waiting.begin(), waiting.end(), [&](std::size_t a, std::size_t b) {
        return order_.place[problem_.job_of(problem_.tasks()[a])] <
               order_.place[problem_.job_of(problem_.tasks()[b])];
    });
    waiting.resize(std::min(waiting.size(), Holds::most));
    // The third is how the promises were made; the others leave more to all. Then those that found
    // nothing in time choose first.
    using Pick = Manner::Pick;
    constexpr Manner manners[] = {
        {Pick::latest, true}, {Pick::fewest, true}, {Pick::slurm, false}, {Pick::first, true}};
    for (std::size_t attempt = 0; attempt < most_attempts; ++attempt) {
        manner_ = manners[attempt % std::size(manners)];
        const std::vector<std::size_t> lost =
            hold_for_all(manner_.pick == Pick::slurm ? with_those_ahead(waiting) : waiting);
        if (lost.empty() || waiting.size() == 1 || steps_ > problem_.options().search_steps) break;
        if (attempt + 1 < std::size(manners)) continue;
        std::stable_partition(waiting.begin(), waiting.end(), [&](std::size_t w) {
            return std::find(lost.begin(), lost.end(), w) != lost.end();
        });
    }
    close_chains();
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
