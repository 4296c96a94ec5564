// SPDX-License-Identifier: GPL-2.0-or-later
#include "planner/search/grids.h"

#include <algorithm>
#include <bit>

#include "planner/operators/operators.h"

namespace arena {

namespace {

constexpr std::int64_t dense_nodes = 32;    ///< below this every whole-node count is offered
constexpr std::int64_t max_degree = 64;     ///< of context and expert parallelism, unless pinned
constexpr std::int64_t pinned_counts = 64;  ///< multiples of a pin that are offered

/// Thins large counts to multiples of a sixteenth of their power of two.
bool offers_nodes(std::int64_t nodes) {
    if (nodes <= dense_nodes) return true;
    const auto floor = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(nodes)));
    return nodes % (floor / 16) == 0;
}

/// The pinned degree, else 1, else from 1 on every one that fits, up to `most`.
template <typename Fits>
std::vector<std::int64_t> degrees(Degree can, std::int64_t pinned, Fits fits,
                                  std::int64_t most = max_degree) {
    if (pinned > 1) return fits(pinned) ? std::vector{pinned} : std::vector<std::int64_t>{};
    std::vector<std::int64_t> list{1};
    if (pinned == 1 || can != Degree::free) return list;
    for (std::int64_t degree = 2; degree <= most; ++degree)
        if (fits(degree)) list.push_back(degree);
    return list;
}

struct Range {
    std::int64_t min, max, step;  ///< step: product of the pinned degrees
};

void add(std::vector<NodeShape>& shapes, const Range& range, std::int64_t gpus, std::int64_t site) {
    if (gpus < range.min || gpus > range.max || gpus % range.step != 0) return;
    const NodeShape shape = node_shape(gpus, site);
    if (std::find(shapes.begin(), shapes.end(), shape) == shapes.end()) shapes.push_back(shape);
}

}  // namespace

NodeShape node_shape(std::int64_t gpus, std::int64_t site) {
    std::int64_t nodes = (gpus + site - 1) / site;
    while (gpus % nodes != 0) ++nodes;
    return {nodes, gpus / nodes};
}

std::vector<NodeShape> node_shapes(const PlanQuery& query, const GpuPool& pool) {
    const PlanPin& pin = query.pin;
    const std::int64_t site = std::max<std::int64_t>(1, pool.gpus_per_node);
    const std::int64_t most =
        query.max_gpus > 0 ? std::min(query.max_gpus, pool.max_gpus) : pool.max_gpus;
    const Range range{std::max<std::int64_t>(1, query.min_gpus), most, pin.gpus()};
    std::vector<NodeShape> shapes;
    if (range.min > range.max) return shapes;
    for (std::int64_t n = range.min; n <= std::min(site, range.max); ++n)
        add(shapes, range, n, site);
    for (std::int64_t n = 1; n <= range.max; n *= 2)
        if (n > site) add(shapes, range, n, site);
    const std::int64_t first = std::max<std::int64_t>(2, (range.min + site - 1) / site);
    for (std::int64_t nodes = first; nodes * site <= range.max; ++nodes)
        if (offers_nodes(nodes)) add(shapes, range, nodes * site, site);
    add(shapes, range, range.min, site);
    const std::int64_t multiple = (range.min + range.step - 1) / range.step;
    for (std::int64_t i = 0; range.step > 1 && i < pinned_counts; ++i)
        add(shapes, range, (multiple + i) * range.step, site);
    std::sort(shapes.begin(), shapes.end(),
              [](const NodeShape& a, const NodeShape& b) { return a.gpus() < b.gpus(); });
    return shapes;
}

std::vector<NodeShape> other_layouts(const PlanQuery& query, const GpuPool& pool,
                                     const NodeShape& shape) {
    const std::int64_t group = std::max<std::int64_t>(1, query.pin.tp);
    std::vector<NodeShape> shapes;
    for (std::int64_t each = shape.gpus_per_node - 1; each >= 1; --each) {
        if (shape.gpus() % each != 0 || each % group != 0) continue;
        if (shape.gpus() / each <= pool.nodes) shapes.push_back({shape.gpus() / each, each});
    }
    return shapes;
}

std::optional<NodeShape> uneven_layout(const PlanQuery& query, const GpuPool& pool,
                                       std::int64_t gpus) {
    if (!query.uneven || gpus < 3 || pool.nodes < 2 || pool.gpus_per_node < 2) return std::nullopt;
    if (gpus >= pool.nodes * pool.gpus_per_node) return std::nullopt;  // it needs all of them
    return NodeShape{gpus, 1, true};
}

std::vector<std::int64_t> fullest_split(std::int64_t gpus, std::int64_t site) {
    if (gpus <= site) return {gpus - 1, 1};
    std::vector<std::int64_t> split(static_cast<std::size_t>(gpus / site), site);
    if (gpus % site == 0) --split.back();
    split.push_back(gpus % site == 0 ? 1 : gpus % site);
    return split;
}

