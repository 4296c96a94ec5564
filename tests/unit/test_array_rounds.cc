// SPDX-License-Identifier: GPL-2.0-or-later
// Rounds of the scheduler with siblings whose model no device holds alone: the lead's pipeline,
// what becomes of it where Slurm refuses it, and on which nodes it may be.
#include <cstdlib>

#include "scripted_host.h"
#include "suite.h"

using namespace arena;

namespace {

/// As in contrib/demo-array: four devices of 10 MB, and a model of 40.
struct SiblingScene : Scene {
    SiblingScene() {
        config.array_enabled = true;
        config.gpu_types = {{"a40", "small-cpu"}};
        config.array_solve_s = 0.05;
        host.view.snapshot.time_s = 1000;
        host.view.jobs.reserve(64);
        node("n1", "a40", 4, 4);
    }
    static Request sibling() {
        Request r = Scene::request();
        r.model = parse_model(
                      "family: gpt\nlayers: 8\nhidden: 96\nheads: 4\nvocab: 128\n"
                      "seq_length: 32\nprecision: fp32\ntied_embedding: false\n",
                      "sibling")
                      .value();
        r.pin = {.pp = 4, .dp = 1, .tp = 1};
        r.global_batch = 2;
        r.max_gpus = 0;
        r.array = true;
        r.launcher = "arena-train";
        return r;
    }
    JobView& task(JobId id, std::uint32_t number, const Request& r = sibling()) {
        JobView& view = job(id, r);
        view.array = {.id = 1, .task = number};
        view.time_limit_s = 600;
        view.eligible_s = 1000;
        return view;
    }
    std::unique_ptr<Scheduler> scheduler() {
        const char* source = std::getenv("ARENA_SRCDIR");
        const std::string file =
            std::string(source != nullptr ? source : ".") + "/contrib/demo-array.d/hardware.yaml";
        return std::make_unique<Scheduler>(host, config, load_hardware(file).value(),
                                           builtin_calibration());
    }
    void pass(double seconds) { host.view.snapshot.time_s += seconds; }
    [[nodiscard]] std::size_t made() const { return host.array_specs.size(); }
    [[nodiscard]] std::string reason_of(JobId id) const {
        for (const auto& reason : host.reasons)
            if (reason.job == id) return reason.text;
        return {};
    }
};

void says(const std::string& text, const char* words) {
    ck_assert_msg(text.find(words) != std::string::npos, "'%s' lacks '%s'", text.c_str(), words);
}

}  // namespace

TEST(a_lead_gets_a_pipeline_on_free_gpus) {
    SiblingScene scene;
    for (JobId id = 1; id <= 3; ++id) scene.task(id, id);
    const auto scheduler = scene.scheduler();
    scheduler->round();
    ck_assert_msg(scene.made() == 1, "%s", scheduler->explain(1).c_str());
    const ArrayCarrierSpec& spec = scene.host.array_specs[0];
    ck_assert_uint_eq(spec.lead, 1);
    ck_assert_int_eq(spec.gpus_per_node, 4);
    ck_assert_uint_eq(spec.time_limit_minutes, 10);
    says(scene.reason_of(1), "waits for its array's JobId=101 to begin");
    says(scene.reason_of(2), "as JobId=1 does");
}

TEST(a_pipeline_that_slurm_refuses_is_tried_less_and_less_often) {
    SiblingScene scene;
    for (JobId id = 1; id <= 3; ++id) scene.task(id, id);
    scene.host.next_array.why = "Requested nodes are busy";
    const auto scheduler = scene.scheduler();
    for (int i = 0; i < 120; ++i) {
        scheduler->round();
        says(scene.reason_of(1), "Requested nodes are busy");
        scene.pass(0.5);
    }
    ck_assert_msg(scene.made() >= 1 && scene.made() <= 3, "%zu", scene.made());
    ck_assert_uint_eq(scene.host.errors.size(), 1);
    scene.host.next_array.why = {};
    scene.pass(60);
    scheduler->round();
    says(scene.reason_of(1), "to begin");
}

TEST(one_whose_lead_has_changed_is_tried_in_the_next_round) {
    SiblingScene scene;
    for (JobId id = 1; id <= 2; ++id) scene.task(id, id);
    scene.host.next_array = {.id = 0, .limited = false, .stale = true, .why = "the job changed"};
    const auto scheduler = scene.scheduler();
    for (int i = 0; i < 2; ++i) {
        scheduler->round();
        scene.pass(0.5);
    }
    ck_assert_uint_eq(scene.made(), 2);
    ck_assert(scene.host.errors.empty());
}

TEST(one_that_a_limit_refuses_leaves_its_siblings_to_themselves) {
    SiblingScene scene;
    for (JobId id = 1; id <= 2; ++id) scene.task(id, id);
    scene.host.next_array = {.id = 0, .limited = true, .why = "AssocGrpGRES"};
    const auto scheduler = scene.scheduler();
    scheduler->round();
    scene.pass(0.5);
    scheduler->round();
    ck_assert_uint_eq(scene.made(), 1);
    ck_assert(called(scene.host, "start 1 n1"));
}

TEST(none_is_made_whose_states_the_node_has_no_memory_for) {
    SiblingScene scene;
    for (JobId id = 1; id <= 3; ++id) scene.task(id, id);
    scene.host.view.memory_tracked = true;
    scene.host.view.node_memory_mb[0] = 16;
    const auto scheduler = scene.scheduler();
    scheduler->round();
    ck_assert_uint_eq(scene.made(), 0);
    says(scheduler->explain(1), "the nodes' memory holds the states of fewer than two members");
    scene.host.view.node_memory_mb[0] = 16'000;
    scheduler->round();
    ck_assert_uint_eq(scene.made(), 1);
    ck_assert_int_eq(scene.host.array_specs[0].memory_mb_per_node, 16'000 - 3 * 512);
}

TEST(no_pipeline_is_on_lent_nodes) {
    SiblingScene scene;
    scene.config.loan_enabled = true;
    scene.node("n2", "a40", 4, 4);
    scene.host.view.snapshot.nodes[0].free_gpus = 0;
    scene.host.view.snapshot.node_sets.push_back({0});
    scene.host.view.snapshot.node_sets.push_back({1});
    for (JobId id = 1; id <= 2; ++id)
        scene.task(id, id).slots = {{.partition = "main", .place = {.node_set = 1}},
                                    {.partition = "loan", .place = {.node_set = 2}}};
    scene.scheduler()->round();
    ck_assert_uint_eq(scene.made(), 0);
    scene.host.view.snapshot.nodes[0].free_gpus = 4;
    scene.scheduler()->round();
    ck_assert_uint_eq(scene.made(), 1);
    ck_assert_str_eq(scene.host.array_specs[0].partition.c_str(), "main");
    ck_assert_str_eq(scene.host.array_specs[0].nodes.at(0).c_str(), "n1");
    // Who may have no others has no pipeline.
    for (JobView& job : scene.host.view.jobs) job.slots.erase(job.slots.begin());
    scene.host.calls.clear();
    scene.scheduler()->round();
    ck_assert_uint_eq(scene.made(), 1);
    ck_assert(called(scene.host, "start 1 n2"));
}

int main() { return arena::test::run_suite(); }
