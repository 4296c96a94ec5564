// SPDX-License-Identifier: GPL-2.0-or-later
// BlockedOffers: what Slurm did not give a job, although it looked as if it would: such an offer is
// left out for a while, and of a job whose shapes Slurm refuses the others are tried less and less
// often. Pure: times are those of the view.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/text.h"
#include "planner/search/offers.h"
#include "plugin/sched/host/host.h"
#include "plugin/sched/host/refusals.h"

namespace arena {

class BlockedOffers {
  public:
    /// Where something ended since the last round, a limit on what may run at once may be met
    /// again; where nodes came, a shape that none could hold.
    void new_round(const ClusterView& view);

    /// Those of the list that may be tried now; why() of what is left out where that leaves none.
    SharedOffers open(JobId job, const OfferList& offers);
    [[nodiscard]] const std::string& why(JobId job) const { return blocked_.at(job).front().why; }
    /// Those that a job which runs on `own` may be moved to: no shape that a limit refused it
    /// lately, for it would be stopped for nothing.
    [[nodiscard]] SharedOffers to_move_to(JobId job, const OfferList& offers,
                                          const Chosen& own) const;
    /// The same of one shape, whatever became of the job's others: why it is not to be tried now;
    /// "" = it may be.
    [[nodiscard]] std::string why_not(JobId job, const Chosen& grid) const;
    /// `limited`: by a limit, which may be lifted as soon as a job ends.
    void block(JobId job, const Chosen& grid, const std::string& why, bool limited = false);

    /// Slurm knows more of the shape than was asked for here. `hopeless`: no node can hold it. True
    /// where that is worth a line in the log: once for each reason, not for each offer.
    [[nodiscard]] bool refuse(JobId job, const Chosen& grid, const std::string& why, bool hopeless);
    /// Whether Slurm refused so lately that the job is not tried at all; then resting_why().
    [[nodiscard]] bool rests(JobId job) const;
    [[nodiscard]] const std::string& resting_why(JobId job) const;

    /// The nodes of the offer are not free after all: true, and blocked, where that lasts.
    [[nodiscard]] bool busy_too_long(JobId job, const Chosen& grid, const std::string& why);
    /// What was planned was not so any more. Once is a change while the round was decided; again
    /// and again is a plan that Slurm does not share: true, and blocked, with `why`.
    [[nodiscard]] bool stale_too_often(JobId job, const Chosen& grid, const std::string& why);
    void not_stale(JobId job) { stale_.erase(job); }

    /// Whether a limit refused it lately: it waits for that, and not for GPUs.
    [[nodiscard]] bool is_limited(JobId job) const;
    void started(JobId job);
    /// Something that Slurm refused the job for may be another now.
    void forgive(JobId job);
    template <typename Gone>
    void forget(Gone gone) {
        std::erase_if(blocked_, gone);
        std::erase_if(limits_, gone);
        std::erase_if(busy_, gone);
        std::erase_if(stale_, gone);
        refusals_.forget_old(now_s_, [&](const std::string& id) {
            const auto job = static_cast<JobId>(parse_integer(id, 0, UINT32_MAX).value_or(0));
            return !gone(std::pair(job, 0));
        });
    }

  private:
    struct Blocked {
        Chosen grid;
        double until_s;
        std::string why;
        bool limited = false;
    };
    double now_s_ = 0;
    std::map<JobId, std::vector<Blocked>> blocked_;
    /// What limits refused: kept for longer, for the room that others leave lifts no limit of a
    /// job's own.
    std::map<JobId, std::vector<Blocked>> limits_;
    std::map<JobId, Blocked> busy_;
    std::map<JobId, int> stale_;  ///< rounds in a row
    /// By job: shapes that Slurm refused in a row.
    Refusals refusals_{{.first_rest_s = 1, .longest_rest_s = 1800, .forget_s = 3600}};
    std::int64_t free_before_ = 0;  ///< CPUs and GPUs free in the last round
    std::int64_t up_before_ = 0;    ///< of all nodes that took jobs then
};

}  // namespace arena
