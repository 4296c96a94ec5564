// SPDX-License-Identifier: GPL-2.0-or-later
// See cudnn_recipes.h.
#include "profiler/cuda/cudnn_recipes.h"

#include "profiler/cuda/cuda_gemm.h"
#include "profiler/cuda/cudnn_attention.h"

namespace arena::cuda {
namespace {

constexpr std::size_t convolution_workspace = std::size_t{1} << 30;  // what frameworks allow it

/// Device memory that goes with its last user.
std::shared_ptr<void> device_block(std::size_t bytes) {
    if (bytes == 0) return {};
    void* p = nullptr;
    check(cudaMalloc(&p, bytes), "cuDNN's workspace");
    return {p, [](void* block) { cudaFree(block); }};
}

GraphBuilder::Convolution direction_of(const ConvVariant& v) {
    if (v.gradient == Gradient::data) return GraphBuilder::Convolution::data_gradient;
    if (v.gradient == Gradient::weights) return GraphBuilder::Convolution::weight_gradient;
    return GraphBuilder::Convolution::forward;
}

}  // namespace

struct Cudnn::State {
    cudaStream_t stream = nullptr;
    cudnnHandle_t handle = nullptr;
    ~State() {
        if (handle != nullptr) cudnnDestroy(handle);
    }
};

Cudnn::Cudnn(cudaStream_t stream) : state_(std::make_unique<State>()) {
    state_->stream = stream;
    check(cudnnCreate(&state_->handle), "start");
    check(cudnnSetStream(state_->handle, stream), "stream");
}
Cudnn::~Cudnn() = default;

std::string Cudnn::version() const {
    const std::size_t v = cudnnGetVersion();  // 91900 for 9.19.0
    return "cuDNN " + std::to_string(v / 10000) + "." + std::to_string(v / 100 % 100) + "." +
           std::to_string(v % 100);
}

Result<Recipe> Cudnn::attention(const OpShape& op, Precision precision) try {
    const AttentionShape shape{
        op.dims[0], op.dims[1], op.dims[2], op.dims[3], variant_as<AttentionVariant>(op).is_causal,
        precision};
    const bool is_backward = op.pass == Pass::backward;
    const auto flash = std::make_shared<FlashAttention>(state_->handle, shape, is_backward);
    const auto workspace = device_block(flash->workspace_bytes());
    const Index q = shape.heads * shape.seq * shape.d, k = shape.kv_heads * shape.seq * shape.d;
    const cudaStream_t stream = state_->stream;
    // 0 q, 1 k, 2 v, 3 o, 4 stats, 5 dO, 6 dq, 7 dk, 8 dv, 9 the sums of dq
    Recipe recipe{{element(q), element(k), element(k), element(q), number(shape.heads * shape.seq)},
                  {}};
    if (is_backward)
        for (const Need& need : {element(q), element(q), element(k), element(k),
                                 number(flash->accumulator_count(), 0)})
            recipe.needs.push_back(need);
    recipe.make = [=](const Buffers& b) -> Body {
        FlashAttention::Tensors t{.q = b[0], .k = b[1], .v = b[2], .o = b[3], .stats = f32(b[4])};
        if (is_backward) t.d_o = b[5], t.dq = b[6], t.dk = b[7], t.dv = b[8], t.dq_sum = f32(b[9]);
        const auto bound = flash->bind(t, workspace.get());
        if (!is_backward) return [=] { (void)flash, (void)workspace, bound.forward(stream); };
        bound.forward(stream);  // o and the statistics that the backward pass reads
        return [=] { (void)flash, (void)workspace, bound.backward(stream); };
    };
    return recipe;
} catch (const Unsupported& error) {
    return no_error(error.what(), op_key(op));
}

Result<Recipe> Cudnn::attention_in_rows(const OpShape& layer) try {
    const auto* v = std::get_if<LayerVariant>(&layer.variant);
    if (!v) return no_error("the CUDA back-end has no such variant", op_key(layer));
    const AttentionShape shape{.heads = v->heads,
                               .kv_heads = v->kv_heads,
                               .seq = layer.dims[1],
                               .d = v->head_dim,
                               .is_causal = v->is_causal,
                               .precision = layer.precision,
                               .is_in_rows = true,
                               .samples = layer.dims[0]};
    const bool is_backward = layer.pass == Pass::backward;
    const auto flash = std::make_shared<FlashAttention>(state_->handle, shape, is_backward);
    const auto workspace = device_block(flash->workspace_bytes());
    const Index tokens = shape.samples * shape.seq, q = shape.heads * shape.d,
                kv = shape.kv_heads * shape.d;
    const cudaStream_t stream = state_->stream;
    Recipe recipe{{element(tokens * (q + 2 * kv)), element(tokens * q),
                   number(shape.samples * shape.heads * shape.seq)},
                  {}};
    if (is_backward)
        for (const Need& need : {element(tokens * q), element(tokens * (q + 2 * kv)),
                                 number(flash->accumulator_count(), 0)})
            recipe.needs.push_back(need);
    recipe.make = [=](const Buffers& b) -> Body {
        const auto part = [](void* rows, Index elements) {  // fp16 and bf16 only
            return static_cast<void*>(static_cast<std::byte*>(rows) + 2 * elements);
        };
        FlashAttention::Tensors t{
            .q = b[0], .k = part(b[0], q), .v = part(b[0], q + kv), .o = b[1], .stats = f32(b[2])};
        if (is_backward) {
            t.d_o = b[3], t.dq = b[4], t.dk = part(b[4], q), t.dv = part(b[4], q + kv);
            t.dq_sum = f32(b[5]);
        }
        const auto bound = flash->bind(t, workspace.get());
        if (!is_backward) return [=] { (void)flash, (void)workspace, bound.forward(stream); };
        bound.forward(stream);
        return [=] { (void)flash, (void)workspace, bound.backward(stream); };
    };
    return recipe;
} catch (const Unsupported& error) {
    return no_error(error.what(), op_key(layer));
}

Result<Recipe> Cudnn::convolution(const OpShape& op) try {
    const auto* variant = std::get_if<ConvVariant>(&op.variant);
    if (!variant) return no_error("the CUDA back-end has no such variant", op_key(op));
    const ConvolutionProblem p{.direction = direction_of(*variant),
                               .images = op.dims[0],
                               .in_channels = op.dims[1],
                               .out_channels = op.dims[2],
                               .edge = op.dims[3],
                               .kernel = variant->kernel,
                               .stride = variant->stride,
                               .precision = op.precision};
    const auto convolution =
        std::make_shared<ImageConvolution>(state_->handle, p, convolution_workspace);
    const auto workspace = device_block(convolution_workspace);
    return Recipe{{element(p.images * p.in_channels * p.edge_in() * p.edge_in()),
                   element(p.out_channels * p.in_channels * p.kernel * p.kernel),
                   element(p.images * p.out_channels * p.edge * p.edge)},
                  [=](const Buffers& b) -> Body {
                      const auto bound = convolution->bind(b[0], b[1], b[2], workspace.get());
                      return [=] { (void)workspace, convolution->run(*bound); };
                  }};
} catch (const Unsupported& error) {
    return no_error(error.what(), op_key(op));
}

}  // namespace arena::cuda
