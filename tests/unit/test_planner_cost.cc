// SPDX-License-Identifier: GPL-2.0-or-later
// The physics below the plans: operators against published FLOP formulas, memory against
// Korthikanti et al., profile entries against the roofline, collectives.
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "planner/hardware/collectives.h"
#include "planner/hardware/measured_links.h"
#include "planner/models/model.h"
#include "planner/operators/cost.h"
#include "planner/operators/operators.h"
#include "planner/operators/whole_layer.h"
#include "planner/plans/memory.h"
#include "planner/plans/shard.h"
#include "planner/search/planner.h"
#include "planner_cases.h"
#include "suite.h"

using namespace arena;
using test::hardware;
using test::zoo;

namespace {

double gemm_and_attention_flops(const std::vector<OpCount>& ops, bool gemms_only = false) {
    double sum = 0;
    for (const OpCount& op : ops) {
        if (op.shape.kind == OpKind::gemm) sum += op.count * op_flops(op.shape);
        // The formula counts the whole s x s matrix; a causal kernel computes half of it.
        if (op.shape.kind == OpKind::attention && !gemms_only)
            sum += op.count * op_flops(op.shape) *
                   (variant_as<AttentionVariant>(op.shape).is_causal ? 2 : 1);
    }
    return sum;
}

}  // namespace

TEST(operator_flops_sum_to_the_72_B_s_L_h2_formula) {
    for (const char* name : {"gpt-1.7b", "gpt-22b", "gpt-145.6b"}) {
        const Model m = zoo(name);
        const ShardOperators ops = shard_operators(m, Precision::bf16, {1, 2, false});
        const double L = static_cast<double>(m.layers), h = static_cast<double>(m.hidden),
                     s = static_cast<double>(m.seq_length), V = static_cast<double>(m.vocab);
        const double ours = L * (gemm_and_attention_flops(ops.layer_forward) +
                                 gemm_and_attention_flops(ops.layer_backward)) +
                            gemm_and_attention_flops(ops.head);
        const double published = 72 * 2 * s * L * h * h * (1 + s / (6 * h) + V / (12 * L * h));
        ck_assert_double_eq_tol(ours / published, 1, 1e-9);
        ck_assert_double_eq_tol(2 * 3 * forward_flops(m) / published, 1, 1e-9);
    }
}

TEST(tensor_parallel_shards_divide_the_work_and_backward_is_twice_forward) {
    const Model m = zoo("llama-2-70b");
    const double whole =
        gemm_and_attention_flops(shard_operators(m, Precision::bf16, {1, 1, false}).layer_forward);
    for (std::int64_t tp : {2, 4, 8}) {
        const ShardOperators ops = shard_operators(m, Precision::bf16, {tp, 1, true});
        const double forward = gemm_and_attention_flops(ops.layer_forward);
        ck_assert_double_eq_tol(forward * static_cast<double>(tp) / whole, 1, 1e-9);
        ck_assert_double_eq_tol(gemm_and_attention_flops(ops.layer_backward, true) /
                                    gemm_and_attention_flops(ops.layer_forward, true),
                                2, 1e-9);
    }
    ck_assert(tp_fits(m, 16) && !tp_fits(m, 3) && !tp_fits(zoo("gpt2"), 8));
    ck_assert_int_eq(shard_vocab(zoo("gpt2"), 1), 50304);
}

