// SPDX-License-Identifier: GPL-2.0-or-later
// Seeded random cases for the planner's tests (ARENA_SEED=N repeats a run): small models, grids,
// plans, and every partition of layers.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "planner/hardware/hardware.h"
#include "planner/models/model.h"
#include "planner/models/readers.h"
#include "planner/operators/operators.h"
#include "planner/search/budget.h"
#include "planner/search/planner.h"
#include "suite.h"

namespace arena::test {

inline std::uint64_t seed() {
    const char* text = std::getenv("ARENA_SEED");
    return text != nullptr ? std::strtoull(text, nullptr, 10) : 20260101;
}

class Random {
  public:
    explicit Random(std::uint64_t stream) : engine_(seed() * 1000003 + stream) {}
    std::int64_t whole(std::int64_t min, std::int64_t max) {
        return std::uniform_int_distribution<std::int64_t>(min, max)(engine_);
    }
    double real(double min, double max) {
        return std::uniform_real_distribution<double>(min, max)(engine_);
    }
    template <typename T>
    T of(std::initializer_list<T> list) {
        return list.begin()[whole(0, static_cast<std::int64_t>(list.size()) - 1)];
    }

  private:
    std::mt19937_64 engine_;
};

using Layers = std::vector<std::int64_t>;

/// Calls visit with every way to give `layers` layers to `stages` stages, at least one each.
inline void each_partition(std::int64_t layers, std::int64_t stages,
                           const std::function<void(const Layers&)>& visit) {
    Layers partition(static_cast<std::size_t>(stages), 1);
    const std::function<void(std::size_t, std::int64_t)> fill = [&](std::size_t at,
                                                                    std::int64_t left) {
        if (at + 1 == partition.size()) {
            partition[at] = left;
            return visit(partition);
        }
        const auto after = static_cast<std::int64_t>(partition.size() - at - 1);
        for (partition[at] = 1; partition[at] <= left - after; ++partition[at])
            fill(at + 1, left - partition[at]);
    };
    if (stages <= layers) fill(0, layers);
}

inline const std::vector<GpuType>& all_hardware() {
    static const auto types = load_hardware("");
    ck_assert_msg(types.ok(), "%s", types.ok() ? "" : types.error().message().c_str());
    return *types;
}

inline GpuType hardware(const char* name) { return *find_hardware(all_hardware(), name); }
inline Model zoo(const char* name) { return *find_zoo_model(name); }

/// Layers that differ in everything: work, parameters, what they keep and what they hand on.
inline Model any_list(Random& random, std::int64_t max_layers) {
    Model m;
    m.name = "list";
    m.family = Family::custom;
    m.precision = random.of({Precision::fp32, Precision::fp16, Precision::bf16});
    for (std::int64_t left = random.whole(1, max_layers); left > 0;) {
        CustomLayer layer;
        layer.count = random.whole(1, std::min<std::int64_t>(left, 3));
        layer.forward_flops = std::exp(random.real(18, 25));
        layer.parameter_bytes = random.of({0.0, 1e5, 1e7, 1e8, 1e9});
        layer.activation_bytes = std::exp(random.real(12, 20));
        layer.output_bytes = random.of({0.0, 1e4, 1e6, 3e7});
        m.custom_layers.push_back(layer);
        left -= layer.count;
    }
    return must(complete_model(m, "generated"));
}

inline Model any_resnet(Random& random, std::int64_t max_layers) {
    Model m;
    m.name = "resnet";
    m.family = Family::wide_resnet;
    for (std::int64_t left = random.whole(1, max_layers); left > 0 && m.blocks.size() < 4;) {
        m.blocks.push_back(random.whole(1, left));
        left -= m.blocks.back();
    }
    m.base_channels = 16 * random.whole(1, 12);
    m.width_factor = random.whole(1, 3);
    m.image_size = random.of<std::int64_t>({64, 224, 299});
    m.precision = random.of({Precision::fp32, Precision::fp16});
    return must(complete_model(m, "generated"));
}

/// Dense first layers, every n-th one with experts or with a whole window.
inline void mix_kinds(Random& random, Model& m) {
    if (m.family == Family::moe && m.layers > 1)
        (random.whole(0, 1) == 0 ? m.dense_layers : m.moe_every) =
            random.whole(1, std::min<std::int64_t>(m.layers - 1, 3));
    if (m.family == Family::llama) {
        m.window = m.seq_length / 4;
        m.full_attention_every = random.whole(0, 3);
    }
}

/// Of every family; in half of the models layers differ.
inline Model small_model(Random& random, std::int64_t max_layers) {
    const std::int64_t list = random.whole(0, 9);
    if (list == 0) return any_resnet(random, max_layers);
    if (list <= 3) return any_list(random, max_layers);
    Model m;
    m.name = "small";
    m.family = random.of({Family::gpt, Family::llama, Family::bert, Family::moe});
    set_family_flags(m);
    if (m.family == Family::moe) {
        m.experts = random.of<std::int64_t>({2, 4, 6, 8});
        m.top_k = random.whole(1, 2);
        m.moe_ffn_hidden = 512 * random.of<std::int64_t>({1, 3});
    }
    m.layers = random.whole(1, max_layers);
    m.heads = random.of<std::int64_t>({4, 8, 12, 15, 16});
    m.hidden = m.heads * random.of<std::int64_t>({32, 64, 128});
    m.ffn_hidden = 4 * m.hidden;
    m.vocab = random.whole(1000, 60000);
    m.seq_length = random.of<std::int64_t>({128, 512, 768, 1024, 2048});
    m.precision = random.of({Precision::fp32, Precision::fp16, Precision::bf16});
    if (list >= 8) mix_kinds(random, m);
    return must(complete_model(m, "generated"));
}

struct Case {
    PlanQuery query;
    Precision precision = Precision::fp32;
};

/// Whose transfers hide, block or cost nothing; the second shares batch norms' statistics.
inline std::string any_framework(Random& random) {
    return random.of({"default", "Alpa", "megatron", "megatron-deepspeed", "nemo"});
}

/// At most 8 GPUs and 12 layers; memory often binds; launchers and pins of all sorts.
inline std::optional<Case> small_case(Random& random) {
    Case c;
    c.query.model = small_model(random, 12);
    c.query.global_batch = random.of<std::int64_t>({1, 4, 6, 8, 16, 24, 32, 300});
    GpuPool pool;
    pool.hardware = all_hardware()[static_cast<std::size_t>(
        random.whole(0, static_cast<std::int64_t>(all_hardware().size()) - 1))];
    pool.hardware.memory_bytes = static_cast<std::int64_t>(
        static_cast<double>(pool.hardware.memory_bytes) * random.of({1.0, 0.5, 0.2, 0.15}));
    pool.gpu_type = "x";
    pool.gpus_per_node = random.of<std::int64_t>({1, 2, 3, 4, 6, 8});
    pool.max_gpus = 8;
    pool.framework = any_framework(random);
    c.query.pools = {pool};
    c.query.min_gpus = c.query.max_gpus = random.whole(1, 8);
    const auto launcher = static_cast<std::size_t>(
        random.whole(0, static_cast<std::int64_t>(2 * launchers().size())));
    c.query.can = launcher < launchers().size() ? launchers()[launcher].can() : all_capabilities();
    c.query.can.told.remove(Feature::mixed);  // enumerated apart
    if (random.whole(0, 4) == 0) c.query.pin.micro_batch = random.of<std::int64_t>({1, 2, 3});
    if (random.whole(0, 4) == 0 && c.query.can.told.has(Feature::vpp))
        c.query.pin.vpp = random.whole(1, 3);
    if (random.whole(0, 4) == 0 && c.query.can.told.has(Feature::cp))
        c.query.pin.cp = random.of<std::int64_t>({1, 2, 3, 4});
    if (random.whole(0, 4) == 0 && c.query.can.told.has(Feature::ep))
        c.query.pin.ep = random.of<std::int64_t>({1, 2, 3, 6});
    const auto precision = effective_precision(pool.hardware, c.query.model.precision);
    if (!precision) return std::nullopt;
    c.precision = *precision;
    return c;
}

/// A plan of a random small model that can be priced.
struct Priced {
    Model model;
    GpuPool pool;
    Grid grid;
    Plan plan;
    std::int64_t batch = 1;

