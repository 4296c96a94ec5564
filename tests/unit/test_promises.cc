// SPDX-License-Identifier: GPL-2.0-or-later
// Slurm's order as promises, held against a list schedule of this file's own, which shares no code
// with the one that is tested: it tries every moment at which anything ends, node by node.
#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <span>

#include "policy/arena/arena_policy.h"
#include "policy/order/promises.h"
#include "policy/order/steps.h"
#include "suite.h"

using namespace arena;

namespace {

constexpr double now_s = 1e6, year_s = 365.0 * 86400, slack = 0.1, step = 0.05;

// ---- the other list schedule ----

/// Somebody has GPUs of a node for a while, in seconds from now.
struct Stay {
    NodeIndex node;
    std::int64_t gpus, cpus;
    double from_s, to_s;
};

double run_s(const JobState& job, const Offer& offer, const PolicyOptions& options) {
    return job.remaining_iterations * offer.estimate.iteration_s +
           options.restart.seconds(offer.grid.gpus());
}

double running_left_s(const JobState& job) {
    return std::max(job.time_limit_s, job.remaining_iterations * job.current->estimate.iteration_s);
}

/// By its limit.
double stay_s(const JobState& job, const Offer& offer, const PolicyOptions& options) {
    return std::max(job.time_limit_s, run_s(job, offer, options));
}

struct Found {
    double start_s = INFINITY, end_s = INFINITY, free_s = INFINITY;
    const Offer* offer = nullptr;
    std::vector<NodeIndex> nodes;
};

class OtherSchedule {
  public:
    /// What jobs hold that run, but for those that give way.
    OtherSchedule(const Snapshot& snapshot, const std::set<JobId>& give_way) : snapshot_(snapshot) {
        for (const JobState& job : snapshot.jobs) {
            if (job.phase != JobPhase::running || give_way.contains(job.id)) continue;
            for (const NodeIndex n : job.nodes)
                stays_.push_back({n, job.current->grid.gpus_per_node,
                                  job.current->grid.gpus_per_node * job.cpus_per_gpu, 0,
                                  running_left_s(job)});
        }
        for (const Occupied& held : snapshot.others)
            for (const Occupied::Part& part : held.parts)
                stays_.push_back({part.node, part.gpus, part.cpus, 0,
                                  std::isfinite(held.end_s) ? held.end_s - now_s : year_s});
    }

    [[nodiscard]] Found first_end(const JobState& job, std::span<const Offer> offers,
                                  const PolicyOptions& options, bool first_nodes = false) const {
        Found best;
        for (const Offer& offer : offers) {
            const double for_s = run_s(job, offer, options);
            for (const double at_s : moments()) {
                if (at_s + for_s >= best.end_s - 1e-9) break;
                const std::vector<NodeIndex> nodes =
                    free_at(job, offer, at_s, stay_s(job, offer, options), first_nodes);
                if (nodes.empty()) continue;
                best = {at_s, at_s + for_s, at_s + stay_s(job, offer, options), &offer, nodes};
                break;
            }
        }
        return best;
    }

    void take(const JobState& job, const Found& found) {
        const std::int64_t gpus = found.offer->grid.gpus_per_node;
        for (const NodeIndex n : found.nodes)
            stays_.push_back({n, gpus, gpus * job.cpus_per_gpu, found.start_s, found.free_s});
    }

  private:
    [[nodiscard]] std::set<double> moments() const {
        std::set<double> out{0};
        for (const Stay& stay : stays_) out.insert(stay.to_s);
        return out;
    }
    /// Whether the node has the GPUs from then on for so long.
    [[nodiscard]] bool has(NodeIndex n, const JobState& job, std::int64_t gpus, double at_s,
                           double for_s) const {
        std::set<double> when{at_s};
        for (const Stay& stay : stays_)
            if (stay.node == n && stay.from_s > at_s && stay.from_s < at_s + for_s)
                when.insert(stay.from_s);
        return std::all_of(when.begin(), when.end(), [&](double t) {
            std::int64_t free = snapshot_.nodes[n].total_gpus, cpus = 4 * free;
            for (const Stay& stay : stays_)
                if (stay.node == n && stay.from_s <= t && t < stay.to_s) {
                    free -= stay.gpus;
                    cpus -= stay.cpus;
                }
            return free >= gpus && cpus >= gpus * job.cpus_per_gpu;
        });
    }
    /// Those that have waited for the job the shortest, of equal ones the last; or the longest.
    [[nodiscard]] std::vector<NodeIndex> free_at(const JobState& job, const Offer& offer,
                                                 double at_s, double for_s,
                                                 bool first_nodes) const {
        std::vector<std::pair<double, NodeIndex>> free;
        const std::int64_t gpus = offer.grid.gpus_per_node;
        for (NodeIndex n = 0; n < snapshot_.nodes.size(); ++n) {
            if (snapshot_.nodes[n].gpu_type != offer.grid.gpu_type ||
                !has(n, job, gpus, at_s, for_s))
                continue;
            double since_s = at_s;
            const std::set<double> before = moments();
            for (auto t = before.rbegin(); t != before.rend(); ++t)
                if (*t < since_s && has(n, job, gpus, *t, at_s + for_s - *t))
                    since_s = *t;
                else if (*t < since_s)
                    break;
            free.emplace_back(since_s, n);
        }
        const auto wanted = static_cast<std::size_t>(offer.grid.nodes);
        if (free.size() < wanted) return {};
        std::sort(free.begin(), free.end());
        std::vector<NodeIndex> nodes;
        auto at = first_nodes ? free.begin() : free.end() - static_cast<std::ptrdiff_t>(wanted);
        while (nodes.size() < wanted) nodes.push_back(at++->second);
        return nodes;
    }

