// SPDX-License-Identifier: GPL-2.0-or-later
// See slurm_util.h. Callers hold slurmctld's locks.
#include "plugin/sched/slurm/slurm_util.h"

#include "base/text.h"
#include "plugin/sched/slurm/host_slurm_facts.h"
#include "request/request.h"

namespace arena {
namespace {

slurmctld_lock_t lock_set(SlurmLock::Kind kind) {
    slurmctld_lock_t set{};
    const lock_level_t level = kind == SlurmLock::Kind::read ? READ_LOCK : WRITE_LOCK;
    set.conf = READ_LOCK;
    set.job = level;
    set.node = level;
    set.part = kind == SlurmLock::Kind::partitions ? WRITE_LOCK : READ_LOCK;
    set.fed = READ_LOCK;
    return set;
}

HostJobState state_of(const job_record_t* job) {
    if (IS_JOB_COMPLETING(job)) return HostJobState::completing;
    if (IS_JOB_PENDING(job)) return HostJobState::pending;
    if (IS_JOB_RUNNING(job)) return HostJobState::running;
    if (IS_JOB_SUSPENDED(job)) return HostJobState::suspended;
    return HostJobState::finished;
}

double thread_cpu_ms() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec);
}

/// Of a job that trains arrays: it has ended, or its script is about to, since its step has, and
/// nobody told it to leave. Where Arena did, its members are to come back.
bool array_is_lost(JobId id) {
    const job_record_t* job = id != 0 ? find_job_record(id) : nullptr;
    if (!job || !array_facts(job)) return true;
    if (array_leaves_since(job) != 0) return false;
    return !IS_JOB_RUNNING(job) || IS_JOB_COMPLETING(job) || !has_steps(job);
}

constexpr job_state_reason deferrals[] = {WAIT_DEPENDENCY,  WAIT_TIME,    WAIT_RESERVATION,
                                          WAIT_DEP_INVALID, FAIL_ACCOUNT, FAIL_QOS};

}  // namespace

bool is_deferral(job_state_reason reason) {
    return std::find(std::begin(deferrals), std::end(deferrals), reason) != std::end(deferrals);
}

bool waits_for_resources(const job_record_t* job, job_state_reason also) {
    if (!IS_JOB_PENDING(job) || IS_JOB_COMPLETING(job) || job->priority == 0 || !job->details)
        return false;
    if (job->details->begin_time > time(nullptr)) return false;
    const auto reason = static_cast<job_state_reason>(job->state_reason);
    return reason == WAIT_NO_REASON || reason == WAIT_RESOURCES || reason == WAIT_PRIORITY ||
           reason == also;
}

bool deferred(std::string_view reason_text) {
    return std::any_of(std::begin(deferrals), std::end(deferrals),
                       [&](job_state_reason reason) { return reason_text == reason_name(reason); });
}

SlurmLock::SlurmLock(Kind kind) : kind_(kind), lock_(lock_set(kind)) {
    lock_slurmctld(lock_);
    since_ = std::chrono::steady_clock::now();
    cpu_since_ms_ = thread_cpu_ms();
}

SlurmLock::~SlurmLock() {
    using Milliseconds = std::chrono::duration<double, std::milli>;
    const double held_ms = Milliseconds(std::chrono::steady_clock::now() - since_).count();
    const double cpu_ms = thread_cpu_ms() - cpu_since_ms_;
    unlock_slurmctld(lock_);
    LockTimes& times = lock_times();
    const bool write = kind_ != Kind::read;
    double& longest = write ? times.write_max_ms : times.read_max_ms;
    double& longest_cpu = write ? times.write_cpu_max_ms : times.read_cpu_max_ms;
    longest = std::max(longest, held_ms);
    longest_cpu = std::max(longest_cpu, cpu_ms);
}

bool controller_stops() { return slurmctld_config.shutdown_time != 0; }

LockTimes& lock_times() {
    static LockTimes times;
    return times;
}

