// SPDX-License-Identifier: GPL-2.0-or-later
// What the calibrated constants of frameworks and devices do to prices.
#include <vector>

#include "planner/hardware/collectives.h"
#include "planner/models/model.h"
#include "planner/operators/cost.h"
#include "planner/search/planner.h"
#include "planner_cases.h"
#include "suite.h"

using namespace arena;
using arena::test::must;
using test::hardware;
using test::zoo;

/// Of one micro-batch on tp GPUs of a node, with these framework constants.
double compute_s(const Model& model, std::int64_t tp, const FrameworkConstants& framework) {
    const GpuType a100 = hardware("a100");
    GpuPool pool{"a100", a100, 8, 8, {}};
    pool.constants = CostConstants{builtin_calibration().device(a100.name), framework};
    Plan plan;
    plan.stage_layers = {model.layers}, plan.stage_dp = {1}, plan.stage_tp = {tp};
    return price_plan(model, 1, {"a100", 1, tp, 1}, plan, pool)->compute_s;
}

TEST(a_whole_table_of_tokens_is_slow_unless_it_is_padded_and_a_split_one_always_is_padded) {
    Model model = zoo("gpt-1.3b");
    model.vocab = 50257;
    FrameworkConstants pads = builtin_calibration().framework("default"), leaves = pads;
    pads.pads_vocab = 1, leaves.pads_vocab = 0;
    ck_assert_double_gt(compute_s(model, 1, leaves), 1.01 * compute_s(model, 1, pads));
    ck_assert_double_eq(compute_s(model, 2, leaves), compute_s(model, 2, pads));
    model.vocab = 50304;  // a multiple of 8
    ck_assert_double_eq(compute_s(model, 1, leaves), compute_s(model, 1, pads));
}

TEST(only_masked_tokens_reach_the_head_of_bert_and_all_that_of_gpt) {
    FrameworkConstants all = builtin_calibration().framework("default"), masked = all;
    all.head_tokens = 1, masked.head_tokens = 0.16;
    const Model bert = zoo("bert-large"), gpt = zoo("gpt-1.3b");
    ck_assert_double_lt(compute_s(bert, 1, masked), 0.99 * compute_s(bert, 1, all));
    ck_assert_double_eq(compute_s(gpt, 1, masked), compute_s(gpt, 1, all));
}

TEST(fp32_without_tensor_cores_has_a_share_of_its_own) {
    const GpuType a40 = hardware("a40");
    CostConstants c = builtin_calibration().constants(a40.name, "default");
    const auto seconds = [&](Precision precision) {
        return analytic_seconds(a40, c,
                                {OpKind::gemm, Pass::forward, precision, {8192, 8192, 8192, 1}});
    };
    c.device.gemm_share_32bit = 0;
    const double fp32_s = seconds(Precision::fp32), tf32_s = seconds(Precision::tf32);
    c.device.gemm_share_32bit = c.device.gemm_share / 2;
    ck_assert_double_eq_tol(seconds(Precision::fp32) / fp32_s, 2, 1e-3);
    ck_assert_double_eq(seconds(Precision::tf32), tf32_s);
}

TEST(convolutions_move_their_weights_as_often_as_the_framework_does) {
    GpuType a40 = hardware("a40");
    CostConstants c = builtin_calibration().constants(a40.name, "default");
    const OpShape conv{
        OpKind::conv, Pass::forward, Precision::fp32, {4, 512, 1024, 14}, ConvVariant{3, 1}};
    const double plain_s = analytic_seconds(a40, c, conv);
    c.framework.conv_weight_passes = 3;
    const double moved = 3 * 512 * 1024 * 9 * 4.0;
    const double moved_s = moved / (a40.memory_bytes_per_s * c.device.memory_share);
    ck_assert_double_eq_tol((analytic_seconds(a40, c, conv) - plain_s) / moved_s, 1, 1e-9);
    a40.emulated = true;  // a CPU's convolutions are our own
    ck_assert_double_lt(analytic_seconds(a40, c, conv), plain_s + moved_s);
}

