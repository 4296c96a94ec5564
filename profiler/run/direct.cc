// SPDX-License-Identifier: GPL-2.0-or-later
// See direct.h.
#include "profiler/run/direct.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <vector>

#include "base/text.h"
#include "planner/models/layers.h"
#include "planner/operators/whole_layer.h"
#include "profiler/core/cpu_memory.h"
#include "profiler/core/measure.h"
#include "profiler/cpu/cpu_device.h"
#include "profiler/cpu/cpu_layer.h"
#include "profiler/cpu/cpu_stack.h"

namespace arena {
namespace {

double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

/// The median time of each operator, by its place in an iteration.
class InPlace {
  public:
    void begin() {
        place_ = 0;
        last_s_ = now();
    }
    void tick() {
        const double t = now();
        if (place_ == seconds_.size()) seconds_.emplace_back();
        seconds_[place_++].push_back(t - last_s_);
        last_s_ = t;
    }
    void forget() { seconds_.clear(); }
    [[nodiscard]] double sum() const {
        double total = 0;
        for (const auto& samples : seconds_) total += median_interval(samples).median;
        return total;
    }

  private:
    std::vector<std::vector<double>> seconds_;
    std::size_t place_ = 0;
    double last_s_ = 0;
};

/// One layer of the model's first kind, in fp32.
std::optional<OpShape> layer_of(const DirectOptions& o, Pass pass) {
    return whole_layer(o.model, Precision::fp32, o.shard, layer_list(o.model).kinds.front(), pass);
}

Status check(const DirectOptions& o) {
    const Model& m = o.model;
    if (o.shard.tp < 1) return usage_error("at least 1 tensor-parallel rank");
    if (const std::string obstacle = tp_obstacle(m, o.shard.tp); !obstacle.empty())
        return usage_error(obstacle);
    if (m.experts > 0 || !layer_of(o, Pass::forward))
        return no_error("only dense transformers with plain attention run as whole layers; " +
                        m.name + " is not one");
    if (o.layers < 1 || o.layers > 1024) return usage_error("1 to 1024 layers");
    if (o.iterations < 1 || o.iterations > 1000) return usage_error("1 to 1000 iterations");
    if (o.shard.micro_batch < 1) return usage_error("the micro-batch is at least 1");
    return Done{};
}

}  // namespace

Result<DirectResult> run_direct(const DirectOptions& o) {
    if (auto s = check(o); !s) return s.error();
    cpu::StackShape shape = cpu::stack_shape(*layer_of(o, Pass::forward));
    shape.layers = o.layers;
    const auto available = static_cast<double>(cpu::available_memory());
    const auto too_large = no_error("needs " + human_bytes(shape.bytes()) + " of memory, " +
                                    human_bytes(available / 2) + " may be used");
    if (shape.bytes() > available / 2) return too_large;
    DirectResult r;
    const std::int64_t allowed = allowed_cpus();
    r.threads = o.threads > 0 ? std::min(o.threads, allowed) : allowed;
    cpu::set_gemm_threads(static_cast<int>(r.threads));
    std::unique_ptr<cpu::LayerStack> stack;
    try {
        stack = std::make_unique<cpu::LayerStack>(shape, static_cast<int>(r.threads));
    } catch (const std::bad_alloc&) {
        return too_large;
    }
    std::vector<double> forward, backward, both;
    InPlace in_place;
    stack->on_operator([&] { in_place.tick(); });
    for (std::int64_t i = 0; i <= o.iterations; ++i) {
        const double begin = now();
        in_place.begin();
        stack->forward();
        const double middle = now();
        stack->backward();
        const double f = middle - begin, b = now() - middle;
        r.spent_s += f + b;
        if (i == 0) {  // first touch of memory, threads that start
            in_place.forget();
            continue;
        }
        forward.push_back(f);
        backward.push_back(b);
        both.push_back(f + b);
    }
    r.forward_s = median_interval(forward).median;
    r.backward_s = median_interval(backward).median;
    r.spread = median_interval(both).spread;
    r.in_place_s = in_place.sum();
    return r;
}

LayerPrediction predict_direct(const DirectOptions& o, const Pricer& pricer) {
    return predict_layers(o.model, Precision::fp32, o.shard, o.layers, pricer);
}

}  // namespace arena
