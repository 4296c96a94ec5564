// SPDX-License-Identifier: GPL-2.0-or-later
// libcudart: the calls that our code makes, as the CUDA Runtime API reference (13.0) describes
// them. Sections are named where a rule is taken from one. What is not here does not link.
#include <cstdio>
#include <cstring>
#include <set>

#include "tests/cuda/device.h"

using soft::Operation;
using soft::Stream;

namespace {

thread_local cudaError_t last_error = cudaSuccess;
thread_local int this_device = 0;

/// 6.3 Error handling: what a call returns is what cudaGetLastError() says next.
cudaError_t said(cudaError_t e) {
    if (e != cudaSuccess) last_error = e;
    return e;
}

#define BEGIN_CALL                   \
    const soft::Call call(__func__); \
    if (call.failure != 0) return said(static_cast<cudaError_t>(call.failure))

/// Programming guide, "Prohibited and unhandled operations" of stream capture: a call that may
/// wait, or memory, ends the capture of this thread.
bool breaks_capture() {
    const auto& capturing = soft::capturing_here();
    if (!capturing) return false;
    capturing->is_capture_invalid = true;
    return true;
}
#define REFUSE_IN_CAPTURE \
    if (breaks_capture()) return said(cudaErrorStreamCaptureUnsupported)

struct Event {
    bool has_timing = true, is_recorded = false;
    std::uint64_t asked = 0, reached = 0;
    double time_s = 0;
    bool has_said_no = false;
    int device = 0;
};
std::set<std::shared_ptr<Event>>& events() {
    static auto* const all = new std::set<std::shared_ptr<Event>>;
    return *all;
}
std::shared_ptr<Event> event_of(cudaEvent_t handle) {
    for (const auto& e : events())
        if (e.get() == reinterpret_cast<Event*>(handle)) return e;
    return nullptr;
}

bool is_over(const Stream& s) { return s.operations.empty(); }

/// Programming guide, "Default stream": it does not wait for streams that are not blocking.
void wait_for_null_stream(const char* who) {
    const auto null = soft::stream_of(nullptr);
    soft::run_alone(*null);
    soft::progress_until([&] { return is_over(*null); }, who);
}

struct Copy {
    void* to;
    const void* from;
    std::size_t bytes;
};
/// The devices at both ends must be what the kind says.
cudaError_t check_copy(const Copy& c, cudaMemcpyKind kind) {
    const bool to_device = soft::device_of(c.to, c.bytes, "a copy to") >= 0,
               from_device = soft::device_of(c.from, c.bytes, "a copy from") >= 0;
    const auto is = [&](cudaMemcpyKind k, bool to, bool from) {
        return kind == k && to_device == to && from_device == from;
    };
    const bool good = is(cudaMemcpyHostToDevice, true, false) ||
                      is(cudaMemcpyDeviceToHost, false, true) ||
                      is(cudaMemcpyDeviceToDevice, true, true) ||
                      is(cudaMemcpyHostToHost, false, false) || kind == cudaMemcpyDefault;
    return good ? cudaSuccess : cudaErrorInvalidMemcpyDirection;
}

Operation copying(const Copy& c, double slowness = 1) {
    Operation copy{"a copy", slowness * soft::seconds_of_bytes(static_cast<double>(c.bytes)),
                   [c](Stream&) {
                       (void)soft::device_of(c.to, c.bytes, "a copy to");
                       (void)soft::device_of(c.from, c.bytes, "a copy from");
                       std::memmove(c.to, c.from, c.bytes);
                       return true;
                   }};
    copy.computes = false;
    return copy;
}

}  // namespace

namespace soft {
int current_device() { return this_device; }
void set_last_error(cudaError_t e) { said(e); }
}  // namespace soft

