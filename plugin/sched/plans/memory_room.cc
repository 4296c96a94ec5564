// SPDX-License-Identifier: GPL-2.0-or-later
#include "plugin/sched/plans/memory_room.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "base/text.h"

namespace arena {

std::optional<std::size_t> address_space_left() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen("/proc/self/statm", "re"),
                                                               &std::fclose);
    unsigned long long pages = 0;
    if (!file || std::fscanf(file.get(), "%llu", &pages) != 1) return std::nullopt;
    const auto used = pages * static_cast<unsigned long long>(::sysconf(_SC_PAGESIZE));
    return used < limit.rlim_cur ? static_cast<std::size_t>(limit.rlim_cur - used) : 0;
}

std::optional<std::size_t> table_bytes(std::size_t own, std::optional<std::size_t> left) {
    if (!left) return own;
    if (*left < left_for_slurm + least_for_a_plan) return std::nullopt;
    return std::min(own, (*left - left_for_slurm) / kinds_of_tables);
}

std::string no_room_text(std::size_t left) {
    return fmt::format(
        "no plan is made: slurmctld may take {} more (ulimit -v, LimitAS= of its unit), of which "
        "{} are left to its own threads and a plan wants {}; the limit has to be raised",
        human_bytes(static_cast<double>(left)), human_bytes(static_cast<double>(left_for_slurm)),
        human_bytes(static_cast<double>(least_for_a_plan)));
}

}  // namespace arena
