// SPDX-License-Identifier: GPL-2.0-or-later
// Shadow: the cluster as it would be, had Arena been acting since it began to observe. Each round
// sees it in place of Slurm's own, and what the round decides is carried out here: no job of
// Slurm's is touched. Jobs that Arena does not plan stay where Slurm has them; a planned job runs
// as long as it did in reality, in proportion to the iteration times of the two shapes. The shadow
// has a clock of its own, which stands where the next thing to happen depends on what a run of
// Slurm's has not shown yet (clock.cc): so what it decides rests on facts. Left out: that ordinary
// jobs would have started elsewhere or at other times.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plugin/sched/host/host.h"
#include "plugin/sched/observe/diary.h"
#include "plugin/sched/observe/ordinary_past.h"

namespace arena {

class Shadow {
  public:
    explicit Shadow(Diary& diary) : diary_(diary) {}

    /// Slurm's cluster as it is now.
    void see(ClusterView real);
    /// The one that the next round is to see: the clock goes on to the next event, by interval_s at
    /// most while jobs wait and more where it is far behind, and no further than what is known.
    ClusterView imagine(double interval_s);
    /// It can go on by that much or to an event: the round after it may start others.
    [[nodiscard]] bool is_due(double interval_s) const;

    // What the round does to jobs.
    ApplyResult start(const Shape& shape, const std::vector<std::string>& nodes);
    ApplyResult release(const Shape& shape);
    void hold_again(JobId id);
    /// It saves its state and waits for other nodes, at once.
    void leave(JobId id, std::int64_t done, bool counts);
    /// Slurm's alone from now on.
    void opt_out(JobId id);

    /// What the round believes of a job that it planned.
    struct Work {
        double remaining_iterations = 0;  ///< at the round's time; 0 = unknown
        double actual_iteration_s = 0;    ///< in the shape that Slurm gave it; 0 = unknown
        double restart_s = 0;             ///< of its next start, where it has run before
    };
    /// offers: what it could run with; work.actual_iteration_s is found among them.
    void note_work(JobId id, Work work, const std::vector<Offer>& offers);

    [[nodiscard]] bool has_jobs() const;
    [[nodiscard]] std::optional<DiaryLine> line(JobId id) const;
    /// visit(line) of all that are not over in both worlds.
    void visit(const std::function<void(const DiaryLine&)>& visit) const;
    struct Counts {
        /// GPU seconds that the plan used of GPUs which Slurm had given to others meanwhile.
        double overlap_gpu_s = 0;
        /// Jobs that ran, and that the plan never started: for gives_up_s no round had a plan for
        /// them, or more than most_behind of them waited.
        std::int64_t left_out = 0;
        double now_s = 0;     ///< Slurm's time, as last seen
        double behind_s = 0;  ///< the clock is behind that
    };
    static constexpr double gives_up_s = 600;
    static constexpr std::size_t most_behind = 1000;
    /// The clock waits for nobody longer, and for nobody at all where more jobs are open: then what
    /// is believed of their work stands for what is not known.
    static constexpr double most_behind_s = 7 * 86400;
    static constexpr std::size_t most_open = 20000;
    [[nodiscard]] Counts counts() const;
    /// Whose run has to show more before the clock goes on; 0 = nobody's. O(jobs).
    [[nodiscard]] JobId waits_for() const { return look_ahead().waits_for; }
    struct News {
        std::vector<std::string> starts;  ///< words for the log
        std::string problem;              ///< why the diary is not written, once each time
        std::vector<DiaryLine> both;      ///< of jobs that have started in both worlds
    };
    /// Since this was last asked.
    [[nodiscard]] News take_news() { return std::exchange(news_, {}); }

