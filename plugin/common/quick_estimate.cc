// SPDX-License-Identifier: GPL-2.0-or-later
// See quick_estimate.h.
#include "plugin/common/quick_estimate.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>

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

/// Of each shape whether it is the slowest of its GPU type.
std::vector<bool> slowest_of_types(const std::vector<QuickEstimate::Shape>& shapes) {
    std::map<std::string_view, std::size_t> slowest;
    for (std::size_t i = 0; i < shapes.size(); ++i) {
        std::size_t& at = slowest.try_emplace(shapes[i].grid.gpu_type, i).first->second;
        if (shapes[i].iteration_s > shapes[at].iteration_s) at = i;
    }
    std::vector<bool> is_slowest(shapes.size());
    for (const auto& [type, at] : slowest) is_slowest[at] = true;
    return is_slowest;
}

/// The places of those that stay when others go, the last first, until the sizes of the rest come
/// to no more than `most`: the slowest of each type go after all others.
std::vector<std::size_t> keep_first(const std::vector<QuickEstimate::Shape>& shapes,
                                    const std::vector<std::size_t>& sizes, std::size_t most) {
    std::size_t sum = std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
    std::vector<bool> kept(shapes.size(), true);
    const std::vector<bool> is_slowest = slowest_of_types(shapes);
    for (const bool slowest_too : {false, true})
        for (std::size_t i = shapes.size(); i-- > 0 && sum > most;) {
            if (!kept[i] || (is_slowest[i] && !slowest_too)) continue;
            kept[i] = false;
            sum -= sizes[i];
        }
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < shapes.size(); ++i)
        if (kept[i]) places.push_back(i);
    return places;
}

std::string word_of(const QuickEstimate::Shape& shape) {
    return fmt::format(" {}:{}:{}:{:.4g}:{}:{}", shape.grid.gpu_type, shape.grid.nodes,
                       shape.grid.gpus_per_node, shape.iteration_s, to_string(shape.source),
                       shape.plan);
}

}  // namespace

std::string short_seconds(double value) {
    return fmt::format("{:.{}f}s", value, value >= 100 ? 0 : value >= 10 ? 1 : value >= 1 ? 2 : 4);
}

std::string advice_words(const std::string& grid, const std::string& plan, double iteration_s,
                         Source source) {
    return fmt::format("grid={} plan={} est={} source={}", grid, plan, short_seconds(iteration_s),
                       to_string(source));
}

void keep_most_shapes(std::vector<QuickEstimate::Shape>& shapes) {
    if (shapes.size() <= QuickEstimate::max_shapes) return;
    std::vector<QuickEstimate::Shape> all;
    std::swap(all, shapes);
    const std::vector<bool> is_slowest = slowest_of_types(all);
    for (std::size_t i = 0; i < all.size(); ++i)
        if (is_slowest[i] || std::has_single_bit(static_cast<std::uint64_t>(all[i].grid.gpus())))
            shapes.push_back(std::move(all[i]));
    std::swap(all, shapes);
    shapes.clear();
    for (const std::size_t i :
         keep_first(all, std::vector<std::size_t>(all.size(), 1), QuickEstimate::max_shapes))
        shapes.push_back(std::move(all[i]));
}

QuickEstimate quick_estimate(const std::vector<Offer>& offers, bool complete) {
    QuickEstimate estimate;
    estimate.complete = complete;
    for (const Offer& offer : offers) {
        std::string plan = short_form(offer.plan);
        if (!is_type_name(offer.grid.gpu_type) || !is_plan(plan)) continue;
        Grid grid = offer.grid;
        grid.stages = 1;
        estimate.shapes.push_back(
            {std::move(grid), std::move(plan), offer.estimate.iteration_s, offer.estimate.source});
    }
    keep_most_shapes(estimate.shapes);
    return estimate;
}

std::string format_estimate(const QuickEstimate& estimate) {
    std::string text = fmt::format("{} {}", version, estimate.complete ? "complete" : "partial");
    std::vector<std::string> words;
    std::vector<std::size_t> sizes;
    for (const QuickEstimate::Shape& shape : estimate.shapes) {
        words.push_back(word_of(shape));
        sizes.push_back(words.back().size());
    }
    for (const std::size_t i :
         keep_first(estimate.shapes, sizes, QuickEstimate::max_bytes - text.size()))
        text += words[i];
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