TEST(jobs_are_priced_as_their_launcher_starts_them) {
    const Calibration& table = builtin_calibration();
    for (const char* launcher : {"megatron", "megatron-deepspeed", "nemo", "torchtitan",
                                 "arena-train", "fsdp", "accelerate", "hf-trainer", "lightning"}) {
        bool known = false;
        static_cast<void>(table.framework(launcher, &known));
        ck_assert_msg(known, "%s", launcher);
    }
    const FrameworkConstants& megatron = table.framework("megatron");  // passes no flag of overlap
    ck_assert(megatron.overlap_tensor == 0 && megatron.overlap_gradients == 0 &&
              megatron.overlap_boundary == 0);
    ck_assert(megatron.overlap_chunks > 0);                         // its default
    ck_assert(table.framework("Megatron-LM").overlap_chunks == 0);  // of 2021, as it was measured
    const FrameworkConstants& nemo = table.framework("nemo");       // whose recipes do
    ck_assert(nemo.overlap_tensor > 0 && nemo.overlap_gradients > 0 && nemo.overlap_boundary > 0);
}

TEST(zero_2_sends_gradients_after_each_micro_batch_and_zero_1_after_the_last) {
    const GpuType a100 = hardware("a100");
    const auto exchange_s = [&](std::int64_t zero, std::int64_t micro_batches) {
        GpuPool pool{"a100", a100, 8, 8, {}};
        pool.constants =
            builtin_calibration().constants(a100.name, "megatron-deepspeed");  // hides nothing
        Plan plan;
        plan.stage_layers = {24}, plan.stage_dp = {16}, plan.stage_tp = {1};
        plan.zero_stage = zero, plan.num_micro_batches = micro_batches;
        return price_plan(zoo("gpt-1.3b"), 16 * micro_batches, {"a100", 2, 8, 1}, plan, pool)
            ->dp_comm_s;
    };
    ck_assert_double_eq(exchange_s(1, 8), exchange_s(1, 1));
    ck_assert_double_eq(exchange_s(2, 1), exchange_s(1, 1));
    const Topology nodes = make_topology(hardware("a100"), {"a100", 2, 8, 1}, 1);
    const double bytes = 4 * parameter_count(zoo("gpt-1.3b"));  // in fp32
    ck_assert_double_eq_tol((exchange_s(2, 8) - exchange_s(2, 1)) /
                                (7 * reduce_scatter_s(nodes, dp_group(nodes, 16, 1), bytes)),
                            1, 0.1);
}

TEST(transfers_between_chunks_may_hide_where_others_do_not) {
    const GpuType a100 = hardware("a100");
    const auto transfers_s = [&](std::int64_t vpp, double overlap_chunks) {
        GpuPool pool{"a100", a100, 1, 2, {}};
        pool.constants = builtin_calibration().constants(a100.name, "megatron-deepspeed");
        pool.constants->framework.overlap_chunks = overlap_chunks;
        Plan plan;
        plan.stage_layers = vpp > 1 ? std::vector<std::int64_t>{12, 12}
                                    : std::vector<std::int64_t>{14, 10};  // the first is longer
        plan.stage_dp = {1, 1}, plan.stage_tp = {1, 1};
        plan.num_micro_batches = 8, plan.vpp = vpp;
        return price_plan(zoo("gpt-1.3b"), 8, {"a100", 2, 1, 2}, plan, pool)->pp_comm_s;
    };
    ck_assert_double_gt(transfers_s(1, 0), 0);
    ck_assert_double_eq(transfers_s(1, 0.9), transfers_s(1, 0));
    ck_assert_double_eq_tol(transfers_s(2, 0.9) / transfers_s(2, 0), 0.1, 1e-9);
}

/// Of two replicas on two nodes, or of one on one.
Estimate replicated(const Model& model, std::int64_t dp, double norm_collectives,
                    Recompute recompute) {
    const GpuType a40 = hardware("a40");
    GpuPool pool{"a40", a40, 1, 2, {}};
    pool.constants = builtin_calibration().constants(a40.name, "default");
    pool.constants->framework.norm_collectives = norm_collectives;
    pool.constants->framework.overlap_gradients = 0;  // longer passes hide no more of them
    Plan plan;
    plan.stage_layers = {model.layers}, plan.stage_dp = {dp}, plan.stage_tp = {1};
    plan.micro_batch = 4, plan.num_micro_batches = 3, plan.recompute = recompute;
    return *price_plan(model, 12 * dp, {"a40", dp, 1, 1}, plan, pool);
}

