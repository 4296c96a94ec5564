// SPDX-License-Identifier: GPL-2.0-or-later
#include "planner/mixed.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>

#include "planner/model.h"

namespace arena {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr std::int64_t max_rank_batch = 128;  ///< as in grids.cc

double real(std::int64_t value) { return static_cast<double>(value); }

/// Both directions of what one stage hands to the next, at the rate of the fuller ranks.
double hand_over_s(const PoolContext& context, const Topology& topology, std::int64_t end_gpu,
                   double bytes) {
    const bool crosses = end_gpu % topology.gpus_per_node == 0;
    return 2 * (1 - context.constants.framework.overlap_boundary) *
           point_to_point_s(topology, crosses, bytes);
}

/// Whether `gpus` from first_gpu on fill whole nodes, or an aligned part of one.
bool is_aligned(std::int64_t first_gpu, std::int64_t gpus, std::int64_t gpus_per_node) {
    if (gpus < gpus_per_node) return gpus_per_node % gpus == 0 && first_gpu % gpus == 0;
    return gpus % gpus_per_node == 0 && first_gpu % gpus_per_node == 0;
}

/// A stage without its hand-over to the next.
StagePart lone_part(const PoolContext& context, const Topology& topology, const Shard& shard,
                    const PlanChoice& choice, std::span<const std::int64_t> layers,
                    std::size_t index) {
    StagePart part = stage_part(context, topology, shard, choice, layers, index);
    part.pass_s -= part.boundary_s;
    part.boundary_s = 0;
    return part;
}

/// The parts of an estimate that one stage decides.
void add_stage_times(Estimate& e, const Shard& shard, const Plan& plan, std::size_t i,
                     const StagePart& part) {
    const double m = real(plan.num_micro_batches);
    const bool last = i + 1 == plan.stage_layers.size();
    e.tp_comm_s = m * (real(plan.stage_layers[i]) * layer_seconds(shard, plan.recompute).comm_s +
                       (i == 0 ? shard.embedding_comm_s : 0) + (last ? shard.head_comm_s : 0));
    e.pp_comm_s = m * part.boundary_s;
    e.compute_s = m * part.pass_s - e.tp_comm_s - e.pp_comm_s;
}

}  // namespace

ShardBook::ShardBook(const PoolContext& context, bool sequence_parallel)
    : context_(context), sequence_parallel_(sequence_parallel) {}

const Shard& ShardBook::get(std::int64_t tp, std::int64_t micro_batch) {
    std::unique_ptr<Shard>& slot = shards_[{tp, micro_batch}];
    if (!slot) {
        const GpuPool& pool = context_.pool;
        const Topology node =
            make_topology(pool.hardware, {pool.gpu_type, 1, tp, 1}, pool.gpus_per_node);
        ShardShape shape;
        shape.tp = tp;
        shape.micro_batch = micro_batch;
        shape.sequence_parallel =
            sequence_parallel_ && default_sequence_parallel(context_.model, tp);
        slot = std::make_unique<Shard>(context_, node, shape);
    }
    return *slot;
}

bool is_mixed(const Plan& plan) {
    const auto differ = [](const std::vector<std::int64_t>& list) {
        return std::any_of(list.begin(), list.end(),
                           [&](std::int64_t v) { return v != list.front(); });
    };
    return differ(plan.stage_dp) || differ(plan.stage_tp);
}

Status check_mixed(const Plan& plan, std::int64_t gpus_per_node) {
    if (plan.vpp != 1 || plan.cp != 1 || plan.ep != 1)
        return usage_error("stages that differ in dp or tp take vpp, cp and ep of 1");
    const std::int64_t samples = plan.micro_batch * plan.dp();
    std::int64_t first = 0;
    for (std::size_t i = 0; i < plan.stage_dp.size(); ++i) {
        const std::int64_t gpus = plan.stage_dp[i] * plan.stage_tp[i];
        if (samples % plan.stage_dp[i] != 0)
            return usage_error(
                fmt::format("stage {} has dp{}, which does not divide the {} samples "
                            "of a micro-batch",
                            i, plan.stage_dp[i], samples));
        if (plan.stage_tp[i] > gpus_per_node || !is_aligned(first, gpus, gpus_per_node))
            return usage_error(
                fmt::format("stage {} has {} GPUs from number {} on, which are neither "
                            "whole nodes of {} nor an aligned part of one",
                            i, gpus, first, gpus_per_node));
        first += gpus;
    }
    return Done{};
}

