// SPDX-License-Identifier: GPL-2.0-or-later
// libFuzzer target: any text may come as schedules of arrays; what is accepted can be checked.

// also: src/array/*.cc tests/lab/array/instance_file.cc tests/lab/array/schedule_check.cc
#include "fuzz.h"
#include "tests/lab/array/instance_file.h"
#include "tests/lab/array/schedule_check.h"

using namespace arena::array;

FUZZ(text) {
    static const auto instance = make_instance(
        "", {.device_of_stage = {0, 1}, .forward = {{1, 2}, {3, 4}}, .backward = {{2, 1}, {4, 3}}});
    const auto schedules = parse_array_schedule(text, "fuzz");
    if (!schedules) return;
    for (const NamedSchedule& one : *schedules) {
        const auto starts = starts_of(*instance, one.schedule.blocks);
        if (starts) (void)check_schedule(*instance, one.schedule.rules, *starts);
    }
}
