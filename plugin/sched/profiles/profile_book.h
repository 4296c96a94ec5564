// SPDX-License-Identifier: GPL-2.0-or-later
// ProfileBook: which (model, GPU type) pairs are measured, being measured, or cannot be. Starts one
// carrier per pair however many jobs wait, imports results from the spool, backs off after
// failures. What it remembers is a cache: carriers in Slurm's job list and the store are the truth.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/hardware.h"
#include "plugin/sched/host/host.h"
#include "plugin/sched/host/refusals.h"
#include "plugin/sched/profiles/profile_turns.h"
#include "plugin/sched/profiles/spool_reader.h"
#include "request/request.h"
#include "site/config.h"
#include "store/store.h"

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

/// What ready jobs are about to take of a node.
struct Taken {
    std::int64_t gpus = 0, cpus = 0, memory_mb = 0;
};

/// What a waiting job needs measured.
struct ProfileNeed {
    const Request* request = nullptr;
    std::string fingerprint;  ///< of its model
    JobId job = 0;
    std::uint32_t user_id = 0;
    std::string gpu_type, hardware, partition;
    std::int64_t max_gpus = 1, gpus_per_node = 1;
    const std::vector<NodeIndex>* nodes = nullptr;  ///< where the job may run
    const std::vector<Taken>* taken = nullptr;  ///< of each node, by jobs before it; null: nothing
    double eligible_s = 0;                      ///< since when it may run
    double ordinary_start_s = INFINITY;         ///< as in JobView
};

class ProfileBook {
  public:
    ProfileBook(Host& host, const Config& config, std::vector<GpuType> hardware);

    /// Looks at finished and running carriers; imports, counts failures. Call once a round. Takes
    /// out of the view what somebody else made to look like one: a site without job_submit/arena
    /// lets ARENA_PROFILE in. True when the store was opened only now: observed() has more than it
    /// had.
    [[nodiscard]] bool update(ClusterView& view);
    /// State of a pair; starts a carrier when one is due and a GPU of that type is free.
    ProfileAnswer require(const ProfileNeed& need, ClusterView& view);
    /// Whether require() would start one beside what is taken: then it matters who else takes
    /// something.
    [[nodiscard]] bool would_take(const ProfileNeed& need, const ClusterView& view);
    /// Measured operators of a GPU type: this site's, else those that come with slurm-arena;
    /// changes when version() does.
    const ProfileTable& table(const std::string& gpu_type);
    /// The type with its links as this site measured them; read once.
    GpuType with_links(const std::string& gpu_type, GpuType hardware);
    [[nodiscard]] std::uint64_t version(const std::string& gpu_type) const;
    /// What jobs have reported so far, oldest first; the latest of each shape.
    [[nodiscard]] std::vector<ObservedRun> observed();
    /// While the store is closed, the latest wait for it.
    void keep_observed(const ObservedRun&);
    [[nodiscard]] std::size_t running() const { return running_.size(); }
    [[nodiscard]] std::uint64_t imported() const { return imported_; }
    [[nodiscard]] std::uint64_t failed() const { return failed_; }
    [[nodiscard]] const ProfileTurns& turns() const { return turns_; }

  private:
    template <class T>
    T or_said(Result<T> answer, const std::string& meaning);
    using Key = std::pair<std::string, std::string>;  // fingerprint, gpu_type
    struct Attempts {
        std::int64_t count = 0;
        double last_s = -INFINITY;
        std::string reason;
        std::set<std::string> nodes;
    };

    struct Running {
        JobId carrier = 0;
        std::string progress;  ///< " 12/40, about 1 min"; "" before the run has told
        double began_s = 0;
    };
    struct Place {  ///< where a run may go
        NodeIndex node;
        std::string partition;
        std::string asked;  ///< the partition for GPUs of the type, as people are told
    };
    struct Shown {
        std::string text;
        double since_s = 0;
    };

