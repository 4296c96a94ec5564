// SPDX-License-Identifier: GPL-2.0-or-later
// Models of images of config.json as lists of layers. Sources: Dosovitskiy et al. 2020 (ViT), Liu
// et al. 2021 (Swin) and 2022 (ConvNeXt), Peebles and Xie 2023 (DiT), Rombach et al. 2022 (the
// U-Net of latent diffusion); the modules of transformers and diffusers of these names.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/statistics.h"
#include "planner/models/hf_types.h"

namespace arena {

namespace {

/// Classes of the head: num_labels, else the labels that are named, else the library's two.
double classes_of(HfReader& reader) {
    if (reader.find("num_labels") != nullptr) return real(needed_number(reader, "num_labels"));
    const HfReader::Json* labels = reader.find("id2label");
    return labels != nullptr && labels->is_object() ? static_cast<double>(labels->size()) : 2;
}

void classifier(LayerWriter& out, double tokens, double width, double classes) {
    out.layer("head", 1, classes);
    out.norm(tokens, width, 2);
    out.gemm(1, classes, width, true);
}

/// Patches and one class token through equal blocks; the head reads the class token.
void vit(HfReader& reader, LayerWriter& out) {
    const std::int64_t layers = needed_number(reader, "num_hidden_layers");
    const double h = real(needed_number(reader, "hidden_size"));
    const double f = real(needed_number(reader, "intermediate_size"));
    const double heads = real(needed_number(reader, "num_attention_heads"));
    const std::int64_t image = needed_number(reader, "image_size");
    const std::int64_t patch = needed_number(reader, "patch_size");
    const double channels = real(number_of(reader, "num_channels", 3));
    const double classes = classes_of(reader);
    const bool bias = reader.boolean("qkv_bias").value_or(true);
    if (reader.error()) return;
    must_divide(reader, "patch_size", real(patch), real(image), "image_size");
    must_divide(reader, "num_attention_heads", heads, h, "hidden_size");
    if (reader.error()) return;
    const double edge = real(image / patch), s = edge * edge + 1;
    out.layer("patches", 1, s * h);
    out.conv(channels, h, edge, real(patch), real(patch));
    out.parameters(s * h + h);
    out.pass(3 * s * h);
    out.layer("block", layers, s * h);
    out.norm(s, h, 2);
    out.gemm(s, 3 * h, h, bias);
    out.attention(heads, heads, s, h / heads, false);
    out.gemm(s, h, h, true, false);
    out.pass(3 * s * h);
    out.norm(s, h, 2);
    out.mlp(s, h, f, false, true);
    out.pass(3 * s * h);
    classifier(out, s, h, classes);
}

/// Stages of 7x7 depth-wise convolutions and MLPs of four times the width; each but the first
/// halves the image.
void convnext(HfReader& reader, LayerWriter& out) {
    const auto depths = numbers_of(reader, "depths", 10000, {3, 3, 9, 3});
    const auto widths = numbers_of(reader, "hidden_sizes", 65536, {96, 192, 384, 768});
    const std::int64_t image = needed_number(reader, "image_size");
    const std::int64_t patch = number_of(reader, "patch_size", 4);
    double in = real(number_of(reader, "num_channels", 3));
    const double classes = classes_of(reader);
    if (reader.error()) return;
    if (depths.size() != widths.size())
        return reader.fail("hidden_sizes", fmt::format("has {} entries for {} stages of depths",
                                                       widths.size(), depths.size()));
    std::int64_t edge = image;
    for (std::size_t i = 0; i < depths.size(); ++i) {
        const std::int64_t step = i == 0 ? patch : 2;
        const double before = real(edge) * real(edge);
        edge = std::max<std::int64_t>(1, edge / step);
        const double w = real(widths[i]), pixels = real(edge) * real(edge);
        out.layer(fmt::format("down-{}", i), 1, pixels * w);
        if (i > 0) out.norm(before, in, 2);
        out.conv(in, w, real(edge), real(step), real(step));
        if (i == 0) out.norm(pixels, w, 2);
        out.layer(fmt::format("stage-{}", i), depths[i], pixels * w);
        out.depthwise(pixels, w, 49);
        out.norm(pixels, w, 2);
        out.mlp(pixels, w, 4 * w, false, true);
        out.parameters(w);  // scale of the layer
        out.pass(4 * pixels * w, pixels * w);
        in = w;
    }
    classifier(out, 1, in, classes);
}

/// Attention in windows of 7x7 patches, which shift from block to block; a stage joins 2x2 patches.
void swin(HfReader& reader, LayerWriter& out) {
    const auto depths = numbers_of(reader, "depths", 10000, {2, 2, 6, 2});
    const auto heads = numbers_of(reader, "num_heads", 4096, {3, 6, 12, 24});
    const std::int64_t image = number_of(reader, "image_size", 224);
    const std::int64_t patch = number_of(reader, "patch_size", 4);
    const std::int64_t wide = number_of(reader, "window_size", 7);
    const double channels = real(number_of(reader, "num_channels", 3));
    const double ratio = reader.number("mlp_ratio", 4, 0.01, 64);
    const bool bias = reader.boolean("qkv_bias").value_or(true);
    const double classes = classes_of(reader);
    double c = real(number_of(reader, "embed_dim", 96));
    if (reader.error()) return;
    if (depths.size() != heads.size())
        return reader.fail("num_heads", fmt::format("has {} entries for {} stages of depths",
                                                    heads.size(), depths.size()));
    std::int64_t edge = std::max<std::int64_t>(1, image / patch);
    out.layer("patches", 1, real(edge) * real(edge) * c);
    out.conv(channels, c, real(edge), real(patch), real(patch));
    out.norm(real(edge) * real(edge), c, 2);
    for (std::size_t i = 0; i < depths.size(); ++i) {
        const std::int64_t window = std::min(edge, wide);
        const std::int64_t rows = (edge + window - 1) / window;
        const double s = real(edge) * real(edge), w = real(window * window), h = real(heads[i]);
        must_divide(reader, "num_heads", h, c, fmt::format("stage {}'s width", i));
        out.layer(fmt::format("stage-{}", i), depths[i], s * c);
        out.norm(s, c, 2);
        out.gemm(real(rows * rows) * w, 3 * c, c, bias);
        out.attention(real(rows * rows) * h, real(rows * rows) * h, w, c / h, false);
        out.parameters(real((2 * wide - 1) * (2 * wide - 1)) * h);
        out.gemm(real(rows * rows) * w, c, c, true, false);
        out.pass(5 * s * c);  // sum, and windows that shift
        out.norm(s, c, 2);
        out.mlp(s, c, ratio * c, false, true);
        out.pass(3 * s * c);
        if (i + 1 == depths.size()) break;
        edge = (edge + 1) / 2;
        const double merged = real(edge) * real(edge);
        out.layer(fmt::format("merge-{}", i), 1, merged * 2 * c);
        out.norm(merged, 4 * c, 2);
        out.gemm(merged, 2 * c, 4 * c, false);
        c *= 2;
    }
    classifier(out, real(edge) * real(edge), c, classes);
}

/// Blocks whose norms are scaled by what an embedding of step and class says, which each block of
/// diffusers' module has for itself.
void dit(HfReader& reader, LayerWriter& out) {
    const double heads = real(number_of(reader, "num_attention_heads", 16));
    const double dim = real(number_of(reader, "attention_head_dim", 72)), d = heads * dim;
    const double in = real(number_of(reader, "in_channels", 4));
    const double classes = real(number_of(reader, "num_embeds_ada_norm", 1000));
    const std::int64_t layers = number_of(reader, "num_layers", 28);
    const std::int64_t edge = number_of(reader, "sample_size", 32);
    const std::int64_t patch = number_of(reader, "patch_size", 2);
    const double made = real(number_of(reader, "out_channels", static_cast<std::int64_t>(in)));
    if (reader.error()) return;
    const double side = real(std::max<std::int64_t>(1, edge / patch)), s = side * side;
    constexpr double step_channels = 256;
    out.layer("patches", 1, s * d);
    out.conv(in, d, side, real(patch), real(patch));
    out.pass(3 * s * d);
    out.layer("block", layers, s * d);
    out.gemm(1, d, step_channels, true);
    out.gemm(1, d, d, true);
    out.parameters((classes + 1) * d);
    out.gemm(1, 6 * d, d, true);
    out.norm(s, d, 0);
    out.pass(2 * s * d, s * d);
    out.attention_block(s, d, heads, heads, dim, false, true);
    out.pass(4 * s * d, s * d);
    out.norm(s, d, 0);
    out.pass(2 * s * d, s * d);
    out.mlp(s, d, 4 * d, false, true);
    out.pass(4 * s * d, s * d);
    out.layer("out", 1, s * real(patch * patch) * made);
    out.norm(s, d, 0);
    out.gemm(1, 2 * d, d, true);
    out.pass(2 * s * d, s * d);
    out.gemm(s, real(patch * patch) * made, d, true);
}

/// The U-Net of latent diffusion: residual blocks and transformers that look at a text.
class UNet {
  public:
    UNet(HfReader& reader, LayerWriter& out) : reader_(reader), out_(out) {}

