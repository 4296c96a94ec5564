// SPDX-License-Identifier: GPL-2.0-or-later
// What parse_sacct() takes has no more jobs than lines, each of them a job with a place in the
// file.
//
// also: src/sim/history/sacct.cc
#include <algorithm>

#include "fuzz.h"
#include "sim/history/sacct.h"

FUZZ(text) {
    const auto jobs = arena::sim::parse_sacct(text, "sacct");
    if (!jobs) return;
    const auto lines = std::count(text.begin(), text.end(), '\n') + 1;
    if (static_cast<std::ptrdiff_t>(jobs->size()) > lines) std::abort();
    for (const arena::sim::PastJob& job : *jobs)
        if (job.line == 0 || job.gpu_count() < 0 || job.limit_s < 0) std::abort();
}
