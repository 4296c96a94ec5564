// SPDX-License-Identifier: GPL-2.0-or-later
// Whole layers on the CPU are real training: backward's gradients are those of forward, held
// against finite differences along random directions, for each weight, both families, several
// layers.
#include <cmath>
#include <string>

#include "float_arrays.h"
#include "planner/hardware/hardware.h"
#include "planner/models/layers.h"
#include "planner/models/readers.h"
#include "planner/operators/whole_layer.h"
#include "profiler/core/operator.h"
#include "profiler/cpu/cpu_backend.h"
#include "profiler/cpu/cpu_kernels.h"
#include "profiler/cpu/cpu_stack.h"
#include "profiler/run/direct.h"
#include "suite.h"

using namespace arena;
using arena::test::draw;
using arena::test::must;
using cpu::LayerStack;
using cpu::StackShape;
using Floats = std::vector<float>;

namespace {

StackShape gpt() {
    StackShape s;
    s.layers = 2, s.samples = 2, s.seq = 12, s.hidden = 32;
    s.heads = s.kv_heads = 4, s.head_dim = 8, s.ffn = 48;
    return s;
}

StackShape llama() {
    StackShape s = gpt();
    s.kv_heads = 2, s.rms = s.gated = true, s.bias = false;
    return s;
}

double dot(const Floats& a, const Floats& b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
    return sum;
}

/// The loss: the output along a fixed direction, which is then its gradient.
double loss(LayerStack& stack) {
    stack.forward();
    return dot(stack.output(), stack.output_gradient());
}

/// (loss(x + e d) - loss(x - e d)) / 2e against <gradient, d>.
void check_gradient(LayerStack& stack, Floats& x, const Floats& gradient, unsigned seed,
                    const std::string& name) {
    const Floats kept = x, direction = draw(static_cast<cpu::Index>(x.size()), seed);
    constexpr float step = 2e-3F;
    double sides[2];
    for (int side = 0; side < 2; ++side) {
        for (std::size_t i = 0; i < x.size(); ++i)
            x[i] = kept[i] + (side == 0 ? step : -step) * direction[i];
        sides[side] = loss(stack);
    }
    x = kept;
    const double measured = (sides[0] - sides[1]) / (2.0 * static_cast<double>(step));
    const double expected = dot(gradient, direction);
    const double scale = std::sqrt(dot(gradient, gradient) / 3);  // of <gradient, direction>
    ck_assert_msg(std::abs(measured - expected) <= 0.03 * scale + 0.02,
                  "%s: finite difference %g, gradient %g (typical %g)", name.c_str(), measured,
                  expected, scale);
}

void check_all(const StackShape& shape) {
    LayerStack stack(shape, 2);
    stack.forward();
    stack.backward();
    const Floats dx = stack.input_gradient();
    ck_assert(dot(dx, dx) > 0);
    check_gradient(stack, stack.input(), dx, 1, "input");
    const std::string names[] = {"gamma1", "beta1", "qkv", "out",  "out_bias",
                                 "gamma2", "beta2", "up",  "down", "down_bias"};
    for (cpu::Index layer = 0; layer < shape.layers; ++layer) {
        const auto weights = stack.weights(layer).all(), gradients = stack.gradients(layer).all();
        for (std::size_t i = 0; i < weights.size(); ++i) {
            const bool unused = (shape.rms && names[i].starts_with("beta")) ||
                                (!shape.bias && names[i].ends_with("_bias"));
            if (unused) continue;
            const Floats g = *gradients[i];
            ck_assert_msg(dot(g, g) > 0, "%s of layer %d has no gradient", names[i].c_str(),
                          static_cast<int>(layer));
            check_gradient(stack, *weights[i], g, static_cast<unsigned>(10 + i), names[i]);
        }
    }
}

}  // namespace

TEST(gradients_of_a_gpt_stack_are_those_of_its_output) { check_all(gpt()); }

TEST(gradients_of_a_llama_stack_are_those_of_its_output) { check_all(llama()); }

TEST(a_token_never_sees_a_later_one) {
    StackShape shape = gpt();
    shape.samples = 1;
    LayerStack stack(shape, 1);
    stack.forward();
    const Floats before = stack.output();
    const std::size_t row = 7;
    stack.input()[row * 32] += 1;
    stack.forward();
    for (std::size_t i = 0; i < row * 32; ++i) ck_assert(stack.output()[i] == before[i]);
    ck_assert(stack.output()[row * 32] != before[row * 32]);
}

