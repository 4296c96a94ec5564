// SPDX-License-Identifier: GPL-2.0-or-later
// Properties that hold for every query, on random ones (rapidcheck; property.h says with which
// seed): plans use exactly their GPUs, fit memory, add up, and come out the same twice.
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <string>

#include "planner/hardware/hardware.h"
#include "planner/models/model.h"
#include "planner/models/readers.h"
#include "planner/operators/cost.h"
#include "planner/requests/build_request.h"
#include "planner/search/planner.h"
#include "property.h"
#include "request/request.h"

using namespace arena;

namespace {

std::int64_t pick(std::int64_t min, std::int64_t max) { return *rc::gen::inRange(min, max + 1); }

Model any_model() {
    Model m;
    m.family = *rc::gen::element(Family::gpt, Family::llama, Family::bert);
    set_family_flags(m);
    m.layers = pick(1, 40);
    m.heads = *rc::gen::element<std::int64_t>(1, 2, 3, 8, 12, 16, 25, 32, 64);
    m.kv_heads =
        m.family == Family::llama && m.heads % 4 == 0 && pick(0, 1) == 1 ? m.heads / 4 : m.heads;
    m.hidden = m.heads * *rc::gen::element<std::int64_t>(8, 64, 80, 128);
    m.ffn_hidden = *rc::gen::element<std::int64_t>(2, 3, 4) * m.hidden;
    m.vocab = pick(2, 150000);
    m.seq_length = pick(1, 4096);
    m.precision = *rc::gen::element(Precision::fp32, Precision::fp16, Precision::bf16);
    const Result<Model> model = complete_model(m, "generated");
    RC_ASSERT(model.ok());
    return *model;
}

const std::vector<GpuType>& hardware() {
    static const auto types = load_hardware("");
    return *types;
}

GpuPool any_pool() {
    const GpuType type = *rc::gen::elementOf(hardware());
    return {type.name, type, *rc::gen::element<std::int64_t>(1, 2, 3, 4, 6, 8), pick(1, 48), {}};
}

PlanQuery any_query() {
    PlanQuery query{
        any_model(), *rc::gen::element<std::int64_t>(1, 7, 12, 64, 96, 512, 1000), 1, 1, {}, {}};
    query.min_gpus = pick(1, 8);
    query.max_gpus = query.min_gpus + pick(0, 40);
    if (pick(0, 3) == 0) query.pin = {pick(0, 3), pick(0, 3), pick(0, 2), pick(0, 2)};
    for (std::int64_t i = pick(1, 2); i > 0; --i) {
        query.pools.push_back(any_pool());
        query.pools.back().gpu_type +=
            "-" + std::to_string(i);  // site names differ, hardware may not
    }
    return query;
}

const GpuPool& pool_of(const PlanQuery& query, const std::string& type) {
    return *std::find_if(query.pools.begin(), query.pools.end(),
                         [&](const GpuPool& pool) { return pool.gpu_type == type; });
}

std::int64_t sum(const std::vector<std::int64_t>& list) {
    return std::accumulate(list.begin(), list.end(), std::int64_t{0});
}

void check_plan(const PlanQuery& query, const GridResult& r) {
    const Plan& plan = r.plan;
    RC_ASSERT(plan.gpus() == r.grid.gpus());
    RC_ASSERT(plan.pp() == r.grid.stages);
    RC_ASSERT(sum(plan.stage_layers) == query.model.layers);
    RC_ASSERT(*std::min_element(plan.stage_layers.begin(), plan.stage_layers.end()) >= 1);
    RC_ASSERT(plan.dp() * plan.micro_batch * plan.num_micro_batches == query.global_batch);
    RC_ASSERT(query.model.heads % plan.tp() == 0);
    RC_ASSERT(r.grid.gpus_per_node % plan.tp() == 0);
    RC_ASSERT(matches(query.pin, plan));
}

void check_estimate(const PlanQuery& query, const GridResult& r, const GpuPool& pool) {
    const Estimate& e = r.estimate;
    const double parts =
        e.compute_s + e.tp_comm_s + e.pp_comm_s + e.dp_comm_s + e.bubble_s + e.optimizer_s;
    RC_ASSERT(std::isfinite(e.iteration_s) && e.iteration_s > 0);
    RC_ASSERT(std::fabs(parts / e.iteration_s - 1) < 1e-9);
    for (double part :
         {e.compute_s, e.tp_comm_s, e.pp_comm_s, e.dp_comm_s, e.bubble_s, e.optimizer_s})
        RC_ASSERT(part >= 0);
    RC_ASSERT(e.memory_bytes_per_gpu <= static_cast<double>(pool.hardware.memory_bytes));
    RC_ASSERT(std::fabs(e.samples_per_s * e.iteration_s / static_cast<double>(query.global_batch) -
                        1) < 1e-9);
    RC_ASSERT(e.error_bound > 0 && e.error_bound < 1);
    const Precision precision = pool.hardware.emulated ? Precision::fp32 : query.model.precision;
    RC_ASSERT(e.tflops_per_gpu * 1e12 < pool.hardware.flops.at(precision));
}

void plans_add_up_and_fit() {
    const PlanQuery query = any_query();
    bool feasible = false;
    for (const GridResult& r : plan_grids(query)) {
        const GpuPool& pool = pool_of(query, r.grid.gpu_type);
        RC_ASSERT(r.feasible == r.reason.empty());
        if (!r.feasible) continue;
        feasible = true;
        RC_ASSERT(r.grid.gpus_per_node <= pool.gpus_per_node);
        RC_ASSERT(r.grid.gpus() >= query.min_gpus &&
                  r.grid.gpus() <= std::min(query.max_gpus, pool.max_gpus));
        check_plan(query, r);
        check_estimate(query, r, pool);
    }
    RC_TAG(feasible);
}

void planning_twice_gives_the_same() {
    const PlanQuery query = any_query();
    const auto a = plan_grids(query), b = plan_grids(query);
    RC_ASSERT(a.size() == b.size());
    for (std::size_t i = 0; i < a.size(); ++i)
        RC_ASSERT(a[i].grid == b[i].grid && a[i].plan == b[i].plan &&
                  a[i].estimate == b[i].estimate);
    RC_ASSERT(make_offers(query) == make_offers(query));
    RC_ASSERT(operator_list(query) == operator_list(query));
}

/// The proxy plan must be no slower than any plan that a random pin selects and that fits.
void no_pinned_plan_beats_the_proxy() {
    PlanQuery query = any_query();
    query.pin = {};
    const auto free_grids = plan_grids(query);
    query.pin = {pick(1, 4), 0, *rc::gen::element<std::int64_t>(1, 2, 4),
                 *rc::gen::element<std::int64_t>(0, 1, 2)};
    for (const GridResult& pinned : plan_grids(query)) {
        if (!pinned.feasible) continue;
        for (const GridResult& r : free_grids)
            if (r.grid == pinned.grid)
                RC_ASSERT(r.feasible && r.estimate.iteration_s <= pinned.estimate.iteration_s);
    }
}

/// A slower device must give slower estimates, whatever part of it was measured.
void slower_measurements_never_speed_up() {
    PlanQuery query = any_query();
    query.pools.resize(1);
    const std::vector<OpShape> list = operator_list(query);
    RC_PRE(!list.empty());
    OpSeconds fast, slow;
    for (std::size_t i = 0; i < list.size(); i += static_cast<std::size_t>(pick(1, 5))) {
        const double seconds =
            analytic_seconds(query.pools[0].hardware, list[i]) * static_cast<double>(pick(1, 4));
        fast[list[i]] = seconds;
        slow[list[i]] = 2 * seconds;
    }
    query.pools[0].profile = ProfileTable(fast);
    const auto quick = make_offers(query);
    query.pools[0].profile = ProfileTable(slow);
    for (const Offer& late : make_offers(query))
        for (const Offer& early : quick)
            if (early.grid.gpus() == late.grid.gpus())
                RC_ASSERT(late.estimate.iteration_s >= early.estimate.iteration_s);
}

void readers_survive_any_text() {
    const std::string text = *rc::gen::container<std::string>(
        rc::gen::element('{', '}', '[', ']', '"', ':', ',', '\n', ' ', '-', '1', '9', 'e', '.', 'a',
                         'm', 'n', '\\', '\xff', '\0'));
    for (const std::string& whole :
         {text, "{\"model_type\":\"gpt2\"," + text + "}", "family: gpt\n" + text}) {
        const Result<Model> model = parse_model(whole, "any");
        if (model.ok())
            RC_ASSERT(check_model(*model).ok());
        else
            RC_ASSERT(model.error().message().find('\n') == std::string::npos);
        RC_ASSERT(!parse_hardware(whole, "any").ok());
    }
    const Result<Request> request =
        build_request({{"model", "gpt2"}, {"batch", text}, {"gpus", text}}, "", "");
    if (!request.ok()) RC_ASSERT(request.error().message().find('\n') == std::string::npos);
}

void before() {
    arena::test::fix_seed(300);
    arena::test::must(load_hardware(""));
}

}  // namespace

PROPERTY(plans_add_up_and_fit, "plans add up and fit");
PROPERTY(planning_twice_gives_the_same, "planning twice gives the same");
PROPERTY(no_pinned_plan_beats_the_proxy, "no pinned plan beats the proxy");
PROPERTY(slower_measurements_never_speed_up, "slower measurements never speed up");
PROPERTY(readers_survive_any_text, "readers survive any text");
SUITE({.before = before, .timeout_s = 0});
