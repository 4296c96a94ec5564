// SPDX-License-Identifier: GPL-2.0-or-later
// See profile_book.h. All file and database work happens here, outside slurmctld's locks.
#include "plugin/sched/profile_book.h"

#include <pwd.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <random>
#include <utility>

#include <fmt/format.h>

#include "core/text.h"
#include "planner/measured_links.h"
#include "planner/planner.h"
#include "planner/shipped_profile.h"

namespace arena {
namespace {

std::string new_nonce() {
    std::random_device device;
    return fmt::format("{:08x}{:08x}{:08x}{:08x}", device(), device(), device(), device());
}

/// Profile runs at once: each keeps a GPU from everybody for a minute, whoever asked for it.
constexpr std::size_t max_runs = 8;
/// How long a finished carrier's missing result is waited for.
constexpr double result_grace_s = 3;
/// How long a result waits for a store that another process (`arena profile`) holds.
constexpr double locked_grace_s = 5;
/// A store that cannot be opened is tried again this often.
constexpr double reopen_interval_s = 30;
/// How long a node is waited for where Slurm gives none of those that are shown free.
constexpr double busy_s = 10;
/// Nodes of a type that may rest at once after they refused, before no other is asked: each
/// question costs slurmctld's write lock and a job id.
constexpr std::size_t max_resting = 3;
/// Reports that wait for the store to be opened.
constexpr std::size_t max_unkept = 1024;
/// Slurm's backfill looks at its queue every 30 s (bf_interval), and says then when a job is to start.
constexpr double expected_within_s = 60;
/// A reason that changes is a change of the job, which makes the next round: not each second.
constexpr double progress_interval_s = 10;
/// The record of the carrier has room for about this many hashes of known operators.
constexpr std::size_t max_known = 800;

/// Memory of one GPU of the node in MiB; 0 where memory is not a consumable resource.
std::int64_t memory_share(const ClusterView& view, std::size_t node) {
    const std::int64_t gpus = view.snapshot.nodes[node].total_gpus;
    return view.memory_tracked && gpus > 0 ? view.node_memory_mb[node] / gpus : 0;
}

bool has_room(const ClusterView& view, std::size_t index) {
    const NodeState& node = view.snapshot.nodes[index];
    return node.free_gpus >= 1 && node.free_cpus >= 1 &&
           node.free_memory_mb >= memory_share(view, index);
}

bool shown_free(const ClusterView& view, const std::string& name) {
    const std::vector<NodeState>& nodes = view.snapshot.nodes;
    const auto at = std::find_if(nodes.begin(), nodes.end(),
                                 [&](const NodeState& node) { return node.name == name; });
    return at != nodes.end() && has_room(view, static_cast<std::size_t>(at - nodes.begin()));
}

std::string waiting_text(const ProfileNeed& need, JobId carrier, const std::string& progress) {
    return fmt::format("profiling {} on {} (JobId={}){}", need.request->model.name, need.gpu_type,
                       carrier, progress);
}

std::string waiting_words(const ProfileNeed& need) {
    return fmt::format("waiting to profile {} on {}", need.request->model.name, need.gpu_type);
}

ProfileAnswer turn_later(const ProfileNeed& need, std::size_t runs) {
    return {ProfileState::running,
            fmt::format("{}: {} other profile run{} first", waiting_words(need), runs, runs == 1 ? " goes" : "s go")};
}

}  // namespace

ProfileBook::ProfileBook(Host& host, const Config& config, std::vector<GpuType> hardware)
    : host_(host), config_(config), hardware_(std::move(hardware)) {
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
    open_store();
}

void ProfileBook::open_store() {
    std::error_code ignored;
    std::filesystem::create_directories(std::filesystem::path(config_.profile_store).parent_path(), ignored);
    std::string notice;
    auto store = ProfileStore::open(config_.profile_store, &notice);
    if (!notice.empty()) host_.log_error(notice);
    if (store)
        store_ = std::move(store).value();
    else if (const std::string why = store.error().message(); why != std::exchange(store_error_, why))
        host_.log_error("profile store: " + why + "; estimates stay analytic until it can be opened");
}

/// An administrator may have put right what was wrong.
bool ProfileBook::reopen_store(double now_s) {
    if (store_ || now_s < store_tried_s_ + reopen_interval_s) return false;
    if (std::exchange(store_tried_s_, now_s) != 0) open_store();  // the first time it was just tried
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
    if (!store_ || !store_->find(key.first, key.second)) return false;
    measured_.insert(key);
    return true;
}

void ProfileBook::count_failure(const Key& key, const std::string& node, const std::string& reason,
                                double now_s) {
    Attempts& attempts = attempts_[key];
    ++attempts.count;
    ++failed_;
    attempts.last_s = now_s;
    attempts.reason = reason;
    if (!node.empty()) attempts.nodes.insert(node);
    host_.log_error(fmt::format("profiling for {} failed on {}: {} (try {} of {})", key.second,
                                node.empty() ? "?" : node, reason, attempts.count,
                                config_.profile_retries));
}

/// On a shared file system the result may be seen a moment after the job's end.
bool ProfileBook::result_may_come(const CarrierView& carrier, const ProfileRequest& request,
                                  double now_s) {
    std::error_code ignored;
    const std::filesystem::path spool(config_.profile_spool);
    if (std::filesystem::exists(spool / (request.nonce + ".json"), ignored)) return false;
    return now_s < finished_since_.try_emplace(carrier.id, now_s).first->second + result_grace_s;
}

bool ProfileBook::settle(const CarrierView& carrier, const ProfileRequest& request, double now_s) {
    const Key key{fingerprint(request.model), request.gpu_type};
    if (store_->load(request.nonce)) return true;  // imported before a restart of ours
    auto profile = read_spool_profile(config_.profile_spool, request.nonce, user_id_);
    if (!profile) {
        count_failure(key, carrier.node, profile.error().message(), now_s);
        return true;
    }
    const bool fits = profile->gpu_type == request.gpu_type &&
                      profile->model_fingerprint == key.first && profile->hardware == request.hardware;
    if (!fits || profile->status == ProfileStatus::failed) {
        if (fits) (void)store_->import(*profile, request.model.name);  // for `arena profile status`
        count_failure(key, carrier.node, fits ? profile->reason : "the result is for another request", now_s);
        return true;
    }
    if (auto status = store_->import(*profile, request.model.name); !status) {
        if (now_s < kept_out_since_.try_emplace(carrier.id, now_s).first->second + locked_grace_s)
            return false;
        count_failure(key, carrier.node, status.error().message(), now_s);
        return true;
    }
    ++imported_;
    // The node may have shown another driver or library: what was measured with the old one no longer holds.
    std::erase_if(measured_, [&](const Key& other) { return other.second == key.second; });
    attempts_.erase(key);
    tables_.erase(request.gpu_type);
    ++versions_[request.gpu_type];
    host_.log_info(fmt::format("JobId={} profiled {} on {}: {} operators in {:.1f} s", carrier.id,
                               request.model.name, request.gpu_type, profile->entries.size(),
                               profile->device_seconds));
    return true;
}

/// A run that has not begun, or whose spool cannot be read yet, has no progress to show.
std::string ProfileBook::progress_of(const ProfileRequest& request, double now_s) {
    Shown& shown = shown_[request.nonce];
    if (!shown.text.empty() && now_s < shown.since_s + progress_interval_s) return shown.text;
    const auto progress = read_spool_progress(config_.profile_spool, request.nonce, user_id_);
    if (progress) shown = {" " + short_form(*progress), now_s};
    return shown.text;
}

bool ProfileBook::update(ClusterView& view) {
    const bool reopened = reopen_store(view.snapshot.time_s);
    running_.clear();
    const std::map<std::string, Shown> before = std::exchange(shown_, {});
    // One that never ran was counted when it could not start, and has no result to wait for.
    std::erase_if(view.carriers, [&](const CarrierView& c) {
        return !user_known_ || c.user_id != user_id_ || (c.finished && c.node.empty());
    });
    std::set<JobId> seen;
    for (const CarrierView& carrier : view.carriers) {
        seen.insert(carrier.id);
        // While the store is closed nobody waits for a result; it is taken in as soon as there is one.
        if (settled_.contains(carrier.id) || (carrier.finished && !store_)) continue;
        auto request = parse_profile_request(carrier.request);
        if (!request) {
            settled_.insert(carrier.id);
            continue;
        }
        if (const auto at = before.find(request->nonce); at != before.end()) shown_.insert(*at);
        if (carrier.finished && !result_may_come(carrier, *request, view.snapshot.time_s) &&
            settle(carrier, *request, view.snapshot.time_s))
            settled_.insert(carrier.id);
        else
            running_[{fingerprint(request->model), request->gpu_type}] = {
                carrier.id, progress_of(*request, view.snapshot.time_s)};
    }
    std::erase_if(settled_, [&](JobId id) { return !seen.contains(id); });
    refusals_.forget_old(view.snapshot.time_s,
                         [&](const std::string& node) { return shown_free(view, node); });
    std::erase_if(busy_since_, [&](const auto& busy) { return view.snapshot.time_s > busy.second + 2 * busy_s; });
    for (auto* since : {&finished_since_, &kept_out_since_})
        std::erase_if(*since, [&](const auto& entry) { return !seen.contains(entry.first); });
    return reopened;
}

const NodeState* ProfileBook::pick_node(const ProfileNeed& need, const Attempts& attempts,
                                        const ClusterView& view) {
    const NodeState* best = nullptr;
    if (resting_nodes(need, view).size() >= max_resting) return best;
    for (NodeIndex index : *need.nodes) {
        const NodeState& node = view.snapshot.nodes[index];
        if (node.gpu_type != need.gpu_type || !has_room(view, index)) continue;
        if (refusals_.rests(node.name, view.snapshot.time_s)) continue;
        const auto busy = [&](const CarrierView& c) { return !c.finished && c.node == node.name; };
        if (std::any_of(view.carriers.begin(), view.carriers.end(), busy)) continue;
        if (!attempts.nodes.contains(node.name) && !refusals_.refused(node.name)) return &node;
        // A node that failed or refused once is tried again only when there is no other.
        if (!best) best = &node;
    }
    return best;
}

/// Runs that have a node which this one could use. They end soon, in the order of their jobs: worth waiting for.
std::size_t ProfileBook::runs_on_its_nodes(const ProfileNeed& need, const ClusterView& view) {
    const auto could_use = [&](const std::string& name) {
        return std::any_of(need.nodes->begin(), need.nodes->end(), [&](NodeIndex index) {
            const NodeState& node = view.snapshot.nodes[index];
            return node.name == name && node.gpu_type == need.gpu_type && node.up;
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
    for (const OpShape& shape : wanted_operators(request)) {
        const std::string key = op_key(shape);
        if (request.known.size() < max_known && keys.contains(key)) request.known.push_back(hash_hex(key));
    }
}

/// What the run will be asked for; empty when the hardware entry is not known (then the run fails and says so).
std::vector<OpShape> ProfileBook::wanted_operators(const ProfileRequest& request) const {
    const auto type = find_hardware(hardware_, request.hardware);
    if (!type) return {};
    return operator_list(profile_query(request, *type));
}

/// A run may use what an ordinary job waits for only as Slurm's backfill would: if it ends before that job
/// is expected to start. Nothing, if it may; else what to do about it.
std::optional<ProfileAnswer> ProfileBook::after_ordinary(const ProfileNeed& need, double now_s) const {
    if (need.ordinary_start_s >= now_s + config_.profile_time_limit_s) return std::nullopt;
    if (need.ordinary_start_s == 0 && now_s < need.eligible_s + expected_within_s)
        return ProfileAnswer{ProfileState::running,
                             waiting_words(need) + ": Slurm has not said yet when the ordinary job before it starts"};
    return ProfileAnswer{ProfileState::stand_in, "an ordinary job before it waits for the same nodes"};
}

CarrierSpec ProfileBook::carrier_for(const ProfileNeed& need, const NodeState& node,
                                     std::int64_t memory_mb) {
    CarrierSpec spec;
    spec.request = {new_nonce(),   need.gpu_type,      need.hardware,           need.request->model,
                    need.request->global_batch, need.max_gpus, need.gpus_per_node,
                    config_.profile_budget_s,   {},                  {}};
    fill_known(spec.request, node.name);
    spec.user_id = user_id_;
    spec.group_id = group_id_;
    spec.partition = config_.profile_partition.empty() ? need.partition : config_.profile_partition;
    spec.partition = spec.partition.substr(0, spec.partition.find(','));
    spec.node = node.name;
    spec.cpus =
        std::clamp<std::int64_t>(node.free_cpus / std::max<std::int64_t>(node.free_gpus, 1), 1, 64);
    spec.memory_mb = memory_mb;
    spec.time_limit_minutes = static_cast<std::uint32_t>(std::ceil(config_.profile_time_limit_s / 60));
    spec.comment = fmt::format("arena: profile {} on {}", need.request->model.name, need.gpu_type);
    return spec;
}

/// What Slurm does not give now is free for nobody in this round.
void ProfileBook::note_refusal(const std::string& why, NodeState& node, double now_s) {
    node.free_gpus = 0;
    if (refusals_.note(node.name, now_s))
        host_.log_info(fmt::format(
            "{} is shown free but takes no profile run: {}; other nodes are tried, this one "
            "again every few seconds",
            node.name, why));
}

/// Nodes that would do had they not refused a moment ago.
std::vector<std::string> ProfileBook::resting_nodes(const ProfileNeed& need,
                                                    const ClusterView& view) const {
    std::vector<std::string> names;
    for (NodeIndex index : *need.nodes) {
        const NodeState& node = view.snapshot.nodes[index];
        if (node.gpu_type == need.gpu_type && refusals_.rests(node.name, view.snapshot.time_s))
            names.push_back(node.name);
    }
    return names;
}

ProfileAnswer ProfileBook::without_node(const ProfileNeed& need, const Key& key,
                                        const ClusterView& view) {
    if (const std::size_t runs = runs_on_its_nodes(need, view)) return turn_later(need, runs);
    const std::vector<std::string> resting = resting_nodes(need, view);
    if (resting.empty())
        return {ProfileState::stand_in, "no free " + need.gpu_type + " to profile on"};
    const std::string& node = resting.front();
    const double now_s = view.snapshot.time_s;
    if (now_s < busy_since_.try_emplace(key, now_s).first->second + busy_s)
        return {ProfileState::running,
                waiting_words(need) + ": " + node + " was taken a moment ago"};
    busy_since_.erase(key);
    const std::string why = "the profiling job could not start: Slurm calls " + node + " busy";
    count_failure(key, node, why, now_s);
    return {ProfileState::stand_in, why};
}

ProfileAnswer ProfileBook::start(const ProfileNeed& need, const Key& key, ClusterView& view) {
    const double now_s = view.snapshot.time_s;
    if (auto wait = after_ordinary(need, now_s)) return *std::move(wait);
    const Attempts attempts = attempts_.contains(key) ? attempts_[key] : Attempts{};
    while (const NodeState* picked = pick_node(need, attempts, view)) {
        const auto index = static_cast<std::size_t>(picked - view.snapshot.nodes.data());
        NodeState& node = view.snapshot.nodes[index];
        const CarrierSpec spec = carrier_for(need, node, memory_share(view, index));
        const CarrierStart start = host_.start_carrier(spec);
        if (start.id == 0 && start.other_node) {
            note_refusal(start.why, node, now_s);
            continue;
        }
        busy_since_.erase(key);
        if (start.id == 0) {
            count_failure(key, node.name, start.why, now_s);
            return {ProfileState::stand_in, start.why};
        }
        refusals_.forget(node.name);
        running_[key] = {start.id, {}};
        view.carriers.push_back(
            {start.id, user_id_, to_json(spec.request), node.name, false, now_s});
        node.free_gpus -= 1;
        node.free_cpus -= spec.cpus;
        node.free_memory_mb -= spec.memory_mb;
        return {ProfileState::running, waiting_text(need, start.id, {})};
    }
    return without_node(need, key, view);
}

ProfileAnswer ProfileBook::require(const ProfileNeed& need, ClusterView& view) {
    const Key key{need.fingerprint, need.gpu_type};
    if (const auto at = running_.find(key); at != running_.end())
        return {ProfileState::running, waiting_text(need, at->second.carrier, at->second.progress)};
    if (measured(key)) return {ProfileState::ready, {}};
    if (!config_.profile_enabled || !user_known_ || !store_)
        return {ProfileState::stand_in, "profiling is off"};
    if (const auto at = attempts_.find(key); at != attempts_.end()) {
        const bool again = view.snapshot.time_s - at->second.last_s >= config_.profile_backoff_s;
        if (at->second.count >= config_.profile_retries && !again)
            return {ProfileState::stand_in, "profiling failed: " + at->second.reason};
        if (again) attempts_.erase(at);
    }
    if (running_.size() >= max_runs) return turn_later(need, running_.size());
    return start(need, key, view);
}

/// Seconds of another site's GPU of this kind, until one of ours is measured.
ProfileTable ProfileBook::shipped_table(const std::string& gpu_type) {
    const auto at = std::find_if(config_.gpu_types.begin(), config_.gpu_types.end(),
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
    return or_said(store_->observed(), "estimates stay uncorrected until jobs report again");
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