TEST(replicas_that_share_batch_norms_exchange_them_in_every_pass) {
    const Model resnet = zoo("wide-resnet-50-2"), gpt = zoo("gpt-1.3b");
    const auto more_s = [](const Model& model, std::int64_t dp, Recompute recompute) {
        const Estimate with = replicated(model, dp, 2, recompute);
        const Estimate without = replicated(model, dp, 0, recompute);
        ck_assert_double_eq_tol(with.iteration_s - without.iteration_s,
                                with.tp_comm_s - without.tp_comm_s, 1e-12);
        return with.iteration_s - without.iteration_s;
    };
    // 16 blocks with 3 norms and 4 with one more, forward and backward, 3 micro-batches
    const Topology two = make_topology(hardware("a40"), {"a40", 2, 1, 1}, 1);
    const double least_s = all_reduce_s(two, {2, 1}, 4 * 64),
                 most_s = all_reduce_s(two, {2, 1}, 4 * 2048);
    const double plain_s = more_s(resnet, 2, Recompute::none);
    ck_assert_double_gt(plain_s, 3 * 2 * 2 * 52 * least_s);
    ck_assert_double_lt(plain_s, 3 * 2 * 2 * 52 * most_s);
    ck_assert_double_eq_tol(more_s(resnet, 2, Recompute::full) / plain_s, 1.5, 1e-9);
    ck_assert_double_eq(more_s(resnet, 1, Recompute::none), 0);
    ck_assert_double_eq(more_s(gpt, 2, Recompute::none), 0);
}

/// A plan of one kind of stages on A100s, with constants of its own.
struct Case {
    Model model = zoo("gpt-1.3b");
    CostConstants constants;
    std::int64_t dp = 1, tp = 1, pp = 1, cp = 1, vpp = 1, nodes = 1, micro_batches = 4;
    std::int64_t zero = 0;
    Recompute recompute = Recompute::none;

    Case() : constants(builtin_calibration().constants("A100-SXM-80GB", "Alpa")) {  // no host time
        constants.framework.micro_batch_s = 0;
    }
    [[nodiscard]] Estimate price() const {
        GpuPool pool{"a100", hardware("a100"), dp * tp * pp * cp / nodes, nodes, {}};
        pool.constants = constants;
        Plan plan;
        plan.stage_layers.assign(static_cast<std::size_t>(pp), model.layers / pp);
        plan.stage_dp.assign(static_cast<std::size_t>(pp), dp);
        plan.stage_tp.assign(static_cast<std::size_t>(pp), tp);
        plan.cp = cp, plan.vpp = vpp, plan.zero_stage = zero, plan.recompute = recompute;
        plan.num_micro_batches = micro_batches;
        return must(price_plan(model, dp * micro_batches, {"a100", nodes, pool.gpus_per_node, pp},
                               plan, pool));
    }
};

TEST(a_job_computes_as_fast_as_its_slowest_node_and_waits_longer_for_more) {
    ck_assert_double_eq(slowest_node(1, 0.02), 1);
    ck_assert_double_eq(slowest_node(64, 0), 1);
    for (std::int64_t nodes = 1; nodes < 1000; ++nodes)
        ck_assert_double_gt(slowest_node(nodes + 1, 0.02), slowest_node(nodes, 0.02));
    ck_assert_double_eq_tol(slowest_node(48, 0.015), 1.0417, 1e-4);
    Case even, uneven;
    even.dp = uneven.dp = 16, even.nodes = uneven.nodes = 2;
    even.constants.device.node_spread = 0, uneven.constants.device.node_spread = 0.02;
    const Estimate fast = even.price(), slow = uneven.price();
    ck_assert_double_eq_tol(slow.compute_s / fast.compute_s, slowest_node(2, 0.02), 1e-9);
    ck_assert_double_eq(slow.tp_comm_s, fast.tp_comm_s);
    even.dp = uneven.dp = 8, even.nodes = uneven.nodes = 1;
    ck_assert_double_eq(uneven.price().iteration_s, even.price().iteration_s);
}

