// SPDX-License-Identifier: GPL-2.0-or-later
// See image_rows.h. Sources: Dosovitskiy et al. 2020 (ViT), Touvron et al. 2020 (DeiT), Liu et al.
// 2021 (Swin) and 2022 (ConvNeXt), He et al. 2015.
#include "planner/evaluate/image_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/statistics.h"
#include "base/text.h"
#include "core/profile.h"
#include "planner/models/model.h"

namespace arena {

namespace {

/// Of one sample, in elements.
struct Block {
    std::int64_t count;
    double flops, parameters, kept, output;
};
using Blocks = std::vector<Block>;

/// The block of one pass: FLOPs, parameters; what is kept, what leaves.
Block block(std::int64_t count, double flops, double parameters, double kept, double output) {
    return {
        .count = count, .flops = flops, .parameters = parameters, .kept = kept, .output = output};
}

struct VitShape {
    std::string_view letter;
    std::int64_t layers, hidden, heads, patch;
};
constexpr VitShape vits[] = {{"ti", 12, 192, 3, 16},
                             {"s", 12, 384, 6, 16},
                             {"b", 12, 768, 12, 16},
                             {"l", 24, 1024, 16, 16},
                             {"h", 32, 1280, 16, 14}};

struct StagedShape {
    std::string_view letter;
    std::array<std::int64_t, 4> depths;
    std::int64_t width;
};
constexpr StagedShape convnexts[] = {{"t", {3, 3, 9, 3}, 96},
                                     {"s", {3, 3, 27, 3}, 96},
                                     {"b", {3, 3, 27, 3}, 128},
                                     {"l", {3, 3, 27, 3}, 192},
                                     {"xl", {3, 3, 27, 3}, 256}};
constexpr StagedShape swins[] = {{"t", {2, 2, 6, 2}, 96},
                                 {"s", {2, 2, 18, 2}, 96},
                                 {"b", {2, 2, 18, 2}, 128},
                                 {"l", {2, 2, 18, 2}, 192}};

/// "ViT-B/16" -> "b": the word behind the first '-' or '_', in lower case.
std::string variant_of(std::string_view model) {
    const std::size_t at = model.find_first_of("-_");
    std::string word;
    if (at == std::string_view::npos) return word;
    for (const char c : model.substr(at + 1)) {
        const char lower = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
        if (lower < 'a' || lower > 'z') break;
        word += lower;
    }
    const std::string_view longs[] = {"tiny", "small", "base", "large", "huge"};
    for (const std::string_view name : longs)
        if (word == name) return word == "tiny" ? "t" : word.substr(0, 1);
    return word;
}

/// "ViT-B/32" -> 32; what the name does not say is `usual`.
std::int64_t patch_of(std::string_view model, std::int64_t usual) {
    const std::size_t at = model.find('/');
    std::int64_t patch = 0;
    for (std::size_t i = at + 1; at != std::string_view::npos && i < model.size(); ++i) {
        if (model[i] < '0' || model[i] > '9' || patch > 100) break;
        patch = 10 * patch + (model[i] - '0');
    }
    return patch > 0 ? patch : usual;
}

template <typename Shape, std::size_t N>
const Shape* shape_of(const Shape (&shapes)[N], std::string_view letter) {
    const auto found = std::find_if(std::begin(shapes), std::end(shapes), [&](const Shape& shape) {
        return shape.letter == letter || (letter == "t" && shape.letter == "ti");
    });
    return found == std::end(shapes) ? nullptr : found;
}

/// A transformer block of `s` tokens, each of which sees `seen`, `times` in a row.
Block attention_block(std::int64_t times, double s, double seen, double h, double heads, double f) {
    return block(times, s * (8 * h * h + 4 * h * f) + 4 * s * seen * h,
                 4 * h * h + 2 * h * f + 9 * h + f, s * (8 * h + 2 * f) + 2 * heads * s * seen,
                 s * h);
}

Blocks vit_blocks(const VitShape& v, std::int64_t image) {
    const double side = real(image / v.patch), s = side * side + 1, h = real(v.hidden);
    const double pixels = 3 * real(v.patch * v.patch);
    return {block(1, 2 * s * pixels * h, (pixels + s) * h, s * (pixels + h), s * h),
            attention_block(v.layers, s, s, h, real(v.heads), 4 * h)};
}

Blocks swin_blocks(const StagedShape& shape, std::int64_t image) {
    constexpr double window = 49, head_width = 32;
    Blocks blocks;
    double s = real(image / 4) * real(image / 4), w = real(shape.width);
    blocks.push_back(block(1, 2 * s * 48 * w, 48 * w, s * (48 + w), s * w));
    for (const std::int64_t depth : shape.depths) {
        blocks.push_back(attention_block(depth, s, window, w, w / head_width, 4 * w));
        blocks.push_back(
            block(1, 4 * s * w * w, 8 * w * w, 2 * s * w, s * w / 2));  // merges four patches
        s /= 4, w *= 2;
    }
    blocks.pop_back();
    return blocks;
}

Blocks convnext_blocks(const StagedShape& shape, std::int64_t image) {
    Blocks blocks;
    double pixels = real(image / 4) * real(image / 4), w = real(shape.width), in = 3, area = 16;
    for (const std::int64_t depth : shape.depths) {
        blocks.push_back(block(1, 2 * pixels * area * in * w, area * in * w,
                               pixels * (area * in + w), pixels * w));
        blocks.push_back(block(depth, 2 * pixels * (49 * w + 8 * w * w), 57 * w + 8 * w * w,
                               pixels * 11 * w, pixels * w));
        in = w, area = 4, w *= 2, pixels /= 4;
    }
    return blocks;
}

/// Two 3x3 convolutions a block, each with a norm and a ReLU, and a sum: eight passes a pixel.
Blocks basic_blocks(const std::array<std::int64_t, 4>& depths, std::int64_t image) {
    Blocks blocks;
    double pixels = real(image / 2) * real(image / 2), c = 64;
    blocks.push_back(block(1, 2 * pixels * 147 * c, 147 * c, 4 * pixels * c, pixels * c / 4));
    pixels /= 4;
    for (const std::int64_t depth : depths) {
        const bool halves =
            c > 64;  // its first block reads half of the channels, and has a shortcut
        blocks.push_back(block(1, (halves ? 28 : 36) * pixels * c * c, (halves ? 14 : 18) * c * c,
                               8 * pixels * c, pixels * c));
        blocks.push_back(
            block(depth - 1, 36 * pixels * c * c, 18 * c * c, 8 * pixels * c, pixels * c));
        c *= 2, pixels /= 4;
    }
    return blocks;
}

bool begins(std::string_view word, std::string_view with) {
    return word.substr(0, with.size()) == with;
}

Blocks blocks_of(const MeasuredRow& row) {
    const std::string variant = variant_of(row.model);
    const std::int64_t image = row.image_width;
    if (row.family == "resnet")
        return basic_blocks(row.layers == 18 ? std::array<std::int64_t, 4>{2, 2, 2, 2}
                                             : std::array<std::int64_t, 4>{3, 4, 6, 3},
                            image);
    if (begins(row.family, "vit") || begins(row.family, "deit")) {
        const VitShape* shape = shape_of(vits, variant);
        if (shape == nullptr) return {};
        VitShape own = *shape;
        own.patch = patch_of(row.model, shape->patch);
        return vit_blocks(own, image);
    }
    if (begins(row.family, "swin")) {
        const StagedShape* shape = shape_of(swins, variant);
        return shape == nullptr ? Blocks() : swin_blocks(*shape, image);
    }
    const StagedShape* shape = shape_of(convnexts, variant);
    return shape == nullptr ? Blocks() : convnext_blocks(*shape, image);
}

}  // namespace

bool is_image_row(const MeasuredRow& row) {
    return begins(row.family, "vit") || begins(row.family, "deit") || begins(row.family, "swin") ||
           begins(row.family, "convnext") ||
           (row.family == "resnet" && (row.layers == 18 || row.layers == 34));
}

Result<Model> image_row_model(const MeasuredRow& row, Precision precision) {
    if (row.image_width < 32 || row.image_width != row.image_height)
        return usage_error("seq of a network for images is the size of a square one, as 224x224");
    const Blocks blocks = blocks_of(row);
    if (blocks.empty())
        return usage_error(fmt::format("no published {} is called '{}'", printable(row.family, 20),
                                       printable(row.model, 40)));
    Model model;
    model.name = clean_model_name(row.model);
    model.family = Family::custom;
    model.precision = precision;
    set_family_flags(model);
    const double bytes = element_bytes(precision);
    for (const Block& b : blocks) {
        const double output = bytes * b.output;
        model.custom_layers.push_back({.name = "matrices",
                                       .count = b.count,
                                       .forward_flops = b.flops,
                                       .parameter_bytes = bytes * b.parameters,
                                       .output_bytes = output});
        model.custom_layers.push_back({.name = "around",
                                       .count = b.count,
                                       .activation_bytes = bytes * b.kept,
                                       .output_bytes = output});
    }
    return complete_model(std::move(model), "row");
}

}  // namespace arena