TEST(activation_memory_is_that_of_korthikanti_table_2) {
    const Model m = zoo("gpt-22b");
    GpuPool pool{"a100", hardware("a100"), 8, 8, {}};
    const PoolContext fused_kernels = prepare(m, pool, 4).value();
    const double s = 2048, b = 4, h = 6144, a = 64, t = 8;
    pool.constants = fused_kernels.constants;
    pool.constants->framework.fused_attention = 0;
    const PoolContext unfused = prepare(m, pool, 4).value();
    const MemoryModel plain(unfused, {8, 4, false}), split(unfused, {8, 4, true});
    ck_assert_double_eq_tol(
        plain.activation_bytes(Recompute::none) / (s * b * h * (10 + 24 / t + 5 * a * s / (h * t))),
        1, 1e-9);
    ck_assert_double_eq_tol(
        split.activation_bytes(Recompute::none) / (s * b * h / t * (34 + 5 * a * s / h)), 1, 1e-9);
    ck_assert_double_eq_tol(split.activation_bytes(Recompute::selective) / (34 * s * b * h / t), 1,
                            1e-9);
    ck_assert_double_eq_tol(plain.activation_bytes(Recompute::full) / (2 * s * b * h), 1, 1e-9);
    const MemoryModel fused(fused_kernels, {8, 4, true});  // flash kernels keep no scores
    ck_assert_double_eq(fused.activation_bytes(Recompute::none),
                        split.activation_bytes(Recompute::selective));
}

TEST(sharded_optimizer_state_never_grows_with_replicas) {
    ck_assert_double_eq(state_bytes_per_parameter(Precision::bf16, 0, 8), 18);
    ck_assert_double_eq(state_bytes_per_parameter(Precision::fp16, 0, 8), 20);
    ck_assert_double_eq(state_bytes_per_parameter(Precision::fp32, 0, 8), 16);
    ck_assert_double_eq(state_bytes_per_parameter(Precision::bf16, 1, 4), 6 + 12.0 / 4);
    const Model m = zoo("gpt-1.3b");
    const GpuPool pool{"a100", hardware("a100"), 8, 8, {}};
    const MemoryModel memory(prepare(m, pool, 8).value(), {1, 1, false});
    for (std::int64_t zero = 0; zero <= 3; ++zero)
        for (std::int64_t dp = 2; dp < 64; dp *= 2) {
            const double few = memory.stage({1, dp, 8, Recompute::none, zero}, 0).total(24);
            const double many = memory.stage({1, 2 * dp, 8, Recompute::none, zero}, 0).total(24);
            ck_assert(zero == 0 ? many == few : many < few);
        }
}

TEST(operator_keys_are_read_back_and_garbage_is_not) {
    PlanQuery query{zoo("llama-3-8b"), 64, 1, 8, {}, {{"h100", hardware("h100"), 8, 8, {}}}};
    const std::vector<OpShape> list = operator_list(query);
    ck_assert_uint_gt(list.size(), 25);
    for (const OpShape& shape : list) {
        const auto read = parse_op_key(op_key(shape));
        ck_assert_msg(read && *read == shape, "%s", op_key(shape).c_str());
    }
    for (const char* bad :
         {"", "gemm", "gemm/forward/fp32/1x2x3", "gemm/forward/fp32/1x2x3x0",
          "gemm/forward/fp32/1x2x3x4x5", "gemm/forward/fp32/01x2x3x4", "gemm/sideways/fp32/1x2x3x4",
          "gemm/forward/fp99/1x2x3x4", "a/b/c/d/e/f"})
        ck_assert_msg(!parse_op_key(bad), "%s", bad);
}

TEST(measured_operators_override_the_roofline_and_scale_their_neighbours) {
    const GpuType a100 = hardware("a100");
    const OpShape measured{OpKind::gemm, Pass::forward, Precision::bf16, {4096, 4096, 4096, 1}};
    OpShape neighbour = measured, far = measured;
    neighbour.dims = {8192, 4096, 4096, 1};
    far.dims = {512, 128, 65536, 1};
    const double slow = 3 * analytic_seconds(a100, measured);
    const Pricer plain(a100, {}), pricer(a100, ProfileTable(OpSeconds{{measured, slow}, {far, 0}}));
    ck_assert(plain.price(measured).evidence == Evidence::analytic);
    ck_assert_double_eq(pricer.price(measured).seconds, slow);
    ck_assert(pricer.price(measured).evidence == Evidence::exact);
    ck_assert(pricer.price(neighbour).evidence == Evidence::interpolated);
    ck_assert(pricer.price(far).evidence == Evidence::scaled);
    for (const OpShape& shape : {neighbour, far})
        ck_assert_double_eq_tol(pricer.price(shape).seconds / plain.price(shape).seconds, 3, 1e-9);
}