TEST(a_lower_clock_slows_arithmetic_and_leaves_memory_alone) {
    const GpuType a100 = hardware("a100");
    CostConstants full = builtin_calibration().constants(a100.name, "default"), low = full;
    low.device.clock_share = 0.5, full.device.kernel_s = low.device.kernel_s = 0;
    const auto slower = [&](const OpShape& shape) {
        return analytic_seconds(a100, low, shape) / analytic_seconds(a100, full, shape);
    };
    const Precision fp16 = Precision::fp16;
    ck_assert_double_eq_tol(slower({OpKind::gemm, Pass::forward, fp16, {8192, 8192, 8192, 1}}), 2,
                            1e-9);
    ck_assert_double_eq_tol(slower({OpKind::attention,
                                    Pass::forward,
                                    fp16,
                                    {32, 32, 4096, 128},
                                    AttentionVariant{.is_causal = true}}),
                            2, 1e-9);
    ck_assert_double_eq(slower({OpKind::norm, Pass::forward, fp16, {8192, 8192}, NormKind::layer}),
                        1);
}

TEST(the_rank_with_the_end_of_the_sequence_is_waited_for_in_causal_attention_only) {
    const auto more_s = [](std::int64_t cp, double imbalance, const char* name) {
        Case balanced;
        balanced.model = zoo(name), balanced.model.seq_length = 8192;
        balanced.constants.framework.fused_attention = 1;
        balanced.cp = cp;
        Case apart = balanced;
        apart.constants.framework.ring_imbalance = imbalance;
        return apart.price().compute_s - balanced.price().compute_s;
    };
    ck_assert_double_eq(more_s(1, 1, "gpt-1.3b"), 0);
    ck_assert_double_eq(more_s(4, 1, "bert-large"), 0);
    const double whole_s = more_s(4, 1, "gpt-1.3b");
    ck_assert_double_gt(whole_s, 0);
    ck_assert_double_eq_tol(more_s(4, 0.5, "gpt-1.3b") / whole_s, 0.5, 1e-9);
    // (2 cp - 1) / cp of the mean, whose work falls with cp: extra (cp - 1) / cp^2
    ck_assert_double_eq_tol(more_s(2, 1, "gpt-1.3b") / whole_s, (1.0 / 4) / (3.0 / 16), 1e-3);
}

TEST(selective_recompute_of_more_lies_between_none_and_full) {
    const auto price = [](Recompute recompute, double attention, double others) {
        Case c;
        c.recompute = recompute;
        c.constants.framework.selective_attention = attention;
        c.constants.framework.selective_others = others;
        return c.price();
    };
    const Estimate none = price(Recompute::none, 0, 0.5), full = price(Recompute::full, 0, 0.5),
                   half = price(Recompute::selective, 0, 0.5),
                   core = price(Recompute::selective, 1, 0);
    ck_assert_double_eq(price(Recompute::selective, 0, 0).compute_s, none.compute_s);
    ck_assert_double_eq_tol(price(Recompute::selective, 1, 1).compute_s / full.compute_s, 1, 1e-9);
    for (const Estimate& some : {half, core}) {
        ck_assert_double_gt(some.compute_s, none.compute_s);
        ck_assert_double_lt(some.compute_s, full.compute_s);
        ck_assert_double_lt(some.memory_bytes_per_gpu, none.memory_bytes_per_gpu);
        ck_assert_double_gt(some.memory_bytes_per_gpu, full.memory_bytes_per_gpu);
    }
}

/// Exposed transfers of one iteration under ZeRO-3.
double gathered_s(std::int64_t ranks, const FrameworkConstants& framework) {
    Case c;
    c.constants.framework = framework;
    c.dp = ranks, c.nodes = ranks / 8, c.zero = 3, c.micro_batches = 1;
    return c.price().dp_comm_s;
}

