// SPDX-License-Identifier: GPL-2.0-or-later
// The Philly trace and the measured throughputs of the reference data, for tests of whole simulations.
#pragma once

#include <cstdio>
#include <optional>
#include <vector>

#include "reference_data.h"
#include "sim/inputs.h"
#include <check.h>  // last: its macros have common names

namespace arena::test {

struct Philly {
    std::vector<sim::TraceJob> jobs;
    sim::Throughputs table;
};

/// Nothing, said as a skip, where the reference data is missing; data that cannot be read fails the test.
inline std::optional<Philly> read_philly() {
    const std::string trace = read_reference("arena/traces/simulate_trace_philly.csv");
    if (trace.empty()) {
        std::printf("# skip: no reference data in %s (ARENA_REFERENCE_DATA)\n", reference_data().c_str());
        return std::nullopt;
    }
    auto jobs = sim::parse_trace(trace, "philly");
    auto table = sim::parse_throughputs(read_reference("arena/alpa_optimal.csv"), "alpa_optimal.csv");
    ck_assert(jobs.ok() && table.ok());
    return Philly{std::move(jobs).value(), std::move(table).value()};
}

}  // namespace arena::test
