// SPDX-License-Identifier: GPL-2.0-or-later
// See array_offers.h.
#include "planner/arrays/array_offers.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "array/search/prefetch.h"
#include "base/statistics.h"
#include "planner/arrays/array_stages.h"
#include "planner/search/grids.h"
#include "planner/search/planner.h"

namespace arena {
namespace {

/// With J members and no overhead a pipeline takes J times the work of its busiest stage, S stages
/// of which are at least the work of one member: it does not beat S devices with a member each.
constexpr const char* alone_is_faster =
    "a member fits one device, and side by side no device waits for another";

ArrayOffer group_offer(ArrayWay way, const ArrayQuery& query, const Offer& offer) {
    ArrayOffer found{.way = way, .possible = true};
    found.gpus = offer.grid.gpus();
    const std::int64_t fit = query.pool.max_gpus / found.gpus;
    found.groups = way == ArrayWay::one_by_one ? 1 : std::min(fit, query.members);
    found.at_a_time = 1;
    found.iteration_s = offer.estimate.iteration_s;
    found.plan = offer.plan;
    return found;
}

PlanQuery plan_query(const ArrayQuery& query) {
    return {.model = query.model,
            .global_batch = query.global_batch,
            .min_gpus = 1,
            .max_gpus = query.pool.max_gpus,
            .pools = {query.pool},
            .can = query.can};
}

/// The best of those offers that are of this way.
ArrayOffer best_of(ArrayWay way, const ArrayQuery& query, const std::vector<Offer>& offers) {
    ArrayOffer best{.way = way};
    for (const Offer& offer : offers) {
        const bool alone = offer.grid.gpus() == 1;
        const bool shares = 2 * offer.grid.gpus() <= query.pool.max_gpus;
        if (way == ArrayWay::alone && !alone) continue;
        if (way == ArrayWay::side_by_side && (alone || !shares)) continue;
        const ArrayOffer found = group_offer(way, query, offer);
        if (found.rate_per_s() > best.rate_per_s()) best = found;
    }
    if (best.possible) return best;
    best.reason = way == ArrayWay::alone ? "no plan fits one device"
                  : way == ArrayWay::side_by_side
                      ? "no plan fits half of the devices, or fewer but more than one"
                      : "no plan fits";
    return best;
}

// ---- the pipeline ------------------------------------------------------------------------------

/// A pipeline of some length, before and after its schedule is searched for.
struct Pipeline {
    std::vector<ArrayStage> stages;
    ArrayProblem problem;
    std::int64_t groups = 0, members = 0;
    double makespan_s = 0;
    array::Instance solved;
    [[nodiscard]] double rate_per_s() const { return real(groups * members) / makespan_s; }
};

array::PrefetchModel prefetch_of(const ArrayQuery& query, const Pipeline& pipeline) {
    array::PrefetchModel model;
    std::vector<array::Bytes> weights;
    for (std::size_t i = 0; i < pipeline.stages.size(); ++i) {
        weights.push_back(static_cast<array::Bytes>(pipeline.stages[i].weight_bytes));
        model.server.push_back(
            static_cast<int>(static_cast<std::int64_t>(i) / query.pool.gpus_per_node));
    }
    model.forward_state.assign(static_cast<std::size_t>(pipeline.members), weights);
    model.backward_state = pipeline.problem.needs.state;
    model.bytes_per_tick = query.host_bytes_per_s * pipeline.problem.tick_s;
    model.buffers = query.buffers;
    return model;
}

/// States that all have a buffer stay there from one iteration to the next.
array::PrefetchedSolution search(const ArrayQuery& query, const Pipeline& pipeline,
                                 const array::SolveOptions& options) {
    const array::Instance& instance = pipeline.problem.instance;
    if (pipeline.members <= query.buffers) return {instance, array::solve(instance, {}, options)};
    return array::solve_prefetched(instance, {}, prefetch_of(query, pipeline), options);
}

void solve(const ArrayQuery& query, Pipeline& pipeline, const array::SolveOptions& options) {
    const auto found = search(query, pipeline, options);
    if (!found.solution.schedule) return;
    pipeline.makespan_s = found.solution.schedule->makespan * pipeline.problem.tick_s;
    pipeline.solved = found.instance;
}

/// Whose states the memory of each node holds, for the stages that it has.
std::int64_t members_by_host(const ArrayQuery& query, const std::vector<ArrayStage>& stages) {
    if (query.host_bytes_per_gpu <= 0) return array::most_jobs;
    double most = array::most_jobs;
    const auto per_node = static_cast<std::size_t>(query.pool.gpus_per_node);
    for (std::size_t first = 0; first < stages.size(); first += per_node) {
        const std::size_t end = std::min(first + per_node, stages.size());
        double bytes = 0;
        for (std::size_t i = first; i < end; ++i) bytes += stages[i].home_bytes;
        most = std::min(most, query.host_bytes_per_gpu * static_cast<double>(end - first) / bytes);
    }
    return static_cast<std::int64_t>(most);
}

/// As many members as are there, as fit, and at most `most`.
Result<Pipeline> pipeline_of(const ArrayQuery& query, std::int64_t stages, std::int64_t most) {
    Pipeline pipeline;
    auto priced = array_stages(plan_query(query), query.pool, stages);
    if (!priced) return priced.error();
    pipeline.stages = std::move(*priced);
    pipeline.groups = query.pool.max_gpus / stages;
    const std::int64_t share = (query.members + pipeline.groups - 1) / pipeline.groups;
    const double reserved = query.pool.hardware.reserved_bytes;
    const std::int64_t by_host = members_by_host(query, pipeline.stages);
    if (by_host < 2)
        return no_error(fmt::format(
            "{} stages: the nodes' memory holds the states of fewer than two members", stages));
    const std::int64_t wanted = std::min({share, most, by_host});
    auto all = array_problem(pipeline.stages, wanted, query.buffers, reserved);
    if (!all) return all.error();
    const std::vector<array::Bytes> capacity(static_cast<std::size_t>(stages),
                                             query.pool.hardware.memory_bytes);
    pipeline.members = array::array_size(all->instance, all->needs, capacity, array::most_bytes);
    if (pipeline.members < 2)
        return no_error(fmt::format("{} stages: {} holds the states of fewer than two members",
                                    stages, query.pool.hardware.name));
    auto fitting = array_problem(pipeline.stages, pipeline.members, query.buffers, reserved);
    if (!fitting) return fitting.error();
    pipeline.problem = std::move(*fitting);
    pipeline.groups =
        std::min(pipeline.groups, (query.members + pipeline.members - 1) / pipeline.members);
    solve(query, pipeline, {.solver = array::Solver::list});
    if (pipeline.makespan_s <= 0) return no_error("no schedule was found");
    return pipeline;
}

double bubble_of(const Pipeline& pipeline) {
    double busy_ticks = 0;
    for (const array::Block& block : pipeline.solved.blocks) busy_ticks += block.hold;
    const double all_s = pipeline.makespan_s * real(pipeline.solved.devices);
    return 1 - busy_ticks * pipeline.problem.tick_s / all_s;
}

ArrayOffer offer_of(const ArrayQuery& query, const Pipeline& pipeline) {
    ArrayOffer offer{.way = ArrayWay::pipeline, .possible = true};
    offer.gpus = static_cast<std::int64_t>(pipeline.stages.size());
    offer.groups = pipeline.groups;
    offer.at_a_time = pipeline.members;
    offer.iteration_s = pipeline.makespan_s;
    offer.bubble = bubble_of(pipeline);
    for (const ArrayStage& stage : pipeline.stages) offer.plan.stage_layers.push_back(stage.layers);
    offer.plan.stage_dp.assign(pipeline.stages.size(), 1);
    offer.plan.stage_tp.assign(pipeline.stages.size(), 1);
    offer.plan.micro_batch = query.global_batch;
    offer.plan.recompute = Recompute::full;
    return offer;
}

/// Stages that are worth a look: all of the devices, and halves of them.
std::vector<std::int64_t> lengths(std::int64_t gpus) {
    std::vector<std::int64_t> list;
    for (std::int64_t stages = gpus; stages >= 2; stages /= 2) list.push_back(stages);
    return list;
}

ArrayOffer best_pipeline(const ArrayQuery& query) {
    std::optional<Pipeline> best;
    ArrayOffer none{.way = ArrayWay::pipeline, .reason = "a pipeline has two devices at least"};
    const std::int64_t longest = query.max_stages > 0
                                     ? std::min(query.max_stages, query.pool.max_gpus)
                                     : query.pool.max_gpus;
    for (const std::int64_t stages : lengths(longest)) {
        // No more than have a buffer need no fetching, which large states make dear.
        for (const std::int64_t most : {query.max_members, std::int64_t{query.buffers}}) {
            auto found = pipeline_of(query, stages, most);
            if (!found) {
                none.reason = found.error().text;
                continue;
            }
            if (!best || found->rate_per_s() > best->rate_per_s()) best = std::move(*found);
        }
    }
    if (!best) return none;
    solve(query, *best, query.solve);
    return offer_of(query, *best);
}

// ---- the choice --------------------------------------------------------------------------------

const ArrayOffer& at(const ArrayOffers& offers, ArrayWay way) {
    return offers.ways[static_cast<std::size_t>(way)];
}

const ArrayOffer& best_without(const ArrayOffers& offers) {
    return *std::max_element(
        offers.ways.begin(), offers.ways.end() - 1,
        [](const ArrayOffer& a, const ArrayOffer& b) { return a.rate_per_s() < b.rate_per_s(); });
}

void decide(ArrayOffers& offers) {
    const ArrayOffer& pipeline = at(offers, ArrayWay::pipeline);
    const ArrayOffer& best = best_without(offers);
    if (!pipeline.possible) {
        offers.why = "not bound: " + pipeline.reason;
        return;
    }
    const std::string sharing =
        fmt::format("{} members on {} stages take {:.4g} s for an iteration of each",
                    pipeline.at_a_time, pipeline.gpus, pipeline.iteration_s);
    if (!best.possible) {
        offers.binds = true;
        offers.why = fmt::format("bound: {}, and no member fits otherwise", sharing);
        return;
    }
    const double gain = pipeline.rate_per_s() / best.rate_per_s();
    offers.binds = gain >= least_gain;
    offers.why =
        fmt::format("{}: {}, {:.2f} times the iterations per second of members {}{}",
                    offers.binds ? "bound" : "not bound", sharing, gain, words_of(best.way),
                    offers.binds ? "" : fmt::format(", and {:.2f} is asked", least_gain));
}

}  // namespace

ArrayOffers array_offers(const ArrayQuery& query, const PlanBudget::Limits& limits) {
    PlanBudget budget(limits);
    const std::vector<Offer> offers =
        offers_of(plan_grids(query.alone.value_or(plan_query(query)), budget));
    ArrayOffers found;
    for (const ArrayWay way : {ArrayWay::alone, ArrayWay::side_by_side, ArrayWay::one_by_one})
        found.ways[static_cast<std::size_t>(way)] = best_of(way, query, offers);
    ArrayOffer& pipeline = found.ways[static_cast<std::size_t>(ArrayWay::pipeline)];
    if (at(found, ArrayWay::alone).possible)
        pipeline = {.way = ArrayWay::pipeline, .reason = alone_is_faster};
    else
        pipeline = best_pipeline(query);
    decide(found);
    return found;
}

std::string_view words_of(ArrayWay way) {
    switch (way) {
        case ArrayWay::alone:
            return "side by side on one device each";
        case ArrayWay::side_by_side:
            return "side by side on some devices each";
        case ArrayWay::one_by_one:
            return "one after another";
        case ArrayWay::pipeline:
            break;
    }
    return "through one pipeline";
}

}  // namespace arena
