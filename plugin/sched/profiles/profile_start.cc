// SPDX-License-Identifier: GPL-2.0-or-later
// See profile_book.h. The half of ProfileBook that starts carriers: whether one is due, on which
// node, and what a job is told that has to wait for it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <utility>

#include "base/text.h"
#include "planner/hardware/hardware.h"
#include "planner/search/planner.h"
#include "plugin/sched/host/one_word.h"
#include "plugin/sched/profiles/profile_book.h"

namespace arena {
namespace {

/// Profile runs at once: each keeps a GPU from everybody for a minute, whoever asked for it.
constexpr std::size_t max_runs = 8;
/// How long a node is waited for where Slurm gives none of those that are shown free.
constexpr double busy_s = 10;
/// How long a run lets jobs before it have its node, should these not start although the policy
/// said so.
constexpr double yield_s = 10;
/// Nodes of a type that may rest at once after they refused, before no other is asked: each
/// question costs slurmctld's write lock and a job id.
constexpr std::size_t max_resting = 3;
/// Slurm's backfill looks at its queue every 30 s (bf_interval), and says then when a job is to
/// start.
constexpr double expected_within_s = 60;
/// CPUs of a run at most.
constexpr std::int64_t max_cpus = 64;
/// The record of the carrier has room for about this many hashes of known operators.
constexpr std::size_t max_known = 800;

std::string new_nonce() {
    std::random_device device;
    return fmt::format("{:08x}{:08x}{:08x}{:08x}", device(), device(), device(), device());
}

/// Memory of one GPU of the node in MiB; 0 where memory is not a consumable resource.
std::int64_t memory_share(const ClusterView& view, std::size_t node) {
    const std::int64_t gpus = view.snapshot.nodes[node].total_gpus;
    return view.memory_tracked && gpus > 0 ? view.node_memory_mb[node] / gpus : 0;
}

Taken taken_of(const ProfileNeed& need, std::size_t index) {
    return need.taken && index < need.taken->size() ? (*need.taken)[index] : Taken{};
}

/// Beside what jobs before the one that asks are about to take.
bool has_room(const ClusterView& view, std::size_t index, const Taken& taken = {}) {
    const NodeState& node = view.snapshot.nodes[index];
    return node.free_gpus - taken.gpus >= 1 && node.free_cpus - taken.cpus >= 1 &&
           node.free_memory_mb - taken.memory_mb >= memory_share(view, index);
}

struct Share {
    std::int64_t cpus, memory_mb;
};

/// What a run asks for with its GPU, whichever node of the partition it goes to: then what Slurm
/// says against the job is true of all of them.
Share smallest_share(const ClusterView& view, const std::string& partition,
                     const std::string& gpu_type) {
    Share least{max_cpus, std::numeric_limits<std::int64_t>::max()};
    for (NodeIndex index : view.partitions.at(partition)) {
        const NodeState& node = view.snapshot.nodes[index];
        if (node.gpu_type != gpu_type || node.total_gpus == 0) continue;
        least.cpus = std::min(least.cpus, view.node_cpus[index] / node.total_gpus);
        least.memory_mb = std::min(least.memory_mb, memory_share(view, index));
    }
    return least;
}

bool has_type(const ClusterView& view, const std::string& partition, const std::string& gpu_type) {
    const auto at = view.partitions.find(partition);
    return at != view.partitions.end() &&
           std::any_of(at->second.begin(), at->second.end(), [&](NodeIndex index) {
               return view.snapshot.nodes[index].gpu_type == gpu_type;
           });
}

bool shown_free(const ClusterView& view, const std::string& name) {
    const std::vector<NodeState>& nodes = view.snapshot.nodes;
    const auto at = std::find_if(nodes.begin(), nodes.end(),
                                 [&](const NodeState& node) { return node.name == name; });
    return at != nodes.end() && has_room(view, static_cast<std::size_t>(at - nodes.begin()));
}

std::string waiting_text(const ProfileNeed& need, JobId carrier, const std::string& progress) {
    return fmt::format("profiling {} on {} (JobId={}){}", one_word(need.request->model.name),
                       need.gpu_type, carrier, progress);
}

std::string waiting_words(const ProfileNeed& need) {
    return fmt::format("waiting to profile {} on {}", one_word(need.request->model.name),
                       need.gpu_type);
}

ProfileAnswer turn_later(const ProfileNeed& need, std::size_t runs) {
    if (runs == 0)
        return {ProfileState::running,
                waiting_words(need) + ": the profile run of another user goes first"};
    return {ProfileState::running,
            fmt::format("{}: {} other profile run{} first", waiting_words(need), runs,
                        runs == 1 ? " goes" : "s go")};
}

/// Who is refused for a user's own limits is asked for again when one of the user's jobs may have
/// ended.
std::string user_key(const ProfileNeed& need) { return std::to_string(need.user_id); }

}  // namespace

void ProfileBook::forget_old(const ClusterView& view) {
    const double now_s = view.steady_s;
    refusing_nodes_.forget_old(now_s,
                               [&](const std::string& node) { return shown_free(view, node); });
    for (Refusals* refusals : {&refusing_partitions_, &refusing_users_})
        refusals->forget_old(now_s, [](const std::string&) { return true; });
    std::erase_if(busy_since_, [&](const auto& busy) { return now_s > busy.second + 2 * busy_s; });
    std::erase_if(yielding_since_,
                  [&](const auto& one) { return now_s > one.second + 2 * yield_s; });
}

/// Nodes of the type that the job may use and that a partition of profile runs has.
const std::vector<ProfileBook::Place>& ProfileBook::places(const ProfileNeed& need,
                                                           const ClusterView& view) {
    const auto [at, added] = places_.try_emplace({need.nodes, need.gpu_type, need.partition});
    std::vector<Place>& found = at->second;
    if (!added) return found;
    const std::string& own = config_.profile_partition;
    for (std::string_view name : split(own.empty() ? need.partition : own, ',')) {
        const auto partition = view.partitions.find(name);
        if (partition == view.partitions.end()) continue;
        for (NodeIndex index : *need.nodes)
            if (view.snapshot.nodes[index].gpu_type == need.gpu_type &&
                std::binary_search(partition->second.begin(), partition->second.end(), index))
                found.push_back(
                    {index, partition->first, need.gpu_type + " in partition " + partition->first});
    }
    return found;
}

std::string ProfileBook::no_place_text(const ProfileNeed& need, const ClusterView& view) const {
    const std::string& own = config_.profile_partition;
    if (own.empty()) return "partition " + need.partition + " takes no new jobs";
    const std::string leave_out = ", or take profile.partition out of arena.yaml";
    if (!view.partitions.contains(own))
        return "profile.partition " + own + " is no partition that takes jobs: mend it" + leave_out;
    return "no node that the job may use is in profile.partition " + own + ": add one to it" +
           leave_out;
}

/// Where there is no place at all, or none whose partition takes a run, says so: nothing that ends
/// by itself.
std::optional<ProfileAnswer> ProfileBook::nowhere(const ProfileNeed& need,
                                                  const ClusterView& view) {
    const std::vector<Place>& all = places(need, view);
    const auto open = [&](const Place& place) {
        return !refusing_partitions_.rests(place.asked, view.steady_s);
    };
    if (std::any_of(all.begin(), all.end(), open)) return std::nullopt;
    if (!all.empty())
        return ProfileAnswer{ProfileState::stand_in, refusing_partitions_.why(all.front().asked)};
    const std::string why = no_place_text(need, view);
    const bool for_others = has_type(view, config_.profile_partition, need.gpu_type);
    if (!for_others && nowhere_told_.insert(need.gpu_type).second)
        host_.log_error("nothing is profiled on " + need.gpu_type + ": " + why);
    return ProfileAnswer{ProfileState::stand_in, why};
}

/// Runs that may still start beside those that go on.
std::size_t ProfileBook::slots() const { return max_runs - std::min(max_runs, running_.size()); }

/// From now on users that have had more runs leave it the nodes that it could go to.
void ProfileBook::want(const ProfileNeed& need, const ClusterView& view) {
    for (const Place& place : places(need, view)) turns_.wants(need.user_id, place.node);
}

const ProfileBook::Place* ProfileBook::pick_place(const ProfileNeed& need, const Attempts& attempts,
                                                  const ClusterView& view) {
    const Place* best = nullptr;
    if (resting_nodes(need, view).size() >= max_resting) return best;
    const auto kept = turns_.kept_from(need.user_id, slots());
    if (!kept) return best;
    for (const Place& place : places(need, view)) {
        if (place.node < kept->size() && (*kept)[place.node]) continue;
        const NodeState& node = view.snapshot.nodes[place.node];
        if (!has_room(view, place.node, taken_of(need, place.node))) continue;
        const double now_s = view.steady_s;
        if (refusing_partitions_.rests(place.asked, now_s)) continue;
        if (refusing_nodes_.rests(node.name, now_s)) continue;
        const auto busy = [&](const CarrierView& c) { return !c.finished && c.node == node.name; };
        if (std::any_of(view.carriers.begin(), view.carriers.end(), busy)) continue;
        if (!attempts.nodes.contains(node.name) && !refusing_nodes_.refused(node.name))
            return &place;
        // A node that failed or refused once is tried again only when there is no other.
        if (!best) best = &place;
    }
    return best;
}

/// Runs that have a node which this one could use. They end soon, in the order of their jobs: worth
/// waiting for.
std::size_t ProfileBook::runs_on_its_nodes(const ProfileNeed& need, const ClusterView& view) {
    const std::vector<Place>& all = places(need, view);
    const auto could_use = [&](const std::string& name) {
        return std::any_of(all.begin(), all.end(), [&](const Place& place) {
            const NodeState& node = view.snapshot.nodes[place.node];
            return node.name == name && node.up;
        });
    };
    return static_cast<std::size_t>(
        std::count_if(view.carriers.begin(), view.carriers.end(),
                      [&](const CarrierView& c) { return !c.finished && could_use(c.node); }));
}

void ProfileBook::fill_known(ProfileRequest& request, const std::string& node) {
    auto known = store_ ? store_->known(request.gpu_type, node) : KnownOperators();
    if (!known) return;  // measuring all again costs a minute and is right
    request.known_device = known->device_identity;
    const std::set<std::string, std::less<>> keys(known->op_keys.begin(), known->op_keys.end());
    for (const OpShape& shape : wanted_operators(request, nullptr)) {
        const std::string key = op_key(shape);
        if (request.known.size() < max_known && keys.contains(key))
            request.known.push_back(hash_hex(key));
    }
}

/// What the budget does not do for is measured again.
constexpr double known_budget_s = 0.1;
constexpr std::size_t known_budget_bytes = std::size_t{64} << 20;

/// What the run will be asked for; empty when the hardware entry is not known (then the run fails
/// and says so).
std::vector<OpShape> ProfileBook::wanted_operators(const ProfileRequest& request,
                                                   bool* whole) const {
    const auto type = find_hardware(hardware_, request.hardware);
    if (!type) return {};
    PlanBudget budget({.seconds = known_budget_s, .bytes = known_budget_bytes});
    std::vector<OpShape> operators = operator_list(profile_query(request, *type), budget);
    if (whole) *whole = !budget.look();
    return operators;
}

/// A run may use what an ordinary job waits for only as Slurm's backfill would: if it ends before
/// that job is expected to start. Nothing, if it may; else what to do about it.
std::optional<ProfileAnswer> ProfileBook::after_ordinary(const ProfileNeed& need,
                                                         double now_s) const {
    if (need.ordinary_start_s >= now_s + config_.profile_time_limit_s) return std::nullopt;
    if (need.ordinary_start_s == 0 && now_s < need.eligible_s + expected_within_s)
        return ProfileAnswer{ProfileState::running,
                             waiting_words(need) +
                                 ": Slurm has not said yet when the ordinary job before it starts"};
    return ProfileAnswer{ProfileState::stand_in,
                         "an ordinary job before it waits for the same nodes"};
}

/// Without what is known already, and without a nonce.
ProfileRequest ProfileBook::request_for(const ProfileNeed& need) const {
    return {{},
            need.gpu_type,
            need.hardware,
            need.request->model,
            need.request->global_batch,
            need.max_gpus,
            need.gpus_per_node,
            config_.profile_budget_s,
            {},
            {}};
}

/// Whether this site has measured every operator of the model on the type's device, for other
/// models: then there is nothing to run for.
bool ProfileBook::all_known(const ProfileNeed& need, const Key& key) {
    const auto at = unknown_at_.find(key);
    if (at != unknown_at_.end() && at->second == version(need.gpu_type)) return false;
    const auto known = store_->known(need.gpu_type, "");
    if (!known) return false;
    bool whole = false;
    const std::vector<OpShape> wanted = wanted_operators(request_for(need), &whole);
    const std::set<std::string, std::less<>> keys(known->op_keys.begin(), known->op_keys.end());
    const bool all = whole && !wanted.empty() &&
                     std::all_of(wanted.begin(), wanted.end(),
                                 [&](const auto& shape) { return keys.contains(op_key(shape)); });
    if (all)
        measured_.insert(key);
    else
        unknown_at_[key] = version(need.gpu_type);
    return all;
}

CarrierSpec ProfileBook::carrier_for(const ProfileNeed& need, const Place& place,
                                     const ClusterView& view) {
    const NodeState& node = view.snapshot.nodes[place.node];
    const Taken taken = taken_of(need, place.node);
    const std::int64_t gpus = std::max<std::int64_t>(node.free_gpus - taken.gpus, 1);
    const Share share = smallest_share(view, place.partition, need.gpu_type);
    CarrierSpec spec;
    spec.request = request_for(need);
    spec.request.nonce = new_nonce();
    fill_known(spec.request, node.name);
    spec.user_id = user_id_;
    spec.group_id = group_id_;
    spec.partition = place.partition;
    spec.node = node.name;
    spec.cpus =
        std::max<std::int64_t>(std::min((node.free_cpus - taken.cpus) / gpus, share.cpus), 1);
    spec.memory_mb = share.memory_mb;
    spec.time_limit_minutes =
        static_cast<std::uint32_t>(std::ceil(config_.profile_time_limit_s / 60));
    spec.comment =
        fmt::format("arena: profile {} on {}", one_word(need.request->model.name), need.gpu_type);
    spec.for_job = need.job;
    spec.for_user = need.user_id;
    return spec;
}

/// A node that Slurm does not give now is free for nobody in this round.
void ProfileBook::note_refusal(const ProfileNeed& need, const Place& place,
                               const CarrierStart& start, ClusterView& view) {
    const double now_s = view.steady_s;
    if (start.other_user) {
        if (refusing_users_.note(user_key(need), start.why, now_s))
            host_.log_info(
                fmt::format("JobId={} no profile run of uid {} starts: {}; it is tried "
                            "again less and less often",
                            need.job, need.user_id, start.why));
        return;
    }
    NodeState& node = view.snapshot.nodes[place.node];
    if (start.other_node) {
        node.free_gpus = 0;
        if (refusing_nodes_.note(node.name, start.why, now_s))
            host_.log_info(fmt::format(
                "{} is shown free but takes no profile run: {}; other nodes are tried, this one "
                "again every few seconds",
                node.name, start.why));
        return;
    }
    ++failed_;
    if (refusing_partitions_.note(place.asked, start.why, now_s))
        host_.log_error(fmt::format(
            "no profile run starts on {}: {}; it is tried again less and less often, in the end "
            "every profile.backoff_s",
            place.asked, start.why));
}

/// Nodes that would do had they not refused a moment ago.
std::set<std::string> ProfileBook::resting_nodes(const ProfileNeed& need, const ClusterView& view) {
    std::set<std::string> names;
    for (const Place& place : places(need, view)) {
        const std::string& name = view.snapshot.nodes[place.node].name;
        if (refusing_nodes_.rests(name, view.steady_s)) names.insert(name);
    }
    return names;
}

/// Whether a node would do that is kept for a user who has had fewer runs.
bool ProfileBook::others_first(const ProfileNeed& need, const ClusterView& view) {
    const auto kept = turns_.kept_from(need.user_id, slots());
    const std::vector<Place>& all = places(need, view);
    return !kept || std::any_of(all.begin(), all.end(), [&](const Place& place) {
        return place.node < kept->size() && (*kept)[place.node];
    });
}

ProfileAnswer ProfileBook::without_node(const ProfileNeed& need, const Key& key,
                                        const ClusterView& view) {
    const double now_s = view.steady_s;
    ProfileNeed alone = need;
    alone.taken = nullptr;
    if (pick_place(alone, attempts_of(key), view)) {
        yielding_since_.try_emplace(key, now_s);
        return {ProfileState::running, waiting_words(need) + ": jobs before it start first"};
    }
    yielding_since_.erase(key);  // whoever it yielded to has the node
    if (const std::size_t runs = runs_on_its_nodes(need, view)) return turn_later(need, runs);
    if (others_first(need, view)) return turn_later(need, 0);
    const std::set<std::string> resting = resting_nodes(need, view);
    if (resting.empty())
        return {ProfileState::stand_in, "no free " + need.gpu_type + " to profile on"};
    const std::string& node = *resting.begin();
    if (now_s < busy_since_.try_emplace(key, now_s).first->second + busy_s)
        return {ProfileState::running,
                waiting_words(need) + ": " + node + " was taken a moment ago"};
    busy_since_.erase(key);
    const std::string why = "the profiling job could not start: Slurm calls " + node + " busy";
    note_attempt(key, node, why, now_s);
    tell_failure(key, node);
    return {ProfileState::stand_in, why};
}

ProfileBook::Attempts ProfileBook::attempts_of(const Key& key) const {
    const auto at = attempts_.find(key);
    return at == attempts_.end() ? Attempts{} : at->second;
}

/// The policy may go on to promise a node to a job that never starts there: that is waited for so
/// long only.
ProfileNeed ProfileBook::after_yielding(ProfileNeed need, const Key& key, double now_s) const {
    const auto at = yielding_since_.find(key);
    if (at != yielding_since_.end() && now_s >= at->second + yield_s) need.taken = nullptr;
    return need;
}

std::optional<ProfileAnswer> ProfileBook::refused_to_user(const ProfileNeed& need,
                                                          const ClusterView& view) const {
    if (turns_.has_had_enough(need.user_id, view.steady_s))
        return ProfileAnswer{
            ProfileState::stand_in,
            fmt::format("its user has had {} profile runs within an hour, as many as "
                        "profile.runs_per_hour allows",
                        config_.profile_runs_per_hour)};
    if (!refusing_users_.rests(user_key(need), view.steady_s)) return std::nullopt;
    return ProfileAnswer{ProfileState::stand_in, refusing_users_.why(user_key(need))};
}

ProfileAnswer ProfileBook::start(const ProfileNeed& need, const Key& key, ClusterView& view) {
    const double now_s = view.steady_s;
    want(need, view);
    const Attempts attempts = attempts_of(key);
    const ProfileNeed yielding = after_yielding(need, key, now_s);
    while (const Place* place = pick_place(yielding, attempts, view)) {
        if (host_.stopping()) return {ProfileState::running, waiting_words(need)};
        NodeState& node = view.snapshot.nodes[place->node];
        const CarrierSpec spec = carrier_for(yielding, *place, view);
        const CarrierStart start = host_.start_carrier(spec);
        if (start.id == 0) {
            note_refusal(need, *place, start, view);
            if (auto answer = refused_to_user(need, view)) return *std::move(answer);
            continue;
        }
        busy_since_.erase(key);
        refusing_nodes_.forget(node.name);
        refusing_partitions_.forget(place->asked);
        nowhere_told_.erase(need.gpu_type);
        refusing_users_.forget(user_key(need));
        yielding_since_.erase(key);
        turns_.started(need.user_id, start.id, now_s);
        seen_running_.insert(start.id);
        running_[key] = {start.id, {}, now_s};
        view.carriers.push_back({start.id, user_id_, to_json(spec.request), node.name, false,
                                 view.snapshot.time_s, 0, need.user_id});
        node.free_gpus -= 1;
        node.free_cpus -= spec.cpus;
        node.free_memory_mb -= spec.memory_mb;
        return {ProfileState::running, waiting_text(need, start.id, {}), now_s};
    }
    if (auto answer = nowhere(need, view)) {
        busy_since_.erase(key);  // it waits for no node now
        return *std::move(answer);
    }
    return without_node(need, key, view);
}

std::optional<ProfileAnswer> ProfileBook::without_start(const ProfileNeed& need, const Key& key,
                                                        const ClusterView& view) {
    if (const auto at = running_.find(key); at != running_.end())
        return ProfileAnswer{ProfileState::running,
                             waiting_text(need, at->second.carrier, at->second.progress),
                             at->second.began_s};
    if (measured(key)) return ProfileAnswer{ProfileState::ready, {}};
    if (!can_profile()) return ProfileAnswer{ProfileState::stand_in, "profiling is off"};
    if (all_known(need, key)) return ProfileAnswer{ProfileState::ready, {}};
    if (const auto at = attempts_.find(key); at != attempts_.end()) {
        const bool again = view.steady_s - at->second.last_s >= config_.profile_backoff_s;
        if (at->second.count >= config_.profile_retries && !again)
            return ProfileAnswer{ProfileState::stand_in, "profiling failed: " + at->second.reason};
        if (again) attempts_.erase(at);
    }
    if (auto answer = nowhere(need, view)) return answer;
    if (auto answer = refused_to_user(need, view)) return answer;
    if (slots() == 0) {
        want(need, view);
        return turn_later(need, running_.size());
    }
    return after_ordinary(need, view.snapshot.time_s);
}

bool ProfileBook::would_take(const ProfileNeed& need, const ClusterView& view) {
    if (!can_profile()) return false;  // asks no store
    const Key key{need.fingerprint, need.gpu_type};
    const ProfileNeed yielding = after_yielding(need, key, view.steady_s);
    return yielding.taken && !without_start(need, key, view) &&
           pick_place(yielding, attempts_of(key), view);
}

ProfileAnswer ProfileBook::require(const ProfileNeed& need, ClusterView& view) {
    const Key key{need.fingerprint, need.gpu_type};
    if (auto answer = without_start(need, key, view)) return *std::move(answer);
    return start(need, key, view);
}

}  // namespace arena