    void open_store();
    bool reopen_store(double now_s);
    /// Of a finished carrier, with an open store. False: again in the next round.
    bool settle(const CarrierView& carrier, const ProfileRequest& request, double now_s);
    bool take_result(const CarrierView& carrier, const ProfileRequest& request,
                     const Result<Profile>& profile, double now_s);
    [[nodiscard]] bool may_come(const CarrierView& carrier, double now_s, double grace_s);
    void tell_silence();
    void count_failure(const CarrierView& carrier, const Key& key, const std::string& reason,
                       double now_s);
    void note_attempt(const Key& key, const std::string& node, const std::string& reason,
                      double at_s);
    void tell_failure(const Key& key, const std::string& node);
    bool measured(const Key& key);
    std::string progress_of(const ProfileRequest& request, double now_s);
    [[nodiscard]] bool can_profile() const {
        return config_.profile_enabled && user_known_ && store_;
    }
    std::optional<ProfileAnswer> without_start(const ProfileNeed& need, const Key& key,
                                               const ClusterView& view);
    ProfileAnswer start(const ProfileNeed& need, const Key& key, ClusterView& view);
    [[nodiscard]] std::optional<ProfileAnswer> after_ordinary(const ProfileNeed& need,
                                                              double now_s) const;
    const std::vector<Place>& places(const ProfileNeed& need, const ClusterView& view);
    [[nodiscard]] std::string no_place_text(const ProfileNeed& need, const ClusterView& view) const;
    std::optional<ProfileAnswer> nowhere(const ProfileNeed& need, const ClusterView& view);
    [[nodiscard]] std::size_t runs_on_its_nodes(const ProfileNeed& need, const ClusterView& view);
    void forget_old(const ClusterView& view);
    [[nodiscard]] Attempts attempts_of(const Key& key) const;
    [[nodiscard]] ProfileNeed after_yielding(ProfileNeed need, const Key& key, double now_s) const;
    [[nodiscard]] std::size_t slots() const;
    void want(const ProfileNeed& need, const ClusterView& view);
    const Place* pick_place(const ProfileNeed& need, const Attempts& attempts,
                            const ClusterView& view);
    [[nodiscard]] bool all_known(const ProfileNeed& need, const Key& key);
    [[nodiscard]] std::optional<ProfileAnswer> refused_to_user(const ProfileNeed& need,
                                                               const ClusterView& view) const;
    [[nodiscard]] ProfileRequest request_for(const ProfileNeed& need) const;
    [[nodiscard]] bool others_first(const ProfileNeed& need, const ClusterView& view);
    CarrierSpec carrier_for(const ProfileNeed& need, const Place& place, const ClusterView& view);
    void note_refusal(const ProfileNeed& need, const Place& place, const CarrierStart& start,
                      ClusterView& view);
    [[nodiscard]] std::set<std::string> resting_nodes(const ProfileNeed& need,
                                                      const ClusterView& view);
    ProfileAnswer without_node(const ProfileNeed& need, const Key& key, const ClusterView& view);
    ProfileTable shipped_table(const std::string& gpu_type);
    void fill_known(ProfileRequest& request, const std::string& node);
    /// `whole` (may be null): false where the model has more of them than there was time to list.
    std::vector<OpShape> wanted_operators(const ProfileRequest& request, bool* whole) const;

    Host& host_;
    Config config_;
    std::vector<GpuType> hardware_;
    std::unique_ptr<ProfileStore> store_;
    std::unique_ptr<SpoolReader> spool_;
    bool silence_told_ = false;
    std::string store_error_;  ///< said last
    double store_tried_s_ = 0;
    bool user_known_ = false;
    std::uint32_t user_id_ = 0, group_id_ = 0;
    std::map<Key, Attempts> attempts_;
    std::map<Key, Running> running_;
    /// Of this round, by the nodes of a job, GPU type and partitions.
    std::map<std::tuple<const void*, std::string, std::string>, std::vector<Place>> places_;
    std::set<std::string> nowhere_told_;  ///< GPU types
    Refusals refusing_nodes_;
    Refusals refusing_partitions_;  ///< by what was asked of them
    Refusals refusing_users_;       ///< whose own limits leave no run, by user id
    ProfileTurns turns_;
    std::map<Key, std::uint64_t>
        unknown_at_;                    ///< has operators to measure, at this version of the type
    std::map<Key, double> busy_since_;  ///< runs that Slurm gives no node that is shown free
    std::map<Key, double> yielding_since_;  ///< runs that let jobs before them have their nodes
    std::map<std::string, Shown> shown_;    ///< by nonce
    std::set<Key> measured_;
    std::set<Key> unmeasured_;  ///< the store said so in this round
    std::set<JobId> settled_;
    std::set<JobId>
        seen_running_;   ///< carriers of this life, whose failures nobody has counted yet
    double time_s_ = 0;  ///< the wall clock of this round
    std::map<JobId, double> finished_since_;  ///< carriers that ended without a result so far
    std::map<JobId, double>
        kept_out_since_;               ///< carriers whose result a locked store did not take yet
    std::vector<ObservedRun> unkept_;  ///< reported while the store was closed
    std::map<std::string, ProfileTable> tables_;
    std::map<std::string, std::vector<CommTime>> links_;
    std::map<std::string, std::uint64_t> versions_;
    std::uint64_t imported_ = 0, failed_ = 0;
};

}  // namespace arena
