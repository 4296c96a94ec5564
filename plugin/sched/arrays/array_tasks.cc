// SPDX-License-Identifier: GPL-2.0-or-later
// See array_tasks.h.
#include "plugin/sched/arrays/array_tasks.h"

#include <algorithm>

namespace arena {
namespace {

bool takes_a_turn(const JobView& job, JobId array) {
    if (job.array.id != array || job.array.left > 0) return false;
    if (job.facts.state == HostJobState::finished) return false;
    return job.facts.state != HostJobState::pending || !job.facts.mark ||
           job.facts.mark->hold == OtherHold::none;
}

}  // namespace

std::int64_t most_at_a_time(const ArrayPlace& place, const Config& config) {
    return place.limit > 0 ? std::min(place.limit, config.array_max_members)
                           : config.array_max_members;
}

std::int64_t tasks_to_split(const JobView& record, const std::vector<JobView>& jobs,
                            const Config& config) {
    if (!config.array_enabled) return 0;
    const auto turns = std::count_if(jobs.begin(), jobs.end(), [&](const JobView& job) {
        return takes_a_turn(job, record.array.id);
    });
    return std::clamp<std::int64_t>(most_at_a_time(record.array, config) - turns, 0,
                                    record.array.left);
}

std::string why_tasks_wait(const JobView& record, const Config& config,
                           const std::string& earlier) {
    if (!config.array_enabled)
        return "job arrays are switched off (array.enabled is false in arena.yaml)";
    const std::string limit = "at most " + std::to_string(most_at_a_time(record.array, config)) +
                              " wait or run at a time";
    if (earlier.empty()) return "waits for earlier tasks of its array: " + limit;
    return "as the tasks before it: " + earlier + "; " + limit;
}

JobId first_of_waiting_tasks(const JobView& record, const std::vector<JobView>& jobs) {
    JobId first = 0;
    for (const JobView& job : jobs) {
        if (!takes_a_turn(job, record.array.id)) continue;
        if (job.facts.state != HostJobState::pending) return 0;
        if (first == 0) first = job.id;
    }
    return first;
}

}  // namespace arena