Estimate price_mixed(const PoolContext& context, const Topology& topology, ShardBook& shards,
                     const Plan& plan) {
    const std::size_t stages = plan.stage_layers.size();
    const std::int64_t samples = plan.micro_batch * plan.dp();
    Estimate e;
    double sum = 0, slowest_s = -1, exchange = 0, step = 0, host = 0, fixed = 0;
    std::int64_t end_gpu = 0;
    for (std::size_t i = 0; i < stages; ++i) {
        const Shard& shard = shards.get(plan.stage_tp[i], samples / plan.stage_dp[i]);
        const PlanChoice choice{plan.pp(), plan.stage_dp[i], plan.num_micro_batches, plan.recompute,
                                plan.zero_stage};
        StagePart part = lone_part(context, topology, shard, choice, plan.stage_layers, i);
        end_gpu += plan.stage_dp[i] * plan.stage_tp[i];
        if (i + 1 < stages) {
            const Shard& next = shards.get(plan.stage_tp[i + 1], samples / plan.stage_dp[i + 1]);
            part.boundary_s = hand_over_s(context, topology, end_gpu,
                                          std::max(shard.boundary_bytes, next.boundary_bytes));
            part.pass_s += part.boundary_s;
        }
        if (i == 0) fixed = fixed_seconds(context, topology, shard, choice);
        sum += part.pass_s;
        exchange = std::max(exchange, part.exchange_s);
        step = std::max(step, part.step_s);
        host = std::max(host, part.host_s);
        e.memory_bytes_per_gpu = std::max(e.memory_bytes_per_gpu, part.bytes);
        if (part.pass_s <= slowest_s) continue;
        slowest_s = part.pass_s;
        add_stage_times(e, shard, plan, i, part);
        std::vector<double> scratch(stages);  // what its evidence is worth
        const Estimate alike =
            price_stages(context, topology, shard, choice, plan.stage_layers, scratch);
        e.source = alike.source;
        e.error_bound = alike.error_bound;
    }
    const double own = context.pool.hardware.emulated ? 0 : context.constants.framework.iteration_s;
    e.bubble_s = sum - slowest_s;
    e.dp_comm_s = exchange + fixed - own;
    e.optimizer_s = step + host + own;
    e.iteration_s =
        sum + real(plan.num_micro_batches - 1) * slowest_s + exchange + step + host + fixed;
    e.samples_per_s = real(context.global_batch) / e.iteration_s;
    e.tflops_per_gpu =
        3 * forward_flops(context.model) * e.samples_per_s / real(plan.gpus()) / 1e12;
    return e;
}

// ---- search
// ---------------------------------------------------------------------------------------

MixedSearch::MixedSearch(const PlanQuery& query, const PoolContext& context)
    : query_(query), context_(context), shards_(context, query.can.sequence_parallel) {}

/// Whether some stage of the grid can hold one layer this way.
bool MixedSearch::holds_a_layer(const Grid& grid, const Setting& setting, const Shard& shard,
                                std::int64_t dp) const {
    const PlanChoice choice{grid.stages, dp, setting.micro_batches, setting.recompute,
                            setting.zero_stage};
    for (std::int64_t i = 0; i < grid.stages; ++i)
        if (shard.memory.stage(choice, i).total(1) <= real(context_.pool.hardware.memory_bytes))
            return true;
    return false;
}

void MixedSearch::list_options(const Grid& grid, const Setting& setting) {
    const std::int64_t per_node = gpus_per_node_;
    const std::int64_t samples = query_.global_batch / setting.micro_batches;
    options_.clear();
    least_gpu_s_ = infinity;
    const auto add = [&](std::int64_t gpus, std::int64_t tp) {
        const std::int64_t dp = gpus / tp;
        if (gpus % tp != 0 || samples % dp != 0 || samples / dp > max_rank_batch) return;
        if (query_.pin.dp != 0 && query_.pin.dp != dp) return;
        if (query_.pin.micro_batch != 0 && query_.pin.micro_batch != samples / dp) return;
        const Shard& shard = shards_.get(tp, samples / dp);
        if (!holds_a_layer(grid, setting, shard, dp)) return;
        const double layer_s = layer_seconds(shard, setting.recompute).total();
        options_.push_back({gpus, dp, tp, &shard, layer_s});
        least_gpu_s_ = std::min(least_gpu_s_, real(gpus) * layer_s);
    };
    const std::vector<std::int64_t> degrees = tp_degrees(query_, context_.pool);
    const std::int64_t all = per_node * nodes_;
    for (std::int64_t gpus = 1; gpus <= all; gpus += gpus < per_node ? 1 : per_node) {
        if (gpus < per_node && per_node % gpus != 0) continue;
        for (std::int64_t tp : degrees)
            if (tp <= per_node) add(gpus, tp);
    }
}

