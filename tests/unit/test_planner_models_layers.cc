// SPDX-License-Identifier: GPL-2.0-or-later
// Layer kinds and their operators: for each family the FLOPs of the operators are those of the
// closed formula, backward is twice forward, and shards share the work and the parameters without
// loss.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "base/statistics.h"
#include "planner/hardware/hardware.h"
#include "planner/models/model.h"
#include "planner/models/readers.h"
#include "planner/operators/cost.h"
#include "planner/operators/operators.h"
#include "suite.h"

using namespace arena;
using arena::test::must;

namespace {

Model zoo(const std::string& name) { return must(find_zoo_model(name)); }

/// FLOPs of GEMMs, convolutions and attention, the latter without the causal half.
double work(const std::vector<OpCount>& ops, bool with_attention = true) {
    double sum = 0;
    for (const OpCount& op : ops) {
        const OpKind kind = op.shape.kind;
        if (kind == OpKind::gemm || kind == OpKind::conv || kind == OpKind::custom)
            sum += op.count * op_flops(op.shape);
        if (kind == OpKind::attention && with_attention)
            sum += op.count * op_flops(op.shape) *
                   (variant_as<AttentionVariant>(op.shape).is_causal ? 2 : 1);
    }
    return sum;
}

double count_of(const std::vector<OpCount>& ops, OpKind kind, const std::string& variant = "*") {
    double sum = 0;
    for (const OpCount& op : ops)
        if (op.shape.kind == kind && (variant == "*" || variant_name(op.shape.variant) == variant))
            sum += op.count;
    return sum;
}

constexpr const char* some_of_each[] = {
    "gpt2-xl",       "bert-large",  "qwen2-7b",    "gpt-neox-20b",     "mixtral-8x7b",
    "qwen3-30b-a3b", "deepseek-v3", "gpt-oss-20b", "wide-resnet-50-2", "resnet-101"};

}  // namespace

TEST(operators_do_the_flops_of_the_formula) {
    for (const char* name : some_of_each) {
        const Model m = zoo(name);
        for (const LayerKind& kind : layer_list(m).kinds) {
            const ShardOperators ops = shard_operators(m, Precision::bf16, {1, 2, false}, kind);
            const double forward = work(ops.layer_forward);
            ck_assert_msg(std::fabs(forward / (2 * layer_forward_flops(m, kind)) - 1) < 1e-3,
                          "%s: %.6g, formula %.6g", name, forward,
                          2 * layer_forward_flops(m, kind));
            ck_assert_msg(
                std::fabs(work(ops.layer_backward, false) / work(ops.layer_forward, false) - 2) <
                    1e-3,
                "%s", name);
        }
    }
}

TEST(shards_share_work_and_parameters) {
    for (const char* name : {"gpt2-medium", "llama-3-8b", "mixtral-8x7b", "deepseek-v3"}) {
        const Model m = zoo(name);
        for (const LayerKind& kind : layer_list(m).kinds) {
            const double whole =
                work(shard_operators(m, Precision::bf16, {1, 4, false}, kind).layer_forward);
            for (const std::int64_t tp : {2, 4, 8}) {
                const ShardOperators ops = shard_operators(m, Precision::bf16, {tp, 4, true}, kind);
                ck_assert_msg(std::fabs(real(tp) * work(ops.layer_forward) / whole - 1) < 1e-6,
                              "%s tp%d", name, static_cast<int>(tp));
                const LayerParameters one = layer_parameters(m, kind);
                const LayerParameters part = shard_parameters(m, kind, {tp, 4, true});
                ck_assert_double_eq_tol(part.split * real(tp) / one.split, 1, 1e-12);
                ck_assert_double_eq_tol(part.dense - part.split, one.dense - one.split, 1);
                ck_assert_double_eq(part.expert * real(tp), one.expert);
            }
            for (const std::int64_t cp : {2, 4})
                ck_assert_double_eq_tol(
                    real(cp) *
                        work(shard_operators(m, Precision::bf16, {1, 4, false, cp, 1}, kind)
                                 .layer_forward) /
                        whole,
                    1, 1e-6);
        }
    }
}