    void write() {
        widths_ = numbers_of(reader_, "block_out_channels", 65536, {320, 640, 1280, 1280});
        const std::size_t levels = widths_.size();
        per_level_ = number_of(reader_, "layers_per_block", 2, 1, most_blocks);
        const bool named = reader_.find("num_attention_heads") != nullptr;
        heads_ = per_level(named ? "num_attention_heads" : "attention_head_dim", {8}, levels);
        depths_ = per_level("transformer_layers_per_block", {1}, levels, most_blocks);
        context_ = real(number_of(reader_, "cross_attention_dim", 1280));
        const double in = real(number_of(reader_, "in_channels", 4));
        const double made = real(number_of(reader_, "out_channels", 4));
        const double added =
            real(number_of(reader_, "projection_class_embeddings_input_dim", 0, 0));
        edge_ = number_of(reader_, "sample_size", 64);
        const auto down = sees_text("down_block_types", levels, true);
        const auto up = sees_text("up_block_types", levels, false);
        if (reader_.error()) return;
        const double first = real(widths_.front());
        embedding_ = 4 * first;
        begin("in", first);
        out_.conv(in, first, real(edge_), 3, 1);
        out_.gemm(1, embedding_, first, true);
        out_.gemm(1, embedding_, embedding_, true);
        if (added > 0) {
            out_.gemm(1, embedding_, added, true);
            out_.gemm(1, embedding_, embedding_, true);
        }
        hold(first);
        const double bottom = down_levels(down, first);
        begin("middle", bottom);
        residual(bottom, bottom);
        transformer(bottom, levels - 1);
        residual(bottom, bottom);
        const double last = up_levels(up, bottom);
        begin("out", made);
        group_norm(last);
        out_.conv(last, made, real(edge_), 3, 1);
    }

