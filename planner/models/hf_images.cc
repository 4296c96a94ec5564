// SPDX-License-Identifier: GPL-2.0-or-later
// Image classifiers of config.json as lists of layers. Sources: Dosovitskiy et al. 2020 (ViT), Liu
// et al. 2022 (ConvNeXt); activations of a transformer block: Korthikanti et al. 2022.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "base/statistics.h"
#include "core/profile.h"
#include "planner/models/hf_types.h"

namespace arena {

namespace {

/// What the layers have in parameters and elements, before the precision is known.
struct Parts {
    std::vector<CustomLayer> layers;
    void add(std::string name, std::int64_t count, double flops, double parameters, double kept,
             double output) {
        layers.push_back({std::move(name), count, flops, parameters, kept, output});
    }
};

/// Classes of the head: num_labels, else the labels that are named, else the library's two.
std::int64_t classes_of(HfReader& reader) {
    if (reader.find("num_labels") != nullptr) return reader.integer({"num_labels"}, "classes");
    const HfReader::Json* labels = reader.find("id2label");
    return labels != nullptr && labels->is_object() ? static_cast<std::int64_t>(labels->size()) : 2;
}

std::int64_t needed(HfReader& reader, std::string_view key, std::string_view field) {
    const std::int64_t value = reader.integer({key}, field);
    if (value == 0 && !reader.error()) reader.fail(key, "is missing");
    return value;
}

/// Patches and one class token through equal blocks; the head reads the class token.
Parts vit(HfReader& reader) {
    const std::int64_t layers = needed(reader, "num_hidden_layers", "layers");
    const double h = real(needed(reader, "hidden_size", "hidden"));
    const double f = real(needed(reader, "intermediate_size", "ffn_hidden"));
    const double heads = real(needed(reader, "num_attention_heads", "heads"));
    const std::int64_t image = needed(reader, "image_size", "image_size");
    const std::int64_t patch = needed(reader, "patch_size", "image_size");
    const std::int64_t given = reader.integer({"num_channels"}, "base_channels");
    const double pixels = real(given == 0 ? 3 : given) * real(patch) * real(patch);
    const double classes = real(classes_of(reader));
    const bool bias = reader.boolean("qkv_bias").value_or(true);
    Parts parts;
    if (reader.error()) return parts;
    if (image % patch != 0) {
        reader.fail("patch_size",
                    fmt::format("{} does not divide the {} of image_size", patch, image));
        return parts;
    }
    const double patches = real(image / patch) * real(image / patch), s = patches + 1;
    parts.add("patches", 1, 2 * patches * pixels * h, pixels * h + h + s * h + h, patches * pixels,
              s * h);
    parts.add("block", layers, s * (8 * h * h + 4 * h * f) + 4 * s * s * h,
              4 * h * h + 2 * h * f + (bias ? 3 * h : 0) + h + f + h + 4 * h,
              s * (8 * h + 2 * f) + 2 * heads * s * s, s * h);
    parts.add("head", 1, 2 * h * classes, h * classes + classes + 2 * h, s * h, classes);
    return parts;
}

std::vector<std::int64_t> numbers(HfReader& reader, std::string_view key, std::int64_t most,
                                  std::vector<std::int64_t> usual) {
    const HfReader::Json* list = reader.find(key);
    if (list == nullptr) return usual;
    std::vector<std::int64_t> values;
    for (const HfReader::Json& value : *list) {
        const bool fits =
            list->is_array() && value.is_number_integer() && value >= 1 && value <= most;
        values.push_back(fits ? value.get<std::int64_t>() : 0);
    }
    bool is_sound = list->is_array() && !values.empty() && values.size() <= 16;
    for (const std::int64_t value : values) is_sound = is_sound && value != 0;
    if (!is_sound)
        reader.fail(key, fmt::format("must be a list of 1 to 16 integers from 1 to {}", most));
    return values;
}

/// Stages of 7x7 depth-wise convolutions and MLPs of four times the width; each but the first
/// halves the image.
Parts convnext(HfReader& reader) {
    const std::vector<std::int64_t> depths = numbers(reader, "depths", 10000, {3, 3, 9, 3});
    const std::vector<std::int64_t> widths =
        numbers(reader, "hidden_sizes", 65536, {96, 192, 384, 768});
    const std::int64_t image = needed(reader, "image_size", "image_size");
    const std::int64_t given_patch = reader.integer({"patch_size"}, "image_size");
    const std::int64_t given = reader.integer({"num_channels"}, "base_channels");
    const std::int64_t patch = given_patch == 0 ? 4 : given_patch;
    const double classes = real(classes_of(reader));
    Parts parts;
    if (reader.error()) return parts;
    if (depths.size() != widths.size()) {
        reader.fail("hidden_sizes", fmt::format("has {} entries for {} stages of depths",
                                                widths.size(), depths.size()));
        return parts;
    }
    double in = real(given == 0 ? 3 : given);
    std::int64_t edge = image;
    for (std::size_t i = 0; i < depths.size(); ++i) {
        const std::int64_t step = i == 0 ? patch : 2;
        edge = std::max<std::int64_t>(1, edge / step);
        const double w = real(widths[i]), pixels = real(edge) * real(edge);
        const double patch_area = real(step) * real(step), norm = 2 * (i == 0 ? w : in);
        parts.add(fmt::format("down-{}", i), 1, 2 * pixels * patch_area * in * w,
                  patch_area * in * w + w + norm, pixels * (patch_area * in + w), pixels * w);
        parts.add(fmt::format("stage-{}", i), depths[i], 2 * pixels * (49 * w + 8 * w * w),
                  49 * w + w + 2 * w + 8 * w * w + 5 * w + w, pixels * 11 * w, pixels * w);
        in = w;
    }
    parts.add("head", 1, 2 * in * classes, in * classes + classes + 2 * in, in, classes);
    return parts;
}

}  // namespace

bool is_image_type(std::string_view model_type) {
    return model_type == "vit" || model_type == "convnext";
}

Model read_image_model(HfReader& reader, std::string_view model_type) {
    Model model;
    model.family = Family::custom;
    set_family_flags(model);
    read_precision(reader, model);
    Parts parts = model_type == "vit" ? vit(reader) : convnext(reader);
    const double bytes = element_bytes(model.precision);
    for (CustomLayer& layer : parts.layers) {
        layer.parameter_bytes *= bytes;
        layer.activation_bytes *= bytes;
        layer.output_bytes *= bytes;
    }
    model.custom_layers = std::move(parts.layers);
    return model;
}

}  // namespace arena
