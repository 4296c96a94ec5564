// SPDX-License-Identifier: GPL-2.0-or-later
// What differs between the releases of Slurm from 22.05 on: one small function each, so that nobody
// else asks which release it is. Calls change within a release, so a call's form is asked of the
// compiler (`requires`, or an overload on the function's type); `#if` is for names that a release
// does not know and for what no declaration shows. What ran is 22.05.8 and 24.11.5 (contrib/check);
// against the headers of others this is only compiled (contrib/slurm-versions).
#pragma once

#include <cstdint>

#include "plugin/common/slurm_internal.h"

#if SLURM_VERSION_NUMBER < SLURM_VERSION_NUM(22, 5, 0)
#error "slurm-arena needs Slurm 22.05 or later"
#endif

namespace arena {

/// "22.05.8": the release whose headers this was built with.
inline std::string built_for() {
    return std::to_string(SLURM_VERSION_MAJOR(SLURM_VERSION_NUMBER)) + "." +
           (SLURM_VERSION_MINOR(SLURM_VERSION_NUMBER) < 10 ? "0" : "") +
           std::to_string(SLURM_VERSION_MINOR(SLURM_VERSION_NUMBER)) + "." +
           std::to_string(SLURM_VERSION_MICRO(SLURM_VERSION_NUMBER));
}

// ---- types whose names changed -----------------------------------------------------------------

using JobDetails = std::remove_pointer_t<decltype(job_record_t::details)>;
using PriorityFactors = std::remove_pointer_t<decltype(job_record_t::prio_factors)>;
using SlurmList = decltype(job_record_t::gres_list_req);

#ifdef FEATURE_OP_XOR
constexpr int feature_op_one_of = FEATURE_OP_XOR;
#else
constexpr int feature_op_one_of = FEATURE_OP_MOR;
#endif

// ---- processes ---------------------------------------------------------------------------------

/// Since 23.11 a reconfigure ends in a new slurmctld, which goes on with all that the old one knew.
/// Not so one that stood by when it was made, and took over from another.
inline bool goes_on_after_reconfigure() {
    static const bool is_new = std::getenv("SLURMCTLD_RECONF") != nullptr;
    return is_new && backup_inx == 0;
}

// ---- texts -------------------------------------------------------------------------------------

/// Slurm's word for a reason: job_state_reason_string() since 24.05.
template <typename Reason = job_state_reason>
const char* reason_name(Reason reason) {
    if constexpr (requires { job_state_reason_string(reason); })
        return job_state_reason_string(reason);
    else
        return job_reason_string(reason);
}

/// "gres:gpu:a100:2" as tres_per_node has it, "gres/gpu:a100:2" since 23.11: another release's form
/// is stored and asks for nothing. "" = any type.
inline std::string gpu_request(const std::string& type, std::int64_t count) {
#if SLURM_VERSION_NUMBER < SLURM_VERSION_NUM(23, 11, 0)
    const std::string prefix = "gres:gpu:";
#else
    const std::string prefix = "gres/gpu:";
#endif
    return prefix + (type.empty() ? "" : type + ":") + std::to_string(count);
}

/// Whether the list asks for GRES: since 24.05 sbatch -c sends tres_per_task=cpu:N, too.
inline bool asks_for_gres(const char* tres) {
    return tres != nullptr && std::string_view(tres).find("gres") != std::string_view::npos;
}

/// What sbatch -c N sets as SLURM_TRES_PER_TASK since 24.05; "" before.
inline std::string cpus_as_tres([[maybe_unused]] int cpus) {
#if SLURM_VERSION_NUMBER < SLURM_VERSION_NUM(24, 5, 0)
    return "";
#else
    return "cpu=" + std::to_string(cpus);
#endif
}

/// Slurmdbd has not said yet by what number it knows the job, so that the job cannot change now.
/// From 24.11 on slurmctld makes that number itself, and no such error is left.
inline bool waits_for_slurmdbd([[maybe_unused]] int rc) {
#if SLURM_VERSION_NUMBER < SLURM_VERSION_NUM(24, 11, 0)
    return rc == ESLURM_JOB_SETTING_DB_INX;
#else
    return false;
#endif
}

/// What no state of the cluster would make Slurm start; with an error of its own for the network
/// since 24.11.
inline bool is_never_startable(int rc) {
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(24, 11, 0)
    if (rc == ESLURM_REQUESTED_TOPO_CONFIG_UNAVAILABLE) return true;
#endif
    return rc == ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE;
}

// ---- fields ------------------------------------------------------------------------------------

/// 25.11 keeps it in step_id.
template <typename Description>
void set_job_id(Description& desc, std::uint32_t id) {
    if constexpr (requires { desc.job_id; })
        desc.job_id = id;
    else
        desc.step_id.job_id = id;
}

/// Past the setters of 23.11.5 the cache of job states would keep the flag.
template <typename Job>
void clear_state_flag(Job* job, std::uint32_t flag) {
    if constexpr (requires { job_state_unset_flag(job, flag); })
        job_state_unset_flag(job, flag);
    else
        job->job_state &= ~flag;
}

/// The same of setting one.
template <typename Job>
void set_state_flag(Job* job, std::uint32_t flag) {
    if constexpr (requires { job_state_set_flag(job, flag); })
        job_state_set_flag(job, flag);
    else
        job->job_state |= flag;
}

/// --segment, of 24.05: nodes of a block that belong together; 0: none asked for.
template <typename Details>
std::uint16_t segment_size(const Details* details) {
    if constexpr (requires { details->segment_size; })
        return details->segment_size;
    else
        return 0;
}

template <typename Details>
constexpr bool has_segments() {
    return requires(Details * details) { details->segment_size; };
}
/// Nothing where Slurm has none.
template <typename Details>
void set_segment_size([[maybe_unused]] Details* details, [[maybe_unused]] std::uint16_t nodes) {
    if constexpr (has_segments<Details>()) details->segment_size = nodes;
}

/// --exclusive=topo, and partitions with Exclusive=TOPO (24.05): nobody else has nodes of a block
/// in which the job has one.
template <typename Job>
bool wants_whole_blocks([[maybe_unused]] const Job* job,
                        [[maybe_unused]] const part_record_t* part) {
#ifdef WHOLE_TOPO
    return (part->flags & PART_FLAG_EXCLUSIVE_TOPO) || (job->details->whole_node & WHOLE_TOPO);
#else
    return false;
#endif
}

/// Such a job has another node of the block.
inline bool is_blocked([[maybe_unused]] const node_record_t* node) {
#ifdef NODE_STATE_BLOCKED
    return node->node_state & NODE_STATE_BLOCKED;
#else
    return false;
#endif
}

/// 24.11.
template <typename Job>
bool names_several_qos(const Job* job) {
    if constexpr (requires { job->qos_list; })
        return job->qos_list != nullptr;
    else
        return false;
}

/// The job's priority in each partition of its list; nullptr where there is none, or where they are
/// counted by QOS, too.
template <typename Job>
const std::uint32_t* partition_priorities(const Job* job) {
    if (names_several_qos(job)) return nullptr;
    if constexpr (requires { job->priority_array; })
        return job->priority_array;
    else if constexpr (requires { job->part_prio; })
        return job->part_prio ? job->part_prio->priority_array : nullptr;
    else  // 24.11.7
        return job->prio_mult ? job->prio_mult->priority_array : nullptr;
}

/// Whether memory is handed out as CPUs are; another name since 25.11.
inline bool memory_is_tracked() {
#ifdef CR_MEMORY
    return (slurm_conf.select_type_param & CR_MEMORY) != 0;
#else
    return (slurm_conf.select_type_param & SELECT_MEMORY) != 0;
#endif
}

/// Seconds that a job credential lives.
inline int credential_lifetime_s() {
#if SLURM_VERSION_NUMBER < SLURM_VERSION_NUM(23, 11, 0)
    int lifetime_s = 0;
    (void)slurm_cred_ctx_get(slurmctld_config.cred_ctx, SLURM_CRED_OPT_EXPIRY_WINDOW, &lifetime_s);
    return lifetime_s;
#else
    return cred_expiration();
#endif
}

/// "s0.s4.n1" and "switch.switch.node" for n1; "b8.n1" and "block.node"; "n1" and "node" where
/// nothing is known of the network. Both are the caller's to free. Another name since 23.11.
inline int node_address(char* name, char** address, char** pattern) {
#if SLURM_VERSION_NUMBER < SLURM_VERSION_NUM(23, 11, 0)
    return slurm_topo_get_node_addr(name, address, pattern);
#else
    return topology_g_get_node_addr(name, address, pattern);
#endif
}

/// The tasks of a step go through its leaves or blocks one after the other, whatever the order of
/// its nodes (26.05).
inline bool ranks_follow_network() {
#if SLURM_VERSION_NUMBER < SLURM_VERSION_NUM(26, 5, 0)
    return false;
#else
    return (slurm_conf.select_type_param & SELECT_NO_DIST_TOPO_BLOCK) == 0;
#endif
}

// ---- calls -------------------------------------------------------------------------------------

namespace compat {

inline int select(int (*call)(job_record_t*, bool, bitstr_t**, char**, bool, std::uint32_t),
                  job_record_t* job, bool test_only) {
    char* message = nullptr;
    const int rc = call(job, test_only, nullptr, &message, false, SLURMDB_JOB_FLAG_SCHED);
    xfree(message);
    return rc;
}
template <typename Selection>  // 24.11
int select(int (*call)(Selection*, bool, bool, std::uint32_t), job_record_t* job, bool test_only) {
    char* message = nullptr;
    Selection selection{};
    selection.job_ptr = job;
    selection.err_msg = &message;
    const int rc = call(&selection, test_only, false, SLURMDB_JOB_FLAG_SCHED);
    xfree(message);
    return rc;
}

template <typename Excluded>
using TestReservations = int (*)(job_record_t*, time_t*, bool, bitstr_t**, Excluded*, bool*, bool);

inline int test_reservations(TestReservations<bitstr_t*> call, job_record_t* job,
                             bitstr_t** nodes) {
    time_t when = time(nullptr);
    bitstr_t* cores = nullptr;
    bool overlap = false;
    const int rc = call(job, &when, false, nodes, &cores, &overlap, false);
    FREE_NULL_BITMAP(cores);
    return rc;
}
template <typename Excluded>  // 23.11
int test_reservations(TestReservations<Excluded> call, job_record_t* job, bitstr_t** nodes) {
    time_t when = time(nullptr);
    Excluded excluded{};
    bool overlap = false;
    const int rc = call(job, &when, false, nodes, &excluded, &overlap, false);
    reservation_delete_resv_exc_parts(&excluded);
    return rc;
}

template <typename Code>
std::string plugin_error(Code code) {
    if (static_cast<int>(code) == SLURM_SUCCESS) return {};
    if constexpr (requires { plugin_strerror(code); })
        return plugin_strerror(code);
    else
        return slurm_strerror(code);
}

}  // namespace compat

/// select_nodes() as Slurm's main loop calls it; Slurm's code.
inline int select_nodes_for(job_record_t* job, bool test_only) {
    return compat::select(&::select_nodes, job, test_only);
}

/// The nodes that reservations leave to the job now, to be freed; nullptr = none.
inline bitstr_t* nodes_left_by_reservations(job_record_t* job) {
    bitstr_t* nodes = nullptr;
    if (compat::test_reservations(&::job_test_resv, job, &nodes) != SLURM_SUCCESS)
        FREE_NULL_BITMAP(nodes);
    return nodes;
}

namespace compat {

inline int make_reservation(int (*call)(resv_desc_msg_t*), resv_desc_msg_t* wanted) {
    return call(wanted);
}
inline int make_reservation(int (*call)(resv_desc_msg_t*, char**), resv_desc_msg_t* wanted) {
    char* message = nullptr;
    const int rc = call(wanted, &message);
    xfree(message);
    return rc;
}

inline void name_nodes(int (*call)(char*, bool, bitstr_t**), char* list, bitstr_t** nodes) {
    (void)call(list, true, nodes);
}
template <typename Invalid>
void name_nodes(int (*call)(char*, bool, bitstr_t**, Invalid**), char* list, bitstr_t** nodes) {
    (void)call(list, true, nodes, nullptr);
}

}  // namespace compat

/// create_resv() has a message for its user since 24.11.
inline int make_reservation(resv_desc_msg_t* wanted) {
    return compat::make_reservation(&::create_resv, wanted);
}

/// The nodes of a list, to be freed; those that are no more are left out. One more argument since
/// 24.11.
inline bitstr_t* named_nodes(std::string list) {
    bitstr_t* nodes = nullptr;
    compat::name_nodes(&::node_name2bitmap, list.data(), &nodes);
    return nodes;
}

/// Makes a job of its own of the next task of an array that is a record; what is left of the
/// record, or the job itself. Since 24.11 Slurm asks whether its list is to have it.
template <typename Job>
job_record_t* split_next_task(Job* array) {
    if constexpr (requires { job_array_post_sched(array); })
        return job_array_post_sched(array);
    else
        return job_array_post_sched(array, true);
}

/// What Slurm's requests call the job: the id of an array's last task is that of all of them.
inline std::string request_name(const job_record_t* job) {
    if (job->array_task_id == NO_VAL) return std::to_string(job->job_id);
    return std::to_string(job->array_job_id) + "_" + std::to_string(job->array_task_id);
}

/// job_requeue() is gone in 25.11.
inline int requeue_job(const job_record_t* job, std::uint32_t flags) {
    std::string name = request_name(job);
    requeue_msg_t request{};
    request.job_id_str = name.data();
    request.flags = flags;
    return job_requeue2(slurm_conf.slurm_user_id, &request, nullptr, false);
}

/// Ends a run that never began, so that the job waits again. 26.05 wants its step_id.
template <typename Job>
void complete_to_requeue(Job* job) {
    const uid_t user = slurm_conf.slurm_user_id;
    if constexpr (requires { job_complete(job->job_id, user, true, false, 0); }) {
        (void)job_complete(job->job_id, user, true, false, 0);
    } else {
        auto id = job->step_id;
        (void)job_complete(&id, user, true, false, 0);
    }
}

/// What Slurm's own EpilogSlurmctld says when it is done with the job; takes the locks itself.
/// 25.11 might want its step_id.
template <typename Id, typename Step = slurm_step_id_t>
void epilog_is_done(Id id) {
    if constexpr (requires { prep_epilog_slurmctld_callback(0, id, false); }) {
        prep_epilog_slurmctld_callback(0, id, false);
    } else {
        Step step{};
        step.job_id = id;
        step.step_id = step.step_het_comp = NO_VAL;
        prep_epilog_slurmctld_callback(0, &step, false);
    }
}

/// As SlurmUser, whom Slurm shows beside a reason. 26.05 knows of no other user than the caller's.
template <typename Change>
int change_node(Change& change) {
    if constexpr (requires { change.reason_uid; }) change.reason_uid = slurm_conf.slurm_user_id;
    return update_node(&change, slurm_conf.slurm_user_id);
}

/// Takes one more argument since 23.11.6: whether its tables are locked.
template <typename Uid>
bool is_coordinator(Uid uid, char* account) {
    if constexpr (requires { assoc_mgr_is_user_acct_coord(acct_db_conn, uid, account); })
        return assoc_mgr_is_user_acct_coord(acct_db_conn, uid, account);
    else
        return assoc_mgr_is_user_acct_coord(acct_db_conn, uid, account, false);
}

/// "" or why not. Takes one more argument since 25.11.1: whether to be quiet.
template <typename Handle>
std::string load_slurm_plugin(Handle& handle, const char* path) {
    if constexpr (requires { plugin_load_from_file(&handle, path); })
        return compat::plugin_error(plugin_load_from_file(&handle, path));
    else
        return compat::plugin_error(plugin_load_from_file(&handle, path, false));
}

}  // namespace arena

/// Defines job_modify(), inside extern "C": `modify` is told where words for the user go, which is
/// nowhere (nullptr) before 23.02.
#if SLURM_VERSION_NUMBER < SLURM_VERSION_NUM(23, 2, 0)
#define ARENA_JOB_MODIFY(modify)                                                            \
    int job_modify(job_desc_msg_t* change, job_record_t* job, std::uint32_t uid) noexcept { \
        return modify(change, job, uid, nullptr);                                           \
    }
#else
#define ARENA_JOB_MODIFY(modify)                                                 \
    int job_modify(job_desc_msg_t* change, job_record_t* job, std::uint32_t uid, \
                   char** message) noexcept {                                    \
        return modify(change, job, uid, message);                                \
    }
#endif
