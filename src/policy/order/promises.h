// SPDX-License-Identifier: GPL-2.0-or-later
// Promises: the first waiting job of each step of Slurm's order is promised an end, the one that it
// would have if Slurm started jobs in that order, each as its user would have asked Slurm, or,
// where nobody knows that, with the offer that ends first, while those that run last as long as
// their limits let them. What is promised is written into the snapshot (JobState::due_s); policies
// keep to it. Ordinary jobs, which Slurm starts, are promised theirs without any slack, and anew
// where their nodes come free later. Leaves out on purpose: any decision.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "policy/order/availability.h"

namespace arena {

/// The first ordinary jobs that are promised an end.
inline constexpr std::size_t most_ordinary = Holds::most / 2;

struct PromiseRules {
    std::int64_t depth = 10;  ///< steps whose first job is promised an end, 0 to Holds::most
    /// How much later than in Slurm's order it may end, as a share of its time from when it could
    /// first run to that end, >= 0.
    double slack = 0.1;
    /// Jobs of the list schedule, >= 1: what stands behind them has no promise yet.
    std::size_t jobs = 200;
};

/// Why a job that had started waits again, by Arena's word: for another plan or for others, because
/// a node is slow, or because lent nodes go back.
enum class Departure { none, move, slow_node, reclaim };

struct Promise {
    double submit_s = 0;    ///< of the job, as last seen
    double given_s = 0;     ///< by the epoch, as all times here
    double start_s = 0;     ///< in Slurm's order
    double end_s = 0;       ///< the same
    double due_s = 0;       ///< it ends by then: with the slack
    Chosen grid;            ///< with which it would
    double iterations = 0;  ///< that it has left, as its limit or its user says while it waits
    double done = 0;        ///< of those before: all of its runs had done so many
    bool started = false;
    bool broken = false;                  ///< it started too late, for the first time or again
    Departure left_by = Departure::none;  ///< since it was last found to start in time
    double left_s = 0;                    ///< when it was told to
    std::vector<JobId> ahead;             ///< ascending: who stood before it when it was given
    /// With that grid it ends by due_s if it starts by then.
    [[nodiscard]] double latest_start_s() const { return due_s - (end_s - start_s); }
    bool operator==(const Promise&) const = default;
};

/// Each counts once: kept where the job started early enough, by the estimate of what it got; of an
/// elastic one, which may begin with less and grow, also by that of what it was promised with. One
/// that was kept is broken instead where Arena has the job leave its nodes, and it starts again too
/// late for what it has left to do.
struct PromiseCounts {
    std::int64_t given = 0, kept = 0, broken = 0;
    bool operator==(const PromiseCounts&) const = default;
};

/// What was promised so far. A value: a copy is a whole one.
class PromiseBook {
  public:
    explicit PromiseBook(PromiseRules rules) : rules_(rules) {}

    /// Looks at a cluster as it is now, and sets due_s of each of its jobs, and behind_ordinary of
    /// those that run. With order value there
    /// are no promises. A promise moves earlier when jobs end early; it moves later only where
    /// others stand before the job that did not when it was given, and goes where the job does not
    /// stand first of its step any more before it started; one that has started stays with the job.
    /// Nothing is promised that rests on the end of a job of which nobody knows it, but to ordinary
    /// jobs: others give way for these. `may_have`:
    /// jobs that nobody's promise is for, as they wait for something else than GPUs, are false.
    /// O(jobs log jobs), and for each job of the list its choices x nodes, within
    /// options.search_steps.
    void give(Snapshot&, const Offers&, const PolicyOptions&,
              const std::function<bool(JobId)>& may_have = {});

    /// A running job has been told to leave its nodes. What was promised stands as it is, also in
    /// rounds that do not see the job, until drop_unseen().
    void note_departure(JobId, Departure, double now_s);

    [[nodiscard]] const Promise* find(JobId) const;
    [[nodiscard]] const PromiseCounts& counts() const { return counts_; }

    /// What outlives new rules, and slurmctld.
    struct Kept {
        std::map<JobId, Promise> promises;
        PromiseCounts counts;
        double looked_s = 0;
        bool operator==(const Kept&) const = default;
    };
    [[nodiscard]] Kept keep() const;
    /// Each promise stands until its job is in a cluster that give() looks at: from then on it is
    /// like any other. It is for the job of that id and submission.
    void take_over(Kept kept);
    /// Of those that were taken over and whose jobs have not been seen, and of those whose jobs
    /// were told to leave: those stay that are still `awaited`.
    void drop_unseen(const std::function<bool(JobId)>& awaited);
    /// Whether any job that has not started has a promise.
    [[nodiscard]] bool has_open() const;
    /// Since it was last asked: a date by a second or more, or anything else of a promise.
    [[nodiscard]] bool take_changed() { return std::exchange(changed_, false); }

  private:
    void see(const Snapshot&);
    void settle(const Snapshot&, const PolicyOptions&);
    template <typename Is>
    void erase_if(Is is) {
        changed_ = std::erase_if(promises_, is) > 0 || changed_;
    }
    [[nodiscard]] Promise promise_of(const Task&, const Availability::Start&,
                                     std::vector<JobId> ahead, double now_s) const;
    void promise(const JobState&, const Promise& made);
    void forget_missed(JobId ordinary, double now_s);
    [[nodiscard]] bool waits_in_vain(JobId ordinary, double now_s) const;
    void drop_vain(const Snapshot&);

    PromiseRules rules_;
    std::map<JobId, Promise> promises_;
    std::map<JobId, Promise> unseen_;  ///< taken over
    /// Of ordinary jobs that Slurm did not start in time: how often, and until when nobody gives
    /// way.
    struct Vain {
        int times = 0;
        double until_s = 0;
    };
    std::map<JobId, Vain> in_vain_;
    PromiseCounts counts_;
    double looked_s_ = 0;
    bool changed_ = false;
};

}  // namespace arena
