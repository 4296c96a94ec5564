// SPDX-License-Identifier: GPL-2.0-or-later
// CarrierWatch: what becomes of the carriers in Slurm's job list. Shows how far they are, waits for
// the results of those that ended and imports them from the spool, and says what failed. What it
// remembers is a cache: the job list and the store are the truth.
#pragma once

#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "plugin/sched/host/host.h"
#include "plugin/sched/profiles/measurements.h"
#include "plugin/sched/profiles/spool_reader.h"
#include "site/config.h"

namespace arena {

struct CarrierNews {
    struct Nothing {};
    struct Going {
        std::string progress;         ///< " 12/40, about 1 min"; "" before the run has told
        bool boots = false;           ///< its node does, and nothing is measured yet
        double booted_s = -INFINITY;  ///< when that was over; minus infinity: nobody saw it boot
    };
    struct AwaitingResult {};  ///< it ended, and its result may still come
    struct Measured {};        ///< and is in the store
    struct Failed {
        std::string reason;
        double at_s = 0;
        bool ours = true;  ///< else it was counted and told of in an earlier life
    };
    using What = std::variant<Nothing, Going, AwaitingResult, Measured, Failed>;

    ProfileKey key;
    JobId carrier = 0;
    std::string node;
    What what;
};

class CarrierWatch {
  public:
    CarrierWatch(Host& host, const Config& config, Measurements& measurements,
                 std::uint32_t user_id);

    /// Once a round, when only carriers of the service user are in the view; those that are done
    /// with are not told of again.
    std::vector<CarrierNews> look(const ClusterView& view);
    void started(JobId carrier) { watched_[carrier].ours = true; }
    /// It is cancelled, for nobody wants its result: what comes of it is no failure.
    void withdrawn(JobId carrier) { watched_[carrier].withdrawn = true; }
    [[nodiscard]] bool is_withdrawn(JobId carrier) const {
        const auto at = watched_.find(carrier);
        return at != watched_.end() && at->second.withdrawn;
    }

  private:
    struct Watched {
        bool ours = false;  ///< seen running in this life: nobody has counted its failure yet
        bool done = false;  ///< its outcome was told
        bool withdrawn = false;
        bool boots = false;
        double booted_s = -INFINITY;
        std::optional<double> ended_s;  ///< without a result so far
        std::string progress;
        double progress_s = 0;
    };
    struct Seen {
        const CarrierView& carrier;
        const ProfileRequest& request;
        ProfileKey key;
        Watched& watched;
        double now_s, time_s;  ///< monotonic, of the wall
        bool unbooted;         ///< its node did not wake up
    };
    [[nodiscard]] CarrierNews::What outcome_of(const Seen& seen);
    [[nodiscard]] CarrierNews::What take_result(const Seen& seen, const Result<Profile>& profile);
    [[nodiscard]] CarrierNews::What failed(const Seen& seen, const std::string& reason) const;
    [[nodiscard]] CarrierNews::Going going_on(const Seen& seen, const ClusterView& view);
    [[nodiscard]] std::string progress_of(const Seen& seen);
    void tell_silence();

    Host& host_;
    Config config_;
    Measurements& measurements_;
    SpoolReader spool_;
    bool silence_told_ = false;
    std::map<JobId, Watched> watched_;
};

}  // namespace arena
