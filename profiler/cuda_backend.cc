// SPDX-License-Identifier: GPL-2.0-or-later
// CUDA back-end: GEMMs by cuBLASLt, attention and convolutions by cuDNN (attention unfused, as
// batched GEMM, softmax, batched GEMM, where cuDNN has no engine), everything else by
// cuda_kernels.cu. Buffer sets rotate through more than twice the L2 cache; times come from events
// around all executions of one call.
#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "core/text.h"
#include "profiler/cuda_gemm.h"
#include "profiler/cuda_identity.h"
#include "profiler/cuda_kernels.h"
#include "profiler/cuda_layer.h"
#include "profiler/cuda_recipe.h"
#include "profiler/cudnn_recipes.h"
#include "profiler/nvml.h"
#include "profiler/operator.h"
#include "profiler/request.h"
#include "profiler/topology.h"

namespace arena {
namespace {

using cuda::Body;
using cuda::Buffers;
using cuda::check;
using cuda::element;
using cuda::f32;
using cuda::fp8;
using cuda::Gemm;
using cuda::i32;
using cuda::ids;
using cuda::Index;
using cuda::Layout;
using cuda::Need;
using cuda::number;
using cuda::Recipe;
using cuda::Stream;

constexpr std::size_t workspace_bytes = 32U << 20;

/// Everything that must live as long as the device is used.
struct Context {
    cudaDeviceProp properties{};
    cudaStream_t stream = nullptr;
    cublasLtHandle_t blas = nullptr;
    std::unique_ptr<cuda::Cudnn> dnn;
    void* workspace = nullptr;
    cudaEvent_t begin = nullptr, end = nullptr;
    std::byte* pool = nullptr;
    std::size_t pool_bytes = 0;
    bool has_told_unfused = false;

    void open() {
        check(cudaSetDevice(0), "select device");
        check(cudaGetDeviceProperties(&properties, 0), "device properties");
        check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
        check(cudaMalloc(&workspace, workspace_bytes), "workspace");
        check(cudaEventCreate(&begin), "event");
        check(cudaEventCreate(&end), "event");
        check(cublasLtCreate(&blas), "handle");
        dnn = std::make_unique<cuda::Cudnn>(stream);
    }
    Context() = default;
    Context(const Context&) = delete;
    Context& operator=(const Context&) = delete;
    ~Context() {
        dnn.reset();
        cudaFree(pool);
        cudaFree(workspace);
        if (blas != nullptr) cublasLtDestroy(blas);
        if (begin != nullptr) cudaEventDestroy(begin);
        if (end != nullptr) cudaEventDestroy(end);
        if (stream != nullptr) cudaStreamDestroy(stream);
    }
    /// Device memory of at least this size, free of other uses.
    std::byte* reserve(std::size_t bytes) {
        if (bytes <= pool_bytes) return pool;
        check(cudaStreamSynchronize(stream), "synchronise");
        cudaFree(pool);
        pool = nullptr;
        pool_bytes = 0;
        check(cudaMalloc(reinterpret_cast<void**>(&pool), bytes), "buffers");
        pool_bytes = bytes;
        return pool;
    }
};

class CudaOperator final : public Operator {
  public:
    CudaOperator(Context& context, std::vector<Body> sets)
        : context_(context), sets_(std::move(sets)) {}
    double execute(std::int64_t times) override {
        check(cudaEventRecord(context_.begin, context_.stream), "record");
        for (std::int64_t i = 0; i < times; ++i) {
            sets_[next_]();
            if (++next_ == sets_.size()) next_ = 0;
        }
        check(cudaEventRecord(context_.end, context_.stream), "record");
        check(cudaGetLastError(), "launch");
        check(cudaEventSynchronize(context_.end), "execute");
        float ms = 0;
        check(cudaEventElapsedTime(&ms, context_.begin, context_.end), "elapsed");
        return static_cast<double>(ms) / 1000;
    }

  private:
    Context& context_;
    std::vector<Body> sets_;
    std::size_t next_ = 0;
};

/// Element type of what is not a GEMM: fp8 models keep bf16 there.
cuda::Type element_type(Precision p) {
    switch (p) {
        case Precision::fp32:
        case Precision::tf32:
            return cuda::Type::f32;
        case Precision::fp16:
            return cuda::Type::f16;
        case Precision::bf16:
        case Precision::fp8:
        case Precision::mxfp8:
        case Precision::nvfp4:
            return cuda::Type::bf16;
    }
    return cuda::Type::f32;
}

class Recipes {
  public:
    Recipes(Context& context, const OpShape& shape)
        : context_(context),
          shape_(shape),
          stream_{context.stream, element_type(shape.precision)} {}

