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

constexpr std::string_view version = "v2", fit = "fit:", none = " none ";

/// Whether it says all degrees of a plan.
bool is_plan(std::string_view text) {
    const Result<PlanPin> pin = parse_plan_pin(text);
    return pin && pin->fixes_gpus() && pin->micro_batch != 0 && pin->num_micro_batches != 0;
}

/// "a40:1:4:0.512:analytic:pp1,dp4,tp1,mb2x2"
std::optional<QuickEstimate::Shape> parse_shape(std::string_view word) {
    const std::vector<std::string_view> parts = split(word, ':');
    if (parts.size() != 6) return std::nullopt;
    const auto nodes = parse_integer(parts[1], 1, limits::gpus),
               each = parse_integer(parts[2], 1, limits::gpus_per_node);
    const auto seconds = parse_number(parts[3], 1e-9, 1e12);
    const auto source = parse_source(parts[4]);
    if (!is_type_name(parts[0]) || !nodes || !each || !seconds || !source || !is_plan(parts[5]))
        return std::nullopt;
    return QuickEstimate::Shape{
        {std::string(parts[0]), *nodes, *each, 1}, std::string(parts[5]), *seconds, *source};
}

}  // namespace

QuickEstimate quick_estimate(const std::vector<Offer>& offers, bool complete) {
    QuickEstimate estimate;
    estimate.complete = complete;
    const bool too_many = offers.size() > QuickEstimate::max_shapes;
    for (const Offer& offer : offers) {
        const auto gpus = static_cast<std::uint64_t>(offer.grid.gpus());
        if (too_many && !std::has_single_bit(gpus)) continue;
        std::string plan = short_form(offer.plan);
        if (estimate.shapes.size() == QuickEstimate::max_shapes ||
            !is_type_name(offer.grid.gpu_type) || !is_plan(plan))
            continue;
        Grid grid = offer.grid;
        grid.stages = 1;
        estimate.shapes.push_back(
            {std::move(grid), std::move(plan), offer.estimate.iteration_s, offer.estimate.source});
    }
    return estimate;
}

std::string format_estimate(const QuickEstimate& estimate) {
    std::string text = fmt::format("{} {}", version, estimate.complete ? "complete" : "partial");
    for (const QuickEstimate::Shape& shape : estimate.shapes) {
        const std::string word = fmt::format(
            " {}:{}:{}:{:.4g}:{}:{}", shape.grid.gpu_type, shape.grid.nodes,
            shape.grid.gpus_per_node, shape.iteration_s, to_string(shape.source), shape.plan);
        if (text.size() + word.size() > QuickEstimate::max_bytes) break;
        text += word;
    }
    for (const std::string& name : estimate.would_fit) text += fmt::format(" {}{}", fit, name);
    if (estimate.shapes.empty() && !estimate.none.empty())
        text += std::string(none) + printable(estimate.none, QuickEstimate::max_why);
    return text;
}

std::optional<QuickEstimate> parse_estimate(std::string_view text) {
    if (text.size() > QuickEstimate::max_bytes) return std::nullopt;
    const std::size_t why = text.find(none);
    const std::vector<std::string_view> words = split(text.substr(0, why), ' ');
    if (words.size() < 2 || words.size() > QuickEstimate::max_shapes + 2 || words[0] != version)
        return std::nullopt;
    if (words[1] != "complete" && words[1] != "partial") return std::nullopt;
    QuickEstimate estimate;
    estimate.complete = words[1] == "complete";
    if (why != std::string_view::npos)
        estimate.none = printable(text.substr(why + none.size()), QuickEstimate::max_why);
    for (std::size_t i = 2; i < words.size(); ++i) {
        if (words[i].starts_with(fit)) {
            estimate.would_fit.emplace_back(words[i].substr(fit.size()));
            if (!is_type_name(estimate.would_fit.back())) return std::nullopt;
            continue;
        }
        auto shape = parse_shape(words[i]);
        if (!shape) return std::nullopt;
        estimate.shapes.push_back(std::move(*shape));
    }
    return estimate;
}

}  // namespace arena
