// SPDX-License-Identifier: GPL-2.0-or-later
#include "planner/plans/memory.h"

#include <algorithm>
#include <cmath>

#include "base/statistics.h"
#include "core/profile.h"
#include "planner/models/model.h"
#include "planner/operators/op_builder.h"

namespace arena {

namespace {

constexpr double workspace_bytes = 256.0 * 1024 * 1024;
constexpr double bucket_bytes = 400e6;  ///< flattened gradients in flight
/// Of what a type reserves, a process alone takes the context's share; each kind of group that it
/// talks in has communicators with buffers of their own (NCCL), up to this number.
constexpr double context_share = 0.3, usual_groups = 3;

constexpr std::size_t kept_column = 2;  ///< of MemoryModel's rows, by Recompute

/// Tensors that backward needs from one layer, without the s x s matrices.
double kept_bytes(const KeptElements& kept, double width, const ShardShape& shape) {
    const double replicated = width * kept.replicated + kept.dropout;
    return (shape.sequence_parallel ? replicated / real(shape.tp) : replicated) +
           width * kept.split;
}

/// What training in 8 or 4 bits does not keep: GEMMs of the blocks keep their inputs in the narrow
/// type, of which one more of the norms' outputs and of the MLP's hidden states are 16 bit in other
/// training.
double narrow_bytes(const Model& model, const LayerKind& kind, const ShardShape& shape,
                    Precision precision) {
    if (plain_precision(precision) == precision || kind.body != LayerKind::Body::dense) return 0;
    const double tokens = real(model.seq_length) * real(shape.micro_batch) / real(shape.cp);
    const double rows = shape.sequence_parallel ? real(shape.tp) : 1;
    const double saved = element_bytes(plain_precision(precision)) - 1;
    const KeptInputs kept = kept_inputs(model);
    const double inputs =
        ((kept.attention ? 1 : 0) + (kept.mlp ? 1 : 0)) * real(model.hidden) / rows +
        (kept.down ? real(model.ffn_hidden) / real(shape.tp) : 0);
    return saved * tokens * inputs;
}

/// Softmax output, and with dropout its mask and output; what selective recompute does not keep.
double score_bytes(const KeptElements& kept, double width) {
    return kept.scores * (kept.dropout > 0 ? 2 * width + 1 : width);
}

}  // namespace

double gradient_bytes(Precision precision) { return precision == Precision::fp16 ? 2 : 4; }

StateBytes state_bytes_of(Precision precision) {
    const bool mixed = precision != Precision::fp32 && precision != Precision::tf32;
    const double weights = mixed ? 2 : 4, gradients = gradient_bytes(precision);
    const double total = precision == Precision::fp16 ? 20 : mixed ? 18 : 16;
    return {weights, gradients, total - weights - gradients};
}

double state_bytes_per_parameter(Precision precision, std::int64_t zero_stage, std::int64_t dp) {
    return state_bytes_per_parameter(state_bytes_of(precision), zero_stage, dp);
}

double state_bytes_per_parameter(const StateBytes& states, std::int64_t zero_stage,
                                 std::int64_t dp) {
    const double total = states.weights + states.gradients + states.optimizer;
    double whole = total;
    if (zero_stage >= 1) whole = states.weights + states.gradients;
    if (zero_stage >= 2) whole = states.weights;
    if (zero_stage >= 3) whole = 0;
    return whole + (total - whole) / real(dp);
}

PlanChoice choice_of(const Plan& plan) {
    return {.stages = plan.pp(),
            .dp = plan.dp(),
            .micro_batches = plan.num_micro_batches,
            .recompute = plan.recompute,
            .zero_stage = plan.zero_stage,
            .vpp = plan.vpp,
            .cp = plan.cp,
            .ep = plan.ep,
            .hsdp = plan.hsdp,
            .schedule = plan.schedule};
}

ShardShape shape_of(const Plan& plan) {
    return {plan.tp(), plan.micro_batch, plan.sequence_parallel, plan.cp, plan.ep, plan.etp};
}

/// 1F1B: one per stage that follows, and its own. Interleaved: Megatron's warm-up in chunks. Where
/// gradients of weights wait, a stage holds as much for them as it has less to wait for, so that
/// all hold what the first one does.
double micro_batches_in_flight(const PlanChoice& choice, std::int64_t index) {
    const std::int64_t v = choice.vpp, p = choice.stages, after = p - index - 1;
    std::int64_t chunks = v == 1 ? after + 1 : 2 * after + (v - 1) * p + 1;
    if (choice.schedule == Schedule::zb_h1) chunks = v * p;
    if (choice.schedule == Schedule::zb_v) chunks = 2 * p;
    if (choice.schedule == Schedule::dual_pipe_v) chunks = 2 * p + 1;
    return real(std::min(choice.micro_batches * v, chunks)) / real(v);
}

std::int64_t StageMemory::capacity(std::int64_t most, double limit_bytes) const {
    const double layers = std::floor((limit_bytes - fixed_bytes) / layer_bytes);
    return static_cast<std::int64_t>(std::clamp(layers, 0.0, real(most)));
}

MemoryModel::MemoryModel(const PoolContext& context, const ShardShape& shape)
    : precision_(context.precision),
      slack_(context.pool.hardware.emulated ? 1.06 : context.constants.framework.activation_slack),
      extra_state_bytes_(
          precision_ == Precision::bf16 ? context.constants.framework.bf16_state_bytes : 0),
      states_(state_bytes_of(precision_)),
      trained_share_(trained_share(context.model, context.layers->list(), shape)),
      frozen_bytes_(context.model.base_bits > 0 ? real(context.model.base_bits) / 8
                                                : element_bytes(plain_precision(precision_))),
      adapted_(is_adapted(context.model)),
      shape_(shape),
      tied_(context.model.tied_embedding),
      embedding_parameters_(embedding_shard_parameters(context.model, shape.tp)),
      head_parameters_(head_shard_parameters(context.model, shape)),
      index_(context.layers) {
    const Model& model = context.model;
    const GpuType& type = context.pool.hardware;
    const FrameworkConstants& framework = context.constants.framework;
    if (!type.emulated && framework.gradient_state_bytes > 0)
        states_.gradients = framework.gradient_state_bytes;
    if (!type.emulated && framework.optimizer_state_bytes > 0)
        states_.optimizer = framework.optimizer_state_bytes;
    const double width = element_bytes(plain_precision(precision_));
    const double tokens = real(model.seq_length) * real(shape.micro_batch) / real(shape.cp);
    const double split = shape.sequence_parallel ? real(shape.tp) : 1;
    logits_bytes_ = tokens * (real(shard_vocab(model, shape.tp)) *
                                  (type.emulated ? width + 8 : framework.logit_bytes) +
                              2 * width * real(model.hidden) / split);
    if (model.mtp_layers > 0) {  // each predicts from a layer of its own, then through the head
        const LayerList& list = context.layers->list();
        const KeptElements layer = kept_elements(model, list.kinds[list.runs.back().kind], shape);
        logits_bytes_ += real(model.mtp_layers) * (logits_bytes_ + kept_bytes(layer, width, shape));
    }
    reserve_ = {type.reserved_bytes, 0};
    if (!type.emulated)
        reserve_ = {context_share * type.reserved_bytes +
                        framework.reserved_gib * 1024 * 1024 * 1024 + workspace_bytes,
                    (1 - context_share) * type.reserved_bytes};
    set_inputs(model, tokens * real(model.hidden) * width / split);
    set_layers(model, framework, type.emulated);
}

void MemoryModel::set_inputs(const Model& model, double transformer_bytes) {
    const std::vector<LayerKind>& kinds = index_->list().kinds;
    if (is_transformer(model.family))
        return inputs_.set(index_, transformer_bytes,
                           std::vector<double>(kinds.size(), transformer_bytes));
    const double width = element_bytes(plain_precision(precision_));
    const auto bytes = [&](double elements) {
        return elements * (real(shape_.micro_batch) * width);
    };
    std::vector<double> outputs;
    for (const LayerKind& kind : kinds)
        outputs.push_back(bytes(layer_output_elements(model, kind)));
    inputs_.set(index_, bytes(first_input_elements(model, index_->list())), std::move(outputs));
}

/// Kept bytes under full recompute are the layer's input, which depends on the layer before.
MemoryModel::Held MemoryModel::layer_row(const Model& model, const LayerKind& kind,
                                         const FrameworkConstants& framework, bool emulated) const {
    const double width = element_bytes(plain_precision(precision_));
    const LayerParameters parameters = shard_parameters(model, kind, shape_);
    KeptElements elements = kept_elements(model, kind, shape_);
    if (framework.keeps_masks < 0.5) elements.dropout = 0;
    const bool pointwise = framework.recompute_pointwise > 0.5, mlp = framework.recompute_mlp > 0.5;
    KeptElements recomputed;
    if (pointwise) recomputed = pointwise_elements(model, kind, shape_);
    if (mlp) recomputed.split = mlp_elements(model, kind, shape_).split;
    const double again = emulated ? 0 : kept_bytes(recomputed, width, shape_);
    double kept = kept_bytes(elements, width, shape_) - again;
    if (!emulated && !pointwise && !mlp) kept -= narrow_bytes(model, kind, shape_, precision_);
    const bool fused = !emulated && framework.fused_attention >= 0.5;
    const double scores = fused ? 0 : score_bytes(elements, width);
    const double selective = kept -
                             framework.selective_others * std::max(0.0, kept - inputs_.first()) +
                             (1 - framework.selective_attention) * scores;
    return {{parameters.total() - parameters.expert, parameters.expert, kept + scores, selective,
             inputs_.first()},
            again};
}

/// Each layer, or where its layers are told apart by their runs, the first of each run, has an
/// input of its own.
void MemoryModel::set_layers(const Model& model, const FrameworkConstants& framework,
                             bool emulated) {
    const LayerList& list = index_->list();
    std::vector<Held> kinds;
    for (const LayerKind& kind : list.kinds)
        kinds.push_back(layer_row(model, kind, framework, emulated));
    const LayerIndex::Form form = index_->form();
    if (form == LayerIndex::Form::homogeneous || form == LayerIndex::Form::counted) {
        set_rows(index_, kinds);
    } else {
        const auto split = std::make_shared<const LayerIndex>(with_first_layers(list));
        std::vector<Held> rows;
        for (std::size_t r = 0; r < list.runs.size(); ++r)
            for (const std::int64_t layer : {std::int64_t{0}, std::int64_t{1}}) {
                rows.push_back(kinds[list.runs[r].kind]);
                rows.back().row[4] = inputs_.at(std::min(index_->begin_of(r) + layer,
                                                         index_->begin_of(r) + list.runs[r].count));
            }
        set_rows(split, rows);
    }
    const bool is_one = form == LayerIndex::Form::homogeneous;
    const Row sums = is_one ? kinds.front().row : held_.over({0, model.layers});
    for (std::size_t r = 0; r < 3; ++r)
        activations_[r] =
            is_one ? sums[kept_column + r] : sums[kept_column + r] / real(model.layers);
}

void MemoryModel::set_rows(const std::shared_ptr<const LayerIndex>& index,
                           const std::vector<Held>& kinds) {
    const auto column = [&](auto value) {
        std::vector<double> values;
        for (const Held& kind : kinds) values.push_back(value(kind.row, kind.again));
        return values;
    };
    std::vector<Row> rows;
    for (const Held& kind : kinds) rows.push_back(kind.row);
    held_.set(index, std::move(rows));
    most_parameters_.set(index, column([](const Row& row, double) { return row[0] + row[1]; }));
    for (std::size_t r = 0; r < 3; ++r)
        most_live_[r].set(index, column([&](const Row& row, double again) {
                              return std::max(0.0, row[kept_column] - row[kept_column + r]) + again;
                          }));
}

/// Per parameter of a layer. Frozen weights are whole unless ZeRO-3 shards them; what is trained
/// beside them has states.
double MemoryModel::state_bytes(std::int64_t zero_stage, std::int64_t ranks) const {
    const double trained =
        state_bytes_per_parameter(states_, zero_stage, ranks) + extra_state_bytes_;
    if (!adapted_) return trained;
    return frozen_bytes_ / (zero_stage >= 3 ? real(ranks) : 1) + trained_share_ * trained;
}

/// Of embedding and head, which adapters leave as they are.
double MemoryModel::end_state_bytes(std::int64_t zero_stage, std::int64_t ranks) const {
    if (!adapted_) return state_bytes(zero_stage, ranks);
    return states_.weights / (zero_stage >= 3 ? real(ranks) : 1);
}

/// Weights, gradients, optimizer state, of which experts' are sharded over their own replicas; and
/// the activations of the micro-batches in flight.
MemoryModel::Row MemoryModel::weights(const PlanChoice& choice, std::int64_t index) const {
    const std::int64_t ranks = choice.sharing();
    const double state = state_bytes(choice.zero_stage, ranks);
    Row row{state, state};
    if (shape_.ep > 1)
        row[1] =
            state_bytes(choice.zero_stage,
                        std::max<std::int64_t>(1, ranks * shape_.tp / (shape_.ep * shape_.etp)));
    row[kept_column + static_cast<std::size_t>(choice.recompute)] =
        slack_ * micro_batches_in_flight(choice, index);
    return row;
}

/// Parameters outside the layers. One stage holds a tied table once; two stages hold a copy each.
double MemoryModel::held_parameters(const PlanChoice& choice, std::int64_t index) const {
    const bool first = index == 0, last = index == choice.last_stage();
    if (first && last && tied_) return std::max(embedding_parameters_, head_parameters_);
    return (first ? embedding_parameters_ : 0) + (last ? head_parameters_ : 0);
}

MemoryModel::Extremes MemoryModel::extremes(const PlanChoice& choice,
                                            std::span<const LayerRange> ranges) const {
    Extremes most;
    for (const LayerRange& range : ranges) {
        if (range.size() == 0) continue;  // an embedding in the place of a layer
        const LayerMost& live = most_live_[static_cast<std::size_t>(choice.recompute)];
        const double in = is_homogeneous() ? inputs_.first() : inputs_.at(range.begin);
        const double out = is_homogeneous() ? inputs_.first() : inputs_.at(range.end);
        most.live_bytes = std::max(most.live_bytes, live.over(range));
        most.parameters = std::max(most.parameters, most_parameters_.over(range));
        most.boundary_bytes = std::max(most.boundary_bytes, 2 * in + 2 * out);
    }
    return most;
}

double MemoryModel::reserved_bytes(const PlanChoice& choice) const {
    const double groups = (choice.dp > 1 ? 1 : 0) + (choice.stages > 1 ? 1 : 0) +
                          (shape_.tp > 1 ? 1 : 0) + (shape_.cp > 1 ? 1 : 0) +
                          (shape_.ep > 1 ? 1 : 0);
    return reserve_.process_bytes +
           reserve_.communicator_bytes * std::min(1.0, groups / usual_groups);
}

double MemoryModel::fixed_bytes(const PlanChoice& choice, std::int64_t index,
                                const Extremes& most) const {
    const double state = end_state_bytes(choice.zero_stage, choice.sharing());
    double bytes = reserved_bytes(choice) + held_parameters(choice, index) * state;
    bytes += slack_ * most.live_bytes;
    if (choice.zero_stage >= 3)
        bytes += 2 * most.parameters * element_bytes(plain_precision(precision_));
    if (index == choice.last_stage()) bytes += slack_ * logits_bytes_;
    if (choice.stages > 1) bytes += most.boundary_bytes;
    if (choice.dp > 1)
        bytes +=
            std::min(bucket_bytes, trained_share_ * most.parameters * gradient_bytes(precision_));
    return bytes;
}

StageMemory MemoryModel::stage(const PlanChoice& choice, std::int64_t index) const {
    const LayerRange one[] = {{0, 1}};
    return {fixed_bytes(choice, index, extremes(choice, one)),
            held_.weighed(one[0], weights(choice, index))};
}

double MemoryModel::bytes(const PlanChoice& choice, std::int64_t index,
                          std::span<const LayerRange> ranges) const {
    double layers = 0;
    for (const LayerRange& range : ranges) layers += held_.weighed(range, weights(choice, index));
    return fixed_bytes(choice, index, extremes(choice, ranges)) + layers;
}

double MemoryModel::buffer_bytes(const PlanChoice& choice,
                                 std::span<const LayerRange> ranges) const {
    return choice.stages == 1 ? 0 : extremes(choice, ranges).boundary_bytes;
}

std::int64_t MemoryModel::capacity(const PlanChoice& choice, std::int64_t index, std::int64_t begin,
                                   std::int64_t most, double limit) const {
    if (is_homogeneous()) return stage(choice, index).capacity(most, limit);
    std::int64_t fits = 0, above = most + 1;
    while (above - fits > 1) {
        const std::int64_t middle = (fits + above) / 2;
        const LayerRange range[] = {{begin, begin + middle}};
        const bool does = bytes(choice, index, range) - buffer_bytes(choice, range) <= limit;
        (does ? fits : above) = middle;
    }
    return fits;
}

}  // namespace arena