extern "C" {

// ---- 6.1 devices --------------------------------------------------------------------------------

cudaError_t cudaGetDeviceCount(int* count) {
    BEGIN_CALL;
    *count = soft::device_count();
    return *count > 0 ? cudaSuccess : said(cudaErrorNoDevice);
}
cudaError_t cudaGetDevice(int* device) {
    BEGIN_CALL;
    *device = this_device;
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
    BEGIN_CALL;
    if (device < 0 || device >= soft::device_count()) return said(cudaErrorInvalidDevice);
    this_device = device;
    return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int device) {
    BEGIN_CALL;
    if (device < 0 || device >= soft::device_count()) return said(cudaErrorInvalidDevice);
    *p = {};
    const char* name = std::getenv("ARENA_SOFT_NAME");
    std::snprintf(p->name, sizeof p->name, "%s", name != nullptr ? name : "NVIDIA H100 80GB HBM3");
    for (int i = 0; i < 16; ++i) p->uuid.bytes[i] = static_cast<char>(16 * device + i);
    const auto capability = soft::setting("ARENA_SOFT_CAPABILITY", 90);
    p->major = static_cast<int>(capability / 10), p->minor = static_cast<int>(capability % 10);
    p->totalGlobalMem = soft::memory_bytes();
    p->l2CacheSize = static_cast<int>(soft::setting("ARENA_SOFT_L2_KIB", 256)) << 10;
    p->multiProcessorCount = 1, p->warpSize = 32, p->maxThreadsPerBlock = 1024;
    p->pciBusID = device + 1;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
    BEGIN_CALL;
    if (device < 0 || device >= soft::device_count()) return said(cudaErrorInvalidDevice);
    if (length < 13) return said(cudaErrorInvalidValue);
    std::snprintf(text, static_cast<std::size_t>(length), "0000:%02X:00.0", device + 1);
    return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
    BEGIN_CALL;
    *version = 13000;
    return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
    BEGIN_CALL;
    REFUSE_IN_CAPTURE;
    soft::progress_until_idle(this_device, __func__);
    return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
    BEGIN_CALL;
    const int count = soft::device_count();
    if (device < 0 || device >= count || peer < 0 || peer >= count)
        return said(cudaErrorInvalidDevice);
    *can = device != peer ? 1 : 0;
    return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
    BEGIN_CALL;
    static std::set<std::pair<int, int>> enabled;
    if (peer < 0 || peer >= soft::device_count() || peer == this_device)
        return said(cudaErrorInvalidDevice);
    if (flags != 0) return said(cudaErrorInvalidValue);
    return enabled.insert({this_device, peer}).second ? cudaSuccess
                                                      : said(cudaErrorPeerAccessAlreadyEnabled);
}

// ---- 6.3 errors ---------------------------------------------------------------------------------

cudaError_t cudaGetLastError() {
    const soft::Call call(__func__);
    const auto e = call.failure != 0 ? static_cast<cudaError_t>(call.failure) : last_error;
    last_error = cudaSuccess;
    return e;
}
const char* cudaGetErrorString(cudaError_t e) {
    switch (e) {
        case cudaSuccess:
            return "no error";
        case cudaErrorMemoryAllocation:
            return "out of memory";
        case cudaErrorNotReady:
            return "device not ready";
        case cudaErrorIllegalAddress:
            return "an illegal memory access was encountered";
        case cudaErrorInvalidResourceHandle:
            return "invalid resource handle";
        case cudaErrorInvalidValue:
            return "invalid argument";
        case cudaErrorInvalidDevice:
            return "invalid device ordinal";
        case cudaErrorNoDevice:
            return "no CUDA-capable device is detected";
        case cudaErrorInvalidConfiguration:
            return "invalid configuration argument";
        case cudaErrorStreamCaptureUnsupported:
            return "operation not permitted when stream is capturing";
        case cudaErrorStreamCaptureInvalidated:
            return "operation failed due to a previous error during capture";
        default:
            return "an error of the software device";
    }
}

// ---- 6.11, 6.12 memory --------------------------------------------------------------------------

cudaError_t cudaMalloc(void** p, std::size_t bytes) {
    BEGIN_CALL;
    REFUSE_IN_CAPTURE;
    if (p == nullptr) return said(cudaErrorInvalidValue);
    *p = nullptr;
    if (bytes == 0) return cudaSuccess;
    void* const made = soft::allocate(this_device, bytes, "cudaMalloc");
    if (made == nullptr) return said(cudaErrorMemoryAllocation);
    *p = made;
    return cudaSuccess;
}
/// Waits for the device, as every release of CUDA has done: for ever, where it waits for a rank
/// that is gone.
cudaError_t cudaFree(void* p) {
    BEGIN_CALL;
    if (p == nullptr) return cudaSuccess;
    REFUSE_IN_CAPTURE;
    soft::progress_until_idle(soft::device_of(p, 0, __func__), __func__);
    return soft::release(p) ? cudaSuccess : said(cudaErrorInvalidValue);
}
cudaError_t cudaMallocHost(void** p, std::size_t bytes) {
    BEGIN_CALL;
    REFUSE_IN_CAPTURE;
    *p = soft::allocate_pinned(bytes);
    return cudaSuccess;
}
cudaError_t cudaFreeHost(void* p) {
    BEGIN_CALL;
    for (bool any = true; any;) any = soft::progress();
    return p == nullptr || soft::release_pinned(p) ? cudaSuccess : said(cudaErrorInvalidValue);
}
/// 6.9 Memory management: memory that is registered already, or is none of it, is refused.
cudaError_t cudaHostRegister(void* p, std::size_t bytes, unsigned flags) {
    BEGIN_CALL;
    if (p == nullptr || bytes == 0 || flags != cudaHostRegisterDefault)
        return said(cudaErrorInvalidValue);
    return soft::pin(p, bytes) ? cudaSuccess : said(cudaErrorHostMemoryAlreadyRegistered);
}
cudaError_t cudaHostUnregister(void* p) {
    BEGIN_CALL;
    for (bool any = true; any;) any = soft::progress();
    return soft::unpin(p) ? cudaSuccess : said(cudaErrorHostMemoryNotRegistered);
}
cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total) {
    BEGIN_CALL;
    *free_bytes = soft::free_bytes(this_device);
    *total = soft::memory_bytes();
    return cudaSuccess;
}
/// The pool is the device's; what it keeps is not counted.
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
    BEGIN_CALL;
    *pool = reinterpret_cast<cudaMemPool_t>(std::uintptr_t{0x100} + static_cast<unsigned>(device));
    return cudaSuccess;
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr attribute, void*) {
    BEGIN_CALL;
    if (attribute != cudaMemPoolAttrReleaseThreshold)
        soft::fault("a pool attribute not known here");
    return cudaSuccess;
}
cudaError_t cudaMallocAsync(void** p, std::size_t bytes, cudaStream_t stream) {
    BEGIN_CALL;
    if (!soft::stream_of(stream)) return said(cudaErrorInvalidResourceHandle);
    *p = bytes == 0 ? nullptr : soft::allocate(this_device, bytes, "cudaMallocAsync");
    return *p != nullptr || bytes == 0 ? cudaSuccess : said(cudaErrorMemoryAllocation);
}
cudaError_t cudaFreeAsync(void* p, cudaStream_t stream) {
    BEGIN_CALL;
    if (soft::device_of(p, 0, "cudaFreeAsync") < 0) return said(cudaErrorInvalidValue);
    return said(soft::enqueue(stream, {"cudaFreeAsync", 0, [p](Stream&) {
                                           if (!soft::release(p)) soft::fault("freed twice");
                                           return true;
                                       }}));
}

