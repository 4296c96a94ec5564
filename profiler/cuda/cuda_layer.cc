// SPDX-License-Identifier: GPL-2.0-or-later
// See cuda_layer.h. A gated MLP's first GEMM leaves all gates, then all values: what it takes to
// read them does not depend on that.
#include "profiler/cuda/cuda_layer.h"

#include <array>
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "profiler/cuda/cuda_gemm.h"

namespace arena::cuda {
namespace {

/// A buffer of the layer, or what lies so many elements behind its beginning.
struct BufferRef {
    std::size_t buffer = 0;
    Index offset = 0;
};

struct Step {
    Recipe recipe;
    std::vector<BufferRef> operands;
};

/// Where the layer's inputs and results lie.
struct LayerBuffers {
    std::size_t x = 0, y = 0, dy = 0, dx = 0;
    std::size_t gamma1 = 0, beta1 = 0, qkv = 0, out = 0, out_bias = 0, gamma2 = 0, beta2 = 0,
                up = 0, down = 0, down_bias = 0;
    std::size_t d_qkv = 0, d_out = 0, d_up = 0, d_down = 0;  ///< gradients of the matrices
};

class LayerBuilder {
  public:
    LayerBuilder(const OpShape& layer, const LayerVariant& variant, const LayerParts& parts)
        : layer_(layer),
          v_(variant),
          parts_(parts),
          tokens_(layer.dims[0] * layer.dims[1]),
          rows_(tokens_ / variant.sequence_ranks),
          hidden_(layer.dims[2]),
          ffn_(layer.dims[3]),
          q_(variant.heads * variant.head_dim),
          kv_(variant.kv_heads * variant.head_dim) {}

    Result<Recipe> build() {
        if (auto made = attention_parts(); !made) return made.error();
        const bool is_backward = layer_.pass == Pass::backward;
        make_buffers();
        if (is_backward) make_backward_buffers();
        forward();
        std::vector<Step> once = is_backward ? std::exchange(steps_, {}) : std::vector<Step>();
        if (is_backward) backward();
        const Index width = parts_.stream.type == Type::f32 ? 4 : 2;
        const auto bodies_of = [width](const std::vector<Step>& steps, const Buffers& b) {
            std::vector<Body> bodies;
            for (const Step& step : steps) {
                Buffers arguments;
                for (const BufferRef& p : step.operands)
                    arguments.push_back(static_cast<std::byte*>(b[p.buffer]) + width * p.offset);
                bodies.push_back(step.recipe.make(arguments));
            }
            return bodies;
        };
        return Recipe{needs_, [bodies_of, once, steps = steps_](const Buffers& b) -> Body {
                          for (const Body& body : bodies_of(once, b)) body();
                          return [bodies = bodies_of(steps, b)] {
                              for (const Body& body : bodies) body();
                          };
                      }};
    }

  private:
    using Dims = std::array<std::int64_t, 4>;

    std::size_t buffer(const Need& need) {
        needs_.push_back(need);
        return needs_.size() - 1;
    }
    void step(Recipe recipe, std::vector<BufferRef> operands) {
        steps_.push_back({std::move(recipe), std::move(operands)});
    }
    void op(OpKind kind, Pass pass, const Dims& dims, const OpVariant& variant,
            std::vector<BufferRef> operands) {
        step(parts_.operator_of({kind, pass, layer_.precision, dims, variant}),
             std::move(operands));
    }

    OpShape attention(Pass pass) const {
        return {
            OpKind::attention,
            pass,
            layer_.precision,
            {layer_.dims[0] * v_.heads, layer_.dims[0] * v_.kv_heads, layer_.dims[1], v_.head_dim},
            AttentionVariant{.is_causal = v_.is_causal}};
    }

    Status attention_parts() {
        OpShape forward = layer_;
        forward.pass = Pass::forward;
        auto rows = parts_.attention_in_rows(forward);
        if (rows && layer_.pass == Pass::backward) {
            auto back = parts_.attention_in_rows(layer_);
            if (!back) return back.error();
            rows_backward_ = std::move(back).value();
        }
        if (rows) {
            rows_forward_ = std::move(rows).value();
            is_in_rows_ = true;
            return Done{};
        }
        if (parts_.is_fused(attention(Pass::forward))) return rows.error();
        return Done{};
    }

