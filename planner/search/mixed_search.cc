// SPDX-License-Identifier: GPL-2.0-or-later
#include "planner/search/mixed_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "base/statistics.h"
#include "planner/plans/iteration.h"

namespace arena {

namespace {

/// The same stages in another order differ by rounding only.
constexpr double slack = 1 + 1e-12;

std::int64_t stages_bound(bool is_homogeneous) {
    return std::int64_t{1} << (is_homogeneous ? 30 : 25);
}

}  // namespace

std::int64_t mixed_stages_bound(const Model& model) {
    return stages_bound(layer_list(model).kinds.size() == 1);
}

MixedSearch::MixedSearch(const PlanQuery& query, const PoolContext& context, PlanBudget& budget)
    : query_(query),
      context_(context),
      budget_(budget),
      shards_(context, query.pin.sequence_parallel.value_or(query.can.told.has(Feature::sp))),
      is_homogeneous_(context.is_homogeneous()),
      bound_(real(stages_bound(is_homogeneous_))) {}

bool MixedSearch::Label::beats(const Label& other) const {
    return exchange_s <= other.exchange_s * slack && step_s <= other.step_s * slack &&
           host_s <= other.host_s * slack && fixed_s <= other.fixed_s * slack &&
           sent_bytes >= other.sent_bytes && pipeline.at_most(other.pipeline, slack);
}

// ---- what a stage may be

void MixedSearch::list_options(const Setting& setting) {
    const std::int64_t per_node = grid_.gpus_per_node, most = grid_.gpus() - grid_.stages + 1;
    const std::int64_t samples = query_.global_batch / setting.micro_batches;
    options_.clear();
    const std::vector<std::int64_t> degrees = tp_degrees(query_, context_.pool);
    for (std::int64_t gpus = 1; gpus <= most && !spends(100);
         gpus += gpus < per_node ? 1 : per_node) {
        if (gpus < per_node && per_node % gpus != 0) continue;
        for (std::int64_t tp : degrees) {
            const std::int64_t dp = gpus / tp;
            if (tp > per_node || gpus % tp != 0 || samples % dp != 0) continue;
            if (query_.pin.dp != 0 && query_.pin.dp != dp) continue;
            if (query_.pin.micro_batch != 0 && query_.pin.micro_batch != samples / dp) continue;
            const Shard& shard = shards_.get(tp, samples / dp);
            options_.push_back({gpus, dp, tp, &shard});
        }
    }
}

/// Seconds of a micro-batch that a stage takes besides its layers and transfers.
double MixedSearch::ends_s(std::int64_t stage, const Shard& shard) const {
    return (stage == 0 ? shard.embedding_s + shard.embedding_comm_s : 0) +
           (stage + 1 == grid_.stages ? shard.head_s + shard.head_comm_s : 0);
}

PlanChoice MixedSearch::choice(const Setting& setting, const Option& option) const {
    return {grid_.stages, option.dp, setting.micro_batches, setting.recompute, setting.zero_stage};
}

/// Layers from `begin` on that fit a stage's memory, buffers aside, by the comparison that pricing
/// makes, and its share of the limit; `least` of them are known to.
std::int64_t MixedSearch::capacity_from(const Setting& setting, std::int64_t stage,
                                        const Option& option, std::int64_t begin,
                                        std::int64_t least, double limit_s) {
    const double bytes = real(context_.pool.hardware.memory_bytes), m = real(setting.micro_batches);
    const std::int64_t most =
        context_.model.layers - grid_.stages + 1 - (is_homogeneous_ ? 0 : begin - stage);
    const PlanChoice plan = choice(setting, option);
    const MemoryModel& memory = option.shard->memory;
    const StageMemory equal = is_homogeneous_ ? memory.stage(plan, stage) : StageMemory{};
    const double ends = ends_s(stage, *option.shard);
    std::int64_t layers = least;
    for (LayerRange next{begin, begin + least + 1}; layers < most && !spends(1);
         ++next.end, ++layers) {
        const double held = is_homogeneous_ ? equal.total(layers + 1)
                                            : memory.bytes(plan, stage, {&next, 1}) -
                                                  memory.buffer_bytes(plan, {&next, 1});
        const double work = option.shard->seconds(setting.recompute, next).total() + ends;
        if (held > bytes || m * work >= limit_s) break;
    }
    return layers;
}

/// A later first layer leaves room for as late a last one.
void MixedSearch::list_capacities(const Setting& setting, double limit_s) {
    capacities_.clear();
    begins_ = is_homogeneous_ ? 1 : static_cast<std::size_t>(context_.model.layers);
    for (std::int64_t stage = 0; stage < grid_.stages; ++stage)
        for (const Option& option : options_) {
            std::int64_t last = 0;
            for (std::size_t begin = 0; begin < begins_; ++begin) {
                last = capacity_from(setting, stage, option, static_cast<std::int64_t>(begin),
                                     std::max<std::int64_t>(0, last - 1), limit_s);
                capacities_.push_back(last);
            }
        }
}

bool MixedSearch::can_stand(std::int64_t stage, std::int64_t first_gpu, std::int64_t gpus) const {
    const std::int64_t left = grid_.gpus() - first_gpu - gpus;
    const std::int64_t after = grid_.stages - stage - 1;
    return (after == 0 ? left == 0 : left >= after) &&
           is_aligned(first_gpu, gpus, grid_.gpus_per_node);
}

std::int64_t& MixedSearch::held(std::int64_t stage, std::int64_t first_gpu) {
    return held_[static_cast<std::size_t>(stage * (grid_.gpus() + 1) + first_gpu)];
}

/// The most layers that the stages before each one can hold, by the GPUs that they use; false when
/// all stages on all GPUs cannot hold the model.
bool MixedSearch::list_held() {
    const std::int64_t gpus = grid_.gpus(), layers = context_.model.layers;
    held_.assign(static_cast<std::size_t>((grid_.stages + 1) * (gpus + 1)), -1);
    held(0, 0) = 0;
    std::vector<std::int64_t> most(static_cast<std::size_t>(gpus) + 1);  // by GPUs of the stage
    for (std::int64_t stage = 0; stage < grid_.stages; ++stage) {
        const std::int64_t most_before = layers - (grid_.stages - stage - 1);  // one for each after
        for (std::int64_t first = stage; first < gpus; ++first) {
            const std::int64_t begin = held(stage, first);
            if (begin < 0) continue;
            std::fill(most.begin(), most.end(), 0);
            for (std::size_t o = 0; o < options_.size(); ++o) {
                std::int64_t& best = most[static_cast<std::size_t>(options_[o].gpus)];
                best = std::max(best, capacity(stage, o, begin));
            }
            for (std::int64_t n = 1; n <= gpus - first; ++n) {
                const std::int64_t own = most[static_cast<std::size_t>(n)];
                if (spends(1)) return false;
                if (own == 0 || !can_stand(stage, first, n)) continue;
                std::int64_t& after = held(stage + 1, first + n);
                after = std::max(after, std::min(most_before, begin + own));
            }
        }
    }
    return held(grid_.stages, gpus) >= layers;
}

// ---- what the stages after one can at best do

MixedSearch::Rest& MixedSearch::rest(std::int64_t stage, std::int64_t first_gpu,
                                     std::int64_t layers) {
    const std::int64_t gpus = grid_.gpus() + 1, most = context_.model.layers + 1;
    return rests_[static_cast<std::size_t>((stage * gpus + first_gpu) * most + layers)];
}

/// Of the paths that PipelineLength knows, the one by way of this stage alone and those that pass
/// the stages after it twice; each minimum by itself. Only layers that the stages before leave.
void MixedSearch::list_rest(const Setting& setting, std::int64_t stage, std::int64_t first_gpu) {
    const std::int64_t m = setting.micro_batches, after = grid_.stages - stage - 1;
    const std::int64_t own = std::min(m, after + 1), layers = context_.model.layers;
    const double again = own < m ? 1 : 0, alone = real(m - own + 1);
    const std::int64_t least = layers - held(stage, first_gpu);
    for (std::size_t o = 0; o < options_.size(); ++o) {
        const Option& option = options_[o];
        if (!can_stand(stage, first_gpu, option.gpus)) continue;
        const double ends = ends_s(stage, *option.shard);
        for (std::int64_t all = std::max(after + 1, least); all <= layers - stage; ++all) {
            const std::int64_t begin = layers - all;
            const std::int64_t most = std::min(capacity(stage, o, begin), all - after);
            if (spends(most)) return;
            for (std::int64_t n = 1; n <= most; ++n) {
                const Rest& behind = rest(stage + 1, first_gpu + option.gpus, all - n);
                if (behind.sum_s == infinity) continue;
                const LayerRange range{begin, begin + n};
                const double pass = option.shard->seconds(setting.recompute, range).total() + ends;
                Rest& best = rest(stage, first_gpu, all);
                best.sum_s = std::min(best.sum_s, pass + behind.sum_s);
                best.length_s =
                    std::min(best.length_s,
                             std::max({pass + behind.length_s,
                                       alone * pass + (1 + again) * behind.sum_s, real(m) * pass}));
            }
        }
    }
}

void MixedSearch::list_rests(const Setting& setting) {
    const std::int64_t gpus = grid_.gpus(), layers = context_.model.layers;
    rests_.assign(static_cast<std::size_t>((grid_.stages + 1) * (gpus + 1) * (layers + 1)),
                  {infinity, infinity});
    rest(grid_.stages, gpus, 0) = {0, 0};
    for (std::int64_t stage = grid_.stages - 1; stage >= 0; --stage)
        for (std::int64_t first = stage; first < gpus; ++first)
            if (held(stage, first) >= 0) list_rest(setting, stage, first);
}

/// Every layer at the best rate per GPU and no bubble.
double MixedSearch::ideal_s(const Setting& setting) {
    list_options(setting);
    const LayerRange all{0, context_.model.layers};
    double least_gpu_s = infinity;
    for (const Option& option : options_)
        least_gpu_s = std::min(
            least_gpu_s, real(option.gpus) * option.shard->seconds(setting.recompute, all).total());
    return real(setting.micro_batches) * least_gpu_s / real(grid_.gpus());
}

/// Leaves options, capacities and rests as the setting has them; infinite when nothing fits below
/// the limit.
double MixedSearch::bound_s(const Setting& setting, double limit_s) {
    list_options(setting);
    list_capacities(setting, limit_s);
    if (spends(1) || !list_held()) return infinity;
    list_rests(setting);
    if (spends(1)) return infinity;
    const double fixed =
        context_.pool.hardware.emulated ? 0 : context_.constants.framework.iteration_s;
    return (1 - 1e-12) * (rest(0, 0, context_.model.layers).length_s + fixed);
}

// ---- search

StagePart MixedSearch::part(const Setting& setting, std::int64_t stage, std::uint32_t option,
                            LayerRange layers) {
    const Option& o = options_[option];
    const auto price = [&] {
        return lone_part(context_, topology_, *o.shard, choice(setting, o), stage, layers);
    };
    if (!is_homogeneous_) return price();
    const std::int64_t place = stage == 0 ? 0 : stage + 1 < grid_.stages ? 1 : 2;
    const auto options = static_cast<std::int64_t>(options_.size());
    const auto at = static_cast<std::size_t>(
        (place * options + option) * (context_.model.layers + 1) + layers.size());
    if (has_part_[at] == 0) {
        parts_[at] = price();
        has_part_[at] = 1;
    }
    return parts_[at];
}

void MixedSearch::extend(const Setting& setting, std::int64_t stage, std::uint32_t from,
                         double limit_s) {
    const Label parent = labels_[from];
    const std::int64_t m = setting.micro_batches, after = grid_.stages - stage - 1;
    const std::int64_t left = context_.model.layers - parent.layers;
    const double bytes = real(context_.pool.hardware.memory_bytes);
    for (std::uint32_t o = 0; o < options_.size(); ++o) {
        const Option& option = options_[o];
        if (!can_stand(stage, parent.gpus, option.gpus)) continue;
        Label label = parent;
        label.gpus += option.gpus;
        label.parent = from, label.option = o;
        const std::int64_t room = std::min(capacity(stage, o, parent.layers), left - after);
        for (std::int64_t n = 1; n <= room; ++n) {
            if (spends(1)) return;
            const Rest& behind = rest(stage + 1, label.gpus, left - n);
            if (behind.sum_s == infinity) continue;
            const LayerRange own{parent.layers, parent.layers + n};
            const StagePart p = part(setting, stage, o, own);
            if (p.bytes > bytes) continue;  // for what it sends
            if (parent.pipeline.sum_s + real(m) * p.pass_s() >= limit_s) break;
            set_boundary(label, parent, option, own);
            label.layers = own.end;
            label.pipeline = parent.pipeline;
            label.pipeline.add(p.forward_s + label.boundary_s / 2,
                               p.backward_s + label.boundary_s / 2, std::min(m, after + 1), m);
            label.exchange_s = std::max(parent.exchange_s, p.exchange_s);
            label.step_s = std::max(parent.step_s, p.step_s);
            label.host_s = std::max(parent.host_s, p.host_s);
            if (stage == 0)
                label.fixed_s =
                    Iteration(context_, topology_, *option.shard, choice(setting, option))
                        .fixed_s();
            const double least = std::max(label.pipeline.least_s(behind.sum_s),
                                          label.pipeline.sum_s + behind.length_s);
            if (least + label.ends_s() < limit_s) labels_.push_back(label);
        }
    }
}

/// What the stage sends, the last one nothing, and its boundaries' share of its time.
void MixedSearch::set_boundary(Label& label, const Label& parent, const Option& option,
                               LayerRange layers) const {
    const Shard& shard = *option.shard;
    label.sent_bytes = shard.boundary_bytes(layers.end);
    label.sent_s = layers.end == context_.model.layers
                       ? 0
                       : hand_over_s(context_, topology_, label.gpus, label.sent_bytes);
    const double received_s =
        layers.begin == 0
            ? 0
            : hand_over_s(context_, topology_, parent.gpus,
                          std::max(parent.sent_bytes, shard.boundary_bytes(layers.begin)));
    label.boundary_s =
        mixed_boundary_s(context_.constants.framework, label.sent_s, received_s, parent.sent_s);
}

/// Of labels with the same layers and GPUs, keeps those that nothing beats.
void MixedSearch::keep_best(std::size_t begin) {
    const auto key = [](const Label& l) { return std::pair(l.layers, l.gpus); };
    std::stable_sort(labels_.begin() + static_cast<std::ptrdiff_t>(begin), labels_.end(),
                     [&](const Label& a, const Label& b) {
                         return std::tuple(key(a), a.pipeline.closed_s + a.ends_s()) <
                                std::tuple(key(b), b.pipeline.closed_s + b.ends_s());
                     });
    std::size_t kept = begin, group = begin;
    for (std::size_t i = begin; i < labels_.size(); ++i) {
        if (kept > group && key(labels_[group]) != key(labels_[i])) group = kept;
        if (spends(static_cast<std::int64_t>((kept - group) / 4))) break;
        const bool beaten =
            std::any_of(labels_.begin() + static_cast<std::ptrdiff_t>(group),
                        labels_.begin() + static_cast<std::ptrdiff_t>(kept),
                        [&](const Label& other) { return other.beats(labels_[i]); });
        if (!beaten) labels_[kept++] = labels_[i];
    }
    labels_.resize(kept);
}

Plan MixedSearch::to_plan(const Setting& setting, std::uint32_t at) const {
    Plan plan;
    const auto stages = static_cast<std::size_t>(grid_.stages);
    for (auto* list : {&plan.stage_layers, &plan.stage_dp, &plan.stage_tp}) list->resize(stages);
    for (std::size_t i = stages; i-- > 0; at = labels_[at].parent) {
        const Label& label = labels_[at];
        plan.stage_layers[i] = label.layers - labels_[label.parent].layers;
        plan.stage_dp[i] = options_[label.option].dp;
        plan.stage_tp[i] = options_[label.option].tp;
        plan.sequence_parallel |= options_[label.option].shard->shape.sequence_parallel;
    }
    plan.num_micro_batches = setting.micro_batches;
    plan.micro_batch = query_.global_batch / (setting.micro_batches * plan.dp());
    plan.recompute = setting.recompute;
    plan.zero_stage = setting.zero_stage;
    return plan;
}

bool MixedSearch::solve(const Setting& setting, double limit_s, Found& found) {
    if (bound_s(setting, limit_s) >= limit_s) return false;
    const auto numbers = static_cast<std::size_t>(is_homogeneous_ ? context_.model.layers + 1 : 0);
    has_part_.assign(3 * options_.size() * numbers, 0);
    parts_.resize(has_part_.size());
    labels_.assign(1, {});
    const auto most = static_cast<std::size_t>(query_.max_partial_plans);
    std::size_t begin = 0;
    for (std::int64_t stage = 0; stage < grid_.stages; ++stage) {
        const std::size_t end = labels_.size();
        for (std::size_t from = begin; from < end; ++from) {
            extend(setting, stage, static_cast<std::uint32_t>(from), limit_s);
            if (spends(1)) return false;
            if (labels_.size() <= most) continue;
            left_out_s_ = std::min(left_out_s_, setting.least_s);
            return false;
        }
        keep_best(end);
        begin = end;
    }
    bool better = false;
    for (std::size_t i = begin; i < labels_.size() && !spends(100); ++i) {
        const Plan plan = to_plan(setting, static_cast<std::uint32_t>(i));
        const double seconds = price_mixed(context_, topology_, shards_, plan).iteration_s;
        if (seconds >= std::min(limit_s, found.seconds)) continue;
        found = {seconds, plan};
        better = true;
    }
    return better;
}

/// Those that may have a plan below the limit, the most promising first.
std::vector<MixedSearch::Setting> MixedSearch::settings_below(double limit_s) {
    std::vector<Setting> settings;
    for (const std::int64_t m : divisors(query_.global_batch)) {
        if (spends(1)) break;
        if (query_.pin.num_micro_batches != 0 && query_.pin.num_micro_batches != m) continue;
        for (Recompute recompute : recompute_kinds(query_))
            for (std::int64_t zero : zero_stages(query_, grid_.stages, 2)) {
                Setting setting{m, zero, recompute, 0};
                if (ideal_s(setting) >= limit_s) break;  // ZeRO changes nothing of it
                setting.least_s = bound_s(setting, limit_s);
                if (setting.least_s < limit_s) settings.push_back(setting);
            }
    }
    std::stable_sort(settings.begin(), settings.end(),
                     [](const Setting& a, const Setting& b) { return a.least_s < b.least_s; });
    return settings;
}

/// A limit close to the best conceivable plan first: few partial plans are below it.
void MixedSearch::search_below(double limit_s, Found& found) {
    const std::vector<Setting> settings = settings_below(limit_s);
    if (settings.empty()) return;
    for (double near_s = 1.02 * settings.front().least_s;; near_s *= 1.05) {
        const double tight_s = std::min(near_s, limit_s);
        for (const Setting& setting : settings)
            if (setting.least_s < std::min(tight_s, found.seconds))
                solve(setting, std::min(tight_s, found.seconds), found);
        if (found.seconds < tight_s || tight_s == limit_s || spends(1)) return;
    }
}

bool MixedSearch::can_be_mixed(const Grid& grid) const {
    const PlanPin& pin = query_.pin;
    const bool wants_tp =
        pin.sequence_parallel.value_or(false);  // of some stage at least, which may have none
    return pin.vpp <= 1 && pin.cp <= 1 && pin.ep <= 1 && pin.hsdp == 0 && !wants_tp &&
           schedule_of(query_) == Schedule::one_f_one_b && grid.stages >= 2 &&
           grid.stages <= context_.model.layers && grid.stages <= grid.gpus();
}

bool MixedSearch::is_too_large(const Grid& grid) const {
    const double layers = real(context_.model.layers);
    return can_be_mixed(grid) && real(grid.stages) * real(grid.gpus()) * layers * layers > bound_;
}

/// Of what the stages after one can do, the greatest table.
bool MixedSearch::has_memory(const Grid& grid) {
    const double rows =
        real(grid.stages + 1) * real(grid.gpus() + 1) * real(context_.model.layers + 1);
    const bool has = rows * sizeof(Rest) <= static_cast<double>(budget_.limits().bytes);
    cut_short_ = cut_short_ || !has;
    return has;
}

bool MixedSearch::search(const Grid& grid, double limit_s, Plan& plan, Estimate& estimate) {
    left_out_s_ = infinity;
    cut_short_ = false;
    if (!can_be_mixed(grid) || is_too_large(grid)) return false;
    if (spends(1) || !has_memory(grid)) return false;
    grid_ = grid;
    topology_ = topology_of(context_.pool, grid);
    Found found{infinity, {}};
    if (std::isfinite(limit_s)) {
        search_below(limit_s, found);
    } else {  // no uniform plan: widen from the ideal until something fits
        double ideal = infinity;
        for (const std::int64_t m : divisors(query_.global_batch))
            if (!spends(1)) ideal = std::min(ideal, ideal_s({m, 0, Recompute::none, 0}));
        for (double factor = 1.5; factor < 1e5 && !std::isfinite(found.seconds) && !spends(1);
             factor *= 3)
            search_below(factor * ideal, found);
    }
    if (!std::isfinite(found.seconds)) return false;
    plan = found.plan;
    estimate = price_mixed(context_, topology_, shards_, plan);
    return true;
}

}  // namespace arena
