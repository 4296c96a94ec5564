// SPDX-License-Identifier: GPL-2.0-or-later
// See forecast.h. Ends that lie close together, for how far ahead they are, count as one: the times
// are no better than that, and each moment costs a decision.
#include "policy/forecast.h"

#include <algorithm>
#include <cmath>
#include <queue>
#include <tuple>
#include <utility>

#include "policy/fabric.h"

namespace arena {
namespace {

constexpr double together_s = 5, together_share = 0.02;

struct End {
    double at_s;
    JobId job;  ///< 0: of nobody in the snapshot
    std::vector<Occupied::Part> parts;
    bool operator>(const End& other) const {
        return std::tie(at_s, job) > std::tie(other.at_s, other.job);
    }
};

/// How long it will run from now with what it has; infinite where neither its user nor a limit
/// says.
double lasts_s(const JobState& job, double restart_s) {
    double left_s = job.time_limit_s > 0 ? job.time_limit_s : INFINITY;
    if (job.remaining_iterations > 0 && !job.overrun && job.current)
        left_s = std::min(left_s,
                          restart_s + job.remaining_iterations * job.current->estimate.iteration_s);
    return left_s;
}

class Forecast {
  public:
    Forecast(const Policy& policy, Snapshot snapshot, const Offers& offers, PolicyOptions options,
             const ForecastLimits& limits)
        : policy_(policy),
          now_(std::move(snapshot)),
          offers_(offers),
          options_(std::move(options)),
          limits_(limits) {
        options_.explain = false;
    }

    std::map<JobId, ExpectedStart> run() {
        keep_first_jobs();
        for (const Occupied& other : now_.others)
            if (std::isfinite(other.end_s)) ends_.push({other.end_s, 0, other.parts});
        for (JobState& job : now_.jobs) {
            if (job.phase != JobPhase::running || !job.current) continue;
            job.elastic = false;  // moves would make it a tree of futures
            note_end(job, 0);
        }
        for (std::size_t asked = 0; waiting_ > 0 && asked < limits_.decisions && limits_.go_on();
             ++asked) {
            decide();
            if (waiting_ == 0 || !advance()) break;
        }
        return std::move(expected_);
    }

  private:
    /// Without ordinary jobs: nobody starts them here, and what is held for one would stay so.
    void keep_first_jobs() {
        std::erase_if(now_.jobs, [](const JobState& job) { return job.ordinary; });
        const auto place = [](const JobState& job) {
            const bool waits = job.phase == JobPhase::pending;
            return std::make_tuple(waits, waits ? -job.priority : 0, job.submit_s, job.id);
        };
        std::sort(now_.jobs.begin(), now_.jobs.end(),
                  [&](const JobState& a, const JobState& b) { return place(a) < place(b); });
        const auto first =
            std::find_if(now_.jobs.begin(), now_.jobs.end(),
                         [](const JobState& job) { return job.phase == JobPhase::pending; });
        waiting_ = static_cast<std::size_t>(now_.jobs.end() - first);
        if (waiting_ <= limits_.jobs) return;
        now_.jobs.erase(first + static_cast<std::ptrdiff_t>(limits_.jobs), now_.jobs.end());
        waiting_ = limits_.jobs;
    }

    void note_end(const JobState& job, double restart_s) {
        const double end_s = now_.time_s + lasts_s(job, restart_s);
        if (!std::isfinite(end_s)) return;
        End end{end_s, job.id, {}};
        for (std::size_t n = 0; n < job.nodes.size(); ++n) {
            const std::int64_t gpus = job.current->grid.gpus_on(n);
            end.parts.push_back(
                {job.nodes[n], gpus, gpus * job.cpus_per_gpu, gpus * job.memory_mb_per_gpu});
        }
        ends_.push(std::move(end));
    }

    void decide() {
        const Decision decision = policy_.decide(now_, offers_, options_);
        std::map<JobId, const Action*> starts;
        for (const Action& action : decision.actions)
            if (action.kind == ActionKind::start) starts.emplace(action.job, &action);
        if (starts.empty()) return;
        for (JobState& job : now_.jobs) {
            const auto at = starts.find(job.id);
            if (at != starts.end() && job.phase == JobPhase::pending) start(job, *at->second);
        }
    }

    void start(JobState& job, const Action& action) {
        expected_[job.id] = {now_.time_s, action.offer, action.offer.plan,
                             words_of_span(now_, action.nodes)};
        --waiting_;
        job.phase = JobPhase::running;
        job.elastic = false;
        job.current = action.offer;
        job.nodes = action.nodes;
        job.start_s = now_.time_s;
        ++job.restarts;
        for (std::size_t n = 0; n < action.nodes.size(); ++n) {
            const std::int64_t gpus = action.offer.grid.gpus_on(n);
            give({action.nodes[n], -gpus, -gpus * job.cpus_per_gpu, -gpus * job.memory_mb_per_gpu});
        }
        note_end(job, options_.restart.seconds(action.offer.grid.gpus(), job.moves_took_s));
    }

    void give(const Occupied::Part& part) {
        const NodeState& node = now_.nodes[part.node];
        if (!node.up) return;
        const std::int64_t gpus = std::min(part.gpus, node.total_gpus - node.free_gpus);
        give_to_node(now_.nodes, part.node, gpus, part.cpus, part.memory_mb);
    }

    /// To the next end and those close behind it; false when nothing ends any more.
    bool advance() {
        if (ends_.empty()) return false;
        const double begin_s = now_.time_s;
        const double first_s = std::max(ends_.top().at_s, begin_s);
        const double until_s = first_s + std::max(together_s, together_share * (first_s - begin_s));
        std::vector<JobId> over;
        while (!ends_.empty() && ends_.top().at_s <= until_s) {
            now_.time_s = std::max(ends_.top().at_s, begin_s);
            for (const Occupied::Part& part : ends_.top().parts) give(part);
            if (ends_.top().job != 0) over.push_back(ends_.top().job);
            ends_.pop();
        }
        std::erase_if(now_.others, [&](const Occupied& o) { return o.end_s <= until_s; });
        std::sort(over.begin(), over.end());
        std::erase_if(now_.jobs, [&](const JobState& job) {
            return job.phase == JobPhase::running &&
                   std::binary_search(over.begin(), over.end(), job.id);
        });
        for (JobState& job : now_.jobs) pass_time(job, now_.time_s - begin_s);
        return true;
    }

    static void pass_time(JobState& job, double passed_s) {
        if (job.phase == JobPhase::pending) {
            job.age_s += passed_s;
            return;
        }
        if (job.time_limit_s > 0) job.time_limit_s = std::max(job.time_limit_s - passed_s, 1.0);
        if (job.remaining_iterations > 0 && job.current && job.current->estimate.iteration_s > 0)
            job.remaining_iterations = std::max(
                job.remaining_iterations - passed_s / job.current->estimate.iteration_s, 1.0);
    }

    const Policy& policy_;
    Snapshot now_;
    const Offers& offers_;
    PolicyOptions options_;
    const ForecastLimits& limits_;
    std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
    std::size_t waiting_ = 0;
    std::map<JobId, ExpectedStart> expected_;
};

}  // namespace

std::map<JobId, ExpectedStart> forecast_starts(const Policy& policy, Snapshot snapshot,
                                               const Offers& offers, PolicyOptions options,
                                               const ForecastLimits& limits) {
    return Forecast(policy, std::move(snapshot), offers, std::move(options), limits).run();
}

}  // namespace arena