TEST(expert_parallel_ranks_hold_a_share_of_the_experts_and_do_equal_work) {
    const Model m = zoo("deepseek-v3");
    const LayerKind moe = layer_list(m).kinds.back();
    const double whole =
        work(shard_operators(m, Precision::bf16, {1, 1, false}, moe).layer_forward);
    for (const std::int64_t ep : {2, 8, 64}) {
        const ShardShape shape{1, 1, false, 1, ep};
        const ShardOperators ops = shard_operators(m, Precision::bf16, shape, moe);
        ck_assert_double_eq_tol(work(ops.layer_forward) / whole, 1, 1e-6);
        ck_assert_double_eq(shard_parameters(m, moe, shape).expert * real(ep),
                            layer_parameters(m, moe).expert);
        bool has_batch = false;
        for (const OpCount& op : ops.layer_forward)
            has_batch =
                has_batch || (op.shape.kind == OpKind::gemm && op.shape.dims[3] == m.experts / ep);
        ck_assert(has_batch);
        ck_assert(ep_fits(m, ep));
    }
    ck_assert(!ep_fits(m, 3) && !ep_fits(zoo("gpt2"), 2) && ep_fits(zoo("gpt2"), 1));
    ck_assert_double_eq(routed_rows(m, {1, 2, false}), 2.0 * 4096 * 8);
    ck_assert_double_eq(routed_rows(m, {4, 2, true, 1, 8}), 2.0 * 4096 * 8 / 4);
}

TEST(gshard_pays_for_its_one_hot_tensor_and_dropless_routing_does_not) {
    Model gshard = zoo("moe-2.4b"), dropless = gshard;
    dropless.capacity_factor = 0;
    dropless.moe_group_size = 0;
    const LayerKind moe{LayerKind::Body::moe, 0, 0, false};
    const ShardShape shape{1, 4, false};
    const double tokens = 4 * 1024, h = real(gshard.hidden);
    const double padded = work(shard_operators(gshard, Precision::fp16, shape, moe).layer_forward);
    const double plain = work(shard_operators(dropless, Precision::fp16, shape, moe).layer_forward);
    // Dispatch and combine: 2 * (2 * tokens * experts * capacity * h), experts * capacity = 2 *
    // group.
    ck_assert_double_eq_tol((padded - plain) / (2 * 2 * tokens * 2 * 2048 * h), 1, 1e-9);
    ck_assert_double_gt(
        count_of(shard_operators(dropless, Precision::fp16, shape, moe).layer_forward,
                 OpKind::embedding),
        0);
    Model tight = dropless;
    tight.capacity_factor = 1.5;
    ck_assert_double_eq(routed_rows(tight, shape), 1.5 * routed_rows(dropless, shape));
}

TEST(windows_and_value_sizes_are_said_to_the_profiler) {
    const Model oss = zoo("gpt-oss-20b");
    const LayerList list = layer_list(oss);
    ck_assert_uint_eq(list.kinds.size(), 2);
    ck_assert_int_eq(list.count_of(0) + list.count_of(1), 24);
    const ShardOperators window =
        shard_operators(oss, Precision::bf16, {1, 1, false}, list.kinds[0]);
    const ShardOperators full = shard_operators(oss, Precision::bf16, {1, 1, false}, list.kinds[1]);
    ck_assert_double_eq(count_of(window.layer_forward, OpKind::attention, "causal_w128"), 1);
    ck_assert_double_eq(count_of(full.layer_forward, OpKind::attention, "causal"), 1);
    const double share = op_flops(window.attention[0].shape) / op_flops(full.attention[0].shape);
    ck_assert_double_eq_tol(share, window_share(4096, 128), 1e-12);
    // Exactly: query i sees min(i + 1, 128) keys.
    double seen = 0, all = 0;
    for (int i = 0; i < 4096; ++i) seen += std::min(i + 1, 128), all += i + 1;
    ck_assert_double_eq_tol(share / (seen / all), 1, 0.01);
    const ShardOperators latent = shard_operators(zoo("deepseek-v3"), Precision::fp8, {2, 1, true});
    ck_assert_double_eq(count_of(latent.layer_forward, OpKind::attention, "causal_v128"), 1);
    ck_assert(latent.attention[0].shape.precision == Precision::bf16);
    const OpVariant windowed = AttentionVariant{.is_causal = true, .value_dim = 128, .window = 64};
    ck_assert(parse_variant(OpKind::attention, "causal_v128_w64") == windowed);
    for (const char* bad :
         {"", "causa", "causal_", "causal_w", "causal_w0", "full_x3", "causal_w1_v2"})
        ck_assert_msg(!parse_variant(OpKind::attention, bad), "%s", bad);
    const OpVariant gradient = ConvVariant{3, 2, Gradient::data};
    ck_assert(parse_variant(OpKind::conv, "r3s2_dgrad") == gradient);
    for (const char* bad : {"", "r3", "s2", "r0s1", "r3s2_", "r3s2_grad", "r3s2_dgrad_wgrad"})
        ck_assert_msg(!parse_variant(OpKind::conv, bad), "%s", bad);
}

