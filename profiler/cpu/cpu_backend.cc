// SPDX-License-Identifier: GPL-2.0-or-later
// CPU back-end: turns an OpShape into an Operator with rotating buffer sets larger than the
// last-level cache, so that no execution finds its operands in cache by luck. It measures fp32 only
// and says no to other precisions: a CPU's bf16 would be a conversion, and passing it for a GPU's
// would be a lie.
#include "profiler/cpu/cpu_backend.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <new>
#include <vector>

#include "base/text.h"
#include "profiler/core/cpu_memory.h"
#include "profiler/core/operator.h"
#include "profiler/cpu/cpu_device.h"
#include "profiler/cpu/cpu_kernels.h"
#include "profiler/cpu/cpu_layer.h"

namespace arena {
namespace {

using cpu::Index;
using cpu::Region;
using Body = std::function<void()>;

/// Sizes, in floats, of the buffers of one execution: read-only and written.
struct Needs {
    std::vector<Index> inputs, outputs;
};

/// Buffers of one execution, in the order of Needs.
struct Buffers {
    std::vector<float*> in, out;
};

/// How a shape is executed: what it needs and what it runs on given buffers.
struct Recipe {
    Needs needs;
    std::function<Body(const Buffers&)> make;
};

class CpuOperator final : public Operator {
  public:
    explicit CpuOperator(std::vector<Body> sets) : sets_(std::move(sets)) {}
    double execute(std::int64_t times) override {
        const auto begin = std::chrono::steady_clock::now();
        for (std::int64_t i = 0; i < times; ++i) {
            sets_[next_]();
            if (++next_ == sets_.size()) next_ = 0;
        }
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    }

