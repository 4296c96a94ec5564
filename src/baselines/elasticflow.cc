// SPDX-License-Identifier: GPL-2.0-or-later
// Policies `elasticflow-ls`, `elasticflow-ls-informed`: see elasticflow.h.
#include "baselines/elasticflow.h"

#include <algorithm>
#include <tuple>

#include "baselines/allocation.h"

namespace arena {
namespace {

/// A running job's next GPUs count this much more while it holds them already.
constexpr double keep_bonus = 2;

class ElasticFlow {
  public:
    ElasticFlow(const Snapshot& snapshot, const Offers& offers, const PolicyOptions& options,
                bool informed)
        : problem_(snapshot, offers, options), plan_(problem_), informed_(informed) {}
    Decision decide();

  private:
    [[nodiscard]] std::int32_t next(std::size_t task) const;
    [[nodiscard]] std::int32_t least(std::size_t task) const;
    [[nodiscard]] std::vector<std::size_t> order() const;
    [[nodiscard]] double gain(std::size_t task, std::int32_t index) const;
    void admit();
    void grow();
    void cool_down();

    Problem problem_;
    Allocation plan_;
    bool informed_;
};

/// The fewest GPUs of the requested type with a row; of a job that could never grow, what it asked
/// for.
std::int32_t ElasticFlow::least(std::size_t i) const {
    const std::int32_t asked = plan_.requested(i);
    if (asked == Allocation::nothing || !problem_.tasks()[i].job->elastic) return asked;
    std::int32_t at = asked;
    while (at > 0 && plan_.choice(i, at - 1).type == plan_.choice(i, asked).type) --at;
    return at;
}

/// The next larger count of the type that the plan gives the task.
std::int32_t ElasticFlow::next(std::size_t i) const {
    const Choice* now = plan_.given(i);
    const std::int32_t after = plan_.of(i) + 1;
    const auto count = static_cast<std::int32_t>(problem_.tasks()[i].choice_count);
    if (!problem_.tasks()[i].job->elastic) return Allocation::nothing;
    if (now == nullptr || after >= count || plan_.choice(i, after).type != now->type) {
        return Allocation::nothing;
    }
    return after;
}

std::vector<std::size_t> ElasticFlow::order() const {
    const auto& tasks = problem_.tasks();
    std::vector<std::size_t> out;
    for (std::size_t i = 0; i < tasks.size(); ++i) {
        if (least(i) != Allocation::nothing) out.push_back(i);
    }
    const auto key = [&](std::size_t i) {
        const JobState& job = *tasks[i].job;
        const double left_s =
            informed_ ? plan_.left_s(i, least(i)) / (tasks[i].runs() ? keep_bonus : 1) : 0;
        return std::make_tuple(informed_ ? false : !tasks[i].runs(), -job.priority, left_s,
                               job.submit_s, job.id);
    };
    std::sort(out.begin(), out.end(),
              [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
    return out;
}

/// Everybody's minimum, in order; the first that does not fit blocks those behind it.
void ElasticFlow::admit() {
    const auto queue = order();
    for (const std::size_t i : queue) plan_.set(i, Allocation::nothing);
    std::vector<bool> blocked(problem_.types(), false);
    for (const std::size_t i : queue) {
        const std::int32_t minimum = least(i);
        const auto type = static_cast<std::size_t>(plan_.choice(i, minimum).type);
        if (!blocked[type] && plan_.fits(i, minimum)) {
            plan_.set(i, minimum);
        } else {
            blocked[type] = true;
        }
    }
}

/// Speed that the larger count adds per GPU; by the time left for the informed variant.
double ElasticFlow::gain(std::size_t i, std::int32_t index) const {
    const double more = plan_.speed(i, index) - plan_.speed(i, plan_.of(i));
    const auto gpus = static_cast<double>(plan_.choice(i, index).gpus - plan_.given(i)->gpus);
    const std::int32_t current = plan_.current(i);
    const bool held = current != Allocation::nothing &&
                      plan_.choice(i, index).gpus <= plan_.choice(i, current).gpus;
    const double left = informed_ ? plan_.left_s(i, plan_.requested(i)) : 1;
    return (held ? keep_bonus : 1) * more / gpus / left;
}

void ElasticFlow::grow() {
    std::vector<std::pair<double, std::size_t>> heap;
    const auto consider = [&](std::size_t i) {
        const std::int32_t larger = next(i);
        if (larger == Allocation::nothing || !plan_.fits(i, larger)) return;
        if (plan_.speed(i, larger) < (1 + least_gain) * plan_.speed(i, plan_.of(i))) return;
        heap.emplace_back(gain(i, larger), i);
        std::push_heap(heap.begin(), heap.end());
    };
    for (std::size_t i = 0; i < problem_.tasks().size(); ++i) consider(i);
    while (!heap.empty()) {
        std::pop_heap(heap.begin(), heap.end());
        const std::size_t i = heap.back().second;
        heap.pop_back();
        if (plan_.fits(i, next(i))) {
            plan_.set(i, next(i));
            consider(i);
        }
    }
}

/// Growth of jobs that have only just changed waits.
void ElasticFlow::cool_down() {
    for (std::size_t i = 0; i < problem_.tasks().size(); ++i) {
        const std::int32_t current = plan_.current(i);
        if (current == Allocation::nothing || plan_.given(i) == nullptr) continue;
        const JobState& job = *problem_.tasks()[i].job;
        const bool grows = plan_.given(i)->gpus > plan_.choice(i, current).gpus;
        if (grows && problem_.snapshot().time_s - job.start_s < cooldown_s) plan_.set(i, current);
    }
}

Decision ElasticFlow::decide() {
    admit();
    grow();
    cool_down();
    return plan_.realise("its minimum, and what adds most speed");
}

}  // namespace

Decision decide_elasticflow(const Snapshot& snapshot, const Offers& offers,
                            const PolicyOptions& options) {
    return ElasticFlow(snapshot, offers, options, false).decide();
}

Decision decide_elasticflow_informed(const Snapshot& snapshot, const Offers& offers,
                                     const PolicyOptions& options) {
    return ElasticFlow(snapshot, offers, options, true).decide();
}

}  // namespace arena
