// SPDX-License-Identifier: GPL-2.0-or-later
// arena-train's hand-written backward passes against numerical derivatives of their forward passes:
// for every tensor of a block and of both ends, and for their inputs, along the gradient and along
// a random direction, alone and with two tensor-parallel shards.
#include <cstring>
#include <random>

#include "train_cases.h"

using namespace arena;
using namespace arena::train;
using namespace arena::train::test;

namespace {

constexpr Index samples = 2;

std::vector<float> draw(std::size_t n, unsigned seed, float scale = 1) {
    std::mt19937 engine(seed);
    std::normal_distribution<float> normal(0, scale);
    std::vector<float> values(n);
    for (float& v : values) v = normal(engine);
    return values;
}

double dot(std::span<const float> a, std::span<const float> b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i)
        sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
    return sum;
}

/// Of `loss`, where `values` move along `direction` by `step`; they end where they were. Five
/// points: the error is of the fourth power of the step.
double slope_along(std::span<float> values, std::span<const float> direction, double step,
                   const std::function<double()>& loss) {
    const std::vector<float> before(values.begin(), values.end());
    const auto at = [&](double factor) {
        for (std::size_t i = 0; i < values.size(); ++i)
            values[i] =
                before[i] + static_cast<float>(factor * step * static_cast<double>(direction[i]));
        return loss();
    };
    const double slope = (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * step);
    std::copy(before.begin(), before.end(), values.begin());
    return slope;
}

/// Moves `values` along `direction` by +-step and compares the slope of `loss` with the one that
/// the gradient says.
void check_direction(std::span<float> values, std::span<const float> gradient,
                     std::span<const float> direction, const std::function<double()>& loss,
                     const std::string& name) {
    const double length = std::sqrt(dot(direction, direction));
    const double slope = slope_along(values, direction, 1e-2 / std::max(length, 1e-12), loss);
    const double wanted = dot(gradient, direction);
    const double scale = std::sqrt(dot(gradient, gradient)) * length;
    ck_assert_msg(std::abs(slope - wanted) <= 2e-3 * scale + 1e-4,
                  "%s: slope %.8g, gradient says %.8g (of %.3g)", name.c_str(), slope, wanted,
                  scale);
}

/// On all shards at once: each calls it with its own values; replicated values move alike on all of
/// them.
void check_tensor(std::span<float> values, std::span<const float> gradient,
                  const std::function<double()>& loss, const std::string& name) {
    const std::vector<float> kept(gradient.begin(), gradient.end());
    check_direction(values, kept, draw(values.size(), 11), loss, name + " at random");
    if (std::sqrt(dot(kept, kept)) > 1e-6)
        check_direction(values, kept, kept, loss, name + " along the gradient");
}

struct OneRank {
    explicit OneRank(Comm& shards)
        : comm(shards),
          layout{1, 1, shards.size()},
          shape(small_gpt()),
          sizes(block_shape(shape, layout.tp, samples, *device)),
          parameters(shape, layout, {0, 0, shards.rank()}, {0, 1}),
          model(parameters, *device),
          scratch(sizes) {
        parameters.initialize(3);
        // Weights large enough that every non-linearity is bent, biases and norms unlike their
        // first values.
        unsigned seed = 100;
        for (const LocalTensor& t : parameters.tensors()) {
            std::vector<float> whole =
                draw(static_cast<std::size_t>(t.spec.size()), ++seed, t.spec.decayed ? 0.3F : 0.5F);
            take_part(t, whole, parameters.weights().data() + t.offset);
        }
    }
    Comm& comm;
    std::unique_ptr<Device> device = make_cpu_device(1);
    std::unique_ptr<Group> group = device->group(comm);
    RankLayout layout;
    GptShape shape;
    BlockShape sizes;
    Parameters parameters;
    Weights model;  ///< of the parameters
    BlockScratch scratch;

    std::span<float> weights(const LocalTensor& t) {
        return parameters.weights().subspan(static_cast<std::size_t>(t.offset),
                                            static_cast<std::size_t>(t.size()));
    }
    std::span<float> gradients(const LocalTensor& t) {
        return {model.gradients().data(t.offset).address(), static_cast<std::size_t>(t.size())};
    }
};

std::size_t hidden_size(const OneRank& r) {
    return static_cast<std::size_t>(r.sizes.tokens() * r.sizes.hidden);
}

/// With two shards a sharded tensor's slope has a part on each: the shards of a direction are added
/// up here.
void check_sharded(OneRank& r, const LocalTensor& t, const std::function<double()>& loss) {
    const std::vector<float> gradient(r.gradients(t).begin(), r.gradients(t).end());
    const std::vector<float> direction =
        draw(gradient.size(), t.spec.sharded ? 20U + static_cast<unsigned>(r.comm.rank()) : 20U);
    double facts[] = {dot(gradient, direction), dot(gradient, gradient), dot(direction, direction)};
    if (t.spec.sharded) r.comm.all_reduce_sum(std::span<double>(facts));
    const double slope = slope_along(r.weights(t), direction, 1e-2 / std::sqrt(facts[2]), loss);
    ck_assert_msg(std::abs(slope - facts[0]) <= 2e-3 * std::sqrt(facts[1] * facts[2]) + 1e-4,
                  "%s on shard %d of %d: slope %.8g, gradient says %.8g", t.spec.name.c_str(),
                  r.comm.rank(), r.comm.size(), slope, facts[0]);
}

