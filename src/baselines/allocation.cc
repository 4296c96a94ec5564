// SPDX-License-Identifier: GPL-2.0-or-later
// Plans in counts and their way onto nodes: see allocation.h.
#include "baselines/allocation.h"

#include <limits>
#include <utility>

namespace arena {

Allocation::Allocation(const Problem& problem) : problem_(problem) {
    for (std::size_t t = 0; t < problem.types(); ++t) free_.push_back(problem.capacity(t));
    chosen_.assign(problem.tasks().size(), nothing);
    for (std::size_t i = 0; i < problem.tasks().size(); ++i) {
        const std::int32_t asked = requested(i);
        double reference_s = std::numeric_limits<double>::infinity();
        for (const Choice& c : problem.choices(problem.tasks()[i])) {
            reference_s = std::min(reference_s, c.iteration_s);
        }
        reference_s_.push_back(asked == nothing ? reference_s : choice(i, asked).iteration_s);
        set(i, current(i));
    }
}

const Choice& Allocation::choice(std::size_t task, std::int32_t index) const {
    return problem_.choices(problem_.tasks()[task])[static_cast<std::size_t>(index)];
}

const Choice* Allocation::given(std::size_t task) const {
    return chosen_[task] == nothing ? nullptr : &choice(task, chosen_[task]);
}

std::int32_t Allocation::current(std::size_t task) const {
    const Task& t = problem_.tasks()[task];
    return t.runs() ? t.current - static_cast<std::int32_t>(t.first_choice) : nothing;
}

std::int32_t Allocation::requested(std::size_t task) const {
    const Task& t = problem_.tasks()[task];
    const std::int32_t asked = problem_.requested(t);
    return asked < 0 ? nothing : asked - static_cast<std::int32_t>(t.first_choice);
}

std::int32_t Allocation::find(std::size_t task, std::int32_t type, std::int64_t gpus) const {
    const Task& t = problem_.tasks()[task];
    const std::int32_t at = problem_.find_choice(t, type, gpus);
    return at < 0 ? nothing : at - static_cast<std::int32_t>(t.first_choice);
}

bool Allocation::fits(std::size_t task, std::int32_t index) const {
    const Choice& wanted = choice(task, index);
    const Choice* now = given(task);
    const std::int64_t own = now != nullptr && now->type == wanted.type ? now->gpus : 0;
    return wanted.gpus <= free_gpus(wanted.type) + own;
}

void Allocation::set(std::size_t task, std::int32_t index) {
    if (const Choice* now = given(task)) free_[static_cast<std::size_t>(now->type)] += now->gpus;
    chosen_[task] = index;
    if (const Choice* now = given(task)) free_[static_cast<std::size_t>(now->type)] -= now->gpus;
}

double Allocation::speed(std::size_t task, std::int32_t index) const {
    return reference_s_[task] / choice(task, index).iteration_s;
}

double Allocation::left_s(std::size_t task, std::int32_t index) const {
    return Problem::time_left_s(problem_.tasks()[task], choice(task, index));
}

namespace {

/// One pass of an allocation onto the nodes.
class Realisation {
  public:
    Realisation(const Problem& problem, const Allocation& plan, std::string_view why)
        : problem_(problem), plan_(plan), why_(why), packing_(problem) {}
    Decision run();

  private:
    void place(std::size_t task);
    bool place_smaller(std::size_t task);

    const Problem& problem_;
    const Allocation& plan_;
    std::string_view why_;
    Packing packing_;
    Placement placement_;
    Decision decision_;
};

bool Realisation::place_smaller(std::size_t i) {
    const Task& task = problem_.tasks()[i];
    const auto choices = problem_.choices(task);
    std::vector<std::pair<double, std::size_t>> order;
    for (std::size_t c = 0; c < choices.size(); ++c) {
        if (choices[c].gpus < plan_.given(i)->gpus) order.emplace_back(choices[c].iteration_s, c);
    }
    std::sort(order.begin(), order.end());
    return std::any_of(order.begin(), order.end(), [&](const auto& entry) {
        return packing_.place(task, choices[entry.second], placement_);
    });
}

void Realisation::place(std::size_t i) {
    const Task& task = problem_.tasks()[i];
    const bool placed = packing_.place(task, *plan_.given(i), placement_);
    if (!placed && task.runs() && packing_.can_take_current(task)) {
        packing_.take_current(task);
    } else if (placed || place_smaller(i)) {
        decision_.actions.push_back(action_for(task, placement_, std::string(why_)));
    } else if (task.runs()) {
        decision_.actions.push_back(
            {.kind = ActionKind::preempt, .job = task.job->id, .reason = "no nodes left for it"});
    }
}

Decision Realisation::run() {
    std::vector<std::pair<std::int32_t, std::size_t>> changes;
    const auto& tasks = problem_.tasks();
    for (std::size_t i = 0; i < tasks.size(); ++i) {
        const Choice* wanted = plan_.given(i);
        if (plan_.of(i) == plan_.current(i)) continue;
        if (tasks[i].runs()) packing_.release_current(tasks[i]);
        if (wanted != nullptr) {
            changes.emplace_back(-wanted->gpus, i);
        } else {
            decision_.actions.push_back({.kind = ActionKind::preempt,
                                         .job = tasks[i].job->id,
                                         .reason = "others take its GPUs"});
        }
    }
    std::sort(changes.begin(), changes.end());
    for (const auto& [gpus, i] : changes) place(i);
    if (!problem_.options().explain) return std::move(decision_);
    for (std::size_t i = 0; i < tasks.size(); ++i) {
        if (!tasks[i].runs() && plan_.of(i) == Allocation::nothing) {
            decision_.waiting.emplace(tasks[i].job->id, "others take the GPUs first");
        }
    }
    return std::move(decision_);
}

}  // namespace

Decision Allocation::realise(std::string_view why) const {
    return Realisation(problem_, *this, why).run();
}

}  // namespace arena
