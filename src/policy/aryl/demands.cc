// SPDX-License-Identifier: GPL-2.0-or-later
// See demands.h.
#include "policy/aryl/demands.h"

#include <algorithm>

namespace arena {
namespace {

/// The most GPUs of the type that are no more than wanted, else the fewest there are; nullptr: none
/// of the type.
const Choice* at_most(std::span<const Choice> choices, std::int32_t type, double gpus) {
    const Choice* found = nullptr;
    for (const Choice& c : choices)  // of a type they ascend
        if (c.type == type && (found == nullptr || c.gpus <= gpus)) found = &c;
    return found;
}

const Choice* at_least(std::span<const Choice> choices, std::int32_t type, double gpus) {
    for (const Choice& c : choices)
        if (c.type == type && c.gpus >= gpus) return &c;
    return at_most(choices, type, gpus);
}

const Choice& least_gpu_time(std::span<const Choice> choices) {
    return *std::min_element(choices.begin(), choices.end(), [](const Choice& a, const Choice& b) {
        return a.gpus * a.iteration_s < b.gpus * b.iteration_s;
    });
}

const Choice& asked_of(const Problem& problem, const Task& task) {
    const auto choices = problem.choices(task);
    const JobState& job = *task.job;
    const std::int32_t type = problem.type_of(job.requested_type);
    const Choice* asked = job.requested_gpus > 0 && type >= 0
                              ? at_most(choices, type, static_cast<double>(job.requested_gpus))
                              : nullptr;
    return asked != nullptr ? *asked : least_gpu_time(choices);
}

}  // namespace

const Choice& base_of(const Problem& problem, const Task& task, const ArylRules& rules) {
    const auto choices = problem.choices(task);
    const Choice& asked = asked_of(problem, task);
    const Choice* base = &asked;
    if (task.job->elastic && task.job->requested_gpus > 0)
        base = at_least(choices, asked.type, rules.base_share * asked.gpus);
    if (!task.runs()) return *base;
    const Choice& current = problem.choice(task.current);
    const Choice* here =
        base->type == current.type ? base : base_on(problem, task, *base, current.type, rules);
    return here != nullptr && here->gpus <= current.gpus ? *here : current;
}

const Choice* base_on(const Problem& problem, const Task& task, const Choice& base,
                      std::int32_t type, const ArylRules& rules) {
    const Choice* fastest = nullptr;
    for (const Choice& c : problem.choices(task)) {
        if (c.type != type) continue;
        if (c.iteration_s <= rules.about_as_fast * base.iteration_s) return &c;
        if (fastest == nullptr || c.iteration_s < fastest->iteration_s) fastest = &c;
    }
    const bool is_fast_enough =
        fastest != nullptr && fastest->iteration_s <= rules.slowest * base.iteration_s;
    return is_fast_enough ? fastest : nullptr;
}

bool has_aged(const Task& task, double run_s, const ArylRules& rules) {
    return task.job->age_s > std::max(rules.age_factor * run_s, rules.least_age_s);
}

TaskGrowth growth_of(const Problem& problem, const Task& task, const Choice& base,
                     const ArylRules& rules, bool may_grow) {
    TaskGrowth out;
    if (!task.job->elastic) return out;
    const auto choices = problem.choices(task);
    const Choice* current = task.runs() ? &problem.choice(task.current) : nullptr;
    const auto time_s = [&](const Choice& c) {
        if (&c == current) return Problem::time_left_s(task, c) + problem.restart_left_s(task);
        const double restarts = current == nullptr ? 1 : rules.charged_restarts;
        return Problem::time_left_s(task, c) +
               restarts * task.restart_s(problem.options().restart, c.gpus);
    };
    const bool settles =
        current != nullptr && problem.snapshot().time_s - task.job->start_s < rules.settle_s;
    out.first = static_cast<std::int32_t>(&base - choices.data()) + 1;
    for (const Choice& c : choices.subspan(static_cast<std::size_t>(out.first))) {
        if (c.type != base.type) break;
        const bool is_open = (may_grow && !settles) || &c == current;
        out.growth.steps.push_back(
            {.gpus = c.gpus - base.gpus, .saved_s = is_open ? time_s(base) - time_s(c) : 0});
    }
    return out;
}

}  // namespace arena