TEST(narrow_precisions_are_those_of_block_gemms_only) {
    for (const Precision narrow : {Precision::fp8, Precision::mxfp8, Precision::nvfp4}) {
        const ShardOperators ops = shard_operators(zoo("mixtral-8x7b"), narrow, {1, 1, false});
        int narrow_gemms = 0, plain_gemms = 0;
        for (const OpCount& op : ops.layer_forward) {
            if (op.shape.kind != OpKind::gemm) {
                ck_assert(op.shape.precision == Precision::bf16);
            } else {
                (op.shape.precision == narrow ? narrow_gemms : plain_gemms) += 1;
            }
        }
        ck_assert_int_eq(narrow_gemms, 4);
        ck_assert_int_eq(plain_gemms, 1);  // the router
        for (const OpCount& op : ops.head) ck_assert(op.shape.precision == Precision::bf16);
        ck_assert(ops.optimizer.precision == Precision::bf16);
    }
}

TEST(residual_networks_have_the_shapes_of_the_paper) {
    const Model m = zoo("resnet-50");
    const LayerList list = layer_list(m);
    ck_assert_uint_eq(list.kinds.size(), 8);
    ck_assert_int_eq(list.runs[1].count, 2);
    ck_assert_int_eq(list.runs[5].count, 5);
    const Bottleneck third = bottleneck(m, list.kinds[4]);
    ck_assert(third.in == 512 && third.first == 256 && third.inner == 256 && third.out == 1024);
    ck_assert(third.edge_in == 28 && third.edge_out == 14 && third.stride == 2);
    ck_assert_double_eq(layer_output_elements(m, list.kinds.back()), 2048 * 7 * 7);
    const ShardOperators ops = shard_operators(m, Precision::fp32, {1, 8, false}, list.kinds[4]);
    ck_assert_double_eq(count_of(ops.layer_forward, OpKind::conv), 4);
    ck_assert_double_eq(count_of(ops.layer_backward, OpKind::conv), 8);
    ck_assert_double_eq(count_of(ops.layer_forward, OpKind::norm, "batch"), 4);
    ck_assert_double_eq(count_of(ops.layer_forward, OpKind::conv, "r3s2"), 1);
    ck_assert_double_eq(count_of(ops.embedding, OpKind::conv), 2);  // no gradient of the image
    ck_assert_double_eq(count_of(ops.head, OpKind::gemm), 3);
    ck_assert(ops.attention.empty());
}

