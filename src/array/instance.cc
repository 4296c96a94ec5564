// SPDX-License-Identifier: GPL-2.0-or-later
#include "array/instance.h"

#include <fmt/format.h>

#include <algorithm>

namespace arena::array {

namespace {

using Table = StageTimes::Table;

Status check_shape(const Table& table, std::size_t jobs, std::size_t columns, const char* name) {
    if (table.empty()) return Done{};
    if (table.size() != jobs)
        return usage_error(
            fmt::format("{} has {} rows, and there are {} jobs", name, table.size(), jobs));
    for (std::size_t j = 0; j < jobs; ++j) {
        if (table[j].size() != columns)
            return usage_error(fmt::format("{}[{}] has {} times instead of {}", name, j,
                                           table[j].size(), columns));
        for (const Ticks time : table[j])
            if (time < 0) return usage_error(fmt::format("{}[{}] has a time below 0", name, j));
    }
    return Done{};
}

Status check_shapes(const StageTimes& times, std::size_t jobs, std::size_t stages) {
    const struct {
        const Table& table;
        const char* name;
        std::size_t columns;
    } tables[] = {{times.forward, "fp", stages},
                  {times.backward, "bp", stages},
                  {times.recompute, "recompute", stages},
                  {times.update, "update", stages},
                  {times.setup, "switch", stages},
                  {times.transfer_forward, "comm_fwd", stages - 1},
                  {times.transfer_backward, "comm_bwd", stages - 1}};
    for (const auto& t : tables)
        if (auto checked = check_shape(t.table, jobs, t.columns, t.name); !checked) return checked;
    return Done{};
}

Ticks at(const Table& table, std::size_t job, std::size_t stage) {
    return table.empty() ? 0 : table[job][stage];
}

bool is_forward_only(const StageTimes& times, std::size_t job) {
    return times.backward.empty() ||
           std::all_of(times.backward[job].begin(), times.backward[job].end(),
                       [](Ticks t) { return t == 0; });
}

void add_job(Instance& instance, const StageTimes& times, std::size_t job) {
    const std::size_t stages = times.device_of_stage.size();
    const auto block = [&](std::size_t stage, bool backward) {
        return Block{.job = static_cast<int>(job),
                     .stage = static_cast<int>(stage),
                     .device = times.device_of_stage[stage],
                     .backward = backward,
                     .state = static_cast<int>(job * stages + stage),
                     .setup = at(times.setup, job, stage)};
    };
    const bool is_one_way = is_forward_only(times, job);
    for (std::size_t s = 0; s < stages; ++s) {
        Block f = block(s, false);
        f.work = f.hold = at(times.forward, job, s);
        if (s + 1 < stages) f.transfer = at(times.transfer_forward, job, s);
        instance.blocks.push_back(f);
    }
    for (std::size_t s = is_one_way ? 0 : stages; s-- > 0;) {
        Block b = block(s, true);
        b.work = at(times.recompute, job, s) + at(times.backward, job, s);
        b.hold = b.work + at(times.update, job, s);
        if (s > 0) b.transfer = at(times.transfer_backward, job, s - 1);
        instance.blocks.push_back(b);
    }
    instance.first.push_back(instance.blocks.size());
}

/// Of the tables, before anything is added up in Ticks.
std::int64_t sum_of(const StageTimes& times) {
    std::int64_t sum = 0;
    for (const Table* table :
         {&times.forward, &times.backward, &times.recompute, &times.update, &times.setup,
          &times.setup, &times.transfer_forward, &times.transfer_backward})
        for (const auto& row : *table)
            for (const Ticks time : row) sum += time;
    return sum;
}

Status check_sum(std::int64_t sum) {
    if (sum <= most_ticks) return Done{};
    return usage_error(fmt::format(
        "all times add up to {} ticks, and {} is the limit: take a coarser tick", sum, most_ticks));
}

Status check_size(std::size_t jobs, std::size_t stages) {
    if (jobs < 1 || jobs > most_jobs)
        return usage_error(fmt::format("{} jobs are not 1 to {}", jobs, most_jobs));
    if (stages < 1 || stages > most_stages)
        return usage_error(fmt::format("{} stages are not 1 to {}", stages, most_stages));
    if (2 * jobs * stages > most_blocks)
        return usage_error(
            fmt::format("{} jobs of {} stages are more than {} blocks", jobs, stages, most_blocks));
    return Done{};
}

}  // namespace

Result<Instance> make_instance(std::string name, const StageTimes& times) {
    const std::size_t jobs = times.forward.size(), stages = times.device_of_stage.size();
    if (const auto checked = check_size(jobs, stages); !checked) return checked.error();
    if (const auto checked = check_shapes(times, jobs, stages); !checked) return checked.error();
    for (const int device : times.device_of_stage)
        if (device < 0 || device >= static_cast<int>(most_stages))
            return usage_error(
                fmt::format("device_of_stage: {} is not 0 to {}", device, most_stages - 1));
    if (const auto checked = check_sum(sum_of(times)); !checked) return checked.error();
    Instance instance{.name = std::move(name),
                      .jobs = static_cast<int>(jobs),
                      .stages = static_cast<int>(stages),
                      .devices = 1 + *std::max_element(times.device_of_stage.begin(),
                                                       times.device_of_stage.end()),
                      .blocks = {},
                      .first = {0}};
    for (std::size_t j = 0; j < jobs; ++j) add_job(instance, times, j);
    return instance;
}

Result<Instance> repeated(const Instance& instance, int times) {
    const auto count = static_cast<std::size_t>(times);
    if (times < 1 || instance.blocks.size() * count > most_blocks)
        return usage_error(fmt::format("{} blocks, {} times, are not 1 to {}",
                                       instance.blocks.size(), times, most_blocks));
    std::int64_t sum = 0;
    for (const Block& block : instance.blocks)
        sum += std::int64_t{block.hold} + block.transfer + block.setup;
    if (const auto checked = check_sum(sum * times); !checked) return checked.error();
    Instance many = instance;
    many.blocks.clear();
    many.first = {0};
    for (std::size_t j = 0; j + 1 < instance.first.size(); ++j) {
        const auto chain = instance.blocks.begin();
        for (std::size_t i = 0; i < count; ++i)
            many.blocks.insert(many.blocks.end(),
                               chain + static_cast<std::ptrdiff_t>(instance.first[j]),
                               chain + static_cast<std::ptrdiff_t>(instance.first[j + 1]));
        many.first.push_back(many.blocks.size());
    }
    return many;
}

Result<Instance> make_job_shop(std::string name, int devices,
                               const std::vector<std::vector<RouteStep>>& routes) {
    std::size_t longest = 0;
    for (const auto& route : routes) longest = std::max(longest, route.size());
    if (const auto checked = check_size(routes.size(), longest); !checked) return checked.error();
    if (devices < 1 || devices > static_cast<int>(most_stages))
        return usage_error(fmt::format("{} devices are not 1 to {}", devices, most_stages));
    Instance instance{.name = std::move(name),
                      .jobs = static_cast<int>(routes.size()),
                      .stages = static_cast<int>(longest),
                      .devices = devices,
                      .blocks = {},
                      .first = {0}};
    std::int64_t sum = 0;
    for (std::size_t j = 0; j < routes.size(); ++j) {
        for (std::size_t s = 0; s < routes[j].size(); ++s) {
            const RouteStep& step = routes[j][s];
            const std::string where = fmt::format("routes[{}][{}]", j, s);
            if (step.device < 0 || step.device >= devices)
                return usage_error(fmt::format("there is no device {}", step.device), where);
            if (step.time < 0) return usage_error("a time below 0", where);
            instance.blocks.push_back({.job = static_cast<int>(j),
                                       .stage = static_cast<int>(s),
                                       .device = step.device,
                                       .state = static_cast<int>(j * longest + s),
                                       .work = step.time,
                                       .hold = step.time});
            sum += step.time;
        }
        if (routes[j].empty())
            return usage_error("a job without blocks", fmt::format("routes[{}]", j));
        instance.first.push_back(instance.blocks.size());
    }
    if (const auto checked = check_sum(sum); !checked) return checked.error();
    return instance;
}

}  // namespace arena::array
