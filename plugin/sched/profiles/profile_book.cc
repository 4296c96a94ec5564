// SPDX-License-Identifier: GPL-2.0-or-later
// See profile_book.h.
#include "plugin/sched/profiles/profile_book.h"

#include <fmt/format.h>
#include <pwd.h>

#include <algorithm>
#include <utility>

#include "base/count_text.h"
#include "plugin/sched/host/nonce.h"
#include "plugin/sched/host/one_word.h"

namespace arena {
namespace {

/// Profile runs at once: each keeps a GPU from everybody for a minute, whoever asked for it.
constexpr std::size_t max_runs = 8;
/// Slurm's backfill looks at its queue every 30 s (bf_interval), and says then when a job is to
/// start.
constexpr double expected_within_s = 60;

ProfileAnswer going_on(const ProfileNeed& need, JobId carrier, double began_s,
                       const std::string& progress) {
    return {ProfileState::running,
            fmt::format("profiling {} on {} (JobId={}){}", one_word(need.request->model.name),
                        need.gpu_type, carrier, progress),
            began_s};
}

ProfileAnswer waiting(const ProfileNeed& need, const std::string& why) {
    return {ProfileState::running,
            fmt::format("waiting to profile {} on {}{}", one_word(need.request->model.name),
                        need.gpu_type, why)};
}

ProfileAnswer behind_runs(const ProfileNeed& need, std::size_t runs) {
    return waiting(need, fmt::format(": behind {}", counted(runs, "other profile run")));
}

ProfileAnswer behind_users(const ProfileNeed& need) {
    return waiting(need, ": the profile run of another user goes first");
}

/// Who is refused for a user's own limits is asked for again when one of the user's jobs may have
/// ended.
std::string user_key(const ProfileNeed& need) { return std::to_string(need.user_id); }

ProfileKey key_of(const ProfileNeed& need) { return {need.fingerprint, need.gpu_type}; }

}  // namespace

ServiceUser ProfileBook::service_user(Host& host, const Config& config) {
    const passwd* user = ::getpwnam(config.profile_user.c_str());
    if (!user) {
        if (config.profile_enabled)
            host.log_error("profile.user '" + config.profile_user +
                           "' does not exist: nothing is profiled, estimates stay analytic; create "
                           "the user on all nodes");
        return {};
    }
    const bool may = host.may_profile_as(user->pw_uid);
    if (!may)
        host.log_error("profile.user '" + config.profile_user +
                       "' is root, nobody or SlurmUser: refused, nothing is profiled; name a "
                       "service user of its own");
    return {user->pw_uid, user->pw_gid, may};
}

ProfileBook::ProfileBook(Host& host, const Config& config, Measurements& measurements)
    : host_(host),
      config_(config),
      measurements_(measurements),
      user_(service_user(host, config)),
      carriers_(host, config, measurements, user_.id),
      turns_(config.profile_runs_per_hour),
      refusals_(config.profile_backoff_s) {}

RunMachine& ProfileBook::run_of(const ProfileKey& key) {
    return runs_.try_emplace(key, config_.profile_retries).first->second;
}

void ProfileBook::tell_failure(const ProfileKey& key, const std::string& node) {
    const RunMachine::Failures& failures = run_of(key).failures();
    ++failed_;
    host_.log_error(fmt::format("profiling for {} failed on {}: {} (try {} of {})", key.second,
                                node.empty() ? "?" : node, failures.reason, failures.count,
                                config_.profile_retries));
}

void ProfileBook::take_in(const CarrierNews& news) {
    RunMachine& run = run_of(news.key);
    if (const auto* going = std::get_if<CarrierNews::Going>(&news.what)) {
        // A run has begun when its node is up.
        const double began_s =
            going->boots ? INFINITY : std::max(turns_.began_s(news.carrier), going->booted_s);
        run.runs({news.carrier, began_s, going->progress});
    } else if (std::holds_alternative<CarrierNews::AwaitingResult>(news.what)) {
        run.awaits_result({news.carrier, turns_.began_s(news.carrier)});
    } else if (std::holds_alternative<CarrierNews::Measured>(news.what)) {
        ++imported_;
        run.forgets_failures();
    } else if (const auto* failed = std::get_if<CarrierNews::Failed>(&news.what)) {
        run.fails(news.node, failed->reason, failed->at_s);
        if (failed->ours) tell_failure(news.key, news.node);
    }
}

void ProfileBook::update(ClusterView& view) {
    places_.clear();
    wanted_.clear();
    // One that never ran was counted when it could not start, and has no result to wait for.
    std::erase_if(view.carriers, [&](const CarrierView& c) {
        return !user_.known || c.user_id != user_.id || (c.finished && c.node.empty());
    });
    turns_.new_round(view);
    for (auto& [key, run] : runs_) run.loses_carrier();  // unless the job list has it still
    for (const CarrierNews& news : carriers_.look(view)) take_in(news);
    refusals_.forget_old(view);
    for (auto at = runs_.begin(); at != runs_.end();)
        at = at->second.forget_old(view.steady_s) ? runs_.erase(at) : std::next(at);
    running_ = static_cast<std::size_t>(std::count_if(
        runs_.begin(), runs_.end(), [](const auto& entry) { return entry.second.has_carrier(); }));
}

/// Runs that may still start beside those that go on.
std::size_t ProfileBook::slots() const { return max_runs - std::min(max_runs, running_); }

const std::vector<RunPlace>& ProfileBook::places(const ProfileNeed& need, const ClusterView& view) {
    const auto [at, added] = places_.try_emplace({need.nodes, need.gpu_type, need.partition});
    if (added) at->second = run_places(need, view, config_.profile_partition);
    return at->second;
}

/// So long a node may need to wake up that the run begins while it is waited for, and ends before
/// an ordinary job that waits for the same nodes is to start.
double ProfileBook::most_boot_s(const ProfileNeed& need, const ClusterView& view) const {
    const double ordinary_s =
        need.ordinary_start_s - view.snapshot.time_s - config_.profile_time_limit_s;
    return std::min(need.wait_until_s - view.steady_s, ordinary_s);
}

/// The policy may go on to promise a node to a job that never starts there: that is waited for so
/// long only.
PlaceNeed ProfileBook::place_need(const ProfileNeed& need, const RunMachine& run,
                                  const ClusterView& view) {
    return {places(need, view), run.failures().nodes, turns_.kept_from(need.user_id, slots()),
            run.has_yielded(view.steady_s) ? nullptr : need.taken, most_boot_s(need, view)};
}

/// From now on users that have had more runs leave it the nodes that it could go to.
void ProfileBook::want(const ProfileNeed& need, const ClusterView& view) {
    const double boot_s = most_boot_s(need, view);
    for (const RunPlace& place : places(need, view))
        if (can_wake(view, place.node, boot_s)) turns_.wants(need.user_id, place.node);
}

ProfileAnswer ProfileBook::closed(const ProfileNeed& need, const ClusterView& view) {
    if (const std::vector<RunPlace>& all = places(need, view); !all.empty())
        return {ProfileState::stand_in, refusals_.partitions.why(all.front().asked)};
    const std::string& own = config_.profile_partition;
    const std::string why = no_place_text(need, view, own);
    const bool for_others = has_type(view, own, need.gpu_type);
    if (!for_others && nowhere_told_.insert(need.gpu_type).second)
        host_.log_error("nothing is profiled on " + need.gpu_type + ": " + why);
    return {ProfileState::stand_in, why};
}

/// A run may use what an ordinary job waits for only as Slurm's backfill would: if it ends before
/// that job is expected to start. Nothing, if it may; else what to do about it.
std::optional<ProfileAnswer> ProfileBook::after_ordinary(const ProfileNeed& need,
                                                         double now_s) const {
    if (need.ordinary_start_s >= now_s + config_.profile_time_limit_s) return std::nullopt;
    if (need.ordinary_start_s == 0 && now_s < need.eligible_s + expected_within_s)
        return waiting(need, ": Slurm has not said yet when the ordinary job before it starts");
    return ProfileAnswer{ProfileState::stand_in,
                         "an ordinary job before it waits for the same nodes"};
}

std::optional<ProfileAnswer> ProfileBook::refused_to_user(const ProfileNeed& need,
                                                          const ClusterView& view) const {
    if (turns_.has_had_enough(need.user_id, view.steady_s))
        return ProfileAnswer{
            ProfileState::stand_in,
            fmt::format("its user has had {} profile runs within an hour, as many as "
                        "profile.runs_per_hour allows",
                        config_.profile_runs_per_hour)};
    if (!refusals_.users.rests(user_key(need), view.steady_s)) return std::nullopt;
    return ProfileAnswer{ProfileState::stand_in, refusals_.users.why(user_key(need))};
}

/// Without what is known already, and without a nonce.
ProfileRequest ProfileBook::request_for(const ProfileNeed& need) const {
    ProfileRequest request;
    request.gpu_type = need.gpu_type;
    request.hardware = need.hardware;
    request.model = need.request->model;
    request.global_batch = need.request->global_batch;
    request.max_gpus = need.max_gpus;
    request.gpus_per_node = need.gpus_per_node;
    request.budget_s = config_.profile_budget_s;
    return request;
}

CarrierSpec ProfileBook::carrier_for(const ProfileNeed& need, const RunPlace& place,
                                     const ClusterView& view) const {
    CarrierSpec spec;
    spec.node = view.snapshot.nodes[place.node].name;
    spec.request = request_for(need);
    spec.request.nonce = new_nonce();
    measurements_.fill_known(spec.request, spec.node);
    spec.user_id = user_.id;
    spec.group_id = user_.group;
    spec.partition = place.partition;
    spec.time_limit_minutes =
        static_cast<std::uint32_t>(std::ceil(config_.profile_time_limit_s / 60));
    spec.comment =
        fmt::format("arena: profile {} on {}", one_word(need.request->model.name), need.gpu_type);
    spec.for_job = need.job;
    spec.for_user = need.user_id;
    return spec;
}

/// A node that Slurm does not give now is free for nobody in this round.
void ProfileBook::note_refusal(const ProfileNeed& need, const RunPlace& place,
                               const CarrierStart& start, ClusterView& view) {
    const double now_s = view.steady_s;
    if (start.other_user) {
        if (refusals_.users.note(user_key(need), start.why, now_s))
            host_.log_info(
                fmt::format("JobId={} no profile run of uid {} starts: {}; it is tried "
                            "again less and less often",
                            need.job, need.user_id, start.why));
        return;
    }
    NodeState& node = view.snapshot.nodes[place.node];
    if (start.other_node) {
        node.free_gpus = 0;
        if (refusals_.nodes.note(node.name, start.why, now_s))
            host_.log_info(fmt::format(
                "{} is shown free but takes no profile run: {}; other nodes are tried, this one "
                "again every few seconds",
                node.name, start.why));
        return;
    }
    ++failed_;
    if (refusals_.partitions.note(place.asked, start.why, now_s))
        host_.log_error(fmt::format(
            "no profile run starts on {}: {}; it is tried again less and less often, in the end "
            "every profile.backoff_s",
            place.asked, start.why));
}

ProfileAnswer ProfileBook::started(const ProfileNeed& need, const RunPlace& place,
                                   const CarrierSpec& spec, JobId carrier, ClusterView& view) {
    NodeState& node = view.snapshot.nodes[place.node];
    refusals_.nodes.forget(node.name);
    refusals_.partitions.forget(place.asked);
    refusals_.users.forget(user_key(need));
    nowhere_told_.erase(need.gpu_type);
    turns_.started(need.user_id, carrier, view.steady_s);
    carriers_.started(carrier);
    const bool boots = view.power.contains(place.node);
    const double began_s = boots ? INFINITY : view.steady_s;
    const std::string progress =
        boots ? fmt::format(": {} boots, about {:.0f} s", node.name, node.boot_s) : "";
    run_of(key_of(need)).runs({carrier, began_s, progress});
    wanted_.insert(key_of(need));
    ++running_;
    view.carriers.push_back({.id = carrier,
                             .user_id = user_.id,
                             .request = to_json(spec.request),
                             .node = node.name,
                             .start_s = view.snapshot.time_s,
                             .for_user = need.user_id});
    give_to_node(view.snapshot.nodes, place.node, -1, -spec.cpus, -spec.memory_mb);
    return going_on(need, carrier, began_s, progress);
}

ProfileAnswer ProfileBook::resting(const std::string& node, const ProfileNeed& need,
                                   const ProfileKey& key, double now_s) {
    RunMachine& run = run_of(key);
    if (run.may_wait_for_node(now_s)) return waiting(need, ": " + node + " was taken a moment ago");
    const std::string why = "the profiling job could not start: Slurm calls " + node + " busy";
    run.fails(node, why, now_s);
    tell_failure(key, node);
    return {ProfileState::stand_in, why};
}

ProfileAnswer ProfileBook::left_asleep(const std::string& node, const ProfileNeed& need,
                                       const ClusterView& view) const {
    for (const auto& [index, power] : view.power)
        if (power == NodePower::unbooted && view.snapshot.nodes[index].name == node)
            return {ProfileState::stand_in, node + " did not boot when it was to"};
    const auto& nodes = view.snapshot.nodes;
    const auto at = std::find_if(nodes.begin(), nodes.end(),
                                 [&](const NodeState& state) { return state.name == node; });
    const double wait_s = need.wait_until_s - view.steady_s, most_s = most_boot_s(need, view);
    std::string bound =
        fmt::format("{:.0f} s are left of profile.max_wait_s", std::max(wait_s, 0.0));
    if (most_s < wait_s)
        bound = fmt::format(
            "only a run that begins within {:.0f} s is over when the ordinary job before it starts",
            most_s);
    return {ProfileState::stand_in,
            fmt::format("no {} to profile on is awake, and {} needs about {:.0f} s to boot: {}",
                        need.gpu_type, node, at->boot_s, bound)};
}

ProfileAnswer ProfileBook::not_placed(const RunPlacement& placement, const ProfileNeed& need,
                                      const ProfileKey& key, const ClusterView& view) {
    using Outcome = RunPlacement::Outcome;
    RunMachine& run = run_of(key);
    if (placement.outcome == Outcome::closed) {
        run.stops_waiting(&RunMachine::Waiting::busy_since_s);
        return closed(need, view);
    }
    if (placement.outcome == Outcome::behind_jobs) {
        run.yields(view.steady_s);
        return waiting(need, ": jobs before it start first");
    }
    run.stops_waiting(&RunMachine::Waiting::yields_since_s);  // whoever it yielded to has the node
    if (placement.outcome == Outcome::behind_runs) return behind_runs(need, placement.runs);
    if (placement.outcome == Outcome::behind_users) return behind_users(need);
    if (placement.outcome == Outcome::resting)
        return resting(placement.node, need, key, view.steady_s);
    if (placement.outcome == Outcome::asleep) return left_asleep(placement.node, need, view);
    return {ProfileState::stand_in, "no free " + need.gpu_type + " to profile on"};
}

ProfileAnswer ProfileBook::start(const ProfileNeed& need, const ProfileKey& key,
                                 ClusterView& view) {
    want(need, view);
    const PlaceNeed wanted = place_need(need, run_of(key), view);
    while (true) {
        const RunPlacement placement = place_run(wanted, view, refusals_);
        if (!placement.place) return not_placed(placement, need, key, view);
        if (host_.stopping()) return waiting(need, {});
        CarrierSpec spec = carrier_for(need, *placement.place, view);
        const RunShare share = run_share(*placement.place, view, wanted.taken);
        spec.cpus = share.cpus;
        spec.memory_mb = share.memory_mb;
        const CarrierStart start = host_.start_carrier(spec);
        if (start.id != 0) return started(need, *placement.place, spec, start.id, view);
        note_refusal(need, *placement.place, start, view);
        if (auto answer = refused_to_user(need, view)) return *std::move(answer);
    }
}

void ProfileBook::keep_for(const std::string& fingerprint, const Request& request, bool waits) {
    for (auto at = runs_.lower_bound({fingerprint, {}});
         at != runs_.end() && at->first.first == fingerprint; ++at) {
        const auto* running = std::get_if<RunMachine::Running>(&at->second.state());
        if (!running || !allows_type(request, at->first.second)) continue;
        if (waits || std::isfinite(running->began_s)) wanted_.insert(at->first);
    }
}

void ProfileBook::end_unwanted() {
    for (auto& [key, run] : runs_) {
        const auto* running = std::get_if<RunMachine::Running>(&run.state());
        if (!running || wanted_.contains(key) || carriers_.is_withdrawn(running->carrier)) continue;
        carriers_.withdrawn(running->carrier);
        host_.end_carrier(running->carrier);
    }
}

std::optional<ProfileAnswer> ProfileBook::without_start(const ProfileNeed& need,
                                                        const ProfileKey& key,
                                                        const ClusterView& view) {
    RunMachine& run = run_of(key);
    if (const auto* running = std::get_if<RunMachine::Running>(&run.state()))
        return going_on(need, running->carrier, running->began_s, running->progress);
    if (const auto* ended = std::get_if<RunMachine::AwaitingResult>(&run.state()))
        return going_on(need, ended->carrier, ended->began_s, {});
    if (measurements_.measured(key)) return ProfileAnswer{ProfileState::ready, {}};
    if (!can_profile()) return ProfileAnswer{ProfileState::stand_in, "profiling is off"};
    if (measurements_.covers(key, [&] { return request_for(need); }))
        return ProfileAnswer{ProfileState::ready, {}};
    if (run.has_given_up(view.steady_s, config_.profile_backoff_s))
        return ProfileAnswer{ProfileState::stand_in, "profiling failed: " + run.failures().reason};
    if (all_closed(places(need, view), refusals_, view.steady_s)) return closed(need, view);
    if (auto answer = refused_to_user(need, view)) return answer;
    if (slots() == 0) {
        want(need, view);
        return behind_runs(need, running_);
    }
    return after_ordinary(need, view.snapshot.time_s);
}

bool ProfileBook::would_take(const ProfileNeed& need, const ClusterView& view) {
    if (!can_profile()) return false;  // asks no store
    const ProfileKey key = key_of(need);
    const RunMachine& run = run_of(key);
    return need.taken && !run.has_yielded(view.steady_s) && !without_start(need, key, view) &&
           pick_place(place_need(need, run, view), view, refusals_);
}

ProfileAnswer ProfileBook::require(const ProfileNeed& need, ClusterView& view) {
    const ProfileKey key = key_of(need);
    if (auto answer = without_start(need, key, view)) return *std::move(answer);
    return start(need, key, view);
}

}  // namespace arena
