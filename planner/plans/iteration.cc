// SPDX-License-Identifier: GPL-2.0-or-later
// One training iteration from a shard: stage times, 1F1B, gradient exchange, optimizer step. The
// parts of the estimate sum to iteration_s: compute and communication are those of the slowest
// stage, and what other stages add to the pipeline's length is the bubble.
#include "planner/plans/iteration.h"

#include <algorithm>

#include "base/statistics.h"
#include "core/profile.h"
#include "planner/models/model.h"

namespace arena {

namespace {

constexpr double profiled_share = 0.9;  ///< of compute time, from exact or near shapes
constexpr double communication_error = 0.3;
constexpr double statistic_bytes = 4;      ///< of a channel of a batch norm
constexpr double forward_share = 1.0 / 3;  ///< a backward computes two gradients
/// Relative error by evidence that nine of ten runs stay within: planners that measured their
/// operators report 4 to 10 % (Arena, vTrain, Aceso). Of estimates alone: those of sources that
/// were left out of the fit (contrib/fit-calibration --each-source; doc/benchmarks.md), where
/// routing is never as balanced as it is taken to be; of lists of layers no run was measured.
constexpr EvidenceSeconds evidence_error{0.10, 0.15, 0.25, 0.35};
constexpr double experts_error = 0.45, listed_error = 0.50;

double error_of(const Model& model, std::size_t evidence) {
    if (evidence != static_cast<std::size_t>(Evidence::analytic)) return evidence_error[evidence];
    return model.family == Family::custom ? listed_error
           : model.family == Family::moe  ? experts_error
                                          : evidence_error[evidence];
}

/// What remains of `comm` behind `work` that hides up to `share` of itself: all that does not fit,
/// and a part of what does, since both slow each other down.
double exposed_s(const FrameworkConstants& framework, double comm, double work, double share) {
    const double hidden = std::min(comm, work * share);
    return comm - hidden + framework.overlap_slowdown * hidden;
}

}  // namespace

Iteration::Iteration(const PoolContext& context, const Topology& topology, const Shard& shard,
                     const PlanChoice& choice)
    : context_(context),
      topology_(topology),
      shard_(shard),
      choice_(choice),
      framework_(context.constants.framework),
      slowdown_(context.pool.hardware.emulated
                    ? 1
                    : slowest_node(topology.nodes, context.constants.device.node_spread)),
      replicas_(dp_group(topology, choice.dp * choice.cp, shard.shape.tp)),
      sharing_(dp_group(topology, choice.sharing(), shard.shape.tp)),
      groups_(dp_group(topology, choice.dp * choice.cp / choice.sharing(),
                       shard.shape.tp * choice.sharing())),
      expert_replicas_(
          strided_group(topology, expert_replicas(), shard.shape.ep * shard.shape.etp)) {
    if (choice.zero_stage < 3 || choice.dp * choice.cp <= 1 || shard.is_homogeneous()) return;
    zero3_s_.push_back(0);
    for (std::int64_t i = 0; i < context.model.layers; ++i)
        zero3_s_.push_back(zero3_s_.back() + zero3_layer_s({i, i + 1}));
}

// ---- stages

/// The shard's on the slowest node; communication takes as long on all.
LayerSeconds Iteration::slowest_seconds(LayerRange range) const {
    LayerSeconds seconds = shard_.seconds(choice_.recompute, range);
    const double total = seconds.total();
    if (slowdown_ == 1 || total <= 0) return seconds;
    const double longer = 1 + (slowdown_ - 1) * seconds.compute_s / total;
    seconds.compute_s *= slowdown_;
    seconds.forward_s *= longer;
    seconds.backward_s *= longer;
    seconds.weights_s *= longer;
    return seconds;
}

/// That, and where replicas share the statistics of their batch norms, an all-reduce for
/// each.
LayerSeconds Iteration::layer_seconds(LayerRange range) const {
    LayerSeconds seconds = slowest_seconds(range);
    if (framework_.norm_collectives == 0 || choice_.dp <= 1) return seconds;
    const auto [norms, channels] = shard_.batch_norms(range);
    if (norms == 0) return seconds;
    const double pass_s = framework_.norm_collectives * norms *
                          all_reduce_s(topology_, replicas_, statistic_bytes * channels / norms);
    const double backward_passes = choice_.recompute == Recompute::full ? 2 : 1;
    seconds.forward_s += pass_s;
    seconds.backward_s += backward_passes * pass_s;
    seconds.comm_s += (1 + backward_passes) * pass_s;
    return seconds;
}

Iteration::Stage Iteration::stage(std::int64_t index, std::span<const LayerRange> ranges) const {
    Stage s;
    s.index = index;
    s.first = ranges.front();
    for (const LayerRange& range : ranges) {
        const LayerSeconds seconds = layer_seconds(range);
        const auto [all, expert] = shard_.parameters(range);
        s.layers += range.size();
        s.seconds.compute_s += seconds.compute_s;
        s.seconds.comm_s += seconds.comm_s;
        s.seconds.forward_s += seconds.forward_s;
        s.seconds.backward_s += seconds.backward_s;
        s.seconds.weights_s += seconds.weights_s;
        s.layer_parameters += all;
        if (!is_adapted(context_.model)) s.expert_parameters += expert;
        if (choice_.zero_stage >= 3) s.zero3_s += zero3_layers_s(range);
    }
    s.boundary_s = sent_s(index, ranges) + received_s(index, ranges);
    s.bytes = shard_.memory.bytes(choice_, index, ranges);
    return s;
}

StagePart Iteration::part(std::int64_t index, LayerRange range) const {
    std::vector<LayerRange> chunks;
    if (lies_apart()) chunks = even_chunks(index);
    const std::span<const LayerRange> ranges =
        lies_apart() ? std::span<const LayerRange>(chunks) : std::span<const LayerRange>(&range, 1);
    const Stage s = stage(index, ranges);
    const double forward = forward_s(s);
    return {.forward_s = forward,
            .backward_s = total_s(s) - forward,
            .exchange_s = choice_.dp * choice_.cp > 1 ? exchange_s(s) : 0,
            .step_s = stepped_share() * parameters(s) * shard_.optimizer_parameter_s,
            .host_s = is_emulated() ? 0 : real(s.layers) * framework_.iteration_layer_s,
            .bytes = s.bytes,
            .boundary_s = s.boundary_s,
            .buffer_bytes = shard_.memory.buffer_bytes(choice_, ranges),
            .comm_s = comm_s(s)};
}

double Iteration::least_extra_s(std::int64_t index) const {
    const double bytes = shard_.least_boundary_bytes();
    const double received =
        index == 0 ? 0 : framework_.blocking_boundary * sent_s(index - 1, choice_.vpp, bytes);
    return ends_s(index) + host_s() + sent_s(index, transfers(index), bytes) + received;
}

double Iteration::compute_s(const Stage& s) const {
    return s.seconds.compute_s + (s.index == 0 ? embedding_s() : 0) +
           (is_last(s.index) ? head_s() : 0) + host_s();
}

double Iteration::comm_s(const Stage& s) const {
    return s.seconds.comm_s + (s.index == 0 ? shard_.embedding_comm_s : 0) +
           (is_last(s.index) ? shard_.head_comm_s : 0);
}

double Iteration::total_s(const Stage& s) const { return compute_s(s) + comm_s(s) + s.boundary_s; }

double Iteration::forward_s(const Stage& s) const {
    return s.seconds.forward_s + forward_share * (ends_s(s.index) + host_s()) + s.boundary_s / 2;
}

/// Embedding and head, which come once per stage and micro-batch.
double Iteration::ends_s(std::int64_t index) const {
    return (index == 0 ? embedding_s() + shard_.embedding_comm_s : 0) +
           (is_last(index) ? head_s() + shard_.head_comm_s : 0);
}

// ---- from stage to stage

/// Chunks whose output leaves the stage. In a V the second chunks go back, and at its point both
/// chunks are one stage's.
std::int64_t Iteration::transfers(std::int64_t index) const {
    if (is_v_shaped(choice_.schedule)) return index == 0 || index + 1 == choice_.stages ? 1 : 2;
    return is_last(index) ? choice_.vpp - 1 : choice_.vpp;
}

/// Activations to the next stage and their gradients back; the last stage sends to the first.
double Iteration::sent_s(std::int64_t index, std::int64_t transfers, double bytes) const {
    if (transfers == 0) return 0;
    const std::int64_t stage_gpus = choice_.dp * choice_.cp * shard_.shape.tp;
    const bool is_end = index + 1 == choice_.stages;
    const bool goes_back = is_end && is_v_shaped(choice_.schedule);
    const bool crosses = is_end && !goes_back
                             ? choice_.stages * stage_gpus > topology_.gpus_per_node
                             : boundary_crosses(topology_, index - (goes_back ? 1 : 0), stage_gpus);
    const double hidden =
        std::max(framework_.overlap_boundary, choice_.vpp > 1 ? framework_.overlap_chunks : 0);
    return real(2 * transfers) * (1 - hidden) * point_to_point_s(topology_, crosses, bytes);
}

/// Once per chunk; of the last stage all chunks but the last.
double Iteration::sent_s(std::int64_t index, std::span<const LayerRange> ranges) const {
    const std::int64_t sent = transfers(index);
    if (ranges.size() == 1) return sent_s(index, sent, shard_.boundary_bytes(ranges[0].end));
    double sum = 0;
    for (std::int64_t chunk = 0; chunk < sent; ++chunk)
        sum += sent_s(index, 1, shard_.boundary_bytes(ranges[static_cast<std::size_t>(chunk)].end));
    return sum;
}

/// What the stage before sends, where a stage stands still for it.
double Iteration::received_s(std::int64_t index, std::span<const LayerRange> ranges) const {
    if (index == 0 || framework_.blocking_boundary == 0) return 0;
    if (ranges.size() == 1)
        return framework_.blocking_boundary *
               sent_s(index - 1, choice_.vpp, shard_.boundary_bytes(ranges[0].begin));
    double sum = 0;
    for (const LayerRange& range : ranges)
        sum += sent_s(index - 1, 1, shard_.boundary_bytes(range.begin));
    return framework_.blocking_boundary * sum;
}

// ---- interleaved stages

/// Which layers each chunk holds, by stage and then chunk. What a stage has too few for equal
/// chunks is missing from the first, of the last stage from the last: where embedding and head are.
std::vector<LayerRange> Iteration::chunk_ranges(std::span<const std::int64_t> layers) const {
    const std::int64_t v = choice_.vpp, stages = choice_.stages;
    std::vector<LayerRange> ranges(static_cast<std::size_t>(v * stages));
    std::int64_t begin = 0;
    for (std::int64_t chunk = 0; chunk < v; ++chunk)
        for (std::int64_t at = 0; at < stages; ++at) {
            const bool goes_back = is_v_shaped(choice_.schedule) && chunk == 1;
            const std::int64_t i = goes_back ? stages - 1 - at : at;
            const std::int64_t own = layers[static_cast<std::size_t>(i)], more = own % v;
            const bool larger = is_last(i) ? chunk < more : chunk >= v - more;
            const std::int64_t end = begin + own / v + (larger ? 1 : 0);
            ranges[static_cast<std::size_t>(i * v + chunk)] = {begin, end};
            begin = end;
        }
    return ranges;
}

std::vector<LayerRange> Iteration::even_chunks(std::int64_t index) const {
    const std::int64_t each = context_.model.layers / (choice_.stages * choice_.vpp);
    std::vector<LayerRange> ranges;
    for (std::int64_t chunk = 0; chunk < choice_.vpp; ++chunk) {
        const bool goes_back = is_v_shaped(choice_.schedule) && chunk == 1;
        const std::int64_t begin =
            (goes_back ? 2 * choice_.stages - 1 - index : chunk * choice_.stages + index) * each;
        ranges.push_back({begin, begin + each});
    }
    return ranges;
}

/// Layers and transfers in equal chunks; embedding with the first, head with the last.
void Iteration::set_even_chunks(std::span<const std::int64_t> stage_layers, Chunks& out) const {
    const double chunks = real(choice_.vpp);
    const double host = host_s();
    for (std::int64_t i = 0; i < choice_.stages; ++i) {
        const LayerRange range[] = {{0, stage_layers[static_cast<std::size_t>(i)]}};
        const LayerSeconds seconds = layer_seconds(range[0]);
        const double transfer = (sent_s(i, range) + received_s(i, range)) / 2;
        out.forward_s.push_back((seconds.forward_s + transfer + forward_share * host) / chunks);
        out.backward_s.push_back((seconds.backward_s + transfer + (1 - forward_share) * host) /
                                 chunks);
        out.weights_s.push_back(seconds.weights_s / chunks);
    }
}

/// Each chunk with its own layers and what it sends and receives.
void Iteration::set_heterogeneous_chunks(std::span<const std::int64_t> stage_layers,
                                         Chunks& out) const {
    const std::vector<LayerRange> ranges = chunk_ranges(stage_layers);
    const double host = host_s() / real(choice_.vpp);
    for (std::int64_t chunk = 0; chunk < choice_.vpp; ++chunk)
        for (std::int64_t i = 0; i < choice_.stages; ++i) {
            const LayerRange& range = ranges[static_cast<std::size_t>(i * choice_.vpp + chunk)];
            const LayerSeconds seconds = layer_seconds(range);
            const bool is_end = chunk + 1 > transfers(i);
            double transfer = sent_s(i, is_end ? 0 : 1, shard_.boundary_bytes(range.end));
            if (i > 0)
                transfer += framework_.blocking_boundary *
                            sent_s(i - 1, 1, shard_.boundary_bytes(range.begin));
            out.forward_s.push_back(seconds.forward_s + transfer / 2 + forward_share * host);
            out.backward_s.push_back(seconds.backward_s + transfer / 2 +
                                     (1 - forward_share) * host);
            out.weights_s.push_back(seconds.weights_s);
        }
}

InterleavedStages Iteration::interleaved(std::span<const std::int64_t> stage_layers,
                                         Chunks& chunks) const {
    chunks.differ = !shard_.is_homogeneous() ||
                    std::any_of(stage_layers.begin(), stage_layers.end(),
                                [&](std::int64_t n) { return n % choice_.vpp != 0; });
    chunks.differ ? set_heterogeneous_chunks(stage_layers, chunks)
                  : set_even_chunks(stage_layers, chunks);
    const double embedding = embedding_s() + shard_.embedding_comm_s;
    const double head = head_s() + shard_.head_comm_s;
    return {.chunk_forward_s = chunks.forward_s,
            .chunk_backward_s = chunks.backward_s,
            .first_forward_s = forward_share * embedding,
            .first_backward_s = (1 - forward_share) * embedding,
            .last_forward_s = forward_share * head,
            .last_backward_s = (1 - forward_share) * head,
            .chunks = choice_.vpp,
            .micro_batches = choice_.micro_batches,
            .chunks_differ = chunks.differ};
}

/// The same for a schedule that splits backwards, in which half of what embedding and head take
/// backward is their weights'.
SplitStages Iteration::split_stages(std::span<const std::int64_t> stage_layers,
                                    Chunks& chunks) const {
    const InterleavedStages whole = interleaved(stage_layers, chunks);
    const auto stages = static_cast<std::size_t>(choice_.stages),
               all = stages * static_cast<std::size_t>(choice_.vpp);
    for (std::vector<double>* list : {&chunks.forward_s, &chunks.backward_s, &chunks.weights_s})
        for (std::size_t i = list->size(); i < all; ++i) list->push_back((*list)[i - stages]);
    const auto add_end = [&](std::size_t at, double forward, double backward) {
        chunks.forward_s[at] += forward;
        chunks.backward_s[at] += backward;
        chunks.weights_s[at] += backward / 2;
    };
    add_end(0, whole.first_forward_s, whole.first_backward_s);
    add_end(is_v_shaped(choice_.schedule) ? stages : all - 1, whole.last_forward_s,
            whole.last_backward_s);
    for (std::size_t i = 0; i < all; ++i) chunks.backward_s[i] -= chunks.weights_s[i];
    return {.forward_s = chunks.forward_s,
            .inputs_s = chunks.backward_s,
            .weights_s = chunks.weights_s,
            .stages = choice_.stages,
            .chunks = choice_.vpp,
            .micro_batches = choice_.micro_batches,
            .schedule = choice_.schedule};
}

double Iteration::replayed_s(std::span<const std::int64_t> stage_layers) const {
    Chunks chunks;
    return choice_.schedule == Schedule::one_f_one_b
               ? InterleavedReplay().seconds(interleaved(stage_layers, chunks))
               : split_seconds(split_stages(stage_layers, chunks), max_replayed_tasks);
}

// ---- gradients and the step

/// Of embedding and head.
double Iteration::held_ends(const Stage& s) const {
    if (choice_.has_both_ends() && s.index == 0 && context_.model.tied_embedding)
        return std::max(shard_.embedding_parameters, shard_.head_parameters);
    return (s.index == 0 ? shard_.embedding_parameters : 0) +
           (is_last(s.index) ? shard_.head_parameters : 0);
}

/// Those that are trained. A tied table is exchanged and stepped once in a single stage, in both
/// stages otherwise.
double Iteration::parameters(const Stage& s) const {
    if (is_adapted(context_.model)) return shard_.trained_share * s.layer_parameters;
    return s.layer_parameters + held_ends(s);
}

double Iteration::exchanged_bytes(double parameters) const {
    const double width = framework_.gradient_bytes > 0 ? framework_.gradient_bytes
                                                       : gradient_bytes(context_.precision);
    return parameters * width;
}

double Iteration::weight_bytes() const {
    if (framework_.weight_bytes > 0) return framework_.weight_bytes;
    if (context_.model.base_bits > 0) return real(context_.model.base_bits) / 8;
    const bool whole =
        context_.precision == Precision::fp32 || context_.precision == Precision::tf32;
    return whole ? 4 : 2;
}

/// Ranks that hold the same experts.
std::int64_t Iteration::expert_replicas() const {
    const std::int64_t ranks = choice_.dp * choice_.cp;
    return shard_.shape.ep == 1
               ? ranks
               : std::max<std::int64_t>(
                     1, ranks * shard_.shape.tp / (shard_.shape.ep * shard_.shape.etp));
}

/// Gradients are summed over the ranks that share states; of what a rank has then, its like in the
/// other groups has the rest. All of these send at once.
double Iteration::reduce_s(double bytes) const {
    return reduce_scatter_s(topology_, sharing_, bytes) +
           all_reduce_s(topology_, groups_, bytes / real(sharing_.size));
}

/// Gradients of these parameters are summed; where states are shared, each rank gets its part
/// alone, and the weights that it has stepped go to the others.
Iteration::Exchange Iteration::replicate(const Group& group, double parameters) const {
    const double gradients = exchanged_bytes(parameters);
    if (choice_.zero_stage == 0) return {all_reduce_s(topology_, group, gradients), 0};
    return {reduce_scatter_s(topology_, group, gradients),
            all_gather_s(topology_, group, parameters * weight_bytes())};
}

/// Those of dense layers and those of routed experts, which few models have.
Iteration::Exchange Iteration::replicate(double dense, double routed) const {
    if (groups_.size > 1)  // no experts are shared out beside such groups
        return {reduce_s(exchanged_bytes(dense + routed)),
                all_gather_s(topology_, sharing_, (dense + routed) * weight_bytes())};
    Exchange sum = replicate(replicas_, dense);
    if (routed <= 0) return sum;
    const Exchange experts = replicate(expert_replicas_, routed);
    return {sum.reduce_s + experts.reduce_s, sum.gather_s + experts.gather_s};
}

/// ZeRO 2 keeps a share of the gradients alone: they leave after each micro-batch
/// (deepspeed/runtime/engine.py: "ZeRO stage >= 2 communicates during non gradient accumulation
/// boundaries as well").
double Iteration::earlier_exchanges_s(const Stage& s) const {
    if (choice_.zero_stage != 2 || choice_.micro_batches == 1) return 0;
    const double dense = exchanged_bytes(parameters(s) - s.expert_parameters),
                 routed = exchanged_bytes(s.expert_parameters);
    const double comm =
        reduce_s(dense) + (routed > 0 ? reduce_scatter_s(topology_, expert_replicas_, routed) : 0);
    return real(choice_.micro_batches - 1) * behind_backward_s(s, comm);
}

/// Hides behind the backward of one micro-batch, but for the last bucket.
double Iteration::behind_backward_s(const Stage& s, double comm) const {
    return std::max(exposed_s(framework_, comm, s.seconds.backward_s, framework_.overlap_gradients),
                    comm / real(s.layers + 1));
}

/// Weights come when the backward is over: they hide behind the first forward of the next
/// iteration, but for the first bucket.
double Iteration::behind_forward_s(const Stage& s, double comm) const {
    return std::max(exposed_s(framework_, comm, s.seconds.forward_s, framework_.overlap_weights),
                    comm / real(s.layers + 1));
}

double Iteration::exchange_s(const Stage& s) const {
    if (choice_.zero_stage >= 3) return zero3_exposed_s(s);
    const Exchange comm = replicate(parameters(s) - s.expert_parameters, s.expert_parameters);
    return earlier_exchanges_s(s) + behind_backward_s(s, comm.reduce_s) +
           behind_forward_s(s, comm.gather_s);
}

/// What hides nowhere of the exchange of a stage that has at least so many of the layers, all
/// equal. The cost of more layers is concave, and what hides it is linear, so that the
/// difference is least for the fewest layers or for the most.
double Iteration::least_exchange_s(std::int64_t layers) const {
    if (choice_.dp * choice_.cp <= 1) return 0;
    const double fewest = real(layers), most = real(context_.model.layers - choice_.stages + 1);
    if (choice_.zero_stage >= 3)
        return real(choice_.micro_batches) * fewest * zero3_layer_s({0, 1});
    const auto [held, experts] = shard_.parameters({0, 1});
    const double all = shard_.trained_share * held,
                 expert = is_adapted(context_.model) ? 0 : experts;
    const auto comm = [&, dense = all - expert, routed = expert](double count) {
        return replicate(count * dense, count * routed);
    };
    const Exchange few = comm(fewest), many = comm(most);
    const LayerSeconds layer = layer_seconds({0, 1});
    const auto shown_s = [&](double few_s, double many_s, double work_s) {
        const double hiding_s = (1 - framework_.overlap_slowdown) * work_s;
        return std::max(framework_.overlap_slowdown * few_s,
                        std::min(few_s - fewest * hiding_s, many_s - most * hiding_s));
    };
    return shown_s(few.reduce_s, many.reduce_s, framework_.overlap_gradients * layer.backward_s) +
           shown_s(few.gather_s, many.gather_s, framework_.overlap_weights * layer.forward_s);
}

/// Some stage has the mean of the parameters or more, and of homogeneous layers, whole ones.
double Iteration::least_ends_s() const {
    const std::int64_t stages = choice_.stages, layers = context_.model.layers;
    const std::int64_t whole = (layers + stages - 1) / stages;
    const bool is_homogeneous = shard_.is_homogeneous();
    const double held = is_homogeneous ? real(whole) : real(layers) / real(stages);
    return stepped_share() * held * shard_.trained_share * shard_.layer_parameters *
               shard_.optimizer_parameter_s +
           (is_emulated() ? 0 : held * framework_.iteration_layer_s) +
           (is_homogeneous ? least_exchange_s(whole) : 0);
}

Iteration::Exchange Iteration::zero3(double parameters) const {
    const double tensors = framework_.weight_tensors,
                 part = 1 / (tensors * framework_.weight_share);
    const double apart_s = framework_.weight_rank_s * real(sharing_.size);
    return {
        tensors * (reduce_s(part * exchanged_bytes(shard_.trained_share * parameters)) + apart_s),
        tensors *
            (all_gather_s(topology_, sharing_, part * parameters * weight_bytes()) + apart_s)};
}

/// ZeRO-3: a layer's weights come for its forward and again for its backward, its gradients leave
/// after it; each hides behind the layer before.
double Iteration::zero3_layer_s(LayerRange layer) const {
    const LayerSeconds seconds = slowest_seconds(layer);
    const auto [reduce, gather] = zero3(shard_.parameters(layer)[0]);
    const double share = framework_.overlap_weights;
    return exposed_s(framework_, gather, seconds.forward_s, share) +
           exposed_s(framework_, framework_.regather_weights * gather + reduce, seconds.backward_s,
                     share);
}

double Iteration::zero3_layers_s(LayerRange range) const {
    if (choice_.dp * choice_.cp <= 1) return 0;
    if (zero3_s_.empty()) return real(range.size()) * zero3_layer_s({0, 1});
    return zero3_s_[static_cast<std::size_t>(range.end)] -
           zero3_s_[static_cast<std::size_t>(range.begin)];
}

/// The first gather has nothing to hide behind, and nothing hides those of embedding and head.
double Iteration::zero3_exposed_s(const Stage& s) const {
    const double mean = shard_.layer_parameters, others = held_ends(s);
    const auto [reduce, gather] = zero3(mean);
    const double gradients = is_adapted(context_.model) ? 0 : reduce;
    const double ends = mean > 0 ? others / mean * (2 * gather + gradients) : 0;
    const LayerRange first{s.first.begin, s.first.begin + 1};
    return real(choice_.micro_batches) * (s.zero3_s + ends) +
           (shard_.is_homogeneous() ? gather : zero3(shard_.parameters(first)[0]).gather_s);
}

/// First and last stage add up the gradients of a shared table.
double Iteration::tied_exchange_s() const {
    const std::int64_t stages = choice_.stages;
    if (choice_.has_both_ends() || !ties_table(context_.model) || is_adapted(context_.model))
        return 0;
    const bool crosses =
        stages * choice_.dp * choice_.cp * shard_.shape.tp > topology_.gpus_per_node;
    const double table =
        real(shard_vocab(context_.model, shard_.shape.tp)) * real(context_.model.hidden);
    return all_reduce_s(topology_, {2, crosses ? 1 : 2}, exchanged_bytes(table));
}

double Iteration::stepped_share() const {
    return choice_.zero_stage >= 1 ? 1 / real(choice_.sharing()) : 1;
}

double Iteration::fixed_s() const {
    return tied_exchange_s() + (is_emulated() ? 0 : framework_.iteration_s);
}

// ---- the whole

/// What stages need of an iteration's end at most.
struct Iteration::Longest {
    double exchange_s = 0, parameters = 0, bytes = 0;
    std::int64_t layers = 0;
};

double Iteration::optimizer_s(const Longest& longest) const {
    const double host =
        framework_.iteration_s + real(longest.layers) * framework_.iteration_layer_s;
    return stepped_share() * longest.parameters * shard_.optimizer_parameter_s +
           (is_emulated() ? 0 : host);
}

/// Calls visit(stage) for each.
template <typename Visit>
Iteration::Longest Iteration::each_stage(std::span<const std::int64_t> stage_layers,
                                         Visit visit) const {
    std::vector<LayerRange> chunks;
    if (lies_apart()) chunks = chunk_ranges(stage_layers);
    const auto v = static_cast<std::size_t>(choice_.vpp);
    Longest longest;
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < stage_layers.size(); ++i) {
        const LayerRange whole{begin, begin + stage_layers[i]};
        const Stage s = stage(static_cast<std::int64_t>(i),
                              lies_apart() ? std::span<const LayerRange>(chunks).subspan(i * v, v)
                                           : std::span<const LayerRange>(&whole, 1));
        begin = whole.end;
        if (choice_.dp * choice_.cp > 1)
            longest.exchange_s = std::max(longest.exchange_s, exchange_s(s));
        longest.parameters = std::max(longest.parameters, parameters(s));
        longest.bytes = std::max(longest.bytes, s.bytes);
        longest.layers = std::max(longest.layers, s.layers);
        visit(s);
    }
    return longest;
}

