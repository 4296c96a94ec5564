// SPDX-License-Identifier: GPL-2.0-or-later
// Which changes of a series of iteration times count: change points that are verified (levels
// before and after differ, and most samples lie beyond), two windows as second opinion, and a slow
// check for degradation that creeps in steps too small to be changes. Sources: Greyhound (ATC'25),
// BOCD+V; ResiHP for normalising by tokens. Who is slow is not said here.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <vector>

#include "base/result.h"
#include "slowdown/change_points.h"

namespace arena::slowdown {

enum class Evidence { change_point, windows, creeping };
const char* name_of(Evidence evidence);

/// Sample numbers count from 0.
struct Change {
    std::size_t change_at = 0;    ///< first sample of the new level
    std::size_t reported_at = 0;  ///< sample that decided it
    double before = 0;            ///< level: seconds, or seconds per token where tokens are given
    double after = 0;             ///< level, in the same unit
    double probability = 0;       ///< of a short run; 0 where others than the change point decided
    Evidence evidence = Evidence::change_point;
    [[nodiscard]] double ratio() const { return after / before; }
    [[nodiscard]] bool is_onset() const { return after > before; }
    [[nodiscard]] double size() const { return is_onset() ? ratio() : 1 / ratio(); }
};

struct DetectorOptions {
    double threshold = 1.10;  ///< ratio of two levels that counts, > 1
    bool verify = true;       ///< false: every change point is reported, and nothing else
    ChangePrior prior = {};
};

class Detector {
  public:
    explicit Detector(const DetectorOptions& options = {});
    /// time_s: of one iteration, finite and > 0. tokens: what it processed, > 0; 0: not known, in
    /// every call or in none. Far below 1 ms. Errors (the sample is not taken): time or tokens out
    /// of range, tokens now and not before.
    Result<std::optional<Change>> add(double time_s, double tokens = 0);
    [[nodiscard]] std::size_t samples() const { return count_; }

  private:
    [[nodiscard]] std::optional<Change> decide() const;
    [[nodiscard]] std::optional<Change> from_change_point() const;
    [[nodiscard]] std::optional<Change> from_windows() const;
    [[nodiscard]] std::optional<Change> from_creeping() const;
    [[nodiscard]] std::optional<Change> from_ramp() const;
    [[nodiscard]] bool holds(const Change& change) const;
    [[nodiscard]] Change change_at(std::size_t start, Evidence evidence) const;
    [[nodiscard]] Change crept_to(double after) const;
    [[nodiscard]] double noise() const;
    [[nodiscard]] double scatter(std::size_t from, std::size_t to) const;
    [[nodiscard]] std::size_t best_split(std::size_t from) const;
    void accept(const Change& change);
    void learn_healthy();
    /// Of samples [from, to).
    [[nodiscard]] std::vector<double> sorted(std::size_t from, std::size_t to) const;
    [[nodiscard]] double level(std::size_t from, std::size_t to) const;
    [[nodiscard]] double at(std::size_t sample) const { return recent_[sample - first_]; }

    DetectorOptions options_;
    ChangePoints points_;
    std::deque<double> recent_;
    std::size_t first_ = 0;  ///< number of recent_.front()
    std::size_t count_ = 0;  ///< samples so far
    double usual_ = 0;       ///< median of the first samples; 0: not yet
    bool per_token_ = false;
    std::size_t last_change_ = 0;  ///< where the level of now began
    std::size_t quiet_until_ = 0;  ///< no report before that sample
    double level_ = 0;             ///< as the last change had it; 0: none yet
    double healthy_ = 0;           ///< what creeping is held against; 0: not learned yet
};

}  // namespace arena::slowdown
