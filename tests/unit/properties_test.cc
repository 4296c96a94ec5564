// SPDX-License-Identifier: GPL-2.0-or-later
// Properties that hold for every snapshot, checked on random ones (rapidcheck; property.h says with
// which seed). The checks are written from the rules in fifo.h and do not share code with the
// policy.
#include <rapidcheck.h>

#include <algorithm>
#include <random>
#include <set>

#include "base/json.h"
#include "core/hardware.h"
#include "core/model_fields.h"
#include "core/profile.h"
#include "policy/fifo.h"
#include "policy/replay.h"
#include "property.h"

using namespace arena;

namespace {

const std::vector<std::string> type_names{"a40", "a100", "h100"};

/// The whole range from the first test on: rapidcheck would start with small numbers.
std::int64_t pick(std::int64_t min, std::int64_t max) {
    return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange(min, max + 1));
}

double pick_number() { return static_cast<double>(pick(1, 1000000)) / 7.0; }

Offer any_offer() {
    const std::int64_t per_node = *rc::gen::element<std::int64_t>(1, 2, 3, 4, 8);
    const std::int64_t nodes = *rc::gen::element<std::int64_t>(1, 1, 2, 4);
    const std::int64_t stages = (nodes * per_node) % 2 == 0 ? pick(1, 2) : 1;
    Offer o;
    o.grid = {*rc::gen::elementOf(type_names), nodes, per_node, stages};
    for (std::int64_t i = 0; i < stages; ++i) {
        o.plan.stage_layers.push_back(pick(1, 40));
        o.plan.stage_dp.push_back(nodes * per_node / stages);
        o.plan.stage_tp.push_back(1);
    }
    o.plan.micro_batch = pick(1, 8);
    o.estimate.iteration_s = static_cast<double>(pick(1, 6));  // ties are wanted
    o.estimate.samples_per_s = pick_number();
    return o;
}

NodeState any_node(std::size_t index) {
    NodeState n;
    n.name = "n" + std::to_string(index);
    n.gpu_type = pick(0, 9) == 0 ? "" : *rc::gen::elementOf(type_names);
    n.total_gpus = *rc::gen::element<std::int64_t>(4, 8);
    n.free_gpus = pick(0, n.total_gpus);
    n.free_cpus = pick(0, 64);
    n.free_memory_mb = pick(0, 64000);
    return n;
}

std::vector<NodeIndex> any_node_set(std::size_t nodes) {
    std::vector<NodeIndex> set;
    for (NodeIndex i = 0; i < nodes; ++i) {
        if (pick(0, 3) != 0) set.push_back(i);
    }
    return set;
}

JobState any_job(JobId id) {
    JobState j;
    j.id = id;
    j.phase = pick(0, 9) == 0 ? JobPhase::running : JobPhase::pending;
    j.priority = static_cast<double>(pick(0, 3));
    j.submit_s = static_cast<double>(pick(0, 3));
    if (pick(0, 2) == 0) j.gpu_types = {*rc::gen::elementOf(type_names)};
    j.min_gpus = pick(1, 4);
    j.max_gpus = pick(0, 4) == 0 ? INT64_MAX : j.min_gpus + pick(0, 30);
    j.cpus_per_gpu = pick(0, 4);
    j.memory_mb_per_gpu = pick(0, 4000);
    j.node_set = static_cast<std::uint32_t>(pick(0, 1));
    j.remaining_iterations = pick_number();
    j.overrun = pick(0, 1) == 1;
    j.restarts = pick(0, 3);
    for (std::int64_t i = 0, known = pick(0, 3); i < known; ++i)
        j.moves_took_s[static_cast<std::size_t>(i)] = pick(1, 1000);
    return j;
}

Replay any_replay() {
    Replay r;
    r.snapshot.time_s = pick_number();
    r.snapshot.generation = static_cast<std::uint64_t>(pick(0, 1 << 30));
    const auto nodes = static_cast<std::size_t>(pick(0, 10));
    for (std::size_t i = 0; i < nodes; ++i) r.snapshot.nodes.push_back(any_node(i));
    r.snapshot.node_sets = {any_node_set(nodes), any_node_set(nodes)};
    const auto jobs = static_cast<JobId>(pick(0, 12));
    for (JobId id = 1; id <= jobs; ++id) {
        r.snapshot.jobs.push_back(any_job(id));
        auto& offers = r.offers[id];
        for (std::int64_t n = pick(0, 6); n > 0; --n) offers.push_back(any_offer());
        if (!offers.empty() && pick(0, 3) == 0) r.snapshot.jobs.back().current = offers.front();
    }
    r.options.reserve_depth = pick(0, 4);
    return r;
}

