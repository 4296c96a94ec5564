// SPDX-License-Identifier: GPL-2.0-or-later
// Bayesian online change points (Adams and MacKay 2007) of a series: after each sample, how likely
// it is that the present level has lasted r samples. Says where a level may have changed; whether
// that counts is verify.h's. With a constant hazard P(r = 0) is the hazard, always, so that short
// runs are looked at instead.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace arena::slowdown {

/// Normal-Gamma prior of a level, in units of the series' own usual level (1).
struct ChangePrior {
    double hazard = 1.0 / 250;  ///< of a change at each sample, in (0, 1)
    double mean = 1;
    double kappa = 0.01;       ///< weight of the mean: levels spread by 10 %
    double alpha = 2;          ///< > 0
    double beta = 2 * 0.0001;  ///< alpha times the expected variance: noise of 1 %
    std::size_t runs = 300;    ///< run lengths that are kept; longer ones count as the longest
};

struct RunLength {
    std::size_t length = 0;  ///< samples since the change, that of now included
    double probability = 0;  ///< of all short runs together
};

class ChangePoints {
  public:
    explicit ChangePoints(const ChangePrior& prior = {});
    /// x: finite, usual level 1. O(runs), no allocation.
    void add(double x);
    /// P(r) for r = 0, 1, ...; sums to 1.
    [[nodiscard]] std::span<const double> posterior() const { return posterior_; }
    /// The likeliest run of 3 to 12 samples, where these together have more than 0.9.
    [[nodiscard]] std::optional<RunLength> recent_change() const;

  private:
    struct Level {  // what is known of a run's level
        double mean = 0, beta = 0;
    };
    /// Student's t of a run of r samples at x; what depends on r alone is in scales_.
    [[nodiscard]] double predict(std::size_t r, double x) const;

    struct Scale {
        double norm = 0, kappa = 0, alpha = 0;
    };
    ChangePrior prior_;
    std::vector<Scale> scales_;
    std::vector<Level> levels_, next_levels_;
    std::vector<double> posterior_, next_;
};

}  // namespace arena::slowdown
