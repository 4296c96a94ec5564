// SPDX-License-Identifier: GPL-2.0-or-later
// A CUDA GPU as a device: each method hands its call to cuBLASLt, cuDNN or a kernel. The module
// that arena-train opens for it.
#include "train/cuda/cuda_device.h"

#include <fmt/format.h>

#include <chrono>
#include <exception>
#include <limits>
#include <new>
#include <stdexcept>
#include <thread>

#include "train/core/device_module.h"
#include "train/cuda/cuda_attention.h"
#include "train/cuda/cuda_lane.h"
#include "train/cuda/cuda_train_kernels.h"

namespace arena::train {
namespace {

using cuda::check;

cuda::Layout layout_of(Layout layout) {
    switch (layout) {
        case Layout::nt:
            return cuda::Layout::nt;
        case Layout::nn:
            return cuda::Layout::nn;
        case Layout::tn:
            return cuda::Layout::tn;
    }
    return cuda::Layout::nt;
}

cuda::HeadsLayout layout_of(const HeadsShape& s) {
    return {.samples = s.of.samples,
            .seq = s.of.seq,
            .heads = s.of.heads,
            .dim = s.of.head_dim,
            .part = s.part,
            .parts = s.parts};
}
cuda::VocabularyShard shard_of(const LogitsShape& s) { return {s.first, s.width}; }

/// Memory of cudaMallocAsync() stays the process's when it is freed.
void keep_messages_memory(int gpu) {
    cudaMemPool_t pool = nullptr;
    std::uint64_t all = std::numeric_limits<std::uint64_t>::max();
    check(cudaDeviceGetDefaultMemPool(&pool, gpu), "memory pool");
    check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all), "memory pool");
}

void launched(const char* what) { check(cudaGetLastError(), what); }

}  // namespace

CudaMemory cuda_memory(std::size_t bytes) {
    if (bytes == 0) return nullptr;
    void* p = nullptr;
    if (const cudaError_t e = cudaMalloc(&p, bytes); e != cudaSuccess) {
        std::size_t free_bytes = 0, total = 0;
        cudaMemGetInfo(&free_bytes, &total);
        throw std::runtime_error(fmt::format(
            "{:.1f} MiB of GPU memory are not there, {:.1f} of {:.1f} are free: {}; take a smaller "
            "micro-batch, recomputation, or more GPUs",
            static_cast<double>(bytes) / 1048576, static_cast<double>(free_bytes) / 1048576,
            static_cast<double>(total) / 1048576, cudaGetErrorString(e)));
    }
    CudaMemory memory(p);
    check(cudaMemset(p, 0, bytes), "clear memory");
    check(cudaDeviceSynchronize(), "clear memory");  // the ranks' streams do not wait for this one
    return memory;
}

// ---- GEMMs --------------------------------------------------------------------------------------

void CudaGemms::run(const cuda::Problem& p, const void* a, const void* b, void* c) {
    tuned(p, a, b, c).run(stream_, a, b, c);
}

/// What is added to is not spoilt by tuning: that goes to memory of its own.
cuda::Gemm& CudaGemms::tuned(const cuda::Problem& p, const void* a, const void* b, void* c) {
    const std::array<Index, 6> key{static_cast<Index>(p.layout), p.m, p.n, p.k, p.batch, p.adds};
    if (const auto known = gemms_.find(key); known != gemms_.end()) return *known->second;
    auto gemm = std::make_unique<cuda::Gemm>(blas_, p, workspace_.get(), workspace_bytes);
    wait_();  // may throw: an untuned one is not kept
    if (!p.adds) {
        gemm->tune(stream_, a, b, c);
    } else {
        const CudaMemory other = cuda_memory(at(p.m * p.n) * sizeof(float));
        gemm->tune(stream_, a, b, other.get());
        check(cudaStreamSynchronize(stream_), "tune");
    }
    return *gemms_.emplace(key, std::move(gemm)).first->second;
}

// ---- the GPU ------------------------------------------------------------------------------------

