// SPDX-License-Identifier: GPL-2.0-or-later
#include "train/run/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>

#include "base/text.h"
#include "core/observation.h"
#include "ipc/child.h"

namespace arena::train {
namespace {

constexpr std::size_t fewest = min_reported_steps;
constexpr double interval_s = 60;
constexpr auto limit = std::chrono::seconds(5);

std::string command() {
    const std::string beside = program_beside("arena");
    return beside.empty() ? "arena" : beside;
}

/// Its own sentence on stderr says why it fails.
void run(const std::vector<std::string>& words) {
    auto child = start_child({.words = words});
    if (!child)
        fmt::print(stderr,
                   "arena-train: the iteration time is not reported: {} cannot be started\n",
                   words.front());
    else if (!child->wait(Child::Clock::now() + limit))
        fmt::print(stderr, "arena-train: the iteration time is not reported: no answer in 5 s\n");
}

}  // namespace

Reporter::Reporter(bool on)
    : on_(on && std::getenv("SLURM_JOB_ID") != nullptr && std::getenv("ARENA_PLAN") != nullptr) {}

void Reporter::tell(bool last) {
    if (!on_ || seconds_.size() < warm_up_steps + fewest || seconds_.size() == told_) return;
    if (!last && told_ != 0 && now_s() < told_at_s_ + interval_s) return;
    const StepTimes times = step_times(seconds_);
    run({command(), "report", "--iteration-s", fmt::format("{:.6g}", times.median_s), "--spread",
         fmt::format("{:.4g}", std::min(times.spread, 10.0)), "--steps",
         std::to_string(seconds_.size() - warm_up_steps), "--trained-s",
         fmt::format("{:.3f}", now_s() - first_at_s_)});
    told_ = seconds_.size();
    told_at_s_ = now_s();
}

}  // namespace arena::train
