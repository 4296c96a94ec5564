// SPDX-License-Identifier: GPL-2.0-or-later
// Carrier jobs: one-GPU batch jobs of the service user whose Prolog runs the profiler. Created and
// started in one critical section on the node that was asked for, or not at all. Also: the chained
// backfill, and SlurmHost itself, which only forwards.
#include <dlfcn.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "base/text.h"
#include "plugin/sched/slurm/host_slurm.h"
#include "plugin/sched/slurm/host_slurm_apply.h"
#include "plugin/sched/slurm/host_slurm_arrays.h"
#include "plugin/sched/slurm/host_slurm_facts.h"
#include "plugin/sched/slurm/host_slurm_launch.h"
#include "plugin/sched/slurm/host_slurm_loans.h"
#include "plugin/sched/slurm/host_slurm_read.h"
#include "plugin/sched/slurm/slurm_util.h"

namespace arena {
namespace {

job_desc_msg_t* describe(const CarrierSpec& spec) {
    auto* desc = static_cast<job_desc_msg_t*>(xmalloc(sizeof(job_desc_msg_t)));
    slurm_init_job_desc_msg(desc);
    const bool checks = !spec.check.empty();
    desc->name = xstrdup(checks ? "arena-check" : "arena-profile");
    desc->user_id = spec.user_id;
    desc->group_id = spec.group_id;
    desc->script = xstrdup("#!/bin/sh\nexit 0\n");
    desc->work_dir = xstrdup("/");
    desc->std_out = xstrdup("/dev/null");
    desc->std_err = xstrdup("/dev/null");
    desc->std_in = xstrdup("/dev/null");
    desc->comment = xstrdup(spec.comment.c_str());
    desc->admin_comment = xstrdup(checks ? "arena:v1 state=checking" : "arena:v1 state=profiling");
    if (!spec.reservation.empty()) desc->reservation = xstrdup(spec.reservation.c_str());
    if (!spec.partition.empty()) desc->partition = xstrdup(spec.partition.c_str());
    desc->alloc_node = xstrdup(spec.node.c_str());
    desc->min_nodes = desc->max_nodes = 1;
    desc->num_tasks = 1;
    desc->cpus_per_task = static_cast<std::uint16_t>(spec.cpus);
    desc->min_cpus = static_cast<std::uint32_t>(spec.cpus);
    // Where nothing says how much, Slurm gives the whole node's memory, and waits for it.
    if (spec.memory_mb > 0) desc->pn_min_memory = static_cast<std::uint64_t>(spec.memory_mb);
    desc->tres_per_node = xstrdup(gpu_request(spec.request.gpu_type, spec.gpus).c_str());
    desc->time_limit = spec.time_limit_minutes;
    desc->requeue = 0;
    desc->environment = string_array({"PATH=/usr/bin:/bin", "SLURM_GET_USER_ENV=0"});
    desc->env_size = 2;
    const std::string request = checks ? spec.check : to_json(spec.request);
    desc->spank_job_env = string_array(
        {"ARENA_PROFILE=" + request, "ARENA_PROFILE_FOR=" + std::to_string(spec.for_user)});
    desc->spank_job_env_size = 2;
    return desc;
}

/// A limit that the job breaks says more than Slurm's code.
std::string reason_of(job_record_t* job, int rc) {
    const bool pending = job && job->magic == JOB_MAGIC && !IS_JOB_FINISHED(job);
    const std::string limit = pending ? limit_in_the_way(job) : std::string();
    if (!limit.empty()) return limit;
    if (pending && rc == ESLURM_ACCOUNTING_POLICY)
        return text_of(reason_name(static_cast<job_state_reason>(job->state_reason)));
    return text_of(slurm_strerror(rc));
}

bool may_charge(std::uint32_t user, const char* account) {
    slurmdb_assoc_rec_t wanted{}, *found = nullptr;
    wanted.acct = const_cast<char*>(account);
    wanted.uid = user;
    return assoc_mgr_fill_in_assoc(acct_db_conn, &wanted, ACCOUNTING_ENFORCE_ASSOCS, &found,
                                   false) == SLURM_SUCCESS &&
           found != nullptr;
}

/// The account of the job that it is for pays for it, where the service user may charge that; else
/// its own does. An association of another user's Slurm takes off the job again at the next look
/// (_valid_job_assoc()).
bool charge(job_desc_msg_t* desc, const job_record_t* payer, std::uint32_t user) {
    if (!payer->account || !may_charge(user, payer->account)) return false;
    desc->account = xstrdup(payer->account);
    return true;
}

const job_record_t* payer_of(const CarrierSpec& spec) {
    const job_record_t* payer = find_job_record(spec.for_job);
    return payer && payer->user_id == spec.for_user && !IS_JOB_FINISHED(payer) ? payer : nullptr;
}

/// Slurm's code. That some node of the partition could hold the job, job_allocate() has said.
int select_carrier(job_record_t* job, const std::string& node) {
    std::string limit;
    const int rc = select_made(job, {node}, limit);
    return rc == ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE ? ESLURM_NODE_NOT_AVAIL : rc;
}

/// First the job without its node, so that what Slurm says against it is about the job itself.
CarrierStart create_locked(const CarrierSpec& spec) {
    const char* kind = spec.check.empty() ? "profiling job" : "check";
    job_desc_msg_t* desc = describe(spec);
    ActionLock lock;
    if (!lock) {
        slurm_free_job_desc_msg(desc);
        return {0, true, false, "slurmctld is stopping"};
    }
    const job_record_t* payer = payer_of(spec);
    if (!payer && spec.for_job != 0) {
        slurm_free_job_desc_msg(desc);
        return {0, false, true, "the job that waits for the profiling job is gone"};
    }
    const bool charged = payer && charge(desc, payer, spec.user_id);
    job_record_t* job = nullptr;
    char* message = nullptr;
    int rc = job_allocate(desc, 0, 0, nullptr, 0, spec.user_id, false, &job, &message,
                          SLURM_PROTOCOL_VERSION);
    const std::string said = text_of(message);
    xfree(message);
    slurm_free_job_desc_msg(desc);
    if (rc != SLURM_SUCCESS || !job) {
        const std::string why = said.empty() ? reason_of(job, rc) : said;
        // Some refusals leave the job in the queue, where it would wait until the limits of its
        // partition change.
        if (job && job->magic == JOB_MAGIC && !IS_JOB_FINISHED(job)) cancel_made(job);
        return {0, is_about_nodes(rc), charged && rc == ESLURM_ACCOUNTING_POLICY,
                "Slurm refused the " + std::string(kind) + ": " + why};
    }
    rc = select_carrier(job, spec.node);
    if (rc != SLURM_SUCCESS) {
        const std::string why = reason_of(job, rc);
        cancel_made(job);
        return {0, is_about_nodes(rc), charged && rc == ESLURM_ACCOUNTING_POLICY,
                "the " + std::string(kind) + " could not start: " + why};
    }
    info("arena: JobId=%u started on %s: %s", job->job_id, job->nodes, spec.comment.c_str());
    hand_over(job);
    return {job->job_id, false, false, {}};
}

CarrierStart create_carrier(const CarrierSpec& spec) {
    const LaunchWatch launch;
    const CarrierStart start = create_locked(spec);
    if (start.id == 0 || launch.taken_up()) return start;
    SlurmLock lock(SlurmLock::Kind::write);
    if (job_record_t* job = find_job_record(start.id)) cancel_made(job);
    return {0, true, false, "slurmctld is stopping"};
}

void cancel_carrier(JobId id) {
    ActionLock lock;
    job_record_t* job = lock ? find_job_record(id) : nullptr;
    if (!job || !carrier_request(job) || IS_JOB_FINISHED(job) || IS_JOB_COMPLETING(job)) return;
    info("arena: JobId=%u cancelled: no job waits for what it measures any more", id);
    cancel_made(job);
}

class SlurmHost : public Host {
  public:
    SlurmHost(std::int64_t slice_ms, std::string lent_in, HostMode mode,
              const std::atomic<bool>& stopping)
        : slice_ms_(slice_ms), lent_in_(std::move(lent_in)), mode_(mode), stopping_(stopping) {}