  private:
    std::vector<Body> sets_;
    std::size_t next_ = 0;
};

/// Ids in [0, limit) drawn into a float buffer's memory (both are four bytes wide).
const std::int32_t* draw_ids(float* buffer, Index count, Index limit, std::uint64_t seed) {
    auto* ids = reinterpret_cast<std::int32_t*>(buffer);
    std::uint64_t s = seed * 0x9e3779b97f4a7c15ULL + 1;
    for (Index i = 0; i < count; ++i) {
        s = s * 6364136223846793005ULL + 1442695040888963407ULL;
        ids[i] = static_cast<std::int32_t>((s >> 33) % static_cast<std::uint64_t>(limit));
    }
    return ids;
}

Recipe gemm_recipe(const OpShape& s, int threads) {
    const auto [m, n, k, batch] = s.dims;
    const auto layout = has_variant(s, Gradient::data)      ? cpu::Layout::nn
                        : has_variant(s, Gradient::weights) ? cpu::Layout::tn
                                                            : cpu::Layout::nt;
    const cpu::Gemm g{layout, m, n, k};
    return {{{m * k * batch, k * n * batch}, {m * n * batch}},
            [=, count = batch](const Buffers& b) {
                return [=] { cpu::batched_gemm(g, count, b.in[0], b.in[1], b.out[0], threads); };
            }};
}

Recipe attention_recipe(const OpShape& s, int threads) {
    const auto variant = variant_as<AttentionVariant>(s);
    const Index value = variant.value_dim > 0 ? variant.value_dim : s.dims[3];
    const cpu::Attention a{.heads = s.dims[0],
                           .kv_heads = s.dims[1],
                           .seq = s.dims[2],
                           .head_dim = s.dims[3],
                           .causal = variant.is_causal,
                           .value_dim = value,
                           .window = variant.window};
    const Index q = a.heads * a.seq * a.head_dim, k = a.kv_heads * a.seq * a.head_dim;
    const Index o = a.heads * a.seq * value, v = a.kv_heads * a.seq * value;
    if (s.pass == Pass::forward)
        return {{{q, k, v}, {o, a.heads * a.seq}}, [=](const Buffers& b) {
                    return [=] {
                        cpu::attention_forward(a, b.in[0], b.in[1], b.in[2], b.out[0], b.out[1],
                                               threads);
                    };
                }};
    return {{{q, k, v, o}, {o, a.heads * a.seq, q, k, v}}, [=](const Buffers& b) {
                cpu::attention_forward(a, b.in[0], b.in[1], b.in[2], b.out[0], b.out[1], threads);
                return [=] {
                    cpu::attention_backward(
                        a,
                        {.q = b.in[0], .k = b.in[1], .v = b.in[2], .o = b.out[0], .lse = b.out[1]},
                        b.in[3], {.q = b.out[2], .k = b.out[3], .v = b.out[4]}, threads);
                };
            }};
}

cpu::NormTensors norm_tensors(const Buffers& b, const float* beta) {
    return {.x = b.in[0], .gamma = b.in[1], .beta = beta, .y = b.out[0], .saved = b.out[1]};
}
cpu::NormInputs norm_inputs(const Buffers& b) {
    return {.x = b.in[0], .gamma = b.in[1], .saved = b.out[1]};
}
cpu::NormGradients norm_gradients(const Buffers& b) {
    return {.x = b.out[0], .gamma = b.out[2], .beta = b.out[3]};
}

Recipe norm_recipe(const OpShape& s, int threads) {
    const cpu::Norm n{s.dims[0], s.dims[1], has_variant(s, NormKind::rms)};
    const Index size = n.rows * n.cols;
    if (s.pass == Pass::forward)
        return {{{size, n.cols, n.cols}, {size, 2 * n.rows}}, [=](const Buffers& b) {
                    return [=] { cpu::norm_forward(n, norm_tensors(b, b.in[2]), threads); };
                }};
    return {
        {{size, n.cols, size, n.cols}, {size, 2 * n.rows, n.cols, n.cols, 2 * threads * n.cols}},
        [=](const Buffers& b) {
            cpu::norm_forward(n, norm_tensors(b, b.in[3]), threads);
            return [=] {
                cpu::norm_backward(n, norm_inputs(b), b.in[2], norm_gradients(b), b.out[4],
                                   threads);
            };
        }};
}

Recipe batch_norm_recipe(const OpShape& s, int threads) {
    const Index rows = s.dims[0], cols = s.dims[1], size = rows * cols, sums = 2 * threads * cols;
    if (s.pass == Pass::forward)
        return {{{size, cols, cols}, {size, 2 * cols, sums}}, [=](const Buffers& b) {
                    return [=] {
                        cpu::batch_norm_forward(rows, cols, norm_tensors(b, b.in[2]), b.out[2],
                                                threads);
                    };
                }};
    return {{{size, cols, size, cols}, {size, 2 * cols, cols, cols, sums}}, [=](const Buffers& b) {
                cpu::batch_norm_forward(rows, cols, norm_tensors(b, b.in[3]), b.out[4], threads);
                return [=] {
                    cpu::batch_norm_backward(rows, cols, norm_inputs(b), b.in[2], norm_gradients(b),
                                             b.out[4], threads);
                };
            }};
}

Recipe relu_recipe(const OpShape& s, int threads) {
    const Index size = s.dims[0] * s.dims[1];
    if (s.pass == Pass::forward)
        return {{{size}, {size}}, [=](const Buffers& b) {
                    return [=] { cpu::relu_forward(size, b.in[0], b.out[0], threads); };
                }};
    return {{{size, size}, {size}}, [=](const Buffers& b) {
                return [=] { cpu::relu_backward(size, b.in[0], b.in[1], b.out[0], threads); };
            }};
}

Recipe conv_recipe(const OpShape& s, int threads) {
    using Direction = cpu::Conv::Direction;
    const auto v = variant_as<ConvVariant>(s);
    const Direction direction = v.gradient == Gradient::data      ? Direction::data
                                : v.gradient == Gradient::weights ? Direction::weights
                                                                  : Direction::forward;
    const cpu::Convolution conv({.direction = direction,
                                 .images = s.dims[0],
                                 .in = s.dims[1],
                                 .out = s.dims[2],
                                 .edge = s.dims[3],
                                 .kernel = v.kernel,
                                 .stride = v.stride},
                                threads);
    const Index source = conv.source_size(), filter = conv.filter_size(),
                result = conv.result_size();
    switch (direction) {
        case Direction::forward:
            return {{{source, filter}, {result}}, [=](const Buffers& b) {
                        return [=] { conv.run(b.in[0], b.in[1], b.out[0]); };
                    }};
        case Direction::data:
            return {{{result, filter}, {source}}, [=](const Buffers& b) {
                        return [=] { conv.run(b.out[0], b.in[1], b.in[0]); };
                    }};
        case Direction::weights:
            break;
    }
    return {{{source, result}, {filter}},
            [=](const Buffers& b) { return [=] { conv.run(b.in[0], b.out[0], b.in[1]); }; }};
}

Recipe activation_recipe(const OpShape& s, int threads) {
    const Index size = s.dims[0] * s.dims[1];
    const bool forward = s.pass == Pass::forward;
    if (has_variant(s, ElementwiseKind::gelu) && forward)
        return {{{size}, {size}}, [=](const Buffers& b) {
                    return [=] { cpu::gelu_forward(size, b.in[0], b.out[0], threads); };
                }};
    if (has_variant(s, ElementwiseKind::gelu))
        return {{{size, size}, {size}}, [=](const Buffers& b) {
                    return [=] { cpu::gelu_backward(size, b.in[0], b.in[1], b.out[0], threads); };
                }};
    if (forward)
        return {{{size, size}, {size}}, [=](const Buffers& b) {
                    return [=] { cpu::swiglu_forward(size, b.in[0], b.in[1], b.out[0], threads); };
                }};
    return {{{size, size, size}, {size, size}}, [=](const Buffers& b) {
                return [=] {
                    cpu::swiglu_backward(size, b.in[0], b.in[1], b.in[2], b.out[0], b.out[1],
                                         threads);
                };
            }};
}

Recipe sum_recipe(const OpShape& s, int threads) {
    const Index rows = s.dims[0], cols = s.dims[1], size = rows * cols;
    if (has_variant(s, ElementwiseKind::add))
        return {{{size, size}, {size}}, [=](const Buffers& b) {
                    return [=] { cpu::add(size, b.in[0], b.in[1], b.out[0], threads); };
                }};
    if (s.pass == Pass::forward)
        return {{{size, cols, size}, {size}}, [=](const Buffers& b) {
                    return [=] {
                        cpu::bias_residual_forward(rows, cols, b.in[0], b.in[1], b.in[2], b.out[0],
                                                   threads);
                    };
                }};
    return {{{size}, {size, cols, threads * cols}}, [=](const Buffers& b) {
                return [=] {
                    cpu::bias_residual_backward(rows, cols, b.in[0], b.out[0], b.out[1], b.out[2],
                                                threads);
                };
            }};
}

Recipe embedding_recipe(const OpShape& s, int threads) {
    const Index tokens = s.dims[0], hidden = s.dims[1], vocab = s.dims[2];
    if (s.pass == Pass::forward)
        return {{{vocab * hidden}, {tokens * hidden, tokens}}, [=](const Buffers& b) {
                    const auto* ids = draw_ids(b.out[1], tokens, vocab, 7);
                    return [=] {
                        cpu::embedding_forward(tokens, hidden, ids, b.in[0], b.out[0], threads);
                    };
                }};
    return {{{tokens * hidden}, {vocab * hidden, tokens}}, [=](const Buffers& b) {
                const auto* ids = draw_ids(b.out[1], tokens, vocab, 7);
                return [=] {
                    cpu::embedding_backward(tokens, hidden, vocab, ids, b.in[0], b.out[0], threads);
                };
            }};
}

Recipe cross_entropy_recipe(const OpShape& s, int threads) {
    const Index rows = s.dims[0], cols = s.dims[1], size = rows * cols;
    if (s.pass == Pass::forward)
        return {{{size}, {rows, rows, rows}}, [=](const Buffers& b) {
                    const auto* labels = draw_ids(b.out[2], rows, cols, 11);
                    return [=] {
                        cpu::cross_entropy_forward(rows, cols, b.in[0], labels, b.out[0], b.out[1],
                                                   threads);
                    };
                }};
    return {{{size}, {size, rows, rows, rows}}, [=](const Buffers& b) {
                const auto* labels = draw_ids(b.out[3], rows, cols, 11);
                cpu::cross_entropy_forward(rows, cols, b.in[0], labels, b.out[1], b.out[2],
                                           threads);
                return [=] {
                    cpu::cross_entropy_backward(rows, cols,
                                                {.x = b.in[0], .label = labels, .lse = b.out[2]},
                                                1.0F / static_cast<float>(rows), b.out[0], threads);
                };
            }};
}

Recipe optimizer_recipe(const OpShape& s, int threads) {
    const Index n = s.dims[0];
    return {{{n}, {n, n, n}}, [=](const Buffers& b) {
                std::fill(b.out[1], b.out[1] + n, 0.01F);
                std::fill(b.out[2], b.out[2] + n, 0.01F);
                return [=] { cpu::adamw({}, n, b.out[0], b.in[0], b.out[1], b.out[2], threads); };
            }};
}

Recipe recipe_for(const OpShape& s, int threads) {
    switch (s.kind) {
        case OpKind::gemm:
            return gemm_recipe(s, threads);
        case OpKind::attention:
            return attention_recipe(s, threads);
        case OpKind::norm:
            return has_variant(s, NormKind::batch) ? batch_norm_recipe(s, threads)
                                                   : norm_recipe(s, threads);
        case OpKind::elementwise:
            if (has_variant(s, ElementwiseKind::relu)) return relu_recipe(s, threads);
            return has_variant(s, ElementwiseKind::gelu) || has_variant(s, ElementwiseKind::swiglu)
                       ? activation_recipe(s, threads)
                       : sum_recipe(s, threads);
        case OpKind::embedding:
            return embedding_recipe(s, threads);
        case OpKind::cross_entropy:
            return cross_entropy_recipe(s, threads);
        case OpKind::optimizer:
            return optimizer_recipe(s, threads);
        case OpKind::conv:
            return conv_recipe(s, threads);
        case OpKind::layer:   // prepare_layer()
        case OpKind::custom:  // refused by check_shape()
            break;
    }
    return {};
}

/// Kernels and strides that networks use; anything larger is a slip.
constexpr std::int64_t max_kernel = 64;

Status check_convolution(const OpShape& s) {
    const auto* variant = std::get_if<ConvVariant>(&s.variant);
    if (!cpu::have_convolution())
        return no_error("this build has no oneDNN: it cannot measure convolutions", op_key(s));
    if (!variant || variant->kernel > max_kernel || variant->stride > max_kernel ||
        (s.pass == Pass::forward) == variant->gradient.has_value())
        return no_error("the CPU back-end has no such variant", op_key(s));
    return Done{};
}

Status check_layer(const OpShape& s) {
    const auto* variant = std::get_if<LayerVariant>(&s.variant);
    if (!variant) return no_error("the CPU back-end has no such variant", op_key(s));
    if (variant->is_graph)
        return no_error("a CPU launches no graphs: measure the plain layer", op_key(s));
    return Done{};
}

/// Variants that only this back-end has.
bool measures_also(const OpShape& s) {
    if (const auto* variant = std::get_if<AttentionVariant>(&s.variant)) {
        const auto fits = [](std::int64_t size) { return size < std::int64_t{1} << 31; };
        return fits(variant->value_dim) && fits(variant->window) &&
               (variant->is_causal || variant->window == 0);
    }
    return has_variant(s, NormKind::batch) || has_variant(s, ElementwiseKind::relu);
}

Status check_shape(const OpShape& s) {
    const std::size_t used = dim_count(s.kind);
    for (std::size_t i = 0; i < used; ++i)
        if (s.dims[i] < 1 || s.dims[i] > (std::int64_t{1} << 31) - 1)
            return no_error("every size must be between 1 and 2147483647", op_key(s));
    if (s.precision != Precision::fp32)
        return no_error("a CPU measures fp32 only; ask with an emulated hardware entry", op_key(s));
    if (s.kind == OpKind::custom)
        return no_error("the operators of a custom layer are not known: nothing to measure",
                        op_key(s));
    if (s.kind == OpKind::conv) return check_convolution(s);
    if (s.kind == OpKind::layer) return check_layer(s);
    if (s.kind == OpKind::attention && s.dims[0] % s.dims[1] != 0)
        return no_error("query heads must be a multiple of key/value heads", op_key(s));
    if (measures_also(s)) return Done{};
    const auto variants = variants_of(s.kind);
    if (std::find(variants.begin(), variants.end(), s.variant) == variants.end())
        return no_error("the CPU back-end has no such variant", op_key(s));
    return Done{};
}

double bytes_of(const std::vector<Index>& counts) {
    double sum = 0;
    for (const Index c : counts) sum += Region::cost(c);
    return sum;
}

class CpuBackend final : public Backend {
  public:
    explicit CpuBackend(int threads) : threads_(threads), facts_(cpu_facts()) {
        cpu::set_gemm_threads(threads_);
    }
    Device device() const override { return cpu_device(facts_, threads_); }
    Result<std::unique_ptr<Operator>> prepare(const OpShape& shape) override;

