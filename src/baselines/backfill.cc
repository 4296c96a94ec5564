// SPDX-License-Identifier: GPL-2.0-or-later
// Policy `backfill`: see backfill.h.
#include "baselines/backfill.h"

#include <limits>
#include <utility>

#include "baselines/fcfs.h"

namespace arena {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();

/// When the first blocked job of a type can start, and how many GPUs it then leaves over.
struct Reservation {
    bool made = false;
    double at_s = 0;
    std::int64_t spare = 0;
};

class Backfill {
  public:
    Backfill(const Snapshot& snapshot, const Offers& offers, const PolicyOptions& options)
        : problem_(snapshot, offers, options, Scope::requests),
          packing_(problem_),
          ends_(problem_.types()),
          reservations_(problem_.types()) {
        for (const JobState& job : snapshot.jobs) {
            if (job.phase != JobPhase::running || !job.current) continue;
            const std::int32_t type = problem_.type_of(job.current->grid.gpu_type);
            if (type >= 0) note_end(type, job, job.current->grid.gpus());
        }
    }
    Decision decide();

  private:
    void note_end(std::int32_t type, const JobState&, std::int64_t gpus);
    [[nodiscard]] Reservation reserve(const Choice&);
    [[nodiscard]] bool may_start(const JobState&, const Choice&) const;
    void serve(const Task&);

    Problem problem_;
    Packing packing_;
    std::vector<std::vector<std::pair<double, std::int64_t>>> ends_;  ///< [type] of (time, GPUs)
    std::vector<Reservation> reservations_;
    Decision decision_;
    Placement placement_;
};

void Backfill::note_end(std::int32_t type, const JobState& job, std::int64_t gpus) {
    const double end_s =
        job.time_limit_s > 0 ? problem_.snapshot().time_s + job.time_limit_s : never;
    ends_[static_cast<std::size_t>(type)].emplace_back(end_s, gpus);
}

Reservation Backfill::reserve(const Choice& choice) {
    auto& ends = ends_[static_cast<std::size_t>(choice.type)];
    std::sort(ends.begin(), ends.end());
    std::int64_t free = packing_.free_gpus(choice.type);
    double at_s = problem_.snapshot().time_s;
    for (const auto& [end_s, gpus] : ends) {
        if (free >= choice.gpus) break;
        free += gpus;
        at_s = std::max(at_s, end_s);
    }
    return {true, free >= choice.gpus ? at_s : never,
            std::max<std::int64_t>(0, free - choice.gpus)};
}

bool Backfill::may_start(const JobState& job, const Choice& choice) const {
    const Reservation& r = reservations_[static_cast<std::size_t>(choice.type)];
    if (!r.made || choice.gpus <= r.spare) return true;
    return job.time_limit_s > 0 && problem_.snapshot().time_s + job.time_limit_s <= r.at_s;
}

void Backfill::serve(const Task& task) {
    const bool explain = problem_.options().explain;
    const std::int32_t asked = problem_.requested(task);
    if (asked < 0) {
        if (explain) decision_.waiting.emplace(task.job->id, "asked for nothing on offer");
        return;
    }
    const Choice& choice = problem_.choice(asked);
    Reservation& reservation = reservations_[static_cast<std::size_t>(choice.type)];
    if (may_start(*task.job, choice) && packing_.place(task, choice, placement_)) {
        const double now_s = problem_.snapshot().time_s;
        const double limit_s = task.job->time_limit_s;
        const bool ends_before = limit_s > 0 && now_s + limit_s <= reservation.at_s;
        if (reservation.made && !ends_before) reservation.spare -= choice.gpus;
        note_end(choice.type, *task.job, choice.gpus);
        decision_.actions.push_back(action_for(
            task, placement_,
            reservation.made ? "fits without delaying the reservation" : "first in line and fits"));
        return;
    }
    if (explain) {
        decision_.waiting.emplace(task.job->id, reservation.made ? "would delay the reservation"
                                                                 : "holds the reservation");
    }
    if (!reservation.made) reservation = reserve(choice);
}

Decision Backfill::decide() {
    for (const std::size_t i : waiting_in_order(problem_)) serve(problem_.tasks()[i]);
    return std::move(decision_);
}

}  // namespace

Decision decide_backfill(const Snapshot& snapshot, const Offers& offers,
                         const PolicyOptions& options) {
    return Backfill(snapshot, offers, options).decide();
}

}  // namespace arena
