// SPDX-License-Identifier: GPL-2.0-or-later
// Seconds of one operator on one device: measured where the profile has the shape, else scaled from
// the measured shapes around it, else a roofline with tile and wave quantisation
// (roofline.cc).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
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

/// Prices operators of one pool. Keeps references: the GpuType must outlive it. price() of what was
/// measured is O(log rows); of anything else, O(rows of its kind, pass and precision) and, the
/// first time, one roofline for each of these of its class. For one thread at a time.
class Pricer {
  public:
    Pricer(const GpuType&, const CostConstants&, ProfileTable);
    Pricer(const GpuType& type, ProfileTable profile)
        : Pricer(type, builtin_calibration().constants(type.name, "default"), std::move(profile)) {}
    [[nodiscard]] OpTime price(const OpShape&) const;
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
    using Row = ProfileTable::Row;
    using Rows = std::span<const Row>;
    /// What a row says of shapes near it.
    struct Sample {
        std::array<double, 4> octaves;  ///< log2 of the dimensions
        double log_ratio;  ///< ln(measured / roofline, or the sum of a layer's operators)
    };
    struct Scale {
        double log_ratio;
        double distance;  ///< to the nearest row; infinite when none of the class
    };
    [[nodiscard]] static const Row* find(Rows, const OpShape&);
    [[nodiscard]] const Sample& sample(const Row&) const;
    [[nodiscard]] double expected_s(const OpShape&) const;
    /// By the rows of the shape's class.
    [[nodiscard]] Scale class_scale(Rows, const OpShape&) const;
    [[nodiscard]] double wide_scale(OpKind) const;
    [[nodiscard]] double mean_log_ratio(Rows) const;

    const GpuType& type_;
    CostConstants constants_;
    ProfileTable profile_;
    Rows operators_, layers_;  ///< of profile_: single operators, whole layers
    mutable std::vector<std::optional<Sample>> samples_;  ///< of profile_'s rows, once asked for
};

}  // namespace arena