TEST(sharded_weights_take_longer_in_more_messages_among_more_ranks_and_with_less_overlap) {
    FrameworkConstants plain = builtin_calibration().framework("Alpa");
    plain.overlap_weights = 0, plain.overlap_slowdown = 0;
    double before = 0;
    for (std::int64_t ranks = 8; ranks <= 4096; ranks *= 2) {
        const double alone_s = gathered_s(ranks, plain);
        ck_assert_double_gt(alone_s, before);
        before = alone_s;
        const auto slower = [&](double FrameworkConstants::*member, double value) {
            FrameworkConstants changed = plain;
            changed.*member = value;
            return gathered_s(ranks, changed) / alone_s;
        };
        ck_assert_double_gt(slower(&FrameworkConstants::weight_tensors, 4), 1);
        ck_assert_double_gt(slower(&FrameworkConstants::weight_rank_s, 5e-6), 1);
        ck_assert_double_gt(slower(&FrameworkConstants::weight_share, 0.5), 1.1);
        ck_assert_double_gt(slower(&FrameworkConstants::regather_weights, 2), 1.1);
        // nothing hides at 0, and at most all but the first gather at 1
        const double hidden = slower(&FrameworkConstants::overlap_weights, 1);
        ck_assert(hidden > 0 && hidden < 1);
    }
    // what one message takes per rank: forward, backward and reduction of 24 layers and the table
    FrameworkConstants counted = plain;
    counted.weight_rank_s = 1e-3;
    const double more_s = gathered_s(8, counted) - gathered_s(8, plain);
    ck_assert_double_gt(more_s, 8e-3 * 3 * 24);
    ck_assert_double_lt(more_s, 8e-3 * 3 * 30);
}

/// Weights are gathered when the backward is over: what hides gradients hides none of them.
TEST(gathers_of_zero_1_hide_behind_the_next_forward_and_gradients_behind_the_backward) {
    const auto exposed_s = [](std::int64_t zero, double gradients, double weights) {
        Case c;
        c.dp = 16, c.nodes = 2, c.zero = zero, c.micro_batches = 1;
        FrameworkConstants& framework = c.constants.framework;
        framework.overlap_gradients = gradients, framework.overlap_weights = weights;
        framework.overlap_slowdown = 0;
        return c.price().dp_comm_s;
    };
    const double none = exposed_s(1, 0, 0), some = 1e-3;
    const double of_gradients = none - exposed_s(1, some, 0),
                 of_weights = none - exposed_s(1, 0, some);
    // a backward computes nearly twice what a forward does
    ck_assert_double_eq_tol(of_gradients / of_weights, 1.9, 0.1);
    ck_assert_double_eq_tol(none - exposed_s(1, some, some), of_gradients + of_weights, 1e-12);
    ck_assert_double_gt(exposed_s(1, 1, 0), exposed_s(1, 1, 1));
    ck_assert_double_eq(exposed_s(0, 1, 0), exposed_s(0, 1, 1));  // nothing is gathered
}

TEST(heads_of_64_are_slower_where_exponentials_bind_and_masks_cost_the_diagonal) {
    const GpuType h100 = hardware("h100");
    CostConstants c = builtin_calibration().constants(h100.name, "nemo");
    c.device.kernel_s = 0;
    const auto seconds = [&](std::int64_t length, std::int64_t head, bool is_causal) {
        // as many FLOPs for each head
        return analytic_seconds(h100, c,
                                {OpKind::attention,
                                 Pass::forward,
                                 Precision::bf16,
                                 {4096 / head, 4096 / head, length, head},
                                 AttentionVariant{.is_causal = is_causal}});
    };
    c.device.attention_softmax = 0;
    ck_assert_double_eq_tol(seconds(8192, 64, true) / seconds(8192, 128, true), 1, 1e-9);
    c.device.attention_softmax = 0.45;
    ck_assert_double_eq_tol(seconds(8192, 64, true) / seconds(8192, 128, true), 1.45, 1e-9);
    ck_assert_double_eq_tol(seconds(8192, 256, true) / seconds(8192, 128, true), 1, 1e-9);
    // unmasked: twice the FLOPs, and less than twice the time where the sequence is short
    ck_assert_double_lt(seconds(512, 128, false), 1.7 * seconds(512, 128, true));
    ck_assert_double_gt(seconds(65536, 128, false), 1.98 * seconds(65536, 128, true));
}

TEST(the_host_pays_for_each_chunk_of_a_micro_batch) {
    const auto more_s = [](std::int64_t vpp) {
        Case free;
        free.pp = 2, free.vpp = vpp, free.nodes = 2;
        Case host = free;
        host.constants.framework.micro_batch_s = 1e-3;
        return host.price().compute_s - free.price().compute_s;
    };
    ck_assert_double_eq_tol(more_s(1), 4e-3, 1e-9);
    ck_assert_double_eq_tol(more_s(3), 12e-3, 1e-9);
}
