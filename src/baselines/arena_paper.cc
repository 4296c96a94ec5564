// SPDX-License-Identifier: GPL-2.0-or-later
// Policies `arena-paper`, `arena-paper-informed`: see arena_paper.h.
#include "baselines/arena_paper.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include "baselines/allocation.h"
#include "baselines/fcfs.h"

namespace arena {
namespace {

constexpr int depth = 3, upgrades_per_round = 10, branches = 4;
constexpr double horizon_s = 7200;

struct Step {
    std::size_t task;
    std::int32_t index;
};
using Steps = std::vector<Step>;

class ArenaPaper {
  public:
    ArenaPaper(const Snapshot& snapshot, const Offers& offers, const PolicyOptions& options,
               bool informed)
        : problem_(snapshot, offers, options),
          plan_(problem_),
          informed_(informed),
          steps_(options.search_steps) {}
    Decision decide();

  private:
    [[nodiscard]] double worth(std::size_t task, std::int32_t index) const;
    [[nodiscard]] std::vector<std::size_t> queue() const;
    [[nodiscard]] std::int32_t half(std::size_t task) const;
    [[nodiscard]] bool is_opportunist(std::size_t task, double older_submit_s) const;
    bool place(std::size_t target);
    bool suspend_opportunists(std::size_t target);
    bool search(std::size_t target);
    void shrinks(std::int32_t type, std::size_t target,
                 std::vector<std::pair<double, Step>>&) const;
    void type_changes(std::int32_t type, std::vector<std::pair<double, Step>>&) const;
    void expand(std::size_t target, std::int32_t wanted, int levels, double gain, Steps&);
    bool upgrade_once();

