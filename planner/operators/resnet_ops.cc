// SPDX-License-Identifier: GPL-2.0-or-later
// Convolutional networks of bottleneck blocks: He et al. 2015 with the stride in the 3x3 (the
// "v1.5" that frameworks train), widened as in Zagoruyko and Komodakis 2016. Batch norms and ReLUs
// are separate passes over memory: no framework trains them fused into the convolution.
//
// Tensor parallelism splits channels, as Alpa's intra-operator pass does (Zheng et al. 2022) and as
// Megatron-LM splits an MLP: the first 1x1, the 3x3, the shortcut and the stem by the channels that
// they make, the last 1x1 and the classifier by those that they read. Norms, ReLUs and sums work on
// a rank's own channels.
#include "planner/operators/op_builder.h"

namespace arena {

namespace {

constexpr std::int64_t image_channels = 3;

/// Elements of `maps` square images.
double map_elements(std::int64_t maps, std::int64_t edge) {
    const double e = static_cast<double>(edge);
    return static_cast<double>(maps) * e * e;
}

/// The operators around one convolution, of the channels that a rank has.
class ConvWriter {
  public:
    ConvWriter(Precision precision, const ShardShape& shape, OpBuilder& ops)
        : precision_(precision), images_(shape.micro_batch), ops_(ops) {}

    void conv(std::int64_t in, std::int64_t out, std::int64_t edge, std::int64_t kernel,
              std::int64_t stride, bool is_first_of_network = false) const {
        ops_.convolution(precision_, {images_, in, out, edge}, kernel, stride,
                         !is_first_of_network);
    }
    void norm(std::int64_t channels, std::int64_t edge) const {
        ops_.pair(OpKind::norm, precision_, {images_ * edge * edge, channels}, NormKind::batch);
    }
    void pass(ElementwiseKind variant, std::int64_t channels, std::int64_t edge) const {
        ops_.pair(OpKind::elementwise, precision_, {images_ * edge * edge, channels}, variant);
    }

  private:
    Precision precision_;
    std::int64_t images_;
    OpBuilder& ops_;
};

}  // namespace

void bottleneck_layer(const Model& model, Precision precision, const ShardShape& shape,
                      const LayerKind& kind, OpBuilder& ops) {
    const Bottleneck b = bottleneck(model, kind);
    const std::int64_t first = b.first / shape.tp, inner = b.inner / shape.tp;
    const std::int64_t out = b.out / shape.tp;
    const ConvWriter write(precision, shape, ops);
    write.conv(b.in, first, b.edge_in, 1, 1);
    write.norm(first, b.edge_in);
    write.pass(ElementwiseKind::relu, first, b.edge_in);
    write.conv(b.first, inner, b.edge_out, 3, b.stride);
    write.norm(inner, b.edge_out);
    write.pass(ElementwiseKind::relu, inner, b.edge_out);
    write.conv(inner, b.out, b.edge_out, 1, 1);
    write.norm(out, b.edge_out);
    if (kind.is_first) {
        write.conv(b.in, out, b.edge_out, 1, b.stride);
        write.norm(out, b.edge_out);
    }
    write.pass(ElementwiseKind::add, out, b.edge_out);
    write.pass(ElementwiseKind::relu, out, b.edge_out);
}

KeptElements bottleneck_kept_elements(const Model& model, const LayerKind& kind,
                                      const ShardShape& shape) {
    const Bottleneck b = bottleneck(model, kind);
    const auto [in, first, out] = bottleneck_channel_elements(model, kind, shape);
    const double inner = map_elements(shape.micro_batch * b.inner, b.edge_out);
    KeptElements kept;
    kept.replicated = in + first;
    kept.split =
        (first + 2 * inner + (kind.is_first ? 2 : 1) * out) / static_cast<double>(shape.tp);
    return kept;
}

ChannelElements bottleneck_channel_elements(const Model& model, const LayerKind& kind,
                                            const ShardShape& shape) {
    const Bottleneck b = bottleneck(model, kind);
    return {map_elements(shape.micro_batch * b.in, b.edge_in),
            map_elements(shape.micro_batch * b.first, b.edge_in),
            map_elements(shape.micro_batch * b.out, b.edge_out)};
}

/// 7x7 convolution, norm, ReLU, 3x3 max pool (a pass over its input).
void resnet_stem(const Model& model, Precision precision, const ShardShape& shape, OpBuilder& ops) {
    const std::int64_t edge = (model.image_size + 1) / 2;
    const std::int64_t channels = model.base_channels / shape.tp;
    const ConvWriter write(precision, shape, ops);
    write.conv(image_channels, channels, edge, 7, 2, true);
    write.norm(channels, edge);
    write.pass(ElementwiseKind::relu, channels, edge);
    write.pass(ElementwiseKind::relu, channels, edge);
}

/// Mean over the image (a pass over its input), classifier, loss.
void resnet_head(const Model& model, Precision precision, const ShardShape& shape, OpBuilder& ops) {
    const std::int64_t channels = final_channels(model) / shape.tp;
    const std::int64_t edge = stage_edge(model, model.blocks.size() - 1);
    ConvWriter(precision, shape, ops).pass(ElementwiseKind::relu, channels, edge);
    ops.gemm(precision, shape.micro_batch, model.classes, channels);
    ops.pair(OpKind::cross_entropy, precision, {shape.micro_batch, model.classes}, {});
}

}  // namespace arena
