// SPDX-License-Identifier: GPL-2.0-or-later
// ProfileBook: which (model, GPU type) pairs are measured, being measured, or cannot be. Starts one
// carrier per pair however many jobs wait, and backs off after failures.
#pragma once

#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "plugin/sched/host/host.h"
#include "plugin/sched/profiles/carrier_watch.h"
#include "plugin/sched/profiles/measurements.h"
#include "plugin/sched/profiles/profile_turns.h"
#include "plugin/sched/profiles/run_machine.h"
#include "plugin/sched/profiles/run_place.h"
#include "site/config.h"

namespace arena {

enum class ProfileState {
    ready,     ///< measured operators are in the store
    running,   ///< a carrier measures now: worth waiting for
    stand_in,  ///< no profile for now; the analytic estimate stands in
};

struct ProfileAnswer {
    ProfileState state = ProfileState::stand_in;
    std::string text;  ///< for people: "profiling gpt2 on a40 (JobId=12) 12/40, about 1 min", or
                       ///< why there is none
    double began_s = INFINITY;  ///< of the monotonic clock; infinite: no run has begun
};

/// Whose carriers are; none where nothing can be measured.
struct ServiceUser {
    std::uint32_t id = 0, group = 0;
    bool known = false;
};

class ProfileBook {
  public:
    ProfileBook(Host& host, const Config& config, Measurements& measurements);

    /// Looks at finished and running carriers; imports, counts failures. Call once a round, after
    /// Measurements::new_round(). Takes out of the view what somebody else made to look like one: a
    /// site without job_submit/arena lets ARENA_PROFILE in.
    void update(ClusterView& view);
    /// State of a pair; starts a carrier when one is due and a GPU of that type is free.
    ProfileAnswer require(const ProfileNeed& need, ClusterView& view);
    /// Whether require() would start one beside what is taken: then it matters who else takes
    /// something.
    [[nodiscard]] bool would_take(const ProfileNeed& need, const ClusterView& view);
    /// What is measured of its model on the types that it may have is of use to a job that waits,
    /// and where the run has begun to the next of a job that has its nodes already: each may start
    /// by formulas, and none would ever be measured. Say so of each in a round, before
    /// end_unwanted().
    void keep_for(const std::string& fingerprint, const Request& request, bool waits);
    /// Ends the runs that are kept for no job, whoever asked for them.
    void end_unwanted();
    [[nodiscard]] std::size_t running() const { return running_; }
    [[nodiscard]] std::uint64_t imported() const { return imported_; }
    [[nodiscard]] std::uint64_t failed() const { return failed_; }
    [[nodiscard]] const ProfileTurns& turns() const { return turns_; }

    [[nodiscard]] const ServiceUser& user() const { return user_; }

  private:
    static ServiceUser service_user(Host& host, const Config& config);

    RunMachine& run_of(const ProfileKey& key);
    void take_in(const CarrierNews& news);
    void tell_failure(const ProfileKey& key, const std::string& node);
    [[nodiscard]] bool can_profile() const {
        return config_.profile_enabled && user_.known && measurements_.store();
    }
    [[nodiscard]] std::size_t slots() const;
    [[nodiscard]] ProfileRequest request_for(const ProfileNeed& need) const;

    /// What there is to say of the pair where no run is to start.
    std::optional<ProfileAnswer> without_start(const ProfileNeed& need, const ProfileKey& key,
                                               const ClusterView& view);
    [[nodiscard]] std::optional<ProfileAnswer> after_ordinary(const ProfileNeed& need,
                                                              double now_s) const;
    [[nodiscard]] std::optional<ProfileAnswer> refused_to_user(const ProfileNeed& need,
                                                               const ClusterView& view) const;
    ProfileAnswer closed(const ProfileNeed& need, const ClusterView& view);

    const std::vector<RunPlace>& places(const ProfileNeed& need, const ClusterView& view);
    PlaceNeed place_need(const ProfileNeed& need, const RunMachine& run, const ClusterView& view);
    [[nodiscard]] double most_boot_s(const ProfileNeed& need, const ClusterView& view) const;
    void want(const ProfileNeed& need, const ClusterView& view);
    ProfileAnswer start(const ProfileNeed& need, const ProfileKey& key, ClusterView& view);
    [[nodiscard]] CarrierSpec carrier_for(const ProfileNeed& need, const RunPlace& place,
                                          const ClusterView& view) const;
    ProfileAnswer started(const ProfileNeed& need, const RunPlace& place, const CarrierSpec& spec,
                          JobId carrier, ClusterView& view);
    void note_refusal(const ProfileNeed& need, const RunPlace& place, const CarrierStart& start,
                      ClusterView& view);
    [[nodiscard]] ProfileAnswer left_asleep(const std::string& node, const ProfileNeed& need,
                                            const ClusterView& view) const;
    ProfileAnswer not_placed(const RunPlacement& placement, const ProfileNeed& need,
                             const ProfileKey& key, const ClusterView& view);
    ProfileAnswer resting(const std::string& node, const ProfileNeed& need, const ProfileKey& key,
                          double now_s);

    Host& host_;
    Config config_;
    Measurements& measurements_;
    ServiceUser user_;
    CarrierWatch carriers_;
    ProfileTurns turns_;
    RunRefusals refusals_;
    std::map<ProfileKey, RunMachine> runs_;
    std::set<ProfileKey> wanted_;  ///< of the runs, in this round
    /// Of this round, by the nodes of a job, GPU type and partitions.
    std::map<std::tuple<const void*, std::string, std::string>, std::vector<RunPlace>> places_;
    std::set<std::string> nowhere_told_;  ///< GPU types
    std::size_t running_ = 0;             ///< runs that have a carrier
    std::uint64_t imported_ = 0, failed_ = 0;
};

}  // namespace arena
