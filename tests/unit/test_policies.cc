// SPDX-License-Identifier: GPL-2.0-or-later
// The baselines: what each is known for, on a handful of GPUs; and every policy of the registry
// through whole simulations, in which the simulator checks each decision for capacity, states and
// offers.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "baselines/arena_paper.h"
#include "baselines/elasticflow.h"
#include "baselines/gandiva.h"
#include "baselines/gavel.h"
#include "baselines/registry.h"
#include "baselines/sia.h"
#include "policy/work_left.h"
#include "sim/generate.h"
#include "sim/lower_bound.h"
#include "sim/random.h"
#include "sim/simulator.h"
#include "suite.h"

using namespace arena;
using namespace arena::sim;
using arena::test::must;

namespace {

Offer offer_of(const std::string& type, std::int64_t gpus, double iteration_s) {
    Offer offer;
    offer.grid = {type, 1, gpus, 1};
    offer.estimate.iteration_s = iteration_s;
    return offer;
}

/// Nodes of eight GPUs, one per type; jobs with requests; time 100,000 s.
class Scene {
  public:
    explicit Scene(const std::vector<std::string>& types) {
        s_.time_s = 100000;
        s_.node_sets.emplace_back();
        for (const std::string& type : types) {
            s_.node_sets[0].push_back(static_cast<NodeIndex>(s_.nodes.size()));
            s_.nodes.push_back({type, type, 8, 8, 0, 0});
        }
        options_.any_layout = true;
    }
    /// A job that asks for the offer at `asked`.
    JobState& add(double iterations, const std::vector<Offer>& offers, std::size_t asked) {
        JobState& job = s_.jobs.emplace_back();
        job.id = static_cast<JobId>(s_.jobs.size());
        job.max_gpus = INT64_MAX;
        job.cpus_per_gpu = 0;
        job.elastic = true;
        job.remaining_iterations = iterations;
        job.submit_s = static_cast<double>(job.id);
        job.age_s = s_.time_s - job.submit_s;
        job.requested_type = offers[asked].grid.gpu_type;
        job.requested_gpus = offers[asked].grid.gpus();
        offers_[job.id] = offers;
        return job;
    }
    /// Lets the job run on its offer at `index` since the beginning of time.
    void run(JobState& job, std::size_t index) {
        job.phase = JobPhase::running;
        job.current = offers_[job.id][index];
        job.restarts = 1;
        for (NodeIndex n = 0; n < s_.nodes.size(); ++n) {
            if (s_.nodes[n].gpu_type != job.current->grid.gpu_type) continue;
            job.nodes = {n};
            s_.nodes[n].free_gpus -= job.current->grid.gpus();
        }
        job.attained_gpu_s = 50000 * static_cast<double>(job.current->grid.gpus());
    }
    Decision decide(const PolicyFunction& policy) { return policy(s_, offers_, options_); }
    /// GPUs and type that the decision gives the job, as "4xa40", "-" for a preemption, "" for
    /// nothing.
    static std::string given(const Decision& decision, JobId id) {
        for (const Action& action : decision.actions) {
            if (action.job != id) continue;
            return action.kind == ActionKind::preempt ? "-" : short_form(action.offer.grid);
        }
        return "";
    }

  private:
    Snapshot s_;
    Offers offers_;
    PolicyOptions options_;
};

/// Speeds that grow as the square root of the GPUs.
std::vector<Offer> ladder(const std::string& type, double iteration_s) {
    return {offer_of(type, 1, iteration_s), offer_of(type, 2, iteration_s / 1.4),
            offer_of(type, 4, iteration_s / 2), offer_of(type, 8, iteration_s / 2.8)};
}

void assert_given(const Decision& decision, JobId id, const char* wanted,
                  const std::source_location& at = std::source_location::current()) {
    arena::test::assert_text(Scene::given(decision, id), wanted, at);
}

Throughputs random_table(Random& random, std::string& text) {
    text = "model,params,global_batch,gpu_type,num_nodes,gpus_per_node,iter_time_s\n";
    for (const char* model : {"a", "b", "c", "d"}) {
        for (const char* type : {"p", "q"}) {
            double time_s = random.uniform(1, 20);
            for (int gpus = 1; gpus <= 8; gpus *= 2) {
                if (random.uniform() < 0.8) {
                    text += fmt::format("{},1B,8,{},1,{},{:.3f}\n", model, type, gpus, time_s);
                }
                time_s /= random.uniform(1, 2);
            }
        }
    }
    return *parse_throughputs(text, "t.csv");
}

}  // namespace