  private:
    enum class Actual { waits, runs, over };
    enum class Planned {
        waits,     ///< held by Arena
        released,  ///< its shape waits at its place in Slurm's queue
        runs,
        over,
        as_it_is,  ///< it ran before Arena observed, or is not Arena's: as Slurm has it
    };
    /// Shared by those that have the same.
    using NodeSet = std::shared_ptr<const std::vector<NodeIndex>>;
    struct Held {
        std::string node, gpu_type;
        std::int64_t gpus = 0, cpus = 0, memory_mb = 0;
    };
    struct Job {
        JobView view;  ///< as Slurm showed it last
        /// The nodes of its sets, once Slurm shows it no more: the numbers of a view are its own.
        std::optional<std::vector<NodeSet>> sets;
        Actual actual = Actual::waits;
        Planned planned = Planned::waits;
        Grid grid;    ///< that Slurm gave it
        Shape shape;  ///< that it waits or runs with
        std::vector<Held> held;
        double since_s = 0;     ///< of its run
        double believed_s = 0;  ///< its end, for all that is believed; infinite: nothing is
        JobMark mark;
        std::int64_t done = 0;  ///< iterations when that began
        Work work;
        double considered_s = 0;  ///< when a round last had a plan for it
        double seen_s = 0;        ///< in Slurm first
        double running_s = 0;     ///< there last
        double life_s = 0;        ///< when the last life that was seen there began
        /// Since its end until its nodes were seen free, as it would be of another; nothing: they
        /// are not free yet.
        std::optional<double> cleared_s;
        bool was_clearing = false;  ///< it was seen to hold them after its end
        bool ended_well = false;
        DiaryLine line;
        bool told = false;  ///< that it has started in both worlds
    };

    /// Of a job in the plan: when it is over there, or where that is not known yet, not before.
    struct End {
        double at_s = INFINITY;
        bool is_known = true;
    };
    struct Ahead {
        double event_s = INFINITY;  ///< the next thing that happens, as far as is known
        double horizon_s = 0;       ///< until when what happens is known
        JobId waits_for = 0;        ///< whose run keeps that from being now
        bool waits = false;         ///< some job waits in the plan
    };
    [[nodiscard]] double run_s(const Job& job) const;
    [[nodiscard]] double least_s() const;
    [[nodiscard]] End end_of(const Job& job) const;
    void look_at(const Job& job, Ahead& ahead) const;
    [[nodiscard]] Ahead look_ahead() const;
    [[nodiscard]] double next_time(const Ahead& ahead, double interval_s) const;
    void end_due(ClusterView& view);

    void take_in(const ClusterView& real);
    void take_in(const JobView& view, const ClusterView& real);
    [[nodiscard]] bool stays_as_it_is(const JobView& view) const;
    void notice_gone(const ClusterView& real);
    void notice_ends(const ClusterView& real);
    void keep_sets(Job& job);
    void share_sets(const std::vector<std::vector<NodeIndex>>& sets);
    void follow_clock(const ClusterView& real);
    static Held part_of(const Shape& shape, const std::string& node, std::size_t n);
    void run(Job& job, const Shape& shape, const std::vector<std::string>& nodes);
    void stop(Job& job, double at_s);
    void end(Job& job, double at_s);
    void tell();
    void close();
    void write(const DiaryLine& line);
    void leave_out();
    void occupy(const Job& job, ClusterView& view) const;
    void start_released(ClusterView& view);
    [[nodiscard]] bool is_shown(const Job& job) const;
    void show_jobs(ClusterView& view);
    [[nodiscard]] JobView shown(const Job& job, ClusterView& view) const;
    [[nodiscard]] bool is_planned(JobId id) const;
    Job* find(JobId id);

    Diary& diary_;
    std::map<JobId, Job> jobs_;
    struct Time {
        double since_s = 0;  ///< it is seen
        double now_s = 0;    ///< Slurm's, when it was seen last
        double clock_s = 0;  ///< of the plan
        /// Of the wall's clock beyond the monotonic one, when it was seen last.
        double ahead_s = 0;
    };
    Time time_;
    ClusterView real_;           ///< as seen last; what jobs hold is free in it
    OrdinaryPast others_;        ///< of jobs that are not planned
    std::vector<NodeSet> sets_;  ///< of the last view
    std::map<std::pair<std::string, std::string>, NodeIndex> nodes_;
    Counts counts_;
    bool write_failed_ = false;
    News news_;
};

}  // namespace arena
