// SPDX-License-Identifier: GPL-2.0-or-later
// A profile as evidence: exact hits, and the ratio measured / roofline carried to other shapes by
// inverse-distance weighting in log2 of the dimensions, so that estimates are continuous at
// measured shapes and follow the measured device far from them.
#include "planner/operators/cost.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/text.h"
#include "planner/operators/whole_layer.h"

namespace arena {

namespace {

constexpr std::size_t max_key = 200;

bool same_class(const OpShape& a, const OpShape& b) {
    return a.kind == b.kind && a.pass == b.pass && a.precision == b.precision &&
           a.variant == b.variant;
}

/// True for a dimension in which the operator is only repeated: tokens, batch x heads, parameters.
bool repeats_along(const OpShape& shape, std::size_t dimension) {
    switch (shape.kind) {
        case OpKind::gemm:
            return dimension == (shape.variant == "wgrad" ? 2u : 0u);
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

}  // namespace

std::optional<OpShape> parse_op_key(std::string_view key) {
    if (key.size() > max_key) return std::nullopt;
    const std::vector<std::string_view> parts = split(key, '/');
    if (parts.size() != 4 && parts.size() != 5) return std::nullopt;
    const auto kind = parse_op_kind(parts[0]);
    const auto pass = parse_pass(parts[1]);
    const auto precision = parse_precision(parts[2]);
    const std::vector<std::string_view> dims = split(parts[3], 'x');
    if (!kind || !pass || !precision || dims.size() > 4) return std::nullopt;
    OpShape shape{*kind, *pass, *precision, {}, parts.size() == 5 ? std::string(parts[4]) : ""};
    for (std::size_t i = 0; i < dims.size(); ++i) {
        const auto value = parse_integer(dims[i], 1, std::int64_t{1} << 50);
        if (!value) return std::nullopt;
        shape.dims[i] = *value;
    }
    if (op_key(shape) != key) return std::nullopt;
    if (shape.kind == OpKind::layer && !parse_layer_variant(shape.variant)) return std::nullopt;
    return shape;
}

Pricer::Pricer(const GpuType& type, const CostConstants& constants, const ProfileTable& profile)
    : type_(type), constants_(constants) {
    const auto by_shape = [](const Point& a, const Point& b) { return a.shape < b.shape; };
    std::vector<std::pair<OpShape, double>> layers;
    for (const auto& [key, seconds] : profile) {
        const std::optional<OpShape> shape = parse_op_key(key);
        if (!shape || !(seconds > 0) || !std::isfinite(seconds)) continue;
        if (shape->kind == OpKind::layer) {
            layers.emplace_back(*shape, seconds);
            continue;
        }
        const double ratio = std::log(seconds / analytic_seconds(type, constants, *shape));
        points_.push_back({*shape, octaves_of(*shape), seconds, ratio});
    }
    std::sort(points_.begin(), points_.end(), by_shape);
    for (const auto& [shape, seconds] : layers) add_layer(shape, seconds);  // priced by the others
    std::sort(layers_.begin(), layers_.end(), by_shape);
    for (LayerPoint& layer : layers_) {
        const LayerPoint* graph = find(layers_, as_graph(layer.shape));
        if (graph != nullptr) layer.graph_s = graph->seconds;
    }
}

/// Layers whose operators have no price say nothing about others.
void Pricer::add_layer(const OpShape& shape, double seconds) {
    const std::optional<LayerClass> kind = layer_class(shape);
    double sum_s = 0;
    for (const OpCount& op : operators_of(shape)) sum_s += op.count * price(op.shape).seconds;
    if (!kind || !(sum_s > 0) || !std::isfinite(sum_s)) return;
    layers_.push_back({{shape, octaves_of(shape), seconds, std::log(seconds / sum_s)}, *kind, 0});
}

std::optional<Pricer::LayerClass> Pricer::layer_class(const OpShape& shape) {
    const std::optional<LayerVariant> v = parse_layer_variant(shape.variant);
    if (!v) return std::nullopt;
    return LayerClass{.pass = shape.pass,
                      .precision = shape.precision,
                      .is_graph = v->is_graph,
                      .is_causal = v->is_causal,
                      .is_rms = v->is_rms,
                      .is_gated = v->is_gated,
                      .has_bias = v->has_bias};
}

template <typename P>
const P* Pricer::find(const std::vector<P>& points, const OpShape& shape) {
    const auto it = std::lower_bound(points.begin(), points.end(), shape,
                                     [](const P& p, const OpShape& s) { return p.shape < s; });
    return it != points.end() && it->shape == shape ? &*it : nullptr;
}

template <typename P, typename Is>
Pricer::Scale Pricer::nearby_scale(const std::vector<P>& points, const OpShape& shape,
                                   Is is_of_class) {
    const std::array<double, 4> at = octaves_of(shape);
    double sum = 0, weights = 0, nearest_squared = std::numeric_limits<double>::infinity();
    for (const P& point : points) {
        if (!is_of_class(point)) continue;
        double squared = 0;
        for (std::size_t i = 0; i < at.size(); ++i)
            squared += (point.octaves[i] - at[i]) * (point.octaves[i] - at[i]);
        sum += weight(squared) * point.log_ratio;
        weights += weight(squared);
        nearest_squared = std::min(nearest_squared, squared);
    }
    return {weights > 0 ? sum / weights : 0, std::sqrt(nearest_squared)};
}

Pricer::Scale Pricer::class_scale(const OpShape& shape) const {
    return nearby_scale(points_, shape,
                        [&](const Point& point) { return same_class(point.shape, shape); });
}

/// Mean over the kind, else over everything measured.
double Pricer::wide_scale(OpKind kind) const {
    double kind_sum = 0, all_sum = 0;
    std::size_t kind_count = 0;
    for (const Point& point : points_) {
        all_sum += point.log_ratio;
        if (point.shape.kind != kind) continue;
        kind_sum += point.log_ratio;
        ++kind_count;
    }
    return kind_count > 0 ? kind_sum / static_cast<double>(kind_count)
                          : all_sum / static_cast<double>(points_.size());
}

OpTime Pricer::price(const OpShape& shape) const {
    if (points_.empty()) return {analytic_seconds(type_, constants_, shape), Evidence::analytic};
    if (const Point* measured = find(points_, shape)) return {measured->seconds, Evidence::exact};
    const Scale scale = class_scale(shape);
    const bool known = std::isfinite(scale.distance);
    const double ratio = std::exp(known ? scale.log_ratio : wide_scale(shape.kind));
    const bool near = known && scale.distance <= near_octaves;
    return {analytic_seconds(type_, constants_, shape) * ratio,
            near ? Evidence::interpolated : Evidence::scaled};
}

std::optional<OpTime> Pricer::whole(const OpShape& layer, double sum_s) const {
    if (const LayerPoint* measured = find(layers_, layer))
        return OpTime{measured->seconds, Evidence::exact};
    const std::optional<LayerClass> kind = layer_class(layer);
    const Scale scale = nearby_scale(
        layers_, layer, [&](const LayerPoint& point) { return kind && point.kind == *kind; });
    if (!std::isfinite(scale.distance)) return std::nullopt;
    return OpTime{sum_s * std::exp(scale.log_ratio),
                  scale.distance <= near_octaves ? Evidence::interpolated : Evidence::scaled};
}

double Pricer::issue_seconds(const OpShape& plain_layer) const {
    constexpr double waits = 1.05;  // plain over graph: above it, the device waits for launches
    const std::optional<LayerClass> kind = layer_class(plain_layer);
    if (!kind) return 0;
    if (const LayerPoint* measured = find(layers_, plain_layer); measured && measured->graph_s > 0)
        return measured->seconds;
    double least = 0;
    for (const LayerPoint& plain : layers_)
        if (plain.kind == *kind && plain.graph_s > 0 && plain.seconds > waits * plain.graph_s &&
            (least == 0 || plain.seconds < least))
            least = plain.seconds;
    return least;
}

}  // namespace arena