  private:
    static constexpr std::int64_t most_blocks = 64;
    /// A number for all levels, or a list of one each.
    std::vector<std::int64_t> per_level(std::string_view key, std::vector<std::int64_t> usual,
                                        std::size_t levels, std::int64_t most = 65536) {
        const HfReader::Json* given = reader_.find(key);
        std::vector<std::int64_t> list =
            given != nullptr && !given->is_array()
                ? std::vector<std::int64_t>{number_of(reader_, key, 1, 1, most)}
                : numbers_of(reader_, key, most, std::move(usual));
        if (list.size() == 1) list.assign(levels, list.front());
        if (list.size() != levels && !reader_.error())
            reader_.fail(key, fmt::format("has {} entries for {} levels of block_out_channels",
                                          list.size(), levels));
        return list;
    }

    /// Which levels have transformers; the usual ones all but the deepest.
    std::vector<bool> sees_text(std::string_view key, std::size_t levels, bool is_down) {
        const std::string plain = is_down ? "DownBlock2D" : "UpBlock2D",
                          seeing = "CrossAttn" + plain;
        const std::vector<std::string> types = reader_.texts(key);
        std::vector<bool> sees(levels, true);
        if (types.empty()) sees[is_down ? levels - 1 : 0] = false;
        if (!types.empty() && types.size() != levels)
            reader_.fail(key, fmt::format("has {} entries for {} levels", types.size(), levels));
        for (std::size_t i = 0; i < types.size() && types.size() == levels; ++i) {
            if (types[i] != plain && types[i] != seeing)
                reader_.fail(key, fmt::format("accepted are {} and {}", plain, seeing));
            sees[i] = types[i] == seeing;
        }
        return sees;
    }

    [[nodiscard]] double pixels() const { return real(edge_) * real(edge_); }
    /// What the way up will read crosses each cut too.
    void begin(std::string name, double channels) {
        out_.layer(std::move(name), 1, pixels() * channels + held_);
    }
    void hold(double channels) {
        skips_.push_back({channels, pixels() * channels});
        held_ += skips_.back().elements;
    }
    void group_norm(double channels) {
        out_.norm(pixels(), channels, 2);
        out_.pass(2 * pixels() * channels, pixels() * channels);
    }

