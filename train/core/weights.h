// SPDX-License-Identifier: GPL-2.0-or-later
// A rank's weights and their gradients where the layers compute: on the host's Parameters
// themselves where the device's memory is the host's, else beside them, in the device's element
// type.
#pragma once

#include "train/core/device.h"
#include "train/core/parameters.h"

namespace arena::train {

class Weights {
  public:
    /// Not those of `host` until Optimizer::upload(). References outlive it.
    Weights(Parameters& host, Device& device)
        : host_(host),
          weights_(Array<Element>::of(device, host.weights())),
          gradients_(device, host.weights().size()) {}
    [[nodiscard]] Parameters& host() { return host_; }
    [[nodiscard]] const std::vector<LocalTensor>& tensors() const { return host_.tensors(); }
    [[nodiscard]] Index find(const std::string& name) const { return host_.find(name); }
    [[nodiscard]] Pointer<Element> weight(Index tensor) { return weights_.data(offset(tensor)); }
    [[nodiscard]] Pointer<float> gradient(Index tensor) { return gradients_.data(offset(tensor)); }
    [[nodiscard]] Array<Element>& weights() { return weights_; }
    [[nodiscard]] Array<float>& gradients() { return gradients_; }

  private:
    [[nodiscard]] Index offset(Index tensor) const { return host_.tensors()[at(tensor)].offset; }
    Parameters& host_;
    Array<Element> weights_;
    Array<float> gradients_;
};

}  // namespace arena::train
