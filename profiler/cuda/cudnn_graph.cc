// SPDX-License-Identifier: GPL-2.0-or-later
// See cudnn_graph.h. Attribute names and types as in the cuDNN back-end API reference.
#include "profiler/cuda/cudnn_graph.h"

#include <algorithm>
#include <array>

namespace arena::cuda {
namespace {

constexpr std::int64_t alignment = 16;
constexpr std::size_t most_engines = 32;

bool is_unsupported(cudnnStatus_t s) {
    return s >= CUDNN_STATUS_NOT_SUPPORTED && s < CUDNN_STATUS_INTERNAL_ERROR;
}

std::vector<cudnnBackendDescriptor_t> handles_of(
    const std::vector<std::shared_ptr<Descriptor>>& all) {
    std::vector<cudnnBackendDescriptor_t> handles;
    for (const auto& d : all) handles.push_back(d->get());
    return handles;
}

/// Whether an engine rounds the inputs of fp32 to tf32.
bool rounds_inputs(const Descriptor& config) {
    const Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    cudnnBackendDescriptor_t handle = engine.get();
    std::int64_t count = 0;
    check(cudnnBackendGetAttribute(config.get(), CUDNN_ATTR_ENGINECFG_ENGINE,
                                   CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &handle),
          "engine");
    std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes{};
    check(cudnnBackendGetAttribute(engine.get(), CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                   CUDNN_TYPE_NUMERICAL_NOTE,
                                   static_cast<std::int64_t>(notes.size()), &count, notes.data()),
          "numerical notes");
    const auto end =
        notes.begin() + std::clamp<std::int64_t>(count, 0, static_cast<std::int64_t>(notes.size()));
    return std::any_of(notes.begin(), end, [](auto note) {
        return note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE ||
               note == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS;
    });
}

/// What the heuristic proposes, best first.
std::vector<std::shared_ptr<Descriptor>> propose(const Descriptor& graph,
                                                 cudnnBackendHeurMode_t mode) {
    Descriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    heuristic.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
    heuristic.finalize("heuristic");
    std::vector<std::shared_ptr<Descriptor>> configs;
    for (std::size_t i = 0; i < most_engines; ++i)
        configs.push_back(std::make_shared<Descriptor>(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
    auto handles = handles_of(configs);
    std::int64_t count = 0;
    check(cudnnBackendGetAttribute(
              heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
              static_cast<std::int64_t>(handles.size()), &count, handles.data()),
          "engines");
    configs.resize(static_cast<std::size_t>(std::clamp<std::int64_t>(count, 0, most_engines)));
    return configs;
}

}  // namespace

void check(cudnnStatus_t s, const char* doing) {
    if (s == CUDNN_STATUS_SUCCESS) return;
    std::array<char, 256> last{};
    cudnnGetLastErrorString(last.data(), last.size());
    std::string text = std::string("cuDNN: ") + doing + ": " + cudnnGetErrorString(s);
    if (last[0] != '\0') text += std::string(": ") + last.data();
    if (is_unsupported(s)) throw Unsupported(text);
    throw std::runtime_error(text);
}

Descriptor::Descriptor(cudnnBackendDescriptorType_t type) {
    cudnnBackendDescriptor_t made = nullptr;
    check(cudnnBackendCreateDescriptor(type, &made), "descriptor");
    handle_.reset(made);
}

void Descriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                     std::int64_t count, const void* values) {
    check(cudnnBackendSetAttribute(get(), name, type, count, values), "attribute");
}

void Descriptor::set(cudnnBackendAttributeName_t name, const Descriptor& other) {
    const cudnnBackendDescriptor_t handle = other.get();
    set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &handle);
}

void Descriptor::set(cudnnBackendAttributeName_t name, const std::vector<std::int64_t>& values) {
    set(name, CUDNN_TYPE_INT64, static_cast<std::int64_t>(values.size()), values.data());
}

void Descriptor::finalize(const char* doing) { check(cudnnBackendFinalize(get()), doing); }

Sizes dense(const Sizes& sizes) {
    Sizes strides(sizes.size(), 1);
    for (std::size_t i = sizes.size(); i > 1; --i) strides[i - 2] = strides[i - 1] * sizes[i - 1];
    return strides;
}

std::shared_ptr<Descriptor> GraphPlan::bind(const Pointers& pointers, void* workspace) const {
    std::vector<std::int64_t> ids;
    std::vector<void*> addresses;
    for (const auto& [id, address] : pointers) {
        ids.push_back(id);
        addresses.push_back(address);
    }
    auto pack = std::make_shared<Descriptor>(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    pack->set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids);
    pack->set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
              static_cast<std::int64_t>(addresses.size()), addresses.data());
    pack->set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace);
    pack->finalize("pointers");
    return pack;
}

