// SPDX-License-Identifier: GPL-2.0-or-later
#include "watch/ring/rank_id.h"

#include <limits>

#include "watch/ring/hash.h"

namespace arena::watch {
namespace {

using Get = const char* (*)(const char*);

/// Digits alone, so that "-1", "" and "0x1" are no numbers.
template <typename T>
bool number(Get get, const char* name, T& out) {
    const char* text = get(name);
    if (text == nullptr || *text == '\0') return false;
    T value = 0;
    for (; *text != '\0'; ++text) {
        const auto digit = static_cast<unsigned>(*text - '0');
        if (digit > 9 || value > (std::numeric_limits<T>::max() - digit) / 10) return false;
        value = static_cast<T>(value * 10 + digit);
    }
    out = value;
    return true;
}

/// A rank must be said twice, in the job and on its node: RANK alone may be anybody's variable.
struct Launcher {
    const char *rank, *local_rank, *ranks, *node;
};
constexpr Launcher launchers[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE", "SLURM_NODEID"},
    {"RANK", "LOCAL_RANK", "WORLD_SIZE", "GROUP_RANK"},
    {"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS", "SLURM_NODEID"},
};

/// Tells runs on one node apart where Slurm does not.
std::uint32_t run_of(Get get) {
    Hash hash;
    bool said = false;
    for (const char* name : {"ARENA_WATCH_RUN", "PMIX_NAMESPACE", "TORCHELASTIC_RUN_ID",
                             "MASTER_ADDR", "MASTER_PORT"}) {
        const char* text = get(name);
        if (text == nullptr) continue;
        hash.text(text);
        said = true;
    }
    return said ? static_cast<std::uint32_t>(hash.value() >> 16) : 0;
}

}  // namespace

std::optional<RankId> rank_of_environment(Get get) {
    RankId id;
    bool found = false;
    for (const Launcher& launcher : launchers) {
        found =
            number(get, launcher.rank, id.rank) && number(get, launcher.local_rank, id.local_rank);
        if (!found) continue;
        number(get, launcher.ranks, id.ranks);
        number(get, launcher.node, id.node);
        break;
    }
    if (!found) return std::nullopt;
    if (!number(get, "SLURM_JOB_ID", id.job) || !number(get, "SLURM_STEP_ID", id.step))
        id.step = run_of(get);
    number(get, "SLURM_RESTART_COUNT", id.life);
    return id;
}

}  // namespace arena::watch