Decision decide(const Replay& r) { return decide_fifo(r.snapshot, r.offers, r.options); }

const JobState& job_of(const Replay& r, JobId id) {
    return *std::find_if(r.snapshot.jobs.begin(), r.snapshot.jobs.end(),
                         [&](const JobState& j) { return j.id == id; });
}

bool allows(const JobState& job, const Offer& offer) {
    const bool type =
        job.gpu_types.empty() ||
        std::count(job.gpu_types.begin(), job.gpu_types.end(), offer.grid.gpu_type) > 0;
    return type && offer.grid.gpus() >= job.min_gpus && offer.grid.gpus() <= job.max_gpus;
}

bool is_ahead(const JobState& a, const JobState& b) {
    if (a.priority != b.priority) return a.priority > b.priority;
    if (a.submit_s != b.submit_s) return a.submit_s < b.submit_s;
    return a.id < b.id;
}

bool fits_now(const Snapshot& s, const JobState& job, const Offer& offer) {
    std::int64_t good = 0;
    for (const NodeIndex i : s.node_sets[job.node_set]) {
        const NodeState& n = s.nodes[i];
        const std::int64_t g = offer.grid.gpus_per_node;
        good += n.gpu_type == offer.grid.gpu_type && n.free_gpus >= g &&
                n.free_cpus >= g * job.cpus_per_gpu &&
                n.free_memory_mb >= g * job.memory_mb_per_gpu;
    }
    return good >= offer.grid.nodes;
}

void take(Snapshot& s, const JobState& job, const Action& action) {
    for (const NodeIndex i : action.nodes) {
        NodeState& n = s.nodes[i];
        const std::int64_t g = action.offer.grid.gpus_per_node;
        RC_ASSERT(n.gpu_type == action.offer.grid.gpu_type);
        RC_ASSERT((n.free_gpus -= g) >= 0);
        RC_ASSERT((n.free_cpus -= g * job.cpus_per_gpu) >= 0);
        RC_ASSERT((n.free_memory_mb -= g * job.memory_mb_per_gpu) >= 0);
    }
}

void starts_never_exceed_the_cluster() {
    const Replay r = any_replay();
    Snapshot left = r.snapshot;
    for (const Action& a : decide(r).actions) {
        if (a.kind != ActionKind::start) continue;
        const JobState& job = job_of(r, a.job);
        const std::set<NodeIndex> distinct(a.nodes.begin(), a.nodes.end());
        const auto& set = r.snapshot.node_sets[job.node_set];
        RC_ASSERT(static_cast<std::int64_t>(distinct.size()) == a.offer.grid.nodes);
        RC_ASSERT(distinct.size() == a.nodes.size());
        RC_ASSERT(std::includes(set.begin(), set.end(), distinct.begin(), distinct.end()));
        take(left, job, a);
    }
}

void every_pending_job_gets_one_allowed_answer() {
    const Replay r = any_replay();
    const Decision d = decide(r);
    std::set<JobId> answered;
    for (const Action& a : d.actions) {
        const JobState& job = job_of(r, a.job);
        const auto& offers = r.offers.at(a.job);
        RC_ASSERT(job.phase == JobPhase::pending);
        RC_ASSERT(answered.insert(a.job).second);
        RC_ASSERT(std::find(offers.begin(), offers.end(), a.offer) != offers.end());
        RC_ASSERT(allows(job, a.offer));
        RC_ASSERT(a.offer.plan.gpus() == a.offer.grid.gpus());
        RC_ASSERT(!a.reason.empty());
    }
    for (const auto& [id, reason] : d.waiting) {
        RC_ASSERT(answered.insert(id).second);
        RC_ASSERT(!reason.empty());
    }
    for (const JobState& job : r.snapshot.jobs) {
        RC_ASSERT(answered.count(job.id) == (job.phase == JobPhase::pending ? 1U : 0U));
    }
}