    bool layout_is_sound(std::string* what) override {
        SlurmLock lock(SlurmLock::Kind::read);
        return slurm_layout_is_sound(what);
    }
    bool has_work() override {
        SlurmLock lock(SlurmLock::Kind::read);
        return slurm_has_work(mode_);
    }
    std::size_t survey(const std::function<bool(const std::string&)>& asks_to_hold) override {
        return survey_jobs(asks_to_hold, mode_, slice_ms_);
    }
    ClusterView collect(const KnowsRecord& knows) override {
        // A writer who waits for us keeps every reader waiting behind it.
        constexpr std::int64_t read_slice_ms = 5;
        ClusterView view =
            read_cluster(knows, lent_in_, mode_, std::min(read_slice_ms, slice_ms_), read_s_);
        read_s_ = view.snapshot.time_s;
        return view;
    }
    std::int64_t last_change() override {
        return static_cast<std::int64_t>(std::max(last_job_update, last_node_update));
    }
    void set_reasons(const std::vector<Reason>& reasons) override {
        write_reasons(reasons, slice_ms_);
    }
    void note_ends(const std::vector<EndWords>& ends) override { write_ends(ends, slice_ms_); }
    void set_expected_starts(const std::vector<Expected>& starts) override {
        write_expected_starts(starts, slice_ms_);
    }
    [[nodiscard]] bool keeps_segments() const override { return has_segments<JobDetails>(); }
    ApplyResult start(const Shape& shape, const std::vector<std::string>& nodes) override {
        return start_job(shape, nodes);
    }
    ApplyResult release(const Shape& shape) override { return release_job(shape); }
    ApplyResult hold_again(JobId id, std::uint32_t restart) override {
        return rehold_job(id, restart);
    }
    ApplyResult split(JobId id, std::uint32_t restart, std::int64_t tasks) override {
        return split_array(id, restart, tasks);
    }
    ApplyResult opt_out(const Shape& shape, Phase left) override {
        return opt_out_job(shape, left);
    }
    ApplyResult checkpoint(JobId id, std::uint32_t restart, int signal, std::int64_t done,
                           const Move& move) override {
        return checkpoint_job(id, restart, signal, done, move);
    }
    ApplyResult stay(const Shape& shape, const std::vector<std::string>& nodes) override {
        return stay_in_job(shape, nodes);
    }
    ApplyResult show_slowdown(JobId id, std::uint32_t restart, const std::string& words) override {
        return arena::show_slowdown(id, restart, words);
    }
    ApplyResult note_avoided(JobId id, std::uint32_t restart,
                             const std::vector<AvoidedNode>& nodes) override {
        return note_avoided_nodes(id, restart, nodes);
    }
    std::vector<std::string> write_extras(const std::vector<ExtraChange>& changes) override {
        return write_node_extras(changes);
    }
    ApplyResult fence(const Fencing& fencing) override { return fence_node(fencing); }
    LoanFacts read_loans(const LoanPlaces& places) override { return read_loan_facts(places); }
    std::string set_partition(const std::string& partition,
                              const std::vector<std::string>& nodes) override {
        return set_partition_nodes(partition, nodes);
    }
    std::string save_nodes() override { return save_all_nodes(); }
    std::string guard(const std::string& node, const LoanFacts::Guard& guard) override {
        return guard_node(node, guard);
    }
    ApplyResult requeue_hold(JobId id, std::uint32_t restart) override {
        return requeue_held_job(id, restart);
    }
    std::vector<Left> settle_ends(const LeaveRules& rules, bool all) override {
        return settle_job_ends(rules, all);
    }
    void note_progress(JobId id, double trained_s) override { note_job_progress(id, trained_s); }
    CarrierStart start_carrier(const CarrierSpec& spec) override { return create_carrier(spec); }
    void end_carrier(JobId id) override { cancel_carrier(id); }
    Started start_array(const ArrayCarrierSpec& spec) override { return start_array_carrier(spec); }
    void end_array(JobId id, bool at_once) override { end_array_carrier(id, at_once); }
    bool leave_array(JobId id, const std::vector<JobId>& members, const Move& move,
                     bool at_once) override {
        return leave_with_array(id, members, move, at_once);
    }
    void write_shares(const std::vector<ShareWords>& shares) override {
        write_array_shares(shares);
    }
    bool may_profile_as(std::uint32_t user_id) override {
        constexpr std::uint32_t nobody = 65534;
        if (user_id == 0 || user_id == nobody) return false;
        return user_id != slurm_conf.slurm_user_id ||
               slurm_conf.slurmd_user_id == slurm_conf.slurm_user_id;
    }
    [[nodiscard]] LockTimes lock_times() const override { return arena::lock_times(); }
    void forget_lock_times() override { arena::lock_times() = {}; }
    void log_info(const std::string& text) override {
        info("arena: %s", printable(text, 500).c_str());
    }
    void log_error(const std::string& text) override {
        error("arena: %s", printable(text, 500).c_str());
    }

