// SPDX-License-Identifier: GPL-2.0-or-later
// See measurements.h. All database work happens here, outside slurmctld's locks.
#include "plugin/sched/profiles/measurements.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/count_text.h"
#include "base/text.h"
#include "planner/hardware/hardware.h"
#include "planner/hardware/measured_links.h"
#include "planner/hardware/shipped_profile.h"
#include "planner/search/planner.h"

namespace arena {
namespace {

/// A store that cannot be opened is tried again this often.
constexpr double reopen_interval_s = 30;
/// Reports that wait for the store to be opened.
constexpr std::size_t max_unkept = 1024;
/// Results that wait for it to have room, and how often that is tried.
constexpr std::size_t max_unkept_runs = 64;
constexpr double import_interval_s = 10;
/// The record of the carrier has room for about this many hashes of known operators.
constexpr std::size_t max_known = 560;
/// What the budget does not do for is measured again.
constexpr double known_budget_s = 0.1;
constexpr std::size_t known_budget_bytes = std::size_t{64} << 20;

/// Whose operators table() gives; "" = not known.
std::string device_of(ProfileStore& store, const std::string& gpu_type) {
    const auto known = store.known(gpu_type, "");
    return known ? known->device_identity : "";
}

/// The table as it would be with the run in the store: only one device's times stand together.
ProfileTable with_run(const ProfileTable& table, std::string& identity, const Profile& run) {
    OpSeconds seconds;
    if (std::exchange(identity, run.device.identity()) == run.device.identity())
        for (const auto& [shape, s] : table.rows()) seconds[shape] = s;
    for (const ProfileEntry& entry : run.entries) seconds[entry.shape] = entry.seconds;
    return ProfileTable(seconds);
}

}  // namespace

Measurements::Measurements(Host& host, const Config& config, std::vector<GpuType> hardware)
    : host_(host), config_(config), hardware_(std::move(hardware)) {
    open_store();
}

void Measurements::open_store() {
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

void Measurements::forget_tables() {
    tables_.clear();
    links_.clear();
    for (const GpuMapping& type : config_.gpu_types) ++versions_[type.gres_type];
}

/// Whether a new one, which open() made, stands in the place of a damaged one.
bool Measurements::replace_damaged_store() {
    if (!store_->is_damaged()) return false;
    store_.reset();  // sets aside what no connection of ours holds
    known_.clear();
    forget_tables();
    open_store();
    return store_ != nullptr;
}

void Measurements::import_unkept(double now_s) {
    if (unkept_runs_.empty() || !store_ || now_s < import_tried_s_ + import_interval_s) return;
    import_tried_s_ = now_s;
    const std::size_t waited = unkept_runs_.size();
    while (!unkept_runs_.empty()) {
        const auto& [profile, model_name] = unkept_runs_.front();
        const Status status = import_or_replace(profile, model_name);
        if (!store_ || (!status && status.error().code == ErrorCode::environment)) break;
        unkept_runs_.erase(unkept_runs_.begin());
    }
    if (unkept_runs_.empty())
        host_.log_info(
            fmt::format("profile store: it has taken {} that waited", counted(waited, "result")));
}

/// An administrator may have put right what was wrong with a store that is closed.
bool Measurements::new_round(double now_s) {
    import_unkept(now_s);
    std::erase_if(known_, [](const auto& entry) {
        return !entry.second.measured && !entry.second.lacking_at;
    });
    for (auto& [key, known] : known_) known.looked_up = false;
    if (store_ || now_s < store_tried_s_ + reopen_interval_s) return false;
    if (std::exchange(store_tried_s_, now_s) != 0)
        open_store();  // the first time it was just tried
    if (!store_ || store_error_.empty()) return false;
    store_error_.clear();
    forget_tables();
    host_.log_info("profile store: it could be opened now");
    for (const ObservedRun& run : std::exchange(unkept_, {})) keep_observed(run);
    return true;
}

/// Seconds of another site's GPU of this kind, until one of ours is measured.
ProfileTable Measurements::shipped_table(const std::string& gpu_type) const {
    const std::string* entry = hardware_of(config_, gpu_type);
    if (entry == nullptr) return {};
    const auto hardware = find_hardware(hardware_, *entry);
    if (!hardware) return {};
    ShippedProfile shipped = shipped_profile(hardware->name);
    for (const std::string& complaint : shipped.complaints)
        host_.log_error("recorded profile " + complaint + "; it is left out");
    return std::move(shipped.table);
}

/// What the store answered; where it could not, nothing, and the log says what that means.
template <class T>
T Measurements::or_said(Result<T> answer, const std::string& meaning) const {
    if (answer) return std::move(answer).value();
    host_.log_error(answer.error().message() + "; " + meaning);
    return {};
}

const ProfileTable& Measurements::table(const std::string& gpu_type) {
    const auto at = tables_.find(gpu_type);
    if (at != tables_.end()) return at->second;
    ProfileTable table;
    if (store_)
        table = or_said(store_->table(gpu_type), "nothing measured of " + gpu_type + " is used");
    std::string identity = table.empty() || !store_ ? "" : device_of(*store_, gpu_type);
    for (const auto& [profile, model_name] : unkept_runs_)
        if (profile.gpu_type == gpu_type) table = with_run(table, identity, profile);
    if (table.empty()) table = shipped_table(gpu_type);
    return tables_[gpu_type] = std::move(table);
}

GpuType Measurements::with_links(const std::string& gpu_type, GpuType hardware) {
    if (const auto at = links_.find(gpu_type); at != links_.end())
        return with_measured_links(std::move(hardware), at->second);
    std::vector<CommTime> times;
    if (store_)
        times = or_said(store_->comm().times(gpu_type),
                        "the links of " + gpu_type + " are those of its hardware entry");
    return with_measured_links(std::move(hardware), links_[gpu_type] = std::move(times));
}

std::uint64_t Measurements::version(const std::string& gpu_type) const {
    const auto at = versions_.find(gpu_type);
    return at == versions_.end() ? 0 : at->second;
}

std::vector<ObservedRun> Measurements::observed() {
    if (!store_) return {};
    ObservedRuns observed =
        or_said(store_->reports().all(), "estimates stay uncorrected until jobs report again");
    for (const std::string& bad : observed.bad) host_.log_error(bad);
    return std::move(observed.runs);
}

void Measurements::keep_observed(const ObservedRun& run) {
    if (!store_) {
        if (unkept_.size() >= max_unkept) unkept_.erase(unkept_.begin());
        return unkept_.push_back(run);
    }
    if (auto kept = store_->reports().keep(run); !kept)
        host_.log_error(kept.error().message() + "; the report counts until slurmctld restarts");
}

bool Measurements::measured(const ProfileKey& key) {
    Known& known = known_[key];
    if (known.measured) return true;
    if (!store_ || std::exchange(known.looked_up, true)) return false;
    return known.measured = store_->find(key.first, key.second).ok();
}

std::vector<OpShape> Measurements::wanted_operators(const ProfileRequest& request,
                                                    bool* whole) const {
    const auto type = find_hardware(hardware_, request.hardware);
    if (!type) return {};
    PlanBudget budget({.seconds = known_budget_s, .bytes = known_budget_bytes});
    std::vector<OpShape> operators = operator_list(profile_query(request, *type), budget);
    if (whole) *whole = !budget.look();
    return operators;
}

bool Measurements::covers(const ProfileKey& key, const std::function<ProfileRequest()>& request) {
    Known& known = known_[key];
    if (known.lacking_at == version(key.second)) return false;
    const auto on_type = store_->known(key.second, "");
    if (!on_type) return false;
    bool whole = false;
    const std::vector<OpShape> wanted = wanted_operators(request(), &whole);
    known.measured = whole && !wanted.empty() &&
                     std::all_of(wanted.begin(), wanted.end(),
                                 [&](const auto& s) { return on_type->operators.contains(s); });
    if (!known.measured) known.lacking_at = version(key.second);
    return known.measured;
}

void Measurements::fill_known(ProfileRequest& request, const std::string& node) const {
    auto known = store_ ? store_->known(request.gpu_type, node) : KnownOperators();
    if (!known) return;  // measuring all again costs a minute and is right
    request.known_device = known->device_identity;
    for (const OpShape& shape : wanted_operators(request, nullptr))
        if (request.known.size() < max_known && known->operators.contains(shape))
            request.known.push_back(op_hash(shape));
}

Status Measurements::import_or_replace(const Profile& profile, const std::string& model_name) {
    auto status = store_->import(profile, model_name);
    if (!status && replace_damaged_store()) status = store_->import(profile, model_name);
    return status;
}

void Measurements::keep_for_later(const Profile& profile, const std::string& model_name,
                                  const Error& why) {
    host_.log_error(why.message() + "; the result of profile run " + profile.nonce +
                    " waits in the spool, and counts meanwhile");
    if (unkept_runs_.size() >= max_unkept_runs) unkept_runs_.erase(unkept_runs_.begin());
    unkept_runs_.push_back({profile, model_name});
}

Status Measurements::import(const Profile& profile, const std::string& model_name) {
    auto status = import_or_replace(profile, model_name);
    if (profile.status == ProfileStatus::failed) return status;
    const bool waits = !status && status.error().code == ErrorCode::environment;
    if (!status && !waits) return status;
    if (waits) keep_for_later(profile, model_name, status.error());
    // The node may have shown another driver or library: what was measured with the old one no
    // longer holds.
    for (auto& [key, known] : known_)
        if (key.second == profile.gpu_type) known.measured = false;
    known_[{profile.model_fingerprint, profile.gpu_type}].measured = true;
    tables_.erase(profile.gpu_type);
    ++versions_[profile.gpu_type];
    return Done{};
}

}  // namespace arena
