// SPDX-License-Identifier: GPL-2.0-or-later
// One spelling of a plan: what is shown of a plan, given as a pin, is that plan and no other, and a
// pin that can never be is refused by a sentence.
#include "planner/requests/build_request.h"
#include "planner/requests/pin_rules.h"
#include "planner/requests/would_fit.h"
#include "planner_cases.h"
#include "request/request.h"
#include "suite.h"

using namespace arena;
using namespace arena::test;

namespace {

PlanQuery query_for(const char* model, const Capabilities& can, double memory_share) {
    PlanQuery query{.model = zoo(model), .global_batch = 64, .max_gpus = 16};
    GpuType type = hardware("A100-SXM-80GB");
    type.memory_bytes =
        static_cast<std::int64_t>(memory_share * static_cast<double>(type.memory_bytes));
    query.pools = {{.gpu_type = "a100", .hardware = type, .gpus_per_node = 8, .max_gpus = 16}};
    query.can = can;
    return query;
}

/// Every launcher in its table's version, and whatever the planner can price.
std::vector<std::pair<std::string, Capabilities>> all_launchers() {
    std::vector<std::pair<std::string, Capabilities>> list{{"any", all_capabilities()}};
    for (const Launcher& launcher : launchers())
        list.emplace_back(launcher.name, capabilities_of(launcher.name));
    return list;
}

bool has_mixed_stages(const Plan& plan) {
    const auto differs = [](const std::vector<std::int64_t>& list) {
        return std::any_of(list.begin(), list.end(),
                           [&](std::int64_t v) { return v != list.front(); });
    };
    return differs(plan.stage_dp) || differs(plan.stage_tp);
}

/// Plans that differ from this one in one thing.
std::vector<Plan> others(const Plan& plan) {
    std::vector<Plan> list;
    const auto add = [&](auto change) { change(list.emplace_back(plan)); };
    add([](Plan& p) {
        p.recompute = p.recompute == Recompute::full ? Recompute::none : Recompute::full;
    });
    add([](Plan& p) {
        p.recompute = p.recompute == Recompute::selective ? Recompute::none : Recompute::selective;
    });
    add([](Plan& p) { p.zero_stage = (p.zero_stage + 1) % 4; });
    add([](Plan& p) { p.sequence_parallel = !p.sequence_parallel; });
    add([](Plan& p) {
        p.schedule = p.schedule == Schedule::zb_h1 ? Schedule::one_f_one_b : Schedule::zb_h1;
    });
    for (std::int64_t Plan::*member : {&Plan::vpp, &Plan::cp, &Plan::ep, &Plan::etp,
                                       &Plan::micro_batch, &Plan::num_micro_batches})
        add([&](Plan& p) { p.*member += 1; });
    return list;
}

struct Counts {
    int plans = 0, recomputed = 0, sharded = 0, sequence = 0, wide = 0;
};

/// The text of the plan is the plan's alone.
void check_spelling(const Plan& plan, Counts& counts) {
    const std::string text = short_form(plan);
    const auto pin = parse_plan_pin(text);
    ck_assert_msg(pin.ok(), "%s", text.c_str());
    assert_text(to_string(*pin), text);
    ck_assert_msg(matches(*pin, plan), "%s", text.c_str());
    for (const Plan& other : others(plan)) {
        ck_assert_msg(!matches(*pin, other), "%s is taken for %s", short_form(other).c_str(),
                      text.c_str());
        ck_assert_str_ne(short_form(other).c_str(), text.c_str());
    }
    ++counts.plans;
    counts.recomputed += plan.recompute != Recompute::none;
    counts.sharded += plan.zero_stage != 0;
    counts.sequence += plan.sequence_parallel;
    counts.wide += plan.vpp * plan.cp * plan.ep > 1;
}

/// The search that is given the plan's text finds that plan, with its layers and its price.
void check_paste(const PlanQuery& free, const GridResult& shown) {
    PlanQuery query = free;
    query.pin = *parse_plan_pin(short_form(shown.plan));
    query.min_gpus = query.max_gpus = shown.grid.gpus();
    const std::vector<GridResult> found = plan_grids(query);
    const auto same = std::find_if(found.begin(), found.end(),
                                   [&](const GridResult& r) { return r.grid == shown.grid; });
    ck_assert_msg(same != found.end() && same->feasible, "%s: %s", short_form(shown.plan).c_str(),
                  same == found.end() ? "no grid" : same->reason.c_str());
    ck_assert_msg(same->plan == shown.plan, "%s became %s", to_json(shown.plan).c_str(),
                  to_json(same->plan).c_str());
    ck_assert_double_eq_tol(same->estimate.iteration_s, shown.estimate.iteration_s, 1e-12);
}

Request request_of(const char* model, const char* launcher, std::int64_t batch,
                   std::string_view pin) {
    Request request;
    request.model = zoo(model);
    request.global_batch = batch;
    const auto choice = parse_launcher(launcher);
    request.launcher = choice->launcher->name;
    request.launcher_version = choice->version ? to_string(*choice->version) : "";
    request.pin = *parse_plan_pin(pin);
    return request;
}

}  // namespace

