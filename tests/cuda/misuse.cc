// SPDX-License-Identifier: GPL-2.0-or-later
// What the software device must not let pass, one mistake by argument: each run ends with status 86
// and a sentence. "right" makes none.
#include <cuda_runtime_api.h>

#include <cstring>
#include <string>
#include <vector>

int main(int argc, char** argv) {
    const std::string mistake = argc > 1 ? argv[1] : "right";
    void *p = nullptr, *q = nullptr;
    cudaStream_t stream = nullptr;
    cudaEvent_t begin = nullptr, end = nullptr;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cudaEventCreate(&begin), cudaEventCreate(&end);
    cudaMalloc(&p, 1000), cudaMalloc(&q, 1000);
    std::vector<char> host(2000, 1);
    if (mistake == "host-touches") std::memset(p, 0, 1);
    if (mistake == "copy-too-long") cudaMemcpy(p, host.data(), 1001, cudaMemcpyHostToDevice);
    if (mistake == "freed") {
        cudaMemcpyAsync(p, q, 1000, cudaMemcpyDeviceToDevice, stream);
        cudaStreamSynchronize(stream);
        cudaFree(q);
        cudaMemcpyAsync(p, q, 1000, cudaMemcpyDeviceToDevice, stream);
        cudaStreamSynchronize(stream);
        q = nullptr;
    }
    // Another stream reads before the first has written: what it reads is poison.
    cudaMemsetAsync(p, 7, 1000, stream);
    cudaEventRecord(begin, stream);
    if (mistake != "unordered") cudaStreamSynchronize(stream);
    cudaMemcpy(host.data(), p, 1000, cudaMemcpyDeviceToHost);
    if (host[0] != 7) return 85;
    float ms = 0;
    cudaEventRecord(end, stream);
    if (mistake != "event-too-early") cudaEventSynchronize(end);
    if (cudaEventElapsedTime(&ms, begin, end) != cudaSuccess) return 84;
    if (mistake != "leak") cudaFree(p);
    cudaFree(q);
    cudaEventDestroy(begin), cudaEventDestroy(end);
    cudaStreamDestroy(stream);
    return 0;
}