    [[nodiscard]] bool stopping() const override { return stopping_ || controller_stops(); }

  private:
    std::int64_t slice_ms_;
    std::string lent_in_;
    HostMode mode_;
    double read_s_ = 0;  ///< time of the last reading
    const std::atomic<bool>& stopping_;
};

}  // namespace

std::unique_ptr<Host> make_slurm_host(std::int64_t slice_ms, const std::string& lent_in,
                                      HostMode mode, const std::atomic<bool>& stopping) {
    lock_times() = {};
    return std::make_unique<SlurmHost>(slice_ms, lent_in, mode, stopping);
}

namespace {

/// This plug-in's file, links resolved: as-backfill/sched_backfill.so is a link to sched_arena.so.
std::filesystem::path own_file() {
    Dl_info info{};
    if (!::dladdr(reinterpret_cast<void*>(&make_slurm_host), &info) || !info.dli_fname) return {};
    std::error_code code;
    return std::filesystem::canonical(info.dli_fname, code);
}

}  // namespace

std::string StockBackfill::load() {
    const std::filesystem::path own = own_file();
    const std::string plugin_dir = text_of(slurm_conf.plugindir);
    for (std::string_view directory : split(plugin_dir, ':')) {
        std::error_code code;
        const auto path =
            std::filesystem::canonical(std::string(directory) + "/sched_backfill.so", code);
        // Ours by that name, as a link or a copy, would load itself without end.
        if (code || path == own || path.parent_path() == own.parent_path()) continue;
        if (::access(path.c_str(), R_OK) != 0) continue;
        plugin_handle_t handle = PLUGIN_INVALID_HANDLE;
        if (const std::string why = load_slurm_plugin(handle, path.c_str()); !why.empty())
            return path.string() + ": " + why;
        handle_ = handle;
        return {};
    }
    return "no sched_backfill.so of Slurm's in PluginDir=" + plugin_dir;
}

void StockBackfill::reconfig() {
    if (!handle_) return;
    using Reconfig = int (*)();
    void* symbol = plugin_get_sym(handle_, "sched_p_reconfig");
    if (symbol) reinterpret_cast<Reconfig>(symbol)();
}

void StockBackfill::unload() {
    if (handle_) plugin_unload(handle_);
    handle_ = nullptr;
}

}  // namespace arena