void the_order_of_jobs_and_offers_does_not_matter() {
    const Replay r = any_replay();
    Replay shuffled = r;
    std::mt19937 random(static_cast<unsigned>(pick(0, 1 << 30)));
    std::shuffle(shuffled.snapshot.jobs.begin(), shuffled.snapshot.jobs.end(), random);
    for (auto& [id, offers] : shuffled.offers) {
        std::vector<Offer>& list = offers.own();
        std::shuffle(list.begin(), list.end(), random);
    }
    const Decision first = decide(r), second = decide(shuffled);
    // Offers that differ only in estimates other than the iteration time are equally good.
    RC_ASSERT(first.waiting == second.waiting);
    RC_ASSERT(first.actions.size() == second.actions.size());
    for (std::size_t i = 0; i < first.actions.size(); ++i) {
        const Action &a = first.actions[i], &b = second.actions[i];
        RC_ASSERT(a.kind == b.kind && a.job == b.job && a.nodes == b.nodes);
        RC_ASSERT(a.offer.grid == b.offer.grid && a.offer.plan == b.offer.plan);
    }
    RC_ASSERT(decide(r) == first);
}

void no_job_overtakes_a_waiting_one() {
    Replay r = any_replay();
    r.options.reserve_depth = 1000;  // every waiting job shows what it waits for
    for (JobState& job : r.snapshot.jobs) job.current.reset();
    const Decision d = decide(r);
    for (const Action& wait : d.actions) {
        if (wait.kind != ActionKind::reshape_and_wait) continue;
        const JobState& waiter = job_of(r, wait.job);
        const auto& set = r.snapshot.node_sets[waiter.node_set];
        for (const Action& start : d.actions) {
            if (start.kind != ActionKind::start) continue;
            if (!is_ahead(waiter, job_of(r, start.job))) continue;
            for (const NodeIndex i : start.nodes) {
                const NodeState& n = r.snapshot.nodes[i];
                const bool wanted = std::count(set.begin(), set.end(), i) > 0 &&
                                    n.gpu_type == wait.offer.grid.gpu_type &&
                                    n.total_gpus >= wait.offer.grid.gpus_per_node;
                RC_ASSERT(!wanted);
            }
        }
    }
}

void the_first_job_starts_whenever_anything_fits() {
    const Replay r = any_replay();
    const JobState* first = nullptr;
    for (const JobState& job : r.snapshot.jobs) {
        if (job.phase != JobPhase::pending) continue;
        if (first == nullptr || is_ahead(job, *first)) first = &job;
    }
    if (first == nullptr) RC_DISCARD("no pending job");
    double best = 1e9;
    for (const Offer& o : r.offers.at(first->id)) {
        if (allows(*first, o) && fits_now(r.snapshot, *first, o)) {
            best = std::min(best, o.estimate.iteration_s);
        }
    }
    const Decision d = decide(r);
    const bool started = !d.actions.empty() && d.actions.front().kind == ActionKind::start &&
                         d.actions.front().job == first->id;
    RC_ASSERT(started == (best < 1e9));
    if (started) RC_ASSERT(d.actions.front().offer.estimate.iteration_s == best);
}

/// Every job ends within a round: then each job that an empty cluster can hold starts at some time.
void nobody_starves() {
    Replay r = any_replay();
    for (NodeState& n : r.snapshot.nodes) {
        n.free_gpus = n.total_gpus;
        n.free_cpus = 64;
        n.free_memory_mb = 64000;
    }
    const std::size_t rounds = r.snapshot.jobs.size();
    for (std::size_t round = 0; round < rounds; ++round) {
        for (const Action& a : decide(r).actions) {
            if (a.kind != ActionKind::start) continue;
            std::erase_if(r.snapshot.jobs, [&](const JobState& j) { return j.id == a.job; });
        }
    }
    for (const JobState& job : r.snapshot.jobs) {
        if (job.phase != JobPhase::pending) continue;
        for (const Offer& o : r.offers.at(job.id)) {
            RC_ASSERT(!(allows(job, o) && fits_now(r.snapshot, job, o)));
        }
    }
}

void json_gives_back_what_was_written() {
    const Replay r = any_replay();
    const Decision d = decide(r);
    RC_ASSERT(parse_replay(to_json(r)).value() == r);
    RC_ASSERT(parse_snapshot(to_json(r.snapshot)).value() == r.snapshot);
    RC_ASSERT(parse_offers(to_json(r.offers)).value() == r.offers);
    RC_ASSERT(parse_decision(to_json(d)).value() == d);
    Offer o = any_offer();
    if (pick(0, 1) == 0) {
        const double pod = 1 + pick_number();
        o.slower = {pod, pod + pick_number()};
        o.segment = pick(1, 18);
    }
    RC_ASSERT(parse_offer_json(to_json(o)).value() == o);
    RC_ASSERT(parse_grid_json(to_json(o.grid)).value() == o.grid);
    RC_ASSERT(parse_plan_json(to_json(o.plan)).value() == o.plan);
    RC_ASSERT(parse_estimate_json(to_json(o.estimate)).value() == o.estimate);
}

