// SPDX-License-Identifier: GPL-2.0-or-later
// libcudnn: the descriptors of the graph API that our code makes, as the cuDNN 9 "Graph Library"
// reference lists them: the type of each attribute, those that must be set before finalize(), and
// that a descriptor given to another is final. Any valid graph of the operations that cudnn_run.cc
// knows has engines here: which patterns real engines take is not checked.
#include "tests/cuda/cudnn.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <set>

namespace soft {

bool Backend::has(cudnnBackendAttributeName_t name) const {
    return values.contains(name) || parts.contains(name);
}
const Backend& Backend::part(cudnnBackendAttributeName_t name) const {
    return *parts.at(name).front();
}

namespace {

std::map<void*, std::shared_ptr<Backend>>& backends() {
    static auto* const all = new std::map<void*, std::shared_ptr<Backend>>;
    return *all;
}
std::shared_ptr<Backend> backend_of(void* handle) {
    const auto found = backends().find(handle);
    return found == backends().end() ? nullptr : found->second;
}

struct Handle {
    cudaStream_t stream = nullptr;
    int device = 0;
};

/// Of each attribute: whose it is, its type, whether it must be set.
struct Rule {
    cudnnBackendDescriptorType_t of;
    cudnnBackendAttributeName_t name;
    cudnnBackendAttributeType_t type;
    bool must;
};
#define TENSOR CUDNN_BACKEND_TENSOR_DESCRIPTOR
#define CONVOLUTION CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR
#define FORWARD CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR
#define BWD_DATA CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR
#define BWD_FILTER CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR
#define POINTWISE CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR
#define MATMUL CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR
#define REDUCTION CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR
#define RESHAPE CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR
#define GRAPH CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR
#define HEURISTIC CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR
#define PLAN CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR
#define PACK CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR
#define PART CUDNN_TYPE_BACKEND_DESCRIPTOR
const Rule rules[] = {
    {TENSOR, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, true},
    {TENSOR, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, true},
    {TENSOR, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, true},
    {TENSOR, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, true},
    {TENSOR, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, true},
    {TENSOR, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, false},
    {TENSOR, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, false},
    {TENSOR, CUDNN_ATTR_TENSOR_REORDERING_MODE, CUDNN_TYPE_TENSOR_REORDERING_MODE, false},
    {CUDNN_BACKEND_POINTWISE_DESCRIPTOR, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE,
     true},
    {CUDNN_BACKEND_POINTWISE_DESCRIPTOR, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE,
     true},
    {CUDNN_BACKEND_POINTWISE_DESCRIPTOR, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, false},
    {POINTWISE, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, PART, true},
    {POINTWISE, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, PART, true},
    {POINTWISE, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, PART, false},
    {POINTWISE, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, PART, false},
    {POINTWISE, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, PART, true},
    {CUDNN_BACKEND_MATMUL_DESCRIPTOR, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, true},
    {MATMUL, CUDNN_ATTR_OPERATION_MATMUL_ADESC, PART, true},
    {MATMUL, CUDNN_ATTR_OPERATION_MATMUL_BDESC, PART, true},
    {MATMUL, CUDNN_ATTR_OPERATION_MATMUL_CDESC, PART, true},
    {MATMUL, CUDNN_ATTR_OPERATION_MATMUL_DESC, PART, true},
    {CUDNN_BACKEND_REDUCTION_DESCRIPTOR, CUDNN_ATTR_REDUCTION_OPERATOR,
     CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, true},
    {CUDNN_BACKEND_REDUCTION_DESCRIPTOR, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE,
     true},
    {REDUCTION, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, PART, true},
    {REDUCTION, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, PART, true},
    {REDUCTION, CUDNN_ATTR_OPERATION_REDUCTION_DESC, PART, true},
    {RESHAPE, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, PART, true},
    {RESHAPE, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, PART, true},
    {CONVOLUTION, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, true},
    {CONVOLUTION, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, true},
    {CONVOLUTION, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, true},
    {CONVOLUTION, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, true},
    {CONVOLUTION, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, true},
    {CONVOLUTION, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, true},
    {CONVOLUTION, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, true},
    {FORWARD, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, PART, true},
    {FORWARD, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, PART, true},
    {FORWARD, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, PART, true},
    {FORWARD, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, PART, true},
    {FORWARD, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, true},
    {FORWARD, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, true},
    {BWD_DATA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, PART, true},
    {BWD_DATA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, PART, true},
    {BWD_DATA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, PART, true},
    {BWD_DATA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, PART, true},
    {BWD_DATA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, CUDNN_TYPE_FLOAT, true},
    {BWD_DATA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, CUDNN_TYPE_FLOAT, true},
    {BWD_FILTER, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, PART, true},
    {BWD_FILTER, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, PART, true},
    {BWD_FILTER, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, PART, true},
    {BWD_FILTER, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, PART, true},
    {BWD_FILTER, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, CUDNN_TYPE_FLOAT, true},
    {BWD_FILTER, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, CUDNN_TYPE_FLOAT, true},
    {GRAPH, CUDNN_ATTR_OPERATIONGRAPH_OPS, PART, true},
    {GRAPH, static_cast<cudnnBackendAttributeName_t>(800), CUDNN_TYPE_HANDLE, false},
    {HEURISTIC, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, PART, true},
    {HEURISTIC, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, true},
    {PLAN, static_cast<cudnnBackendAttributeName_t>(400), CUDNN_TYPE_HANDLE, false},
    {PLAN, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, PART, true},
    {PACK, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, true},
    {PACK, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, true},
    {PACK, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, true},
};

std::size_t size_of(cudnnBackendAttributeType_t type) {
    switch (type) {
        case CUDNN_TYPE_BOOLEAN:
            return sizeof(bool);
        case CUDNN_TYPE_INT64:
            return sizeof(std::int64_t);
        case CUDNN_TYPE_VOID_PTR:
        case CUDNN_TYPE_HANDLE:
        case CUDNN_TYPE_BACKEND_DESCRIPTOR:
            return sizeof(void*);
        default:
            return 4;  // enumerations, float
    }
}

const Rule* rule_of(cudnnBackendDescriptorType_t type, cudnnBackendAttributeName_t name) {
    for (const Rule& r : rules)
        if (r.of == type && r.name == name) return &r;
    return nullptr;
}

thread_local std::string last_words;
cudnnStatus_t say(cudnnStatus_t s, std::string words) {
    last_words = std::move(words);
    return s;
}

#define BEGIN_CALL                   \
    const soft::Call call(__func__); \
    if (call.failure != 0) return say(static_cast<cudnnStatus_t>(call.failure), "injected")

cudnnStatus_t check_tensor(const Backend& t) {
    const auto sizes = t.all<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
    if (sizes.size() != t.all<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES).size())
        return say(CUDNN_STATUS_BAD_PARAM, "as many strides as dimensions");
    for (const auto n : sizes)
        if (n < 1) return say(CUDNN_STATUS_BAD_PARAM, "a dimension below 1");
    return CUDNN_STATUS_SUCCESS;
}

/// The engine of fp32 on tensor cores first, which is faster and rounds; then one that does not.
constexpr int engines = 2;
bool rounds(int engine) { return engine == 0; }

const Backend& graph_of(const Backend& config) {
    return config.part(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
}

/// ENGINEHEUR_RESULTS: fills configurations that the caller made.
cudnnStatus_t give_results(const Backend& heuristic, std::int64_t wanted, std::int64_t* count,
                           void* array) {
    auto* const handles = static_cast<cudnnBackendDescriptor_t*>(array);
    *count = 0;
    for (int e = 0; e < engines && *count < wanted; ++e) {
        const auto config = backend_of(handles[*count]);
        if (!config || config->type != CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)
            return say(CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE, "no engine configuration");
        config->is_final = true;
        config->engine = e;
        config->parts = heuristic.parts;
        ++*count;
    }
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t give_notes(const Backend& engine, std::int64_t wanted, std::int64_t* count,
                         void* array) {
    const std::vector<cudnnBackendNumericalNote_t> notes =
        rounds(engine.engine) ? std::vector{CUDNN_NUMERICAL_NOTE_TENSOR_CORE,
                                            CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS}
                              : std::vector{CUDNN_NUMERICAL_NOTE_FFT};
    *count = std::min<std::int64_t>(wanted, static_cast<std::int64_t>(notes.size()));
    std::copy_n(notes.begin(), *count, static_cast<cudnnBackendNumericalNote_t*>(array));
    return CUDNN_STATUS_SUCCESS;
}

/// Checks what execute() is given, and keeps scalars as they are now.
cudnnStatus_t bind(const Backend& graph, const Backend& pack, int device, Bindings* bound) {
    const auto ids = pack.all<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    const auto pointers = pack.all<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
    if (ids.size() != pointers.size()) return say(CUDNN_STATUS_BAD_PARAM, "pointers per number");
    std::map<std::int64_t, void*> by_id;
    for (std::size_t i = 0; i < ids.size(); ++i)
        if (!by_id.emplace(ids[i], pointers[i]).second)
            return say(CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES, "a number twice");
    for (const Backend* t : tensors_of(graph)) {
        const auto id = t->one<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
        const auto found = by_id.find(id);
        if (found == by_id.end() || found->second == nullptr)
            return say(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no pointer of a tensor");
        void* const p = found->second;
        if (t->one<bool>(CUDNN_ATTR_TENSOR_IS_BY_VALUE)) {
            if (device_of(p, sizeof(float), "a scalar") >= 0)
                fault("cuDNN: a scalar by value lies in device memory");
            bound->scalars[id] = *static_cast<const float*>(p);
            continue;
        }
        const auto alignment = t->one<std::int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
        if (reinterpret_cast<std::uintptr_t>(p) % static_cast<std::uintptr_t>(alignment) != 0)
            return say(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, "a tensor is not aligned");
        if (device_of(p, static_cast<std::size_t>(bytes_of_tensor(*t)), "cuDNN's tensor") != device)
            fault("cuDNN: a tensor is not on the handle's device");
        bound->pointers[id] = p;
    }
    return CUDNN_STATUS_SUCCESS;
}

}  // namespace
}  // namespace soft

using namespace soft;

extern "C" {

std::size_t cudnnGetVersion() { return CUDNN_VERSION; }
const char* cudnnGetErrorString(cudnnStatus_t s) {
    if (s == CUDNN_STATUS_SUCCESS) return "CUDNN_STATUS_SUCCESS";
    if (s >= CUDNN_STATUS_EXECUTION_FAILED) return "CUDNN_STATUS_EXECUTION_FAILED";
    if (s >= CUDNN_STATUS_INTERNAL_ERROR) return "CUDNN_STATUS_INTERNAL_ERROR";
    if (s >= CUDNN_STATUS_NOT_SUPPORTED) return "CUDNN_STATUS_NOT_SUPPORTED";
    return s >= CUDNN_STATUS_BAD_PARAM ? "CUDNN_STATUS_BAD_PARAM" : "CUDNN_STATUS_NOT_INITIALIZED";
}
void cudnnGetLastErrorString(char* text, std::size_t most) {
    std::snprintf(text, most, "%s", last_words.c_str());
}
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
    BEGIN_CALL;
    alive("cuDNN handles", 1);
    *handle = reinterpret_cast<cudnnHandle_t>(new Handle{nullptr, current_device()});
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
    BEGIN_CALL;
    alive("cuDNN handles", -1);
    delete reinterpret_cast<Handle*>(handle);
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
    BEGIN_CALL;
    auto* const h = reinterpret_cast<Handle*>(handle);
    const auto s = stream_of(stream);
    if (!s || s->device != h->device)
        return say(CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH, "a stream of another device");
    h->stream = stream;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* made) {
    BEGIN_CALL;
    const auto d = std::make_shared<Backend>();
    d->type = type;
    backends()[d.get()] = d;
    alive("cuDNN descriptors", 1);
    *made = d.get();
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t handle) {
    BEGIN_CALL;
    if (backends().erase(handle) == 0) return say(CUDNN_STATUS_BAD_PARAM, "no descriptor");
    alive("cuDNN descriptors", -1);
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t handle,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t count,
                                       const void* array) {
    BEGIN_CALL;
    const auto d = backend_of(handle);
    if (!d) return say(CUDNN_STATUS_BAD_PARAM, "no descriptor");
    if (d->is_final) return say(CUDNN_STATUS_BAD_PARAM, "the descriptor is final");
    const Rule* const rule = rule_of(d->type, name);
    if (rule == nullptr)
        fault("cuDNN: attribute " + std::to_string(name) + " of descriptor type " +
              std::to_string(d->type) + " is not known here");
    if (rule->type != type) return say(CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE, "attribute type");
    if (array == nullptr || count < 1) return say(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "nothing");
    const auto* const bytes = static_cast<const std::byte*>(array);
    if (type != CUDNN_TYPE_BACKEND_DESCRIPTOR) {
        d->values[name].assign(bytes, bytes + static_cast<std::size_t>(count) * size_of(type));
        return CUDNN_STATUS_SUCCESS;
    }
    auto& list = d->parts[name];
    list.clear();
    for (std::int64_t i = 0; i < count; ++i) {
        const auto part = backend_of(static_cast<const cudnnBackendDescriptor_t*>(array)[i]);
        if (!part || !part->is_final)
            return say(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "a part is not final");
        list.push_back(part);
    }
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t handle) {
    BEGIN_CALL;
    const auto d = backend_of(handle);
    if (!d) return say(CUDNN_STATUS_BAD_PARAM, "no descriptor");
    for (const Rule& r : rules)
        if (r.of == d->type && r.must && !d->has(r.name))
            return say(CUDNN_STATUS_BAD_PARAM,
                       "attribute " + std::to_string(r.name) + " is not set");
    if (d->type == TENSOR)
        if (const auto s = check_tensor(*d); s != CUDNN_STATUS_SUCCESS) return s;
    if (d->type == GRAPH)
        if (const auto s = check_graph(*d); s != CUDNN_STATUS_SUCCESS)
            return say(s, "the graph's shapes or types");
    if (d->type == PLAN) {
        d->engine = d->part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG).engine;
        d->workspace = rounds(d->engine) ? 1 << 20 : 0;
    }
    d->is_final = true;
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t handle,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t wanted,
                                       std::int64_t* count, void* array) {
    BEGIN_CALL;
    const auto d = backend_of(handle);
    if (!d) return say(CUDNN_STATUS_BAD_PARAM, "no descriptor");
    if (!d->is_final) return say(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "not final");
    if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS && type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
        return give_results(*d, wanted, count, array);
    if (name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE && type == CUDNN_TYPE_NUMERICAL_NOTE)
        return give_notes(*d, wanted, count, array);
    if (name == CUDNN_ATTR_ENGINECFG_ENGINE && type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
        const auto engine = backend_of(*static_cast<cudnnBackendDescriptor_t*>(array));
        if (!engine || engine->type != CUDNN_BACKEND_ENGINE_DESCRIPTOR)
            return say(CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE, "no engine");
        engine->engine = d->engine, engine->is_final = true, *count = 1;
        return CUDNN_STATUS_SUCCESS;
    }
    if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE && type == CUDNN_TYPE_INT64) {
        *static_cast<std::int64_t*>(array) = d->workspace, *count = 1;
        return CUDNN_STATUS_SUCCESS;
    }
    fault("cuDNN: asked for attribute " + std::to_string(name) + ", which is not known here");
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan_handle,
                                  cudnnBackendDescriptor_t pack_handle) {
    BEGIN_CALL;
    const auto plan = backend_of(plan_handle), pack = backend_of(pack_handle);
    if (!plan || !pack || !plan->is_final || !pack->is_final)
        return say(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "plan or pointers are not final");
    const auto& h = *reinterpret_cast<Handle*>(handle);
    const Backend& graph = graph_of(plan->part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG));
    Bindings bound;
    if (const auto s = bind(graph, *pack, h.device, &bound); s != CUDNN_STATUS_SUCCESS) return s;
    void* const workspace = pack->one<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
    const auto bytes = static_cast<std::size_t>(plan->workspace);
    if (bytes > 0 && device_of(workspace, bytes, "cuDNN's workspace") != h.device)
        return say(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no workspace");
    const auto e = enqueue(h.stream, {"cuDNN's graph", seconds_of_flops(flops_of(graph), 0),
                                      [plan, bound, workspace, bytes](Stream&) {
                                          const Backend& g = graph_of(
                                              plan->part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG));
                                          if (bytes > 0) std::memset(workspace, 0xff, bytes);
                                          run_graph(g, bound, rounds(plan->engine));
                                          return true;
                                      }});
    return e == cudaSuccess ? CUDNN_STATUS_SUCCESS
                            : say(CUDNN_STATUS_EXECUTION_FAILED, "the stream is gone");
}

}  // extern "C"
