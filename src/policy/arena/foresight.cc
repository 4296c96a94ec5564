// SPDX-License-Identifier: GPL-2.0-or-later
// See foresight.h.
#include "policy/arena/foresight.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>

#include "policy/places.h"

namespace arena {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();

/// Until the running job ends, as far as anybody said.
double left_s(const JobState& job) {
    if (job.overrun) return never;
    if (job.remaining_iterations > 0)
        return job.remaining_iterations * job.current->estimate.iteration_s;
    return job.time_limit_s > 0 ? job.time_limit_s : never;
}

/// Waits, and will never be changed.
bool is_rigid(const Task& task) {
    return !task.runs() && !task.job->elastic && !task.job->ordinary;
}

}  // namespace

void Foresight::Releases::sort() { std::sort(blocks_.begin(), blocks_.end()); }

double Foresight::Releases::earliest(double gpus, double& idle, std::int64_t& steps) const {
    double have = 0, area = 0;
    for (const auto& [in_s, count] : blocks_) {
        --steps;
        const double take = std::min(count, gpus - have);
        area += take * in_s;
        have += take;
        if (have < gpus) continue;
        idle = gpus * in_s - area;
        return in_s;
    }
    return never;
}

double Foresight::Releases::next() const {
    const auto at = std::find_if(blocks_.begin(), blocks_.end(),
                                 [](const auto& block) { return block.first > 0; });
    return at == blocks_.end() ? never : at->first;
}

double Foresight::Releases::now() const {
    double count = lent_;
    for (const auto& [in_s, gpus] : blocks_) count += in_s <= 0 ? gpus : 0;
    return count;
}

void Foresight::Releases::lend(double gpus) { lent_ += std::min(gpus, now() - lent_); }

void Foresight::Releases::borrow(double& gpus) {
    const double more = std::max(0.0, gpus - (now() - lent_));
    lent_ -= more;
    gpus -= more;
}

void Foresight::Releases::take(double gpus, double until_s) {
    auto end = blocks_.begin();
    for (double left = gpus; end != blocks_.end() && left > 0;) {
        const double here = std::min(end->second, left);
        left -= here;
        end->second -= here;
        if (end->second > 0) break;
        ++end;
    }
    blocks_.erase(blocks_.begin(), end);
    const std::pair<double, double> block{until_s, gpus};
    blocks_.insert(std::upper_bound(blocks_.begin(), blocks_.end(), block), block);
}

Foresight::Foresight(const Problem& problem, const Packing& packing,
                     std::span<const double> weights, const ArenaRules& rules, const Turn* turn)
    : problem_(problem),
      packing_(packing),
      weights_(weights),
      rules_(rules),
      turn_(turn),
      releases_(problem.types()),
      worth_(problem.types(), 1),
      total_(problem.types(), 0),
      steps_(problem.options().search_steps),
      prospects_(problem.tasks().size()) {
    const auto& tasks = problem.tasks();
    if (std::none_of(tasks.begin(), tasks.end(), is_rigid)) return;
    count_gpus();
    count_releases();
    weigh_types();
    auto behind = static_cast<double>(
        std::count_if(tasks.begin(), tasks.end(), [](const Task& t) { return !t.runs(); }));
    const double base = waited_lately();
    for (const std::size_t i : order()) {
        if (steps_ <= 0) break;
        behind -= 1;
        choose(i, (behind + base) / std::max(gpus_, 1.0));
    }
}

void Foresight::count_gpus() {
    const auto& nodes = problem_.snapshot().nodes;
    std::vector<double> free(problem_.types(), 0);
    for (NodeIndex n = 0; n < nodes.size(); ++n) {
        if (problem_.type_of_node(n) < 0) continue;
        const auto type = static_cast<std::size_t>(problem_.type_of_node(n));
        free[type] += static_cast<double>(nodes[n].free_gpus);
        total_[type] += static_cast<double>(nodes[n].total_gpus);
    }
    gpus_ = std::accumulate(total_.begin(), total_.end(), 0.0);
    for (std::size_t t = 0; t < free.size(); ++t)
        if (free[t] > 0) releases_[t].add(0, free[t]);
}

void Foresight::count_releases() {
    for (const JobState& job : problem_.snapshot().jobs) {
        if (job.phase != JobPhase::running || !job.current) continue;
        const std::int32_t type = problem_.type_of(job.current->grid.gpu_type);
        const double in_s = left_s(job);
        if (type < 0 || in_s == never) continue;
        releases_[static_cast<std::size_t>(type)].add(
            std::max(in_s, 1.0), static_cast<double>(job.current->grid.gpus()));
    }
    for (Releases& releases : releases_) releases.sort();
    // Any split of a count finds room where GPUs are free; nodes that lie together need not be.
    if (problem_.options().any_layout && !problem_.needs_near_nodes()) return;
    releases_of_node_.resize(problem_.snapshot().nodes.size());
    for (const JobState& job : problem_.snapshot().jobs)
        if (job.phase == JobPhase::running && job.current && left_s(job) != never)
            count_releases_of(job, job.nodes, job.current->grid, std::max(left_s(job), 1.0));
}