    const Snapshot& snapshot_;
    std::vector<Stay> stays_;
};

// ---- random rounds ----

struct Round {
    Snapshot snapshot;
    Offers offers;
    PolicyOptions options;
};

class Dice {
  public:
    explicit Dice(std::uint64_t seed) : random_(seed) {}
    std::int64_t upto(std::int64_t most) {
        return std::uniform_int_distribution<std::int64_t>(0, most)(random_);
    }
    bool in(int ways) { return upto(ways - 1) == 0; }

  private:
    std::mt19937_64 random_;
};

/// Times that differ from each other, so that nothing is decided by a tie.
double odd_s(Dice& dice, std::int64_t most) {
    return 60 + static_cast<double>(dice.upto(most)) + 1e-4 * static_cast<double>(dice.upto(9999));
}

std::vector<Offer> some_offers(Dice& dice) {
    std::vector<Offer> offers;
    for (const char* type : {"a40", "h100"})
        for (const auto& [nodes, per_node] : {std::pair{1, 1}, {1, 2}, {1, 4}, {2, 2}, {2, 4}}) {
            if (dice.in(3)) continue;
            Offer offer;
            offer.grid = {type, nodes, per_node, 1};
            offer.estimate.iteration_s = (type[0] == 'a' ? 2 : 1) /
                                         std::pow(nodes * per_node, 0.8) *
                                         (1 + 0.001 * static_cast<double>(dice.upto(99)));
            offers.push_back(offer);
        }
    return offers;
}

/// Puts it on nodes if they are free.
bool start(JobState& job, const std::vector<Offer>& offers, Snapshot& snapshot, Dice& dice) {
    if (offers.empty()) return false;
    const Offer& offer = offers[static_cast<std::size_t>(dice.upto(std::ssize(offers) - 1))];
    std::vector<NodeIndex> nodes;
    for (NodeIndex n = 0; n < snapshot.nodes.size(); ++n) {
        const NodeState& node = snapshot.nodes[n];
        if (std::ssize(nodes) < offer.grid.nodes && node.gpu_type == offer.grid.gpu_type &&
            node.free_gpus >= offer.grid.gpus_per_node &&
            node.free_cpus >= offer.grid.gpus_per_node * job.cpus_per_gpu)
            nodes.push_back(n);
    }
    if (std::ssize(nodes) < offer.grid.nodes) return false;
    for (const NodeIndex n : nodes)
        give_to_node(snapshot.nodes, n, -offer.grid.gpus_per_node,
                     -offer.grid.gpus_per_node * job.cpus_per_gpu, 0);
    job.phase = JobPhase::running;
    job.current = offer;
    job.nodes = nodes;
    job.start_s = now_s - 1000;
    job.restarts = 1;
    return true;
}

Round random_round(std::uint64_t seed) {
    Dice dice(seed);
    Round round;
    round.options.order = QueueOrder::priority;
    round.options.priority_step = step;
    round.options.reserve_depth = 0;
    round.options.window_s = 5;
    Snapshot& s = round.snapshot;
    s.time_s = now_s;
    for (const char* type : {"a40", "h100"})
        for (std::int64_t n = 1 + dice.upto(2); n > 0; --n)
            s.nodes.push_back({type + std::to_string(n), type, 4, 4, 16, 64000});
    s.node_sets.emplace_back();
    for (NodeIndex n = 0; n < s.nodes.size(); ++n) s.node_sets[0].push_back(n);
    const auto jobs = static_cast<JobId>(2 + dice.upto(10));
    for (JobId id = 1; id <= jobs; ++id) {
        JobState job;
        job.id = id;
        job.submit_s = now_s - 5000 + static_cast<double>(dice.upto(4000));
        job.age_s = now_s - job.submit_s;
        job.priority = dice.in(2) ? 1000 : static_cast<double>(dice.upto(4) * 300);
        if (dice.in(8)) job.priority += tier_size;
        job.max_gpus = 8;
        job.cpus_per_gpu = 1 + dice.upto(4);
        job.elastic = dice.in(3);
        job.remaining_iterations = odd_s(dice, 5000);
        job.time_limit_s = dice.in(6) ? 0 : odd_s(dice, 9000);
        const std::vector<Offer> offers = some_offers(dice);
        const bool runs = dice.in(2) && start(job, offers, s, dice);
        if (runs && job.time_limit_s == 0) job.time_limit_s = odd_s(dice, 9000);
        s.jobs.push_back(job);
        if (!offers.empty()) round.offers[id] = offers;
    }
    for (NodeIndex n = 0; n < s.nodes.size(); ++n) {
        if (!dice.in(4) || s.nodes[n].free_gpus == 0 || s.nodes[n].free_cpus == 0) continue;
        give_to_node(s.nodes, n, -1, -1, 0);
        s.others.push_back({.job = 900 + n,
                            .end_s = dice.in(4) ? INFINITY : now_s + odd_s(dice, 5000),
                            .parts = {{n, 1, 1, 0}}});
    }
    return round;
}

/// Which jobs stand first of their steps, and before whom: by the words of the rule alone.
std::vector<const JobState*> in_order(const Round& round, std::vector<bool>& heads) {
    std::vector<const JobState*> all, queue;
    for (const JobState& job : round.snapshot.jobs) all.push_back(&job);
    std::stable_sort(all.begin(), all.end(),
                     [](const auto* a, const auto* b) { return a->priority > b->priority; });
    std::map<JobId, int> step_of;
    int steps = -1;
    double top = 0, most = 0;
    for (const JobState* job : all) {
        const double tier = std::floor(job->priority / tier_size) * tier_size;
        const bool first = steps < 0 || std::floor(top / tier_size) * tier_size != tier;
        if (first) most = job->priority - tier;
        if (first || top - job->priority > step * most) {
            ++steps;
            top = job->priority;
        }
        step_of[job->id] = steps;
        if (job->phase == JobPhase::pending && round.offers.contains(job->id)) queue.push_back(job);
    }
    std::sort(queue.begin(), queue.end(), [&](const auto* a, const auto* b) {
        return std::tuple(step_of[a->id], a->submit_s, a->id) <
               std::tuple(step_of[b->id], b->submit_s, b->id);
    });
    for (std::size_t i = 0; i < queue.size(); ++i)
        heads.push_back(i == 0 || step_of[queue[i]->id] != step_of[queue[i - 1]->id]);
    return queue;
}

/// The cluster once the decision is carried out.
Snapshot applied(const Round& round, const Decision& decision) {
    Snapshot s = round.snapshot;
    const auto of = [&](JobId id) {
        return std::find_if(s.jobs.begin(), s.jobs.end(),
                            [&](const JobState& job) { return job.id == id; });
    };
    const auto leave = [&](JobState& job) {
        const std::int64_t gpus = job.current->grid.gpus_per_node;
        for (const NodeIndex n : job.nodes)
            give_to_node(s.nodes, n, gpus, gpus * job.cpus_per_gpu, 0);
        job.phase = JobPhase::pending;
        job.nodes.clear();
    };
    for (const Action& action : decision.actions)
        if (action.kind == ActionKind::resize || action.kind == ActionKind::preempt)
            leave(*of(action.job));
    for (const Action& action : decision.actions) {
        if (action.kind != ActionKind::start && action.kind != ActionKind::resize) continue;
        JobState& job = *of(action.job);
        const std::int64_t gpus = action.offer.grid.gpus_per_node;
        for (const NodeIndex n : action.nodes) {
            give_to_node(s.nodes, n, -gpus, -gpus * job.cpus_per_gpu, 0);
            ck_assert(s.nodes[n].free_gpus >= 0 && s.nodes[n].free_cpus >= 0);
        }
        job.phase = JobPhase::running;
        job.current = action.offer;
        job.nodes = action.nodes;
        job.start_s = now_s;
        const double run = run_s(job, action.offer, round.options);
        job.remaining_iterations = run / action.offer.estimate.iteration_s;
    }
    return s;
}

std::size_t rounds() {
    const char* said = std::getenv("ARENA_PROMISE_ROUNDS");
    return said ? std::stoul(said) : 10000;
}

/// Elastic jobs that stand behind.
std::set<JobId> behind(const Round& round, const JobState& job) {
    const SlurmOrder order = order_of(round.snapshot, step);
    const auto place = [&](const JobState& other) {
        return order.place[static_cast<std::size_t>(&other - round.snapshot.jobs.data())];
    };
    std::set<JobId> out;
    if (job.ordinary) return out;
    for (const JobState& other : round.snapshot.jobs)
        if (other.elastic && place(other) > place(job)) out.insert(other.id);
    return out;
}

TEST(what_is_promised_is_what_another_list_schedule_says) {
    std::size_t promised = 0, behind_others = 0;
    for (std::size_t seed = 1; seed <= rounds(); ++seed) {
        Round round = random_round(seed);
        PromiseBook book(PromiseRules{.depth = 10, .slack = slack});
        book.give(round.snapshot, round.offers, round.options);
        std::vector<bool> heads;
        const auto queue = in_order(round, heads);
        OtherSchedule other(round.snapshot, {});
        for (std::size_t i = 0; i < queue.size(); ++i) {
            const JobState& job = *queue[i];
            const std::vector<Offer>& offers = round.offers.at(job.id);
            const Found found = other.first_end(job, offers, round.options);
            const Promise* promise = book.find(job.id);
            // A start that rests on an end which nobody knows is no start.
            const bool known = found.offer != nullptr && found.start_s < year_s / 2;
            const bool wanted = heads[i] && known;
            ck_assert_msg((promise != nullptr) == wanted, "round %zu job %u: %d promises", seed,
                          job.id, promise != nullptr);
            if (known) other.take(job, found);
            if (promise == nullptr) continue;
            ++promised;
            behind_others += i > 0 ? 1 : 0;
            ck_assert_msg(std::abs(promise->start_s - now_s - found.start_s) < 1e-6 &&
                              std::abs(promise->end_s - now_s - found.end_s) < 1e-6,
                          "round %zu job %u: %f to %f, but %f to %f", seed, job.id,
                          promise->start_s - now_s, promise->end_s - now_s, found.start_s,
                          found.end_s);
            const double since_s = now_s - job.age_s;
            const double due_s = promise->end_s + slack * (promise->end_s - since_s);
            ck_assert(std::abs(job.due_s - due_s) < 1e-6);
        }
    }
    printf("# %zu promises, %zu of them behind others\n", promised, behind_others);
    ck_assert(promised > rounds() && behind_others > rounds() / 3);
}

/// Whether all that wait find a start that ends in time, each with one of its offers, chosen one
/// after the other in some order: first those that can wait least.
class AllInTime {
  public:
    AllInTime(const Round& round, const Snapshot& after, std::vector<const JobState*> waiting)
        : round_(round), after_(after), waiting_(std::move(waiting)), starts_(waiting_.size()) {}

