// SPDX-License-Identifier: GPL-2.0-or-later
// JobHistory: what happened to jobs, event by event, also to those that are over; and the latest
// news of all. A cache within bounds: the truth of a job is Slurm's record of it, and its
// accounting.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/cluster.h"
#include "plugin/sched/history/past_use.h"

namespace arena {

/// One line of the history's file: see history_file.h.
struct HistoryLine {
    double at_s = 0;  ///< seconds since the epoch
    JobId job = 0;    ///< 0: it is about nodes
    std::uint32_t uid = 0;
    std::string state, text;
    /// Of a job that is over: how much of what it said it used (past_use.h), and in which account.
    std::optional<double> used = {};
    std::string account = {};
    /// Of an iteration with the job's plan on its nodes, in seconds; 0: not said.
    double iteration_s = 0, estimate_s = 0;
    bool operator==(const HistoryLine&) const = default;
};

/// What a job that ended used of what it said.
struct JobUse {
    double used = 1;
    std::string account, text;
};

/// How a job ended, as Slurm has it.
struct LastRun {
    double start_s = 0, end_s = 0;  ///< of its last run, since the epoch
    std::optional<JobUse> use = {};
};

struct JobEvent {
    double at_s = 0;
    std::string state, text;
    double iteration_s = 0, estimate_s = 0;  ///< as in HistoryLine
};

struct JobPast {
    std::uint32_t uid = 0;
    bool over = false;           ///< it waits and runs no more
    std::uint64_t left_out = 0;  ///< events between the first and the last ones
    std::vector<JobEvent> events;
    std::uint64_t touched = 0;  ///< its place among those to be forgotten
    std::size_t bytes = 0;
    /// The last event that is no measurement, for those stand beside a job's states; null: none.
    [[nodiscard]] const JobEvent* last_told() const;
};

class JobHistory {
  public:
    struct Limits {
        std::size_t bytes = std::size_t{8} << 20;   ///< of all; who was longest over goes first
        std::size_t first_events = 8, events = 48;  ///< of one job: its first ones and all it has
        std::size_t news = 100;
        std::size_t text_bytes = 300;
        double same_state_s = 10;  ///< so often at most another reason for the same state
        double measured_s = 60;    ///< and another measurement of a run, twice as long each time,
        double measured_news = 0.05;  ///< where it differs from the last by such a part of that
    };
    static constexpr std::string_view over_state = "over", measured_state = "measured";

    JobHistory() = default;
    explicit JobHistory(const Limits& limits) : limits_(limits) {}

    /// Of a job that waits or runs. False, and nothing is kept, where the state is the same and was
    /// told less than same_state_s ago. What it was told last is the caller's to compare.
    bool note(HistoryLine line);
    /// Beside its state: always an event of its own, and news.
    void add(HistoryLine line);
    /// How long the iterations of the job's run take. No news to others; false, and nothing is
    /// kept, where it says what the last one of the run did, or comes too soon.
    bool measure(HistoryLine line);
    /// Those of which `gone` is true wait and run no more; `ends`: of those that ended well. A run
    /// that no round saw is noted, too.
    template <typename Gone>
    void end(Gone gone, double now_s, const std::map<JobId, LastRun>& ends = {}) {
        std::vector<JobId> ended;
        for (const auto& [touched, job] : alive_)
            if (gone(job)) ended.push_back(job);
        for (const JobId job : ended) {
            const auto end = ends.find(job);
            add_end(job, now_s, end == ends.end() ? nullptr : &end->second);
        }
    }
    /// About nodes: a news item only.
    void tell(double now_s, std::string state, std::string text);
    /// From the file: as it was told then, and no news.
    void recall(HistoryLine line);

    [[nodiscard]] const JobPast* find(JobId job) const;
    /// visit(id, past) of those that are over, the last to end first, until it returns false.
    template <typename Visit>
    void visit_over(Visit visit) const {
        for (auto at = over_.rbegin(); at != over_.rend(); ++at)
            if (!visit(at->second, jobs_.at(at->second))) return;
    }
    /// What the last jobs of a user, or of an account, used of what they said.
    [[nodiscard]] PastUse past_use(std::uint32_t uid, const std::string& account) const {
        return uses_.of(uid, account);
    }
    /// Changes of state of all jobs, and of nodes; the oldest first.
    [[nodiscard]] const std::deque<HistoryLine>& news() const { return news_; }
    [[nodiscard]] std::size_t jobs() const { return jobs_.size(); }
    [[nodiscard]] std::size_t bytes() const { return bytes_; }
    /// What was noted since this was last asked.
    [[nodiscard]] std::vector<HistoryLine> take_new() { return std::exchange(new_, {}); }

  private:
    JobPast& keep(const HistoryLine& line);
    void add_end(JobId job, double now_s, const LastRun* end);
    void add_news(HistoryLine line);
    void touch(JobId job, JobPast& past);
    void forget_oldest();

    Limits limits_;
    std::map<JobId, JobPast> jobs_;
    /// Those that are over, those that are not; the longest untouched first.
    std::map<std::uint64_t, JobId> over_, alive_;
    std::uint64_t touches_ = 0;
    std::size_t bytes_ = 0;
    PastUses uses_;
    std::deque<HistoryLine> news_;
    std::vector<HistoryLine> new_;
};

}  // namespace arena
