// SPDX-License-Identifier: GPL-2.0-or-later
// The state of one simulation, of which simulator.cc has the event loop, simulator_apply.cc what
// decisions and loans change, simulator_account.cc the sums, simulator_slow.cc slowdowns. The
// snapshot and the offers live through the whole simulation and change in place, so that a round
// costs time in the jobs there are, not in the trace.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <queue>
#include <tuple>

#include "policy/fabric.h"
#include "sim/loans/lending.h"
#include "sim/power/power.h"
#include "sim/simulator.h"
#include "sim/slow/slow_cluster.h"
#include "sim/slow/slow_watch.h"

namespace arena::sim {

constexpr double never = std::numeric_limits<double>::infinity();

/// What the simulator knows of a job in the system beyond what the snapshot tells the policy.
struct Live {
    std::uint32_t job = 0;   ///< index into Workload::jobs
    double work = 0;         ///< true iterations
    double said = 0;         ///< of them, what policies believe of the user's word
    double limit_s = 0;      ///< as enforced, of a run as requested
    double done = 0;         ///< when the GPUs were given
    double first_s = 0;      ///< first progress on these GPUs
    double progress_s = 0;   ///< progress at the present pace since then, or from then on
    double iteration_s = 0;  ///< true, on these GPUs, now
    std::uint32_t offer = 0;
    std::uint32_t version = 0;  ///< of its completion event
    double gpu_s = 0;           ///< held before these GPUs
    double held_s = 0;          ///< time with GPUs before these
    double boot_s = 0;          ///< that these GPUs' nodes had to boot first
    double demand_gpu_s = 0;    ///< asked for by all jobs present, until this one came
    SlowWatch slow = {};        ///< only where there are slowdowns
};

struct Completion {
    double at_s;
    JobId id;
    std::uint32_t version;
    bool operator>(const Completion& o) const {
        return std::tie(at_s, id) > std::tie(o.at_s, o.id);
    }
};

class Simulation {
  public:
    Simulation(const Workload& workload, const PolicyFunction& decide, const SimulationOptions& o)
        : workload_(workload),
          network_(network_of(workload)),
          decide_(decide),
          options_(o),
          policy_options_(o.policy),
          promises_(o.promises) {
        policy_options_.any_layout = true;
        policy_options_.explain = false;
        policy_options_.reserve_depth = 0;  // there are no jobs but the policy's own
        policy_options_.shares = workload.shares;
        ended_gpu_s_.resize(workload.accounts.size());
        if (o.priority_by_shares) account_shares_ = account_shares(workload);
        snapshot_.nodes = workload.nodes;
        if (workload.topology != NetworkKind::flat)
            metrics_.network = NetworkMetrics{.racks = workload.topology == NetworkKind::block};
        if (!workload.power.empty()) power_.emplace(workload.power);
        if (!o.ignore_network) {
            snapshot_.topology = workload.topology;
            snapshot_.switches = workload.switches;
        }
        snapshot_.node_sets.emplace_back(workload.nodes.size());
        for (NodeIndex i = 0; i < workload.nodes.size(); ++i) snapshot_.node_sets[0][i] = i;
        if (!o.slowdowns.empty())
            slow_ = std::make_unique<SlowCluster>(o.slowdowns, workload.nodes, o.slowdown.rules);
        for (const Slowdown& slow : o.slowdowns) slow_outcomes_.push_back({.slow = slow});
    }
    /// Before run(); an error where the inference curve does not fit the cluster.
    Status begin_loans();
    Result<Metrics> run(std::string_view name);