  private:
    Result<std::unique_ptr<Operator>> prepare_layer(const OpShape& shape, double budget);
    int threads_;
    CpuFacts facts_;
    Region inputs_{Region::Fill::uniform}, outputs_{Region::Fill::uniform};
};

/// As many layers as fill twice the cache, run in turn.
Result<std::unique_ptr<Operator>> CpuBackend::prepare_layer(const OpShape& shape, double budget) {
    const double bytes = cpu::stack_shape(shape).bytes();
    const double wanted = 2 * static_cast<double>(facts_.cache_bytes) / bytes + 1;
    const auto sets = static_cast<Index>(std::clamp(std::min(wanted, budget / bytes), 1.0, 256.0));
    const auto too_large = no_error(
        "needs " + human_bytes(bytes) + " of memory, " + human_bytes(budget) + " may be used",
        op_key(shape));
    if (bytes > budget) return too_large;
    try {
        return std::unique_ptr<Operator>(
            std::make_unique<CpuOperator>(cpu::layer_bodies(shape, sets, threads_)));
    } catch (const std::bad_alloc&) {
        return too_large;
    }
}

Result<std::unique_ptr<Operator>> CpuBackend::prepare(const OpShape& shape) {
    if (auto s = check_shape(shape); !s) return s.error();
    const double budget = static_cast<double>(cpu::available_memory()) / 2;
    const auto too_large = [&](double bytes) {
        return no_error(
            "needs " + human_bytes(bytes) + " of memory, " + human_bytes(budget) + " may be used",
            op_key(shape));
    };
    // op_bytes is a double: it comes before element counts that could overflow
    if (op_bytes(shape) > budget) return too_large(op_bytes(shape));
    if (shape.kind == OpKind::layer) return prepare_layer(shape, budget);
    Recipe recipe;
    try {
        recipe = recipe_for(shape, threads_);
    } catch (const std::exception& error) {  // the library has no such primitive
        return no_error(error.what(), op_key(shape));
    }
    const double in = bytes_of(recipe.needs.inputs), out = bytes_of(recipe.needs.outputs);
    if (in + out > budget) return too_large(in + out);
    const double wanted = 2 * static_cast<double>(facts_.cache_bytes);
    const auto sets = static_cast<std::size_t>(std::clamp(wanted / (in + out) + 1, 1.0, 4096.0));
    try {
        inputs_.reset(static_cast<std::size_t>(in) * sets);
        outputs_.reset(static_cast<std::size_t>(out) * sets);
    } catch (const std::bad_alloc&) {
        return too_large((in + out) * static_cast<double>(sets));
    }
    std::vector<Body> bodies;
    for (std::size_t i = 0; i < sets; ++i) {
        Buffers b;
        for (const Index n : recipe.needs.inputs)
            b.in.push_back(inputs_.take(static_cast<std::size_t>(n)));
        for (const Index n : recipe.needs.outputs)
            b.out.push_back(outputs_.take(static_cast<std::size_t>(n)));
        bodies.push_back(recipe.make(b));
    }
    return std::unique_ptr<Operator>(std::make_unique<CpuOperator>(std::move(bodies)));
}

}  // namespace

Result<std::unique_ptr<Backend>> make_cpu_backend(std::int64_t threads) {
    if (!cpu::have_gemm())
        return environment_error(
            "this build has neither OpenBLAS nor oneDNN: it cannot measure GEMMs on a CPU");
    const std::int64_t allowed = allowed_cpus();
    const std::int64_t use = threads > 0 ? std::min(threads, allowed) : allowed;
    return std::unique_ptr<Backend>(std::make_unique<CpuBackend>(static_cast<int>(use)));
}

}  // namespace arena
