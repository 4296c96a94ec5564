// SPDX-License-Identifier: GPL-2.0-or-later
// When waiting jobs will start, and with what: the policy itself is asked again and again, each
// time with the cluster as it will be when the next jobs have ended. An estimate: it takes jobs to
// run as long as their limits or their work allow, nobody to come, and nobody to be moved.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/cluster.h"
#include "policy/policy.h"

namespace arena {

struct ExpectedStart {
    double start_s = 0;
    Chosen grid;
    Plan plan;
    std::string span = {};  ///< words_of_span() of its nodes
    bool operator==(const ExpectedStart&) const = default;
};

struct ForecastLimits {
    std::size_t jobs = 500;      ///< of the queue that are looked at: those that stand first
    std::size_t decisions = 64;  ///< that the policy is asked for
    std::function<bool()> go_on = [] { return true; };  ///< asked before each of them
};

/// Jobs of the snapshot that start within the limits, with their times; the others are left out.
/// Pure but for go_on. A job that starts now is expected at the snapshot's time.
std::map<JobId, ExpectedStart> forecast_starts(const Policy& policy, Snapshot snapshot,
                                               const Offers& offers, PolicyOptions options,
                                               const ForecastLimits& limits = {});

}  // namespace arena
