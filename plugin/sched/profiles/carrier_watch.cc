// SPDX-License-Identifier: GPL-2.0-or-later
// See carrier_watch.h. All file work happens here, outside slurmctld's locks.
#include "plugin/sched/profiles/carrier_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/count_text.h"
#include "plugin/sched/host/one_word.h"

namespace arena {
namespace {

/// When a spool that does not answer is told.
constexpr double silence_told_s = 5;
/// A reason that changes is a change of the job, which makes the next round: ten times in a run,
/// and not more often than each second.
double progress_interval_s(const Config& config) {
    return std::max(config.profile_budget_s / 10, 1.0);
}

/// The first entry of that name has the power of the node.
std::optional<NodeIndex> node_named(const ClusterView& view, const std::string& name) {
    const auto& nodes = view.snapshot.nodes;
    const auto at = std::find_if(nodes.begin(), nodes.end(),
                                 [&](const NodeState& node) { return node.name == name; });
    if (at == nodes.end()) return std::nullopt;
    return static_cast<NodeIndex>(at - nodes.begin());
}

bool is(const ClusterView& view, NodePower power, const std::string& name) {
    if (view.power.empty()) return false;
    const auto node = node_named(view, name);
    return node && view.is(power, *node);
}

/// Whether what is waited for may still come; the wait begins with the first question.
bool may_come(std::optional<double>& since_s, double now_s, double grace_s) {
    if (!since_s) since_s = now_s;
    return now_s < *since_s + grace_s;
}

}  // namespace

CarrierWatch::CarrierWatch(Host& host, const Config& config, Measurements& measurements,
                           std::uint32_t user_id)
    : host_(host),
      config_(config),
      measurements_(measurements),
      spool_(spool_source(config.profile_spool, user_id)) {}

/// It failed when it ended, however late that is seen. Of an earlier life's it only matters what
/// need not be tried yet.
CarrierNews::What CarrierWatch::failed(const Seen& seen, const std::string& reason) const {
    const double end_s = seen.carrier.end_s;
    const double ago_s = end_s > 0 ? std::max(seen.time_s - end_s, 0.0) : 0;
    if (!seen.watched.ours && ago_s >= config_.profile_backoff_s) return CarrierNews::Nothing{};
    return CarrierNews::Failed{reason, seen.now_s - ago_s, seen.watched.ours};
}

CarrierNews::What CarrierWatch::outcome_of(const Seen& seen) {
    if (const auto before = measurements_.store()->load(seen.request.nonce)) {
        // imported before a restart of ours
        if (before->status == ProfileStatus::failed) return failed(seen, before->reason);
        return CarrierNews::Nothing{};
    }
    // Of an earlier life's nobody knows who cancelled it: it is tried again.
    const bool unwanted = seen.watched.withdrawn || (seen.carrier.cancelled && !seen.watched.ours);
    const auto profile = spool_.result(seen.request.nonce);
    const bool measured = profile && *profile && (*profile)->status != ProfileStatus::failed;
    if (unwanted && !measured) return CarrierNews::Nothing{};
    if (!profile) {
        if (may_come(seen.watched.ended_s, seen.now_s, silence_grace_s))
            return CarrierNews::AwaitingResult{};
        return failed(seen, "the profile spool " + config_.profile_spool + " does not answer");
    }
    // On a shared file system the result may be seen a moment after the job's end.
    const bool absent = !*profile && profile->error().code == ErrorCode::no;
    if (absent && seen.unbooted)
        return failed(seen, seen.carrier.node + " did not boot within ResumeTimeout");
    if (absent && may_come(seen.watched.ended_s, seen.now_s, result_grace_s))
        return CarrierNews::AwaitingResult{};
    return take_result(seen, *profile);
}

CarrierNews::What CarrierWatch::take_result(const Seen& seen, const Result<Profile>& profile) {
    if (!profile) return failed(seen, profile.error().message());
    const ProfileRequest& request = seen.request;
    if (profile->gpu_type != request.gpu_type || profile->model_fingerprint != seen.key.first ||
        profile->hardware != request.hardware)
        return failed(seen, "the result is for another request");
    const auto status = measurements_.import(*profile, request.model.name);
    // A failed one is kept for `arena profile status`.
    if (profile->status == ProfileStatus::failed) return failed(seen, profile->reason);
    if (!status) return failed(seen, status.error().message());
    host_.log_info(fmt::format(
        "JobId={} profiled {} on {}: {} in {:.1f} s", seen.carrier.id, one_word(request.model.name),
        request.gpu_type, counted(profile->entries.size(), "operator"), profile->device_seconds));
    return CarrierNews::Measured{};
}

/// Once for as long as it goes on.
void CarrierWatch::tell_silence() {
    const bool silent = spool_.silent_s() >= silence_told_s;
    if (silent && !silence_told_)
        host_.log_error(
            "the profile spool " + config_.profile_spool +
            " does not answer: results of profile runs wait for it, for 30 s each; mend what "
            "it is mounted from");
    silence_told_ = silent;
}

/// A run that has not begun, or whose spool cannot be read yet, has no progress to show.
std::string CarrierWatch::progress_of(const Seen& seen) {
    Watched& watched = seen.watched;
    if (!watched.progress.empty() && seen.now_s < watched.progress_s + progress_interval_s(config_))
        return watched.progress;
    const auto progress = spool_.progress(seen.request.nonce);
    if (progress && *progress) {
        watched.progress = " " + short_form(**progress);
        watched.progress_s = seen.now_s;
    }
    return watched.progress;
}

CarrierNews::Going CarrierWatch::going_on(const Seen& seen, const ClusterView& view) {
    Watched& watched = seen.watched;
    const std::string& node = seen.carrier.node;
    const bool boots = is(view, NodePower::asleep, node) || is(view, NodePower::waking, node) ||
                       is(view, NodePower::falling_asleep, node);
    if (std::exchange(watched.boots, boots) && !boots) watched.booted_s = seen.now_s;
    if (!boots) return {progress_of(seen), false, watched.booted_s};
    const double left_s = view.snapshot.nodes[*node_named(view, node)].boot_s;
    return {fmt::format(": {} boots, about {:.0f} s", node, left_s), true, watched.booted_s};
}

std::vector<CarrierNews> CarrierWatch::look(const ClusterView& view) {
    std::vector<CarrierNews> news;
    std::set<JobId> listed;
    for (const CarrierView& carrier : view.carriers) {
        listed.insert(carrier.id);
        Watched& watched = watched_[carrier.id];
        if (!carrier.finished) watched.ours = true;
        // While the store is closed nobody waits for a result; it is taken in as soon as there is
        // one.
        if (watched.done || (carrier.finished && !measurements_.store())) continue;
        const auto request = parse_profile_request(carrier.request);
        if (!request) {
            watched.done = true;
            continue;
        }
        const Seen seen{carrier,
                        *request,
                        {fingerprint(request->model), request->gpu_type},
                        watched,
                        view.steady_s,
                        view.snapshot.time_s,
                        is(view, NodePower::unbooted, carrier.node)};
        CarrierNews::What what = CarrierNews::Nothing{};
        if (carrier.finished)
            what = outcome_of(seen);
        else
            what = going_on(seen, view);
        watched.done =
            carrier.finished && !std::holds_alternative<CarrierNews::AwaitingResult>(what);
        news.push_back({seen.key, carrier.id, carrier.node, std::move(what)});
    }
    std::erase_if(watched_, [&](const auto& entry) { return !listed.contains(entry.first); });
    tell_silence();
    return news;
}

}  // namespace arena