void set_supplement(job_record_t* job, std::string_view name, std::string_view value) {
    JobDetails* details = job->details;
    const std::string entry = std::string(name) + "=" + std::string(value);
    for (std::uint32_t i = 0; i < details->env_cnt; ++i) {
        if (!value_of(details->env_sup[i], name)) continue;
        assign_text(&details->env_sup[i], entry);
        return;
    }
    xrecalloc(details->env_sup, details->env_cnt + 1u, sizeof(char*));
    details->env_sup[details->env_cnt++] = xstrdup(entry.c_str());
}

void forget_supplement(job_record_t* job, std::string_view name) {
    JobDetails* details = job->details;
    std::uint16_t left = 0;
    for (std::uint16_t i = 0; i < details->env_cnt; ++i) {
        if (value_of(details->env_sup[i], name))
            xfree(details->env_sup[i]);
        else
            details->env_sup[left++] = details->env_sup[i];
    }
    details->env_cnt = left;
}

void clear_supplements(job_record_t* job) {
    JobDetails* details = job->details;
    std::uint16_t kept = 0;
    for (std::uint16_t i = 0; i < details->env_cnt; ++i) {
        const std::string_view entry = details->env_sup[i];
        if (entry.starts_with("ARENA_") && !value_of(entry.data(), state_variable))
            xfree(details->env_sup[i]);
        else
            details->env_sup[kept++] = details->env_sup[i];
    }
    details->env_cnt = kept;
}

const char* arena_record(const job_record_t* job) {
    if (!job->details || job->spank_job_env_size == 0) return nullptr;
    return find_variable(job->spank_job_env, job->spank_job_env_size, record_variable);
}

const char* planned_record(const job_record_t* job, HostMode mode) {
    const char* record = arena_record(job);
    if (record != nullptr || mode != HostMode::observes) return record;
    if (!job->details || job->spank_job_env_size == 0) return nullptr;
    return find_variable(job->spank_job_env, job->spank_job_env_size, observed_variable);
}

const char* carrier_request(const job_record_t* job) {
    if (job->spank_job_env_size == 0) return nullptr;
    return find_variable(job->spank_job_env, job->spank_job_env_size, "ARENA_PROFILE");
}

const char* array_facts(const job_record_t* job) {
    if (job->spank_job_env_size == 0) return nullptr;
    return find_variable(job->spank_job_env, job->spank_job_env_size, "ARENA_CARRIER");
}

std::int64_t array_leaves_since(const job_record_t* job) {
    const auto mark = job->details ? read_mark(job) : std::nullopt;
    return mark && mark->phase == Phase::checkpointing ? mark->since : 0;
}

bool has_steps(const job_record_t* job) {
    const auto is_step = [](void* item, void*) -> int {
        return static_cast<step_record_t*>(item)->step_id.step_id < SLURM_MAX_NORMAL_STEP_ID;
    };
    return job->step_list && list_find_first_ro(job->step_list, is_step, nullptr) != nullptr;
}

std::uint32_t carrier_for_user(const job_record_t* job) {
    const char* user =
        find_variable(job->spank_job_env, job->spank_job_env_size, "ARENA_PROFILE_FOR");
    const auto id = parse_integer(user ? user : "", 0, UINT32_MAX);
    return id ? static_cast<std::uint32_t>(*id) : job->user_id;
}

std::optional<JobMark> read_mark(const job_record_t* job) {
    const char* text = find_variable(job->details->env_sup, job->details->env_cnt, state_variable);
    return text ? parse_mark(text) : std::nullopt;
}

void write_mark(job_record_t* job, Phase phase, OtherHold hold) {
    const std::optional<JobMark> before = read_mark(job);
    JobMark mark = next_mark(before, phase, job->restart_cnt, hold, time(nullptr),
                             before && array_is_lost(before->array));
    // A requeue makes a new submission of the job: this is the last that knows of the first.
    if (phase == Phase::started && mark.waited_since == 0) mark.waited_since = eligible_since(job);
    write_mark(job, mark);
}