CudaContext::CudaContext(int gpu) : CudaContext() {  // from here on the destructor lets go
    cudaDeviceProp properties{};
    check(cudaSetDevice(gpu), "select device");
    check(cudaGetDeviceProperties(&properties, gpu), "device properties");
    if (properties.major < 8)
        throw std::runtime_error(
            fmt::format("{} has no bf16 (compute capability {}.{}, 8.0 or "
                        "higher is needed)",
                        properties.name, properties.major, properties.minor));
    name = properties.name;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
    keep_messages_memory(gpu);
    check(cublasLtCreate(&blas), "start");
}

CudaContext::~CudaContext() {
    for (cudaEvent_t mark : marks) cudaEventDestroy(mark);
    if (blas != nullptr) cublasLtDestroy(blas);
    if (stream != nullptr) cudaStreamDestroy(stream);
    for (void* p : late_) cudaFree(p);
}

void CudaContext::release(void* p) noexcept {
    if (std::uncaught_exceptions() == 0) return void(cudaFree(p));
    try {
        late_.push_back(p);
    } catch (const std::bad_alloc&) {
        // It goes with the process.
    }
}

void CudaContext::wait() {
    using Clock = std::chrono::steady_clock;
    const auto start = Clock::now();
    auto asked = start;
    cudaError_t e = cudaErrorNotReady;
    while ((e = cudaStreamQuery(stream)) == cudaErrorNotReady) {
        (void)cudaGetLastError();  // or "not ready" is the next launch's error
        const auto now = Clock::now();
        if (now - asked < std::chrono::milliseconds(100)) {
            std::this_thread::yield();
            continue;
        }
        asked = now;
        for (const Check& c : checks) c(std::chrono::duration<double>(now - start).count());
    }
    check(e, "a step");
}

void CudaContext::mark(std::size_t i) {
    while (marks.size() <= i) check(cudaEventCreate(&marks.emplace_back()), "mark");
    check(cudaEventRecord(marks[i], stream), "mark");
}

double CudaContext::seconds_between(std::size_t begin, std::size_t end) const {
    float ms = 0;
    check(cudaEventElapsedTime(&ms, marks[begin], marks[end]), "mark");
    return static_cast<double>(ms) / 1e3;
}

namespace {

/// Of one rank, without a way between ranks: every sum is its own.
class LoneGroup final : public Group {
  public:
    void all_reduce_sum(Span<Element>) override {}
    void all_reduce_sum(Span<float>) override {}
    void all_reduce_max(Span<float>) override {}
    void reduce_scatter(Span<const float> whole, Span<float> part) override {
        require(whole.data().address() == part.data().address());
    }
    void all_gather(Span<const Element> part, Span<Element> whole) override {
        require(part.data().address() == whole.data().address());
    }
    void send(Span<const Element>, int) override { require(false); }
    void receive(Span<Element>, int) override { require(false); }
    void flush() override {}
    void transfer(Span<Element>, int, int) override { require(false); }
    void connect(const RankLayout& layout, const Place&) override { require(layout.size() == 1); }

  private:
    static void require(bool holds) {
        if (!holds) throw std::logic_error("a group of one rank has nobody to give to");
    }
};

class CudaDevice final : public Device {
  public:
    explicit CudaDevice(int gpu) : Device(Memory::own), gpu_(gpu) {}
    [[nodiscard]] std::string name() const override { return gpu_.name; }
    [[nodiscard]] Trial trial() const override { return {.side = 4096, .on_processors = false}; }
    void wait() override { gpu_.wait(); }
    void mark(std::size_t i) override { gpu_.mark(i); }
    double seconds_between(std::size_t begin, std::size_t end) override {
        return gpu_.seconds_between(begin, end);
    }
    std::unique_ptr<Group> group(Comm& comm) override {
        if (comm.size() == 1) return std::make_unique<LoneGroup>();
        return make_nccl_group(comm, gpu_);
    }