/// No plan that ends in these stages takes less: the layers before them at the best rate per GPU,
/// perfectly balanced.
double MixedSearch::floor_s(const Label& label, std::int64_t gpus,
                            std::int64_t stages_before) const {
    double rest = 0, slowest = label.pass_s;
    if (stages_before > 0) {
        const double work = real(context_.model.layers - label.layers) * least_gpu_s_;
        const std::int64_t left = gpus - label.gpus;
        rest = work / real(left - (stages_before - 1));
        slowest = std::max(slowest, work / real(left));
    }
    return label.sum_s + rest + pass_weight_ * slowest + label.exchange_s + label.step_s +
           label.host_s + fixed_s_;
}

void MixedSearch::extend(const Grid& grid, const Setting& setting, std::int64_t stage,
                         std::uint32_t from, double limit_s) {
    const Label behind = labels_[from];
    const std::int64_t gpus_left = grid.gpus() - behind.gpus;
    const std::int64_t layers_left = context_.model.layers - behind.layers;
    const auto index = static_cast<std::size_t>(stage);
    for (std::uint32_t o = 0; o < options_.size(); ++o) {
        const Option& option = options_[o];
        const std::int64_t first = gpus_left - option.gpus;
        if (stage == 0 ? first != 0 : first < stage) continue;
        if (!is_aligned(first, option.gpus, gpus_per_node_)) continue;
        const PlanChoice choice{grid.stages, option.dp, setting.micro_batches, setting.recompute,
                                setting.zero_stage};
        const double hand_over =
            stage + 1 == grid.stages
                ? 0
                : hand_over_s(context_, topology_, gpus_left,
                              std::max(option.shard->boundary_bytes, behind.arriving_bytes));
        const StageMemory memory = option.shard->memory.stage(choice, stage);
        for (std::int64_t n = stage == 0 ? layers_left : 1; n <= layers_left - stage; ++n) {
            if (memory.total(n) > real(context_.pool.hardware.memory_bytes)) break;
            Label label = behind;
            label.layers += n;
            label.gpus += option.gpus;
            label.parent = from;
            label.option = o;
            label.arriving_bytes = option.shard->boundary_bytes;
            // Layers alone first: most labels end here.
            label.pass_s = std::max(behind.pass_s, real(n) * option.layer_s + hand_over);
            label.sum_s = behind.sum_s + real(n) * option.layer_s + hand_over;
            if (pass_weight_ * label.pass_s + label.sum_s >= limit_s) break;
            if (floor_s(label, grid.gpus(), stage) >= limit_s) continue;
            scratch_[index] = n;
            const StagePart part =
                lone_part(context_, topology_, *option.shard, choice, scratch_, index);
            label.sum_s = behind.sum_s + part.pass_s + hand_over;
            if (stage == 0)  // the table that it shares with the last stage
                label.sum_s += fixed_seconds(context_, topology_, *option.shard, choice) - fixed_s_;
            label.pass_s = std::max(behind.pass_s, part.pass_s + hand_over);
            label.exchange_s = std::max(behind.exchange_s, part.exchange_s);
            label.step_s = std::max(behind.step_s, part.step_s);
            label.host_s = std::max(behind.host_s, part.host_s);
            if (floor_s(label, grid.gpus(), stage) < limit_s) labels_.push_back(label);
        }
    }
}

void MixedSearch::keep_best(std::size_t begin) {
    const auto key = [](const Label& l) { return std::tuple(l.layers, l.gpus); };
    // The same stages in another order differ by rounding only.
    const auto at_most = [](double a, double b) { return a <= b * (1 + 1e-12); };
    const auto beats = [&](const Label& a, const Label& b) {
        return at_most(a.sum_s, b.sum_s) && at_most(a.pass_s, b.pass_s) &&
               at_most(a.exchange_s, b.exchange_s) && at_most(a.step_s, b.step_s) &&
               at_most(a.host_s, b.host_s) && a.arriving_bytes <= b.arriving_bytes;
    };
    std::stable_sort(labels_.begin() + static_cast<std::ptrdiff_t>(begin), labels_.end(),
                     [&](const Label& a, const Label& b) {
                         return std::tuple_cat(key(a), std::tuple(a.pass_s)) <
                                std::tuple_cat(key(b), std::tuple(b.pass_s));
                     });
    std::size_t kept = begin, group = begin;
    for (std::size_t i = begin; i < labels_.size(); ++i) {
        if (kept > group && key(labels_[group]) != key(labels_[i])) group = kept;
        const bool beaten =
            std::any_of(labels_.begin() + static_cast<std::ptrdiff_t>(group),
                        labels_.begin() + static_cast<std::ptrdiff_t>(kept),
                        [&](const Label& other) { return beats(other, labels_[i]); });
        if (!beaten) labels_[kept++] = labels_[i];
    }
    labels_.resize(kept);
}

