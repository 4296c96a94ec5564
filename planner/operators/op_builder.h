// SPDX-License-Identifier: GPL-2.0-or-later
// Private to operators.cc, transformer_ops.cc, resnet_ops.cc: writes operators down in both passes.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "planner/operators/operators.h"

namespace arena {

/// Forward and backward operators of one thing, in the order they run forward.
class OpBuilder {
  public:
    using Dims = std::array<std::int64_t, 4>;

    OpBuilder(std::vector<OpCount>& forward, std::vector<OpCount>& backward)
        : forward_(forward), backward_(backward) {
        constexpr std::size_t dense_layer = 12;
        forward_.reserve(dense_layer);
        backward_.reserve(dense_layer);
    }

    void pair(OpKind kind, Precision precision, Dims dims, const OpVariant& variant,
              double count = 1) {
        forward_.push_back({{kind, Pass::forward, precision, dims, variant}, count});
        backward_.push_back({{kind, Pass::backward, precision, dims, variant}, count});
    }
    /// Something whose forward is the backward of `kind` and the reverse: a sum of rows and a
    /// gather.
    void swapped_pair(OpKind kind, Precision precision, Dims dims) {
        forward_.push_back({{kind, Pass::backward, precision, dims}, 1});
        backward_.push_back({{kind, Pass::forward, precision, dims}, 1});
    }
    /// Y[m,n] = X[m,k] W^T, `batch` times; dX = dY W; dW[n,k] = dY^T X (core/profile.h fixes the
    /// layouts).
    void gemm(Precision precision, std::int64_t m, std::int64_t n, std::int64_t k,
              std::int64_t batch = 1, double count = 1) {
        forward_.push_back({{OpKind::gemm, Pass::forward, precision, {m, n, k, batch}}, count});
        data_gradient(precision, m, n, k, batch, count);
        backward_.push_back(
            {{OpKind::gemm, Pass::backward, precision, {n, k, m, batch}, Gradient::weights},
             count});
    }
    /// The same where W needs no gradient.
    void gemm_of_constant(Precision precision, std::int64_t m, std::int64_t n, std::int64_t k,
                          std::int64_t batch) {
        forward_.push_back({{OpKind::gemm, Pass::forward, precision, {m, n, k, batch}}, 1});
        data_gradient(precision, m, n, k, batch);
    }

    /// Something that nothing flows back through.
    void forward_only(OpKind kind, Precision precision, Dims dims) {
        forward_.push_back({{kind, Pass::forward, precision, dims}, 1});
    }

    /// k x k convolution with this stride of square images, no bias; the images' own gradient is
    /// left out for the first layer of a network.
    void convolution(Precision precision, Dims dims, std::int64_t kernel, std::int64_t stride,
                     bool has_data_gradient = true, double count = 1) {
        const auto add = [&](std::vector<OpCount>& list, Pass pass, std::optional<Gradient> of) {
            list.push_back(
                {{OpKind::conv, pass, precision, dims, ConvVariant{kernel, stride, of}}, count});
        };
        add(forward_, Pass::forward, {});
        if (has_data_gradient) add(backward_, Pass::backward, Gradient::data);
        add(backward_, Pass::backward, Gradient::weights);
    }

  private:
    void data_gradient(Precision precision, std::int64_t m, std::int64_t n, std::int64_t k,
                       std::int64_t batch, double count = 1) {
        backward_.push_back(
            {{OpKind::gemm, Pass::backward, precision, {m, k, n, batch}, Gradient::data}, count});
    }

    std::vector<OpCount>&forward_, &backward_;
};

/// What block GEMMs of an 8 or 4 bit model leave to others: bf16; other precisions: themselves.
Precision plain_precision(Precision);
/// ceil(a / b) for positive numbers.
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

void transformer_layer(const Model&, Precision, const ShardShape&, const LayerKind&, OpBuilder&);
/// The MLP or the experts alone.
void transformer_mlp(const Model&, Precision, const ShardShape&, const LayerKind&, OpBuilder&);
OpShape attention_shape(const Model&, Precision, const ShardShape&, const LayerKind&);
void transformer_embedding(const Model&, Precision, const ShardShape&, OpBuilder&);
void transformer_head(const Model&, Precision, const ShardShape&, OpBuilder&);
void bottleneck_layer(const Model&, Precision, const ShardShape&, const LayerKind&, OpBuilder&);
void resnet_stem(const Model&, Precision, const ShardShape&, OpBuilder&);
void resnet_head(const Model&, Precision, const ShardShape&, OpBuilder&);
/// kept_elements() of a bottleneck block. Each rank keeps all channels that it gathered.
KeptElements bottleneck_kept_elements(const Model&, const LayerKind&, const ShardShape&);

}  // namespace arena