    Result<Recipe> make() const {
        switch (shape_.kind) {
            case OpKind::gemm:
                return gemm();
            case OpKind::attention:
                return attention();
            case OpKind::norm:
                return norm();
            case OpKind::elementwise:
                return elementwise();
            case OpKind::embedding:
                return embedding();
            case OpKind::cross_entropy:
                return cross_entropy();
            case OpKind::optimizer:
                return optimizer();
            case OpKind::conv:
                return context_.dnn->convolution(shape_);
            case OpKind::layer:
                return layer();
            case OpKind::custom:
                break;  // refused by check_shape()
        }
        return no_error("the CUDA back-end has no such operator", op_key(shape_));
    }

  private:
    bool forward() const { return shape_.pass == Pass::forward; }
    std::shared_ptr<Gemm> problem(Layout layout, Index m, Index n, Index k, Index batch,
                                  Precision p) const {
        return std::make_shared<Gemm>(context_.blas, cuda::Problem{layout, m, n, k, batch, p},
                                      context_.workspace, workspace_bytes);
    }

    Recipe gemm() const {
        const auto [m, n, k, batch] = shape_.dims;
        const auto layout = shape_.variant == "dgrad"   ? Layout::nn
                            : shape_.variant == "wgrad" ? Layout::tn
                                                        : Layout::nt;
        const auto g = problem(layout, m, n, k, batch, shape_.precision);
        const Stream s = stream_;
        const auto operand = shape_.precision == Precision::fp8 ? fp8 : element;
        return {{operand(m * k * batch), operand(k * n * batch), element(m * n * batch)},
                [=](const Buffers& b) {
                    g->tune(s.handle, b[0], b[1], b[2]);  // by the first set; then it is settled
                    return [=] { g->run(s.handle, b[0], b[1], b[2]); };
                }};
    }

    /// Fused where cuDNN has an engine, which is what frameworks run then; unfused where it has
    /// none.
    Recipe attention() const {
        auto fused = context_.dnn->attention(shape_, attention_precision());
        if (fused) return std::move(fused).value();
        if (!std::exchange(context_.has_told_unfused, true))
            std::fprintf(stderr, "arena-profiler: attention is measured unfused, first for %s\n",
                         fused.error().message().c_str());
        return forward() ? attention_forward() : attention_backward();
    }

    /// Query heads that share a key/value head lie together: one problem of group * seq rows for
    /// each.
    Recipe attention_forward() const {
        const Index heads = shape_.dims[0], kv = shape_.dims[1], seq = shape_.dims[2],
                    d = shape_.dims[3];
        const Index rows = heads / kv * seq;
        const auto type = attention_precision();
        const auto scores = problem(Layout::nt, rows, seq, d, kv, type),
                   values = problem(Layout::nn, rows, d, seq, kv, type);
        const Stream s = stream_;
        const float scale = 1 / std::sqrt(static_cast<float>(d));
        const bool causal = shape_.variant == "causal";
        return {{element(heads * seq * d), element(kv * seq * d), element(kv * seq * d),
                 element(heads * seq * seq), element(heads * seq * d)},
                [=](const Buffers& b) {
                    return [=] {
                        scores->run(s.handle, b[0], b[1], b[3]);
                        cuda::softmax_forward(s, heads * seq, seq, scale, causal, b[3]);
                        values->run(s.handle, b[3], b[2], b[4]);
                    };
                }};
    }

    /// From saved probabilities: dV = P' dO, dP = dO V', dS, dQ = dS K, dK = dS' Q.
    Recipe attention_backward() const {
        const Index heads = shape_.dims[0], kv = shape_.dims[1], seq = shape_.dims[2],
                    d = shape_.dims[3];
        const Index rows = heads / kv * seq, q = heads * seq * d, k = kv * seq * d,
                    p = heads * seq * seq;
        const auto type = attention_precision();
        const auto scores = problem(Layout::nt, rows, seq, d, kv, type),
                   dv = problem(Layout::tn, seq, d, rows, kv, type);
        const auto dq = problem(Layout::nn, rows, d, seq, kv, type);
        const Stream s = stream_;
        const float scale = 1 / std::sqrt(static_cast<float>(d));
        const bool causal = shape_.variant == "causal";
        // 0 q, 1 k, 2 v, 3 p, 4 dO, 5 dp, 6 dq, 7 dk, 8 dv
        return {{element(q), element(k), element(k), element(p), element(q), element(p), element(q),
                 element(k), element(k)},
                [=](const Buffers& b) {
                    scores->run(s.handle, b[0], b[1], b[3]);
                    cuda::softmax_forward(s, heads * seq, seq, scale, causal, b[3]);
                    return [=] {
                        dv->run(s.handle, b[3], b[4], b[8]);
                        scores->run(s.handle, b[4], b[2], b[5]);
                        cuda::softmax_backward(s, heads * seq, seq, scale, b[3], b[5]);
                        dq->run(s.handle, b[5], b[1], b[6]);
                        dv->run(s.handle, b[5], b[0], b[7]);
                    };
                }};
    }

