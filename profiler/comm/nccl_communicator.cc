// SPDX-License-Identifier: GPL-2.0-or-later
// One rank of NCCL. A world communicator agrees on numbers and starts all groups together; groups
// are split from it. Steps that block inside NCCL (making and splitting communicators, launching)
// are watched by a thread that ends the process when they outlast the limit, because nothing else
// can end them; waiting for the GPU polls NCCL's asynchronous error, and aborts the communicators
// when it shows one or the limit passes.
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>
#include <string>

#include "base/text.h"
#include "profiler/comm/comm.h"
#include "profiler/comm/watch.h"
#include "profiler/core/nvml.h"
#include "profiler/core/recorder.h"
#include "profiler/core/request.h"
#include "profiler/cuda/cuda_identity.h"
#include "profiler/cuda/cuda_kernels.h"

namespace arena {
namespace {

/// Numbers that one largest() can take.
constexpr std::size_t max_numbers = 16;

void check(cudaError_t e, const char* doing) {
    if (e != cudaSuccess)
        throw std::runtime_error(std::string("CUDA: ") + doing + ": " + cudaGetErrorString(e));
}

/// With what NCCL last said of it, which names the link or the peer.
void check(ncclResult_t r, ncclComm_t comm, const char* doing) {
    if (r == ncclSuccess) return;
    std::string text = std::string("NCCL: ") + doing + ": " + ncclGetErrorString(r);
    if (const char* last = ncclGetLastError(comm); last != nullptr && *last != '\0')
        text += std::string(": ") + last;
    throw std::runtime_error(printable(text, 400));
}

/// A communicator that is destroyed, or aborted after a failure.
class Comm {
  public:
    Comm() = default;
    ~Comm() { close(); }
    Comm(const Comm&) = delete;
    Comm& operator=(const Comm&) = delete;
    [[nodiscard]] ncclComm_t get() const { return comm_; }
    [[nodiscard]] ncclComm_t* put() {
        close();
        return &comm_;
    }
    /// Nothing may run on it.
    void close() {
        if (comm_ != nullptr) ncclCommDestroy(comm_);
        comm_ = nullptr;
    }
    /// Ends what runs on it.
    void abort() {
        if (comm_ != nullptr) ncclCommAbort(comm_);
        comm_ = nullptr;
    }

  private:
    ncclComm_t comm_ = nullptr;
};

class DeviceMemory {
  public:
    DeviceMemory() = default;
    ~DeviceMemory() {
        if (p_ != nullptr) cudaFree(p_);
    }
    DeviceMemory(const DeviceMemory&) = delete;
    DeviceMemory& operator=(const DeviceMemory&) = delete;
    void allocate(std::size_t bytes, const char* doing) {
        check(cudaMalloc(&p_, bytes), doing);
        check(cudaMemset(p_, 0, bytes), doing);
    }
    [[nodiscard]] void* get() const { return p_; }

  private:
    void* p_ = nullptr;
};

/// Host memory that the GPU copies to while the host looks elsewhere; copies to other memory block.
class PinnedNumbers {
  public:
    PinnedNumbers() {
        check(cudaMallocHost(reinterpret_cast<void**>(&p_), max_numbers * sizeof(double)),
              "host memory");
    }
    ~PinnedNumbers() { cudaFreeHost(p_); }
    PinnedNumbers(const PinnedNumbers&) = delete;
    PinnedNumbers& operator=(const PinnedNumbers&) = delete;
    [[nodiscard]] double* get() const { return p_; }

  private:
    double* p_ = nullptr;
};

/// A stream of its own and two events that time what runs on it.
class TimedStream {
  public:
    TimedStream() = default;
    ~TimedStream() {
        if (begin != nullptr) cudaEventDestroy(begin);
        if (end != nullptr) cudaEventDestroy(end);
        if (handle != nullptr) cudaStreamDestroy(handle);
    }
    TimedStream(const TimedStream&) = delete;
    TimedStream& operator=(const TimedStream&) = delete;
    void make() {
        check(cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking), "stream");
        check(cudaEventCreate(&begin), "event");
        check(cudaEventCreate(&end), "event");
    }
    cudaStream_t handle = nullptr;
    cudaEvent_t begin = nullptr, end = nullptr;
};

/// Makes the GPU the process's before anything is allocated on it.
cudaDeviceProp select_gpu(int gpu) {
    cudaDeviceProp properties{};
    check(cudaSetDevice(gpu), "select device");
    check(cudaGetDeviceProperties(&properties, gpu), "device properties");
    return properties;
}

class NcclCommunicator final : public Communicator {
  public:
    NcclCommunicator(const CommSetup& setup, int gpu)
        : world_(setup.world),
          timeout_s_(setup.timeout_s),
          lost_(setup.lost),
          watch_("rank " + std::to_string(setup.world.rank) + ": NCCL", setup.timeout_s),
          properties_(select_gpu(gpu)) {
        stream_.make();
        const auto bytes = static_cast<std::size_t>(setup.max_bytes);
        send_.allocate(bytes, "send buffer");
        receive_.allocate(bytes, "receive buffer");
        numbers_.allocate(max_numbers * sizeof(double), "numbers");
        cuda::fill_uniform({stream_.handle, cuda::Type::f32},
                           static_cast<cuda::Index>(bytes / sizeof(float)),
                           static_cast<std::uint64_t>(world_.rank) + 1, send_.get());
        check(cudaGetLastError(), "fill the send buffer");
        check(cudaDeviceSynchronize(), "fill the send buffer");
        join_world(setup);
    }
    ~NcclCommunicator() override {
        // Whoever waits here for a rank that is gone is ended by the watch.
        const WatchedStep step(watch_, "leave");
        group_.close();
        all_.close();
    }