/// 2 API synchronization behavior. A copy from pageable memory is staged before the call returns;
/// one to pageable memory returns when it is complete.
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
    BEGIN_CALL;
    const auto s = soft::stream_of(stream);
    if (!s) return said(cudaErrorInvalidResourceHandle);
    if (bytes == 0) return cudaSuccess;
    const Copy c{to, from, bytes};
    if (const auto e = check_copy(c, kind); e != cudaSuccess) return said(e);
    const bool to_host = soft::device_of(to, bytes, "a copy") < 0,
               from_host = soft::device_of(from, bytes, "a copy") < 0;
    if (from_host && !soft::is_pinned(from, bytes)) {
        if (s->capture) return breaks_capture(), said(cudaErrorStreamCaptureUnsupported);
        const auto* const begin = static_cast<const std::byte*>(from);
        const auto staged = std::make_shared<std::vector<std::byte>>(begin, begin + bytes);
        return said(soft::enqueue(
            stream,
            {"a copy", soft::seconds_of_bytes(static_cast<double>(bytes)), [to, staged](Stream&) {
                 (void)soft::device_of(to, staged->size(), "a copy to");
                 std::memcpy(to, staged->data(), staged->size());
                 return true;
             }}));
    }
    if (to_host && !soft::is_pinned(to, bytes) && s->capture)
        return breaks_capture(), said(cudaErrorStreamCaptureUnsupported);
    const auto e = soft::enqueue(stream, copying(c));
    if (e != cudaSuccess || !to_host || soft::is_pinned(to, bytes)) return said(e);
    soft::run_alone(*s);
    soft::progress_until([&] { return is_over(*s); }, "a copy to pageable memory");
    return said(e);
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
    BEGIN_CALL;
    REFUSE_IN_CAPTURE;
    if (bytes == 0) return cudaSuccess;
    const Copy c{to, from, bytes};
    if (const auto e = check_copy(c, kind); e != cudaSuccess) return said(e);
    const auto e = soft::enqueue(nullptr, copying(c));
    if (e == cudaSuccess) wait_for_null_stream("cudaMemcpy");
    return said(e);
}
cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device,
                                std::size_t bytes, cudaStream_t stream) {
    BEGIN_CALL;
    if (soft::device_of(to, bytes, "a peer copy to") != to_device ||
        soft::device_of(from, bytes, "a peer copy from") != from_device)
        return said(cudaErrorInvalidValue);
    return said(soft::enqueue(
        stream, copying({to, from, bytes}, soft::slowness_of_link(from_device, to_device))));
}
cudaError_t cudaMemsetAsync(void* p, int value, std::size_t bytes, cudaStream_t stream) {
    BEGIN_CALL;
    if (bytes == 0) return cudaSuccess;
    if (soft::device_of(p, bytes, "cudaMemset") < 0) return said(cudaErrorInvalidValue);
    return said(soft::enqueue(
        stream, {"cudaMemset", soft::seconds_of_bytes(static_cast<double>(bytes)), [=](Stream&) {
                     (void)soft::device_of(p, bytes, "cudaMemset");
                     std::memset(p, value, bytes);
                     return true;
                 }}));
}
/// 2 API synchronization behavior: asynchronous for device memory, on the null stream.
cudaError_t cudaMemset(void* p, int value, std::size_t bytes) {
    return cudaMemsetAsync(p, value, bytes, nullptr);
}

