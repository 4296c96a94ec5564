// SPDX-License-Identifier: GPL-2.0-or-later
// Tables of iteration times and of what is known to have happened in them, and how far reports
// agree with it. For evaluation: a running job needs none of this.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "slowdown/verify.h"

namespace arena::slowdown {

struct SeriesSample {
    double time_s = 0;  ///< of one iteration, > 0
    double tokens = 0;  ///< > 0; 0: not known
};
using Series = std::vector<SeriesSample>;

/// Columns series, iter_time_s and, where known, tokens; others are ignored. Rows of a series stand
/// in order. Errors name the line: a time that is none.
Result<std::map<std::string, Series>> parse_series(std::string_view text, const std::string& file);

struct Label {
    std::size_t at = 0;  ///< first iteration of the new level
    bool is_onset = false;
    bool must_detect = true;
};
/// Columns series, iteration, kind (onset or relief), must_detect (0 or 1).
Result<std::map<std::string, std::vector<Label>>> parse_labels(std::string_view text,
                                                               const std::string& file);

/// Reports of a whole series, in order. Errors: those of Detector::add.
Result<std::vector<Change>> detect(const Series& series, const DetectorOptions& options = {});

/// A report is true if it lies within 6 iterations of a label that no earlier report took.
struct DetectionScore {
    std::size_t wanted = 0;   ///< labels that must be detected
    std::size_t found = 0;    ///< of these
    std::size_t reports = 0;  ///< all
    std::size_t right = 0;    ///< of these
    std::size_t wrong_signs = 0;
    std::size_t quiet = 0;               ///< series without a label
    std::size_t flagged = 0;             ///< of these, with a report
    std::vector<std::size_t> latencies;  ///< iterations from label to report, of those found

    /// One series more; answers which labels were missed and which reports were false.
    struct Faults {
        std::vector<Label> missed;
        std::vector<Change> untrue;
    };
    Faults add(std::span<const Label> labels, std::span<const Change> changes);
    [[nodiscard]] double recall() const;
    [[nodiscard]] double precision() const;
    /// share in (0, 1]; 0 where nothing was found.
    [[nodiscard]] double latency(double share) const;
};

}  // namespace arena::slowdown