TEST(a_whole_layer_consists_of_its_shards_operators) {
    for (const char* name : {"gpt-1.3b", "llama-2-70b", "bert-large"})
        for (const ShardShape& shape : {ShardShape{1, 2, false}, {4, 1, false}, {8, 2, true}}) {
            const Model m = zoo(name);
            const LayerKind kind = layer_list(m).kinds.front();
            const ShardOperators ops = shard_operators(m, Precision::bf16, shape);
            for (const Pass pass : {Pass::forward, Pass::backward}) {
                const auto layer = whole_layer(m, Precision::bf16, shape, kind, pass);
                ck_assert_msg(layer.has_value(), "%s", name);
                const auto& want = pass == Pass::forward ? ops.layer_forward : ops.layer_backward;
                const std::vector<OpCount> got = operators_of(*layer);
                ck_assert_uint_eq(got.size(), want.size());
                for (std::size_t i = 0; i < got.size(); ++i) {
                    arena::test::assert_text(op_key(got[i].shape), op_key(want[i].shape));
                    ck_assert(got[i].count == want[i].count);
                }
                double flops = 0;
                for (const OpCount& op : got)
                    if (op.shape.kind == OpKind::gemm || op.shape.kind == OpKind::attention)
                        flops += op.count * op_flops(op.shape);
                ck_assert_double_eq_tol(op_flops(*layer) / flops, 1, 1e-9);
                const auto read = parse_op_key(op_key(as_graph(*layer)));
                ck_assert(read && *read == as_graph(*layer) && !(*read == *layer));
            }
        }
}

TEST(layers_that_no_back_end_runs_whole_are_summed_up) {
    const auto layer_of = [](const char* name, Precision precision, const ShardShape& shape) {
        const Model m = zoo(name);
        return whole_layer(m, precision, shape, layer_list(m).kinds.back(), Pass::forward);
    };
    ck_assert(layer_of("gpt2", Precision::bf16, {1, 1, false}).has_value());
    ck_assert(!layer_of("mixtral-8x7b", Precision::bf16, {1, 1, false}));  // experts
    ck_assert(!layer_of("deepseek-v3", Precision::bf16, {1, 1, false}));   // latent attention
    ck_assert(!layer_of("gpt2", Precision::fp8, {1, 1, false}));      // casts between operators
    ck_assert(!layer_of("gpt2", Precision::bf16, {1, 1, false, 2}));  // context parallel
    for (const char* bad :
         {"", "plain", "plain_causal_layer_gelu_a12_k12", "plain_causal_layer_gelu_a3_k2_d64",
          "plain_causal_layer_gelu_a12_k12_d64_p1", "slow_causal_layer_gelu_a12_k12_d64",
          "plain_causal_layer_gelu_a12_k12_d64x"})
        ck_assert_msg(!parse_variant(OpKind::layer, bad), "%s", bad);
}

/// gpt2's layer at a micro-batch, and what a table of its operators and layers makes of it.
struct Gpt2Layer {
    GpuType type = hardware("a100");
    OpSeconds table;
    static OpShape at(std::int64_t micro_batch) {
        const Model m = zoo("gpt2");
        return *whole_layer(m, Precision::bf16, {1, micro_batch, false},
                            layer_list(m).kinds.front(), Pass::forward);
    }
    /// Every operator at its roofline; returns their sum.
    double measure_operators(std::int64_t micro_batch) {
        double sum = 0;
        for (const OpCount& op : operators_of(at(micro_batch))) {
            table[op.shape] = analytic_seconds(type, op.shape);
            sum += op.count * table[op.shape];
        }
        return sum;
    }
    [[nodiscard]] PassTime time(std::int64_t micro_batch, double sum_s) const {
        return pass_time(Pricer(type, ProfileTable(table)), at(micro_batch), sum_s);
    }
};

