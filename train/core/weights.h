// SPDX-License-Identifier: GPL-2.0-or-later
// A rank's weights and their gradients where the layers compute: on the host's Parameters
// themselves where the device's memory is the host's, else beside them, in the device's element
// type. A skeleton has no weights of its own but those that are bound to it: the layers ask at each
// use, so that to compute with others is the exchange of a pointer.
#pragma once

#include "train/core/device.h"
#include "train/core/parameters.h"

namespace arena::train {

class Weights {
  public:
    /// Not those of `host` until Optimizer::upload(). References outlive it.
    Weights(Parameters& host, Device& device)
        : host_(&host),
          tensors_(&host.tensors()),
          weights_(Array<Element>::of(device, host.weights())),
          gradients_(device, host.weights().size()) {}
    /// Of a skeleton: tensors lie as `layout` says; none can be used before bind().
    Weights(const TensorLayout& layout, Device& device)
        : tensors_(&layout.tensors), gradients_(device, layout.size) {}
    Weights(const Weights&) = delete;
    Weights& operator=(const Weights&) = delete;
    /// Not of a skeleton.
    [[nodiscard]] Parameters& host() { return *host_; }
    [[nodiscard]] const std::vector<LocalTensor>& tensors() const { return *tensors_; }
    [[nodiscard]] Index find(const std::string& name) const { return find_tensor(*tensors_, name); }
    [[nodiscard]] Pointer<Element> weight(Index tensor) { return bound_->data(offset(tensor)); }
    [[nodiscard]] Pointer<float> gradient(Index tensor) { return gradients_.data(offset(tensor)); }
    [[nodiscard]] Array<Element>& weights() { return weights_; }
    [[nodiscard]] Array<float>& gradients() { return gradients_; }
    /// Weights of the same tensors, which outlive their use.
    void bind(const Array<Element>& weights) { bound_ = &weights; }

  private:
    [[nodiscard]] Index offset(Index tensor) const { return (*tensors_)[at(tensor)].offset; }
    Parameters* host_ = nullptr;
    const std::vector<LocalTensor>* tensors_;
    Array<Element> weights_;
    const Array<Element>* bound_ = &weights_;
    Array<float> gradients_;
};

}  // namespace arena::train