Model any_model() {
    Model m;
    m.name = *rc::gen::container<std::string>(rc::gen::inRange(' ', '~'));
    m.name.resize(std::min<std::size_t>(m.name.size(), 256));
    m.family = *rc::gen::element(Family::gpt, Family::llama, Family::moe, Family::custom);
    m.precision =
        *rc::gen::element(Precision::fp32, Precision::bf16, Precision::mxfp8, Precision::nvfp4);
    for (const IntegerField& field : integer_fields()) m.*field.member = pick(0, 300000);
    for (const FlagField& field : flag_fields()) m.*field.member = *rc::gen::arbitrary<bool>();
    m.capacity_factor = *rc::gen::element(0.0, 1.0, 1.25);
    for (std::int64_t n = pick(0, 4); n > 0; --n) m.blocks.push_back(pick(0, 36));
    for (std::int64_t n = pick(0, 3); n > 0; --n) {
        m.custom_layers.push_back(
            {"block", n, pick_number(), pick_number(), pick_number(), pick_number()});
    }
    return m;
}

void models_and_hardware_survive_json() {
    const Model m = any_model();
    RC_ASSERT(parse_model_json(to_json(m)).value() == m);
    RC_ASSERT(fingerprint(parse_model_json(to_json(m)).value()) == fingerprint(m));
    GpuType g;
    g.name = "A40";
    g.memory_bytes = pick(1, std::int64_t{1} << 40);
    g.flops = {{Precision::bf16, pick_number()}, {Precision::fp32, pick_number()}};
    g.inter = {"ib", pick_number(), 1e-6, static_cast<double>(pick(0, 10))};
    g.aliases = {"a", "b"};
    g.emulated = *rc::gen::arbitrary<bool>();
    if (pick(0, 1) == 0) g.uplinks = {{{static_cast<double>(pick(1, 9)), 1e-6}, {2, 0}}};
    RC_ASSERT(parse_gpu_type_json(to_json(g)).value() == g);
    Json older = Json::parse(to_json(g));  // of before these keys
    older.erase("domain_gpus"), older["inter"].erase("cross_rail_cost");
    g.inter.cross_rail_cost = 0;
    RC_ASSERT(parse_gpu_type_json(older.dump()).value() == g);
}

/// Random damage to a valid document is refused or read, never a crash; what is read is writable
/// again.
void damaged_documents_are_refused_or_read() {
    std::string text = to_json(any_replay());
    for (std::int64_t n = pick(1, 4); n > 0; --n) {
        const auto at =
            static_cast<std::size_t>(pick(0, static_cast<std::int64_t>(text.size()) - 1));
        switch (pick(0, 2)) {
            case 0:
                text[at] = *rc::gen::arbitrary<char>();
                break;
            case 1:
                text.erase(at, static_cast<std::size_t>(pick(1, 20)));
                break;
            default:
                text.insert(at, text.substr(at, 30));
                break;
        }
        if (text.empty()) return;
    }
    const auto r = parse_replay(text);
    if (!r) return RC_ASSERT(!r.error().text.empty());
    RC_ASSERT(parse_replay(to_json(*r)).value() == *r);
}

}  // namespace

PROPERTY(starts_never_exceed_the_cluster, "starts never exceed the cluster");
PROPERTY(every_pending_job_gets_one_allowed_answer, "every pending job gets one allowed answer");
PROPERTY(the_order_of_jobs_and_offers_does_not_matter,
         "the order of jobs and offers does not matter");
PROPERTY(no_job_overtakes_a_waiting_one, "no job overtakes a waiting one");
PROPERTY(the_first_job_starts_whenever_anything_fits,
         "the first job starts whenever anything fits");
PROPERTY(nobody_starves, "nobody starves");
PROPERTY(json_gives_back_what_was_written, "JSON gives back what was written");
PROPERTY(models_and_hardware_survive_json, "models and hardware survive JSON");
PROPERTY(damaged_documents_are_refused_or_read, "damaged documents are refused or read");
SUITE({.before = [] { arena::test::fix_seed(500); }, .timeout_s = 0});