  private:
    void drop_stale_completions();
    [[nodiscard]] double next_event_s() const;
    void arrive();
    void hear(JobState&, Live&) const;
    void believe(JobState&, Live&) const;
    void complete();
    void update_jobs();
    Status decide();
    Status apply(const Decision&);
    Status check_stuck(const Decision&);
    Result<std::uint32_t> check_offer(const Action&, const JobState&, const Live&) const;
    Status take_nodes(const Action&);
    double wake(const std::vector<NodeIndex>& nodes);
    void tell_boots();
    void give_up(std::size_t at);
    void free_nodes(const JobState&);
    Status begin(std::size_t at, const Action&);
    static Fabric network_of(const Workload&);
    [[nodiscard]] SharedOffers told_of(const Profile&) const;
    void note_leaves(const Action&);
    void settle(Live&, double done);
    void end_stay(const JobState&, Live&, double done);
    [[nodiscard]] double done_now(const JobState&, const Live&) const;
    void say_what_is_left(JobState&, const Live&) const;
    [[nodiscard]] bool hides_work(const Live&) const;
    [[nodiscard]] double start_up_s(const JobState&, const Live&) const;
    [[nodiscard]] std::size_t find(JobId) const;
    void account(const JobState&, const Live&, bool finished);
    void change_demand(double gpus);
    static std::vector<double> account_shares(const Workload&);
    void rank_by_shares();
    [[nodiscard]] double fair_jct_s(const JobState&, const Live&) const;
    Status follow_loans();
    Status impose(const std::vector<Action>& moves);
    [[nodiscard]] double next_slow_s() const;
    bool advance_slowdowns();
    void place_slow(const JobState&, Live&);
    void leave_slow(Live&);
    void look_at_parts(Live&);
    void change_pace(const JobState&, Live&, double pause_s);
    void reprice(std::size_t at);
    void follow(const JobState&, Live&);
    bool answer(std::size_t at);
    void note_answer(const Live&, std::string_view name);
    void detect(const JobState&, Live&);
    void restart(std::size_t at);
    void set_next_answer(const JobState&, Live&);
    [[nodiscard]] bool has_other_place(const JobState&, const Live&) const;
    [[nodiscard]] double loss_rate(const Live&) const;
    void restrict_nodes();
    void finish_slow(Metrics&);
    Metrics finish(std::string_view name);
    void finish_speeds(Metrics&);
    [[nodiscard]] const Profile& profile(const Live& l) const {
        return workload_.profiles[workload_.jobs[l.job].profile];
    }
    Error broken(const Action& action, std::string_view what) const {
        return environment_error(fmt::format("at {:.3f} s the policy's {} of job {} {}",
                                             snapshot_.time_s, to_string(action.kind), action.job,
                                             what));
    }

    const Workload& workload_;
    Fabric network_;  ///< as it is, whatever policies know of it
    const PolicyFunction& decide_;
    const SimulationOptions& options_;
    PolicyOptions policy_options_;
    Snapshot snapshot_;
    PromiseBook promises_;
    Offers offers_;
    std::vector<Live> live_;  ///< parallel to snapshot_.jobs
    std::priority_queue<Completion, std::vector<Completion>, std::greater<>> completions_;
    std::size_t arrived_ = 0;  ///< jobs of the workload that came
    std::size_t running_ = 0;
    double due_s_ = never;  ///< a decision is wanted at this time
    double last_decision_s_ = -never;
    int idle_rounds_ = 0;
    Metrics metrics_;
    std::vector<double> decision_ms_;
    std::vector<std::pair<double, double>> speed_changes_;         ///< (time, samples/s)
    double demand_gpus_ = 0, demand_gpu_s_ = 0, demand_at_s_ = 0;  ///< as requested, jobs present
    std::vector<double> account_shares_;  ///< by account; only with priorities by shares
    std::vector<double> ended_gpu_s_;     ///< held by jobs that ended, by account
    double samples_ = 0, normalized_s_ = 0, held_gpu_s_ = 0;
    std::optional<Power> power_;              ///< nothing: no node sleeps
    std::optional<Lending> lending_;          ///< nothing: no inference beside the cluster
    std::unique_ptr<SlowCluster> slow_;       ///< nothing: no slowdowns
    std::map<JobId, SlowAvoidance> left_;     ///< nodes that jobs left, by job
    std::vector<SlowOutcome> slow_outcomes_;  ///< by row
    SlowMetrics slow_sums_;
};

}  // namespace arena::sim