    [[nodiscard]] Estimate price() const {
        return must(price_plan(model, batch, grid, plan, pool));
    }
};

inline Priced any_priced(Random& random) {
    for (;;) {
        Priced p;
        p.model = small_model(random, 24);
        p.pool.hardware = all_hardware()[static_cast<std::size_t>(
            random.whole(0, static_cast<std::int64_t>(all_hardware().size()) - 1))];
        p.pool.gpu_type = "x";
        p.pool.gpus_per_node = 8;
        p.pool.hardware.inter.cross_rail_cost = random.of({0.0, 1.5});
        p.pool.framework = any_framework(random);
        const std::int64_t tp = random.of<std::int64_t>({1, 2, 4});
        const std::int64_t pp = random.whole(1, std::min<std::int64_t>(4, p.model.layers));
        const std::int64_t dp = random.of<std::int64_t>({1, 2, 4, 8, 16});
        if (!tp_fits(p.model, tp) || !effective_precision(p.pool.hardware, p.model.precision))
            continue;
        p.plan.stage_layers.assign(static_cast<std::size_t>(pp), p.model.layers / pp);
        p.plan.stage_layers.back() += p.model.layers % pp;
        p.plan.stage_dp.assign(static_cast<std::size_t>(pp), dp);
        p.plan.stage_tp.assign(static_cast<std::size_t>(pp), tp);
        p.plan.micro_batch = random.of<std::int64_t>({1, 2, 4});
        p.plan.num_micro_batches = random.whole(1, 32);
        p.plan.recompute = random.of({Recompute::none, Recompute::selective, Recompute::full});
        p.plan.zero_stage = dp > 1 ? random.whole(0, pp > 1 ? 1 : 3) : 0;
        p.plan.sequence_parallel =
            tp > 1 && is_transformer(p.model.family) && random.whole(0, 1) == 1;
        p.batch = dp * p.plan.micro_batch * p.plan.num_micro_batches;
        p.grid = {"x", 1, pp * dp * tp, pp};
        if (p.grid.gpus_per_node > 8)
            p.grid.nodes = p.grid.gpus_per_node / 8, p.grid.gpus_per_node = 8;
        if (p.grid.gpus() != pp * dp * tp) continue;
        return p;
    }
}

}  // namespace arena::test