/// Channels, as Alpa splits them: each rank does its share of the convolutions and of the passes
/// over their outputs, and holds its share of the parameters.
TEST(tensor_parallelism_splits_the_channels_of_a_residual_network) {
    const Model m = zoo("wide-resnet-50-2");
    ck_assert(tp_fits(m, 1) && tp_fits(m, 2) && tp_fits(m, 64) && !tp_fits(m, 3));
    ck_assert(tp_obstacle(m, 3) == "tp3 does not divide the 64 base channels of wide-resnet-50-2");
    ck_assert(!default_sequence_parallel(m, 2));
    for (const LayerKind& kind : layer_list(m).kinds) {
        const ShardOperators whole = shard_operators(m, Precision::fp32, {1, 4, false}, kind);
        const Bottleneck b = bottleneck(m, kind);
        for (const std::int64_t tp : {2, 4, 8}) {
            const ShardShape shape{tp, 4, false};
            const ShardOperators ops = shard_operators(m, Precision::fp32, shape, kind);
            for (const auto& [part, all] : {std::pair{&ops.layer_forward, &whole.layer_forward},
                                            {&ops.layer_backward, &whole.layer_backward}}) {
                ck_assert_uint_eq(part->size(), all->size());
                ck_assert_double_eq_tol(real(tp) * work(*part) / work(*all), 1, 1e-12);
                for (std::size_t i = 0; i < part->size(); ++i) {
                    const OpShape &mine = (*part)[i].shape, &theirs = (*all)[i].shape;
                    if (mine.kind != OpKind::conv)
                        ck_assert_double_eq(real(tp * mine.dims[1]), real(theirs.dims[1]));
                }
            }
            ck_assert_double_eq_tol(shard_parameters(m, kind, shape).total() * real(tp),
                                    layer_parameters(m, kind).total(), 1e-3);
            // gathered: what the first 1x1 and the 3x3 read; a rank's own: what follows them
            const KeptElements kept = kept_elements(m, kind, shape);
            const KeptElements one = kept_elements(m, kind, {1, 4, false});
            ck_assert_double_eq(kept.replicated, one.replicated);
            ck_assert_double_eq_tol(kept.split * real(tp), one.split, 1e-3);
            // which side of each convolution is split: {in, out} in the order they run
            std::vector<std::array<std::int64_t, 2>> sides = {
                {b.in, b.first / tp}, {b.first, b.inner / tp}, {b.inner / tp, b.out}};
            if (kind.is_first) sides.push_back({b.in, b.out / tp});
            std::size_t convolution = 0;
            for (const OpCount& op : ops.layer_forward)
                if (op.shape.kind == OpKind::conv) {
                    ck_assert_int_eq(op.shape.dims[1], sides[convolution][0]);
                    ck_assert_int_eq(op.shape.dims[2], sides[convolution++][1]);
                }
            ck_assert_uint_eq(convolution, sides.size());
            const ChannelElements moved = bottleneck_channel_elements(m, kind, shape);
            ck_assert_double_eq(moved.in, real(4 * b.in * b.edge_in * b.edge_in));
            ck_assert_double_eq(moved.first, real(4 * b.first * b.edge_in * b.edge_in));
            ck_assert_double_eq(moved.out, real(4 * b.out * b.edge_out * b.edge_out));
        }
    }
    const double stem = embedding_shard_parameters(m, 1);
    ck_assert_double_eq(embedding_shard_parameters(m, 4), stem / 4);
    ck_assert_double_eq(head_shard_parameters(m, ShardShape{.tp = 4}), (2048 / 4 + 1) * 1000);
    const ShardOperators half = shard_operators(m, Precision::fp32, {2, 4, false});
    for (const OpCount& op : half.embedding)
        if (op.shape.kind == OpKind::conv)
            ck_assert(op.shape.dims[1] == 3 && op.shape.dims[2] == 64 / 2);
    for (const OpCount& op : half.head)
        if (op.shape.kind == OpKind::gemm && op.shape.pass == Pass::forward)
            ck_assert(op.shape.dims[1] == 1000 && op.shape.dims[2] == 2048 / 2);
}