    void* allocate(std::size_t bytes) override { return cuda_memory(bytes).release(); }
    void release(void* p) noexcept override { gpu_.release(p); }
    void clear(void* p, std::size_t bytes) override {
        check(cudaMemsetAsync(p, 0, bytes, gpu_.stream), "clear");
    }
    void copy_in(const void* host, std::size_t bytes, void* to) override {
        check(cudaMemcpyAsync(to, host, bytes, cudaMemcpyHostToDevice, gpu_.stream), "copy");
        gpu_.wait();
    }
    void copy_out(const void* from, std::size_t bytes, void* host) override {
        gpu_.wait();
        check(cudaMemcpyAsync(host, from, bytes, cudaMemcpyDeviceToHost, gpu_.stream), "copy");
        gpu_.wait();
    }

    std::unique_ptr<CopyLane> copy_lane(std::size_t marks) override {
        return make_cuda_lane(gpu_, marks);
    }

    void multiply(Layout layout, Index m, Index n, Index k, In a, In b, Out c) override {
        gemms_.run({.layout = layout_of(layout), .m = m, .n = n, .k = k}, a.address(), b.address(),
                   c.address());
    }
    void multiply_add(Layout layout, Index m, Index n, Index k, In a, In b, Numbers c) override {
        gemms_.run({.layout = layout_of(layout), .m = m, .n = n, .k = k, .adds = true}, a.address(),
                   b.address(), c.address());
    }

    void norm_forward(Index rows, Index cols, In x, In gamma, In beta, Out y,
                      Numbers saved) override {
        cuda::norm_forward(gpu_.kernels(), {.rows = rows, .cols = cols},
                           {.x = x.address(),
                            .gamma = gamma.address(),
                            .beta = beta.address(),
                            .y = y.address(),
                            .saved = saved.address()});
        launched("norm");
    }
    void norm_backward(Index rows, Index cols, const NormInputs& i, In dy, Out dx, Numbers d_gamma,
                       Numbers d_beta) override {
        cuda::norm_backward_add(
            gpu_.kernels(), {.rows = rows, .cols = cols},
            {.x = i.x.address(), .gamma = i.gamma.address(), .saved = i.saved.address()},
            dy.address(),
            {.x = dx.address(), .gamma = d_gamma.address(), .beta = d_beta.address()});
        launched("norm's gradient");
    }
    void add_bias(Index rows, Index cols, In bias, Out y) override {
        cuda::add_bias(gpu_.kernels(), rows, cols, bias.address(), y.address());
        launched("bias");
    }
    void add_column_sums(Index rows, Index cols, In x, Numbers sums) override {
        cuda::add_column_sums(gpu_.kernels(), rows, cols, x.address(), sums.address());
        launched("bias's gradient");
    }
    void accumulate(Index n, In b, Out a) override {
        cuda::add(gpu_.kernels(), n, a.address(), b.address(), a.address());
        launched("sum");
    }
    void bias_residual(Index rows, Index cols, In x, In bias, In residual, Out y) override {
        cuda::bias_residual_forward(gpu_.kernels(), rows, cols, x.address(), bias.address(),
                                    residual.address(), y.address());
        launched("bias and residual");
    }
    void gelu_forward(Index n, In x, Out y) override {
        cuda::gelu_forward(gpu_.kernels(), n, x.address(), y.address());
        launched("GELU");
    }
    void gelu_backward(Index n, In x, In dy, Out dx) override {
        cuda::gelu_backward(gpu_.kernels(), n, x.address(), dy.address(), dx.address());
        launched("GELU's gradient");
    }

    void to_heads(const HeadsShape& s, In rows, Out heads) override {
        cuda::to_heads(gpu_.kernels(), layout_of(s), rows.address(), heads.address());
        launched("heads");
    }
    void to_rows(const HeadsShape& s, In heads, Out rows) override {
        cuda::to_rows(gpu_.kernels(), layout_of(s), heads.address(), rows.address());
        launched("rows");
    }
    void attention_forward(const AttentionShape& s, const AttentionTensors& t) override {
        attention_.forward(s, t);
        launched("attention");
    }
    void attention_backward(const AttentionShape& s, const AttentionTensors& t, In d_out, Out dq,
                            Out dk, Out dv) override {
        attention_.backward(s, t, {d_out, dq, dk, dv});
        launched("attention's gradient");
    }

