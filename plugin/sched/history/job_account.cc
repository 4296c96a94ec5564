// SPDX-License-Identifier: GPL-2.0-or-later
// See job_account.h.
#include "plugin/sched/history/job_account.h"

#include <fmt/format.h>

#include <algorithm>

namespace arena {

namespace {

bool ends_run(const JobEvent& event) {
    return event.state.starts_with("waiting") || event.state == JobHistory::over_state;
}

}  // namespace

std::vector<std::pair<double, double>> runs_of(const JobPast& past) {
    std::vector<std::pair<double, double>> runs;
    double since_s = -1;
    for (const JobEvent& event : past.events) {
        if (event.state == "running" && since_s < 0) since_s = event.at_s;
        if (!ends_run(event) || since_s < 0) continue;
        runs.emplace_back(since_s, event.at_s);
        since_s = -1;
    }
    return runs;
}

JobAccount account_of(const JobPast& past) {
    JobAccount account;
    const auto runs = runs_of(past);
    account.lives = std::ssize(runs);
    if (runs.empty()) return account;
    account.waited_s = std::max(runs.front().first - past.events.front().at_s, 0.0);
    double saves_since_s = -1;
    for (const JobEvent& event : past.events) {
        if (event.state == "checkpointing" && saves_since_s < 0) saves_since_s = event.at_s;
        if (saves_since_s < 0 || (event.state != "running" && !ends_run(event))) continue;
        account.moved_s += event.at_s - saves_since_s;
        account.ran_s -= event.at_s - saves_since_s;
        saves_since_s = -1;
    }
    for (std::size_t i = 0; i < runs.size(); ++i) {
        account.ran_s += runs[i].second - runs[i].first;
        if (i > 0) account.moved_s += runs[i].first - runs[i - 1].second;
    }
    account.ran_s = std::max(account.ran_s, 0.0);
    return account;
}

double running_share(const JobAccount& account) {
    const double all_s = account.ran_s + account.moved_s;
    return all_s > 0 ? account.ran_s / all_s : account.lives > 0 ? 1 : 0;
}

std::string words_of(const JobAccount& account) {
    return fmt::format("lives={} waited={:.0f}s ran={:.0f}s moved={:.0f}s running={:.3f}",
                       account.lives, account.waited_s, account.ran_s, account.moved_s,
                       running_share(account));
}

}  // namespace arena
