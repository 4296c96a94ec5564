// SPDX-License-Identifier: GPL-2.0-or-later
// The Philly trace and the measured throughputs of the reference data, for tests of whole
// simulations.
#pragma once

#include <string>
#include <vector>

#include "reference_data.h"
#include "sim/inputs.h"
#include "suite.h"

namespace arena::test {

struct Philly {
    std::vector<sim::TraceJob> jobs;
    sim::Throughputs table;
};

inline const std::string philly_trace = "arena/traces/simulate_trace_philly.csv";

/// For tests that do not run without it: lacks_reference(philly_trace).
inline Philly read_philly() {
    auto jobs = sim::parse_trace(read_reference(philly_trace), "philly");
    auto table =
        sim::parse_throughputs(read_reference("arena/alpa_optimal.csv"), "alpa_optimal.csv");
    ck_assert(jobs.ok() && table.ok());
    return Philly{std::move(jobs).value(), std::move(table).value()};
}

}  // namespace arena::test