TEST(measured_layers_correct_the_sum_of_their_operators) {
    Gpt2Layer layer;
    const double small = layer.measure_operators(1), large = layer.measure_operators(4);
    ck_assert_double_eq(layer.time(1, small).seconds, small);  // nothing is known of layers
    ck_assert_double_eq(layer.time(1, small).issue_s, 0);
    layer.table[layer.at(1)] = 1.25 * small;
    ck_assert_double_eq(layer.time(1, small).seconds, 1.25 * small);
    ck_assert_double_eq(layer.time(1, small).exact_s, 1.25 * small);
    ck_assert_double_eq_tol(layer.time(4, large).seconds / large, 1.25, 1e-9);  // its neighbour
    ck_assert_double_eq(layer.time(4, large).exact_s, 0);
    layer.table[as_graph(layer.at(1))] = 1.1 * small;  // the device alone
    ck_assert_double_eq(layer.time(1, small).seconds, 1.1 * small);
    ck_assert_double_eq(layer.time(1, small).issue_s, 1.25 * small);
    ck_assert_double_eq_tol(layer.time(4, large).seconds / large, 1.1, 1e-9);
    ck_assert_double_eq(layer.time(4, large).issue_s, 1.25 * small);  // launches take as long
}

TEST(a_plan_is_as_slow_as_the_whole_layers_that_were_measured) {
    const Model m = zoo("gpt2");
    GpuPool pool{"a100", hardware("a100"), 8, 8, {}};
    Plan plan;
    plan.stage_layers = {12}, plan.stage_dp = {1}, plan.stage_tp = {1};
    OpSeconds measured;
    const auto compute_s = [&] {
        pool.profile = ProfileTable(measured);
        return price_plan(m, 1, {"a100", 1, 1, 1}, plan, pool)->compute_s;
    };
    for (const OpShape& shape : operator_list({m, 1, 1, 1, {}, {pool}}))
        if (shape.kind != OpKind::layer) measured[shape] = analytic_seconds(pool.hardware, shape);
    const double by_operators = compute_s();
    double layers = 0;
    for (const OpShape& shape : operator_list({m, 1, 1, 1, {}, {pool}}))
        if (shape.kind == OpKind::layer) {
            ++layers;
            measured[shape] = 0.01;  // seconds: far more than the host takes to launch it
        }
    ck_assert_double_eq(layers, 4);  // both passes, as a graph and plain
    ck_assert_double_lt(by_operators, 0.1);
    ck_assert_double_eq_tol(compute_s(), 12 * 2 * 0.01, 0.02);
    for (auto& [shape, seconds] : measured)
        if (shape.kind == OpKind::layer && !variant_as<LayerVariant>(shape).is_graph)
            seconds = 0.02;  // the device waits for launches
    ck_assert_double_eq_tol(compute_s(), 12 * 2 * 0.02, 0.02);
}

TEST(roofline_respects_peak_bandwidth_and_shape) {
    const GpuType a100 = hardware("a100");
    const auto gemm = [&](std::int64_t m, std::int64_t n, std::int64_t k) {
        const OpShape shape{OpKind::gemm, Pass::forward, Precision::bf16, {m, n, k, 1}};
        return op_flops(shape) / analytic_seconds(a100, shape);
    };
    ck_assert_double_lt(gemm(8192, 8192, 8192), 312e12);
    ck_assert_double_gt(gemm(8192, 8192, 8192), 0.6 * 312e12);
    ck_assert_double_lt(gemm(64, 64, 64), 0.05 * 312e12);
    ck_assert_double_lt(gemm(8192, 8191, 8192), 0.6 * gemm(8192, 8192, 8192));
    const OpShape norm{
        OpKind::norm, Pass::forward, Precision::bf16, {1 << 20, 1024}, NormKind::layer};
    ck_assert_double_ge(analytic_seconds(a100, norm), op_bytes(norm) / a100.memory_bytes_per_s);
}

