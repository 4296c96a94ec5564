// SPDX-License-Identifier: GPL-2.0-or-later
// See running.h.
#include "plugin/sched/round/running.h"

#include <algorithm>
#include <cmath>
#include <csignal>

#include "plugin/sched/round/shares.h"

namespace arena {
namespace {

/// A signal that comes before the script has said what to do with it ends the job.
constexpr double ready_s = 5;

}  // namespace

int signal_number(std::string_view name) {
    constexpr std::pair<std::string_view, int> numbers[] = {
        {"USR1", SIGUSR1}, {"USR2", SIGUSR2}, {"TERM", SIGTERM}, {"INT", SIGINT},
        {"HUP", SIGHUP},   {"CONT", SIGCONT}, {"URG", SIGURG},   {"QUIT", SIGQUIT}};
    for (const auto& [known, number] : numbers)
        if (known == name) return number;
    return SIGUSR1;
}

bool inside_request(const Request& request, const Offer& offer) {
    const std::int64_t gpus = offer.grid.gpus();
    const bool in_range =
        gpus >= request.min_gpus && (request.max_gpus == 0 || gpus <= request.max_gpus);
    return in_range && allows(request.gpu_types, offer.grid.gpu_type) &&
           matches(request.pin, offer.plan);
}

double done_iterations(const JobView& job, const std::optional<Offer>& plan, double now_s,
                       const RestartCost& restart) {
    if (!job.facts.mark) return 0;
    const auto done = static_cast<double>(job.facts.mark->done);
    if (job.facts.mark->phase != Phase::started || !plan || !(plan->estimate.iteration_s > 0))
        return done;
    const double worked_s = now_s - job.start_s - restart.seconds(plan->grid.gpus());
    return done + std::max(0.0, std::floor(worked_s / plan->estimate.iteration_s));
}

bool ready_for_signals(const JobView& job, double run_s) {
    return !job.configuring && run_s >= ready_s;
}

bool movable(const JobView& job, const Request& request, double run_s, double now_s,
             const Config& config) {
    const JobMark& mark = *job.facts.mark;
    if (!request.elastic || mark.phase != Phase::started || mark.hold != OtherHold::none)
        return false;
    if (!job.nodes_open || !ready_for_signals(job, run_s) || run_s < config.cooldown_s)
        return false;
    // One of the future is of a clock that was set back since.
    const auto recent = [&](std::int64_t at) {
        return std::abs(now_s - static_cast<double>(at)) < 3600;
    };
    return std::count_if(mark.moves.begin(), mark.moves.end(), recent) < config.moves_per_hour;
}

}  // namespace arena