    /// Its operators one after the other; of each its own recipe.
    Result<Recipe> layer() const {
        const auto unfused = [this](const OpShape& op) {
            const Recipes recipes(context_, op);
            return op.pass == Pass::forward ? recipes.attention_forward()
                                            : recipes.attention_backward();
        };
        return cuda::layer_recipe(
            shape_,
            {stream_, [this](const OpShape& op) { return Recipes(context_, op).make().value(); },
             unfused, [this](const OpShape& op) { return context_.dnn->attention_in_rows(op); },
             [this](const OpShape& op) { return context_.dnn->attention(op, op.precision).ok(); }});
    }

    Precision attention_precision() const {
        return shape_.precision == Precision::fp8 ? Precision::bf16 : shape_.precision;
    }

    Recipe norm() const {
        const Index rows = shape_.dims[0], cols = shape_.dims[1], n = rows * cols;
        const bool rms = shape_.variant == "rms";
        const Stream s = stream_;
        if (forward())
            return {{element(n), element(cols), element(cols), element(n), number(2 * rows)},
                    [=](const Buffers& b) {
                        return [=] {
                            cuda::norm_forward(s, rows, cols, rms, 1e-5F, b[0], b[1], b[2], b[3],
                                               f32(b[4]));
                        };
                    }};
        return {{element(n), element(cols), element(n), element(n), number(2 * rows), number(cols),
                 number(cols)},
                [=](const Buffers& b) {
                    cuda::norm_forward(s, rows, cols, rms, 1e-5F, b[0], b[1], b[1], b[3],
                                       f32(b[4]));
                    return [=] {
                        cuda::norm_backward(s, rows, cols, rms, b[0], b[1], f32(b[4]), b[2], b[3],
                                            f32(b[5]), f32(b[6]));
                    };
                }};
    }

    Recipe elementwise() const {
        const Index rows = shape_.dims[0], cols = shape_.dims[1], n = rows * cols;
        const Stream s = stream_;
        const auto all = [n](std::size_t count) { return std::vector<Need>(count, element(n)); };
        const std::string& v = shape_.variant;
        if (v == "gelu" && forward())
            return {all(2), [=](const Buffers& b) {
                        return [=] { cuda::gelu_forward(s, n, b[0], b[1]); };
                    }};
        if (v == "gelu")
            return {all(3), [=](const Buffers& b) {
                        return [=] { cuda::gelu_backward(s, n, b[0], b[1], b[2]); };
                    }};
        if (v == "swiglu" && forward())
            return {all(3), [=](const Buffers& b) {
                        return [=] { cuda::swiglu_forward(s, n, b[0], b[1], b[2]); };
                    }};
        if (v == "swiglu")
            return {all(5), [=](const Buffers& b) {
                        return [=] { cuda::swiglu_backward(s, n, b[0], b[1], b[2], b[3], b[4]); };
                    }};
        if (v == "add")
            return {all(3),
                    [=](const Buffers& b) { return [=] { cuda::add(s, n, b[0], b[1], b[2]); }; }};
        if (forward())
            return {{element(n), element(cols), element(n), element(n)}, [=](const Buffers& b) {
                        return [=] {
                            cuda::bias_residual_forward(s, rows, cols, b[0], b[1], b[2], b[3]);
                        };
                    }};
        return {{element(n), element(n), number(cols)}, [=](const Buffers& b) {
                    return
                        [=] { cuda::bias_residual_backward(s, rows, cols, b[0], b[1], f32(b[2])); };
                }};
    }

    Recipe embedding() const {
        const Index tokens = shape_.dims[0], hidden = shape_.dims[1], vocab = shape_.dims[2];
        const Stream s = stream_;
        if (forward())
            return {{element(vocab * hidden), element(tokens * hidden), ids(tokens, vocab)},
                    [=](const Buffers& b) {
                        return [=] {
                            cuda::embedding_forward(s, tokens, hidden, i32(b[2]), b[0], b[1]);
                        };
                    }};
        return {{element(tokens * hidden), number(vocab * hidden, 0), ids(tokens, vocab)},
                [=](const Buffers& b) {
                    return [=] {
                        cuda::embedding_backward(s, tokens, hidden, i32(b[2]), b[0], f32(b[1]));
                    };
                }};
    }