TEST(collectives_slow_down_with_bytes_and_across_nodes) {
    const GpuType a100 = hardware("a100");
    const Topology t = make_topology(a100, {"a100", 4, 8, 1}, 8);
    const double gib = 1 << 30;
    ck_assert_double_eq(all_reduce_s(t, {1, 1}, gib), 0);
    ck_assert_double_gt(all_reduce_s(t, {8, 8}, gib), 1.5 * gib / 300e9);
    for (double bytes = 1e3; bytes < 1e10; bytes *= 10) {
        ck_assert_double_lt(all_reduce_s(t, {8, 8}, bytes), all_reduce_s(t, {8, 4}, bytes));
        ck_assert_double_lt(all_reduce_s(t, {8, 8}, bytes), all_reduce_s(t, {8, 8}, 10 * bytes));
        ck_assert_double_lt(all_reduce_s(t, {16, 8}, bytes), all_reduce_s(t, {16, 1}, bytes));
    }
    ck_assert_double_lt(point_to_point_s(t, false, 1e8), point_to_point_s(t, true, 1e8));
    ck_assert(dp_group(t, 8, 4).per_node == 2 && dp_group(t, 4, 1).per_node == 4);
    ck_assert(!boundary_crosses(t, 0, 4) && boundary_crosses(t, 1, 4) && boundary_crosses(t, 0, 8));
}

TEST(gathers_of_many_ranks_wait_for_a_ring) {
    const GpuType a100 = hardware("a100");
    for (const std::int64_t nodes : {2, 4, 16, 64, 192}) {
        const Topology t = make_topology(a100, {"a100", nodes, 8, 1}, 8);
        const Group all{8 * nodes, 8};
        const double ring_s = t.inter.alpha_s / 2 * static_cast<double>(nodes - 1) +
                              t.intra.alpha_s / 3 * static_cast<double>(7 * nodes);
        const double gather_s = all_gather_s(t, all, 1);
        ck_assert_double_ge(gather_s, 0.999 * ring_s);
        ck_assert_double_eq(reduce_scatter_s(t, all, 1), gather_s);
        // a tree's delay grows with the logarithm
        ck_assert_double_lt(all_reduce_s(t, all, 1), 1e-3);
        ck_assert(nodes < 16 || 2 * gather_s > all_reduce_s(t, all, 1));
    }
}

/// What these links' collectives take by our own formulas, as a table.
std::vector<CommTime> table_of(const GpuType& type, std::int64_t nodes, std::int64_t ranks,
                               std::int64_t per_node, std::int64_t groups) {
    const Topology t = make_topology(type, {"x", nodes, 8, 1}, 8);
    std::vector<CommTime> times;
    for (std::int64_t bytes = 1024; bytes <= 1 << 30; bytes *= 8)
        for (const CommOp op : {CommOp::all_reduce, CommOp::all_gather}) {
            const Group group{ranks, per_node};
            const auto size = static_cast<double>(bytes);
            const double s = op == CommOp::all_reduce ? all_reduce_s(t, group, size)
                                                      : all_gather_s(t, group, size);
            times.push_back({"x", op, ranks, ranks / per_node, groups, bytes, s, s, s});
        }
    return times;
}

