// SPDX-License-Identifier: GPL-2.0-or-later
// See profile_book.h. All file and database work happens here, outside slurmctld's locks.
#include "plugin/sched/profiles/profile_book.h"

#include <fmt/format.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/text.h"
#include "planner/hardware/hardware.h"
#include "planner/hardware/measured_links.h"
#include "planner/hardware/shipped_profile.h"
#include "plugin/sched/host/one_word.h"

namespace arena {
namespace {

/// How long a finished carrier's missing result is waited for.
constexpr double result_grace_s = 3;
/// How long it waits for a spool that does not answer, and when that is told.
constexpr double silence_grace_s = 30, silence_told_s = 5;
/// How long a result waits for a store that another process (`arena profile`) holds.
constexpr double locked_grace_s = 5;
/// A store that cannot be opened is tried again this often.
constexpr double reopen_interval_s = 30;
/// Reports that wait for the store to be opened.
constexpr std::size_t max_unkept = 1024;
/// A reason that changes is a change of the job, which makes the next round: not each second.
constexpr double progress_interval_s = 10;
/// A node rests at most for less than a model waits for its run before that counts as failed.
constexpr Refusals::Pace node_pace{2, 8, 20};

/// Where a run as such is refused, somebody must change something first.
Refusals::Pace partition_pace(const Config& config) {
    constexpr double first_rest_s = 10, forget_s = 3600;
    return {first_rest_s, std::max(first_rest_s, config.profile_backoff_s), forget_s};
}

}  // namespace

ProfileBook::ProfileBook(Host& host, const Config& config, std::vector<GpuType> hardware)
    : host_(host),
      config_(config),
      hardware_(std::move(hardware)),
      refusing_nodes_(node_pace),
      refusing_partitions_(partition_pace(config)),
      refusing_users_(partition_pace(config)),
      turns_(config.profile_runs_per_hour) {
    if (const passwd* user = ::getpwnam(config_.profile_user.c_str())) {
        user_known_ = true;
        user_id_ = user->pw_uid;
        group_id_ = user->pw_gid;
    }
    if (config_.profile_enabled && !user_known_)
        host_.log_error("profile.user '" + config_.profile_user +
                        "' does not exist: nothing is profiled, estimates stay analytic; create "
                        "the user on all nodes");
    if (user_known_ && !host_.may_profile_as(user_id_)) {
        user_known_ = false;
        host_.log_error("profile.user '" + config_.profile_user +
                        "' is root, nobody or SlurmUser: refused, nothing is profiled; name a "
                        "service user of its own");
    }
    spool_ = std::make_unique<SpoolReader>(spool_source(config_.profile_spool, user_id_));
    open_store();
}

void ProfileBook::open_store() {
    std::error_code ignored;
    std::filesystem::create_directories(std::filesystem::path(config_.profile_store).parent_path(),
                                        ignored);
    std::string notice;
    auto store = ProfileStore::open(config_.profile_store, &notice);
    if (!notice.empty()) host_.log_error(notice);
    if (store)
        store_ = std::move(store).value();
    else if (const std::string why = store.error().message();
             why != std::exchange(store_error_, why))
        host_.log_error("profile store: " + why +
                        "; estimates stay analytic until it can be opened");
}

/// An administrator may have put right what was wrong.
bool ProfileBook::reopen_store(double now_s) {
    if (store_ || now_s < store_tried_s_ + reopen_interval_s) return false;
    if (std::exchange(store_tried_s_, now_s) != 0)
        open_store();  // the first time it was just tried
    if (!store_ || store_error_.empty()) return false;
    store_error_.clear();
    tables_.clear();
    links_.clear();
    for (const GpuMapping& type : config_.gpu_types) ++versions_[type.gres_type];
    host_.log_info("profile store: it could be opened now");
    for (const ObservedRun& run : std::exchange(unkept_, {})) keep_observed(run);
    return true;
}

bool ProfileBook::measured(const Key& key) {
    if (measured_.contains(key)) return true;
    if (!store_ || unmeasured_.contains(key)) return false;
    const bool found = store_->find(key.first, key.second).ok();
    (found ? measured_ : unmeasured_).insert(key);
    return found;
}

void ProfileBook::note_attempt(const Key& key, const std::string& node, const std::string& reason,
                               double at_s) {
    Attempts& attempts = attempts_[key];
    ++attempts.count;
    attempts.last_s = std::max(attempts.last_s, at_s);
    attempts.reason = reason;
    if (!node.empty()) attempts.nodes.insert(node);
}

void ProfileBook::tell_failure(const Key& key, const std::string& node) {
    const Attempts& attempts = attempts_.at(key);
    ++failed_;
    host_.log_error(fmt::format("profiling for {} failed on {}: {} (try {} of {})", key.second,
                                node.empty() ? "?" : node, attempts.reason, attempts.count,
                                config_.profile_retries));
}

/// It failed when it ended, however late that is seen. One of an earlier life of ours was counted
/// and told of then; now it only says what need not be tried yet.
void ProfileBook::count_failure(const CarrierView& carrier, const Key& key,
                                const std::string& reason, double now_s) {
    const double ago_s = carrier.end_s > 0 ? std::max(time_s_ - carrier.end_s, 0.0) : 0;
    const bool own = seen_running_.contains(carrier.id);
    if (!own && ago_s >= config_.profile_backoff_s) return;
    note_attempt(key, carrier.node, reason, now_s - ago_s);
    if (own) tell_failure(key, carrier.node);
}

/// Whether what is waited for since the carrier ended may still come.
bool ProfileBook::may_come(const CarrierView& carrier, double now_s, double grace_s) {
    return now_s < finished_since_.try_emplace(carrier.id, now_s).first->second + grace_s;
}

bool ProfileBook::settle(const CarrierView& carrier, const ProfileRequest& request, double now_s) {
    const Key key{fingerprint(request.model), request.gpu_type};
    if (const auto before = store_->load(request.nonce)) {  // imported before a restart of ours
        if (before->status == ProfileStatus::failed)
            count_failure(carrier, key, before->reason, now_s);
        return true;
    }
    const auto profile = spool_->result(request.nonce);
    if (!profile) {
        if (may_come(carrier, now_s, silence_grace_s)) return false;
        count_failure(carrier, key,
                      "the profile spool " + config_.profile_spool + " does not answer", now_s);
        return true;
    }
    // On a shared file system the result may be seen a moment after the job's end.
    const bool absent = !*profile && profile->error().code == ErrorCode::no;
    if (absent && may_come(carrier, now_s, result_grace_s)) return false;
    return take_result(carrier, request, *profile, now_s);
}

bool ProfileBook::take_result(const CarrierView& carrier, const ProfileRequest& request,
                              const Result<Profile>& profile, double now_s) {
    const Key key{fingerprint(request.model), request.gpu_type};
    if (!profile) {
        count_failure(carrier, key, profile.error().message(), now_s);
        return true;
    }
    const bool fits = profile->gpu_type == request.gpu_type &&
                      profile->model_fingerprint == key.first &&
                      profile->hardware == request.hardware;
    if (!fits || profile->status == ProfileStatus::failed) {
        if (fits) (void)store_->import(*profile, request.model.name);  // for `arena profile status`
        count_failure(carrier, key, fits ? profile->reason : "the result is for another request",
                      now_s);
        return true;
    }
    if (auto status = store_->import(*profile, request.model.name); !status) {
        if (now_s < kept_out_since_.try_emplace(carrier.id, now_s).first->second + locked_grace_s)
            return false;
        count_failure(carrier, key, status.error().message(), now_s);
        return true;
    }
    ++imported_;
    // The node may have shown another driver or library: what was measured with the old one no
    // longer holds.
    std::erase_if(measured_, [&](const Key& other) { return other.second == key.second; });
    attempts_.erase(key);
    tables_.erase(request.gpu_type);
    ++versions_[request.gpu_type];
    host_.log_info(fmt::format("JobId={} profiled {} on {}: {} operators in {:.1f} s", carrier.id,
                               one_word(request.model.name), request.gpu_type,
                               profile->entries.size(), profile->device_seconds));
    return true;
}

/// Once for as long as it goes on.
void ProfileBook::tell_silence() {
    const bool silent = spool_->silent_s() >= silence_told_s;
    if (silent && !silence_told_)
        host_.log_error(
            "the profile spool " + config_.profile_spool +
            " does not answer: results of profile runs wait for it, for 30 s each; mend what "
            "it is mounted from");
    silence_told_ = silent;
}

/// A run that has not begun, or whose spool cannot be read yet, has no progress to show.
std::string ProfileBook::progress_of(const ProfileRequest& request, double now_s) {
    Shown& shown = shown_[request.nonce];
    if (!shown.text.empty() && now_s < shown.since_s + progress_interval_s) return shown.text;
    const auto progress = spool_->progress(request.nonce);
    if (progress && *progress) shown = {" " + short_form(**progress), now_s};
    return shown.text;
}

bool ProfileBook::update(ClusterView& view) {
    const double now_s = view.steady_s;
    time_s_ = view.snapshot.time_s;
    const bool reopened = reopen_store(now_s);
    running_.clear();
    unmeasured_.clear();
    places_.clear();
    const std::map<std::string, Shown> before = std::exchange(shown_, {});
    // One that never ran was counted when it could not start, and has no result to wait for.
    std::erase_if(view.carriers, [&](const CarrierView& c) {
        return !user_known_ || c.user_id != user_id_ || (c.finished && c.node.empty());
    });
    turns_.new_round(view);
    std::set<JobId> seen;
    for (const CarrierView& carrier : view.carriers) {
        seen.insert(carrier.id);
        if (!carrier.finished) seen_running_.insert(carrier.id);
        // While the store is closed nobody waits for a result; it is taken in as soon as there is
        // one.
        if (settled_.contains(carrier.id) || (carrier.finished && !store_)) continue;
        auto request = parse_profile_request(carrier.request);
        if (!request) {
            settled_.insert(carrier.id);
            continue;
        }
        if (const auto at = before.find(request->nonce); at != before.end()) shown_.insert(*at);
        if (carrier.finished && settle(carrier, *request, now_s))
            settled_.insert(carrier.id);
        else
            running_[{fingerprint(request->model), request->gpu_type}] = {
                carrier.id, carrier.finished ? "" : progress_of(*request, now_s),
                turns_.began_s(carrier.id)};
    }
    for (std::set<JobId>* ids : {&settled_, &seen_running_})
        std::erase_if(*ids, [&](JobId id) { return !seen.contains(id); });
    tell_silence();
    forget_old(view);
    for (auto* since : {&finished_since_, &kept_out_since_})
        std::erase_if(*since, [&](const auto& entry) { return !seen.contains(entry.first); });
    return reopened;
}

/// Seconds of another site's GPU of this kind, until one of ours is measured.
ProfileTable ProfileBook::shipped_table(const std::string& gpu_type) {
    const auto at =
        std::find_if(config_.gpu_types.begin(), config_.gpu_types.end(),
                     [&](const GpuMapping& type) { return type.gres_type == gpu_type; });
    if (at == config_.gpu_types.end()) return {};
    const auto hardware = find_hardware(hardware_, at->hardware);
    if (!hardware) return {};
    ShippedProfile shipped = shipped_profile(hardware->name);
    for (const std::string& complaint : shipped.complaints)
        host_.log_error("recorded profile " + complaint + "; it is left out");
    return std::move(shipped.table);
}

/// What the store answered; where it could not, nothing, and the log says what that means.
template <class T>
T ProfileBook::or_said(Result<T> answer, const std::string& meaning) {
    if (answer) return std::move(answer).value();
    host_.log_error(answer.error().message() + "; " + meaning);
    return {};
}

const ProfileTable& ProfileBook::table(const std::string& gpu_type) {
    const auto at = tables_.find(gpu_type);
    if (at != tables_.end()) return at->second;
    ProfileTable table;
    if (store_)
        table = or_said(store_->table(gpu_type), "nothing measured of " + gpu_type + " is used");
    if (table.empty()) table = shipped_table(gpu_type);
    return tables_[gpu_type] = std::move(table);
}

GpuType ProfileBook::with_links(const std::string& gpu_type, GpuType hardware) {
    if (const auto at = links_.find(gpu_type); at != links_.end())
        return with_measured_links(std::move(hardware), at->second);
    std::vector<CommTime> times;
    if (store_)
        times = or_said(store_->comm(gpu_type),
                        "the links of " + gpu_type + " are those of its hardware entry");
    return with_measured_links(std::move(hardware), links_[gpu_type] = std::move(times));
}

std::uint64_t ProfileBook::version(const std::string& gpu_type) const {
    const auto at = versions_.find(gpu_type);
    return at == versions_.end() ? 0 : at->second;
}

std::vector<ObservedRun> ProfileBook::observed() {
    if (!store_) return {};
    ObservedRuns observed =
        or_said(store_->observed(), "estimates stay uncorrected until jobs report again");
    for (const std::string& bad : observed.bad) host_.log_error(bad);
    return std::move(observed.runs);
}

void ProfileBook::keep_observed(const ObservedRun& run) {
    if (!store_) {
        if (unkept_.size() >= max_unkept) unkept_.erase(unkept_.begin());
        return unkept_.push_back(run);
    }
    if (auto kept = store_->keep_observed(run); !kept)
        host_.log_error(kept.error().message() + "; the report counts until slurmctld restarts");
}

}  // namespace arena
