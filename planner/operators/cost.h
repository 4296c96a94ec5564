// SPDX-License-Identifier: GPL-2.0-or-later
// Seconds of one operator on one device: measured where the profile has the shape, else scaled from
// the measured shapes around it, else a roofline with tile and wave quantisation
// (roofline.cc).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "core/hardware.h"
#include "core/profile.h"
#include "planner/hardware/calibration.h"

namespace arena {

/// On what a predicted time rests, best first.
enum class Evidence {
    exact,         ///< this very shape was measured
    interpolated,  ///< a shape of the same class within `near_octaves` of it was measured
    scaled,        ///< roofline times the ratio that farther shapes, or other kinds, showed
    analytic,      ///< roofline alone
};
inline constexpr std::size_t evidence_count = 4;
/// Euclidean distance in log2 of the dimensions (repeating ones weighted, see cost.cc) up to which
/// a measured shape counts as near: 1.5 covers one doubling of two dimensions, or eight
/// micro-batches.
inline constexpr double near_octaves = 1.5;

struct OpTime {
    double seconds = 0;
    Evidence evidence = Evidence::analytic;
};

/// Roofline seconds of one execution. GEMM: best tile of four with wave quantisation; attention:
/// FLOPs at a fixed share of peak; the rest: bytes over bandwidth. Never below bytes over bandwidth
/// plus launch. The shape's precision must be one the type has (effective_precision()); others use
/// the fp32 rate.
double analytic_seconds(const GpuType&, const CostConstants&, const OpShape&);
/// With the built-in constants of the type and the default framework.
double analytic_seconds(const GpuType&, const OpShape&);

/// Inverse of op_key(); nothing for anything else.
std::optional<OpShape> parse_op_key(std::string_view key);

/// Prices operators of one pool. Keeps references: the GpuType must outlive it. Building costs one
/// roofline per profile entry; price() is O(entries of the shape's class).
class Pricer {
  public:
    Pricer(const GpuType&, const CostConstants&, const ProfileTable&);
    Pricer(const GpuType& type, const ProfileTable& profile)
        : Pricer(type, builtin_calibration().constants(type.name, "default"), profile) {}
    [[nodiscard]] OpTime price(const OpShape&) const;
    [[nodiscard]] bool has_profile() const { return !points_.empty(); }
    /// Whether whole layers (whole_layer.h) were measured.
    [[nodiscard]] bool has_layers() const { return !layers_.empty(); }
    /// A whole layer whose operators are priced at `sum_s`: measured, or scaled as measured layers
    /// of its kind say; nothing where none of its kind and way of launching was measured.
    [[nodiscard]] std::optional<OpTime> whole(const OpShape& layer, double sum_s) const;
    /// What launching the layer operator by operator takes at least: its measured seconds beside
    /// those of its graph, else the least of measured layers of its kind that wait for launches;
    /// 0 = not known.
    [[nodiscard]] double issue_seconds(const OpShape& plain_layer) const;

  private:
    struct Point {
        OpShape shape;
        std::array<double, 4> octaves;  ///< log2 of the dimensions
        double seconds;
        double log_ratio;  ///< ln(measured / roofline)
    };
    /// Layers of one class differ in widths and tokens only.
    struct LayerClass {
        Pass pass;
        Precision precision;
        bool is_graph, is_causal, is_rms, is_gated, has_bias;
        bool operator==(const LayerClass&) const = default;
    };
    struct LayerPoint : Point {
        LayerClass kind;
        double graph_s = 0;  ///< of the same layer launched as one graph; 0 = not measured
    };
    struct Scale {
        double log_ratio;
        double distance;  ///< to the nearest point; infinite when none of the class
    };
    [[nodiscard]] static std::optional<LayerClass> layer_class(const OpShape&);
    /// Of the points that are of the class.
    template <typename P, typename Is>
    [[nodiscard]] static Scale nearby_scale(const std::vector<P>&, const OpShape&, Is is_of_class);
    [[nodiscard]] Scale class_scale(const OpShape&) const;
    [[nodiscard]] double wide_scale(OpKind) const;

    const GpuType& type_;
    CostConstants constants_;
    void add_layer(const OpShape&, double seconds);
    template <typename P>
    [[nodiscard]] static const P* find(const std::vector<P>&, const OpShape&);

    std::vector<Point> points_;  ///< single operators, sorted by shape
    /// Whole ones, sorted by shape; log_ratio: to the sum of their operators.
    std::vector<LayerPoint> layers_;
};

}  // namespace arena
