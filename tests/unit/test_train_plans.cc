// SPDX-License-Identifier: GPL-2.0-or-later
// arena-train computes the same under every plan: losses of 50 steps on one rank and on up to
// eight, for all pp, dp and tp that fit, even and uneven stages, each kind of recomputation, ZeRO 0
// and 1, tied and untied.
#include "core/offer.h"
#include "train_cases.h"

using namespace arena;
using namespace arena::train;
using namespace arena::train::test;

namespace {

constexpr double tolerance = 1e-4;
constexpr Index steps = 50;

void compare(const std::vector<TrainPlan>& plans, GptShape shape = small_gpt()) {
    const Directory directory;
    write_file(directory / "text", text(2000));
    auto options = options_of(make_plan(1, 1, 1), directory / "text", steps);
    options.shape = shape;
    const auto wanted = losses_of(options);
    ck_assert_msg(wanted.back() < wanted.front() - 0.3, "nothing was learnt: %g, then %g",
                  wanted.front(), wanted.back());
    for (const TrainPlan& plan : plans) {
        options.plan = plan;
        assert_same_losses(losses_of(options), wanted, tolerance, describe(plan));
    }
}

TEST(every_plan_of_up_to_eight_ranks_gives_the_losses_of_one) {
    std::vector<TrainPlan> plans;
    const Recompute kinds[] = {Recompute::none, Recompute::selective, Recompute::full};
    for (Index pp = 1; pp <= 4; ++pp)
        for (Index dp = 1; dp <= 8; dp *= 2)
            for (Index tp = 1; tp <= 4; tp *= 2)
                if (pp * dp * tp <= 8)
                    plans.push_back(make_plan(
                        pp, dp, tp, {}, 1 + static_cast<Index>(plans.size()) % 2 * (dp < 8 ? 1 : 0),
                        kinds[plans.size() % 3], static_cast<Index>(plans.size()) / 3 % 2));
    ck_assert_uint_eq(plans.size(), 21);
    compare(plans);
}

TEST(uneven_stages_with_and_without_recomputation_give_the_losses_of_one_rank) {
    std::vector<TrainPlan> plans;
    for (const Recompute kind : {Recompute::none, Recompute::selective, Recompute::full}) {
        plans.push_back(make_plan(2, 1, 1, {1, 3}, 2, kind));
        plans.push_back(make_plan(2, 2, 1, {3, 1}, 1, kind, 1));
        plans.push_back(make_plan(3, 1, 2, {1, 1, 2}, 1, kind));
    }
    compare(plans);
}

TEST(an_untied_head_gives_the_same_losses_under_every_plan) {
    GptShape shape = small_gpt();
    shape.tied = false;
    compare({make_plan(2, 1, 1), make_plan(2, 2, 2, {}, 1, Recompute::none, 1),
             make_plan(1, 4, 1, {}, 2)},
            shape);
}

TEST(a_stage_holds_no_more_micro_batches_than_1f1b_needs) {
    ck_assert_int_eq(in_flight(4, 0, 16), 4);
    ck_assert_int_eq(in_flight(4, 3, 16), 1);
    ck_assert_int_eq(in_flight(4, 0, 2), 2);
}

TEST(recomputation_saves_memory) {
    const Directory directory;
    write_file(directory / "text", text(2000));
    std::vector<double> bytes;
    for (const Recompute kind : {Recompute::none, Recompute::selective, Recompute::full})
        bytes.push_back(
            train_all(options_of(make_plan(1, 1, 1, {}, 1, kind), directory / "text", 0))
                .front()
                .activation_bytes);
    ck_assert_double_gt(bytes[0], bytes[1]);
    ck_assert_double_gt(bytes[1], bytes[2]);
    // four blocks and the head, each with its input of seq x hidden floats
    ck_assert_double_eq(bytes[2], 5.0 * 12 * 16 * sizeof(float));
}

TEST(each_epoch_draws_every_sample_once_and_in_another_order) {
    constexpr Index samples = 77;
    std::vector<Index> orders[2];
    for (Index epoch = 0; epoch < 2; ++epoch) {
        std::vector<int> seen(samples, 0);
        for (Index i = 0; i < samples; ++i) {
            orders[epoch].push_back(sample_of(epoch * samples + i, samples, 5));
            seen[static_cast<std::size_t>(orders[epoch].back())] += 1;
        }
        ck_assert(std::ranges::all_of(seen, [](int n) { return n == 1; }));
    }
    ck_assert(orders[0] != orders[1]);
    ck_assert_int_ne(sample_of(0, samples, 5), sample_of(0, samples, 6));
}

TEST(ranks_are_laid_out_with_tensor_shards_fastest_and_stages_slowest) {
    const RankLayout layout{2, 3, 4};
    ck_assert(layout.place(0) == (train::Place{0, 0, 0}));
    ck_assert(layout.place(5) == (train::Place{0, 1, 1}));
    ck_assert(layout.place(12) == (train::Place{1, 0, 0}));
    for (Index rank = 0; rank < layout.size(); ++rank)
        ck_assert_int_eq(layout.rank(layout.place(rank)), rank);
}

Environment with_plan(const Plan& plan) {
    return [plan](std::string_view name) -> std::optional<std::string> {
        if (name != "ARENA_PLAN") return std::nullopt;
        return to_json(Offer{{"a40", 1, plan.gpus(), plan.pp()}, plan, {}});
    };
}
Plan offered() {
    Plan plan;
    plan.stage_layers = {1, 3};
    plan.stage_dp = {2, 2};
    plan.stage_tp = {1, 1};
    plan.micro_batch = 2;
    plan.num_micro_batches = 2;
    plan.recompute = Recompute::full;
    plan.zero_stage = 1;
    return plan;
}

TEST(an_offer_is_read_as_the_plan_that_it_is) {
    const auto plan = plan_of_environment(with_plan(offered()));
    ck_assert(plan.ok() && plan->has_value());
    ck_assert(**plan == make_plan(2, 2, 1, {1, 3}, 2, Recompute::full, 1));
    ck_assert(!plan_of_environment([](std::string_view) { return std::nullopt; })->has_value());
}

TEST(an_offer_that_the_trainer_cannot_run_is_refused_with_the_reason) {
    Plan plan = offered();
    plan.sequence_parallel = true;  // means something with tensor parallelism only
    plan.stage_tp = {2, 2};
    arena::test::assert_refused(plan_of_environment(with_plan(plan)),
                                "has sequence parallelism, which arena-train cannot run");
    plan = offered();
    plan.stage_tp = {1, 2};
    arena::test::assert_refused(plan_of_environment(with_plan(plan)),
                                "has stages that differ in dp or tp");
    arena::test::assert_refused(plan_of_environment([](std::string_view) { return "{"; }),
                                "ARENA_PLAN");
}

TEST(a_plan_that_does_not_fit_is_refused_with_a_sentence) {
    const auto refused = [](TrainPlan plan, Index ranks, const char* why) {
        arena::test::assert_refused(check_plan(plan, small_gpt(), 8, ranks), why);
    };
    refused(make_plan(2, 2, 1), 8, "pp2 x dp2 x tp1 takes 4 ranks, but this run has 8");
    TrainPlan plan = make_plan(2, 1, 1);
    plan.stage_layers = {4};
    refused(plan, 2, "2 stages, but layers for 1 (4)");
    plan.stage_layers = {0, 4};
    refused(plan, 2, "stages of 0,4 layers; the model has 4");
    plan = make_plan(1, 1, 1);
    plan.layout.tp = 3;
    refused(plan, 3, "tensor parallelism of 3 does not divide 4 heads");
    plan = make_plan(1, 1, 1);
    plan.micro_batches = {3};
    refused(plan, 1, "micro-batch 1 x 3 micro-batches x dp1 is not the global batch of 8");
}

TEST(a_model_that_is_no_gpt2_is_refused_with_what_it_has) {
    Model model;
    model.layers = 2;
    model.hidden = 8;
    model.heads = model.kv_heads = 2;
    model.ffn_hidden = 32;
    model.vocab = 10;
    model.seq_length = 4;
    ck_assert(shape_of(model).ok());
    model.rms_norm = true;
    arena::test::assert_refused(shape_of(model),
                                "has RMS or query-key norms; arena-train trains GPT-2 alone");
    model.rms_norm = false;
    model.learned_positions = false;
    arena::test::assert_refused(shape_of(model), "rotary positions");
    model.family = Family::llama;
    arena::test::assert_refused(shape_of(model), "family llama");
}

}  // namespace
