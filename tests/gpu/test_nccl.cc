// SPDX-License-Identifier: GPL-2.0-or-later
// NCCL with one rank on the first visible GPU: each collective that our code makes, whose result is
// then its own input. Under the recorder its calls are in a ring, as those of a training job are.
// TAP on standard output.
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstdio>
#include <vector>

namespace {

constexpr std::size_t count = std::size_t{1} << 20;
int tests = 0, failures = 0;

void result(bool good, const char* name, const char* why) {
    std::printf("%s %d - %s\n", good ? "ok" : "not ok", ++tests, name);
    if (!good) std::printf("# %s\n", why);
    failures += good ? 0 : 1;
}
bool holds(ncclResult_t r, const char* name) {
    if (r != ncclSuccess) result(false, name, ncclGetErrorString(r));
    return r == ncclSuccess;
}

class OneRank {
  public:
    OneRank() {
        ncclUniqueId id{};
        good_ = cudaMalloc(&in_, bytes) == cudaSuccess && cudaMalloc(&out_, bytes) == cudaSuccess &&
                cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking) == cudaSuccess &&
                holds(ncclGetUniqueId(&id), "an id is made") &&
                holds(ncclCommInitRank(&comm_, 1, id, 0), "a communicator of one rank is made");
        for (std::size_t i = 0; i < count; ++i) host_[i] = static_cast<float>(i % 1000);
    }
    ~OneRank() {
        if (comm_ != nullptr) ncclCommDestroy(comm_);
        if (stream_ != nullptr) cudaStreamDestroy(stream_);
        cudaFree(in_);
        cudaFree(out_);
    }
    OneRank(const OneRank&) = delete;
    OneRank& operator=(const OneRank&) = delete;
    [[nodiscard]] bool is_good() const { return good_; }
    template <typename Call>
    void try_one(const char* name, Call call) {
        cudaMemcpy(in_, host_.data(), bytes, cudaMemcpyHostToDevice);
        cudaMemset(out_, 0xff, bytes);
        cudaDeviceSynchronize();  // the stream does not wait for these
        if (!holds(call(in_, out_, comm_, stream_), name)) return;
        const cudaError_t e = cudaStreamSynchronize(stream_);
        std::vector<float> got(count);
        cudaMemcpy(got.data(), out_, bytes, cudaMemcpyDeviceToHost);
        result(e == cudaSuccess && got == host_, name,
               e == cudaSuccess ? "the result is not the input" : cudaGetErrorString(e));
    }

  private:
    static constexpr std::size_t bytes = count * sizeof(float);
    std::vector<float> host_ = std::vector<float>(count);
    void *in_ = nullptr, *out_ = nullptr;
    cudaStream_t stream_ = nullptr;
    ncclComm_t comm_ = nullptr;
    bool good_ = false;
};

}  // namespace

int main() {
    OneRank rank;
    if (!rank.is_good()) {
        result(false, "one rank is ready", cudaGetErrorString(cudaGetLastError()));
    } else {
        rank.try_one("all-reduce", [](void* in, void* out, ncclComm_t comm, cudaStream_t stream) {
            return ncclAllReduce(in, out, count, ncclFloat, ncclSum, comm, stream);
        });
        rank.try_one("all-gather", [](void* in, void* out, ncclComm_t comm, cudaStream_t stream) {
            return ncclAllGather(in, out, count, ncclFloat, comm, stream);
        });
        rank.try_one("reduce-scatter",
                     [](void* in, void* out, ncclComm_t comm, cudaStream_t stream) {
                         return ncclReduceScatter(in, out, count, ncclFloat, ncclSum, comm, stream);
                     });
        rank.try_one("a message to itself",
                     [](void* in, void* out, ncclComm_t comm, cudaStream_t stream) {
                         ncclGroupStart();
                         ncclSend(in, count, ncclFloat, 0, comm, stream);
                         ncclRecv(out, count, ncclFloat, 0, comm, stream);
                         return ncclGroupEnd();
                     });
    }
    std::printf("1..%d\n", tests);
    return failures == 0 ? 0 : 1;
}
