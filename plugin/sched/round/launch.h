// SPDX-License-Identifier: GPL-2.0-or-later
// From an offer to what the job is started with: ARENA_* environment, launcher arguments, tasks,
// and the one-line comments that scontrol shows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/offer.h"
#include "request/request.h"
#include "site/config.h"

namespace arena {

/// ARENA_PP, ARENA_DP, ARENA_TP, ARENA_MICRO_BATCH, ARENA_NUM_MICRO_BATCHES, ARENA_GLOBAL_BATCH,
/// ARENA_STAGE_LAYERS, ARENA_PLAN (the offer as JSON), ARENA_ARGS for a launcher that has flags;
/// what arena-args reads of the model, and the launcher with its version.
std::vector<std::string> launch_environment(const Request& request, const Offer& offer);

/// For a job that is watched: ARENA_SLOWDOWN, ARENA_WATCH_* of arena.yaml's keys, and a new
/// ARENA_WATCH_KEY, which is the job's alone: no log, comment or answer shows it. None where it is
/// off.
std::vector<std::string> watch_environment(const Request& request, const Config& config);

/// For a job that may be told to leave: ARENA_CHECKPOINT_SIGNAL and ARENA_REQUEUE_CODE of
/// arena.yaml's keys.
std::vector<std::string> leave_environment(const Request& request, const Config& config);

/// ARENA_GIVEN of a job that gets these variables (plugin/common/given.h): their names, those of
/// Arena's own marks, and Slurm's variable for the memory of the shape where the user asked for
/// none: handed down, it would contradict what an inner job asks for.
std::string given_entry(const std::vector<std::string>& environment, const Request& request);

/// What the request's launcher is told of the plan; empty where it has no words, or where they name
/// the job's hosts, which only a running job knows.
std::string launcher_arguments(const Request& request, const Plan& plan);

/// One task per GPU, or one per node for launchers that spawn their own ranks.
std::int64_t tasks_per_node(const std::string& launcher, const Grid& grid);

/// "arena:v1 state=running grid=4xa40 plan=pp2,dp2,tp1,mb4x16 est=10.4s source=profiled"
std::string admin_comment(std::string_view state, const Offer& offer);
/// "ARENA_ADVICE=grid=4xa40 plan=pp2,dp2,tp1,mb4x16 est=10.4s source=profiled": of a job that Slurm
/// starts while Arena only observes.
std::string advice_entry(const Offer& offer);
/// The top_offers best offers, and which GPU types were not measured and why ("" = none); at most 1
/// KiB.
std::string system_comment(const std::vector<Offer>& offers, std::string_view unmeasured = {});

}  // namespace arena
