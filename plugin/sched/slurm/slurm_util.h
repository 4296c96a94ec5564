// SPDX-License-Identifier: GPL-2.0-or-later
// Small Slurm-facing helpers shared by the host_slurm_*.cc files: lock scopes, the supplemental
// environment of a job, Arena's mark and record in it.
#pragma once

#include "plugin/common/job_mark.h"
#include "plugin/common/slurm_compat.h"
#include "plugin/common/slurm_text.h"
#include "plugin/sched/host/host.h"

namespace arena {

/// Takes slurmctld's locks for its scope. `write` = what schedule() takes, `partitions`: those of
/// partitions, too; else a snapshot's reads.
/// Measures how long it held them: see lock_times().
class SlurmLock {
  public:
    enum class Kind { read, write, partitions };
    explicit SlurmLock(Kind kind);
    ~SlurmLock();
    SlurmLock(const SlurmLock&) = delete;
    SlurmLock& operator=(const SlurmLock&) = delete;

  private:
    Kind kind_;
    slurmctld_lock_t lock_;
    std::chrono::steady_clock::time_point since_;
    double cpu_since_ms_ = 0;
};
/// True from when slurmctld began to stop. Its agents send nothing any more: a job that starts now
/// would be saved as running and never be launched. Stock's schedule() and backfill end here, too.
bool controller_stops();

/// The write locks for one change to jobs. Its condition is false, and nothing may be changed, when
/// slurmctld stops: asked with the locks held, which may have taken long to get.
class ActionLock {
  public:
    ActionLock() : lock_(SlurmLock::Kind::write), open_(!controller_stops()) {}
    explicit operator bool() const { return open_; }

  private:
    SlurmLock lock_;
    bool open_;
};

/// Of this life of the plug-in: make_slurm_host() sets it back. Used by the scheduler's thread
/// alone.
LockTimes& lock_times();

/// Sets or replaces NAME=value in details->env_sup.
void set_supplement(job_record_t* job, std::string_view name, std::string_view value);
void forget_supplement(job_record_t* job, std::string_view name);
/// Removes every entry of env_sup whose name begins with "ARENA_" but the mark.
void clear_supplements(job_record_t* job);

/// ARENA_RECORD of a job that Arena manages; nullptr for every other job.
const char* arena_record(const job_record_t* job);
/// The same, while Arena observes of a job, too, that only seems to train something.
const char* planned_record(const job_record_t* job, HostMode mode);
/// ARENA_PROFILE of one of our carrier jobs; nullptr for every other job.
const char* carrier_request(const job_record_t* job);
/// ARENA_CARRIER of a job that trains members of arrays; nullptr for every other job.
const char* array_facts(const job_record_t* job);
/// Of such a job: since when it has been told to leave its nodes, as its mark says; 0 = it stays.
std::int64_t array_leaves_since(const job_record_t* job);
/// Whose job it measures for; its own user where it does not say (of an earlier version).
std::uint32_t carrier_for_user(const job_record_t* job);

/// Beside its batch script something of it runs.
[[nodiscard]] bool has_steps(const job_record_t* job);

std::optional<JobMark> read_mark(const job_record_t* job);
/// The phase begins now, in the job's present life; progress and moves stay. The first `started`
/// notes since when the job waited.
void write_mark(job_record_t* job, Phase phase, OtherHold hold = OtherHold::none);
/// A later version's mark stays.
void write_mark(job_record_t* job, const JobMark& mark);
JobFacts facts_of(const job_record_t* job);

/// Priority 0, WAIT_HELD, mark `held`; keeps age (see eligible_since).
void hold_for_arena(job_record_t* job, const char* reason);
/// A requeue moves the begin time as far ahead as credentials live, about two minutes; nobody
/// wished for it, and Arena keeps its own, shorter distance. A begin time that somebody set stays.
void forget_requeue_delay(job_record_t* job);
/// Slurm's own reasons for which a job may not be planned yet, and whether a reason text is one of
/// them.
bool is_deferral(job_state_reason reason);
/// A pending job whom nothing but room keeps, or the reason `also`.
bool waits_for_resources(const job_record_t* job, job_state_reason also = WAIT_NO_REASON);
bool deferred(std::string_view reason_text);
void note_job_change();

/// What a decision about the job rests on, in 64 bits (see Fingerprint): what it asks for, where it
/// may run and for how long, whose it is and its place in the queue. Not what Slurm changes by
/// itself or Arena writes.
std::uint64_t basis_of(const job_record_t* job);
/// FAIL_QOS or FAIL_ACCOUNT when the job's user has lost the right to it since the submission, as
/// schedule() asks; WAIT_NO_REASON else. Gives a job that regained it Slurm's pointers back.
job_state_reason lost_right(job_record_t* job);
/// What else schedule() asks of a pending job before select_nodes(), dependencies, begin time,
/// licences and limits aside: WAIT_NO_REASON or its reason.
job_state_reason not_startable(job_record_t* job);

/// Slurm's bitmap of exactly these nodes, to be freed; nullptr when one is gone.
bitstr_t* bitmap_of(const std::vector<std::string>& names);
/// Slurm's name of the partition, QOS or association limit that the job breaks; "" = none.
std::string limit_in_the_way(job_record_t*& job);
/// --contiguous, --switches and --segment are about nodes together, which no plan knows of.
bool has_a_say(const job_record_t* job);
/// Starts the job on nodes among the chosen ones (or, where it asks for nodes that lie together and
/// these do not, among all), and leaves no trace of them in its request: Slurm's code. each: on all
/// of the chosen, of which Slurm then fills one after the other.
int select_on(job_record_t* job, bitstr_t* chosen, bool each = false);

/// priority/multifactor: computes what Slurm would give the job were it not held, into
/// prio_factors, and returns it. Its age counts from eligible_since() to `reference`.
std::uint32_t multifactor_priority(job_record_t* job, time_t reference);
/// Of users, accounts and QOS: what exceeds them waits.
bool limits_are_enforced();
/// A released job gains age from then on as an ordinary one: since `eligible`, and where limits are
/// enforced within the limits of accruing jobs, which Slurm counts.
void start_accrual(job_record_t* job, time_t eligible);
/// The moment up to which Slurm has counted the age of the pending jobs: multifactor recalculates
/// them every PriorityCalcPeriod only, so an Arena job counted up to now would overtake older ones.
/// The earliest of them all, so that it overtakes none of them; now when there is none to overtake.
time_t age_reference();
/// Since when the job counts as waiting: its submission, or its begin time if later.
time_t eligible_since(const job_record_t* job);
bool basic_priority();

/// priority/basic counts down from job to job: the queue as ids and priorities of ordinary jobs
/// whose priority nobody set by hand, in order of ids. Built once, asked for many jobs.
class BasicQueue {
  public:
    BasicQueue();
    /// What Slurm would have given the job had it not been held at submission: that of the ordinary
    /// job submitted just before it, else just after it (Slurm orders equal priorities by job id),
    /// less nice.
    [[nodiscard]] std::uint32_t place_of(const job_record_t* job) const;

  private:
    struct Entry {
        std::uint32_t id, priority;
    };
    std::vector<Entry> entries_;
};

}  // namespace arena