    Device device() const override {
        Device d;
        d.kind = "cuda";
        d.name = properties_.name;
        d.uuid = cuda::uuid_of(properties_);
        d.driver = cuda::driver_version();
        int version = 0;
        check(ncclGetVersion(&version), nullptr, "version");
        d.library = "NCCL " + std::to_string(version / 10000) + "." +
                    std::to_string(version / 100 % 100) + "." + std::to_string(version % 100);
        d.memory_bytes = static_cast<std::int64_t>(properties_.totalGlobalMem);
        d.node = host_name();
        return d;
    }

    void regroup(std::int64_t group) override {
        const WatchedStep step(watch_, "make groups");
        group_.close();
        const int color = group < 0 ? NCCL_SPLIT_NOCOLOR : static_cast<int>(group);
        check(
            ncclCommSplit(all_.get(), color, static_cast<int>(world_.rank), group_.put(), nullptr),
            all_.get(), "make groups");
        if (group < 0) return;
        check(ncclCommCount(group_.get(), &ranks_), group_.get(), "count ranks");
        check(ncclCommUserRank(group_.get(), &rank_), group_.get(), "rank");
    }

    double execute(CommOp op, std::int64_t bytes, std::int64_t times) override {
        {
            const WatchedStep step(watch_, "launch");
            check(cudaEventRecord(stream_.begin, stream_.handle), "record");
            for (std::int64_t i = 0; i < times; ++i) launch(op, static_cast<std::size_t>(bytes));
            check(cudaEventRecord(stream_.end, stream_.handle), "record");
        }
        wait(stream_.end, group_, to_string(op));
        float ms = 0;
        check(cudaEventElapsedTime(&ms, stream_.begin, stream_.end), "elapsed");
        return static_cast<double>(ms) / 1000;
    }

    std::vector<double> largest(const std::vector<double>& numbers) override {
        if (numbers.size() > max_numbers)
            throw std::runtime_error("NCCL: too many numbers to agree on");
        double* const host = host_.get();
        std::copy(numbers.begin(), numbers.end(), host);
        const std::size_t bytes = numbers.size() * sizeof(double);
        {
            const WatchedStep step(watch_, "agree");
            check(cudaMemcpyAsync(numbers_.get(), host, bytes, cudaMemcpyHostToDevice,
                                  stream_.handle),
                  "copy");
            check(ncclAllReduce(numbers_.get(), numbers_.get(), numbers.size(), ncclDouble, ncclMax,
                                all_.get(), stream_.handle),
                  all_.get(), "agree");
            check(cudaMemcpyAsync(host, numbers_.get(), bytes, cudaMemcpyDeviceToHost,
                                  stream_.handle),
                  "copy");
            check(cudaEventRecord(stream_.end, stream_.handle), "record");
        }
        wait(stream_.end, all_, "agree");
        return {host, host + numbers.size()};
    }

  private:
    void join_world(const CommSetup& setup) {
        const auto id = setup.share(
            [] {
                ncclUniqueId made{};
                check(ncclGetUniqueId(&made), nullptr, "make a unique id");
                return std::string(made.internal, sizeof made.internal);
            },
            sizeof(ncclUniqueId::internal));
        if (!id) throw std::runtime_error(id.error().message());
        ncclUniqueId unique{};
        std::memcpy(unique.internal, id->data(), sizeof unique.internal);
        const WatchedStep step(watch_, "join");
        check(ncclCommInitRank(all_.put(), static_cast<int>(world_.ranks()), unique,
                               static_cast<int>(world_.rank)),
              nullptr, "join");
    }

    /// Buffers and counts as nccl-tests, out of place: bytes is the larger of the two buffers.
    void launch(CommOp op, std::size_t bytes) {
        const std::size_t all = bytes / sizeof(float),
                          each = all / static_cast<std::size_t>(ranks_);
        const void* from = send_.get();
        void* to = receive_.get();
        const ncclComm_t comm = group_.get();
        switch (op) {
            case CommOp::all_reduce:
                return check(ncclAllReduce(from, to, all, ncclFloat, ncclSum, comm, stream_.handle),
                             comm, "all-reduce");
            case CommOp::all_gather:
                return check(ncclAllGather(from, to, each, ncclFloat, comm, stream_.handle), comm,
                             "all-gather");
            case CommOp::reduce_scatter:
                return check(
                    ncclReduceScatter(from, to, each, ncclFloat, ncclSum, comm, stream_.handle),
                    comm, "reduce-scatter");
            case CommOp::all_to_all:
                return exchange(each, 0, ranks_, "all-to-all");
            case CommOp::send:
                return pass_on(all);
        }
    }