TEST(direct_runs_refuse_what_they_would_not_run_as_it_is) {
    DirectOptions o;
    o.model = *find_zoo_model("gpt2");
    o.model.seq_length = 8;
    o.iterations = 1;
    const auto good = must(run_direct(o));
    ck_assert(good.forward_s > 0 && good.backward_s > 0);
    DirectOptions moe = o;
    moe.model.experts = 4;
    test::assert_refused(run_direct(moe), "dense transformers");
    DirectOptions split = o;
    split.shard.tp = 5;
    test::assert_refused(run_direct(split), "tp5");
    DirectOptions none = o;
    none.layers = 0;
    test::assert_refused(run_direct(none), "layers");
    DirectOptions large = o;
    large.model.seq_length = 1 << 20;
    large.shard.micro_batch = 1 << 10;
    test::assert_refused(run_direct(large), "of memory");
}

TEST(prediction_is_the_sum_of_the_layers_operators) {
    DirectOptions o;
    o.model = *find_zoo_model("gpt2");
    o.layers = 3;
    const auto all = must(load_hardware(""));
    const GpuType type = *find_hardware(all, "emulated-cpu");
    OpSeconds table;
    double forward = 0;
    const ShardOperators ops = shard_operators(o.model, Precision::fp32, o.shard);
    for (const auto* list : {&ops.layer_forward, &ops.layer_backward})
        for (const OpCount& op : *list) table[op.shape] = 0.25;
    for (const OpCount& op : ops.layer_forward) forward += 3 * op.count * 0.25;
    const LayerPrediction p = predict_direct(o, Pricer(type, ProfileTable(table)));
    ck_assert_double_eq_tol(p.forward_s, forward, 1e-9);
    ck_assert_double_eq_tol(p.exact, 1, 1e-9);
    ck_assert_double_eq_tol(predict_direct(o, Pricer(type, {})).exact, 0, 1e-9);
}

TEST(prediction_is_the_whole_layer_where_the_profile_has_it) {
    DirectOptions o;
    o.model = *find_zoo_model("gpt2");
    o.layers = 3;
    const GpuType type = *find_hardware(*load_hardware(""), "emulated-cpu");
    OpSeconds table;
    for (const Pass pass : {Pass::forward, Pass::backward}) {
        const auto layer = whole_layer(o.model, Precision::fp32, o.shard, {}, pass);
        for (const OpCount& op : operators_of(*layer)) table[op.shape] = 0.25;
        table[*layer] = pass == Pass::forward ? 10 : 20;
    }
    const LayerPrediction p = predict_direct(o, Pricer(type, ProfileTable(table)));
    ck_assert_double_eq_tol(p.forward_s, 30, 1e-9);
    ck_assert_double_eq_tol(p.backward_s, 60, 1e-9);
    ck_assert_double_eq_tol(p.exact, 1, 1e-9);
    ck_assert_double_gt(p.operators_s, 0);
    ck_assert_double_lt(p.operators_s, 90);
}

TEST_NEEDING(the_cpu_measures_whole_layers_of_every_family_but_no_graphs,
             cpu::have_gemm() ? "" : "this build has neither OpenBLAS nor oneDNN") {
    const auto backend = must(make_cpu_backend(1));
    for (const char* name : {"gpt2", "llama-2-7b", "bert-large"})
        for (const ShardShape& shape : {ShardShape{4, 2, false}, {4, 1, true}})
            for (const Pass pass : {Pass::forward, Pass::backward}) {
                Model model = *find_zoo_model(name);
                model.seq_length = 8;
                model.hidden = 64, model.ffn_hidden = 96, model.head_dim = 8;
                model.heads = 8, model.kv_heads = 8;
                const auto layer = whole_layer(model, Precision::fp32, shape, {}, pass);
                ck_assert(layer.has_value());
                const auto op = (backend)->prepare(*layer);
                ck_assert_msg(op.ok(), "%s: %s", op_key(*layer).c_str(),
                              op.ok() ? "" : op.error().message().c_str());
                ck_assert((*op)->execute(300) >
                          0);  // more often than there are layers in the stack
                test::assert_refused((backend)->prepare(as_graph(*layer)), "no graphs");
            }
    OpShape huge = *whole_layer(*find_zoo_model("gpt2"), Precision::fp32, {1, 1 << 16, false}, {},
                                Pass::forward);
    test::assert_refused((backend)->prepare(huge), "of memory");
    huge.variant = {};
    huge.dims[0] = 1;
    test::assert_refused((backend)->prepare(huge), "no such variant");
}

SUITE({.timeout_s = 60, .fork = false});
