// SPDX-License-Identifier: GPL-2.0-or-later
// Which GPU or link is slow: each is compared with itself as it was before training, never with its
// neighbours alone: healthy links of one machine differ by half. GPUs come first, because a slow
// one slows its copies too.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "slowdown/passes.h"

namespace arena::slowdown {

/// The same matrix product on every GPU, of one kind in one call of locate().
struct GpuCheck {
    int rank = 0;
    double time_ms = 0;  ///< > 0; of several for one rank the median counts
    /// GPUs of different types are never compared. "": told by its baseline (within 15 % of another
    /// one's, they are of one model).
    std::string gpu_type = {};
};
/// One transfer of the same size; both ends may report, also several times: the median counts.
struct LinkCheck {
    int from = 0;
    int to = 0;
    double time_ms = 0;     ///< > 0
    double latency_ms = 0;  ///< of its smallest message; 0: not known
};
/// One round of benchmarks, in any order.
struct CheckRound {
    std::vector<GpuCheck> gpus;
    std::vector<LinkCheck> links;
};

struct LocateLimits {
    double gpu = 1.10;   ///< times its own baseline, and times the usual of its type
    double link = 1.20;  ///< times its own baseline
};

struct SlowGpu {
    int rank = 0;
    double factor = 1;  ///< times the usual of its type
    bool operator==(const SlowGpu&) const = default;
};
struct SlowLink {
    int from = 0;
    int to = 0;
    double factor = 1;  ///< times its own baseline
    bool operator==(const SlowLink&) const = default;
};
/// Nearly all GPUs of a type are slower by about the same factor.
struct CommonFactor {
    std::string gpu_type;  ///< "": told by their baselines
    int gpus = 0;          ///< that were measured
    double factor = 1;     ///< times their own baselines, in the middle
    bool operator==(const CommonFactor&) const = default;
};
struct Verdict {
    std::vector<SlowGpu> gpus;    ///< the slowest first
    std::vector<SlowLink> links;  ///< the slowest first
    std::vector<CommonFactor> common;
    /// Measured now and not before: nothing is said of these.
    std::vector<int> gpus_without_baseline;
    std::vector<Transfer> links_without_baseline;
    bool operator==(const Verdict&) const = default;
};

/// `baseline` is the round before training, or the devices' own profiles. A GPU is slow beyond
/// limits.gpu of its own baseline and of the usual of its type; a link beyond limits.link of its
/// own baseline while neither end is a slow GPU. Usual of a type: the lower of the medians of the
/// two rounds, so that a job most of whose GPUs are slow, or with one of a type, still sees them.
/// Where at least seven of eight GPUs of a type (four or more) are slower by about the same factor,
/// that is heat, a power cap, or clocks, and none of them is the culprit: then a GPU is slow beyond
/// limits.gpu of what is common.
/// Errors: a time that is no number above 0; a rank with two types. O(n log n).
Result<Verdict> locate(const CheckRound& baseline, const CheckRound& now,
                       const LocateLimits& limits = {});

/// The limits that checks of a machine can be held to: `least`, or three standard errors where its
/// rounds differ by more than that. Each GPU and link was measured in several rounds of `baseline`;
/// of its times' logarithms the shortest interval that holds more than half tells the spread, so
/// that one round that other work disturbed does not count (the shorth; normal factors by n). One
/// round tells nothing of noise, nor do rounds that locate() refuses: `least`.
LocateLimits beyond_noise(const CheckRound& baseline, const CheckRound& now,
                          const LocateLimits& least = {});

}  // namespace arena::slowdown
