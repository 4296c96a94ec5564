// SPDX-License-Identifier: GPL-2.0-or-later
// For LD_PRELOAD into slurmctld: while the file that ARENA_ROUND_GATE names is there, a round waits
// after it has decided and before it carries out anything, and says so by making FILE.reached. It
// holds no lock then, so that a test changes jobs, nodes and partitions in exactly that window.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "policy/policy.h"

namespace {

const arena::Policy* real = nullptr;

void wait_at_gate() {
    const char* gate = std::getenv("ARENA_ROUND_GATE");
    if (!gate || ::access(gate, F_OK) != 0) return;
    const std::string reached = std::string(gate) + ".reached";
    if (std::FILE* file = std::fopen(reached.c_str(), "w")) std::fclose(file);
    while (::access(gate, F_OK) == 0) ::usleep(5000);
}

arena::Decision decide(const arena::Snapshot& snapshot, const arena::Offers& offers,
                       const arena::PolicyOptions& options) {
    arena::Decision decision = real->decide(snapshot, offers, options);
    // A forecast asks the policy, too, and wants no words.
    if (!decision.actions.empty() && options.explain) wait_at_gate();
    return decision;
}

}  // namespace

namespace arena {

/// Stands before libarena_slurm.so's, which the plug-ins bring along under that name.
const Policy* find_slurm_policy(std::string_view name) {
    using Find = const Policy* (*)(std::string_view);
    constexpr const char* symbol =
        "_ZN5arena17find_slurm_policyESt17basic_string_viewIcSt11char_traitsIcEE";
    static Policy gated;
    void* library = ::dlopen("libarena_slurm.so", RTLD_NOLOAD | RTLD_LAZY);
    if (!library) return nullptr;
    real = reinterpret_cast<Find>(::dlsym(library, symbol))(name);
    if (!real) return nullptr;
    gated = *real;
    gated.decide = decide;
    return &gated;
}

}  // namespace arena
