// SPDX-License-Identifier: GPL-2.0-or-later
// A new policy is two files and one line here, or in policy/arena/slurm_policies.cc.
#include "baselines/registry.h"

#include <algorithm>
#include <vector>

#include "baselines/arena_paper.h"
#include "baselines/backfill.h"
#include "baselines/elasticflow.h"
#include "baselines/fcfs.h"
#include "baselines/gandiva.h"
#include "baselines/gavel.h"
#include "baselines/sia.h"
#include "policy/arena/slurm_policies.h"

namespace arena {
namespace {

constexpr Policy baselines[] = {
    {"fcfs", "as requested, one queue per GPU type", &decide_fcfs, true},
    {"backfill", "as requested, EASY on time limits per GPU type", &decide_backfill, true},
    {"elasticflow-ls", "the requested type; counts double where they add most",
     &decide_elasticflow},
    {"elasticflow-ls-informed", "the same by the work left", &decide_elasticflow_informed},
    {"gavel", "the requested count; types that add most throughput", &decide_gavel},
    {"gavel-las", "the same for the least attained service", &decide_gavel_las},
    {"gavel-informed", "the same by the work left", &decide_gavel_informed},
    {"sia", "goodput matrix over type and count, restart factor", &decide_sia},
    {"sia-informed", "the same by the work left", &decide_sia_informed},
    {"gandiva", "as requested; idle GPUs are lent to running jobs", &decide_gandiva},
    {"gandiva-informed", "the same by the work left", &decide_gandiva_informed},
    {"arena-paper", "the published Arena search, mistakes mended", &decide_arena_paper},
    {"arena-paper-informed", "the same by the work left", &decide_arena_paper_informed},
    // end
};

}  // namespace

std::span<const Policy> policies() {
    static const std::vector<Policy> all = [] {
        std::vector<Policy> list(slurm_policies().begin(), slurm_policies().end());
        list.insert(list.end(), std::begin(baselines), std::end(baselines));
        return list;
    }();
    return all;
}

const Policy* find_policy(std::string_view name) {
    const auto found = std::ranges::find(policies(), name, &Policy::name);
    return found == policies().end() ? nullptr : &*found;
}

}  // namespace arena
