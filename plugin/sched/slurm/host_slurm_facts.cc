// SPDX-License-Identifier: GPL-2.0-or-later
// See host_slurm_facts.h.
#include "plugin/sched/slurm/host_slurm_facts.h"

#include <pwd.h>

#include <algorithm>

#include "health/finding.h"
#include "plugin/sched/host/excludes.h"
#include "plugin/sched/host/segments.h"
#include "plugin/sched/slurm/host_slurm_read.h"

namespace arena {
namespace {

/// How Arena knows a drain and a reservation of its own.
constexpr std::string_view drain_reason = "Arena: slow: ", reservation_prefix = "arena_slow_";

std::optional<std::string_view> kept(const job_record_t* job, std::string_view variable) {
    const char* text = find_variable(job->details->env_sup, job->details->env_cnt, variable);
    return text ? std::optional<std::string_view>(text) : std::nullopt;
}

std::optional<std::string_view> kept(const job_record_t* job) {
    return kept(job, excludes_variable);
}

void set_excludes(job_record_t* job, const std::string& list) {
    assign_text(&job->details->exc_nodes, list);
    FREE_NULL_BITMAP(job->details->exc_node_bitmap);
    if (!list.empty()) job->details->exc_node_bitmap = named_nodes(list);
}

Fence fence_of(const node_record_t* node, const ReservedNodes& reserved) {
    if (IS_NODE_DRAIN(node) && text_of(node->reason).starts_with(drain_reason))
        return Fence::drained;
    return reserved.contains(node->name) ? Fence::reserved : Fence::none;
}

int set_drain(const std::string& node, bool drained, const std::string& why) {
    update_node_msg_t change;
    slurm_init_update_node_msg(&change);
    std::string name = node, reason = std::string(drain_reason) + why;
    change.node_names = name.data();
    change.node_state = drained ? NODE_STATE_DRAIN : NODE_STATE_UNDRAIN;
    if (drained) change.reason = reason.data();
    return change_node(change);
}

/// SlurmUser, and who checks it where Slurm would know him.
std::string users_of_reservation(const std::string& checker) {
    std::string users = slurm_conf.slurm_user_name;
    if (!checker.empty() && checker != users && ::getpwnam(checker.c_str()) != nullptr)
        users += "," + checker;
    return users;
}

/// An administrator may have one of such a name.
bool is_ours(const slurmctld_resv_t* reservation) {
    return text_of(reservation->name) ==
               std::string(reservation_prefix) + text_of(reservation->node_list) &&
           is_of_arenas_form(reservation);
}

/// As a list that Slurm takes, and shows.
std::string list_of(bitstr_t* nodes) {
    char* text = bitmap2node_name(nodes);
    std::string list = text_of(text);
    xfree(text);
    return list;
}

}  // namespace

bool is_of_arenas_form(const slurmctld_resv_t* reservation) {
    const std::uint64_t flags = RESERVE_FLAG_IGN_JOBS | RESERVE_FLAG_SPEC_NODES;
    const std::string users = text_of(reservation->users),
                      ours = text_of(slurm_conf.slurm_user_name);
    const bool by_users =
        users == ours || (users.starts_with(ours + ",") && std::ranges::count(users, ',') == 1);
    return by_users && !reservation->accounts && (reservation->flags & flags) == flags;
}

int reserve_for_arena(const std::string& name, const std::string& node, const std::string& users,
                      std::uint64_t more_flags) {
    resv_desc_msg_t wanted;
    slurm_init_resv_desc_msg(&wanted);
    // Slurm keeps some of these texts as its own.
    wanted.name = xstrdup(name.c_str());
    wanted.node_list = xstrdup(node.c_str());
    wanted.users = xstrdup(users.c_str());
    wanted.start_time = time(nullptr);
    wanted.duration = INFINITE;
    wanted.flags = RESERVE_FLAG_IGN_JOBS | RESERVE_FLAG_SPEC_NODES | more_flags;
    const int rc = make_reservation(&wanted);
    for (char** left : {&wanted.name, &wanted.node_list, &wanted.users}) xfree(*left);
    return rc;
}

int drop_reservation(const std::string& name) {
    std::string gone = name;
    reservation_name_msg_t message{};
    message.name = gone.data();
    return delete_resv(&message);
}

std::vector<std::string> write_node_extras(const std::vector<HostNodes::ExtraChange>& changes) {
    ActionLock lock;
    if (!lock) return {};
    std::vector<std::string> written;
    for (const HostNodes::ExtraChange& change : changes) {
        node_record_t* node = find_node_record(const_cast<char*>(change.node.c_str()));
        // An administrator's newer text wins: it is read in the next round.
        if (!node || text_of(node->extra) != change.before) continue;
        assign_text(&node->extra, change.after);
        written.push_back(change.node);
    }
    if (written.empty()) return {};
    last_node_update = time(nullptr);
    schedule_node_save();
    return written;
}

ApplyResult fence_node(const HostNodes::Fencing& fencing) {
    ActionLock lock;
    if (!lock) return {ApplyOutcome::stale, "slurmctld is stopping"};
    const node_record_t* node = find_node_record(const_cast<char*>(fencing.node.c_str()));
    if (!node) return {ApplyOutcome::stale, "no such node"};
    const Fence now = fence_of(node, nodes_reserved_by_arena());
    int rc = SLURM_SUCCESS;
    if (now == Fence::drained && fencing.fence != now) rc = set_drain(fencing.node, false, {});
    if (now == Fence::reserved && fencing.fence != now)
        rc = drop_reservation(std::string(reservation_prefix) + fencing.node);
    // A node that somebody has drained is kept from jobs, and by whom stays to be seen.
    const bool drains = fencing.fence == Fence::drained && !IS_NODE_DRAIN(node);
    if (rc == SLURM_SUCCESS && drains) rc = set_drain(fencing.node, true, fencing.why);
    if (rc == SLURM_SUCCESS && fencing.fence == Fence::reserved && now != Fence::reserved)
        rc = reserve_for_arena(std::string(reservation_prefix) + fencing.node, fencing.node,
                               users_of_reservation(fencing.user), 0);
    if (rc != SLURM_SUCCESS) return {ApplyOutcome::retry, slurm_strerror(rc)};
    const bool ends = now != Fence::none && now != fencing.fence;
    if (ends || drains || fencing.fence == Fence::reserved) schedule_node_save();
    return {};
}

ReservedNodes nodes_reserved_by_arena() {
    ReservedNodes names;
    if (!slurm_has_reservations()) return names;
    list_for_each_ro(
        resv_list,
        [](void* item, void* argument) {
            const auto* reservation = static_cast<const slurmctld_resv_t*>(item);
            if (is_ours(reservation))
                static_cast<ReservedNodes*>(argument)->insert(text_of(reservation->node_list));
            return 0;
        },
        &names);
    return names;
}

std::optional<NodeRecord> node_record(const node_record_t* node, const ReservedNodes& reserved) {
    NodeRecord record{text_of(node->extra), static_cast<double>(node->boot_time),
                      fence_of(node, reserved)};
    const std::string comment = text_of(node->comment);
    if (comment.find(health::comment_mark) != std::string::npos) record.comment = comment;
    if (record.extra.empty() && record.comment.empty() && record.fence == Fence::none)
        return std::nullopt;
    return record;
}

std::string own_excludes(const job_record_t* job) {
    if (!job->details->exc_nodes) return {};
    return own_excludes(text_of(job->details->exc_nodes), kept(job));
}

Bitmap own_excluded_nodes(const job_record_t* job) {
    if (!job->details->exc_node_bitmap) return nullptr;
    if (!kept(job)) {
        bitstr_t* nodes = job->details->exc_node_bitmap;
        return Bitmap(nodes ? bit_copy(nodes) : nullptr);
    }
    const std::string own = own_excludes(job);
    return Bitmap(own.empty() ? nullptr : named_nodes(own));
}

Bitmap added_excludes(const job_record_t* job) {
    bitstr_t* all = job->details->exc_node_bitmap;
    if (!all || !excludes_are_ours(text_of(job->details->exc_nodes), kept(job))) return nullptr;
    Bitmap added(bit_copy(all));
    if (const Bitmap own = own_excluded_nodes(job)) bit_and_not(added.get(), own.get());
    return added;
}

void exclude_too(job_record_t* job, const std::vector<std::string>& nodes) {
    if (nodes.empty()) return;
    const Bitmap more(bitmap_of(nodes));
    if (!more) return;  // one is gone: the next round has other ones
    const std::string own = own_excludes(job);
    if (const Bitmap before = own_excluded_nodes(job)) bit_or(more.get(), before.get());
    set_excludes(job, list_of(more.get()));
    set_supplement(job, excludes_variable,
                   keep_own_excludes(own, text_of(job->details->exc_nodes)));
}

void keep_segments(job_record_t* job, std::int64_t nodes) {
    if (nodes <= 1 || !has_segments<JobDetails>()) return;
    // Asked again, as by a start that ends in a release, the record has the first answer.
    const std::int64_t own = own_segment(segment_size(job->details), kept(job, segment_variable));
    set_supplement(job, segment_variable, std::to_string(own));
    set_segment_size(job->details, static_cast<std::uint16_t>(joint_segment(own, nodes)));
}

void restore_request(job_record_t* job) {
    JobDetails* details = job->details;
    if (const auto own = kept(job, segment_variable)) {
        set_segment_size(details, static_cast<std::uint16_t>(own_segment(0, own)));
        forget_supplement(job, segment_variable);
    }
    if (!kept(job)) return;
    if (excludes_are_ours(text_of(details->exc_nodes), kept(job)))
        set_excludes(job, own_excludes(job));
    forget_supplement(job, excludes_variable);
}

}  // namespace arena
