// SPDX-License-Identifier: GPL-2.0-or-later
// A rank's weights and gradients where the layers compute. On the CPU they are the host's
// (Parameters); a far device has weights of its own in its element type, gradients in fp32, and
// fp32 masters of the weights that this rank updates.
#pragma once

#include "train/core/device.h"
#include "train/core/parameters.h"

namespace arena::train {

#ifndef ARENA_TRAIN_DEVICE

using Weights = Parameters;
/// The member of whoever owns both.
using WeightsOf = Parameters&;

/// What AdamW updates: here the weights themselves.
class Masters {
  public:
    Masters(Weights& weights, Range owned) : data_(weights.weights().data() + owned.begin) {}
    [[nodiscard]] float* data() { return data_; }
    void upload(const Device&, Range) {}
    std::span<float> download(const Device&, Range) { return {}; }

  private:
    float* data_;
};

#else

class Weights {
  public:
    /// All zero until upload(). References outlive it.
    explicit Weights(Parameters& host);
    [[nodiscard]] const std::vector<LocalTensor>& tensors() const { return host_.tensors(); }
    [[nodiscard]] Index find(const std::string& name) const { return host_.find(name); }
    [[nodiscard]] Pointer<Element> weight(Index tensor) { return weights_.data() + offset(tensor); }
    [[nodiscard]] Pointer<float> gradient(Index tensor) {
        return gradients_.data() + offset(tensor);
    }
    [[nodiscard]] Span<Element> weights() { return span_of(weights_); }
    [[nodiscard]] Span<float> gradients() { return span_of(gradients_); }
    [[nodiscard]] Parameters& host() { return host_; }

  private:
    [[nodiscard]] Index offset(Index tensor) const { return host_.tensors()[at(tensor)].offset; }
    Parameters& host_;
    Array<Element> weights_;
    Array<float> gradients_;
};
using WeightsOf = Weights;

class Masters {
  public:
    Masters(Weights& weights, Range owned) : weights_(weights), values_(at(owned.size())) {}
    [[nodiscard]] Pointer<float> data() { return values_.data(); }
    /// The device's weights, and the masters of those that this rank owns, from the host's.
    void upload(const Device&, Range owned);
    /// The host's weights of which those owned are the masters now.
    std::span<float> download(const Device&, Range owned);

  private:
    Weights& weights_;
    Array<float> values_;
};

#endif

}  // namespace arena::train