    Recipe cross_entropy() const {
        const Index rows = shape_.dims[0], cols = shape_.dims[1];
        const Stream s = stream_;
        if (forward())
            return {{element(rows * cols), ids(rows, cols), number(rows), number(rows)},
                    [=](const Buffers& b) {
                        return [=] {
                            cuda::cross_entropy_forward(s, rows, cols, b[0], i32(b[1]), f32(b[2]),
                                                        f32(b[3]));
                        };
                    }};
        return {{element(rows * cols), ids(rows, cols), number(rows), number(rows),
                 element(rows * cols)},
                [=](const Buffers& b) {
                    cuda::cross_entropy_forward(s, rows, cols, b[0], i32(b[1]), f32(b[2]),
                                                f32(b[3]));
                    return [=] {
                        cuda::cross_entropy_backward(s, rows, cols, b[0], i32(b[1]), f32(b[3]),
                                                     1.0F / static_cast<float>(rows), b[4]);
                    };
                }};
    }

    Recipe optimizer() const {
        const Index n = shape_.dims[0];
        const bool copy = stream_.type != cuda::Type::f32;
        const Stream s = stream_;
        return {{number(n), element(n), number(n, 0.01F), number(n, 0.01F), element(copy ? n : 1)},
                [=](const Buffers& b) {
                    return [=] {
                        cuda::adamw(s, n, 1, f32(b[0]), b[1], f32(b[2]), f32(b[3]),
                                    copy ? b[4] : nullptr);
                    };
                }};
    }

    Context& context_;
    const OpShape& shape_;
    Stream stream_;
};

std::size_t element_size(const Need& need, Precision p) {
    if (need.kind == Need::Kind::fp8) return 1;
    if (need.kind != Need::Kind::element) return 4;
    return p == Precision::fp8 ? 2 : static_cast<std::size_t>(element_bytes(p));
}

double padded(const Need& need, const OpShape& s) {
    return static_cast<double>(need.count) * static_cast<double>(element_size(need, s.precision)) +
           512;
}

Status check_layer(const OpShape& s) {
    if (s.precision == Precision::fp8)
        return no_error("layers in fp8 are not measured whole: casts lie between their operators",
                        op_key(s));
    if (!parse_layer_variant(s.variant))
        return no_error("the CUDA back-end has no such variant", op_key(s));
    return Done{};
}

Status check_shape(const OpShape& s, int capability) {
    for (std::size_t i = 0; i < dim_count(s.kind); ++i)
        if (s.dims[i] < 1 || s.dims[i] > (std::int64_t{1} << 31) - 1)
            return no_error("every size must be between 1 and 2147483647", op_key(s));
    if (s.kind == OpKind::custom)
        return no_error("the CUDA back-end has no such operator", op_key(s));
    if (s.kind == OpKind::attention && s.dims[0] % s.dims[1] != 0)
        return no_error("query heads must be a multiple of key/value heads", op_key(s));
    if (s.precision == Precision::mxfp8 || s.precision == Precision::nvfp4)
        return no_error("this build measures no block-scaled precision", op_key(s));
    if (s.precision == Precision::fp8 && capability < 89)
        return no_error("this GPU has no fp8 (compute capability below 8.9)", op_key(s));
    if (s.kind == OpKind::conv) return Done{};  // cuDNN says what it has
    if (s.kind == OpKind::layer) return check_layer(s);
    const auto variants = variants_of(s.kind);
    if (std::find(variants.begin(), variants.end(), s.variant) == variants.end())
        return no_error("the CUDA back-end has no such variant", op_key(s));
    return Done{};
}

class CudaBackend final : public Backend {
  public:
    CudaBackend() { context_.open(); }
    Device device() const override {
        const std::size_t v = cublasLtGetVersion();
        Device d;
        d.kind = "cuda";
        d.name = context_.properties.name;
        d.uuid = cuda::uuid_of(context_.properties);
        d.driver = cuda::driver_version();
        d.library = "cuBLASLt " + std::to_string(v / 10000) + "." + std::to_string(v / 100 % 100) +
                    "." + std::to_string(v % 100) + " + arena kernels 2";
        if (const std::string dnn = context_.dnn->version(); !dnn.empty()) d.library += " + " + dnn;
        d.memory_bytes = static_cast<std::int64_t>(context_.properties.totalGlobalMem);
        d.node = host_name();
        return d;
    }
    DeviceState state() const override {
        const auto nvml = Nvml::open();
        return nvml ? (*nvml)->state(cuda::pci_of(context_.properties)) : DeviceState{};
    }
    GpuPlace place() const override {
        const auto topology = read_topology();
        return topology ? place_of(*topology, cuda::pci_of(context_.properties)) : GpuPlace{};
    }
    Result<std::unique_ptr<Operator>> prepare(const OpShape& shape) override;