void write_mark(job_record_t* job, const JobMark& mark) {
    if (const auto before = read_mark(job); before && before->newer) return;
    set_supplement(job, state_variable, format_mark(mark));
}

JobFacts facts_of(const job_record_t* job) {
    JobFacts facts;
    facts.state = state_of(job);
    facts.held = job->priority == 0;
    facts.special_exit = (job->job_state & JOB_SPECIAL_EXIT) != 0;
    facts.restart = job->restart_cnt;
    facts.mark = read_mark(job);
    return facts;
}

void hold_for_arena(job_record_t* job, const char* reason) {
    acct_policy_remove_accrue_time(job,
                                   false);  // only where limits are enforced, and counted so far
    job->direct_set_prio = 1;
    job->priority = 0;
    job->state_reason = WAIT_HELD;
    clear_state_flag(job, JOB_SPECIAL_EXIT);
    assign_text(&job->state_desc, reason);
    forget_requeue_delay(job);
    restore_request(job);
    write_mark(job, Phase::held);
    note_job_change();
}

void forget_requeue_delay(job_record_t* job) {
    if (job->restart_cnt == 0 || job->details->begin_time == 0) return;
    const int lifetime_s = credential_lifetime_s();
    // See job_mgr.c: submit_time is the time of the requeue then, or one second later.
    const auto ahead_s = job->details->begin_time - job->details->submit_time;
    if (ahead_s == lifetime_s || ahead_s == lifetime_s + 1) job->details->begin_time = 0;
}

void note_job_change() { last_job_update = time(nullptr); }

namespace {

/// Second in which Slurm last counted the age of a waiting ordinary job; 0 when that says nothing.
time_t age_counted_at(const job_record_t* job) {
    const bool counts = IS_JOB_PENDING(job) && job->priority != 0 && !job->direct_set_prio &&
                        job->details && job->details->begin_time != 0 && job->prio_factors &&
                        !arena_record(job);
    if (!counts) return 0;
    const double share = job->prio_factors->priority_age / slurm_conf.priority_weight_age;
    if (share >= 1) return 0;  // as old as counts, since when nobody knows
    const auto age = static_cast<time_t>(share * slurm_conf.priority_max_age + 0.5);
    // No age: it has its first priority, of its submission, before which Slurm starts no accrual.
    return age == 0 ? eligible_since(job) : job->details->accrue_time + age;
}

}  // namespace

time_t age_reference() {
    time_t reference = time(nullptr);
    if (slurm_conf.priority_weight_age == 0) return reference;
    list_for_each_ro(
        job_list,
        [](void* item, void* argument) {
            auto* earliest = static_cast<time_t*>(argument);
            const time_t counted = age_counted_at(static_cast<const job_record_t*>(item));
            if (counted > 0) *earliest = std::min(*earliest, counted);
            return 0;
        },
        &reference);
    return reference;
}

std::uint32_t multifactor_priority(job_record_t* job, time_t reference) {
    const time_t age = std::max<time_t>(reference - eligible_since(job), 0);
    const time_t accrues = job->details->accrue_time;
    job->details->accrue_time = time(nullptr) - age;
    const std::uint32_t priority = priority_g_set(0, job);
    job->details->accrue_time = accrues;
    return priority;
}

bool limits_are_enforced() { return (accounting_enforce & ACCOUNTING_ENFORCE_LIMITS) != 0; }

void start_accrual(job_record_t* job, time_t eligible) {
    job->details->begin_time = eligible;
    if (limits_are_enforced())
        acct_policy_add_accrue_time(job, false);
    else
        job->details->accrue_time = eligible;
}

time_t eligible_since(const job_record_t* job) {
    return std::max(job->details->submit_time, job->details->begin_time);
}

bool basic_priority() { return text_of(slurm_conf.priority_type) == "priority/basic"; }