TEST(measured_collectives_replace_the_links_of_the_hardware_entry) {
    const GpuType entry = hardware("a100");
    GpuType site = entry;
    site.intra.alpha_s *= 3, site.intra.bytes_per_s /= 2;
    site.inter.alpha_s *= 2, site.inter.bytes_per_s /= 5;
    ck_assert(with_measured_links(entry, {}) == entry);
    std::vector<CommTime> times = table_of(site, 1, 8, 8, 1);
    const GpuType inside = with_measured_links(entry, times);
    ck_assert_double_eq_tol(inside.intra.alpha_s / site.intra.alpha_s, 1, 1e-6);
    ck_assert_double_eq_tol(inside.intra.bytes_per_s / site.intra.bytes_per_s, 1, 1e-6);
    ck_assert(inside.inter == entry.inter);  // nobody measured it
    const std::vector<CommTime> one_node = times;
    for (const std::int64_t nodes : {2, 32}) {  // each GPU with its peers
        times = one_node;
        for (const CommTime& t : table_of(site, nodes, nodes, 1, 8)) times.push_back(t);
        const GpuType both = with_measured_links(entry, times);
        ck_assert_double_eq_tol(both.inter.alpha_s / site.inter.alpha_s, 1, 1e-6);
        ck_assert_double_eq_tol(both.inter.bytes_per_s / site.inter.bytes_per_s, 1, 1e-6);
    }
    const auto rate = [&](std::initializer_list<std::vector<CommTime>> tables) {
        std::vector<CommTime> rows = one_node;
        for (const std::vector<CommTime>& table : tables)
            rows.insert(rows.end(), table.begin(), table.end());
        return with_measured_links(entry, rows).inter.bytes_per_s / site.inter.bytes_per_s;
    };
    // Eight pairs of GPUs on two nodes; sixteen, two to two, on four, where one group had all 32.
    ck_assert_double_eq_tol(rate({table_of(site, 2, 2, 1, 8)}), 1, 1e-6);
    ck_assert_double_eq_tol(rate({table_of(site, 2, 2, 1, 16), table_of(site, 4, 32, 8, 1)}), 1,
                            1e-6);
    ck_assert_double_eq_tol(
        with_measured_links(entry, table_of(site, 2, 2, 1, 8)).inter.bytes_per_s /
            site.inter.bytes_per_s,
        1, 1e-6);
    site.inter.cross_rail_cost = 1.5;  // rings of two GPUs a node, two adapters
    GpuType changing = entry;
    changing.inter.cross_rail_cost = 1.5;
    times = one_node;
    for (const CommTime& t : table_of(site, 16, 32, 2, 4)) times.push_back(t);
    ck_assert_double_eq_tol(
        with_measured_links(changing, times).inter.bytes_per_s / site.inter.bytes_per_s, 1, 1e-6);
    for (CommTime& t : times)
        t.median_s = 1e-3;  // a time that does not depend on the size says nothing
    ck_assert(with_measured_links(entry, times) == entry);
}

/// With `inter` as it is over that span.
std::vector<CommTime> table_over(const GpuType& site, Span span, CommSpan said) {
    GpuType far = site;
    far.inter = link_over(site, span);
    std::vector<CommTime> times = table_of(far, 4, 4, 1, 8);
    for (CommTime& t : times) t.span = said;
    return times;
}

TEST(measured_collectives_over_a_span_replace_the_formula_of_its_level) {
    GpuType entry = hardware("a100");
    entry.uplinks[0].oversubscription = 4;  // what the site says of it
    GpuType site = entry;
    site.inter.bytes_per_s /= 2;
    site.uplinks = {Uplink{1.5, 3e-6}, Uplink{3, 2e-6}};
    const auto near = table_over(site, Span::leaf, CommSpan::leaf),
               pod = table_over(site, Span::pod, CommSpan::pod),
               pods = table_over(site, Span::pods, CommSpan::pods);
    const auto fitted = [&](std::initializer_list<std::vector<CommTime>> tables) {
        std::vector<CommTime> rows;
        for (const auto& table : tables) rows.insert(rows.end(), table.begin(), table.end());
        return with_measured_links(entry, rows);
    };
    const auto is_as_measured = [&](const GpuType& type, Span span) {
        const Link is = link_over(type, span), was = link_over(site, span);
        ck_assert_double_eq_tol(is.bytes_per_s / was.bytes_per_s, 1, 1e-6);
        ck_assert_double_eq_tol(is.alpha_s / was.alpha_s, 1, 1e-6);
    };
    const GpuType all = fitted({near, pod, pods});
    for (const Span span : {Span::leaf, Span::pod, Span::pods}) is_as_measured(all, span);
    const GpuType two = fitted({near, pod});  // the level above keeps its formula
    is_as_measured(two, Span::pod);
    ck_assert(two.uplinks[1] == entry.uplinks[1]);
    const GpuType one = fitted({near});
    is_as_measured(one, Span::leaf);
    ck_assert(one.uplinks == entry.uplinks);
    const GpuType far = fitted({pod});  // beside a leaf that nobody measured
    is_as_measured(far, Span::pod);
    ck_assert(far.inter == entry.inter);
    // a table of before, of nodes that nobody knows, is no match for one that says
    const auto unsaid = table_over(entry, Span::leaf, CommSpan::unsaid);
    is_as_measured(fitted({unsaid, near}), Span::leaf);
    ck_assert_double_eq_tol(fitted({unsaid}).inter.bytes_per_s / entry.inter.bytes_per_s, 1, 1e-6);
    // what joins a domain joins a node's GPUs
    std::vector<CommTime> domain = table_of(site, 1, 8, 8, 1);
    for (CommTime& t : domain) t.nodes = 2, t.span = CommSpan::domain;
    GpuType slow = entry;
    slow.intra.bytes_per_s /= 10;
    const GpuType joined = with_measured_links(slow, domain);
    ck_assert_double_eq_tol(joined.intra.bytes_per_s / entry.intra.bytes_per_s, 1, 1e-6);
    ck_assert(joined.inter == slow.inter);
}

