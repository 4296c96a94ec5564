// SPDX-License-Identifier: GPL-2.0-or-later
// Tasks of a job array: how many of them are to have records of their own, so that they can be
// planned one by one while the rest of a long array stays one record of Slurm's. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plugin/sched/host/host.h"
#include "site/config.h"

namespace arena {

/// How many tasks of its array may wait or run as jobs of their own at a time, by array.max_members
/// and the array's own limit (%K).
std::int64_t most_at_a_time(const ArrayPlace& place, const Config& config);

/// Of a record that stands for tasks (array.left > 0): how many more of them may wait or run as
/// jobs of their own. Tasks that somebody holds are in nobody's way. 0 where arrays are switched
/// off.
std::int64_t tasks_to_split(const JobView& record, const std::vector<JobView>& jobs,
                            const Config& config);

/// What such a record waits for, in words for its owner. squeue shows them of all its waiting tasks
/// in one line, so that those which have jobs of their own are heard: `earlier` is why they wait,
/// "" where one of them runs.
std::string why_tasks_wait(const JobView& record, const Config& config, const std::string& earlier);
/// The first of them, where all of them wait; 0 where there is none or one runs.
JobId first_of_waiting_tasks(const JobView& record, const std::vector<JobView>& jobs);

}  // namespace arena
