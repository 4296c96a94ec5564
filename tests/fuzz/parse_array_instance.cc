// SPDX-License-Identifier: GPL-2.0-or-later
// libFuzzer target: any text may come as instances of arrays; what is accepted can be scheduled,
// and the schedule holds.

// also: src/array/*.cc tests/lab/array/instance_file.cc tests/lab/array/schedule_check.cc
#include "array/list_rule.h"
#include "fuzz.h"
#include "tests/lab/array/instance_file.h"
#include "tests/lab/array/schedule_check.h"

using namespace arena::array;

FUZZ(text) {
    const auto cases = parse_array_instance(text, "fuzz");
    if (!cases) return;
    for (const ArrayCase& one : *cases) {
        if (one.instance.blocks.size() > 512) continue;
        const auto schedule = append(one.instance, {}, list_order(one.instance, {}));
        if (!schedule || schedule->makespan < 0) std::abort();
        const auto checked = check_schedule(one.instance, {}, schedule->start);
        if (!checked || *checked != schedule->makespan) std::abort();
        for (const KnownSchedule& stored : one.schedules) {
            const auto starts = starts_of(one.instance, stored.blocks);
            if (starts) (void)check_schedule(one.instance, stored.rules, *starts);
        }
    }
}