/// Gathered for the first 1x1 and for the 3x3, reduced and scattered behind the block; as much in
/// the other direction. Full recompute has the block's input whole.
TEST(residual_blocks_exchange_the_channels_that_tensor_parallelism_splits) {
    const Model m = zoo("wide-resnet-1b");
    GpuPool pool{"a100", hardware("a100"), 8, 8, {}};
    pool.framework = "Alpa";  // hides nothing
    const PoolContext context = prepare(m, pool, 64).value();
    for (const std::int64_t nodes : {1, 2}) {
        const std::int64_t tp = 4;
        const Topology t = make_topology(pool.hardware, {"a100", nodes, tp / nodes, 1}, tp / nodes);
        const Shard split(context, t, {tp, 2, false}), whole(context, t, {1, 2, false});
        const Group group = tp_group(t, tp);
        const auto gather = [&](double elements) { return all_gather_s(t, group, 4 * elements); };
        // of the stem's 320 channels; inside the first stage; with the second stage's stride of 2
        const double wide = 2 * 56 * 56, narrow = 2 * 28 * 28;
        const std::array<double, 3> blocks[] = {{320 * wide, 320 * wide, 1280 * wide},
                                                {1280 * wide, 320 * wide, 1280 * wide},
                                                {1280 * wide, 640 * wide, 2560 * narrow}};
        for (const std::int64_t layer : {0, 1, 3}) {
            const auto& [in, first, out] = blocks[std::min<std::int64_t>(layer, 2)];
            const double again_s = gather(first) + gather(out), once_s = gather(in) + again_s;
            const LayerRange range{layer, layer + 1};
            const double none_s = split.seconds(Recompute::none, range).comm_s;
            const double full_s = split.seconds(Recompute::full, range).comm_s;
            ck_assert_double_eq_tol(none_s / (2 * once_s), 1, 1e-9);
            ck_assert_double_eq_tol(full_s / (2 * once_s + again_s), 1, 1e-9);
            ck_assert_double_eq(whole.seconds(Recompute::full, range).comm_s, 0);
            ck_assert_double_lt(split.seconds(Recompute::none, range).compute_s,
                                whole.seconds(Recompute::none, range).compute_s);
        }
        ck_assert_double_eq(split.embedding_comm_s, 0);
        ck_assert_double_eq_tol(split.head_comm_s / all_reduce_s(t, group, 4 * 2 * 1024), 1, 1e-9);
        ck_assert_double_eq_tol(split.boundary_bytes(1) * tp / whole.boundary_bytes(1), 1, 1e-9);
    }
}

TEST(groups_share_the_network_of_their_node) {
    // Eight GPUs share 75 GB/s: one rank per node gets an eighth, eight ranks per node all of it.
    const Topology t = make_topology(hardware("a100"), {"a100", 2, 8, 1}, 8);
    const double bytes = 8e9, nic = 75e9, nvlink = 225e9;
    ck_assert_double_eq_tol(all_reduce_s(t, {2, 1}, bytes) / (bytes / (nic / 8)), 1, 0.01);
    ck_assert_double_eq_tol(all_reduce_s(t, {16, 8}, bytes) / (bytes / nic + 1.75 * bytes / nvlink),
                            1, 0.02);
    ck_assert_double_eq_tol(point_to_point_s(t, true, bytes) / (bytes / (nic / 8)), 1, 0.01);
}