    void make_buffers() {
        const Index up = v_.is_gated ? 2 * ffn_ : ffn_;
        at_.x = buffer(element(tokens_ * hidden_));
        at_.gamma1 = buffer(element(hidden_));
        at_.beta1 = buffer(element(hidden_));
        at_.qkv = buffer(element((q_ + 2 * kv_) * hidden_));
        at_.out = buffer(element(hidden_ * q_));
        at_.out_bias = buffer(element(hidden_));
        at_.gamma2 = buffer(element(hidden_));
        at_.beta2 = buffer(element(hidden_));
        at_.up = buffer(element(up * hidden_));
        at_.down = buffer(element(hidden_ * ffn_));
        at_.down_bias = buffer(element(hidden_));
        norm1_ = buffer(element(tokens_ * hidden_));
        norm2_ = buffer(element(tokens_ * hidden_));
        saved1_ = buffer(number(2 * rows_));
        saved2_ = buffer(number(2 * rows_));
        projected_ = buffer(element(tokens_ * (q_ + 2 * kv_)));
        context_ = buffer(element(tokens_ * q_));
        statistics_ = buffer(number(layer_.dims[0] * v_.heads * layer_.dims[1]));
        branch_ = buffer(element(tokens_ * hidden_));
        x1_ = buffer(element(tokens_ * hidden_));
        up_ = buffer(element(tokens_ * up));
        act_ = buffer(element(tokens_ * ffn_));
        at_.y = buffer(element(tokens_ * hidden_));
        if (!is_in_rows_) make_heads(heads_);
    }

    /// Dense heads, where attention does not read the rows themselves.
    struct Heads {
        std::size_t q = 0, k = 0, v = 0, o = 0;
    };
    void make_heads(Heads& h) {
        h.q = buffer(element(tokens_ * q_));
        h.k = buffer(element(tokens_ * kv_));
        h.v = buffer(element(tokens_ * kv_));
        h.o = buffer(element(tokens_ * q_));
        if (&h == &heads_) scores_ = buffer(element(score_count()));
    }
    Index score_count() const {
        return layer_.dims[0] * v_.heads * layer_.dims[1] * layer_.dims[1];
    }

    void norm(std::size_t x, std::size_t gamma, std::size_t beta, std::size_t y,
              std::size_t saved) {
        op(OpKind::norm, Pass::forward, {rows_, hidden_},
           v_.is_rms ? NormKind::rms : NormKind::layer, {{x}, {gamma}, {beta}, {y}, {saved}});
    }
    /// Y[tokens, n] = X[tokens, k] W'.
    void product(std::size_t x, std::size_t w, std::size_t y, Index n, Index k) {
        op(OpKind::gemm, Pass::forward, {tokens_, n, k, 1}, {}, {{x}, {w}, {y}});
    }
    void product_gradients(std::size_t dy, std::size_t x, std::size_t w, std::size_t dx,
                           std::size_t dw, Index n, Index k) {
        op(OpKind::gemm, Pass::backward, {tokens_, k, n, 1}, Gradient::data, {{dy}, {w}, {dx}});
        op(OpKind::gemm, Pass::backward, {n, k, tokens_, 1}, Gradient::weights, {{dy}, {x}, {dw}});
    }
    void residual(std::size_t bias, std::size_t x, std::size_t y) {
        if (v_.has_bias)
            op(OpKind::elementwise, Pass::forward, {rows_, hidden_}, ElementwiseKind::bias_residual,
               {{branch_}, {bias}, {x}, {y}});
        else
            add(branch_, x, y);
    }
    void add(std::size_t a, std::size_t b, std::size_t y) {
        op(OpKind::elementwise, Pass::forward, {rows_, hidden_}, ElementwiseKind::add,
           {{a}, {b}, {y}});
    }

    /// Heads out of rows of `width` elements, or back into them.
    void copy_heads(std::size_t rows, Index width, Index offset, Index heads, std::size_t dense,
                    bool to_rows) {
        const HeadCopy c{.samples = layer_.dims[0],
                         .heads = heads,
                         .seq = layer_.dims[1],
                         .d = v_.head_dim,
                         .width = width,
                         .offset = offset};
        const Stream s = parts_.stream;
        step({{},
              [=](const Buffers& b) -> Body {
                  return [=] { cuda::copy_heads(s, c, b[0], b[1], to_rows); };
              }},
             {{rows}, {dense}});
    }
    void copy_projections(const Heads& h, std::size_t rows, bool to_rows) {
        const Index width = q_ + 2 * kv_;
        copy_heads(rows, width, 0, v_.heads, h.q, to_rows);
        copy_heads(rows, width, q_, v_.kv_heads, h.k, to_rows);
        copy_heads(rows, width, q_ + kv_, v_.kv_heads, h.v, to_rows);
    }