BasicQueue::BasicQueue() {
    list_for_each_ro(
        job_list,
        [](void* item, void* argument) {
            const auto* job = static_cast<const job_record_t*>(item);
            // A negative nice lifts one job only; a positive one moves all that come after it, too.
            const bool own_place = job->priority > 1 && !job->direct_set_prio && job->details &&
                                   job->details->nice >= NICE_OFFSET && !arena_record(job);
            if (own_place)
                static_cast<BasicQueue*>(argument)->entries_.push_back(
                    {job->job_id, job->priority});
            return 0;
        },
        this);
    std::sort(entries_.begin(), entries_.end(),
              [](const Entry& a, const Entry& b) { return a.id < b.id; });
}

std::uint32_t BasicQueue::place_of(const job_record_t* job) const {
    // Tasks of an array get their ids late, and were all submitted with it.
    const std::uint32_t submitted = job->array_job_id != 0 ? job->array_job_id : job->job_id;
    const auto after =
        std::lower_bound(entries_.begin(), entries_.end(), submitted,
                         [](const Entry& entry, std::uint32_t id) { return entry.id < id; });
    constexpr std::int64_t highest = 0xffff0000 - 1;  // job_mgr.c: TOP_PRIORITY, counted down from
    std::int64_t place = highest;
    if (after != entries_.begin())
        place = std::prev(after)->priority;
    else if (after != entries_.end())
        place = after->priority;
    place -= static_cast<std::int64_t>(job->details->nice) - static_cast<std::int64_t>(NICE_OFFSET);
    return static_cast<std::uint32_t>(std::clamp<std::int64_t>(place, 1, NO_VAL - 1));
}

bitstr_t* bitmap_of(const std::vector<std::string>& names) {
    bitstr_t* nodes = bit_alloc(node_record_count);
    for (const std::string& name : names) {
        const node_record_t* node = find_node_record(const_cast<char*>(name.c_str()));
        if (!node) {
            FREE_NULL_BITMAP(nodes);
            return nullptr;
        }
        bit_set(nodes, static_cast<bitoff_t>(node->index));
    }
    return nodes;
}

std::string limit_in_the_way(job_record_t*& job) {
    auto reason = static_cast<job_state_reason>(job_limits_check(&job, false));
    if (reason != WAIT_NO_REASON) return text_of(reason_name(reason));
    if (acct_policy_job_runnable_pre_select(job, false) &&
        acct_policy_job_runnable_post_select(job, job->tres_req_cnt, false))
        return {};
    return text_of(reason_name(static_cast<job_state_reason>(job->state_reason)));
}

namespace {

/// As Slurm's loops do: with what the job prefers, then without.
int select_with_features(job_record_t* job) {
    set_job_features_use(job->details);
    int rc = select_nodes_for(job, false);
    if (rc != SLURM_SUCCESS && job->details && job->details->prefer) {
        job->details->features_use = job->details->features;
        job->details->feature_list_use = job->details->feature_list;
        rc = select_nodes_for(job, false);
    }
    return rc;
}

}  // namespace

bool has_a_say(const job_record_t* job) {
    return job->details &&
           (job->details->contiguous || job->req_switch > 0 || segment_size(job->details) > 0);
}

int select_on(job_record_t* job, bitstr_t* chosen, bool each) {
    bitstr_t* masked = bit_copy(chosen);
    bit_not(masked);
    bitstr_t* excluded = job->details->exc_node_bitmap;
    if (excluded) bit_or(masked, excluded);
    job->details->exc_node_bitmap = masked;
    bitstr_t* required = job->details->req_node_bitmap;
    if (each) job->details->req_node_bitmap = bit_copy(chosen);
    int rc = select_with_features(job);
    if (each && job->details) {
        FREE_NULL_BITMAP(job->details->req_node_bitmap);
        job->details->req_node_bitmap = required;
    } else if (each) {
        FREE_NULL_BITMAP(required);
    }
    if (job->details) {
        FREE_NULL_BITMAP(job->details->exc_node_bitmap);
        job->details->exc_node_bitmap = excluded;
        if (rc != SLURM_SUCCESS && !each && has_a_say(job)) rc = select_with_features(job);
    } else {
        FREE_NULL_BITMAP(excluded);
    }
    return rc;
}

}  // namespace arena