    void gather_rows(const LogitsShape& s, Index hidden, Tokens ids, In table, Out out) override {
        cuda::gather_rows(gpu_.kernels(), shard_of(s), s.tokens, hidden, ids.data().address(),
                          table.address(), out.address());
        launched("embedding");
    }
    void scatter_rows(const LogitsShape& s, Index hidden, Tokens ids, In d_out,
                      Numbers d_table) override {
        cuda::scatter_rows(gpu_.kernels(), shard_of(s), s.tokens, hidden, ids.data().address(),
                           d_out.address(), d_table.address());
        launched("embedding's gradient");
    }

    void top_and_target(const LogitsShape& s, In logits, Tokens labels, Numbers top,
                        Numbers target) override {
        cuda::top_and_target(gpu_.kernels(), shard_of(s), s.tokens, logits.address(),
                             labels.data().address(), top.address(), target.address());
        launched("largest logits");
    }
    void sum_exponentials(const LogitsShape& s, Out logits, ConstNumbers top,
                          Numbers sums) override {
        cuda::sum_exponentials(gpu_.kernels(), shard_of(s), s.tokens, logits.address(),
                               top.address(), sums.address());
        launched("sums of exponentials");
    }
    void logits_gradient(const LogitsShape& s, Out logits, Tokens labels, ConstNumbers top,
                         ConstNumbers sums, float scale) override {
        cuda::logits_gradient(gpu_.kernels(), shard_of(s), s.tokens, logits.address(),
                              labels.data().address(), {top.address(), sums.address()}, scale);
        launched("logits' gradient");
    }

    void add_losses(Index tokens, ConstNumbers top, ConstNumbers target, ConstNumbers sums,
                    Sum sum) override {
        cuda::add_losses(gpu_.stream, tokens, top.address(), target.address(), sums.address(),
                         sum.address());
        launched("loss");
    }
    void add_squares(Index n, ConstNumbers x, Sum sum) override {
        cuda::add_squares(gpu_.stream, n, x.address(), sum.address());
        launched("norm of the gradients");
    }
    void scale(Index n, float factor, Numbers x) override {
        cuda::scale(gpu_.stream, n, factor, x.address());
        launched("scale");
    }
    void adamw(const AdamW& a, Index n, Numbers masters, ConstNumbers gradient, Numbers first,
               Numbers second, Out weights) override {
        const cuda::AdamFactors factors = cuda::adam_factors(
            static_cast<double>(a.rate), static_cast<double>(a.beta1), static_cast<double>(a.beta2),
            static_cast<double>(a.epsilon), static_cast<double>(a.decay), a.step);
        cuda::adamw_masters(gpu_.kernels(), factors, n,
                            {.p = masters.address(),
                             .m = first.address(),
                             .v = second.address(),
                             .copy = weights.address()},
                            gradient.address());
        launched("AdamW");
    }

  private:
    CudaContext gpu_;
    CudaGemms gemms_{gpu_.stream, gpu_.blas, [this] { gpu_.wait(); }};
    CudaAttention attention_{gpu_.stream, gemms_};
};

/// srun may have given each task its own GPU, or all of the node's to every task.
int gpu_of(Comm& world) {
    const int local = world.node_rank();
    int count = 0;
    if (const cudaError_t e = cudaGetDeviceCount(&count); e != cudaSuccess || count == 0)
        throw std::runtime_error(fmt::format(
            "no usable GPU: {}", e != cudaSuccess ? cudaGetErrorString(e) : "CUDA sees no device"));
    if (count > 1 && local >= count)
        throw std::runtime_error(fmt::format(
            "rank {} is number {} on a node where {} GPUs are visible: one rank per GPU",
            world.rank(), local, count));
    return count == 1 ? 0 : local;
}

}  // namespace
}  // namespace arena::train

using namespace arena::train;

const char* const arena_train_module_version = module_version;
std::unique_ptr<Device> arena_train_open_device(int, Comm& world) {
    return std::make_unique<CudaDevice>(gpu_of(world));
}
