// SPDX-License-Identifier: GPL-2.0-or-later
// ProfileTurns: whose profile run is next, and what each user has had. Users share the runs by
// start-time fair queuing (Goyal, Vin, Cheng 1996) with a cost of one a run: who comes new is at
// par with those that wait, who had many while nobody waited owes nothing. Times are of the
// monotonic clock. Leaves out nodes that cannot be had and runs that are refused: ProfileBook's.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "plugin/sched/host/host.h"

namespace arena {

class ProfileTurns {
  public:
    /// runs_per_hour: starts that a user may have within an hour; 0: as many as there are turns.
    explicit ProfileTurns(std::int64_t runs_per_hour) : runs_per_hour_(runs_per_hour) {}

    /// Who waited in the last round is known in this one; takes in what the job list shows of runs,
    /// so that a restart forgets only those that Slurm forgot.
    void new_round(const ClusterView& view);
    /// The user waits for a run that could go to the node.
    void wants(std::uint32_t user, NodeIndex node);
    /// Nodes that users who wait and are before this one could have; those behind the last are
    /// nobody's. Nothing where those users take all of `slots` runs that may still start.
    [[nodiscard]] std::optional<std::vector<bool>> kept_from(std::uint32_t user,
                                                             std::size_t slots) const;
    void started(std::uint32_t user, JobId carrier, double steady_s);
    [[nodiscard]] bool has_had_enough(std::uint32_t user, double steady_s) const;
    /// Since when a carrier runs; it must have been seen or started.
    [[nodiscard]] double began_s(JobId carrier) const { return runs_.at(carrier).began_s; }

    struct Account {
        std::deque<double> starts;  ///< within an hour
        double gpu_s = 0;           ///< of all its runs in the life of this plug-in
        double finish = 0;          ///< the tag of its latest run's end
    };
    [[nodiscard]] const std::map<std::uint32_t, Account>& accounts() const { return accounts_; }

  private:
    struct Run {
        std::uint32_t user = 0;
        double began_s = 0, ran_s = 0;
    };
    using Waiting = std::map<std::uint32_t, std::vector<bool>>;  ///< nodes by user
    [[nodiscard]] double start_tag(std::uint32_t user) const;
    void take_in(const CarrierView& carrier, const ClusterView& view);

    std::int64_t runs_per_hour_;
    double virtual_time_ = 0;
    std::map<std::uint32_t, Account> accounts_;
    std::map<JobId, Run> runs_;
    Waiting waited_, waiting_;  ///< in the last round, in this one
};

}  // namespace arena
