// SPDX-License-Identifier: GPL-2.0-or-later
#include "policy/arena/slurm_policies.h"

#include <algorithm>
#include <array>

#include "policy/arena/arena_policy.h"
#include "policy/aryl/aryl_policy.h"
#include "policy/fifo.h"

namespace arena {
namespace {

constexpr std::array registry{
    Policy{"fifo", "by Slurm priority; each job takes the fastest offer that fits now",
           &decide_fifo},
    Policy{"arena", "Arena: one offer per job by prices of GPUs, restarts that pay", &decide_arena},
    Policy{"aryl", "Aryl: shortest base demands first, then a knapsack of what more GPUs save",
           &decide_aryl},
};

}  // namespace

std::span<const Policy> slurm_policies() { return registry; }

const Policy* find_slurm_policy(std::string_view name) {
    const auto found = std::ranges::find(registry, name, &Policy::name);
    return found == registry.end() ? nullptr : &*found;
}

std::string slurm_policy_names() {
    std::string names;
    for (const Policy& policy : registry) {
        if (!names.empty()) names += ", ";
        names += policy.name;
    }
    return names;
}

}  // namespace arena
