// SPDX-License-Identifier: GPL-2.0-or-later
// What a job that trains the members of an array is made of, as text: its script, what Arena writes
// into it so that members can be started after a restart of slurmctld, and what people read. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/arrays/array_offers.h"
#include "plugin/sched/host/host.h"
#include "request/request.h"
#include "site/config.h"

namespace arena {

/// Of a carrier; no user can write it (job_submit/arena drops ARENA_* of the control environment).
struct CarrierFacts {
    std::string group = {};             ///< whose members it takes: see ArrayBook
    std::string key = {}, socket = {};  ///< how members attach
    std::int64_t members = 0;           ///< at a time
    std::int64_t member_cpus = 1, member_memory_mb = 0;
    std::string partition = {}, plan = {};
    double iteration_s = 0, bubble = 0;  ///< as it was priced
    bool operator==(const CarrierFacts&) const = default;
};
std::string format_carrier(const CarrierFacts&);
/// Nothing for a text that format_carrier() did not make.
std::optional<CarrierFacts> read_carrier(std::string_view text);

/// A shell script: srun arena-train --array-serve with the model's sizes and the stages of the
/// offer. An array that is told to leave has done all that it was to do: no requeue code.
std::string carrier_script(const Request& request, const ArrayOffer& offer,
                           const CarrierFacts& facts, const Config& config);

/// "arena:v1 state=running members=12 plan=pp4 est=1.84s bubble=6%"
std::string carrier_comment(const CarrierFacts& facts);
/// "arena:v1 state=running array=4711 member=5/12 T=1.84s"
std::string member_comment(JobId carrier, const JobView& member, const CarrierFacts& facts);
/// ARENA_ARRAY, ARENA_ARRAY_KEY, ARENA_ARRAY_MEMBER, ARENA_GLOBAL_BATCH.
std::vector<std::string> member_environment(const JobView& member, const CarrierFacts& facts,
                                            const Request& request);

}  // namespace arena