// ---- 6.4 streams --------------------------------------------------------------------------------

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
    BEGIN_CALL;
    if (flags != cudaStreamNonBlocking && flags != cudaStreamDefault)
        return said(cudaErrorInvalidValue);
    *stream = soft::new_stream(flags == cudaStreamDefault);
    return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    BEGIN_CALL;
    return soft::drop_stream(stream) ? cudaSuccess : said(cudaErrorInvalidResourceHandle);
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    BEGIN_CALL;
    const auto s = soft::stream_of(stream);
    if (!s) return said(cudaErrorInvalidResourceHandle);
    if (s->capture) return s->is_capture_invalid = true, said(cudaErrorStreamCaptureUnsupported);
    soft::run_alone(*s);
    soft::progress_until([&] { return is_over(*s); }, __func__);
    return cudaSuccess;
}
/// Says "not ready" once before it lets anything run.
cudaError_t cudaStreamQuery(cudaStream_t stream) {
    BEGIN_CALL;
    const auto s = soft::stream_of(stream);
    if (!s) return said(cudaErrorInvalidResourceHandle);
    if (s->capture) return s->is_capture_invalid = true, said(cudaErrorStreamCaptureUnsupported);
    if (std::exchange(s->has_said_no, true)) soft::progress_or_pause();
    return is_over(*s) ? cudaSuccess : said(cudaErrorNotReady);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t handle, unsigned) {
    BEGIN_CALL;
    const auto e = event_of(handle);
    if (!e) return said(cudaErrorInvalidResourceHandle);
    if (e->asked == 0) return cudaSuccess;  // 6.5: not recorded, nothing to wait for
    return said(soft::enqueue(stream, {"a wait", 0,
                                       [e, until = e->asked](Stream& s) {
                                           if (e->reached < until) return false;
                                           s.clock_s = std::max(s.clock_s, e->time_s);
                                           return true;
                                       },
                                       false}));
}

