// SPDX-License-Identifier: GPL-2.0-or-later
// Traces for tests of whole simulations: Philly with the measured throughputs of the reference
// data, and our own.
#pragma once

#include <string>
#include <vector>

#include "reference_data.h"
#include "sim/inputs.h"
#include "sim/workload.h"
#include "suite.h"

namespace arena::test {

struct Trace {
    std::vector<sim::TraceJob> jobs;
    sim::Throughputs table;
};

inline const std::string philly_trace = "arena/traces/simulate_trace_philly.csv";

/// For tests that do not run without it: lacks_reference(philly_trace).
inline Trace read_philly() {
    auto jobs = sim::parse_trace(read_reference(philly_trace), "philly");
    auto table =
        sim::parse_throughputs(read_reference("arena/alpa_optimal.csv"), "alpa_optimal.csv");
    ck_assert(jobs.ok() && table.ok());
    return Trace{std::move(jobs).value(), std::move(table).value()};
}

/// tests/data, bound to its cluster.
inline sim::Workload own_workload() {
    const auto cluster = sim::parse_cluster(read_own("cluster.yaml"), "cluster.yaml");
    const auto jobs = sim::parse_trace(read_own("trace.csv"), "trace.csv");
    const auto table = sim::parse_throughputs(read_own("throughputs.csv"), "throughputs.csv");
    ck_assert(cluster.ok() && jobs.ok() && table.ok());
    return must(sim::bind_workload(*cluster, *jobs, *table, {}));
}

}  // namespace arena::test