    /// A piece of `count` floats to and from every rank of [first, end).
    void exchange(std::size_t count, int first, int end, const char* doing) {
        const ncclComm_t comm = group_.get();
        const auto piece = [&](void* base, int peer) {
            return static_cast<float*>(base) + static_cast<std::size_t>(peer) * count;
        };
        check(ncclGroupStart(), comm, doing);
        for (int peer = first; peer < end; ++peer) {
            check(ncclSend(piece(send_.get(), peer), count, ncclFloat, peer, comm, stream_.handle),
                  comm, doing);
            check(
                ncclRecv(piece(receive_.get(), peer), count, ncclFloat, peer, comm, stream_.handle),
                comm, doing);
        }
        check(ncclGroupEnd(), comm, doing);
    }

    /// To the next rank of the ring, from the one before.
    void pass_on(std::size_t count) {
        const ncclComm_t comm = group_.get();
        const int next = (rank_ + 1) % ranks_, before = (rank_ + ranks_ - 1) % ranks_;
        check(ncclGroupStart(), comm, "send");
        check(ncclSend(send_.get(), count, ncclFloat, next, comm, stream_.handle), comm, "send");
        check(ncclRecv(receive_.get(), count, ncclFloat, before, comm, stream_.handle), comm,
              "receive");
        check(ncclGroupEnd(), comm, "send");
    }

    /// Until the GPU has come to `event`; a failed link or a lost rank shows in NCCL's state while
    /// the kernel waits for ever.
    void wait(cudaEvent_t event, const Comm& comm, std::string_view doing) {
        const double until = monotonic_s() + timeout_s_;
        cudaError_t e = cudaErrorNotReady;
        while ((e = cudaEventQuery(event)) == cudaErrorNotReady) {
            (void)cudaGetLastError();  // or "not ready" is the next launch's error
            ncclResult_t state = ncclSuccess;
            const ncclResult_t asked = ncclCommGetAsyncError(comm.get(), &state);
            const std::string lost = lost_();
            if (asked == ncclSuccess && state == ncclSuccess && lost.empty() &&
                monotonic_s() <= until)
                continue;
            std::string why = asked != ncclSuccess   ? ncclGetErrorString(asked)
                              : state != ncclSuccess ? ncclGetErrorString(state)
                              : !lost.empty()        ? lost
                                                     : "no answer from the other ranks within " +
                                                    human_seconds(timeout_s_);
            const char* last = ncclGetLastError(comm.get());
            if (state != ncclSuccess && last != nullptr && *last != '\0')
                why += std::string(": ") + last;
            abort();
            throw std::runtime_error(printable("NCCL: " + std::string(doing) + ": " + why, 400));
        }
        if (e == cudaSuccess) return;
        abort();
        check(e, "execute");
    }

    void abort() {
        const WatchedStep step(watch_, "abort");
        group_.abort();
        all_.abort();
    }

    CommWorld world_;
    double timeout_s_;
    std::function<std::string()> lost_;
    Watch watch_;
    cudaDeviceProp properties_;  ///< made where the GPU is selected: before all that lies on it
    TimedStream stream_;
    DeviceMemory send_, receive_, numbers_;
    PinnedNumbers host_;
    Comm all_, group_;
    int ranks_ = 0, rank_ = 0;
};

/// srun may have given each task its own GPU, or all of the node's to every task.
Result<int> gpu_of(const CommWorld& world) {
    int count = 0;
    if (const cudaError_t e = cudaGetDeviceCount(&count); e != cudaSuccess || count == 0)
        return environment_error(std::string("no usable GPU: ") + (e != cudaSuccess
                                                                       ? cudaGetErrorString(e)
                                                                       : "CUDA sees no device"));
    if (count == 1) return 0;
    if (world.local() < count) return static_cast<int>(world.local());
    return usage_error("rank " + std::to_string(world.rank) + " is number " +
                       std::to_string(world.local()) + " on a node where " + std::to_string(count) +
                       " GPUs are visible: start one task per GPU");
}

}  // namespace

Result<std::int64_t> count_comm_devices() {
    int count = 0;
    if (const cudaError_t e = cudaGetDeviceCount(&count); e != cudaSuccess)
        return environment_error(std::string("no usable GPU: ") + cudaGetErrorString(e));
    return std::int64_t{count};
}

Result<std::unique_ptr<Communicator>> make_communicator(const CommSetup& setup) {
    const auto gpu = gpu_of(setup.world);
    if (!gpu) return gpu.error();
    std::array<char, 32> address{};
    if (cudaDeviceGetPCIBusId(address.data(), static_cast<int>(address.size()), *gpu) ==
        cudaSuccess)
        if (auto s = refuse_busy_gpu(address.data()); !s) return s.error();
    try {
        return std::unique_ptr<Communicator>(std::make_unique<NcclCommunicator>(setup, *gpu));
    } catch (const std::runtime_error& error) {
        return environment_error(error.what());
    }
}

}  // namespace arena