TEST(custom_layers_cost_what_their_owner_says) {
    Model m;
    m.family = Family::custom;
    m.custom_layers = {{"a", 3, 2e12, 4e6, 1e6, 0}, {"b", 1, 0, 0, 5e8, 1e3}};
    m = *complete_model(m, "custom");
    const LayerList list = layer_list(m);
    ck_assert(list.runs == (std::vector<LayerRun>{{0, 3}, {1, 1}}));
    const ShardOperators a = shard_operators(m, Precision::bf16, {1, 2, false}, list.kinds[0]);
    ck_assert_double_eq(work(a.layer_forward), 4e12);
    ck_assert_double_eq(work(a.layer_backward), 8e12);
    ck_assert_double_eq(op_bytes(a.layer_forward[0].shape), 4e6 + 4e6);
    ck_assert(a.embedding.empty() && a.head.empty());
    ck_assert_double_eq(kept_elements(m, list.kinds[1], {1, 2, false}).split, 2 * 5e8 / 2);
    const ShardOperators b = shard_operators(m, Precision::bf16, {1, 1, false}, list.kinds[1]);
    ck_assert_int_eq(b.optimizer.dims[0], 1);
}

TEST(every_operator_has_a_key_that_reads_back_and_a_positive_time) {
    const auto types = must(load_hardware(""));
    const GpuType h100 = *find_hardware(types, "h100");
    for (const std::string& name : zoo_names()) {
        const Model m = zoo(name);
        for (const LayerKind& kind : layer_list(m).kinds) {
            const ShardOperators ops =
                shard_operators(m, Precision::bf16, {1, 2, false, 1, 1}, kind);
            for (const auto* list : {&ops.layer_forward, &ops.layer_backward, &ops.embedding,
                                     &ops.head, &ops.attention})
                for (const OpCount& op : *list) {
                    const auto back = parse_op_key(op_key(op.shape));
                    ck_assert_msg(back && *back == op.shape, "%s: %s", name.c_str(),
                                  op_key(op.shape).c_str());
                    const double seconds = analytic_seconds(h100, op.shape);
                    ck_assert_msg(seconds > 0 && std::isfinite(seconds), "%s",
                                  op_key(op.shape).c_str());
                }
        }
    }
}

TEST(layers_sum_to_the_model) {
    for (const std::string& name : zoo_names()) {
        const Model m = zoo(name);
        const LayerList list = layer_list(m);
        std::int64_t layers = 0;
        double held = 0;
        for (const LayerRun& run : list.runs) {
            ck_assert_int_ge(run.count, 1);
            layers += run.count;
            held +=
                real(run.count) * shard_parameters(m, list.kinds[run.kind], {1, 1, false}).total();
        }
        ck_assert_int_eq(layers, m.layers);
        const double ends =
            m.family == Family::wide_resnet
                ? embedding_shard_parameters(m, 1) + head_shard_parameters(m, ShardShape{})
                : parameter_count(m) - held;
        ck_assert_double_eq_tol((held + ends) / parameter_count(m), 1, 1e-9);
        // Layers that are listed one by one are all there is.
        ck_assert(m.family == Family::custom ? ends == 0 : ends > 0);
    }
}

TEST(what_leaves_a_residual_block_depends_on_the_stage_of_the_network) {
    const Model m = must(find_zoo_model("resnet-50"));
    const LayerList list = layer_list(m);
    std::vector<double> inputs{first_input_elements(m, list)};
    for (const LayerRun& run : list.runs)
        inputs.insert(inputs.end(), static_cast<std::size_t>(run.count),
                      layer_output_elements(m, list.kinds[run.kind]));
    ck_assert_uint_eq(inputs.size(), 17);
    const auto map = [](double channels, double edge) { return channels * edge * edge; };
    ck_assert_double_eq(inputs[0], map(64, 56));  // from the stem
    for (std::size_t i = 1; i <= 3; ++i) ck_assert_double_eq(inputs[i], map(256, 56));
    for (std::size_t i = 4; i <= 7; ++i) ck_assert_double_eq(inputs[i], map(512, 28));
    for (std::size_t i = 8; i <= 13; ++i) ck_assert_double_eq(inputs[i], map(1024, 14));
    for (std::size_t i = 14; i <= 16; ++i) ck_assert_double_eq(inputs[i], map(2048, 7));
}