void GraphPlan::run(cudnnHandle_t handle, const Descriptor& bound) const {
    check(cudnnBackendExecute(handle, plan_->get(), bound.get()), "execute");
}

GraphTensor GraphBuilder::make(const Sizes& sizes, const Sizes& strides, cudnnDataType_t type,
                               const TensorKind& kind) {
    GraphTensor t{next_id_++, sizes, strides,
                  std::make_shared<Descriptor>(CUDNN_BACKEND_TENSOR_DESCRIPTOR)};
    Descriptor& d = *t.descriptor;
    d.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type);
    d.set(CUDNN_ATTR_TENSOR_DIMENSIONS, sizes);
    d.set(CUDNN_ATTR_TENSOR_STRIDES, strides);
    d.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, t.id);
    d.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, alignment);
    if (kind.is_inner) d.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, true);
    if (kind.is_scalar) d.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, true);
    if (kind.is_accumulator)
        d.set(CUDNN_ATTR_TENSOR_REORDERING_MODE, CUDNN_TYPE_TENSOR_REORDERING_MODE,
              CUDNN_TENSOR_REORDERING_F16x16);
    d.finalize("tensor");
    parts_.push_back(t.descriptor);
    return t;
}

GraphTensor GraphBuilder::tensor(const Sizes& sizes, const Sizes& strides, cudnnDataType_t type) {
    return make(sizes, strides, type, {});
}
GraphTensor GraphBuilder::accumulator(const Sizes& sizes) {
    return make(sizes, dense(sizes), CUDNN_DATA_FLOAT, {false, false, true});
}
GraphTensor GraphBuilder::scalar() {
    return make({1, 1, 1, 1}, {1, 1, 1, 1}, CUDNN_DATA_FLOAT, {false, true, false});
}
GraphTensor GraphBuilder::inner(const Sizes& sizes, const Sizes& strides, cudnnDataType_t type) {
    return make(sizes, strides, type, {true, false, false});
}

GraphTensor GraphBuilder::pointwise(const Pointwise& what, const GraphTensor& x,
                                    const GraphTensor* b, const GraphTensor* t) {
    const GraphTensor y = inner(x.sizes, x.strides, what.result);
    pointwise(what, x, b, t, y);
    return y;
}

void GraphBuilder::pointwise(const Pointwise& what, const GraphTensor& x, const GraphTensor* b,
                             const GraphTensor* t, const GraphTensor& y) {
    const auto how = std::make_shared<Descriptor>(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    how->set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, what.mode);
    how->set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, what.compute);
    if (what.axis >= 0) how->set(CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, what.axis);
    how->finalize("pointwise");
    const auto op = std::make_shared<Descriptor>(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    op->set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, *how);
    op->set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, *x.descriptor);
    if (b != nullptr) op->set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *b->descriptor);
    if (t != nullptr) op->set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, *t->descriptor);
    op->set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, *y.descriptor);
    op->finalize("pointwise operation");
    parts_.push_back(how);
    operations_.push_back(op);
}

void GraphBuilder::matmul(const GraphTensor& a, const GraphTensor& b, const GraphTensor& c) {
    const auto how = std::make_shared<Descriptor>(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    how->set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
    how->finalize("matmul");
    const auto op = std::make_shared<Descriptor>(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    op->set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, *a.descriptor);
    op->set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, *b.descriptor);
    op->set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, *c.descriptor);
    op->set(CUDNN_ATTR_OPERATION_MATMUL_DESC, *how);
    op->finalize("matmul operation");
    parts_.push_back(how);
    operations_.push_back(op);
}