    void residual(double in, double channels) {
        group_norm(in);
        out_.conv(in, channels, real(edge_), 3, 1);
        out_.gemm(1, channels, embedding_, true);
        out_.pass(2 * pixels() * channels);
        group_norm(channels);
        out_.conv(channels, channels, real(edge_), 3, 1);
        if (in != channels) out_.conv(in, channels, real(edge_), 1, 1);
        out_.pass(3 * pixels() * channels);
    }

    void transformer(double channels, std::size_t level) {
        constexpr double text = 77;  // tokens of the text encoder
        const double s = pixels(), heads = real(heads_[level]), dim = channels / heads;
        must_divide(reader_, "attention_head_dim", heads, channels, "block_out_channels");
        out_.norm(s, channels, 2);
        out_.gemm(s, channels, channels, true);
        for (std::int64_t i = 0; i < depths_[level]; ++i) {
            out_.norm(s, channels, 2);
            for (int matrix = 0; matrix < 3; ++matrix)
                out_.gemm(s, channels, channels, false, matrix == 0);
            out_.attention(heads, heads, s, dim, false);
            out_.gemm(s, channels, channels, true, false);
            out_.pass(3 * s * channels);
            out_.norm(s, channels, 2);
            out_.gemm(s, channels, channels, false);
            out_.gemm(text, channels, context_, false);
            out_.gemm(text, channels, context_, false, false);
            out_.cross_attention(heads, s, text, dim);
            out_.gemm(s, channels, channels, true, false);
            out_.pass(3 * s * channels);
            out_.norm(s, channels, 2);
            out_.gemm(s, 8 * channels, channels, true);
            out_.pass(12 * s * channels, 8 * s * channels);
            out_.gemm(s, channels, 4 * channels, true);
            out_.pass(3 * s * channels);
        }
        out_.gemm(s, channels, channels, true);
        out_.pass(3 * s * channels);
    }

    double down_levels(const std::vector<bool>& sees, double in) {
        for (std::size_t level = 0; level < widths_.size(); ++level) {
            const double channels = real(widths_[level]);
            for (std::int64_t i = 0; i < per_level_; ++i) {
                begin(fmt::format("down-{}.{}", level, i), channels);
                residual(in, channels);
                if (sees[level]) transformer(channels, level);
                hold(channels);
                in = channels;
            }
            if (level + 1 == widths_.size()) break;
            edge_ = std::max<std::int64_t>(1, (edge_ + 1) / 2);
            begin(fmt::format("down-{}", level), channels);
            out_.conv(channels, channels, real(edge_), 3, 2);
            hold(channels);
        }
        return in;
    }

    double up_levels(const std::vector<bool>& sees, double in) {
        for (std::size_t i = 0; i < widths_.size(); ++i) {
            const std::size_t level = widths_.size() - 1 - i;
            const double channels = real(widths_[level]);
            for (std::int64_t j = 0; j <= per_level_; ++j) {
                const double skip = skips_.back().channels;
                held_ -= skips_.back().elements;
                skips_.pop_back();
                begin(fmt::format("up-{}.{}", level, j), channels);
                residual(in + skip, channels);
                if (sees[i]) transformer(channels, level);
                in = channels;
            }
            if (level == 0) break;
            edge_ *= 2;
            begin(fmt::format("up-{}", level), channels);
            out_.pass(1.25 * pixels() * channels);
            out_.conv(channels, channels, real(edge_), 3, 1);
        }
        return in;
    }

    struct Skip {
        double channels, elements;
    };
    HfReader& reader_;
    LayerWriter& out_;
    std::vector<std::int64_t> widths_, heads_, depths_;
    std::int64_t per_level_ = 2, edge_ = 64;
    double context_ = 0, embedding_ = 0, held_ = 0;
    std::vector<Skip> skips_;
};

}  // namespace

bool write_image_layers(HfReader& reader, std::string_view model_type, LayerWriter& out) {
    if (model_type == "vit")
        vit(reader, out);
    else if (model_type == "convnext")
        convnext(reader, out);
    else if (model_type == "swin")
        swin(reader, out);
    else if (model_type == "DiTTransformer2DModel")
        dit(reader, out);
    else if (model_type == "UNet2DConditionModel")
        UNet(reader, out).write();
    else
        return false;
    return true;
}

}  // namespace arena