TEST(every_plan_that_is_shown_is_read_back) {
    Counts counts;
    for (const char* model : {"gpt2-xl", "llama-2-13b", "gpt-oss-20b", "wide-resnet-50-2"}) {
        for (const auto& [name, can] : all_launchers())
            for (const double memory : {1.0, 0.25}) {
                const PlanQuery query = query_for(model, can, memory);
                std::vector<GridResult> plans = plan_grids(query);
                for (GridResult& r : plan_pareto(query)) plans.push_back(std::move(r));
                for (const GridResult& r : plans)
                    if (r.feasible && !has_mixed_stages(r.plan)) check_spelling(r.plan, counts);
            }
    }
    std::printf(
        "%d plans, %d recomputed, %d with ZeRO, %d sequence parallel, %d with vpp, cp or ep\n",
        counts.plans, counts.recomputed, counts.sharded, counts.sequence, counts.wide);
    ck_assert_int_gt(counts.plans, 500);
    for (const int some : {counts.recomputed, counts.sharded, counts.sequence, counts.wide})
        ck_assert_int_gt(some, 50);
}

TEST(a_plan_that_is_shown_and_given_back_is_found_again) {
    int plans = 0;
    for (const char* model : {"gpt2-xl", "llama-2-13b", "gpt-oss-20b"})
        for (const char* launcher : {"env", "megatron", "torchtitan", "deepspeed"}) {
            PlanQuery query = query_for(model, capabilities_of(launcher), 0.5);
            query.max_gpus = 8;
            for (const GridResult& shown : plan_pareto(query))
                if (shown.feasible && ++plans % 3 == 0) check_paste(query, shown);
        }
    ck_assert_int_gt(plans, 100);
}

TEST(a_whole_plan_leaves_nothing_free_and_a_part_of_one_does) {
    const PlanPin whole = *parse_plan_pin("pp2,dp2,tp1,mb4x16");
    ck_assert(whole.recompute == Recompute::none && whole.zero_stage == 0 &&
              whole.sequence_parallel == false);
    ck_assert(whole.vpp == 1 && whole.cp == 1 && whole.ep == 1);
    const PlanPin part = *parse_plan_pin("pp2,dp2,tp1,mb4");
    ck_assert(!part.recompute && !part.zero_stage && !part.sequence_parallel && part.vpp == 0);
    for (const char* text :
         {"pp2,dp2,tp1", "full", "pp2,zero1,sp0", "mb4x16", "dp2,none", "tp2,sp",
          "pp1,dp2,tp1,mb4,none,zero0,sp0", "pp2,dp2,tp2,mb4x16,vpp2,cp2,ep4,selective,zero3,sp"})
        assert_text(to_string(*parse_plan_pin(text)), text);
    assert_text(to_string(*parse_plan_pin("sp1,mb4x16,none,tp2,dp2,vpp1,zero0,pp2")),
                "pp2,dp2,tp2,mb4x16,sp");
    assert_text(to_string(*parse_plan_pin("pp2,dp2,tp1,mb4x16,sp0,none,zero0,cp1")),
                "pp2,dp2,tp1,mb4x16");
    for (const char* bad : {"zero4", "zero", "zero-1", "zero1,zero2", "full,none", "full,full",
                            "sp2", "sp,sp0", "spp", "fulll", "recompute"})
        assert_refused(parse_plan_pin(bad),
                       "one of none, selective and full, zero0 to zero3, sp and sp0");
    assert_refused(parse_plan_pin("pp2,dp2+1,tp1+2,mb4x16"), "stages that differ in dp or tp");
}