bool can_share_layers(const PlanQuery& query, std::int64_t stages) {
    return stages <= query.model.layers &&
           (query.can.split(stages) != LayerSplit::even || query.model.layers % stages == 0);
}

std::vector<std::int64_t> stage_counts(const PlanQuery& query, std::int64_t gpus) {
    if (query.pin.pp != 0) return {query.pin.pp};
    if (!query.can.told.has(Feature::pipeline)) return {1};
    std::vector<std::int64_t> counts;
    for (std::int64_t pp = 1; pp <= std::min(gpus, query.model.layers); ++pp)
        if (gpus % pp == 0 && can_share_layers(query, pp)) counts.push_back(pp);
    return counts;
}

std::vector<std::int64_t> tp_degrees(const PlanQuery& query, const GpuPool& pool) {
    const bool is_resnet = query.model.family == Family::wide_resnet;
    const Degree can = is_resnet                ? query.can.degree(Feature::convolutions)
                       : query.can.has_tensor() ? Degree::free
                                                : Degree::no;
    return degrees(
        can, query.pin.tp, [&](std::int64_t tp) { return tp_fits(query.model, tp); },
        pool.gpus_per_node);
}

std::vector<std::int64_t> divisors(std::int64_t n) {
    std::vector<std::int64_t> list;
    for (std::int64_t low = 1; low <= n / low; ++low) {
        if (n % low != 0) continue;
        list.push_back(low);
        if (low != n / low) list.push_back(n / low);
    }
    std::sort(list.begin(), list.end());
    return list;
}

std::vector<std::int64_t> micro_batch_sizes(const PlanQuery& query) {
    if (query.pin.micro_batch != 0) return {query.pin.micro_batch};
    return divisors(query.global_batch);
}

std::vector<ShardShape> shard_shapes(const PlanQuery& query, const GpuPool& pool) {
    const std::vector<std::int64_t> cps =
        degrees(query.can.degree(Feature::cp), query.pin.cp,
                [&](std::int64_t cp) { return cp_fits(query.model, cp); });
    const std::vector<std::int64_t> eps = degrees(
        query.can.degree(Feature::ep), query.pin.ep,
        [&](std::int64_t ep) { return query.model.experts > 0 && ep_fits(query.model, ep); });
    const std::int64_t etp = std::max<std::int64_t>(1, query.pin.etp);
    std::vector<ShardShape> shapes;
    for (std::int64_t tp : tp_degrees(query, pool)) {
        const bool splits_tokens = default_sequence_parallel(query.model, tp);
        const bool sequence =
            query.pin.sequence_parallel.value_or(query.can.told.has(Feature::sp) && splits_tokens);
        if (sequence && !splits_tokens) continue;
        for (std::int64_t micro_batch : micro_batch_sizes(query))
            for (std::int64_t cp : cps)
                for (std::int64_t ep : eps)
                    if (etp_fits(query.model, tp, ep, etp))
                        shapes.push_back({tp, micro_batch, sequence, cp, ep, etp});
    }
    return shapes;
}

Schedule schedule_of(const PlanQuery& query) {
    return query.pin.schedule.value_or(Schedule::one_f_one_b);
}

namespace {

/// A schedule that splits backwards takes stages of equally many layers: the pinned chunks, else 1,
/// in a V 2. In a V that goes with DualPipe there are as many micro-batches as chunks or more.
std::vector<std::int64_t> schedule_chunks(const PlanQuery& query, Schedule schedule,
                                          std::int64_t stages, std::int64_t micro_batches) {
    const bool is_v = is_v_shaped(schedule);
    const std::int64_t chunks = is_v ? 2 : std::max<std::int64_t>(1, query.pin.vpp);
    const bool fits = stages > 1 && query.model.layers % (stages * chunks) == 0 &&
                      micro_batches % stages == 0 && (!is_v || query.pin.vpp == 2) &&
                      (schedule != Schedule::dual_pipe_v || micro_batches >= 2 * stages);
    return fits ? std::vector{chunks} : std::vector<std::int64_t>{};
}

}  // namespace

std::vector<std::int64_t> vpp_counts(const PlanQuery& query, std::int64_t stages,
                                     std::int64_t micro_batches) {
    const bool can_interleave = stages > 1 && query.model.layers % stages == 0 &&
                                micro_batches % stages == 0 && query.can.told.has(Feature::vpp);
    const std::int64_t each = query.model.layers / stages, pinned = query.pin.vpp;
    if (const Schedule schedule = schedule_of(query); schedule != Schedule::one_f_one_b)
        return schedule_chunks(query, schedule, stages, micro_batches);
    if (pinned > 1)
        return can_interleave && each % pinned == 0 ? std::vector{pinned}
                                                    : std::vector<std::int64_t>{};
    if (can_interleave && pinned == 0 && query.can.degree(Feature::vpp) == Degree::free)
        return divisors(each);
    return {1};
}