    bool search(std::size_t started = 0) {
        if (started == waiting_.size()) return true;
        std::vector<std::pair<double, std::size_t>> order;
        std::vector<std::vector<Found>> found(waiting_.size());
        for (std::size_t w = 0; w < waiting_.size(); ++w) {
            if (starts_[w].offer != nullptr) continue;
            found[w] = in_time(w);
            if (found[w].empty()) return false;
            order.emplace_back(waiting_[w]->due_s - found[w].front().end_s, w);
        }
        std::sort(order.begin(), order.end());
        for (const auto& [spare_s, w] : order) {
            for (const Found& start : found[w]) {
                if (--tries_ < 0) return false;
                starts_[w] = start;
                if (search(started + 1)) return true;
            }
            starts_[w] = {};
        }
        return false;
    }
    [[nodiscard]] bool gave_up() const { return tries_ < 0; }

  private:
    /// The first to end first.
    [[nodiscard]] std::vector<Found> in_time(std::size_t w) const {
        const JobState& job = *waiting_[w];
        OtherSchedule other(after_, behind(round_, job));
        for (std::size_t i = 0; i < waiting_.size(); ++i)
            if (starts_[i].offer != nullptr) other.take(*waiting_[i], starts_[i]);
        std::vector<Found> list;
        for (const Offer& offer : round_.offers.at(job.id))
            for (const bool first_nodes : {false, true}) {
                const Found start = other.first_end(job, {&offer, 1}, round_.options, first_nodes);
                if (start.offer != nullptr && now_s + start.end_s <= job.due_s + 1e-6)
                    list.push_back(start);
            }
        std::sort(list.begin(), list.end(),
                  [](const Found& a, const Found& b) { return a.end_s < b.end_s; });
        return list;
    }