TEST(a_setting_that_cannot_be_is_refused_by_a_sentence) {
    const auto refuses = [](const char* model, const char* launcher, const char* pin,
                            const char* words) {
        const std::string obstacle = pin_obstacle(request_of(model, launcher, 64, pin));
        ck_assert_msg(obstacle.find(words) != std::string::npos, "%s with %s: '%s'", pin, launcher,
                      obstacle.c_str());
    };
    refuses("gpt2", "env", "dp1,zero1",
            "zero1 shares out state over replicas, and dp1 is one: give zero0");
    refuses("gpt2", "env", "pp2,zero3",
            "cannot be told ZeRO 3 with pipeline stages; accepted: zero0, zero1, or");
    refuses("gpt2", "env", "zero2",
            "cannot be told ZeRO 2; accepted: zero0, zero1, or another launcher");
    refuses("gpt2", "torchtitan", "dp2,zero0", "cannot be told ZeRO 0; accepted: ");
    refuses(
        "gpt-oss-20b", "megatron", "dp2,tp2,ep2,etp2",
        "etp2 splits experts without biases, and those of gpt-oss-20b have some: leave etp out");
    refuses("gpt2", "torchtitan", "dp4,zero3,hsdp1", "hsdp1 is a group of one replica");
    refuses("gpt2", "torchtitan", "pp2,zbv,full",
            "recompute a layer once for each of its weights: give none");
    refuses("gpt2", "env", "tp1,sp", "tp1 has one: give sp0, or tp2 or more");
    refuses("gpt2-xl", "env", "tp5,sp",
            "sp shares out the 1024 tokens of gpt2-xl, which tp5 does not divide: give sp0");
    refuses("wide-resnet-50-2", "env", "sp", "has none: give sp0");
    refuses("gpt2", "arena-train", "tp2,sp",
            "arena-train cannot be told sequence parallelism; accepted: sp0");
    refuses("gpt2", "torchtitan", "tp2,sp0",
            "of 2 without sequence parallelism; accepted: tp1, sp");
    refuses("gpt2", "env", "pp1,dp2,tp1,mb4x16",
            "mb4x16 of dp2 makes 128 samples, not the batch 64");
    refuses("gpt2", "env", "mb48x1", "mb48x1 makes 48 samples, not the batch 64");
    for (const char* pin :
         {"dp1,zero0", "dp2,zero1", "tp2,sp0", "sp0", "full", "pp1,dp2,tp2,mb4x8,full,zero1"})
        assert_text(pin_obstacle(request_of("gpt2", "env", 64, pin)), "");
}

TEST(the_number_of_micro_batches_says_the_replicas) {
    const auto build = [](const char* plan) {
        return build_request(
            {{"model", "gpt2"}, {"batch", "64"}, {"launcher", "env"}, {"plan", plan}}, "", "");
    };
    const auto request = build("pp2,tp1,mb4x8,full");
    ck_assert(request.ok());
    assert_text(to_string(request->pin), "pp2,dp2,tp1,mb4,full");
    ck_assert(!request->pin.zero_stage);
    assert_text(to_string(build("pp2,dp2,tp1,mb4x8,zero1")->pin), "pp2,dp2,tp1,mb4x8,zero1");
    assert_refused(build("pp2,dp2,tp1,mb4x16"),
                   "mb4x16 of dp2 makes 128 samples, not the batch 64: give mb4 alone");
    assert_refused(build("mb48x1"), "makes 48 samples");
}

