// SPDX-License-Identifier: GPL-2.0-or-later
// Shadow: the cluster as it would be, had Arena been acting since it began to observe. Each round
// sees it in place of Slurm's own, and what the round decides is carried out here: no job of
// Slurm's is touched. Jobs that Arena does not plan stay where Slurm has them; a planned job runs
// as long as it did in reality, in proportion to the iteration times of the two shapes, or as is
// believed of it until that is known. Left out: that ordinary jobs would have started elsewhere or
// at other times.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "plugin/sched/host/host.h"
#include "plugin/sched/observe/diary.h"

namespace arena {

class Shadow {
  public:
    explicit Shadow(Diary& diary) : diary_(diary) {}

    /// Slurm's cluster -> the one that the round is to see, at its time.
    ClusterView imagine(ClusterView real);

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
    void note_work(JobId id, const Work& work);
    /// "4xa40" as Slurm runs it; nothing of a job that does not run.
    [[nodiscard]] std::optional<Grid> actual_grid(JobId id) const;

    /// A job's end is due: the round after it may start others.
    [[nodiscard]] bool is_due(double now_s) const;
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
    };
    static constexpr double gives_up_s = 600;
    static constexpr std::size_t most_behind = 1000;
    [[nodiscard]] const Counts& counts() const { return counts_; }
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
    struct Held {
        std::string node, gpu_type;
        std::int64_t gpus = 0, cpus = 0, memory_mb = 0;
    };
    struct Job {
        JobView view;  ///< as Slurm showed it last
        /// The nodes of its sets, once Slurm shows it no more: the numbers of a view are its own.
        std::optional<std::vector<std::vector<NodeIndex>>> sets;
        Actual actual = Actual::waits;
        Planned planned = Planned::waits;
        Grid grid;    ///< that Slurm gave it
        Shape shape;  ///< that it waits or runs with
        std::vector<Held> held;
        double since_s = 0, ends_s = 0;  ///< of its run; infinite: nobody knows
        JobMark mark;
        std::int64_t done = 0;  ///< iterations when that began
        Work work;
        double considered_s = 0;  ///< when a round last had a plan for it
        DiaryLine line;
        bool told = false;  ///< that it has started in both worlds
    };

    void take_in(const ClusterView& real);
    void take_in(const JobView& view, const ClusterView& real);
    [[nodiscard]] bool stays_as_it_is(const JobView& view) const;
    void notice_gone(const ClusterView& real);
    void keep_sets(Job& job);
    static Held part_of(const Shape& shape, const std::string& node, std::size_t n);
    void run(Job& job, const Shape& shape, const std::vector<std::string>& nodes);
    void stop(Job& job, double at_s);
    void end(Job& job, double at_s);
    void end_due(double now_s);
    void tell();
    void close();
    void write(const DiaryLine& line);
    void leave_out();
    [[nodiscard]] double end_of(const Job& job) const;
    void put_back(ClusterView& view);
    void occupy(ClusterView& view);
    void start_released(const ClusterView& view);
    void show_jobs(ClusterView& view);
    [[nodiscard]] JobView shown(const Job& job, ClusterView& view) const;
    [[nodiscard]] bool is_planned(JobId id) const;
    Job* find(JobId id);

    Diary& diary_;
    std::map<JobId, Job> jobs_;
    double since_s_ = 0;  ///< of the first round
    double now_s_ = 0;
    std::vector<std::vector<NodeIndex>> sets_;  ///< of the last view
    std::map<std::pair<std::string, std::string>, NodeIndex> nodes_;
    Counts counts_;
    bool write_failed_ = false;
    News news_;
};

}  // namespace arena
