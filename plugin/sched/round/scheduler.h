// SPDX-License-Identifier: GPL-2.0-or-later
// Scheduler: owns the books and runs the stages of a round. Plain C++ on a Host; the plug-in's
// thread calls it, unit tests drive it with a scripted host.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "plugin/common/shared.h"
#include "plugin/sched/history/history_file.h"
#include "plugin/sched/round/books.h"
#include "plugin/sched/round/report.h"
#include "store/state_file.h"

namespace arena {

class Scheduler {
  public:
    Scheduler(Host& host, Config config, std::vector<GpuType> hardware, Calibration calibration,
              PlanLimits limits = {});

    /// One round. Not thread-safe; never called with locks held.
    void round();

    /// Jobs that were told to leave and have ended are let go, in time for what waits for them:
    /// between rounds, too. `all`: see HostJobs::settle_ends().
    void settle_ends(bool all);
    /// A running job's iteration time: corrects the offers of its like from now on and goes to the
    /// store.
    void observe(const LeftReport& left, double now_s);
    /// A running job says that a GPU or a link is slow, or is so no more.
    void on_slow_report(const LeftSlowReport& left, double now_s);
    /// A running job found one of its devices slow; `leave`: and is to be moved off the node.
    void note_slow(const SlowVerdict& verdict, bool leave, double now_s);
    /// An update that job_modify took or refused: why it was refused stands before what the job
    /// waits for, until another is taken or the job starts.
    void note_update(const LeftUpdate&);
    void count_fault() { ++stats_.faults; }
    /// A round is due although Slurm has nothing of Arena's: a check was asked for, or nodes are
    /// lent, or may be, or the last job of Arena's is over and nobody has noticed.
    [[nodiscard]] bool has_work() const {
        return books_.checks.has_work() || books_.loans.has_work() || !books_.statuses.empty();
    }
    /// The next round is to come as soon as one may.
    [[nodiscard]] bool hurries() const { return books_.loans.has_work() && books_.loans.hurries(); }
    /// In place of a round, where Arena is off: what is lent goes back in time, no more.
    void keep_deadlines();

    /// What jobs and administrators said once, and what no record of Slurm's has yet: for the
    /// scheduler of another configuration. This one has it no more.
    struct Kept {
        SlowdownBook slowdown;
        std::map<JobId, std::vector<AvoidedNode>> leaving;
        std::vector<SlowVerdict> verdicts;
        CheckBook::Entries checks;
        LoanMemory loans;
        /// None: it, promises and boots are read from their files.
        std::optional<JobHistory> history;
        std::map<JobId, ArrayBook::Carrier> arrays;
        PromiseBook::Kept promises;
        PromiseWatch promise_watch;
        BootBook::Kept boots;
    };
    [[nodiscard]] Kept keep();
    void take_over(Kept kept);

    /// JSON documents for the socket: see report.h; snapshot_json: `arena snapshot save`.
    [[nodiscard]] std::string explain(JobId job, const Asker& asker = {}) {
        return explain_json(books_, round_.snapshot, job, asker);
    }
    [[nodiscard]] std::string stats_json(const Asker& asker = {},
                                         const SlowReportCounts& slow_reports = {}) const {
        return arena::stats_json(
            books_, {stats_, host_.lock_times(), slow_reports, round_.snapshot}, asker);
    }
    [[nodiscard]] std::string queue_json(const Asker& asker = {}) const {
        return arena::queue_json(books_, round_.view.snapshot.time_s, asker);
    }
    [[nodiscard]] std::string snapshot_json() const;
    [[nodiscard]] std::string history_json(JobId job, const Asker& asker) const {
        return arena::history_json(books_, job, asker);
    }
    /// What is shown to everybody: plugin/sched/live.
    [[nodiscard]] Books& books() { return books_; }
    [[nodiscard]] const Round& last_round() const { return round_; }
    [[nodiscard]] const SchedulerStats& stats() const { return stats_; }
    /// `arena slowdown`: of `word`, a job or a node. Whether who asks may is asked before.
    std::string slowdown(SlowdownVerb verb, std::string_view word, const Asker& asker);
    /// `arena loan`: the same.
    std::string loan(LoanVerb verb, std::string_view words);
    /// `arena array list`: the asker's, and others' where the asker sees them.
    [[nodiscard]] std::string arrays(const Asker& asker) const;
    /// Longest and mean times are counted afresh; counters are not.
    void forget_times();

  private:
    void note_imposed_moves();
    void give_promises();
    void keep_promises();
    void keep_boots();
    void recall();
    void recall_promises();
    void recall_boots();
    PromiseWatch::News look_at_promises();
    void end_late(const ClusterView& view);
    void keep_history();
    void tell_of_leases();
    void take_verdict(const LeftSlowReport& left, double now_s);
    [[nodiscard]] bool is_suspected(const std::string& node) const {
        return books_.slowdown.is_suspected(node) || !books_.nodes.slow(node).empty();
    }
    std::string clear_slowdown(const std::string& node);
    std::set<JobId> close_events(const std::string& node, std::optional<SlowCause> cause);
    [[nodiscard]] bool is_node(const std::string& node);
    std::string check_slowdown(const std::string& node);
    [[nodiscard]] std::string what_is_slow(JobId job) const;
    [[nodiscard]] const Offer* nearest_of(JobId job, const Offer& offer) const;
    [[nodiscard]] double slower_there(JobId job, const Offer& offer, const Offer& nearest) const;
    [[nodiscard]] Snapshot as_started() const;
    void write_leases();

    Host& host_;
    Books books_;
    SchedulerStats stats_;
    Round round_;  ///< the last one, for who asks
    HistoryFile history_file_;
    /// What the next slurmctld is to know.
    struct State {
        StateFile file;
        const char* what;           ///< is forgotten without the file
        bool write_failed = false;  ///< and that was said
    };
    void write(State& state, std::string_view text);
    State promise_state_, boot_state_;
    bool history_failed_ = false;                ///< and that was said
    double promises_kept_s_ = 0;                 ///< when their file was written last
    std::map<std::string, std::string> leases_;  ///< of nodes, as last told of
    std::vector<Journal::Start> starts_;         ///< since the last round was looked at
};

}  // namespace arena
