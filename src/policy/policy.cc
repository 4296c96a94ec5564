// SPDX-License-Identifier: GPL-2.0-or-later
// The registry of policies: a new one is two files and one line here.
#include "policy/policy.h"

#include <array>
#include <utility>

#include "baselines/arena_paper.h"
#include "baselines/backfill.h"
#include "baselines/elasticflow.h"
#include "baselines/fcfs.h"
#include "baselines/gandiva.h"
#include "baselines/gavel.h"
#include "baselines/sia.h"
#include "policy/arena/arena_policy.h"
#include "policy/fifo.h"

namespace arena {
namespace {

constexpr std::array registry{
    Policy{"fifo", "by Slurm priority; each job takes the fastest offer that fits now",
           &decide_fifo, true},
    Policy{"fcfs", "as requested, one queue per GPU type", &decide_fcfs, false, true},
    Policy{"backfill", "as requested, EASY on time limits per GPU type", &decide_backfill, false,
           true},
    Policy{"arena", "Arena: one offer per job by prices of GPUs, restarts that pay", &decide_arena,
           true},
    Policy{"elasticflow-ls", "the requested type; counts double where they add most",
           &decide_elasticflow},
    Policy{"elasticflow-ls-informed", "the same by the work left", &decide_elasticflow_informed},
    Policy{"gavel", "the requested count; types that add most throughput", &decide_gavel},
    Policy{"gavel-las", "the same for the least attained service", &decide_gavel_las},
    Policy{"gavel-informed", "the same by the work left", &decide_gavel_informed},
    Policy{"sia", "goodput matrix over type and count, restart factor", &decide_sia},
    Policy{"sia-informed", "the same by the work left", &decide_sia_informed},
    Policy{"gandiva", "as requested; idle GPUs are lent to running jobs", &decide_gandiva},
    Policy{"gandiva-informed", "the same by the work left", &decide_gandiva_informed},
    Policy{"arena-paper", "the published Arena search, mistakes mended", &decide_arena_paper},
    Policy{"arena-paper-informed", "the same by the work left", &decide_arena_paper_informed},
    // end
};

constexpr std::array<std::pair<Objective, std::string_view>, 3> objectives{
    {{Objective::jct, "jct"},
     {Objective::throughput, "throughput"},
     {Objective::fairness, "fairness"}}};

}  // namespace

std::span<const Policy> policies() { return registry; }

const Policy* find_policy(std::string_view name) {
    for (const Policy& policy : registry) {
        if (policy.name == name) return &policy;
    }
    return nullptr;
}

std::string slurm_policy_names() {
    std::string names;
    for (const Policy& policy : registry) {
        if (!policy.in_slurm) continue;
        if (!names.empty()) names += ", ";
        names += policy.name;
    }
    return names;
}

std::string_view to_string(Objective objective) {
    for (const auto& [value, name] : objectives) {
        if (value == objective) return name;
    }
    return "?";
}

std::optional<Objective> parse_objective(std::string_view text) {
    for (const auto& [value, name] : objectives) {
        if (name == text) return value;
    }
    return std::nullopt;
}

}  // namespace arena