Estimate Iteration::price(std::span<const std::int64_t> stage_layers) const {
    PipelineLength pipeline;
    Stage slowest;
    double slowest_s = 0;
    const Longest longest = each_stage(stage_layers, [&](const Stage& s) {
        const double forward = forward_s(s), total = total_s(s);
        pipeline.add(forward, total - forward,
                     std::min(choice_.micro_batches, choice_.stages - s.index),
                     choice_.micro_batches);
        if (total > slowest_s) slowest = s, slowest_s = total;
    });
    Estimate e;
    const double m = real(choice_.micro_batches);
    e.compute_s = m * compute_s(slowest);
    e.tp_comm_s = m * comm_s(slowest);
    e.pp_comm_s = m * slowest.boundary_s;
    const double pipeline_s = choice_.is_replayed() ? replayed_s(stage_layers) : pipeline.closed_s;
    e.bubble_s = stage_layers.size() == 1 ? 0 : std::max(0.0, pipeline_s - m * slowest_s);
    e.dp_comm_s = longest.exchange_s + tied_exchange_s();
    e.optimizer_s = optimizer_s(longest);
    e.iteration_s = m * slowest_s + e.bubble_s + e.dp_comm_s + e.optimizer_s;
    e.memory_bytes_per_gpu = longest.bytes;
    finish(e);
    return e;
}

