// SPDX-License-Identifier: GPL-2.0-or-later
// Host: what the scheduler needs of slurmctld, in plain values. host_slurm_*.cc implement it with
// Slurm's internal calls; tests implement it with a script. No Slurm type passes this line.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "core/cluster.h"
#include "core/profile.h"
#include "plugin/common/job_mark.h"
#include "plugin/sched/host/arrays.h"
#include "plugin/sched/host/loans.h"
#include "plugin/sched/host/ordinary.h"
#include "policy/forecast.h"

namespace arena {

/// Whether jobs are Arena's to schedule, or only to look at: then what ordinary jobs seem to train
/// is read, too, and nothing is held.
enum class HostMode { acts, observes };

enum class HostJobState { pending, running, suspended, completing, finished };

/// What decides how a job is to be treated; cheap to fill under the lock.
struct JobFacts {
    HostJobState state = HostJobState::pending;
    bool held = false;           ///< priority 0
    bool special_exit = false;   ///< left with a RequeueExitHold code
    bool asked_to_hold = false;  ///< the record says sbatch --hold
    std::uint32_t restart = 0;
    std::optional<JobMark> mark;
};

/// What to do with a job before anything is planned.
enum class Step {
    none,            ///< leave as it is
    take,            ///< hold it for Arena, mark it held with its present restart count
    take_user_hold,  ///< the same, but the user's own --hold stays in force
    mark_started,    ///< Slurm started it in the shape we released it with
};
/// Pure; why: doc/design.md, sections 3 and 4.
Step classify(const JobFacts&);
/// The same while Arena only observes: no job is held; those that an acting Arena held are taken,
/// to be let go.
Step classify_observed(const JobFacts&);
/// True of a mark of this life that says: Slurm may start it in the shape that Arena wrote.
bool waits_released(const JobFacts&);
/// True if Arena may plan the job now (dependencies and begin time aside).
bool plannable(const JobFacts&);

/// A job's ARENA_RECORD. Jobs that carry the same one share its text; there is none where the
/// reader knows what a record of this tag says.
struct RecordText {
    std::uint64_t tag = 0;  ///< changes with the text
    std::shared_ptr<const std::string> text;
    RecordText() = default;
    RecordText(std::string words)
        : tag(tag_of(words)), text(std::make_shared<const std::string>(std::move(words))) {}
    static std::uint64_t tag_of(std::string_view words) {
        return std::hash<std::string_view>()(words);
    }
};

/// Of a task of a job array, or of the record that stands for those that have none of their own.
struct ArrayPlace {
    JobId id = 0;            ///< the array's; 0 = the job belongs to none
    std::uint32_t task = 0;  ///< its number there
    std::int64_t left = 0;   ///< > 0: tasks that this record stands for
    std::int64_t limit = 0;  ///< tasks of the array that may run at a time; 0 = any number
};

/// Where Slurm would try a job, and as what.
struct PartitionSlot {
    std::string partition;
    Place place;  ///< its nodes and limits
    /// Slurm itself starts it there: with its --time-min, when whole nodes have become idle, or by
    /// another topology than the cluster's default.
    bool by_slurm = false;
};

/// Sets of nodes that a job may have, and which of its nodes they lack because it avoids these.
struct AvoidingChoice {
    std::uint32_t node_set = 0;
    std::vector<std::uint32_t> slot_sets;  ///< of its slots, in their order
    std::vector<NodeIndex> avoided;
};

struct JobView {
    JobId id = 0;
    JobFacts facts;
    ArrayPlace array;
    JobOwner owner;  ///< of an array's alone
    std::uint32_t user_id = 0;
    std::string account;  ///< as Slurm charges it; "" = it has none
    RecordText record;
    bool as_if = false;       ///< an ordinary job: the record is made of what its script says
    std::string comment;      ///< the user's Comment, may hold "arena:..."
    std::uint64_t basis = 0;  ///< fingerprint of what a decision about the job rests on
    std::string reason;       ///< state_desc as squeue shows it
    std::string partition;
    std::string name;        ///< as its user calls it: any bytes
    std::string offer_json;  ///< ARENA_PLAN as last written; "" = none
    double submit_s = 0, eligible_s = 0, start_s = 0, time_limit_s = 0;
    double priority = 0;  ///< what Slurm would give it were it not held
    /// The same as order priority has it: with priority/basic, which only counts jobs, by_nice().
    double rank = 0;
    /// When Slurm expects the first startable ordinary job before it that shares its nodes to
    /// start; 0: it has not said; infinite: there is none.
    double ordinary_start_s = INFINITY;
    [[nodiscard]] bool ordinary_ahead() const { return ordinary_start_s < INFINITY; }
    bool eligible = true;        ///< no unmet dependency, begin time reached
    std::uint32_t node_set = 0;  ///< index into ClusterView::snapshot.node_sets: of all its slots
    std::vector<PartitionSlot> slots;  ///< in Slurm's order
    std::string no_place;  ///< Slurm's reason where no partition takes the job; "" = one does
    /// It changed while the cluster was read, slice by slice: it is there, and left alone this
    /// time.
    bool changing = false;
    std::string
        no_nodes;  ///< Slurm's reason where none of its nodes with GPUs will do; "" = some will
    bool is_cut = false;  ///< reservations of others leave it only some of its nodes
    bool configuring =
        false;               ///< running: a Prolog or a booting node still keeps its script waiting
    double array_gpu_s = 0;  ///< of its array's GPUs, as its AdminComment has it
    std::vector<NodeIndex> excluded;  ///< in its ExcNodeList by Arena, beside its user's own
    std::vector<NodeIndex> avoided;   ///< of the nodes that it could have: see Avoidance
    /// What it has besides where it cannot do with the nodes that are left, step by step.
    std::vector<AvoidingChoice> eased;
    std::vector<NodeIndex> nodes;  ///< running or completing: those it holds
    double plan_s = 0;  ///< > 0: since when it has its present plan, which is not its life's first
    [[nodiscard]] double plan_since_s() const { return plan_s > 0 ? plan_s : start_s; }
    std::string batch_host;  ///< running: the node that it can never leave and go on
    bool has_steps = false;  ///< running: beside its script
    /// Told to save its state: the plan that it goes on with inside itself, as JSON, and on which
    /// of its nodes; "" = it is to leave.
    std::string next_json, next_nodes;
    bool nodes_open = false;  ///< and all of them will take another job after it: none is drained
};

/// priority/basic only counts down from job to job, so that they stand by submission: 1 for each,
/// and more for one that an operator lifted. A nice above 0 lets nobody pass: who comes later gets
/// less still. nice: as sbatch --nice.
inline double by_nice(std::int64_t nice) { return nice < 0 ? 1 - static_cast<double>(nice) : 1; }

/// The id that the job's place in the queue goes by: tasks of an array have that of the array.
inline JobId submitted_as(const JobView& job) { return job.array.id != 0 ? job.array.id : job.id; }

/// What keeps others' jobs off a node, in Arena's name.
enum class Fence { none, reserved, drained };

/// Of a node that is not simply awake.
enum class NodePower {
    asleep,          ///< a job would wake it up
    falling_asleep,  ///< and will be, by Slurm's or an administrator's word
    waking,          ///< it boots, for a job or by an administrator's word
    unbooted,        ///< it did not within ResumeTimeout, a moment ago: see BootBook
};

/// What a node's record says for Arena.
struct NodeRecord {
    std::string extra;  ///< its Extra field
    double boot_s = 0;  ///< since when it is up, by the epoch; 0 = not known
    Fence fence = Fence::none;
    std::string comment = {};  ///< its Comment, where its own tools said something (src/health)
};

/// A profiling job of the service user.
struct CarrierView {
    JobId id = 0;
    std::uint32_t user_id = 0;  ///< anybody's: who it must be is ProfileBook's to check
    std::string request;        ///< ProfileRequest JSON
    std::string node;           ///< "" = it never ran
    bool finished = false;
    double start_s = 0, end_s = 0;
    std::uint32_t for_user = 0;  ///< whose job it measures for
    bool cancelled = false;
};

/// A job of Arena's that ended by itself or by its time limit: neither failed nor cancelled.
struct EndedJob {
    JobView job;  ///< id, facts, owner's ids, plan, start and limit: no more
    double end_s = 0;
    bool by_limit = false;
};

/// A job that is over, as Slurm ran it.
struct OverJob {
    JobId id = 0;
    double start_s = 0;  ///< 0: it never ran
    double end_s = 0;
};

struct ClusterView {
    Snapshot snapshot;  ///< time, nodes, node_sets; jobs empty
    /// Of the monotonic clock, read with the snapshot: what lasts is measured by it, since
    /// snapshot.time_s jumps where somebody sets the clock.
    double steady_s = 0;
    std::vector<std::int64_t> node_cpus, node_memory_mb;  ///< totals, by node index
    std::map<NodeIndex, NodeRecord> node_records;         ///< of those that say something
    std::map<NodeIndex, NodePower> power;                 ///< of those that are not awake
    [[nodiscard]] bool is(NodePower what, NodeIndex node) const {
        const auto at = power.find(node);
        return at != power.end() && at->second == what;
    }
    /// A set that lacks nodes because they are avoided -> the set with them: see Avoidance.
    std::map<std::uint32_t, std::uint32_t> whole_sets;
    [[nodiscard]] std::uint32_t whole_set(std::uint32_t node_set) const {
        const auto at = whole_sets.find(node_set);
        return at == whole_sets.end() ? node_set : at->second;
    }
    /// Adds the node of this first entry, with all its entries.
    void add_parts(NodeIndex first, std::vector<NodeIndex>& to) const {
        const NodeParts parts = parts_of(snapshot.nodes, first);
        for (NodeIndex n = parts.first; n < parts.last; ++n) to.push_back(n);
    }
    /// Those that take new jobs: their nodes, in ascending order.
    std::map<std::string, std::vector<NodeIndex>, std::less<>> partitions;
    std::vector<JobView> jobs;
    std::vector<EndedJob> ended;  ///< since the last reading
    std::vector<OverJob> over;    ///< the same of all jobs that are observed, however they ended
    std::vector<CarrierView> carriers;
    std::vector<ArrayCarrierView> arrays;
    std::vector<Occupied> running;      ///< everybody's, ours too
    std::vector<OrdinaryJob> ordinary;  ///< that wait: the first ones of a partition
    double preemption_wait_s =
        40;  ///< KillWait + MessageTimeout: how long Slurm's preemption may take
    bool memory_tracked = false;  ///< memory is a consumable resource here
    /// Ranks keep leaf or block together, whatever the order of nodes.
    bool ranks_follow_network = false;
    double since_recovery_s =
        INFINITY;  ///< since slurmctld came up with jobs of an earlier life; infinite: with none
};

/// The shape a job is rewritten to, and everything that goes with it.
struct Shape {
    JobId job = 0;
    std::uint32_t restart = 0;  ///< re-checked at apply
    std::uint64_t basis = 0;    ///< the same: JobView::basis as it was planned
    Offer offer;
    std::int64_t tasks_per_node = 1;  ///< of an uneven grid: on the node with the most GPUs
    std::int64_t cpus_per_task = 1;
    std::int64_t cpus_per_gpu = 0;  ///< > 0: instead of that; of an uneven grid with a task a node
    [[nodiscard]] std::int64_t tasks() const {
        const bool by_gpu = offer.grid.is_uneven() && cpus_per_gpu == 0;
        return by_gpu ? offer.grid.gpus() : offer.grid.nodes * tasks_per_node;
    }
    std::int64_t memory_mb_per_node = 0;   ///< 0 = leave to Slurm
    std::int64_t memory_mb_per_cpu = 0;    ///< > 0: instead of that
    std::int64_t memory_mb_per_gpu = 0;    ///< > 0: instead of that; of an uneven grid
    std::string partition;                 ///< to start it in, one of the job's
    bool on_lent = false;                  ///< some of its nodes are lent: it passes their guards
    JobId array = 0;                       ///< a member of what that job trains: without GPUs
    std::vector<std::string> exclude;      ///< nodes that Slurm is to leave out, too
    std::vector<std::string> environment;  ///< NAME=value, merged over the job's environment
    std::string admin_comment, system_comment;
};

enum class ApplyOutcome {
    done,
    retry,    ///< refused; the job is held again
    never,    ///< the same: no node can hold the shape
    limited,  ///< the same, by a limit: no fault, and it may be lifted when a job ends
    stale,    ///< not the job or the nodes that were planned any more; nothing was changed
    waiting_for_preemption,  ///< keeps shape and priority: Slurm is preempting for it
    busy,                    ///< keeps shape and priority: the nodes are not free (yet)
};
struct ApplyResult {
    ApplyOutcome outcome = ApplyOutcome::done;
    std::string text;  ///< Slurm's words when not done
};

struct CarrierSpec {
    ProfileRequest request;
    std::string check;  ///< a CheckRequest: then of `request` the GPU type alone counts
    std::int64_t gpus = 1;
    std::string reservation;  ///< that it runs in; "" = none
    std::uint32_t user_id = 0, group_id = 0;
    std::string partition;
    std::string node;  ///< exactly this node
    std::int64_t cpus = 1;
    std::int64_t memory_mb = 0;  ///< 0 = leave to Slurm
    std::uint32_t time_limit_minutes = 1;
    std::string comment;
    /// Whose account pays for it and limits it, if the service user may charge that; 0 = its own.
    JobId for_job = 0;
    std::uint32_t for_user = 0;
};

struct CarrierStart {
    JobId id = 0;  ///< 0: nothing was started
    /// It is this node that Slurm does not give now: another may do. Else the partition takes no
    /// such run at all.
    bool other_node = false;
    /// It is the account of the job it is for: another user's run may start.
    bool other_user = false;
    std::string why;  ///< Slurm's words when nothing was started
};

/// Longest times that our thread has held slurmctld's locks at once.
struct LockTimes {
    double read_max_ms = 0, write_max_ms = 0;
    /// Of the processor's time meanwhile: the rest went by waiting for a core, which a busy machine
    /// makes long.
    double read_cpu_max_ms = 0, write_cpu_max_ms = 0;
};

/// What the cluster is like.
class HostReader {
  public:
    virtual ~HostReader() = default;
    /// True when the headers we were built with match the running slurmctld.
    virtual bool layout_is_sound(std::string* what) = 0;
    /// Anything for us at all? Cheap: no Arena job and no carrier means no round.
    virtual bool has_work() = 0;
    /// Whether the record of this tag and the comment of this job have been read already.
    using KnowsRecord =
        std::function<bool(JobId, std::uint64_t record_tag, std::string_view comment)>;
    /// Nodes and running jobs as they are at one moment; waiting jobs follow in slices, those that
    /// changed since marked so.
    virtual ClusterView collect(const KnowsRecord& knows) = 0;
    /// Second of the newest change to any job or node; lock-free.
    virtual std::int64_t last_change() = 0;
    /// Whether Slurm itself, starting a released job, keeps the segments of its plan whole.
    [[nodiscard]] virtual bool keeps_segments() const = 0;
};

/// What a job goes on with inside itself, on nodes of its own.
struct Stay {
    Offer offer;
    std::vector<std::string> nodes;
};

/// Why a running job is told to save its state, and what its next start obeys.
struct Move {
    std::string why = {};  ///< "leaves n3: ...", shown as its reason; "" = for another plan
    std::vector<AvoidedNode> avoid = {};  ///< kept in its mark
    /// Among its moves per hour: Arena's own decision, neither its user's wish nor a reclaim.
    bool counts = false;
    bool leaves_slow = false;  ///< because of a slow GPU or link
    bool gives_back = false;   ///< because nodes that were lent go back
    std::string comment = {};  ///< "slow=n3/1:compute:x2.10 action=S4", added to its AdminComment
    std::optional<Stay> stay = {};
};

/// Changes nodes.
class HostNodes {
  public:
    virtual ~HostNodes() = default;
    struct ExtraChange {
        std::string node, before, after;
        bool operator==(const ExtraChange&) const = default;
    };
    /// Those that still read `before`; saved with the nodes. Which nodes were written.
    virtual std::vector<std::string> write_extras(const std::vector<ExtraChange>&) = 0;
    struct Fencing {
        std::string node;
        Fence fence;
        std::string why;
        std::string user = {};  ///< who may use the reservation beside SlurmUser; "" = nobody
    };
    /// From whatever fence of Arena's the node has to this one; a drain or a reservation that is
    /// somebody else's stays.
    virtual ApplyResult fence(const Fencing&) = 0;
};

/// What the site says of leaving: see Config.
struct LeaveRules {
    double grace_s = 0;  ///< within which a job that is told to is to have left
    std::int64_t requeue_code = 0;
};

/// Changes users' jobs.
class HostJobs {
  public:
    virtual ~HostJobs() = default;
    /// Applies classify() to every Arena job; returns how many changed.
    virtual std::size_t survey(
        const std::function<bool(const std::string& record)>& asks_to_hold) = 0;
    /// Held jobs: what squeue shows as reason, and AdminComment; written only where different.
    struct Reason {
        JobId job;
        std::string text = {}, admin_comment = {}, system_comment = {};
        bool released = false;  ///< of a job that waits released: the text alone is written
    };
    virtual void set_reasons(const std::vector<Reason>&) = 0;
    /// Words of how its time went, for the AdminComment of a job that is over.
    struct EndWords {
        JobId job;
        std::string words;
    };
    virtual void note_ends(const std::vector<EndWords>&) {}
    /// Held jobs: when they are expected to start, as squeue --start shows it; 0 = nobody knows.
    /// Times that differ little are left as they are.
    struct Expected {
        JobId job;
        double start_s;
    };
    virtual void set_expected_starts(const std::vector<Expected>&) = 0;
    /// Rewrites and starts on exactly `nodes`; see ApplyOutcome for what a failure leaves.
    virtual ApplyResult start(const Shape&, const std::vector<std::string>& nodes) = 0;
    /// Rewrites and releases at the job's place in the queue: Slurm reserves for it.
    virtual ApplyResult release(const Shape&) = 0;
    /// Takes a released job back.
    virtual ApplyResult hold_again(JobId, std::uint32_t restart) = 0;
    /// Gives so many tasks of an array's record, the lowest first, records of their own: copies of
    /// it with its mark.
    virtual ApplyResult split(JobId, std::uint32_t restart, std::int64_t tasks) = 0;
    /// Makes it an ordinary job of this shape and lets it go: for good (Comment=arena:off), or as
    /// long as Arena only observes.
    virtual ApplyResult opt_out(const Shape&, Phase left) = 0;
    /// Sends the checkpoint signal and marks the job checkpointing, with `done` iterations behind
    /// it. Neither a cool-down nor a drained node is in the way.
    virtual ApplyResult checkpoint(JobId, std::uint32_t restart, int signal, std::int64_t done,
                                   const Move& move) = 0;
    /// The job, which has saved its state and asks for its plan, goes on with this one on these
    /// nodes, of those that it has; the others are given back. Saved on disk before it is told.
    /// What Slurm refuses ends the stay: the job is to leave.
    virtual ApplyResult stay(const Shape&, const std::vector<std::string>& nodes) = 0;
    /// Of a job that cannot leave yet: kept in its mark.
    virtual ApplyResult note_avoided(JobId, std::uint32_t restart,
                                     const std::vector<AvoidedNode>& nodes) = 0;
    /// What a running job said of slow GPUs, as words of its AdminComment: see with_slow_words().
    virtual ApplyResult show_slowdown(JobId, std::uint32_t restart, const std::string& words) = 0;
    /// Deadline passed: requeue and hold, if it still runs with that restart count. One that was
    /// told to save has not: see left_unsaved().
    virtual ApplyResult requeue_hold(JobId, std::uint32_t restart) = 0;
    struct Left {
        JobId job = 0;
        std::uint32_t user_id = 0;
        double at_s = 0;
    };
    /// Jobs that were told to save and are over or completing are let go; those that left without a
    /// checkpoint are requeued and held, as by the requeue code. `all`: whatever is in Slurm's list
    /// is looked at, for they may have ended while nobody watched.
    virtual std::vector<Left> settle_ends(const LeaveRules& rules, bool all) = 0;
    /// The running job goes on: what it left without a checkpoint before counts no more. Its first
    /// step was done `trained_s` seconds ago: what its last move took is known; below 0: not said.
    virtual void note_progress(JobId job, double trained_s) = 0;
};

/// Makes Arena's own jobs.
class HostCarriers {
  public:
    virtual ~HostCarriers() = default;
    /// On exactly its node and now, or not at all. What Slurm refused stays in its job list,
    /// cancelled.
    virtual CarrierStart start_carrier(const CarrierSpec&) = 0;
    /// Cancels one that is not over: nobody waits for what it measures.
    virtual void end_carrier(JobId) = 0;
    /// Whether measuring code may run as this user: never root or nobody, and SlurmUser only where
    /// slurmd itself runs as that user (a private cluster of one user).
    virtual bool may_profile_as(std::uint32_t user_id) = 0;
};

/// All calls come from the scheduler's one thread and take and give back their own locks; none
/// holds a lock longer than about `slice_ms`.
class Host : public HostReader,
             public HostNodes,
             public HostLoans,
             public HostJobs,
             public HostArrays,
             public HostCarriers {
  public:
    /// True from when the controller, or only this plug-in, began to stop: every change answers
    /// stale from then on, and a round in progress ends.
    [[nodiscard]] virtual bool stopping() const { return false; }
    [[nodiscard]] virtual LockTimes lock_times() const { return {}; }
    /// Counts the longest times afresh.
    virtual void forget_lock_times() {}
    virtual void log_info(const std::string&) = 0;
    virtual void log_error(const std::string&) = 0;
};

}  // namespace arena
