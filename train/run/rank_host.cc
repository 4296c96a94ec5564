// SPDX-License-Identifier: GPL-2.0-or-later
#include "train/run/rank_host.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <map>
#include <optional>

#include "base/text.h"
#include "core/limits.h"
#include "train/comm/messages.h"

namespace arena::train {
namespace {

std::string host_name() {
    char name[HOST_NAME_MAX + 1] = "";
    gethostname(name, HOST_NAME_MAX);
    return name;
}

/// Containers of one machine have names of their own and one kernel.
std::string machine_name() {
    const auto boot = read_regular_file("/proc/sys/kernel/random/boot_id", 64);
    return boot ? std::string(trim(*boot)) : host_name();
}

std::string own_processors() {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) != 0) return "1";
    std::string all;
    for (int i = 0; i < CPU_SETSIZE; ++i) all += CPU_ISSET(i, &set) ? '1' : '0';
    all.erase(all.find_last_of('1') + 1);
    return all;
}

std::optional<std::vector<Index>> read_gpus(const Environment& environment, const char* name) {
    const auto text = environment(name);
    if (!text) return std::nullopt;
    std::vector<Index> gpus;
    for (const std::string_view one : split(*text, ',')) {
        const auto gpu = parse_integer(one, 0, limits::gpus_per_node);
        if (!gpu) return std::nullopt;
        gpus.push_back(*gpu);
    }
    return gpus;
}

/// Fields apart by newlines; no name has one.
std::string to_text(const RankHost& h) {
    return join({h.node, std::to_string(h.gpu), h.machine, h.processors, h.device}, "\n");
}

RankHost read_host(std::string_view text) {
    const auto fields = split(text, '\n');
    const auto field = [&](std::size_t i) {
        return i < fields.size() ? std::string(fields[i]) : std::string();
    };
    return {.node = field(0),
            .gpu = parse_integer(field(1), -1, limits::gpus_per_node).value_or(-1),
            .machine = field(2),
            .processors = field(3),
            .device = field(4)};
}

/// The ranks of one machine, and what they may run on together.
struct Machine {
    std::vector<std::size_t> ranks;
    std::string processors;
    void add(std::size_t rank, const std::string& its) {
        ranks.push_back(rank);
        processors.resize(std::max(processors.size(), its.size()), '0');
        for (std::size_t i = 0; i < its.size(); ++i)
            if (its[i] == '1') processors[i] = '1';
    }
    [[nodiscard]] bool is_crowded(int threads) const {
        return std::ranges::count(processors, '1') <
               static_cast<std::ptrdiff_t>(ranks.size()) * threads;
    }
};

}  // namespace

Index gpu_of_rank(const Environment& environment, int local) {
    for (const char* name : {"SLURM_STEP_GPUS", "CUDA_VISIBLE_DEVICES"}) {
        const auto gpus = read_gpus(environment, name);
        if (!gpus) continue;
        if (gpus->size() == 1) return gpus->front();
        return at(local) < gpus->size() ? (*gpus)[at(local)] : -1;
    }
    return -1;
}

RankHost find_rank_host(const Environment& environment, Comm& world, const std::string& device) {
    return {.node = printable(environment("SLURMD_NODENAME").value_or(host_name()), 255),
            .gpu = gpu_of_rank(environment, world.node_rank()),
            .machine = machine_name(),
            .processors = own_processors(),
            .device = printable(device, 64)};
}

std::vector<RankHost> share_hosts(Comm& comm, const RankHost& mine) {
    std::vector<RankHost> all;
    for (const std::string& text : share_texts(comm, to_text(mine))) all.push_back(read_host(text));
    return all;
}

Turns turns_of(const std::vector<RankHost>& hosts, int threads) {
    std::map<std::string, Machine> machines;
    for (std::size_t rank = 0; rank < hosts.size(); ++rank)
        machines[hosts[rank].machine].add(rank, hosts[rank].processors);
    Turns turns{.of = std::vector<int>(hosts.size(), 0)};
    for (const auto& [name, machine] : machines) {
        if (!machine.is_crowded(threads)) continue;
        turns.count = std::max(turns.count, static_cast<int>(machine.ranks.size()));
        for (std::size_t i = 0; i < machine.ranks.size(); ++i)
            turns.of[machine.ranks[i]] = static_cast<int>(i);
    }
    return turns;
}

}  // namespace arena::train