double Iteration::least_replayed_s(std::span<const std::int64_t> stage_layers) const {
    Chunks chunks;
    const Longest longest = each_stage(stage_layers, [](const Stage&) {});
    const double pipeline_s = choice_.schedule == Schedule::one_f_one_b
                                  ? least_interleaved_seconds(interleaved(stage_layers, chunks))
                                  : least_split_seconds(split_stages(stage_layers, chunks));
    return pipeline_s + longest.exchange_s + tied_exchange_s() + optimizer_s(longest);
}

void Iteration::finish(Estimate& e) const {
    const double gpus =
        real(choice_.stages) * real(choice_.dp) * real(choice_.cp) * real(shard_.shape.tp);
    e.samples_per_s = real(context_.global_batch) / e.iteration_s;
    e.tflops_per_gpu = model_tflops_per_gpu(context_, e.samples_per_s, gpus);
    set_source(e);
}

/// Shares of evidence over all layers and both ends, weighted by compute time.
void Iteration::set_source(Estimate& e) const {
    const double layers = real(context_.model.layers);
    const bool is_data_sheet = context_.constants.device.unmeasured > 0.5 && !is_emulated();
    double sum = 0, measured = 0, error = 0;
    for (std::size_t k = 0; k < evidence_count; ++k) {
        const double seconds = layers * shard_.layer_evidence[k] + shard_.ends_evidence[k];
        const bool is_guess = is_data_sheet && k == static_cast<std::size_t>(Evidence::analytic);
        sum += seconds;
        error += seconds * (is_guess ? data_sheet_error : error_of(context_.model, k));
        if (k <= static_cast<std::size_t>(Evidence::interpolated)) measured += seconds;
    }
    e.source = measured >= profiled_share * sum ? Source::profiled
               : is_data_sheet                  ? Source::data_sheet
                                                : Source::analytic;
    const double comm = (e.tp_comm_s + e.pp_comm_s + e.dp_comm_s) / e.iteration_s;
    e.error_bound = (1 - comm) * error / sum + comm * communication_error;
}

Estimate price_stages(const PoolContext& context, const Topology& topology, const Shard& shard,
                      const PlanChoice& choice, std::span<const std::int64_t> stage_layers) {
    return Iteration(context, topology, shard, choice).price(stage_layers);
}

}  // namespace arena