    Problem problem_;
    Allocation plan_;
    bool informed_;
    std::int64_t steps_;
    double best_gain_ = 0;
    Steps best_;
};

/// What the choice is worth: relative speed, less the share of the horizon that its restart takes.
double ArenaPaper::worth(std::size_t i, std::int32_t index) const {
    if (index == Allocation::nothing) return 0;
    double value = plan_.speed(i, index);
    if (index != plan_.current(i)) {
        value *= 1 - problem_.tasks()[i].restart_s(problem_.options().restart,
                                                   plan_.choice(i, index).gpus) /
                         horizon_s;
    }
    const std::int32_t asked = plan_.requested(i);
    return informed_ ? value / plan_.left_s(i, asked == Allocation::nothing ? 0 : asked) : value;
}

std::vector<std::size_t> ArenaPaper::queue() const {
    std::vector<std::size_t> out = waiting_in_order(problem_);
    std::erase_if(out, [&](std::size_t i) { return plan_.requested(i) == Allocation::nothing; });
    if (!informed_) return out;
    std::stable_sort(out.begin(), out.end(), [&](std::size_t a, std::size_t b) {
        const double pa = problem_.tasks()[a].job->priority, pb = problem_.tasks()[b].job->priority;
        return pa != pb ? pa > pb
                        : plan_.left_s(a, plan_.requested(a)) < plan_.left_s(b, plan_.requested(b));
    });
    return out;
}

/// The next smaller count of the type that the plan gives the task.
std::int32_t ArenaPaper::half(std::size_t i) const {
    const Choice* now = plan_.given(i);
    if (now == nullptr || plan_.of(i) == 0) return Allocation::nothing;
    const std::int32_t smaller = plan_.of(i) - 1;
    return plan_.choice(i, smaller).type == now->type ? smaller : Allocation::nothing;
}

bool ArenaPaper::place(std::size_t target) {
    const std::int32_t asked = plan_.requested(target);
    if (!plan_.fits(target, asked)) return false;
    plan_.set(target, asked);
    return true;
}

bool ArenaPaper::is_opportunist(std::size_t i, double older_submit_s) const {
    return plan_.current(i) != Allocation::nothing && plan_.given(i) != nullptr &&
           problem_.tasks()[i].job->submit_s > older_submit_s;
}

/// Stops the youngest running jobs of the type that came after the target until it fits.
bool ArenaPaper::suspend_opportunists(std::size_t target) {
    const Choice& wanted = plan_.choice(target, plan_.requested(target));
    std::vector<std::pair<double, std::size_t>> young;
    std::int64_t left = plan_.free_gpus(wanted.type);
    for (std::size_t i = 0; i < problem_.tasks().size(); ++i) {
        if (!is_opportunist(i, problem_.tasks()[target].job->submit_s)) continue;
        if (plan_.given(i)->type != wanted.type) continue;
        young.emplace_back(-problem_.tasks()[i].job->submit_s, i);
        left += plan_.given(i)->gpus;
    }
    if (left < wanted.gpus) return false;
    std::sort(young.begin(), young.end());
    for (const auto& [submit, i] : young) {
        if (plan_.fits(target, plan_.requested(target))) break;
        plan_.set(i, Allocation::nothing);
    }
    return place(target);
}

/// Halvings of jobs on the type, by what they cost.
void ArenaPaper::shrinks(std::int32_t type, std::size_t target,
                         std::vector<std::pair<double, Step>>& out) const {
    for (std::size_t i = 0; i < problem_.tasks().size(); ++i) {
        if (i == target || plan_.given(i) == nullptr || plan_.given(i)->type != type) continue;
        const std::int32_t smaller = half(i);
        if (smaller != Allocation::nothing) {
            out.push_back({worth(i, plan_.of(i)) - worth(i, smaller), {i, smaller}});
        }
    }
}

/// Moves of jobs from the type to idle GPUs of another, with the same count, by what they cost.
void ArenaPaper::type_changes(std::int32_t type, std::vector<std::pair<double, Step>>& out) const {
    for (std::size_t i = 0; i < problem_.tasks().size(); ++i) {
        const Choice* now = plan_.given(i);
        if (now == nullptr || now->type != type) continue;
        for (std::size_t t = 0; t < problem_.types(); ++t) {
            const std::int32_t other = plan_.find(i, static_cast<std::int32_t>(t), now->gpus);
            if (other == plan_.of(i) || other == Allocation::nothing || !plan_.fits(i, other))
                continue;
            out.push_back({worth(i, plan_.of(i)) - worth(i, other), {i, other}});
        }
    }
}

/// Depth-first over the cheapest moves that free GPUs of the wanted type; keeps the plan of most
/// gain.
void ArenaPaper::expand(std::size_t target, std::int32_t wanted, int levels, double gain,
                        Steps& path) {
    if (plan_.fits(target, wanted)) {
        const double total = gain + worth(target, wanted);
        if (total > best_gain_) {
            best_gain_ = total;
            best_ = path;
            best_.push_back({target, wanted});
        }
        return;
    }
    if (levels == 0 || steps_ <= 0) return;
    std::vector<std::pair<double, Step>> moves;
    const std::int32_t type = plan_.choice(target, wanted).type;
    shrinks(type, target, moves);
    type_changes(type, moves);
    steps_ -= static_cast<std::int64_t>(problem_.tasks().size());
    const auto cheaper = [](const auto& a, const auto& b) {
        return std::tie(a.first, a.second.task, a.second.index) <
               std::tie(b.first, b.second.task, b.second.index);
    };
    const std::size_t width = std::min<std::size_t>(branches, moves.size());
    std::partial_sort(moves.begin(), moves.begin() + static_cast<std::ptrdiff_t>(width),
                      moves.end(), cheaper);
    for (std::size_t m = 0; m < width; ++m) {
        const auto& [loss, step] = moves[m];
        const std::int32_t before = plan_.of(step.task);
        plan_.set(step.task, step.index);
        path.push_back(step);
        expand(target, wanted, levels - 1, gain - loss, path);
        path.pop_back();
        plan_.set(step.task, before);
    }
}

/// The target's own choices up to twice what it asked for, each with up to `depth` moves of others.
bool ArenaPaper::search(std::size_t target) {
    const std::int64_t most = 2 * plan_.choice(target, plan_.requested(target)).gpus;
    best_gain_ = 0;
    best_.clear();
    Steps path;
    const auto count = static_cast<std::int32_t>(problem_.tasks()[target].choice_count);
    for (std::int32_t wanted = 0; wanted < count; ++wanted) {
        if (plan_.choice(target, wanted).gpus <= most) expand(target, wanted, depth, 0, path);
    }
    for (const Step& step : best_) plan_.set(step.task, step.index);
    return !best_.empty();
}

/// The one doubling or change of type that adds most; false when nothing pays.
bool ArenaPaper::upgrade_once() {
    double most = 0;
    Step best{};
    for (std::size_t i = 0; i < problem_.tasks().size(); ++i) {
        const Choice* now = plan_.given(i);
        if (now == nullptr) continue;
        const double now_worth = worth(i, plan_.of(i));
        for (std::size_t t = 0; t < problem_.types(); ++t) {
            const auto type = static_cast<std::int32_t>(t);
            const std::int32_t to =
                plan_.find(i, type, type == now->type ? 2 * now->gpus : now->gpus);
            if (to == Allocation::nothing || !plan_.fits(i, to)) continue;
            if (worth(i, to) - now_worth <= most) continue;
            most = worth(i, to) - now_worth;
            best = {i, to};
        }
    }
    steps_ -= static_cast<std::int64_t>(problem_.tasks().size());
    if (most > 0) plan_.set(best.task, best.index);
    return most > 0;
}

Decision ArenaPaper::decide() {
    for (const std::size_t i : queue()) {
        if (steps_ <= 0) break;
        if (!place(i) && !search(i)) suspend_opportunists(i);
    }
    for (int i = 0; i < upgrades_per_round && steps_ > 0; ++i) {
        if (!upgrade_once()) break;
    }
    return plan_.realise("the published search: placed, halved, doubled or changed in type");
}

}  // namespace

Decision decide_arena_paper(const Snapshot& snapshot, const Offers& offers,
                            const PolicyOptions& options) {
    return ArenaPaper(snapshot, offers, options, false).decide();
}

Decision decide_arena_paper_informed(const Snapshot& snapshot, const Offers& offers,
                                     const PolicyOptions& options) {
    return ArenaPaper(snapshot, offers, options, true).decide();
}

}  // namespace arena