    const Round& round_;
    const Snapshot& after_;
    std::vector<const JobState*> waiting_;
    std::vector<Found> starts_;
    int tries_ = 20000;
};

TEST(no_decision_breaks_a_promise) {
    std::size_t promised = 0, started = 0, passed = 0, together = 0, broken = 0;
    for (std::size_t seed = 1; seed <= rounds(); ++seed) {
        Round round = random_round(seed);
        const bool strict = seed % 4 == 0;
        PromiseBook book(PromiseRules{.depth = 10, .slack = strict ? 0 : slack});
        book.give(round.snapshot, round.offers, round.options);
        const Decision decision = decide_arena(round.snapshot, round.offers, round.options);
        const Snapshot after = applied(round, decision);
        std::vector<bool> heads;
        std::vector<const JobState*> waiting;
        for (const JobState* before : in_order(round, heads)) {
            if (before->due_s == 0) continue;
            ++promised;
            const JobState& job =
                after.jobs[static_cast<std::size_t>(before - round.snapshot.jobs.data())];
            if (job.phase != JobPhase::running) {
                waiting.push_back(before);
                continue;
            }
            ++started;
            // Who is elastic may begin with less, and grow.
            ck_assert_msg(before->elastic || now_s + run_s(*before, *job.current, round.options) <=
                                                 before->due_s + 1e-6,
                          "round %zu job %u starts too late", seed, job.id);
        }
        if (!waiting.empty() && !decision.actions.empty()) ++passed;
        together += waiting.size() > 1 ? 1 : 0;
        AllInTime all(round, after, waiting);
        if (all.search()) continue;
        if (++broken <= 20)
            printf("# round %zu: a promise is broken%s\n", seed,
                   all.gave_up() ? ", as far as was searched" : "");
    }
    ck_assert_msg(broken == 0, "%zu rounds break a promise", broken);
    printf("# %zu promises, %zu start; in %zu rounds others do, in %zu several wait\n", promised,
           started, passed, together);
    ck_assert(started > rounds() / 4 && passed > rounds() / 20 && together > rounds() / 20);
}

// ---- ordinary jobs ----

bool stands_before(const JobState& a, const JobState& b) {
    return std::tuple(-a.priority, a.submit_s, a.id) < std::tuple(-b.priority, b.submit_s, b.id);
}

/// One to three jobs that Slurm starts, among those of a random round.
void add_ordinary(Round& round, std::uint64_t seed) {
    Dice dice(seed + 1000000);
    const auto first = static_cast<JobId>(500);
    for (JobId id = first + static_cast<JobId>(dice.upto(2)); id >= first; --id) {
        std::vector<Offer> offers = some_offers(dice);
        if (offers.empty()) continue;
        offers.resize(1);
        offers[0].estimate.iteration_s = 1;
        JobState job;
        job.id = id;
        job.ordinary = true;
        job.submit_s = now_s - 5000 + static_cast<double>(dice.upto(4000));
        job.age_s = now_s - job.submit_s;
        job.priority = static_cast<double>(dice.upto(4) * 300) + 10;
        job.min_gpus = job.max_gpus = offers[0].grid.gpus();
        job.cpus_per_gpu = 1 + dice.upto(2);
        job.time_limit_s = odd_s(dice, 9000);
        job.remaining_iterations = job.time_limit_s;
        round.offers[id] = offers;
        round.snapshot.jobs.push_back(job);
    }
    for (JobState& job : round.snapshot.jobs)
        for (const JobState& other : round.snapshot.jobs)
            if (other.ordinary && !job.ordinary && job.phase == JobPhase::pending &&
                stands_before(other, job))
                job.behind_ordinary = true;
}

/// When ordinary jobs start as the queue stands, without those that stand behind one.
std::map<JobId, Found> ordinary_starts(const Round& round, const Snapshot& snapshot) {
    const SlurmOrder order = order_of(round.snapshot, step);
    std::vector<const JobState*> queue;
    for (const JobState& job : snapshot.jobs)
        if (job.phase == JobPhase::pending && round.offers.contains(job.id) && !job.behind_ordinary)
            queue.push_back(&job);
    std::sort(queue.begin(), queue.end(), [&](const auto* a, const auto* b) {
        return order.place[static_cast<std::size_t>(a - snapshot.jobs.data())] <
               order.place[static_cast<std::size_t>(b - snapshot.jobs.data())];
    });
    OtherSchedule other(snapshot, {});
    std::map<JobId, Found> starts;
    for (const JobState* job : queue) {
        const Found found = other.first_end(*job, round.offers.at(job->id), round.options);
        if (found.offer == nullptr || found.start_s >= year_s / 2) continue;
        other.take(*job, found);
        if (job->ordinary) starts.emplace(job->id, found);
    }
    return starts;
}

/// What a decision may do to jobs behind ordinary ones, and what it has Slurm see to: those that
/// start are released, and wait for Slurm's backfill.
void take_out_those_behind(const Round& round, Decision& decision, std::size_t seed) {
    const auto of = [&](const Action& action) -> const JobState& {
        return *std::find_if(round.snapshot.jobs.begin(), round.snapshot.jobs.end(),
                             [&](const JobState& job) { return job.id == action.job; });
    };
    bool others_gain = false, somebody_leaves = false;
    for (const Action& action : decision.actions) {
        const JobState& job = of(action);
        ck_assert_msg(!job.ordinary, "round %zu: %d of ordinary job %u", seed,
                      static_cast<int>(action.kind), job.id);
        // Who makes room for a job that stands before it may be put elsewhere, with as much.
        const bool leaves = job.phase == JobPhase::running && job.behind_ordinary;
        ck_assert_msg(
            !leaves || action.kind == ActionKind::preempt || action.offer.grid == job.current->grid,
            "round %zu: job %u changes behind an ordinary job", seed, job.id);
        others_gain = others_gain || (!leaves && !job.behind_ordinary);
        somebody_leaves =
            somebody_leaves || (leaves && action.reason.find("ordinary job") == std::string::npos);
    }
    ck_assert_msg(others_gain || !somebody_leaves,
                  "round %zu: room is made for nobody but those behind an ordinary job", seed);
    std::erase_if(decision.actions, [&](const Action& action) {
        return of(action).phase == JobPhase::pending && of(action).behind_ordinary;
    });
}

TEST(an_ordinary_job_ends_no_later_than_in_slurms_order) {
    std::size_t promised = 0, later = 0, earlier = 0, started = 0, behind = 0;
    double moved_s = 0;
    for (std::size_t seed = 1; seed <= rounds(); ++seed) {
        Round round = random_round(seed);
        add_ordinary(round, seed);
        PromiseBook book(PromiseRules{.depth = 10, .slack = slack});
        book.give(round.snapshot, round.offers, round.options, [&](JobId id) {
            const auto is = [&](const JobState& job) { return job.id == id; };
            const auto& jobs = round.snapshot.jobs;
            return !std::find_if(jobs.begin(), jobs.end(), is)->behind_ordinary;
        });
        const auto before = ordinary_starts(round, round.snapshot);
        Decision decision = decide_arena(round.snapshot, round.offers, round.options);
        take_out_those_behind(round, decision, seed);
        const Snapshot after = applied(round, decision);
        std::vector<const JobState*> waiting;
        for (const JobState& job : round.snapshot.jobs) {
            behind += job.behind_ordinary ? 1 : 0;
            const auto known = before.find(job.id);
            // One that nobody knows the start of is promised that.
            const bool is_known = job.due_s > 0 && job.due_s < now_s + year_s / 2;
            ck_assert_msg(!job.ordinary || is_known == (known != before.end()),
                          "round %zu job %u: due %f", seed, job.id, job.due_s);
            if (job.ordinary && is_known) {
                ++promised;
                ck_assert_msg(std::abs(job.due_s - now_s - known->second.end_s) < 2e-3,
                              "round %zu job %u: %f, but %f", seed, job.id, job.due_s - now_s,
                              known->second.end_s);
            }
            const bool starts =
                after.jobs[static_cast<std::size_t>(&job - round.snapshot.jobs.data())].phase ==
                JobPhase::running;
            if (job.due_s > 0 && !starts && (is_known || !job.ordinary)) waiting.push_back(&job);
            started += starts && job.phase == JobPhase::pending ? 1 : 0;
        }
        AllInTime all(round, after, waiting);
        ck_assert_msg(all.search(), "round %zu: a promise is broken%s", seed,
                      all.gave_up() ? ", as far as was searched" : "");
        for (const auto& [id, found] : ordinary_starts(round, after)) {
            const auto known = before.find(id);
            if (known == before.end()) continue;
            moved_s += found.start_s - known->second.start_s;
            later += found.start_s > known->second.start_s + 1 ? 1 : 0;
            earlier += found.start_s < known->second.start_s - 1 ? 1 : 0;
        }
    }
    printf(
        "# %zu ordinary jobs; %zu jobs behind them, %zu start; by Slurm's order after the "
        "decision %zu start later, %zu earlier, %.0f s in the mean\n",
        promised, behind, started, later, earlier, moved_s / static_cast<double>(promised));
    ck_assert(promised > rounds() && started > rounds() / 10);
}

JobState& wait(Round& round, JobId id, double priority, std::int64_t nodes, double limit_s) {
    JobState& job = round.snapshot.jobs.emplace_back();
    job.id = id;
    job.priority = priority;
    job.submit_s = now_s - 100 + id;
    job.min_gpus = job.max_gpus = 4 * nodes;
    job.time_limit_s = limit_s;
    Offer offer;
    offer.grid = {"a40", nodes, 4, 1};
    offer.estimate.iteration_s = 1;
    round.offers[id] = {offer};
    return job;
}

/// Two nodes of four GPUs, of which one is free, and the other for as many seconds not.
Round half_free(double busy_s) {
    Round round;
    round.snapshot.time_s = now_s;
    round.snapshot.nodes = {{"n1", "a40", 4, 4, 16, 640000}, {"n2", "a40", 4, 0, 16, 640000}};
    round.snapshot.node_sets = {{0, 1}};
    round.options.order = QueueOrder::priority;
    round.options.priority_step = step;
    round.options.restart = {0, 0, 0};
    JobState& busy = wait(round, 90, 10, 1, busy_s);
    busy.phase = JobPhase::running;
    busy.current = round.offers.at(90).front();
    busy.nodes = {1};
    busy.start_s = now_s - 10;
    return round;
}

TEST(who_is_gone_in_time_passes_a_job_of_a_higher_step) {
    Round round = half_free(4200);
    wait(round, 1, 10, 1, 6000);
    wait(round, 2, 100, 1, 6000);
    wait(round, 3, 1000, 2, 3600);
    wait(round, 4, 10, 1, 300);
    PromiseBook book(PromiseRules{.depth = 10, .slack = slack});
    book.give(round.snapshot, round.offers, round.options);
    const Decision decision = decide_arena(round.snapshot, round.offers, round.options);
    std::set<JobId> started;
    for (const Action& action : decision.actions)
        if (action.kind == ActionKind::start) started.insert(action.job);
    ck_assert_msg(started == std::set<JobId>{4}, "%zu jobs start", started.size());
}

// ---- single rounds ----

Offer offer_of(std::int64_t gpus, double iteration_s) {
    Offer offer;
    offer.grid = {"a40", 1, gpus, 1};
    offer.estimate.iteration_s = iteration_s;
    return offer;
}

JobState job_of(JobId id, double priority, double limit_s) {
    JobState job;
    job.id = id;
    job.priority = priority;
    job.submit_s = now_s;
    job.max_gpus = 8;
    job.remaining_iterations = limit_s / 2;
    job.time_limit_s = limit_s;
    return job;
}

JobState running(JobId id, std::vector<NodeIndex> nodes, std::int64_t gpus, double limit_s) {
    JobState job = job_of(id, 0, limit_s);
    job.phase = JobPhase::running;
    job.current = offer_of(gpus, 1);
    job.current->grid.nodes = std::ssize(nodes);
    job.nodes = std::move(nodes);
    job.start_s = now_s - 1000;
    job.restarts = 1;
    return job;
}

Round nodes_of_four(std::size_t nodes) {
    Round round;
    round.options.order = QueueOrder::priority;
    round.options.priority_step = step;
    round.options.window_s = 5;
    for (std::size_t n = 0; n < nodes; ++n) {
        round.snapshot.nodes.push_back({"n" + std::to_string(n), "a40", 4, 4, 16, 64000});
        if (n == 0) round.snapshot.node_sets.emplace_back();
        round.snapshot.node_sets[0].push_back(static_cast<NodeIndex>(n));
    }
    round.snapshot.time_s = now_s;
    return round;
}

void add(Round& round, JobState job, std::vector<Offer> offers = {}) {
    for (const NodeIndex n : job.nodes)
        give_to_node(round.snapshot.nodes, n, -job.current->grid.gpus_per_node,
                     -job.current->grid.gpus_per_node, 0);
    if (!offers.empty()) round.offers[job.id] = std::move(offers);
    round.snapshot.jobs.push_back(std::move(job));
}

Decision decided(Round& round) {
    PromiseBook book(PromiseRules{.depth = 10, .slack = slack});
    book.give(round.snapshot, round.offers, round.options);
    return decide_arena(round.snapshot, round.offers, round.options);
}

TEST(who_waits_in_slurms_queue_is_kept_off_nodes_that_are_held_for_others) {
    Round round = nodes_of_four(2);
    add(round, running(1, {0}, 4, 1000));
    add(round, running(2, {1}, 4, 30000));
    add(round, job_of(3, 1000, 5000), {offer_of(4, 1)});
    add(round, job_of(4, 500, 80000), {offer_of(4, 1)});
    round.options.reserve_depth = 2;
    std::map<JobId, std::vector<NodeIndex>> kept;
    for (const Action& action : decided(round).actions) {
        ck_assert(action.kind == ActionKind::reshape_and_wait);
        kept[action.job] = action.kept;
    }
    ck_assert(kept.size() == 2);
    ck_assert(kept[3].empty());  // it is gone before the other one needs its node
    ck_assert(kept[4] == std::vector<NodeIndex>{0});
    // Were all its nodes held, it would not stand in Slurm's queue at all.
    round = nodes_of_four(1);
    add(round, running(1, {0}, 4, 1000));
    add(round, job_of(3, 1000, 5000), {offer_of(4, 1)});
    add(round, job_of(4, 500, 80000), {offer_of(4, 1)});
    round.options.reserve_depth = 2;
    const Decision decision = decided(round);
    ck_assert(decision.actions.size() == 1 && decision.actions[0].job == 3);
}

TEST(who_may_begin_with_less_keeps_its_promise_though_it_has_to_settle_first) {
    for (const bool settles : {true, false}) {
        Round round = nodes_of_four(1);
        JobState job = job_of(1, 1000, 50000);
        job.elastic = true;
        add(round, job, {offer_of(1, 8), offer_of(4, 1)});
        PromiseBook book(PromiseRules{.depth = 10, .slack = slack});
        book.give(round.snapshot, round.offers, round.options);
        JobState& first = round.snapshot.jobs[0];
        first.phase = JobPhase::running;
        first.current = offer_of(1, 8);
        first.nodes = {0};
        first.start_s = now_s;
        first.elastic = false;
        first.settles_s = settles ? 600 : 0;
        book.give(round.snapshot, round.offers, round.options);
        ck_assert(book.counts() == (PromiseCounts{1, settles ? 1 : 0, settles ? 0 : 1}));
    }
}

TEST(who_would_settle_for_too_long_is_not_started_where_it_has_to_give_way) {
    for (const double settles_s : {0.0, 200.0, 2000.0}) {
        Round round = nodes_of_four(1);
        add(round, running(1, {0}, 2, 1000));
        add(round, job_of(2, 1000, 5000), {offer_of(4, 1)});
        JobState elastic = job_of(3, 500, 90000);
        elastic.elastic = true;
        elastic.settles_s = settles_s;
        add(round, std::move(elastic), {offer_of(2, 1)});
        round.options.reserve_depth = 0;
        const Decision decision = decided(round);
        ck_assert(decision.actions.size() == (settles_s < 1000 ? 1 : 0));
    }
}

// It would be started again at once, for its promise, and stopped again: for ever.
TEST(who_runs_and_ends_too_late_is_not_stopped_for_those_behind_it) {
    for (const bool before : {false, true}) {
        Round round = nodes_of_four(1);
        JobState late = running(1, {0}, 4, 400000);
        late.elastic = true;
        late.priority = 100;
        late.submit_s = now_s - 5000;
        late.remaining_iterations = 90000;
        late.due_s = now_s + 50000;
        add(round, late, {offer_of(4, 1)});
        JobState quick = job_of(2, before ? 1000 : 100, 600);
        quick.remaining_iterations = 60;
        add(round, quick, {offer_of(4, 1)});
        if (before) round.snapshot.jobs[1].due_s = now_s + 70 + 60;
        round.options.reserve_depth = 0;
        const Decision decision = decide_arena(round.snapshot, round.offers, round.options);
        ck_assert_msg(decision.actions.empty() != before, "%d: %zu actions", before,
                      decision.actions.size());
    }
}

// Of an elastic job that had to leave its node, say: a promise that nothing keeps any more is no
// reason to break one that can be kept.
TEST(a_promise_that_is_lost_breaks_no_other) {
    for (const double late_s : {1.0, 20.0, 2000.0}) {
        Round round = nodes_of_four(2);
        add(round, running(1, {1}, 4, 300));
        Offer wide = offer_of(8, 1);
        wide.grid = {"a40", 2, 4, 1};
        add(round, job_of(2, 1000, 4000), {wide});
        JobState left = job_of(3, 500, 4000);
        left.elastic = true;
        left.settles_s = 600;
        left.remaining_iterations = 4000;
        add(round, std::move(left), {offer_of(4, 1)});
        round.options.reserve_depth = 0;
        PromiseBook book(PromiseRules{.depth = 10, .slack = 0});
        book.give(round.snapshot, round.offers, round.options);
        round.snapshot.jobs[2].due_s = now_s + 4000 + round.options.restart.seconds(4) - late_s;
        const Decision decision = decide_arena(round.snapshot, round.offers, round.options);
        ck_assert_msg(decision.actions.empty(), "%g s too late: %zu actions", late_s,
                      decision.actions.size());
    }
}

TEST(an_ordinary_job_whose_nodes_come_free_later_is_promised_anew) {
    Round round = nodes_of_four(1);
    add(round, running(1, {0}, 4, 1000));
    JobState job = job_of(2, 1000, 5000);
    job.ordinary = true;
    add(round, job, {offer_of(4, 1)});
    PromiseBook book(PromiseRules{.depth = 10, .slack = slack});
    const auto due_s = [&](double at_s, bool is_free, double left_s) {
        round.snapshot.time_s = now_s + at_s;
        round.snapshot.jobs[0].time_limit_s = left_s;
        round.snapshot.jobs[0].phase = is_free ? JobPhase::pending : JobPhase::running;
        round.snapshot.nodes[0].free_gpus = is_free ? 4 : 0;
        round.snapshot.nodes[0].free_cpus = is_free ? 16 : 12;
        book.give(round.snapshot, round.offers, round.options);
        return round.snapshot.jobs[1].due_s == 0 ? 0 : round.snapshot.jobs[1].due_s - now_s;
    };
    const double first_s = due_s(0, false, 1000);
    ck_assert(std::abs(due_s(500, false, 1500) - first_s) < 1);  // its limit was raised
    ck_assert(std::abs(due_s(1010, false, 990) - first_s - 1000) < 1);
    // Free, and Slurm does not start it: it waits for something else.
    ck_assert(due_s(2010, true, 0) > 0);
    ck_assert(due_s(2200, true, 0) == 0);
    ck_assert(due_s(2300, false, 700) == 0);
    ck_assert(due_s(2900, false, 700) > 0);
}

// Its id changes whenever one of them starts.
TEST(ordinary_jobs_of_other_nodes_move_no_promise) {
    Round round = nodes_of_four(2);
    round.snapshot.node_sets = {{0}, {1}};
    JobState busy = running(1, {0}, 4, 1000);
    add(round, busy);
    add(round, job_of(2, 1000, 5000), {offer_of(4, 1)});
    JobState other = running(3, {1}, 4, 1000);
    other.node_set = 1;
    add(round, other);
    PromiseBook book(PromiseRules{.depth = 10, .slack = slack});
    double due_s = 0;
    for (JobId id = 10; id < 15; ++id) {
        JobState ordinary = job_of(id, 5000, 700);
        ordinary.ordinary = true;
        ordinary.node_set = 1;
        round.offers[id] = {offer_of(4, 1)};
        round.snapshot.jobs.push_back(std::move(ordinary));
        round.snapshot.jobs[0].time_limit_s += 500;  // somebody raises its limit
        book.give(round.snapshot, round.offers, round.options);
        if (due_s == 0) due_s = round.snapshot.jobs[1].due_s;
        ck_assert(due_s > 0 && round.snapshot.jobs[1].due_s == due_s);
        round.snapshot.jobs.pop_back();
    }
}

// A licence that it lacks, say.
TEST(nobody_makes_way_for_long_for_an_ordinary_job_that_slurm_does_not_start) {
    Round round = nodes_of_four(1);
    JobState job = job_of(2, 1000, 5000);
    job.ordinary = true;
    add(round, job, {offer_of(4, 1)});
    PromiseBook book(PromiseRules{.depth = 10, .slack = slack});
    std::vector<double> changes;  // when it gains a promise, and when it loses it
    bool promised = false;
    for (double at_s = 0; at_s < 10000; at_s += 10) {
        round.snapshot.time_s = now_s + at_s;
        book.give(round.snapshot, round.offers, round.options);
        const bool now = round.snapshot.jobs[0].due_s > 0;
        if (now != promised) changes.push_back(at_s);
        promised = now;
    }
    // It has 120 s each time; then nobody waits for it for 600 s, 1,200 s, ...
    const std::vector<double> wanted{0, 130, 730, 860, 2060, 2190, 4590, 4720, 9520, 9650};
    ck_assert(changes == wanted);
}

// A long epilog, say.
TEST(who_has_outlived_its_end_holds_its_gpus_all_the_same) {
    Round round = nodes_of_four(1);
    give_to_node(round.snapshot.nodes, 0, -4, -4, 0);
    round.snapshot.others.push_back({.job = 900, .end_s = now_s + 10, .parts = {{0, 4, 4, 0}}});
    JobState job = job_of(2, 1000, 5000);
    job.ordinary = true;
    add(round, job, {offer_of(4, 1)});
    PromiseBook book(PromiseRules{.depth = 10, .slack = slack});
    for (const double at_s : {0, 100, 200, 300, 400}) {
        round.snapshot.time_s = now_s + at_s;
        book.give(round.snapshot, round.offers, round.options);
        ck_assert(round.snapshot.jobs[0].due_s > round.snapshot.time_s);
    }
}

}  // namespace
