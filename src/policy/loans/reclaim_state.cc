// SPDX-License-Identifier: GPL-2.0-or-later
// See reclaim_state.h.
#include "policy/loans/reclaim_state.h"

namespace arena {

ReclaimState::ReclaimState(const ReclaimProblem& problem)
    : problem_(problem),
      first_(problem.servers + 1, 0),
      returned_(problem.servers, 0),
      change_(problem.servers, 0) {
    loads_.reserve(problem.jobs.size());
    for (const ReclaimProblem::Job& job : problem.jobs) {
        Load& load = loads_.emplace_back();
        load.spare = job.spare;
        for (std::uint32_t p = job.first; p < job.first + job.count; ++p) {
            load.gpus_kept += problem.parts[p].gpus;
            ++first_[problem.parts[p].server + 1];
        }
    }
    weigh();
    for (std::size_t s = 0; s < problem.servers; ++s) first_[s + 1] += first_[s];
    entries_.resize(problem.parts.size());
    std::vector<std::uint32_t> next(first_.begin(), first_.end() - 1);
    for (std::uint32_t j = 0; j < problem.jobs.size(); ++j) {
        const ReclaimProblem::Job& job = problem.jobs[j];
        for (std::uint32_t p = job.first; p < job.first + job.count; ++p) {
            const ReclaimProblem::Part& part = problem.parts[p];
            entries_[next[part.server]++] = {j, p};
            change_[part.server] += change_by(loads_[j], 0, part);
        }
    }
}

/// Units such that no sum of a later key reaches one of an earlier.
void ReclaimState::weigh() {
    double gpus = 1;
    for (const Load& load : loads_) gpus += load.gpus_kept;
    const double jobs = static_cast<double>(loads_.size()) + 1;
    if (problem_.second == ReclaimSecond::collateral) {
        collateral_unit_ = jobs;
        restart_unit_ = 1;
        unit_ = gpus * jobs;
    } else {
        collateral_unit_ = 1;
        restart_unit_ = gpus;
        unit_ = gpus * jobs;
    }
    for (std::size_t j = 0; j < loads_.size(); ++j)
        loads_[j].weight = problem_.jobs[j].weight * unit_;
}

double ReclaimState::cost_of_job(const Load& load) const {
    if (load.lost > load.spare)
        return load.weight + collateral_unit_ * load.gpus_kept + restart_unit_;
    return load.parts_lost > 0 ? restart_unit_ : 0;
}

/// What turning the part's server adds to the cost of its job, which is `now`.
double ReclaimState::change_by(const Load& load, double now,
                               const ReclaimProblem::Part& part) const {
    const bool back = returned_[part.server] != 0;
    const std::int32_t sign = back ? -1 : 1;
    Load then = load;
    then.lost += part.is_base ? sign : 0;
    then.gpus_kept -= sign * part.gpus;
    then.parts_lost += sign;
    return cost_of_job(then) - now;
}

void ReclaimState::turn(ServerIndex s) {
    const bool to_returned = returned_[s] == 0;
    cost_ += change_[s];
    const double back = -change_[s];
    for (std::uint32_t e = first_[s]; e < first_[s + 1]; ++e)
        turn_part(entries_[e].job, problem_.parts[entries_[e].part], to_returned);
    returned_[s] = to_returned ? 1 : 0;
    change_[s] = back;
}

void ReclaimState::turn_part(std::uint32_t j, const ReclaimProblem::Part& part, bool to_returned) {
    const ReclaimProblem::Job& job = problem_.jobs[j];
    Load& load = loads_[j];
    const Load before = load;
    const std::int32_t sign = to_returned ? 1 : -1;
    load.lost += part.is_base ? sign : 0;
    load.gpus_kept -= sign * part.gpus;
    load.parts_lost += sign;
    if (before.lost <= before.spare && load.lost > load.spare) weight_ += job.weight;
    if (before.lost > before.spare && load.lost <= load.spare) weight_ -= job.weight;
    const double old_cost = cost_of_job(before), new_cost = cost_of_job(load);
    for (std::uint32_t p = job.first; p < job.first + job.count; ++p) {
        const ReclaimProblem::Part& other = problem_.parts[p];
        if (other.server == part.server) continue;
        change_[other.server] +=
            change_by(load, new_cost, other) - change_by(before, old_cost, other);
    }
}

std::vector<ServerIndex> ReclaimState::returned() const {
    std::vector<ServerIndex> list;
    for (ServerIndex s = 0; s < returned_.size(); ++s)
        if (returned_[s] != 0) list.push_back(s);
    return list;
}

}  // namespace arena
