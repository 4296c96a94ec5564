// SPDX-License-Identifier: GPL-2.0-or-later
// See cluster_rules.h.
#include "planner/requests/cluster_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/text.h"
#include "core/limits.h"
#include "planner/hardware/hardware.h"
#include "request/launchers.h"
#include "request/options.h"

namespace arena {
namespace {

Error refuse(std::string text, std::string_view key) {
    return usage_error(std::move(text), option_spelling(key));
}

std::vector<std::string> type_names(const std::vector<std::string>& types) {
    std::vector<std::string> names;
    for (const std::string& type : types)
        if (!type.empty()) names.push_back(printable(type, 40));
    std::sort(names.begin(), names.end());
    return names;
}

std::vector<std::string> type_names(const std::vector<TypePool>& pools) {
    std::vector<std::string> types;
    for (const TypePool& p : pools) types.push_back(p.type());
    return type_names(types);
}

std::string listed(const std::vector<std::string>& names) {
    return names.empty() ? "none" : join(names, ", ");
}

Status check_types(const Request& request, const std::vector<std::string>& types,
                   const Config& config) {
    for (const std::string& type : request.gpu_types) {
        if (std::find(types.begin(), types.end(), type) == types.end())
            return refuse(fmt::format("this cluster has no GPU type '{}'; it has {}",
                                      printable(type, 40), listed(type_names(types))),
                          "types");
        if (hardware_of(config, type) == nullptr)
            return refuse(
                fmt::format("GPU type '{}' is not in gpu_types of arena.yaml, so nothing is known "
                            "of its speed; ask the administrator to add it",
                            printable(type, 40)),
                "types");
    }
    return Done{};
}

/// Of the partition's types, those that the job may use.
class Usable {
  public:
    Usable(const Request& request, const ClusterFacts& facts, const SiteFacts& site)
        : request_(request), facts_(facts), site_(site) {}

    /// With nodes that have all this beside the GPUs.
    [[nodiscard]] std::vector<TypePool> pools(const NodeNeeds& needs = {}) const {
        std::vector<TypePool> pools = make_pools(facts_.partition, needs);
        std::erase_if(pools, [&](const TypePool& p) { return !is_wanted(p) || !computes(p); });
        return pools;
    }
    /// Whatever they compute in.
    [[nodiscard]] std::vector<TypePool> wanted() const {
        std::vector<TypePool> pools = make_pools(facts_.partition);
        std::erase_if(pools, [&](const TypePool& p) { return !is_wanted(p); });
        return pools;
    }
    /// Nothing where arena.yaml names an entry that is not there: its administrator's to mend.
    [[nodiscard]] std::optional<GpuType> hardware_of(const TypePool& pool) const {
        const std::string* entry = arena::hardware_of(site_.config, pool.type());
        if (entry == nullptr) return std::nullopt;
        const auto type = find_hardware(site_.hardware, *entry);
        return type ? std::optional(*type) : std::nullopt;
    }

  private:
    [[nodiscard]] bool is_wanted(const TypePool& p) const {
        return allows_type(request_, p.type()) &&
               arena::hardware_of(site_.config, p.type()) != nullptr;
    }
    [[nodiscard]] bool computes(const TypePool& pool) const {
        const auto type = hardware_of(pool);
        return !type || effective_precision(*type, request_.model.precision).has_value();
    }