TEST(a_ddp_script_gets_replicas_on_counts_that_divide_the_batch) {
    int offers = 0;
    for (const char* model : {"gpt2", "gpt2-xl", "gpt-oss-20b", "wide-resnet-50-2"})
        for (const std::int64_t batch : {1, 7, 12, 48, 64}) {
            PlanQuery query = query_for(model, capabilities_of("ddp"), 1.0);
            query.global_batch = batch;
            for (const GridResult& r : plan_grids(query)) {
                ck_assert_int_eq(r.grid.stages, 1);
                if (!r.feasible) continue;
                ++offers;
                const Plan& plan = r.plan;
                ck_assert_int_eq(plan.dp(), r.grid.gpus());
                ck_assert_int_eq(plan.dp() * plan.micro_batch * plan.num_micro_batches, batch);
                ck_assert(plan.pp() * plan.tp() * plan.cp * plan.ep * plan.vpp == 1);
                ck_assert(plan.zero_stage == 0 && plan.recompute == Recompute::none);
            }
        }
    ck_assert_int_gt(offers, 50);
}

TEST(recompute_is_a_ddp_scripts_where_the_plan_says_so) {
    PlanQuery query = query_for("gpt2-xl", capabilities_of("ddp"), 1.0);
    query.pin.recompute = Recompute::full;
    const std::vector<Offer> offers = make_offers(query);
    ck_assert(!offers.empty());
    for (const Offer& offer : offers) ck_assert(offer.plan.recompute == Recompute::full);
}

TEST(a_count_that_replicas_cannot_use_is_refused) {
    const auto obstacle = [](const char* launcher, std::int64_t batch, std::int64_t min,
                             std::int64_t max, std::string_view pin = "any") {
        Request request = request_of("gpt2", launcher, batch, pin == "any" ? "none" : pin);
        if (pin == "any") request.pin = {};
        request.min_gpus = min, request.max_gpus = max;
        return count_obstacle(request);
    };
    for (const char* launcher : {"ddp", "fsdp", "deepspeed"}) {
        assert_text(obstacle(launcher, 16, 1, 0), "");
        assert_text(obstacle(launcher, 16, 3, 4), "");
        ck_assert(obstacle(launcher, 16, 5, 7)
                      .find("no number of GPUs from 5 to 7 shares out the "
                            "batch 16 evenly, and under the launcher ") == 0);
    }
    assert_text(
        obstacle("ddp", 16, 3, 3),
        "3 GPUs do not share out the batch 16 evenly, and under the launcher ddp each has a "
        "whole replica; accepted: a number that divides it, another batch, or another "
        "launcher");
    ck_assert(obstacle("ddp", 16, 17, 0).find("from 17 on shares") != std::string::npos);
    ck_assert(obstacle("ddp", 16, 8, 8, "mb4").find("in micro-batches of 4") != std::string::npos);
    assert_text(obstacle("ddp", 16, 4, 4, "mb4"), "");
    for (const char* launcher : {"env", "torchrun", "megatron"}) {
        assert_text(obstacle(launcher, 16, 3, 3), "");
        assert_text(obstacle(launcher, 16, 3, 3, "pp1"), "");
        ck_assert(obstacle(launcher, 16, 3, 3, "pp1,tp1").find("under the plan pp1,tp1 each") !=
                  std::string::npos);
    }
}

TEST(what_would_fit_is_named_where_replicas_do_not) {
    PlanBudget budget;
    PlanQuery query = query_for("llama-2-7b", capabilities_of("ddp"), 1.0);  // 126 GB of state
    ck_assert(make_offers(query).empty());
    const std::vector<std::string> fit = what_would_fit(query, budget);
    const auto names = [&](const char* name) {
        return std::find(fit.begin(), fit.end(), name) != fit.end();
    };
    ck_assert(names("fsdp") && names("deepspeed") && names("megatron") && names("env"));
    ck_assert(!names("ddp") && !names("full"));
    for (const std::string& name : fit) {
        PlanQuery other = query;
        other.can = capabilities_of(name);
        ck_assert_msg(!make_offers(other).empty(), "%s", name.c_str());
    }
    query.max_gpus = query.pools[0].max_gpus = 1;  // where nothing does
    ck_assert(what_would_fit(query, budget).empty());
    assert_text(would_fit_text({}), "");
    double share = 0.45;  // of the GPU's memory: the most that is not enough
    while (!make_offers(query_for("gpt2-xl", capabilities_of("ddp"), share)).empty())
        share -= 0.005;
    const PlanQuery tight = query_for("gpt2-xl", capabilities_of("ddp"), share);
    assert_text(what_would_fit(tight, budget).front(), "full");
}

SUITE({.timeout_s = 120});
