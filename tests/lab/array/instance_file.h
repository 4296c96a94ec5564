// SPDX-License-Identifier: GPL-2.0-or-later
// Files of instances, with what is known of them. Three classes: japsp (times by job and stage),
// jobshop (`routes` of [device, time]) and japsp-large (a list of `instances`). Tables that are
// absent are zero; keys that are not known are ignored.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "array/schedule.h"
#include "tests/lab/array/schedule_check.h"

namespace arena::array {

/// physical: a device switches where the next block's state is another, before it starts; the first
/// block of a device has its state. literal: as printed (equations 3, 8, 9), each block is followed
/// by its own switch.
enum class Convention { physical, literal };
/// The same problem in which switches are as `physical` has them.
Instance under(const Instance& instance, Convention convention);

/// A makespan that somebody else found or proved; nothing where the file says nothing.
struct KnownAnswers {
    static constexpr Ticks infeasible = -1;
    std::optional<Ticks> physical, literal, forward_first;  ///< best ones
    std::map<int, Ticks> in_flight;                         ///< best, physical, by in-flight cap
    std::optional<Ticks> lower_bound, list_rule;
    std::optional<Ticks> best_found;  ///< not proved
    std::optional<Ticks> authors;     ///< what the authors of ArrayPipe recorded
    std::optional<Ticks> authors_generations;
    bool operator==(const KnownAnswers&) const = default;
};

struct KnownSchedule {
    Convention convention = Convention::physical;
    Rules rules;
    std::vector<PlacedBlock> blocks;
    bool operator==(const KnownSchedule&) const = default;
};

struct ArrayCase {
    std::string kind;  ///< class of the file
    Instance instance;
    KnownAnswers known;
    std::vector<KnownSchedule> schedules;
};

inline constexpr std::size_t most_instances = 1024;

/// At most 64 MiB. `where` names the text in errors. Errors: what is no instance, with its key.
Result<std::vector<ArrayCase>> parse_array_instance(std::string_view text, std::string_view where);

/// Schedules as `arena-lab array solve --json` writes them: an object, or a list of `instances`,
/// with `schedule` and, where not the default, `name`, `convention`, `forward_first`,
/// `in_flight_cap`.
struct NamedSchedule {
    std::string name;
    KnownSchedule schedule;
};
Result<std::vector<NamedSchedule>> parse_array_schedule(std::string_view text,
                                                        std::string_view where);

}  // namespace arena::array
