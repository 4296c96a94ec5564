// SPDX-License-Identifier: GPL-2.0-or-later
// cuDNN's graph API (backend descriptors) as far as attention and convolution need it: tensors,
// operations, the engine that the heuristic puts first, execution. NVIDIA's C++ front-end does the
// same; what graph an engine recognises is taken from there.
#pragma once

#include <cudnn.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "profiler/cuda/cuda_gemm.h"

namespace arena::cuda {

/// Throws std::runtime_error with cuDNN's words; Unsupported where it says that it does not support
/// something.
void check(cudnnStatus_t, const char* doing);

/// One backend descriptor, destroyed with it.
class Descriptor {
  public:
    explicit Descriptor(cudnnBackendDescriptorType_t);
    void set(cudnnBackendAttributeName_t, cudnnBackendAttributeType_t, std::int64_t count,
             const void* values);
    template <typename T>
    void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const T& value) {
        set(name, type, 1, &value);
    }
    void set(cudnnBackendAttributeName_t, const Descriptor&);
    void set(cudnnBackendAttributeName_t, const std::vector<std::int64_t>&);
    void finalize(const char* doing);
    [[nodiscard]] cudnnBackendDescriptor_t get() const { return handle_.get(); }

  private:
    struct Destroy {
        void operator()(void* d) const { cudnnBackendDestroyDescriptor(d); }
    };
    std::unique_ptr<void, Destroy> handle_;
};

using Sizes = std::vector<std::int64_t>;

/// A tensor of a graph. Its number is what execute() takes; virtual ones live inside an engine.
class GraphTensor {
  public:
    std::int64_t id = 0;
    Sizes sizes, strides;
    std::shared_ptr<Descriptor> descriptor;
};

/// Strides of a dense row-major tensor.
Sizes dense(const Sizes&);

/// A plan that can run: on the stream of the handle, with pointers by tensor number.
class GraphPlan {
  public:
    using Pointers = std::vector<std::pair<std::int64_t, void*>>;
    GraphPlan(std::shared_ptr<Descriptor> plan, std::size_t workspace_bytes)
        : plan_(std::move(plan)), workspace_bytes_(workspace_bytes) {}
    [[nodiscard]] std::size_t workspace_bytes() const { return workspace_bytes_; }
    /// The pointers of one execution, made once.
    [[nodiscard]] std::shared_ptr<Descriptor> bind(const Pointers&, void* workspace) const;
    void run(cudnnHandle_t, const Descriptor& bound) const;

  private:
    std::shared_ptr<Descriptor> plan_;
    std::size_t workspace_bytes_;
};

class GraphBuilder {
  public:
    /// In memory, aligned to 16 bytes.
    GraphTensor tensor(const Sizes&, const Sizes& strides, cudnnDataType_t);
    /// fp32 sums that several blocks add to, in the order that attention's backward engine wants;
    /// zeroed before each execution.
    GraphTensor accumulator(const Sizes&);
    /// One float that is read from host memory at each execution.
    GraphTensor scalar();
    /// Inside the engine.
    GraphTensor inner(const Sizes&, const Sizes& strides, cudnnDataType_t);
    /// y = op(x), op(x, b) or op(x, b, t); y is fp32 inside the engine and of x's sizes unless it
    /// is given.
    struct Pointwise {
        cudnnPointwiseMode_t mode;
        cudnnDataType_t compute = CUDNN_DATA_FLOAT, result = CUDNN_DATA_FLOAT;
        std::int64_t axis = -1;
    };
    GraphTensor pointwise(const Pointwise&, const GraphTensor& x, const GraphTensor* b = nullptr,
                          const GraphTensor* t = nullptr);
    void pointwise(const Pointwise&, const GraphTensor& x, const GraphTensor* b,
                   const GraphTensor* t, const GraphTensor& y);
    void matmul(const GraphTensor& a, const GraphTensor& b, const GraphTensor& c);
    void reduce(cudnnReduceTensorOp_t, const GraphTensor& x, const GraphTensor& y);
    void reshape(const GraphTensor& x, const GraphTensor& y);
    enum class Convolution { forward, data_gradient, weight_gradient };
    struct ConvolutionShape {
        std::int64_t stride = 1, padding = 0;
    };
    /// NCHW sizes whatever the strides; x is the input (or its gradient), w the filters, y the
    /// output.
    void convolution(Convolution, const ConvolutionShape&, const GraphTensor& x,
                     const GraphTensor& w, const GraphTensor& y);

    /// The first engine of the heuristic that can be made and needs at most `workspace_bytes`.
    /// exact_fp32: none that rounds fp32 to tf32. Throws Unsupported when there is none.
    GraphPlan build(cudnnHandle_t, std::size_t workspace_bytes, bool exact_fp32);

  private:
    struct TensorKind {
        bool is_inner = false, is_scalar = false, is_accumulator = false;
    };
    GraphTensor make(const Sizes&, const Sizes& strides, cudnnDataType_t, const TensorKind&);
    std::vector<std::shared_ptr<Descriptor>> operations_, parts_;
    std::int64_t next_id_ = 1;
};

}  // namespace arena::cuda