    void attend() {
        if (is_in_rows_) return step(rows_forward_, {{projected_}, {context_}, {statistics_}});
        copy_projections(heads_, projected_, false);
        step(parts_.unfused_attention(attention(Pass::forward)),
             {{heads_.q}, {heads_.k}, {heads_.v}, {scores_}, {heads_.o}});
        copy_heads(context_, q_, 0, v_.heads, heads_.o, true);
    }

    void forward() {
        norm(at_.x, at_.gamma1, at_.beta1, norm1_, saved1_);
        product(norm1_, at_.qkv, projected_, q_ + 2 * kv_, hidden_);
        attend();
        product(context_, at_.out, branch_, hidden_, q_);
        residual(at_.out_bias, at_.x, x1_);
        norm(x1_, at_.gamma2, at_.beta2, norm2_, saved2_);
        product(norm2_, at_.up, up_, v_.is_gated ? 2 * ffn_ : ffn_, hidden_);
        const BufferRef values{up_, tokens_ * ffn_};
        if (v_.is_gated)
            op(OpKind::elementwise, Pass::forward, {tokens_, ffn_}, ElementwiseKind::swiglu,
               {{up_}, values, {act_}});
        else
            op(OpKind::elementwise, Pass::forward, {tokens_, ffn_}, ElementwiseKind::gelu,
               {{up_}, {act_}});
        product(act_, at_.down, branch_, hidden_, ffn_);
        residual(at_.down_bias, x1_, at_.y);
    }

    /// The gradient that enters a branch: dy itself, or its copy beside the sums for the bias.
    std::size_t branch_gradient(std::size_t dy) {
        if (!v_.has_bias) return dy;
        op(OpKind::elementwise, Pass::backward, {rows_, hidden_}, ElementwiseKind::bias_residual,
           {{dy}, {d_branch_}, {d_bias_}});
        return d_branch_;
    }
    void norm_gradient(std::size_t x, std::size_t gamma, std::size_t saved) {
        op(OpKind::norm, Pass::backward, {rows_, hidden_},
           v_.is_rms ? NormKind::rms : NormKind::layer,
           {{x}, {gamma}, {branch_}, {d_norm_}, {saved}, {d_gamma_}, {d_beta_}});
    }

    void attend_backward() {
        if (is_in_rows_)
            return step(
                rows_backward_,
                {{projected_}, {context_}, {statistics_}, {d_context_}, {d_projected_}, {sums_}});
        copy_heads(d_context_, q_, 0, v_.heads, d_heads_.o, false);
        step(parts_.unfused_attention(attention(Pass::backward)), {{heads_.q},
                                                                   {heads_.k},
                                                                   {heads_.v},
                                                                   {scores_},
                                                                   {d_heads_.o},
                                                                   {d_scores_},
                                                                   {d_heads_.q},
                                                                   {d_heads_.k},
                                                                   {d_heads_.v}});
        copy_projections(d_heads_, d_projected_, true);
    }

    void make_backward_buffers() {
        at_.dy = buffer(element(tokens_ * hidden_));
        at_.dx = buffer(element(tokens_ * hidden_));
        d_branch_ = buffer(element(tokens_ * hidden_));
        d_norm_ = buffer(element(tokens_ * hidden_));
        d_x1_ = buffer(element(tokens_ * hidden_));
        d_act_ = buffer(element(tokens_ * ffn_));
        d_up_ = buffer(element(needs_[up_].count));
        d_context_ = buffer(element(tokens_ * q_));
        d_projected_ = buffer(element(needs_[projected_].count));
        for (auto [gradient, weight] : {std::pair(&at_.d_qkv, at_.qkv),
                                        {&at_.d_out, at_.out},
                                        {&at_.d_up, at_.up},
                                        {&at_.d_down, at_.down}})
            *gradient = buffer(element(needs_[weight].count));
        for (std::size_t* sums : {&d_bias_, &d_gamma_, &d_beta_}) *sums = buffer(number(hidden_));
        if (is_in_rows_) {
            sums_ = buffer(rows_backward_.needs.back());
        } else {
            make_heads(d_heads_);
            d_scores_ = buffer(element(score_count()));
        }
    }