TEST(gavel_keeps_the_count_and_chooses_the_type) {
    Scene scene({"a40", "v100"});
    auto offers = ladder("a40", 10);
    offers.push_back(offer_of("v100", 2, 3));
    offers.push_back(offer_of("v100", 8, 1));
    scene.add(1000, offers, 1);
    assert_given(scene.decide(&decide_gavel), 1, "2xv100");
    assert_given(scene.decide(&decide_gavel_las), 1, "2xv100");
    assert_given(scene.decide(&decide_gavel_informed), 1, "2xv100");
}

TEST(gavel_las_serves_whoever_had_least_and_the_informed_one_the_shortest) {
    Scene scene({"a40"});
    scene.run(scene.add(100, ladder("a40", 10), 3), 3);  // 8 GPUs for long, nearly done
    scene.add(1000000, ladder("a40", 10), 3);            // wants 8, had nothing
    assert_given(scene.decide(&decide_gavel_las), 1, "-");
    assert_given(scene.decide(&decide_gavel_las), 2, "8xa40");
    assert_given(scene.decide(&decide_gavel_informed), 1, "");
    assert_given(scene.decide(&decide_gavel_informed), 2, "");
}

TEST(sia_starts_small_and_doubles_and_stops_nobody_for_growth) {
    Scene scene({"a40"});
    scene.add(1000, ladder("a40", 10), 3);
    assert_given(scene.decide(&decide_sia), 1, "1xa40");
    Scene later({"a40"});
    later.run(later.add(1000, ladder("a40", 10), 3), 0);
    assert_given(later.decide(&decide_sia), 1, "2xa40");
    Scene full({"a40"});
    for (int i = 0; i < 8; ++i) full.run(full.add(1000, ladder("a40", 10), 3), 0);
    ck_assert_uint_eq(full.decide(&decide_sia).actions.size(), 0);
}

TEST(elasticflow_gives_everyone_the_minimum_before_anyone_grows) {
    Scene scene({"a40", "v100"});
    for (int i = 0; i < 4; ++i) {
        auto offers = ladder("a40", 10);
        offers.push_back(offer_of("v100", 1, 0.1));  // not the type asked for
        scene.add(1000, offers, 1);
    }
    const Decision equal = scene.decide(&decide_elasticflow);
    for (JobId id = 1; id <= 4; ++id) assert_given(equal, id, "2xa40");
    Scene crowded({"a40"});
    crowded.run(crowded.add(1000, ladder("a40", 10), 0), 3);  // holds all eight
    for (int i = 0; i < 7; ++i) crowded.add(1000, ladder("a40", 10), 0);
    const Decision shrunk = crowded.decide(&decide_elasticflow);
    for (JobId id = 1; id <= 8; ++id) assert_given(shrunk, id, "1xa40");
}

TEST(the_informed_elasticflow_serves_the_shortest_first) {
    Scene scene({"a40"});
    const std::vector<Offer> whole{offer_of("a40", 8, 1)};
    scene.add(1000000, whole, 0);
    scene.add(100, whole, 0);
    assert_given(scene.decide(&decide_elasticflow), 1, "8xa40");
    assert_given(scene.decide(&decide_elasticflow_informed), 2, "8xa40");
}

TEST(gandiva_lends_idle_gpus_and_calls_them_in) {
    Scene idle({"a40"});
    idle.run(idle.add(1000, ladder("a40", 10), 1), 1);
    assert_given(idle.decide(&decide_gandiva), 1, "4xa40");
    Scene wanted({"a40"});
    wanted.run(wanted.add(1000, ladder("a40", 10), 1), 3);  // asked for 2, holds 8
    wanted.add(1000, ladder("a40", 10), 2);
    const Decision decision = wanted.decide(&decide_gandiva);
    assert_given(decision, 1, "2xa40");
    assert_given(decision, 2, "4xa40");
}

