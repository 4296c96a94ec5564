// SPDX-License-Identifier: GPL-2.0-or-later
// A profile as evidence: exact hits, and the ratio measured / roofline carried to other shapes by
// inverse-distance weighting in log2 of the dimensions, so that estimates are continuous at
// measured shapes and follow the measured device far from them.
#include "planner/operators/cost.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "planner/operators/whole_layer.h"

namespace arena {

namespace {

/// Layers of one class differ in widths and tokens only.
bool same_layers(const LayerVariant& a, const LayerVariant& b) {
    return a.is_graph == b.is_graph && a.is_causal == b.is_causal && a.is_rms == b.is_rms &&
           a.is_gated == b.is_gated && a.has_bias == b.has_bias;
}

bool same_class(const OpShape& a, const OpShape& b) {
    if (a.kind != b.kind || a.pass != b.pass || a.precision != b.precision) return false;
    const auto *layer = std::get_if<LayerVariant>(&a.variant),
               *other = std::get_if<LayerVariant>(&b.variant);
    return layer && other ? same_layers(*layer, *other) : a.variant == b.variant;
}

/// True for a dimension in which the operator is only repeated: tokens, batch x heads, parameters.
bool repeats_along(const OpShape& shape, std::size_t dimension) {
    switch (shape.kind) {
        case OpKind::gemm:
            return dimension == (has_variant(shape, Gradient::weights) ? 2u : 0u);
        case OpKind::attention:
            return dimension < 2;
        case OpKind::layer:
            return dimension < 2;
        default:
            return dimension == 0;
    }
}

/// log2 of the dimensions. A doubling along which the operator only repeats counts for 0.4 of
/// another: its time is close to linear there, so one measured micro-batch speaks for eight times
/// as many.
std::array<double, 4> octaves_of(const OpShape& shape) {
    constexpr double repeat_weight = 0.4;
    std::array<double, 4> octaves{};
    for (std::size_t i = 0; i < octaves.size(); ++i)
        if (shape.dims[i] > 0)
            octaves[i] = std::log2(static_cast<double>(shape.dims[i])) *
                         (repeats_along(shape, i) ? repeat_weight : 1);
    return octaves;
}

/// Weight of a measured shape at a squared distance: 1/d^4, flattened within a tenth of an octave.
double weight(double squared) {
    const double soft = squared + 0.01;
    return 1 / (soft * soft);
}

/// Of rows sorted by key_of(row), those that have the key. What std::ranges::equal_range() gives is
/// no range to clang 14, by which `make check-fuzz` builds.
template <typename Rows, typename Key, typename KeyOf>
Rows rows_with(Rows rows, const Key& key, KeyOf key_of) {
    return Rows(std::ranges::lower_bound(rows, key, {}, key_of),
                std::ranges::upper_bound(rows, key, {}, key_of));
}

}  // namespace

Pricer::Pricer(const GpuType& type, const CostConstants& constants, ProfileTable profile)
    : type_(type), constants_(constants), profile_(std::move(profile)) {
    const Rows rows = profile_.rows();
    const auto layers = std::partition_point(
        rows.begin(), rows.end(), [](const Row& row) { return row.first.kind != OpKind::layer; });
    static_assert(static_cast<std::size_t>(OpKind::layer) + 1 == op_kind_count);
    operators_ = Rows(rows.begin(), layers);
    layers_ = Rows(layers, rows.end());
}

const Pricer::Row* Pricer::find(Rows rows, const OpShape& shape) {
    const auto it = std::ranges::lower_bound(rows, shape, {}, &Row::first);
    return it != rows.end() && it->first == shape ? &*it : nullptr;
}

/// What the row would take, were nothing of its class measured.
double Pricer::expected_s(const OpShape& shape) const {
    if (shape.kind != OpKind::layer) return analytic_seconds(type_, constants_, shape);
    double sum_s = 0;
    for (const OpCount& op : operators_of(shape)) sum_s += op.count * price(op.shape).seconds;
    return sum_s;
}

const Pricer::Sample& Pricer::sample(const Row& row) const {
    const Rows all = profile_.rows();
    samples_.resize(all.size());
    auto& known = samples_[static_cast<std::size_t>(&row - all.data())];
    if (!known) {
        const double ratio = row.second / expected_s(row.first);
        known = Sample{octaves_of(row.first), std::log(ratio)};
    }
    return *known;
}

Pricer::Scale Pricer::class_scale(Rows rows, const OpShape& shape) const {
    const auto together = [](const OpShape& s) { return std::tuple(s.kind, s.pass, s.precision); };
    const std::array<double, 4> at = octaves_of(shape);
    double sum = 0, weights = 0, nearest_squared = std::numeric_limits<double>::infinity();
    const Rows candidates =
        rows_with(rows, together(shape), [&](const Row& r) { return together(r.first); });
    for (const Row& row : candidates) {
        if (!same_class(row.first, shape)) continue;
        const Sample& near = sample(row);
        double squared = 0;
        for (std::size_t i = 0; i < at.size(); ++i)
            squared += (near.octaves[i] - at[i]) * (near.octaves[i] - at[i]);
        sum += weight(squared) * near.log_ratio;
        weights += weight(squared);
        nearest_squared = std::min(nearest_squared, squared);
    }
    return {weights > 0 ? sum / weights : 0, std::sqrt(nearest_squared)};
}

double Pricer::mean_log_ratio(Rows rows) const {
    double sum = 0;
    for (const Row& row : rows) sum += sample(row).log_ratio;
    return sum / static_cast<double>(rows.size());
}

/// Mean over the kind, else over everything measured.
double Pricer::wide_scale(OpKind kind) const {
    const Rows own = rows_with(operators_, kind, [](const Row& row) { return row.first.kind; });
    return mean_log_ratio(own.empty() ? operators_ : own);
}

OpTime Pricer::price(const OpShape& shape) const {
    if (operators_.empty()) return {analytic_seconds(type_, constants_, shape), Evidence::analytic};
    if (const Row* measured = find(operators_, shape)) return {measured->second, Evidence::exact};
    const Scale scale = class_scale(operators_, shape);
    const bool known = std::isfinite(scale.distance);
    const double ratio = std::exp(known ? scale.log_ratio : wide_scale(shape.kind));
    const bool near = known && scale.distance <= near_octaves;
    return {analytic_seconds(type_, constants_, shape) * ratio,
            near ? Evidence::interpolated : Evidence::scaled};
}

std::optional<OpTime> Pricer::whole(const OpShape& layer, double sum_s) const {
    if (const Row* measured = find(layers_, layer))
        return OpTime{measured->second, Evidence::exact};
    const Scale scale = class_scale(layers_, layer);
    if (!std::isfinite(scale.distance)) return std::nullopt;
    return OpTime{sum_s * std::exp(scale.log_ratio),
                  scale.distance <= near_octaves ? Evidence::interpolated : Evidence::scaled};
}

double Pricer::issue_seconds(const OpShape& plain_layer) const {
    constexpr double waits = 1.05;  // plain over graph: above it, the device waits for launches
    const auto graph_s = [&](const OpShape& shape) {
        const Row* graph = find(layers_, as_graph(shape));
        return graph != nullptr ? graph->second : 0;
    };
    if (const Row* measured = find(layers_, plain_layer))
        if (graph_s(plain_layer) > 0) return measured->second;
    double least = 0;
    for (const auto& [shape, seconds] : layers_) {
        if (!same_class(shape, plain_layer)) continue;
        const double own_graph_s = graph_s(shape);
        if (own_graph_s > 0 && seconds > waits * own_graph_s && (least == 0 || seconds < least))
            least = seconds;
    }
    return least;
}

}  // namespace arena
