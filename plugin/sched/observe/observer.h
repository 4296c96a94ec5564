// SPDX-License-Identifier: GPL-2.0-or-later
// Observer: a scheduler that decides in a shadow of the cluster, and what it learns by that: the
// diary, and what is told of it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plugin/sched/observe/observing_host.h"
#include "plugin/sched/observe/shadow.h"
#include "plugin/sched/round/scheduler.h"

namespace arena {

/// What outlives a reading of arena.yaml by which Arena goes on observing.
struct Watched {
    explicit Watched(const std::string& profile_store) : diary(profile_store) {}
    Watched(const Watched&) = delete;
    Watched& operator=(const Watched&) = delete;
    Diary diary;
    Shadow shadow{diary};
};

/// arena.yaml as an observing scheduler has it: nothing is measured, lent or trained together.
Config observing(Config config);

class Observer {
  public:
    /// slurm outlives it.
    Observer(Host& slurm, std::unique_ptr<Watched> watched, const Config& config,
             std::vector<GpuType> hardware, Calibration calibration, PlanLimits limits);

    [[nodiscard]] Scheduler& scheduler() { return scheduler_; }
    [[nodiscard]] bool has_work() { return host_.has_work(); }
    /// The plan's clock can go on.
    [[nodiscard]] bool is_due() const { return watched_->shadow.is_due(host_.look.interval_s); }
    /// Until when the plan is known.
    [[nodiscard]] double plan_s() const {
        const Shadow::Counts counts = watched_->shadow.counts();
        return counts.now_s - counts.behind_s;
    }
    /// Looks at Slurm once, and lets the plan's clock catch up for a moment.
    void round();
    /// Before it ends, for the next one.
    struct Kept {
        std::unique_ptr<Watched> watched;
        Scheduler::Kept scheduler;
    };
    [[nodiscard]] Kept keep() {
        Scheduler::Kept kept = scheduler_.keep();
        return {std::move(watched_), std::move(kept)};
    }

    /// A member "observe" for the documents of the socket: of one job, and of all; `jobs`: with the
    /// words of single jobs, of `uid` alone where it is one.
    [[nodiscard]] Json json_of(JobId job) const;
    [[nodiscard]] Json json(bool jobs, std::optional<std::uint32_t> uid = {}) const;

  private:
    void note_work();
    void tell();

    Host& slurm_;
    std::unique_ptr<Watched> watched_;
    ObservingHost host_;
    Scheduler scheduler_;
};

}  // namespace arena
