// SPDX-License-Identifier: GPL-2.0-or-later
// See cuda_links.h. cudaMemcpyPeerAsync takes NVLink or PCIe where peers reach one another, else
// host memory: whichever it is, training would see it, too. Times are events' on the sender's
// stream.
#include "profiler/cuda/cuda_links.h"

#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>

namespace arena {
namespace {

constexpr std::size_t copy_bytes = std::size_t{256} << 20;

void check(cudaError_t e, const char* doing) {
    if (e != cudaSuccess)
        throw std::runtime_error(std::string("CUDA: ") + doing + ": " + cudaGetErrorString(e));
}

/// One GPU's part: what it sends, where it receives, when its copies began and ended.
class Port {
  public:
    explicit Port(int device) : Port() {  // from here on the destructor lets go
        device_ = device;
        check(cudaSetDevice(device_), "select device");
        check(cudaMalloc(&out_, copy_bytes), "buffers");
        check(cudaMalloc(&in_, copy_bytes), "buffers");
        check(cudaMemset(out_, 1, copy_bytes), "buffers");
        check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream");
        check(cudaEventCreate(&begin_), "event");
        check(cudaEventCreate(&end_), "event");
    }
    Port(const Port&) = delete;
    Port& operator=(const Port&) = delete;
    ~Port() {
        (void)cudaSetDevice(device_);
        if (begin_ != nullptr) cudaEventDestroy(begin_);
        if (end_ != nullptr) cudaEventDestroy(end_);
        if (stream_ != nullptr) cudaStreamDestroy(stream_);
        cudaFree(out_);
        cudaFree(in_);
    }
    /// Where they cannot reach one another the driver copies through the host.
    void reach(const Port& peer) const {
        int can = 0;
        check(cudaDeviceCanAccessPeer(&can, device_, peer.device_), "ask for peer access");
        if (can == 0) return;
        check(cudaSetDevice(device_), "select device");
        const cudaError_t e = cudaDeviceEnablePeerAccess(peer.device_, 0);
        if (e == cudaErrorPeerAccessAlreadyEnabled)
            (void)cudaGetLastError();
        else
            check(e, "enable peer access");
    }
    void send(const Port& peer, std::int64_t times) {
        check(cudaSetDevice(device_), "select device");
        check(cudaEventRecord(begin_, stream_), "record");
        for (std::int64_t i = 0; i < times; ++i)
            check(cudaMemcpyPeerAsync(peer.in_, peer.device_, out_, device_, copy_bytes, stream_),
                  "copy to a peer");
        check(cudaEventRecord(end_, stream_), "record");
    }
    double wait(std::int64_t times) {
        check(cudaSetDevice(device_), "select device");
        check(cudaEventSynchronize(end_), "wait for copies");
        float ms = 0;
        check(cudaEventElapsedTime(&ms, begin_, end_), "elapsed");
        return static_cast<double>(ms) / 1000 / static_cast<double>(times);
    }

  private:
    Port() = default;
    int device_ = 0;
    void *out_ = nullptr, *in_ = nullptr;
    cudaStream_t stream_ = nullptr;
    cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

class CudaLinks final : public Links {
  public:
    explicit CudaLinks(std::int64_t devices) {
        for (int i = 0; i < static_cast<int>(devices); ++i)
            ports_.push_back(std::make_unique<Port>(i));
    }
    std::string kind() const override { return "peer copies of the GPUs"; }
    std::int64_t bytes() const override { return static_cast<std::int64_t>(copy_bytes); }
    std::vector<double> copy(const slowdown::Pass& pass, std::int64_t times) override {
        for (const slowdown::Transfer& t : pass) port(t.from).reach(port(t.to));
        for (const slowdown::Transfer& t : pass) port(t.from).send(port(t.to), times);
        std::vector<double> seconds;
        for (const slowdown::Transfer& t : pass) seconds.push_back(port(t.from).wait(times));
        return seconds;
    }

  private:
    Port& port(int device) { return *ports_[static_cast<std::size_t>(device)]; }
    std::vector<std::unique_ptr<Port>> ports_;
};

}  // namespace

Result<std::int64_t> count_cuda_devices() {
    int count = 0;
    const cudaError_t e = cudaGetDeviceCount(&count);
    if (e != cudaSuccess || count == 0)
        return environment_error(std::string("no usable GPU: ") + (e != cudaSuccess
                                                                       ? cudaGetErrorString(e)
                                                                       : "CUDA sees no device"));
    return count;
}

Result<std::unique_ptr<Links>> make_cuda_links(std::int64_t devices) {
    try {
        return std::unique_ptr<Links>(std::make_unique<CudaLinks>(devices));
    } catch (const std::runtime_error& error) {
        return environment_error(error.what());
    }
}

}  // namespace arena
