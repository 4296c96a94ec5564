// SPDX-License-Identifier: GPL-2.0-or-later
// See quick_estimate.h.
#include "plugin/common/quick_estimate.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/text.h"
#include "core/limits.h"

namespace arena {
namespace {

/// "a40:1:4:0.512:analytic"
std::optional<QuickEstimate::Shape> parse_shape(std::string_view word) {
    const std::vector<std::string_view> parts = split(word, ':');
    if (parts.size() != 5) return std::nullopt;
    const auto nodes = parse_integer(parts[1], 1, limits::gpus),
               each = parse_integer(parts[2], 1, limits::gpus_per_node);
    const auto seconds = parse_number(parts[3], 1e-9, 1e12);
    const auto source = parse_source(parts[4]);
    if (!is_type_name(parts[0]) || !nodes || !each || !seconds || !source) return std::nullopt;
    return QuickEstimate::Shape{{std::string(parts[0]), *nodes, *each, 1}, *seconds, *source};
}

}  // namespace

QuickEstimate quick_estimate(const std::vector<Offer>& offers, bool complete) {
    QuickEstimate estimate;
    estimate.complete = complete;
    const bool too_many = offers.size() > QuickEstimate::max_shapes;
    for (const Offer& offer : offers) {
        const auto gpus = static_cast<std::uint64_t>(offer.grid.gpus());
        if (too_many && !std::has_single_bit(gpus)) continue;
        if (estimate.shapes.size() == QuickEstimate::max_shapes ||
            !is_type_name(offer.grid.gpu_type))
            continue;
        Grid grid = offer.grid;
        grid.stages = 1;
        estimate.shapes.push_back(
            {std::move(grid), offer.estimate.iteration_s, offer.estimate.source});
    }
    return estimate;
}

std::string format_estimate(const QuickEstimate& estimate) {
    std::string text = estimate.complete ? "v1 complete" : "v1 partial";
    for (const QuickEstimate::Shape& shape : estimate.shapes)
        text += fmt::format(" {}:{}:{}:{:.4g}:{}", shape.grid.gpu_type, shape.grid.nodes,
                            shape.grid.gpus_per_node, shape.iteration_s, to_string(shape.source));
    return text;
}

std::optional<QuickEstimate> parse_estimate(std::string_view text) {
    if (text.size() > QuickEstimate::max_bytes) return std::nullopt;
    const std::vector<std::string_view> words = split(text, ' ');
    if (words.size() < 2 || words.size() > QuickEstimate::max_shapes + 2 || words[0] != "v1")
        return std::nullopt;
    if (words[1] != "complete" && words[1] != "partial") return std::nullopt;
    QuickEstimate estimate;
    estimate.complete = words[1] == "complete";
    for (std::size_t i = 2; i < words.size(); ++i) {
        auto shape = parse_shape(words[i]);
        if (!shape) return std::nullopt;
        estimate.shapes.push_back(std::move(*shape));
    }
    return estimate;
}

}  // namespace arena