    void backward() {
        std::size_t d = branch_gradient(at_.dy);
        product_gradients(d, act_, at_.down, d_act_, at_.d_down, hidden_, ffn_);
        const BufferRef values{up_, tokens_ * ffn_}, d_values{d_up_, tokens_ * ffn_};
        if (v_.is_gated)
            op(OpKind::elementwise, Pass::backward, {tokens_, ffn_}, ElementwiseKind::swiglu,
               {{up_}, values, {d_act_}, {d_up_}, d_values});
        else
            op(OpKind::elementwise, Pass::backward, {tokens_, ffn_}, ElementwiseKind::gelu,
               {{up_}, {d_act_}, {d_up_}});
        product_gradients(d_up_, norm2_, at_.up, branch_, at_.d_up, v_.is_gated ? 2 * ffn_ : ffn_,
                          hidden_);
        norm_gradient(x1_, at_.gamma2, saved2_);
        add(at_.dy, d_norm_, d_x1_);
        d = branch_gradient(d_x1_);
        product_gradients(d, context_, at_.out, d_context_, at_.d_out, hidden_, q_);
        attend_backward();
        product_gradients(d_projected_, norm1_, at_.qkv, branch_, at_.d_qkv, q_ + 2 * kv_, hidden_);
        norm_gradient(at_.x, at_.gamma1, saved1_);
        add(d_x1_, d_norm_, at_.dx);
    }

    const OpShape& layer_;
    const LayerVariant& v_;
    const LayerParts& parts_;
    Index tokens_, rows_, hidden_, ffn_, q_, kv_;
    bool is_in_rows_ = false;
    Recipe rows_forward_, rows_backward_;
    std::vector<Need> needs_;
    std::vector<Step> steps_;
    LayerBuffers at_;
    Heads heads_, d_heads_;
    std::size_t norm1_ = 0, norm2_ = 0, saved1_ = 0, saved2_ = 0, projected_ = 0, context_ = 0,
                statistics_ = 0, branch_ = 0, x1_ = 0, up_ = 0, act_ = 0, scores_ = 0;
    std::size_t d_branch_ = 0, d_norm_ = 0, d_x1_ = 0, d_act_ = 0, d_up_ = 0, d_context_ = 0,
                d_projected_ = 0, d_bias_ = 0, d_gamma_ = 0, d_beta_ = 0, sums_ = 0, d_scores_ = 0;
};

}  // namespace

Result<Recipe> layer_recipe(const OpShape& layer, const LayerParts& parts) {
    const auto* variant = std::get_if<LayerVariant>(&layer.variant);
    if (!variant) return no_error("the CUDA back-end has no such variant", op_key(layer));
    return LayerBuilder(layer, *variant, parts).build();
}

namespace {

/// What body does, as a graph. Throws Unsupported where something in it cannot be captured.
cudaGraph_t captured(cudaStream_t stream, const Body& body) {
    // Libraries allocate and load kernels on a first call, which a capture does not allow.
    body();
    check(cudaStreamSynchronize(stream), "run a layer before its graph");
    cudaGraph_t graph = nullptr;
    std::string why;
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "begin a graph");
    try {
        body();
    } catch (const std::runtime_error& error) {
        why = error.what();
    }
    const cudaError_t ended = cudaStreamEndCapture(stream, &graph);
    if (why.empty() && ended == cudaSuccess) return graph;
    if (graph != nullptr) cudaGraphDestroy(graph);
    cudaGetLastError();  // a capture that failed is not to be the next call's error
    throw Unsupported("cannot be captured as a graph: " +
                      (why.empty() ? cudaGetErrorString(ended) : why));
}

}  // namespace

Body as_graph_launch(cudaStream_t stream, const Body& body) {
    cudaGraph_t graph = captured(stream, body);
    cudaGraphExec_t executable = nullptr;
    const cudaError_t made = cudaGraphInstantiate(&executable, graph, 0);
    cudaGraphDestroy(graph);
    if (made != cudaSuccess) {
        cudaGetLastError();
        throw Unsupported(std::string("cannot be made a graph: ") + cudaGetErrorString(made));
    }
    const std::shared_ptr<CUgraphExec_st> owner(executable,
                                                [](cudaGraphExec_t e) { cudaGraphExecDestroy(e); });
    // the graph's kernels use the memory that the body owns
    return [stream, owner, body] { check(cudaGraphLaunch(owner.get(), stream), "launch a graph"); };
}

}  // namespace arena::cuda