std::vector<Recompute> recompute_kinds(const PlanQuery& query) {
    if (query.pin.recompute) return {*query.pin.recompute};
    std::vector<Recompute> kinds{Recompute::none};
    if (recomputes_for_weights(schedule_of(query))) return kinds;
    if (query.can.degree(Feature::recompute_selective) == Degree::free)
        kinds.push_back(Recompute::selective);
    if (query.can.degree(Feature::recompute_full) == Degree::free) kinds.push_back(Recompute::full);
    return kinds;
}

std::vector<std::int64_t> zero_stages(const PlanQuery& query, std::int64_t stages,
                                      std::int64_t replicas) {
    std::vector<std::int64_t> list;
    const std::int64_t least = query.pin.hsdp == 0 ? 0 : 1;  // groups share ZeRO's state
    if (const auto pinned = query.pin.zero_stage) {
        if ((replicas > 1 || *pinned == 0) && *pinned >= least) list = {*pinned};
        return list;
    }
    if (replicas == 1) return least == 0 ? std::vector<std::int64_t>{0} : list;
    for (std::int64_t zero = least; zero <= 3; ++zero)
        if (query.can.searches_zero(zero, stages)) list.push_back(zero);
    return list;
}

PlanFacts facts_of(const Model& model, const ShardShape& shape, const PlanChoice& choice) {
    PlanFacts facts = facts_of(model);
    facts.pp = choice.stages, facts.dp = choice.dp, facts.tp = shape.tp;
    facts.cp = shape.cp, facts.ep = shape.ep, facts.etp = shape.etp, facts.vpp = choice.vpp;
    facts.zero = choice.zero_stage, facts.hsdp = choice.hsdp, facts.schedule = choice.schedule;
    facts.micro_batches = choice.micro_batches;
    facts.recompute = choice.recompute;
    facts.sequence_parallel = shape.sequence_parallel;
    return facts;
}

Split split_grid(const PlanQuery& query, const NodeShape& shape, std::int64_t stages,
                 const ShardShape& shard) {
    const std::int64_t gpus = shape.gpus(), each = stages * shard.tp * shard.cp;
    if (!can_share_layers(query, stages) || gpus % each != 0 || shape.gpus_per_node % shard.tp != 0)
        return {};
    const std::int64_t dp = gpus / each;
    if (query.pin.dp != 0 && query.pin.dp != dp) return {};
    if (dp * shard.cp * shard.tp % (shard.ep * shard.etp) != 0) return {};
    if (query.pin.hsdp != 0 && (dp % query.pin.hsdp != 0 || shard.ep > 1)) return {};
    if (query.global_batch % (dp * shard.micro_batch) != 0) return {};
    const std::int64_t micro_batches = query.global_batch / (dp * shard.micro_batch);
    const std::int64_t pinned = query.pin.num_micro_batches;
    if (pinned != 0 && pinned != micro_batches) return {};
    return {dp, micro_batches};
}

Plan uniform_plan(const ShardShape& shape, const PlanChoice& choice,
                  std::vector<std::int64_t> stage_layers) {
    Plan plan;
    plan.stage_layers = std::move(stage_layers);
    plan.stage_dp.assign(plan.stage_layers.size(), choice.dp);
    plan.stage_tp.assign(plan.stage_layers.size(), shape.tp);
    plan.micro_batch = shape.micro_batch;
    plan.num_micro_batches = choice.micro_batches;
    plan.recompute = choice.recompute;
    plan.zero_stage = choice.zero_stage;
    plan.sequence_parallel = shape.sequence_parallel;
    plan.vpp = choice.vpp;
    plan.cp = choice.cp;
    plan.ep = choice.ep;
    plan.etp = shape.etp;
    plan.hsdp = choice.hsdp;
    plan.schedule = choice.schedule;
    return plan;
}

std::vector<std::int64_t> spread_layers(LayerSplit split, std::int64_t layers,
                                        std::int64_t stages) {
    const std::int64_t least = layers / stages, extra = layers % stages, inner = stages - 2;
    std::vector<std::int64_t> spread(static_cast<std::size_t>(stages), least);
    if (split != LayerSplit::ends || extra == 0 || inner < 1) {
        std::fill_n(spread.begin(), extra, least + 1);
        return spread;
    }
    const bool has_room = layers - (least + 1) * inner >= 2;  // a layer for each end
    const std::int64_t middle = has_room ? least + 1 : least, ends = layers - middle * inner;
    std::fill(spread.begin(), spread.end(), middle);
    spread.front() = ends - ends / 2;
    spread.back() = ends / 2;
    return spread;
}

}  // namespace arena