TEST(gandiva_blocks_behind_the_first_and_the_informed_one_does_not) {
    Scene scene({"a40"});
    scene.run(scene.add(1000, ladder("a40", 10), 2), 2);
    scene.add(1000000, ladder("a40", 10), 3);  // wants eight, four are free
    scene.add(100, ladder("a40", 10), 0);
    assert_given(scene.decide(&decide_gandiva), 3, "");
    assert_given(scene.decide(&decide_gandiva_informed), 3, "1xa40");
}

TEST(the_published_arena_halves_others_to_make_room_and_doubles_into_idle_gpus) {
    Scene full({"a40"});
    full.run(full.add(1000, ladder("a40", 10), 3), 3);
    full.add(1000, ladder("a40", 10), 2);
    const Decision decision = full.decide(&decide_arena_paper);
    assert_given(decision, 1, "4xa40");
    assert_given(decision, 2, "4xa40");
    Scene idle({"a40"});
    idle.run(idle.add(1000, ladder("a40", 10), 0), 0);
    assert_given(idle.decide(&decide_arena_paper), 1, "8xa40");
    Scene types({"a40", "v100"});
    auto both = ladder("a40", 10);
    both.push_back(offer_of("v100", 4, 4));  // job 1 moves away rather than halve
    types.run(types.add(1000, both, 2), 2);
    types.add(1000, {offer_of("a40", 8, 1)}, 0);
    const Decision moved = types.decide(&decide_arena_paper);
    assert_given(moved, 1, "4xv100");
    assert_given(moved, 2, "8xa40");
}

TEST(an_opportunist_is_stopped_for_an_older_job) {
    Scene scene({"a40"});
    scene.add(1000, {offer_of("a40", 8, 1)}, 0);                // older, waits
    scene.run(scene.add(1000, {offer_of("a40", 1, 5)}, 0), 0);  // younger, cannot be halved
    const Decision decision = scene.decide(&decide_arena_paper);
    assert_given(decision, 1, "8xa40");
    assert_given(decision, 2, "-");
}

/// The simulator refuses decisions that take too much or name wrong states; all jobs must end.
TEST(every_policy_finishes_every_job_and_repeats_itself) {
    const char* more = std::getenv("ARENA_MANY_CASES");
    const int cases = more != nullptr ? std::max(1, std::atoi(more)) : 12;
    Random random(21);
    for (int i = 0; i < cases; ++i) {
        std::string text;
        const Throughputs table = random_table(random, text);
        const auto cluster = parse_cluster(
            "nodes:\n  - {gpu_type: p, count: 2, gpus_per_node: 4}\n"
            "  - {gpu_type: q, count: 1, gpus_per_node: 8}\n",
            "c.yaml");
        GeneratorOptions generator;
        generator.jobs = 30;
        generator.load = random.uniform(0.3, 3);
        generator.seed = static_cast<std::uint64_t>(i);
        const auto trace = must(generate_trace(*cluster, table, generator));
        WorkloadOptions binding;
        if (random.uniform() < 0.5) binding.placement = PlacementRule::pools;
        const auto workload = must(bind_workload(*cluster, trace, table, binding));
        for (const Policy& policy : policies()) {
            SimulationOptions options;
            options.errors = {random.uniform() < 0.5 ? 0 : 0.3, random.uniform() < 0.5 ? 0 : 1.0,
                              3};
            const auto first = simulate(workload, policy.name, policy.decide, options);
            ck_assert_msg(first.ok(), "%s, case %d: %s", std::string(policy.name).c_str(), i,
                          first.ok() ? "" : first.error().message().c_str());
            BoundOptions bounding;
            bounding.errors = options.errors;
            bounding.iterations = 40;
            const Bound bound = lower_bound(workload, bounding);
            ck_assert_msg(first->jct_s.mean >= bound.mean_jct_s * (1 - 1e-9), "%s: %g below %g",
                          std::string(policy.name).c_str(), first->jct_s.mean, bound.mean_jct_s);
            ck_assert_int_eq(first->finished, first->jobs);
            const auto second = simulate(workload, policy.name, policy.decide, options);
            ck_assert(first->jct_s.mean == second->jct_s.mean &&
                      first->restarts == second->restarts);
            if (!policy.only_events) continue;
            options.min_gap_s = 0;  // a round keeps nobody waiting
            const auto rounds = simulate(workload, policy.name, policy.decide, options);
            options.only_events = true;
            const auto events = simulate(workload, policy.name, policy.decide, options);
            ck_assert(rounds->jct_s.mean == events->jct_s.mean &&
                      rounds->decisions > events->decisions);
        }
    }
}