/// CPUs and memory come back to all entries of a node.
template <typename Layout>
void Foresight::count_releases_of(const JobState& job, const std::vector<NodeIndex>& nodes,
                                  const Layout& layout, double in_s) {
    if (releases_of_node_.empty()) return;
    for (std::size_t at = 0; at < nodes.size(); ++at) {
        const NodeIndex node = nodes[at];
        const std::int64_t per_node = layout.gpus_on(at);
        const NodeParts parts = parts_of(problem_.snapshot().nodes, node);
        for (NodeIndex n = parts.first; n < parts.last; ++n) {
            auto& list = releases_of_node_[n];
            const Release release{in_s, n == node ? per_node : 0, per_node * job.cpus_per_gpu,
                                  per_node * job.memory_mb_per_gpu};
            list.insert(std::upper_bound(list.begin(), list.end(), release), release);
        }
    }
}

/// In how many seconds the node has so many GPUs for the task, and what goes with them.
double Foresight::when_free(std::size_t i, NodeIndex n, std::int64_t per_node) const {
    const JobState& job = *problem_.tasks()[i].job;
    Packing::Left left = packing_.left_on(n);
    const auto suffices = [&] {
        return left.gpus >= per_node && left.cpus >= per_node * job.cpus_per_gpu &&
               left.memory_mb >= per_node * job.memory_mb_per_gpu;
    };
    if (suffices()) return 0;
    if (!problem_.snapshot().nodes[n].up) return never;
    for (const Release& back : releases_of_node_[n]) {
        left.gpus += back.gpus;
        left.cpus += back.cpus;
        left.memory_mb += back.memory_mb;
        if (suffices()) return back.in_s;
    }
    return never;
}

/// When enough nodes of the place have.
double Foresight::when_together(std::size_t i, const Place& place, const Choice& c,
                                const Offer& offer, std::int64_t per_node) {
    const Snapshot& snapshot = problem_.snapshot();
    const std::int64_t nodes = c.gpus / per_node;
    if (place.node_set >= snapshot.node_sets.size() ||
        !allows(place, *problem_.tasks()[i].job, nodes, per_node))
        return never;
    std::vector<std::pair<double, NodeIndex>> times;
    for (const NodeIndex n : snapshot.node_sets[place.node_set]) {
        if (problem_.type_of_node(n) != c.type || snapshot.nodes[n].returning_s > 0) continue;
        if (const double in_s = when_free(i, n, per_node); in_s < never)
            times.emplace_back(in_s, n);
    }
    steps_ -= static_cast<std::int64_t>(times.size());
    if (std::ssize(times) < nodes) return never;
    const auto last = times.begin() + static_cast<std::ptrdiff_t>(nodes - 1);
    if (problem_.may_lie_anywhere(place, c, offer)) {
        std::nth_element(times.begin(), last, times.end());
        return last->first;
    }
    return first_allowed_s(times, nodes, c, offer);
}

/// The same where not every set of nodes is a job's, or near enough, or of whole segments.
double Foresight::first_allowed_s(std::vector<std::pair<double, NodeIndex>>& times,
                                  std::int64_t nodes, const Choice& c, const Offer& offer) const {
    std::sort(times.begin(), times.end());
    std::vector<NodeIndex> order;
    for (const auto& [in_s, n] : times) order.push_back(n);
    std::vector<Fabric::Share> shares;
    const std::size_t first = problem_.fabric().first_within(
        order, nodes, problem_.widest(c, offer), offer.segment, shares);
    return first == 0 ? never : times[first - 1].first;
}

/// Of a choice whose GPUs are free by count, but on no nodes together.
double Foresight::earliest_layout(std::size_t i, const Choice& c) {
    double earliest = never;
    (void)packing_.any_layout(c, [&](const Offer& offer, std::int64_t per_node) {
        if (offer.grid.is_uneven()) return false;
        return any_place(*problem_.tasks()[i].job, [&](const Place& place, std::uint32_t) {
            earliest = std::min(earliest, when_together(i, place, c, offer, per_node));
            return false;
        });
    });
    return earliest;
}