void GraphBuilder::reduce(cudnnReduceTensorOp_t what, const GraphTensor& x, const GraphTensor& y) {
    const auto how = std::make_shared<Descriptor>(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    how->set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, what);
    how->set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
    how->finalize("reduction");
    const auto op = std::make_shared<Descriptor>(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    op->set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, *x.descriptor);
    op->set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, *y.descriptor);
    op->set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, *how);
    op->finalize("reduction operation");
    parts_.push_back(how);
    operations_.push_back(op);
}

void GraphBuilder::reshape(const GraphTensor& x, const GraphTensor& y) {
    const auto op = std::make_shared<Descriptor>(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    op->set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, *x.descriptor);
    op->set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, *y.descriptor);
    op->finalize("reshape operation");
    operations_.push_back(op);
}

namespace {

/// The names of one direction's attributes.
struct ConvolutionNames {
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t how, x, w, y, alpha, beta;
};

ConvolutionNames names_of(GraphBuilder::Convolution direction) {
    switch (direction) {
        case GraphBuilder::Convolution::forward:
            return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
        case GraphBuilder::Convolution::data_gradient:
            return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
        case GraphBuilder::Convolution::weight_gradient:
            break;
    }
    return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
}

}  // namespace

void GraphBuilder::convolution(Convolution direction, const ConvolutionShape& shape,
                               const GraphTensor& x, const GraphTensor& w, const GraphTensor& y) {
    constexpr std::int64_t spatial = 2;
    const auto how = std::make_shared<Descriptor>(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    how->set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
    how->set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE,
             CUDNN_CROSS_CORRELATION);
    how->set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, spatial);
    how->set(CUDNN_ATTR_CONVOLUTION_DILATIONS, Sizes{1, 1});
    how->set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, Sizes{shape.stride, shape.stride});
    how->set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, Sizes{shape.padding, shape.padding});
    how->set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, Sizes{shape.padding, shape.padding});
    how->finalize("convolution");
    const ConvolutionNames names = names_of(direction);
    const float one = 1, zero = 0;
    const auto op = std::make_shared<Descriptor>(names.type);
    op->set(names.how, *how);
    op->set(names.x, *x.descriptor);
    op->set(names.w, *w.descriptor);
    op->set(names.y, *y.descriptor);
    op->set(names.alpha, CUDNN_TYPE_FLOAT, one);
    op->set(names.beta, CUDNN_TYPE_FLOAT, zero);
    op->finalize("convolution operation");
    parts_.push_back(how);
    operations_.push_back(op);
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"  // the handles: older cuDNN 9 wants them
GraphPlan GraphBuilder::build(cudnnHandle_t handle, std::size_t workspace_bytes, bool exact_fp32) {
    Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    const auto operations = handles_of(operations_);
    graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
              static_cast<std::int64_t>(operations.size()), operations.data());
    graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle);
    graph.finalize("graph");
    std::string why = "the heuristic knows no engine";
    for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK})
        for (const auto& config : propose(graph, mode)) try {
                if (exact_fp32 && rounds_inputs(*config)) continue;
                auto plan = std::make_shared<Descriptor>(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
                plan->set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, handle);
                plan->set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, *config);
                plan->finalize("plan");
                std::int64_t needed = 0, count = 0;
                check(
                    cudnnBackendGetAttribute(plan->get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                             CUDNN_TYPE_INT64, 1, &count, &needed),
                    "workspace");
                if (needed >= 0 && static_cast<std::size_t>(needed) <= workspace_bytes)
                    return GraphPlan(std::move(plan), static_cast<std::size_t>(needed));
                why = "its engines need " + std::to_string(needed) + " bytes of workspace";
            } catch (const Unsupported& error) {
                why = error.what();
            }
    throw Unsupported(why);
}
#pragma GCC diagnostic pop

}  // namespace arena::cuda