  private:
    void fill(const Need& need, void* p, const OpShape& shape, std::uint64_t seed);
    Context context_;
};

void CudaBackend::fill(const Need& need, void* p, const OpShape& shape, std::uint64_t seed) {
    const cudaStream_t s = context_.stream;
    if (need.kind == Need::Kind::ids)
        cuda::fill_ids(s, need.count, seed, need.limit, static_cast<std::int32_t*>(p));
    else if (need.kind == Need::Kind::fp8)
        cuda::fill_fp8(s, need.count, seed, p);
    else if (need.kind == Need::Kind::element)
        cuda::fill_uniform({s, element_type(shape.precision)}, need.count, seed, p);
    else if (need.value >= 0)
        cuda::fill_value(s, need.count, need.value, f32(p));
    else
        cuda::fill_uniform({s, cuda::Type::f32}, need.count, seed, p);
}

Result<std::unique_ptr<Operator>> CudaBackend::prepare(const OpShape& shape) try {
    if (auto s = check_shape(shape, context_.properties.major * 10 + context_.properties.minor); !s)
        return s.error();
    std::size_t free_bytes = 0, total = 0;
    check(cudaMemGetInfo(&free_bytes, &total), "memory");
    const double budget = 0.9 * static_cast<double>(free_bytes + context_.pool_bytes);
    const auto too_large = [&](double bytes) {
        return no_error("needs " + human_bytes(bytes) + " of device memory, " +
                            human_bytes(budget) + " may be used",
                        op_key(shape));
    };
    // a double comes before element counts that could overflow
    if (op_bytes(shape) > budget) return too_large(op_bytes(shape));
    const Result<Recipe> made = Recipes(context_, shape).make();
    if (!made) return made.error();
    const Recipe& recipe = *made;
    double bytes = 0;
    for (const auto& need : recipe.needs) bytes += padded(need, shape);
    if (bytes > budget) return too_large(bytes);
    const double wanted = 2.0 * context_.properties.l2CacheSize / bytes + 1;
    const auto sets =
        static_cast<std::size_t>(std::clamp(std::min(wanted, budget / bytes), 1.0, 1024.0));
    std::byte* at = context_.reserve(static_cast<std::size_t>(bytes) * sets + 512);
    std::vector<Body> bodies;
    for (std::size_t i = 0; i < sets; ++i) {
        Buffers buffers;
        for (const auto& need : recipe.needs) {
            buffers.push_back(at);
            fill(need, at, shape, i * 64 + buffers.size());
            at +=
                (static_cast<std::size_t>(need.count) * element_size(need, shape.precision) + 255) /
                256 * 256;
        }
        bodies.push_back(recipe.make(buffers));
        const auto layer = parse_layer_variant(shape.variant);
        if (shape.kind == OpKind::layer && layer->is_graph)
            bodies.back() = cuda::as_graph_launch(context_.stream, bodies.back());
    }
    check(cudaStreamSynchronize(context_.stream), "fill buffers");
    return std::unique_ptr<Operator>(std::make_unique<CudaOperator>(context_, std::move(bodies)));
} catch (const cuda::Unsupported& error) {
    return no_error(error.what(), op_key(shape));
}

}  // namespace

Result<std::unique_ptr<Backend>> make_cuda_backend() {
    int count = 0;
    const cudaError_t e = cudaGetDeviceCount(&count);
    if (e != cudaSuccess || count == 0)
        return environment_error(std::string("no usable GPU: ") + (e != cudaSuccess
                                                                       ? cudaGetErrorString(e)
                                                                       : "CUDA sees no device"));
    char pci[32] = "";
    if (const cudaError_t asked = cudaDeviceGetPCIBusId(pci, sizeof pci, 0); asked != cudaSuccess)
        return environment_error(std::string("no usable GPU: ") + cudaGetErrorString(asked));
    // before a context of ours is there, so that every process in the list is another one
    if (auto s = refuse_busy_gpu(pci); !s) return s.error();
    try {
        return std::unique_ptr<Backend>(std::make_unique<CudaBackend>());
    } catch (const std::runtime_error& error) {
        return environment_error(std::string("no usable GPU: ") + error.what());
    }
}

}  // namespace arena