/// Null where the set is all nodes: releases_ has it.
const std::vector<Foresight::Releases>* Foresight::releases_in(std::uint32_t node_set) {
    const Snapshot& snapshot = problem_.snapshot();
    if (node_set >= snapshot.node_sets.size() ||
        snapshot.node_sets[node_set].size() == snapshot.nodes.size())
        return nullptr;
    const auto [at, added] = releases_of_set_.try_emplace(node_set, problem_.types());
    if (!added) return &at->second;
    std::vector<Releases>& releases = at->second;
    std::vector<bool> inside(snapshot.nodes.size(), false);
    for (const NodeIndex n : snapshot.node_sets[node_set]) {
        inside[n] = true;
        const NodeState& node = snapshot.nodes[n];
        if (problem_.type_of_node(n) >= 0 && node.free_gpus > 0)
            releases[static_cast<std::size_t>(problem_.type_of_node(n))].add(
                0, static_cast<double>(node.free_gpus));
    }
    for (const JobState& job : snapshot.jobs) {
        if (job.phase != JobPhase::running || !job.current || left_s(job) == never) continue;
        for (std::size_t h = 0; h < job.nodes.size(); ++h) {
            const NodeIndex n = job.nodes[h];
            if (n < inside.size() && inside[n] && problem_.type_of_node(n) >= 0)
                releases[static_cast<std::size_t>(problem_.type_of_node(n))].add(
                    std::max(left_s(job), 1.0), static_cast<double>(job.current->grid.gpus_on(h)));
        }
    }
    for (Releases& list : releases) list.sort();
    return &releases;
}

/// GPUs that come free where the job may not go are none to wait for.
double Foresight::earliest_on_its_nodes(std::size_t i, const Choice& c, bool refused) {
    const std::vector<Releases>* own = releases_in(problem_.tasks()[i].job->node_set);
    if (own == nullptr) return 0;
    const Releases& releases = (*own)[static_cast<std::size_t>(c.type)];
    double idle = 0;
    const double in_s = releases.earliest(c.gpus, idle, steps_);
    return refused && in_s <= 0 ? releases.next() : in_s;
}

void Foresight::weigh_types() {
    std::vector<double> sum(problem_.types(), 0), count(problem_.types(), 0),
        best(problem_.types());
    for (const Task& task : problem_.tasks()) {
        if (task.job->ordinary) continue;
        std::fill(best.begin(), best.end(), 0.0);
        for (const Choice& c : problem_.choices(task)) {
            double& speed = best[static_cast<std::size_t>(c.type)];
            speed = std::max(speed, 1 / (c.iteration_s * c.gpus));
        }
        const double most = *std::max_element(best.begin(), best.end());
        for (std::size_t t = 0; t < best.size(); ++t) {
            sum[t] += best[t] / most;
            count[t] += best[t] > 0 ? 1 : 0;
        }
    }
    double mean = 0;
    for (std::size_t t = 0; t < worth_.size(); ++t) {
        worth_[t] = count[t] > 0 ? sum[t] / count[t] : 1;
        mean += worth_[t] * total_[t] / std::max(gpus_, 1.0);
    }
    for (double& worth : worth_) worth /= mean;
}

double Foresight::waited_lately() const {
    const double now_s = problem_.snapshot().time_s;
    double sum = 0;
    for (const JobState& job : problem_.snapshot().jobs) {
        if (job.phase != JobPhase::running) {
            sum += std::min(rules_.lately_s, job.age_s);
        } else if (job.restarts <= 1) {
            sum +=
                std::max(0.0, job.start_s - std::max(now_s - rules_.lately_s, now_s - job.age_s));
        }
    }
    return sum / rules_.lately_s;
}

std::vector<std::size_t> Foresight::order() const {
    std::vector<std::tuple<std::int64_t, double, std::size_t>> keys;
    for (std::size_t i = 0; i < problem_.tasks().size(); ++i) {
        const Task& task = problem_.tasks()[i];
        if (!is_rigid(task)) continue;
        const std::int64_t below = turn_ == nullptr ? 0 : -std::int64_t{turn_->level[i]};
        double least = never;
        for (const Choice& c : problem_.choices(task))
            least = std::min(least, Problem::time_left_s(task, c) * c.gpus *
                                        worth_[static_cast<std::size_t>(c.type)]);
        keys.emplace_back(below, least / weights_[i], i);
    }
    std::sort(keys.begin(), keys.end());
    std::vector<std::size_t> out;
    for (const auto& key : keys) out.push_back(std::get<2>(key));
    return out;
}

double Foresight::cost(std::size_t i, const Choice& c, double price, double boot_s,
                       double idle_gpu_s) const {
    const double time_s = boot_s + problem_.run_s(problem_.tasks()[i], c);
    return time_s +
           price * worth_[static_cast<std::size_t>(c.type)] * (c.gpus * time_s + idle_gpu_s);
}

bool Foresight::is_uneven_only(const Choice& c) const {
    const auto offers = problem_.offers(c);
    return std::all_of(offers.begin(), offers.end(),
                       [](const Offer* offer) { return offer->grid.is_uneven(); });
}