// ---- 6.5 events ---------------------------------------------------------------------------------

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
    BEGIN_CALL;
    const auto made = std::make_shared<Event>();
    made->has_timing = (flags & cudaEventDisableTiming) == 0;
    made->device = this_device;
    events().insert(made);
    soft::alive("events", 1);
    *event = reinterpret_cast<cudaEvent_t>(made.get());
    return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
    BEGIN_CALL;
    const auto e = event_of(event);
    if (!e) return said(cudaErrorInvalidResourceHandle);
    events().erase(e);
    soft::alive("events", -1);
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream) {
    BEGIN_CALL;
    const auto e = event_of(handle);
    const auto s = soft::stream_of(stream);
    if (!e || !s || e->device != s->device) return said(cudaErrorInvalidResourceHandle);
    e->has_said_no = false;
    return said(soft::enqueue(stream, {"an event", 0,
                                       [e, mark = ++e->asked](Stream& at) {
                                           e->reached = mark;
                                           e->time_s = at.clock_s;
                                           return true;
                                       },
                                       false}));
}
cudaError_t cudaEventQuery(cudaEvent_t handle) {
    BEGIN_CALL;
    const auto e = event_of(handle);
    if (!e) return said(cudaErrorInvalidResourceHandle);
    if (std::exchange(e->has_said_no, true)) soft::progress_or_pause();
    return e->reached == e->asked ? cudaSuccess : said(cudaErrorNotReady);
}
cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
    BEGIN_CALL;
    const auto e = event_of(handle);
    if (!e) return said(cudaErrorInvalidResourceHandle);
    REFUSE_IN_CAPTURE;
    soft::progress_until([&] { return e->reached == e->asked; }, __func__);
    return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t begin, cudaEvent_t end) {
    BEGIN_CALL;
    const auto b = event_of(begin), e = event_of(end);
    if (!b || !e || b->asked == 0 || e->asked == 0 || !b->has_timing || !e->has_timing)
        return said(cudaErrorInvalidResourceHandle);
    if (b->reached != b->asked || e->reached != e->asked) return said(cudaErrorNotReady);
    *ms = static_cast<float>((e->time_s - b->time_s) * 1e3);
    return cudaSuccess;
}

// ---- 6.30 graphs --------------------------------------------------------------------------------

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
    BEGIN_CALL;
    const auto s = soft::stream_of(stream);
    if (!s || stream == nullptr) return said(cudaErrorStreamCaptureUnsupported);
    if (mode != cudaStreamCaptureModeThreadLocal) soft::fault("a capture mode not known here");
    if (s->capture) return said(cudaErrorIllegalState);
    s->capture = std::make_unique<soft::Graph>();
    s->is_capture_invalid = false;
    soft::capturing_here() = s;
    return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
    const soft::Call call(__func__);
    const auto s = soft::stream_of(stream);
    if (!s || !s->capture) return said(cudaErrorIllegalState);
    soft::capturing_here() = nullptr;
    *graph = nullptr;
    const auto captured = std::move(s->capture);
    if (call.failure != 0) return said(static_cast<cudaError_t>(call.failure));
    if (s->is_capture_invalid) return said(cudaErrorStreamCaptureInvalidated);
    soft::alive("graphs", 1);
    *graph = reinterpret_cast<cudaGraph_t>(new soft::Graph(*captured));
    return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long) {
    BEGIN_CALL;
    soft::alive("executable graphs", 1);
    *made =
        reinterpret_cast<cudaGraphExec_t>(new soft::Graph(*reinterpret_cast<soft::Graph*>(graph)));
    return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    BEGIN_CALL;
    soft::alive("graphs", -1);
    delete reinterpret_cast<soft::Graph*>(graph);
    return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
    BEGIN_CALL;
    soft::alive("executable graphs", -1);
    delete reinterpret_cast<soft::Graph*>(graph);
    return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
    BEGIN_CALL;
    for (const Operation& o : reinterpret_cast<soft::Graph*>(graph)->operations)
        if (const auto e = soft::enqueue(stream, o); e != cudaSuccess) return said(e);
    return cudaSuccess;
}

}  // extern "C"
