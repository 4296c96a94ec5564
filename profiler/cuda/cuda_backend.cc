// SPDX-License-Identifier: GPL-2.0-or-later
// CUDA back-end: runs recipes (cuda_recipes.h). Buffer sets rotate through more than twice the L2
// cache; times come from events around all executions of one call.
#include "profiler/cuda/cuda_backend.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/text.h"
#include "profiler/core/nvml.h"
#include "profiler/core/operator.h"
#include "profiler/core/request.h"
#include "profiler/core/topology.h"
#include "profiler/cuda/cuda_gemm.h"
#include "profiler/cuda/cuda_identity.h"
#include "profiler/cuda/cuda_kernels.h"
#include "profiler/cuda/cuda_layer.h"
#include "profiler/cuda/cuda_recipes.h"

namespace arena {
namespace {

using cuda::Body;
using cuda::Buffers;
using cuda::check;
using cuda::f32;
using cuda::Need;
using cuda::Recipe;
using cuda::workspace_bytes;

/// Everything that must live as long as the device is used.
struct Context {
    cudaDeviceProp properties{};
    cuda::Handles handles;
    std::unique_ptr<cuda::Cudnn> dnn;
    cudaEvent_t begin = nullptr, end = nullptr;
    std::byte* pool = nullptr;
    std::size_t pool_bytes = 0;

    void open(int device) {
        check(cudaSetDevice(device), "select device");
        check(cudaGetDeviceProperties(&properties, device), "device properties");
        check(cudaStreamCreateWithFlags(&handles.stream, cudaStreamNonBlocking), "stream");
        check(cudaMalloc(&handles.workspace, workspace_bytes), "workspace");
        check(cudaEventCreate(&begin), "event");
        check(cudaEventCreate(&end), "event");
        check(cublasLtCreate(&handles.blas), "handle");
        dnn = std::make_unique<cuda::Cudnn>(handles.stream);
        handles.dnn = dnn.get();
    }
    Context() = default;
    Context(const Context&) = delete;
    Context& operator=(const Context&) = delete;
    ~Context() {
        dnn.reset();
        cudaFree(pool);
        cudaFree(handles.workspace);
        if (handles.blas != nullptr) cublasLtDestroy(handles.blas);
        if (begin != nullptr) cudaEventDestroy(begin);
        if (end != nullptr) cudaEventDestroy(end);
        if (handles.stream != nullptr) cudaStreamDestroy(handles.stream);
    }
    /// Device memory of at least this size, free of other uses.
    std::byte* reserve(std::size_t bytes) {
        if (bytes <= pool_bytes) return pool;
        check(cudaStreamSynchronize(handles.stream), "synchronise");
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
        check(cudaEventRecord(context_.begin, context_.handles.stream), "record");
        for (std::int64_t i = 0; i < times; ++i) {
            sets_[next_]();
            if (++next_ == sets_.size()) next_ = 0;
        }
        check(cudaEventRecord(context_.end, context_.handles.stream), "record");
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
    if (!std::holds_alternative<LayerVariant>(s.variant))
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
    explicit CudaBackend(int device) { context_.open(device); }
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
    const cudaStream_t s = context_.handles.stream;
    if (need.kind == Need::Kind::ids)
        cuda::fill_ids(s, need.count, seed, need.limit, static_cast<std::int32_t*>(p));
    else if (need.kind == Need::Kind::fp8)
        cuda::fill_fp8(s, need.count, seed, p);
    else if (need.kind == Need::Kind::element)
        cuda::fill_uniform({s, cuda::element_type(shape.precision)}, need.count, seed, p);
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
    const Result<Recipe> made = cuda::make_recipe(context_.handles, shape);
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
        if (variant_as<LayerVariant>(shape).is_graph)
            bodies.back() = cuda::as_graph_launch(context_.handles.stream, bodies.back());
    }
    check(cudaStreamSynchronize(context_.handles.stream), "fill buffers");
    return std::unique_ptr<Operator>(std::make_unique<CudaOperator>(context_, std::move(bodies)));
} catch (const cuda::Unsupported& error) {
    return no_error(error.what(), op_key(shape));
}

}  // namespace

Result<std::unique_ptr<Backend>> make_cuda_backend(int device) {
    int count = 0;
    const cudaError_t e = cudaGetDeviceCount(&count);
    if (e != cudaSuccess || count == 0)
        return environment_error(std::string("no usable GPU: ") + (e != cudaSuccess
                                                                       ? cudaGetErrorString(e)
                                                                       : "CUDA sees no device"));
    char pci[32] = "";
    if (const cudaError_t asked = cudaDeviceGetPCIBusId(pci, sizeof pci, device);
        asked != cudaSuccess)
        return environment_error(std::string("no usable GPU: ") + cudaGetErrorString(asked));
    // before a context of ours is there, so that every process in the list is another one
    if (auto s = refuse_busy_gpu(pci); !s) return s.error();
    try {
        return std::unique_ptr<Backend>(std::make_unique<CudaBackend>(device));
    } catch (const std::runtime_error& error) {
        return environment_error(std::string("no usable GPU: ") + error.what());
    }
}

}  // namespace arena