/// Whether the job would break its own promise.
bool Foresight::is_late(std::size_t i, const Choice& c, double in_s) const {
    const double due_s = problem_.tasks()[i].job->due_s;
    return turn_ != nullptr && due_s > 0 &&
           problem_.snapshot().time_s + in_s + problem_.run_s(problem_.tasks()[i], c) > due_s;
}

/// Within a step it is values that say who waits for whom.
bool Foresight::may_borrow(std::size_t i) const {
    return turn_ != nullptr && turn_->level[i] < lent_from_;
}

Prospect Foresight::prospect_of(std::size_t i, const Choice& c, double price, double not_before_s) {
    const Releases& releases = releases_[static_cast<std::size_t>(c.type)];
    double idle = 0, in_s = releases.earliest(c.gpus, idle, steps_);
    if (not_before_s <= 0 && in_s > 0 && may_borrow(i) && releases.now() >= c.gpus) in_s = idle = 0;
    const bool refused = in_s <= 0 && not_before_s > 0;
    in_s = std::max({in_s, not_before_s, earliest_on_its_nodes(i, c, refused)});
    if (in_s == never || is_late(i, c, in_s)) return {};
    if (in_s > 0 && is_uneven_only(c)) return {};  // pieces are taken as they are now
    const double boot_s =
        in_s > 0 ? 0 : packing_.boots_for(problem_.tasks()[i], c).longest_s;  // who ends is up
    const double gpu_price = price * (in_s > 0 ? 1 : rules_.idle_share);
    return {&c, in_s, in_s + cost(i, c, gpu_price, boot_s, idle), refused, price};
}

/// That of the least cost; of its type, as soon, the fewest GPUs that cost hardly more: the
/// estimates may be as far off.
Prospect Foresight::best_of(std::size_t i, double price, const std::vector<double>& not_before_s) {
    std::vector<Prospect> all;
    std::size_t at = 0;
    for (const Choice& c : problem_.choices(problem_.tasks()[i]))
        all.push_back(prospect_of(i, c, price, not_before_s[at++]));
    Prospect best{.least_cost = never, .price = price};
    for (const Prospect& p : all)
        if (p.best != nullptr && p.least_cost < best.least_cost) best = p;
    for (const Prospect& p : all) {
        const bool is_layout = best.wait_s > 0 && p.best != nullptr && p.wait_s <= 0 &&
                               p.best->type == best.best->type && p.best->gpus == best.best->gpus;
        if (is_layout && problem_.run_s(problem_.tasks()[i], *p.best) <=
                             best.wait_s + problem_.run_s(problem_.tasks()[i], *best.best))
            best = p;
    }
    for (const Prospect& p : all) {  // by type, then GPUs ascending
        const bool comparable =
            p.best != nullptr && p.best->type == best.best->type && p.wait_s <= best.wait_s;
        if (comparable && p.least_cost <= (1 + rules_.estimate_error) * best.least_cost) return p;
    }
    return best;
}

/// Whether nodes can be had only later than their GPUs are free by count, and when.
bool Foresight::comes_later(std::size_t i, const Prospect& p, double& not_before_s) {
    const double before_s = not_before_s;
    if (!releases_of_node_.empty()) not_before_s = std::max(earliest_layout(i, *p.best), before_s);
    if (p.wait_s <= 0)  // and they could not
        not_before_s =
            std::max(not_before_s, releases_[static_cast<std::size_t>(p.best->type)].next());
    return not_before_s > before_s && not_before_s > p.wait_s;
}

/// A choice that is free by count may still find no nodes; then it can be had when more come free.
void Foresight::choose(std::size_t i, double price) {
    const Task& task = problem_.tasks()[i];
    std::vector<double> not_before_s(task.choice_count, 0);
    Placement placement;
    for (Prospect found; (found = best_of(i, price, not_before_s)).best != nullptr;) {
        const Choice& choice = *found.best;
        double& least_s =
            not_before_s[static_cast<std::size_t>(&choice - problem_.choices(task).data())];
        const bool now = found.wait_s <= 0 && packing_.place(task, choice, placement);
        if (!now && comes_later(i, found, least_s)) continue;
        prospects_[i] = found;
        const double until_s = found.wait_s + problem_.run_s(task, choice);
        Releases& releases = releases_[static_cast<std::size_t>(choice.type)];
        auto gpus = static_cast<double>(choice.gpus);
        if (now) {
            count_releases_of(*task.job, placement.nodes, placement, until_s);
            releases.borrow(gpus);
        } else if (turn_ != nullptr && task.job->due_s > 0) {
            lent_from_ = std::max(lent_from_, turn_->level[i]);
            releases.lend(gpus);
        }
        return releases.take(gpus, until_s);
    }
}

double Foresight::over(std::size_t i, const Choice& c) const {
    const Prospect& p = prospects_[i];
    if (p.best == nullptr) return 1;
    return cost(i, c, p.price) / p.least_cost;
}

}  // namespace arena