void check_block(Comm& shards) {
    OneRank r(shards);
    Block block(r.sizes, r.model, 0, *r.group, r.scratch);
    BlockState state(r.sizes);
    AttentionCore core(r.sizes);
    std::vector<float> input = draw(hidden_size(r), 1), output(input.size()),
                       gradient = draw(input.size(), 2);
    const auto weight = gradient;
    const auto loss = [&] {
        block.forward(cpu_elements(input), state, core, cpu_elements(output));
        return dot(weight, output);
    };
    loss();
    block.backward(cpu_elements(input), state, core, cpu_elements(gradient));
    check_tensor(input, gradient, loss, "input of a block");
    for (Index i = 0; i < block_tensors; ++i)
        check_sharded(r, r.parameters.tensors()[static_cast<std::size_t>(i)], loss);
}

std::vector<std::int32_t> draw_tokens(const OneRank& r, unsigned seed) {
    std::mt19937 engine(seed);
    std::uniform_int_distribution<std::int32_t> token(0,
                                                      static_cast<std::int32_t>(r.shape.vocab) - 1);
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(r.sizes.tokens()));
    for (auto& t : tokens) t = token(engine);
    return tokens;
}

void check_embedding(Comm& shards) {
    OneRank r(shards);
    Embedding embedding(r.sizes, r.model, *r.group);
    const auto tokens = draw_tokens(r, 5);
    std::vector<float> output(hidden_size(r));
    const auto weight = draw(output.size(), 6);
    embedding.backward(cpu_tokens(tokens), cpu_elements(weight));
    const auto loss = [&] {
        embedding.forward(cpu_tokens(tokens), cpu_elements(output));
        return dot(weight, output);
    };
    for (const char* name : {"wte.weight", "wpe.weight"})
        check_sharded(r, r.parameters.tensors()[static_cast<std::size_t>(r.parameters.find(name))],
                      loss);
}

double loss_of(OneRank& r, Head& head, const std::vector<float>& input,
               const std::vector<std::int32_t>& labels) {
    const Array<double> sum(*r.device, 1);
    head.forward(cpu_elements(input), cpu_tokens(labels), sum.data());
    return r.device->value(sum.data());
}

void check_head(Comm& shards) {
    OneRank r(shards);
    Head head(r.sizes, r.model, *r.group);
    const auto labels = draw_tokens(r, 8);
    std::vector<float> input = draw(hidden_size(r), 9), gradient(input.size());
    const auto loss = [&] { return loss_of(r, head, input, labels); };
    loss();
    head.backward(cpu_elements(input), cpu_tokens(labels), 1, cpu_elements(gradient));
    check_tensor(input, gradient, loss, "input of the head");
    for (const char* name : {"wte.weight", "ln_f.weight", "ln_f.bias"})
        check_sharded(r, r.parameters.tensors()[static_cast<std::size_t>(r.parameters.find(name))],
                      loss);
}

void on_shards(void (*check)(Comm&)) {
    cpu::set_gemm_threads(1);
    for (const int shards : {1, 2}) run_threads(shards, check);
}

TEST(gradients_of_a_block_are_the_slopes_of_its_forward) { on_shards(check_block); }
TEST(gradients_of_the_embedding_are_the_slopes_of_its_forward) { on_shards(check_embedding); }
TEST(gradients_of_head_and_loss_are_the_slopes_of_their_forward) { on_shards(check_head); }

TEST(recomputed_activations_are_those_of_the_forward) {
    run_threads(1, [](Comm& shards) {
        OneRank r(shards);
        Block block(r.sizes, r.model, 0, *r.group, r.scratch);
        BlockState state(r.sizes), again(r.sizes);
        AttentionCore core(r.sizes), core_again(r.sizes), core_from_state(r.sizes);
        std::vector<float> input = draw(hidden_size(r), 1), output(input.size());
        block.forward(cpu_elements(input), state, core, cpu_elements(output));
        block.recompute(cpu_elements(input), again, core_again);
        block.recompute_core(state, core_from_state);
        const auto same = [](const auto& a, const auto& b) {
            return std::memcmp(a.data().address(), b.data().address(), a.bytes()) == 0;
        };
        ck_assert(same(again.active, state.active) && same(again.saved_2, state.saved_2) &&
                  same(again.key, state.key));
        ck_assert(same(core_again.context, core.context) &&
                  same(core_from_state.context, core.context));
        ck_assert(same(core_from_state.lse, core.lse) && same(core_from_state.out, core.out));
    });
}

TEST(the_loss_of_even_logits_is_the_log_of_the_vocabulary) {
    run_threads(2, [](Comm& shards) {
        OneRank r(shards);
        std::ranges::fill(r.parameters.weights(), 0.0F);
        Head head(r.sizes, r.model, *r.group);
        const double loss = loss_of(r, head, draw(hidden_size(r), 9), draw_tokens(r, 8)) /
                            static_cast<double>(r.sizes.tokens());
        ck_assert_double_eq_tol(loss, std::log(66.0), 1e-5);
    });
}

TEST(shards_of_a_tensor_hold_what_the_whole_has) {
    const GptShape shape = small_gpt();
    for (const TensorSpec& spec : all_specs(shape)) {
        std::vector<float> whole, again(static_cast<std::size_t>(spec.size()), -1);
        for (Index i = 0; i < spec.size(); ++i) whole.push_back(initial_value(spec, 3, i));
        for (Index shard = 0; shard < 4; ++shard) {
            const Parameters p(shape, {1, 1, 4}, {0, 0, shard}, {0, 4});
            const LocalTensor& t = p.tensors()[static_cast<std::size_t>(p.find(spec.name))];
            std::vector<float> part(static_cast<std::size_t>(t.size()));
            take_part(t, whole, part.data());
            put_part(spec, t.range, part.data(), again);
        }
        ck_assert_msg(whole == again, "%s", spec.name.c_str());
    }
}

}  // namespace