TEST(the_bound_knows_that_jobs_share_gpus_and_that_time_ends) {
    const auto table = parse_throughputs(
        "model,params,global_batch,gpu_type,num_nodes,gpus_per_node,"
        "iter_time_s\na,1B,8,p,1,1,10\n",
        "t.csv");
    const auto cluster =
        parse_cluster("nodes: [{gpu_type: p, count: 1, gpus_per_node: 1}]", "c.yaml");
    std::string text =
        "job_id,submission_time,num_iteration,model_name,batch_size,num_gpu,gpu_type\n";
    for (int i = 0; i < 5; ++i) text += fmt::format("j{},0,{},a__1B,8,1,p\n", i, 1000 << i);
    const auto workload = must(bind_workload(*cluster, *parse_trace(text, "j.csv"), *table, {}));
    BoundOptions options;  // 2,000 s, 4,000 s .. 32,000 s, the shortest first: 22,800 s on average
    const Bound bound = lower_bound(workload, options);
    ck_assert_int_eq(bound.jobs, 5);
    ck_assert_double_eq_tol(bound.alone_s, 12440, 1e-6);
    ck_assert_msg(bound.mean_jct_s > 20000 && bound.mean_jct_s <= 22920, "%g", bound.mean_jct_s);
    options.max_time_s = 15000;  // three end: (2 + 6 + 14 + 2 x 15) / 5
    const Bound cut = lower_bound(workload, options);
    ck_assert_msg(cut.mean_jct_s > 9500 && cut.mean_jct_s <= 10472, "%g", cut.mean_jct_s);
}

TEST(work_left_is_what_the_user_said_less_what_is_done_and_one_iteration_of_an_overrun) {
    struct Case {
        double said, done, left;
        bool overrun;
    };
    for (const Case& c : {Case{100, 0, 100, false},
                          {100, 99.5, 0.5, false},
                          {100, 100, 1, true},
                          {100, 250, 1, true}}) {
        JobState job;
        job.done_iterations = c.done;
        job.remaining_iterations = 7, job.overrun = !c.overrun;  // of an earlier round
        set_work_left(job, c.said);
        ck_assert_double_eq(job.remaining_iterations, c.left);
        ck_assert_int_eq(job.overrun, c.overrun);
        ck_assert_double_eq(job.done_iterations, c.done);
    }
}

TEST(steps_are_believed_as_far_as_the_limit_that_slurm_enforces_lets_them) {
    struct Case {
        double said, iteration_s, limit_s, slack, believed;
    };
    for (const Case& c :
         {Case{1000, 2, 4000, 2, 1000},    // shortened to twice what is said
          Case{1000, 2, 500, 2, 1000},     // shorter than the work: Slurm ends it
          Case{1000, 2, 4001, 2, 2000.5},  // longer: the limit alone counts
          Case{1000, 2, 6000, 3, 1000},    // an estimate that is worse
          Case{1000, 2, 6001, 3, 3000.5}, Case{10, 2, 4000, 2, 2000},  // a lie: 1 % of its work
          Case{1000, 2, 0, 2, 0},     // unlimited: nothing is enforced
          Case{0, 2, 4000, 2, 2000},  // nothing said
          Case{0, 2, 0, 2, 0}}) {
        const double believed = believed_iterations(c.said, c.iteration_s, c.limit_s, c.slack);
        ck_assert_msg(believed == c.believed, "said %g within %g s: %g, not %g", c.said, c.limit_s,
                      believed, c.believed);
    }
}

// Whole simulations, maybe on a busy machine.
SUITE({.timeout_s = 300});