/// Seconds between nodes only: 8 ranks or fewer of a node exchange in no time.
double rings_s(std::int64_t nodes, std::int64_t per_node, double cross_rail_cost) {
    GpuType type = hardware("a100");
    type.intra = {"", 1e18, 0};
    type.inter.alpha_s = 0, type.inter.cross_rail_cost = cross_rail_cost;
    const Topology t = make_topology(type, {"a100", nodes, 8, 1}, 8);
    return all_reduce_s(t, {nodes * per_node, per_node}, 1e9);
}

TEST(rings_that_change_rails_slow_down_with_the_nodes) {
    for (const std::int64_t per_node : {1, 2, 4, 8})
        for (const std::int64_t nodes : {2, 4, 8, 64}) {
            const bool changes = per_node != 1 && per_node != 8 && nodes > 2;
            const double expected =
                changes ? 1 + 1.5 * std::log2(static_cast<double>(nodes) / 2) : 1;
            ck_assert_double_eq_tol(rings_s(nodes, per_node, 1.5) / rings_s(nodes, per_node, 0),
                                    expected, 1e-6);
        }
    // the nodes of the job count, not those of the ring: others' flows are in its way
    GpuType type = hardware("a100");
    type.inter.cross_rail_cost = 1.5;
    const Group ring{8, 2};
    ck_assert_double_eq(cross_rail_slowdown(make_topology(type, {"a100", 4, 8, 1}, 8), ring), 2.5);
    ck_assert_double_eq(cross_rail_slowdown(make_topology(type, {"a100", 64, 8, 16}, 8), ring),
                        8.5);
}

TEST(optimizer_step_moves_its_state_once_and_is_shared_by_zero) {
    const GpuType a100 = hardware("a100");
    const GpuPool pool{"a100", a100, 8, 8, {}};
    Plan plan;
    plan.stage_layers = {24}, plan.stage_dp = {8}, plan.stage_tp = {1}, plan.num_micro_batches = 8;
    const Grid grid{"a100", 1, 8, 1};
    const Model model = zoo("gpt-1.3b");
    const CostConstants c = builtin_calibration().constants(a100.name, "default");
    const double fixed_s = c.framework.iteration_s + 24 * c.framework.iteration_layer_s;
    const double step_s = parameter_count(model) * c.framework.optimizer_bytes /
                          (a100.memory_bytes_per_s * c.device.memory_share);
    const Estimate whole = *price_plan(model, 64, grid, plan, pool);
    ck_assert_double_eq_tol((whole.optimizer_s - fixed_s) / step_s, 1, 0.05);
    plan.zero_stage = 1;
    const Estimate sharded = *price_plan(model, 64, grid, plan, pool);
    ck_assert_double_eq_tol((sharded.optimizer_s - fixed_s) / (whole.optimizer_s - fixed_s), 0.125,
                            1e-6);
    ck_assert_double_lt(sharded.memory_bytes_per_gpu, whole.memory_bytes_per_gpu);
}

TEST(nvlink_all_reduce_has_the_measured_size) {
    // NCCL on 8 A100 with NVSwitch: about 79 us start-up and 227 GB/s bus bandwidth.
    const Topology t = make_topology(hardware("a100"), {"a100", 1, 8, 1}, 8);
    const double bytes = 1e9;
    ck_assert_double_eq_tol(all_reduce_s(t, {8, 8}, bytes) / (79e-6 + bytes * 1.75 / 227e9), 1,
                            0.05);
    ck_assert_double_eq_tol(all_reduce_s(t, {2, 2}, bytes) / (46e-6 + bytes * 1.0 / 193e9), 1, 0.2);
}