    const Request& request_;
    const ClusterFacts& facts_;
    const SiteFacts& site_;
};

std::string capacities(const std::vector<TypePool>& pools) {
    std::vector<std::string> parts;
    for (const TypePool& p : pools)
        parts.push_back(fmt::format("{} {}", p.largest(), printable(p.type(), 40)));
    return join(parts, ", ");
}

Status check_usable(const Request& request, const Usable& usable, const ClusterFacts& facts) {
    const std::vector<TypePool> wanted = usable.wanted();
    if (wanted.empty())
        return refuse(
            fmt::format("{} has no node with a GPU type that this job may use and arena.yaml maps; "
                        "its types are {}",
                        facts.place, listed(type_names(make_pools(facts.partition)))),
            "types");
    if (!usable.pools().empty()) return Done{};
    std::vector<std::string> parts;
    for (const TypePool& p : wanted)
        parts.push_back(
            fmt::format("{} ({})", printable(p.type(), 40), precisions_of(*usable.hardware_of(p))));
    return refuse(fmt::format("no GPU type that this job may have in {} computes in {}: {}",
                              facts.place, to_string(request.model.precision), join(parts, "; ")),
                  "precision");
}

/// Counts that the range and the pin leave: a multiple of step in [min, max].
struct Counts {
    std::int64_t min, max, step, group;
};
Counts counts_of(const Request& request) {
    const PlanPin& pin = request.pin;
    const std::int64_t max = request.max_gpus == 0 ? limits::gpus : request.max_gpus;
    return {request.min_gpus, pin.fixes_gpus() ? std::min(max, pin.gpus()) : max, pin.gpus(),
            std::max<std::int64_t>(pin.tp, 1)};
}

bool can_place(const std::vector<TypePool>& pools, const Counts& c) {
    return std::any_of(pools.begin(), pools.end(), [&](const TypePool& p) {
        return p.can_place_any(c.min, c.max, c.step, c.group);
    });
}

/// With the same number on each node, or in pieces that differ.
bool can_serve(const Request& request, const std::vector<TypePool>& pools, const Counts& c) {
    if (can_place(pools, c)) return true;
    const std::int64_t least = (c.min + c.step - 1) / c.step * c.step;
    return least <= c.max && std::any_of(pools.begin(), pools.end(), [&](const TypePool& p) {
               return fewest_nodes(request, p, least, c.group) > 0;
           });
}

/// "4 or 6 a40": the nearest counts that can be placed; empty: none that is larger.
std::string nearest(const TypePool& pool, const Counts& c) {
    std::int64_t less = c.min - 1, more = c.max + 1;
    while (more <= pool.largest() && !pool.can_place(more)) ++more;
    if (more > pool.largest()) return {};
    while (less > 0 && !pool.can_place(less)) --less;
    return fmt::format("{}{} {}", less > 0 ? fmt::format("{} or ", less) : "", more,
                       printable(pool.type(), 40));
}

Status check_range(const Request& request, const std::vector<TypePool>& pools,
                   const std::string& place) {
    Counts counts = counts_of(request);
    counts.step = counts.group = 1;
    if (can_serve(request, pools, counts)) return Done{};
    std::vector<std::string> others;
    for (const TypePool& p : pools)
        if (std::string near = nearest(p, counts); !near.empty()) others.push_back(std::move(near));
    if (!others.empty())
        return refuse(
            fmt::format("a job has the same number of GPUs on each of its nodes: in {} it can have "
                        "{}, not {}",
                        place, join(others, ", "),
                        counts.min == counts.max ? fmt::to_string(counts.min)
                                                 : fmt::format("{}-{}", counts.min, counts.max)),
            "gpus");
    return refuse(
        fmt::format("at least {} GPUs of one type are asked for; a job in {} can have at most {}",
                    request.min_gpus, place, capacities(pools)),
        "gpus");
}

Status check_pin(const Request& request, const std::vector<TypePool>& pools,
                 const std::string& place) {
    const PlanPin& pin = request.pin;
    Counts counts = counts_of(request);
    if (pin == PlanPin{} || can_serve(request, pools, counts)) return Done{};
    counts.group = 1;
    if (can_place(pools, counts)) {
        std::vector<std::string> parts;
        for (const TypePool& p : pools)
            parts.push_back(fmt::format("{} {}", p.per_node(), printable(p.type(), 40)));
        return refuse(
            fmt::format(
                "tp{} takes a multiple of {} GPUs of each node; nodes of {} have at most {}",
                pin.tp, pin.tp, place, join(parts, ", ")),
            "plan");
    }
    return refuse(
        fmt::format("{} takes {}{} GPUs of one type, the same number on every node; a job in {} "
                    "can have at most {}",
                    to_string(pin), pin.fixes_gpus() ? "" : "a multiple of ", pin.gpus(), place,
                    capacities(pools)),
        "plan");
}

// ---- what it needs beside GPUs -----------------------------------------------------------------

/// One option, how much of what it asks for, and how much of it a usable node has at most.
struct Need {
    std::string option;
    NodeNeeds needs;
    std::string wanted;
    std::int64_t NodeFacts::*has;
    const char* unit;
};

/// arena.yaml's values stand where the user gave none.
NodeNeeds needs_of(const Request& request, std::int64_t tmp_mb, const Config& config) {
    NodeNeeds needs;
    needs.cpus_per_gpu = request.cpus_per_gpu > 0 ? request.cpus_per_gpu : config.cpus_per_gpu;
    needs.memory_per_gpu_mb = request.mem_per_gpu_mb;
    needs.memory_per_cpu_mb = request.mem_per_cpu_mb;
    needs.memory_per_node_mb = request.mem_per_node_mb;
    needs.tmp_mb = tmp_mb;
    return needs;
}

std::vector<Need> single_needs(const NodeNeeds& all, bool own_cpus) {
    std::vector<Need> list;
    if (all.cpus_per_gpu > 0)
        list.push_back(
            {own_cpus ? "--arena-cpus-per-gpu (or --cpus-per-task)" : "cpus_per_gpu of arena.yaml",
             {.cpus_per_gpu = all.cpus_per_gpu},
             fmt::format("{} CPUs for each GPU", all.cpus_per_gpu),
             &NodeFacts::cpus,
             "CPUs"});
    if (all.memory_per_gpu_mb > 0)
        list.push_back({"--arena-mem-per-gpu",
                        {.memory_per_gpu_mb = all.memory_per_gpu_mb},
                        fmt::format("{} MB of memory for each GPU", all.memory_per_gpu_mb),
                        &NodeFacts::memory_mb,
                        "MB"});
    if (all.memory_per_cpu_mb > 0)
        list.push_back({"--mem-per-cpu",
                        {.cpus_per_gpu = own_cpus ? all.cpus_per_gpu : 0,
                         .memory_per_cpu_mb = all.memory_per_cpu_mb},
                        fmt::format("{} MB of memory for each of the {} CPUs of a GPU",
                                    all.memory_per_cpu_mb, own_cpus ? all.cpus_per_gpu : 1),
                        &NodeFacts::memory_mb,
                        "MB"});
    if (all.memory_per_node_mb > 0)
        list.push_back(
            {"--mem",
             {.memory_per_node_mb = all.memory_per_node_mb},
             fmt::format("{} MB of memory on each node, whatever number of GPUs it has there",
                         all.memory_per_node_mb),
             &NodeFacts::memory_mb,
             "MB"});
    if (all.tmp_mb > 0)
        list.push_back({"--tmp",
                        {.tmp_mb = all.tmp_mb},
                        fmt::format("{} MB of temporary disk on each node", all.tmp_mb),
                        &NodeFacts::tmp_mb,
                        "MB"});
    return list;
}

/// "16 CPUs beside 4 a40": the node that has most of it.
std::string best_node(const Need& need, const std::vector<TypePool>& usable,
                      const ClusterFacts& facts) {
    std::int64_t most = -1;
    std::string text = "no node";
    for (const NodeFacts& node : facts.partition)
        for (const NodeGpus& gpus : node.gpus) {
            const auto same = [&](const TypePool& p) { return p.type() == gpus.type; };
            if (node.*need.has <= most || std::none_of(usable.begin(), usable.end(), same))
                continue;
            most = node.*need.has;
            text = fmt::format("{} {} beside {} {}", most, need.unit, gpus.count,
                               printable(gpus.type, 40));
        }
    return text;
}

Status check_needs(const Request& request, const NodeNeeds& needs, const Usable& usable,
                   const ClusterFacts& facts) {
    const Counts counts = counts_of(request);
    if (can_serve(request, usable.pools(needs), counts)) return Done{};
    std::string options;
    for (const Need& need : single_needs(needs, request.cpus_per_gpu > 0)) {
        options += (options.empty() ? "" : ", ") + need.option;
        if (can_serve(request, usable.pools(need.needs), counts)) continue;
        return usage_error(
            fmt::format("asks for {}; a job of at least {} GPU{} in {} cannot have that: the "
                        "most that a node has is {}",
                        need.wanted, request.min_gpus, request.min_gpus == 1 ? "" : "s",
                        facts.place, best_node(need, usable.pools(), facts)),
            need.option);
    }
    return usage_error(
        fmt::format("a job of at least {} GPU{} in {} can have each of them alone, but not all "
                    "together",
                    request.min_gpus, request.min_gpus == 1 ? "" : "s", facts.place),
        options);
}

}  // namespace

bool takes_pieces(const Request& request) {
    const auto launcher = parse_launcher(launcher_of(request));
    const PlanPin& pin = request.pin;
    const auto is_one = [](std::int64_t degree) { return degree <= 1; };
    return launcher && launcher->launcher->uneven && is_one(pin.pp) && is_one(pin.tp) &&
           is_one(pin.cp) && is_one(pin.ep);
}

std::int64_t fewest_nodes(const Request& request, const TypePool& pool, std::int64_t gpus,
                          std::int64_t group, std::int64_t most_each) {
    const std::int64_t equal = pool.fewest_nodes(gpus, group, most_each);
    return equal > 0 || !takes_pieces(request) ? equal : pool.fewest_in_pieces(gpus, most_each);
}

SlowdownMode slowdown_of(const Request& request, const Config& config) {
    const auto by_default = parse_slowdown_mode(config.slowdown_default);
    return request.slowdown.value_or(by_default.value_or(SlowdownMode::off));
}

std::vector<TypePool> pools_for(const Request& request, std::int64_t tmp_mb,
                                const ClusterFacts& facts, const SiteFacts& site) {
    return Usable(request, facts, site).pools(needs_of(request, tmp_mb, site.config));
}

Status check_cluster(const Request& request, std::int64_t tmp_mb, const ClusterFacts& facts,
                     const SiteFacts& site) {
    if (Status s = check_types(request, facts.types, site.config); !s) return s;
    const Usable usable(request, facts, site);
    if (Status s = check_usable(request, usable, facts); !s) return s;
    const std::vector<TypePool> pools = usable.pools();
    // A pin without a range sets the range: then the pin is what the user has to change.
    if (Status s = check_pin(request, pools, facts.place); !s) return s;
    if (Status s = check_range(request, pools, facts.place); !s) return s;
    return check_needs(request, needs_of(request, tmp_mb, site.config), usable, facts);
}

}  // namespace arena
