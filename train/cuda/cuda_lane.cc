// SPDX-License-Identifier: GPL-2.0-or-later
// See cuda_lane.h. The copying thread itself waits for a mark, by asking again and again: a copy
// that waits on the stream for a collective of a lost rank could not be given up.
#include "train/cuda/cuda_lane.h"

#include <chrono>
#include <set>
#include <thread>

namespace arena::train {
namespace {

constexpr std::chrono::microseconds pause_of_mark{20};

using cuda::check;

class CudaLane final : public CopyLane {
  public:
    CudaLane(CudaContext& gpu, std::size_t marks) : CudaLane(gpu) {  // the destructor lets go
        check(cudaGetDevice(&device_), "device");
        check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream of copies");
        for (std::size_t i = 0; i < marks; ++i)
            check(cudaEventCreateWithFlags(&marks_.emplace_back(), cudaEventDisableTiming), "mark");
    }
    ~CudaLane() override {
        for (void* host : pinned_) (void)cudaHostUnregister(host);
        for (cudaEvent_t mark : marks_)
            if (mark != nullptr) cudaEventDestroy(mark);
        if (stream_ != nullptr) cudaStreamDestroy(stream_);
    }
    /// A failure is none: what is not pinned goes through the driver's own buffers.
    void pin(void* host, std::size_t bytes) override {
        if (bytes == 0) return;
        pinned_.insert(host);
        if (cudaHostRegister(host, bytes, cudaHostRegisterDefault) == cudaSuccess) return;
        pinned_.erase(host);
        (void)cudaGetLastError();  // or it is the next launch's error
    }
    void unpin(void* host) override {
        if (pinned_.erase(host) != 0) (void)cudaHostUnregister(host);
    }
    void look_after_others(double waited_s) override {
        for (const CudaContext::Check& check : gpu_.checks) check(waited_s);
    }
    void mark(std::size_t i) override { check(cudaEventRecord(marks_[i], gpu_.stream), "mark"); }
    void copy_in(std::size_t i, const void* host, std::size_t bytes, void* to,
                 const std::stop_token& stop) override {
        if (reaches(i, stop)) copy(to, host, bytes, cudaMemcpyHostToDevice);
    }
    void copy_out(std::size_t i, const void* from, std::size_t bytes, void* host,
                  const std::stop_token& stop) override {
        if (reaches(i, stop)) copy(host, from, bytes, cudaMemcpyDeviceToHost);
    }

  private:
    explicit CudaLane(CudaContext& gpu) : gpu_(gpu) {}

    bool reaches(std::size_t i, const std::stop_token& stop) {
        check(cudaSetDevice(device_), "select device");  // of this thread
        cudaError_t e = cudaSuccess;
        while ((e = cudaEventQuery(marks_[i])) == cudaErrorNotReady) {
            (void)cudaGetLastError();
            if (stop.stop_requested()) return false;
            std::this_thread::sleep_for(pause_of_mark);
        }
        check(e, "a mark");
        return true;
    }
    void copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
        check(cudaMemcpyAsync(to, from, bytes, kind, stream_), "copy of a state");
        check(cudaStreamSynchronize(stream_), "copy of a state");
    }

    CudaContext& gpu_;
    int device_ = 0;
    cudaStream_t stream_ = nullptr;
    std::vector<cudaEvent_t> marks_;
    std::set<void*> pinned_;
};

}  // namespace

std::unique_ptr<CopyLane> make_cuda_lane(CudaContext& gpu, std::size_t marks) {
    return std::make_unique<CudaLane>(gpu, marks);
}

}  // namespace arena::train
