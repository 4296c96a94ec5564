// SPDX-License-Identifier: GPL-2.0-or-later
#include "planner/memory.h"

#include <algorithm>

#include "core/profile.h"
#include "planner/model.h"
#include "planner/op_builder.h"

namespace arena {

namespace {

constexpr double workspace_bytes = 256.0 * 1024 * 1024;
constexpr double bucket_bytes = 400e6;  ///< flattened gradients in flight

double real(std::int64_t value) { return static_cast<double>(value); }

/// Mean over the model's layers.
KeptElements mean_kept(const Model& model, const ShardShape& shape) {
    const LayerList list = layer_list(model);
    KeptElements mean;
    for (std::size_t k = 0; k < list.kinds.size(); ++k) {
        const double share = real(list.count_of(k)) / real(model.layers);
        const KeptElements kept = kept_elements(model, list.kinds[k], shape);
        mean.replicated += share * kept.replicated;
        mean.split += share * kept.split;
        mean.scores += share * kept.scores;
        mean.dropout += share * kept.dropout;
    }
    return mean;
}

/// Tensors that backward needs from one layer, without the s x s matrices.
double kept_bytes(const KeptElements& kept, double width, const ShardShape& shape) {
    const double replicated = width * kept.replicated + kept.dropout;
    return (shape.sequence_parallel ? replicated / real(shape.tp) : replicated) +
           width * kept.split;
}

/// Softmax output, and with dropout its mask and output; what selective recompute does not keep.
double score_bytes(const KeptElements& kept, double width) {
    return kept.scores * (kept.dropout > 0 ? 2 * width + 1 : width);
}

}  // namespace

double gradient_bytes(Precision precision) { return precision == Precision::fp16 ? 2 : 4; }

double state_bytes_per_parameter(Precision precision, std::int64_t zero_stage, std::int64_t dp) {
    const bool mixed = precision != Precision::fp32 && precision != Precision::tf32;
    const double weights = mixed ? 2 : 4, gradients = gradient_bytes(precision);
    const double total = precision == Precision::fp16 ? 20 : mixed ? 18 : 16;
    double whole = total;
    if (zero_stage >= 1) whole = weights + gradients;
    if (zero_stage >= 2) whole = weights;
    if (zero_stage >= 3) whole = 0;
    return whole + (total - whole) / real(dp);
}

/// 1F1B: one per stage that follows, and its own. Interleaved: Megatron's warm-up in chunks.
double micro_batches_in_flight(const PlanChoice& choice, std::int64_t index) {
    const std::int64_t v = choice.vpp, after = choice.stages - index - 1;
    const std::int64_t chunks = v == 1 ? after + 1 : 2 * after + (v - 1) * choice.stages + 1;
    return real(std::min(choice.micro_batches * v, chunks)) / real(v);
}

MemoryModel::MemoryModel(const Model& model, const GpuType& type, Precision precision,
                         const ShardShape& shape)
    : MemoryModel(model, type, builtin_calibration().framework("default"), precision, shape) {}

MemoryModel::MemoryModel(const Model& model, const GpuType& type,
                         const FrameworkConstants& framework, Precision precision,
                         const ShardShape& shape)
    : precision_(precision),
      slack_(type.emulated ? 1.06 : framework.activation_slack),
      extra_state_bytes_(precision == Precision::bf16 ? framework.bf16_state_bytes : 0),
      shape_(shape),
      tied_(model.tied_embedding),
      layer_parameters_(layer_shard_parameters(model, shape)),
      embedding_parameters_(embedding_shard_parameters(model, shape.tp)),
      head_parameters_(head_shard_parameters(model, shape.tp)) {
    const double width = element_bytes(plain_precision(precision));
    const double tokens = real(model.seq_length) * real(shape.micro_batch) / real(shape.cp);
    const double split = shape.sequence_parallel ? real(shape.tp) : 1;
    KeptElements elements = mean_kept(model, shape);
    if (framework.keeps_masks < 0.5) elements.dropout = 0;
    const double kept = kept_bytes(elements, width, shape);
    const double input = tokens * real(model.hidden) * width / split;
    const bool fused = !type.emulated && framework.fused_attention >= 0.5;
    activations_ = {kept + (fused ? 0 : score_bytes(elements, width)), kept, input};
    logits_bytes_ = tokens * (real(shard_vocab(model, shape.tp)) *
                                  (type.emulated ? width + 8 : framework.logit_bytes) +
                              2 * width * real(model.hidden) / split);
    boundary_bytes_ = 4 * tokens * real(model.hidden) * width / split;
    const double reserve = type.reserved_bytes + framework.reserved_gib * 1024 * 1024 * 1024;
    reserved_bytes_ = type.emulated ? type.reserved_bytes : reserve + workspace_bytes;
    const LayerList list = layer_list(model);
    for (std::size_t k = 0; k < list.kinds.size(); ++k)
        expert_parameters_ += real(list.count_of(k)) / real(model.layers) *
                              shard_parameters(model, list.kinds[k], shape).expert;
}

double MemoryModel::state_bytes(std::int64_t zero_stage, std::int64_t ranks) const {
    return state_bytes_per_parameter(precision_, zero_stage, ranks) + extra_state_bytes_;
}

/// Weights, gradients, optimizer state of a layer; experts are sharded over their own replicas.
double MemoryModel::layer_state_bytes(const PlanChoice& choice) const {
    const std::int64_t ranks = choice.dp * choice.cp;
    const std::int64_t experts =
        shape_.ep == 1 ? ranks : std::max<std::int64_t>(1, ranks * shape_.tp / shape_.ep);
    return (layer_parameters_ - expert_parameters_) * state_bytes(choice.zero_stage, ranks) +
           expert_parameters_ * state_bytes(choice.zero_stage, experts);
}

/// Parameters outside the layers. One stage holds a tied table once; two stages hold a copy each.
double MemoryModel::held_parameters(const PlanChoice& choice, std::int64_t index) const {
    const bool first = index == 0, last = index == choice.stages - 1;
    if (first && last && tied_) return std::max(embedding_parameters_, head_parameters_);
    return (first ? embedding_parameters_ : 0) + (last ? head_parameters_ : 0);
}

StageMemory MemoryModel::stage(const PlanChoice& choice, std::int64_t index) const {
    const double state = state_bytes(choice.zero_stage, choice.dp * choice.cp);
    const double in_flight = micro_batches_in_flight(choice, index);
    StageMemory memory;
    memory.fixed_bytes = reserved_bytes_ + held_parameters(choice, index) * state;
    memory.layer_bytes =
        layer_state_bytes(choice) + slack_ * in_flight * activation_bytes(choice.recompute);
    // Recompute brings one layer back in full while its backward runs.
    if (choice.recompute != Recompute::none)
        memory.fixed_bytes +=
            slack_ * (activation_bytes(Recompute::none) - activation_bytes(choice.recompute));
    if (choice.zero_stage >= 3)
        memory.fixed_bytes += 2 * layer_parameters_ * element_bytes(plain_precision(precision_));
    if (index == choice.stages - 1) memory.fixed_bytes += slack_ * logits_bytes_;
    if (choice.stages > 1) memory.fixed_bytes += boundary_bytes_;
    if (choice.dp > 1)
        memory.fixed_bytes +=
            std::min(bucket_bytes, layer_parameters_ * gradient_bytes(precision_));
    return memory;
}

}  // namespace arena