Plan MixedSearch::to_plan(const Setting& setting, std::int64_t stages, std::uint32_t at) const {
    Plan plan;
    for (std::int64_t i = 0; i < stages; ++i) {
        const Label& label = labels_[at];
        plan.stage_layers.push_back(label.layers - labels_[label.parent].layers);
        plan.stage_dp.push_back(options_[label.option].dp);
        plan.stage_tp.push_back(options_[label.option].tp);
        plan.sequence_parallel |= options_[label.option].shard->shape.sequence_parallel;
        at = label.parent;
    }
    plan.num_micro_batches = setting.micro_batches;
    plan.micro_batch = query_.global_batch / (setting.micro_batches * plan.dp());
    plan.recompute = setting.recompute;
    plan.zero_stage = setting.zero_stage;
    return plan;
}

bool MixedSearch::solve(const Grid& grid, const Setting& setting, double limit_s, Found& found) {
    if (least_s(grid, setting) >= limit_s) return false;
    pass_weight_ = real(setting.micro_batches - 1);
    scratch_.assign(static_cast<std::size_t>(grid.stages), 1);
    fixed_s_ = context_.pool.hardware.emulated ? 0 : context_.constants.framework.iteration_s;
    labels_.clear();
    labels_.push_back({0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
    std::size_t begin = 0;
    for (std::int64_t stage = grid.stages - 1; stage >= 0; --stage) {
        const std::size_t end = labels_.size();
        for (std::size_t from = begin; from < end; ++from) {
            extend(grid, setting, stage, static_cast<std::uint32_t>(from), limit_s);
            if (labels_.size() > max_labels) return false;
        }
        keep_best(end);
        begin = end;
    }
    bool better = false;
    for (std::size_t i = begin; i < labels_.size(); ++i) {
        const Plan plan = to_plan(setting, grid.stages, static_cast<std::uint32_t>(i));
        const double seconds = price_mixed(context_, topology_, shards_, plan).iteration_s;
        if (seconds >= std::min(limit_s, found.seconds)) continue;
        found = {seconds, plan};
        better = true;
    }
    return better;
}

/// Every layer at the best rate per GPU and no bubble; lists the options on the way.
double MixedSearch::least_s(const Grid& grid, const Setting& setting) {
    list_options(grid, setting);
    return real(setting.micro_batches) * real(context_.model.layers) * least_gpu_s_ /
           real(grid.gpus());
}

void MixedSearch::search_below(const Grid& grid, double limit_s, Found& found) {
    for (std::int64_t m = 1; m <= query_.global_batch; ++m) {
        if (query_.global_batch % m != 0) continue;
        for (Recompute recompute : recompute_kinds(query_))
            for (std::int64_t zero : zero_stages(query_, grid.stages, 2))
                solve(grid, {m, zero, recompute}, std::min(limit_s, found.seconds), found);
    }
}

bool MixedSearch::search(const Grid& grid, double limit_s, Plan& plan, Estimate& estimate) {
    const PlanPin& pin = query_.pin;
    if (pin.vpp > 1 || pin.cp > 1 || pin.ep > 1 || grid.stages < 2 ||
        grid.stages > context_.model.layers)
        return false;
    topology_ = make_topology(context_.pool.hardware, grid, context_.pool.gpus_per_node);
    nodes_ = grid.nodes;
    gpus_per_node_ = grid.gpus_per_node;
    Found found{infinity, {}};
    if (std::isfinite(limit_s)) {
        search_below(grid, limit_s, found);
    } else {  // no uniform plan: widen from the ideal until something fits
        double ideal = infinity;
        for (std::int64_t m = 1; m <= query_.global_batch; ++m)
            if (query_.global_batch % m == 0)
                ideal = std::min(ideal, least_s(grid, {m, 0, Recompute::none}));
        for (double factor = 2; factor < 1e5 && !std::isfinite(found.seconds); factor *= 3)
            search_below(grid, factor * ideal, found);
    }
    if (!std::isfinite(found.seconds)) return false;
    plan = found.plan;
    estimate = price_mixed(context_, topology_, shards_, plan);
    return true;
}

}  // namespace arena
