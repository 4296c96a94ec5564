// SPDX-License-Identifier: GPL-2.0-or-later
// One training iteration from a shard: stage times, 1F1B, gradient exchange, optimizer step. The
// parts of the estimate sum to iteration_s: compute and communication are those of the slowest
// stage, and what other stages add to the pipeline's length is the bubble.
#include <algorithm>
#include <numeric>
#include <vector>

#include "core/profile.h"
#include "planner/model.h"
#include "planner/schedule.h"
#include "planner/shard.h"

namespace arena {

namespace {

constexpr double profiled_share = 0.9;  ///< of compute time, from exact or near shapes
constexpr double communication_error = 0.3;
constexpr double forward_share = 1.0 / 3;  ///< a backward computes two gradients
/// Relative error to expect by evidence: planners that measured their operators report 4 to 10 %
/// (Arena, vTrain, Aceso), analytic ones up to 40 % (doc/benchmarks.md has ours).
constexpr EvidenceSeconds evidence_error{0.10, 0.15, 0.25, 0.50};

double real(std::int64_t value) { return static_cast<double>(value); }

class Iteration {
  public:
    Iteration(const PoolContext& context, const Topology& topology, const Shard& shard,
              const PlanChoice& choice, std::span<const std::int64_t> stage_layers)
        : context_(context),
          topology_(topology),
          shard_(shard),
          choice_(choice),
          layers_(stage_layers),
          framework_(context.constants.framework) {}

    Estimate price() const {
        PipelineLength pipeline;
        std::size_t slowest = 0;
        double slowest_s = 0;
        for (std::size_t i = 0; i < layers_.size(); ++i) {
            const double forward = forward_s(i), total = stage_total_s(i);
            pipeline.add(forward, total - forward, in_flight(i), choice_.micro_batches);
            if (total > slowest_s) slowest = i, slowest_s = total;
        }
        Estimate e;
        const double m = real(choice_.micro_batches);
        e.compute_s = m * stage_compute_s(slowest);
        e.tp_comm_s = m * stage_comm_s(slowest);
        e.pp_comm_s = m * boundary_s(slowest);
        const double pipeline_s = choice_.vpp > 1 ? interleaved_s() : pipeline.closed_s;
        e.bubble_s = layers_.size() == 1 ? 0 : std::max(0.0, pipeline_s - m * slowest_s);
        e.dp_comm_s = longest_exchange_s() + tied_exchange_s();
        e.optimizer_s = optimizer_s();
        e.iteration_s = m * slowest_s + e.bubble_s + e.dp_comm_s + e.optimizer_s;
        finish(e);
        return e;
    }

    double least_interleaved_s() const {
        InterleavedBuffers buffers;
        return arena::least_interleaved_seconds(interleaved(buffers)) + longest_exchange_s() +
               tied_exchange_s() + optimizer_s();
    }

    StagePart part(std::size_t i) const {
        const double layers = real(layers_[i]);
        const auto index = static_cast<std::int64_t>(i);
        const double forward = forward_s(i);
        return {forward,
                stage_total_s(i) - forward,
                choice_.dp * choice_.cp > 1 ? exchange_s(i) : 0,
                stepped_share() * stage_parameters(i) * shard_.optimizer_parameter_s,
                is_emulated() ? 0 : layers * framework_.iteration_layer_s,
                shard_.memory.stage(choice_, index).total(layers_[i]),
                boundary_s(i)};
    }

    double fixed_s() const {
        return tied_exchange_s() + (is_emulated() ? 0 : framework_.iteration_s);
    }

  private:
    bool is_emulated() const { return context_.pool.hardware.emulated; }
    bool is_last(std::size_t i) const { return i + 1 == layers_.size(); }

    double stage_compute_s(std::size_t i) const {
        return real(layers_[i]) * layer_seconds(shard_, choice_.recompute).compute_s +
               (i == 0 ? shard_.embedding_s : 0) + (is_last(i) ? shard_.head_s : 0) +
               (is_emulated() ? 0 : framework_.micro_batch_s);
    }

    double stage_comm_s(std::size_t i) const {
        return real(layers_[i]) * layer_seconds(shard_, choice_.recompute).comm_s +
               (i == 0 ? shard_.embedding_comm_s : 0) + (is_last(i) ? shard_.head_comm_s : 0);
    }

    /// What a stage spends on its boundary with the next one, and where it waits for what it
    /// receives as well, on the one before.
    double boundary_s(std::size_t i) const {
        return sent_s(i) + (i == 0 ? 0 : framework_.blocking_boundary * sent_s(i - 1));
    }

    /// Activations to the next stage and their gradients back, once per chunk; the last stage
    /// returns all chunks but the last to the first stage.
    double sent_s(std::size_t i) const {
        const std::int64_t transfers = is_last(i) ? choice_.vpp - 1 : choice_.vpp;
        if (transfers == 0) return 0;
        const std::int64_t stage_gpus = choice_.dp * choice_.cp * shard_.shape.tp;
        const bool crosses =
            is_last(i) ? choice_.stages * stage_gpus > topology_.gpus_per_node
                       : boundary_crosses(topology_, static_cast<std::int64_t>(i), stage_gpus);
        return real(2 * transfers) * (1 - framework_.overlap_boundary) *
               point_to_point_s(topology_, crosses, shard_.boundary_bytes);
    }

    double stage_total_s(std::size_t i) const {
        return stage_compute_s(i) + stage_comm_s(i) + boundary_s(i);
    }

    std::int64_t in_flight(std::size_t i) const {
        return std::min(choice_.micro_batches, choice_.stages - static_cast<std::int64_t>(i));
    }

    /// Embedding, head and host, which come once per stage and micro-batch.
    double ends_forward_s(std::size_t i) const {
        const double ends = (i == 0 ? shard_.embedding_s + shard_.embedding_comm_s : 0) +
                            (is_last(i) ? shard_.head_s + shard_.head_comm_s : 0);
        return forward_share * (ends + (is_emulated() ? 0 : framework_.micro_batch_s));
    }

    double forward_s(std::size_t i) const {
        return real(layers_[i]) * layer_seconds(shard_, choice_.recompute).forward_s +
               ends_forward_s(i) + boundary_s(i) / 2;
    }

    struct InterleavedBuffers {
        std::vector<double> forward_s, backward_s;
    };

    /// Layers and transfers in equal chunks; embedding with the first, head with the last.
    InterleavedStages interleaved(InterleavedBuffers& buffers) const {
        const double chunks = real(choice_.vpp);
        const double host = is_emulated() ? 0 : framework_.micro_batch_s;
        const double embedding = shard_.embedding_s + shard_.embedding_comm_s;
        const double head = shard_.head_s + shard_.head_comm_s;
        const LayerSeconds& layer = layer_seconds(shard_, choice_.recompute);
        for (std::size_t i = 0; i < layers_.size(); ++i) {
            const double transfer = boundary_s(i) / 2, layers = real(layers_[i]);
            buffers.forward_s.push_back(
                (layers * layer.forward_s + transfer + forward_share * host) / chunks);
            buffers.backward_s.push_back(
                (layers * layer.backward_s + transfer + (1 - forward_share) * host) / chunks);
        }
        return {buffers.forward_s,
                buffers.backward_s,
                forward_share * embedding,
                (1 - forward_share) * embedding,
                forward_share * head,
                (1 - forward_share) * head,
                choice_.vpp,
                choice_.micro_batches};
    }

    double interleaved_s() const {
        InterleavedBuffers buffers;
        return InterleavedReplay().seconds(interleaved(buffers));
    }

    /// A tied table is exchanged and stepped once in a single stage, in both stages otherwise.
    double stage_parameters(std::size_t i) const {
        const double layers = real(layers_[i]) * shard_.layer_parameters;
        if (layers_.size() == 1 && context_.model.tied_embedding)
            return layers + std::max(shard_.embedding_parameters, shard_.head_parameters);
        return layers + (i == 0 ? shard_.embedding_parameters : 0) +
               (is_last(i) ? shard_.head_parameters : 0);
    }

    double exchanged_bytes(double parameters) const {
        const double width = framework_.gradient_bytes > 0 ? framework_.gradient_bytes
                                                           : gradient_bytes(context_.precision);
        return parameters * width;
    }

    /// What remains of `comm` behind `work` that hides up to `share` of itself: all that does not
    /// fit, and a part of what does, since both slow each other down.
    double exposed_s(double comm, double work, double share) const {
        const double hidden = std::min(comm, work * share);
        return comm - hidden + framework_.overlap_slowdown * hidden;
    }

    /// Ranks that hold the same dense parameters.
    Group replicas() const { return dp_group(topology_, choice_.dp * choice_.cp, shard_.shape.tp); }

    /// Ranks that hold the same experts.
    std::int64_t expert_replicas() const {
        const std::int64_t ranks = choice_.dp * choice_.cp;
        return shard_.shape.ep == 1
                   ? ranks
                   : std::max<std::int64_t>(1, ranks * shard_.shape.tp / shard_.shape.ep);
    }

    /// All-reduce, or reduce-scatter and gather of the weights, of these parameters.
    double replicate_s(const Group& group, double parameters) const {
        const double gradients = exchanged_bytes(parameters);
        return choice_.zero_stage == 0
                   ? all_reduce_s(topology_, group, gradients)
                   : reduce_scatter_s(topology_, group, gradients) +
                         all_gather_s(topology_, group, parameters * weight_bytes());
    }

    /// Gradients hide behind the backward of the stage's last micro-batch, but for the last bucket.
    double exchange_s(std::size_t i) const {
        if (choice_.zero_stage >= 3) return zero3_exposed_s(i, replicas());
        const double experts = real(layers_[i]) * shard_.expert_parameters;
        const double backward =
            real(layers_[i]) * layer_seconds(shard_, choice_.recompute).backward_s;
        const double comm =
            replicate_s(replicas(), stage_parameters(i) - experts) +
            replicate_s(strided_group(topology_, expert_replicas(), shard_.shape.ep), experts);
        return std::max(exposed_s(comm, backward, framework_.overlap_gradients),
                        comm / real(layers_[i] + 1));
    }

    double weight_bytes() const {
        return context_.precision == Precision::fp32 || context_.precision == Precision::tf32 ? 4
                                                                                              : 2;
    }

    /// ZeRO-3: each layer's weights come for its forward and again for its backward, its gradients
    /// leave after it; each hides behind the layer before. The first gather has nothing to hide
    /// behind.
    double zero3_exposed_s(std::size_t i, const Group& group) const {
        const LayerSeconds& layer = layer_seconds(shard_, choice_.recompute);
        const double gather =
            all_gather_s(topology_, group, shard_.layer_parameters * weight_bytes());
        const double reduce =
            reduce_scatter_s(topology_, group, exchanged_bytes(shard_.layer_parameters));
        const double share = framework_.overlap_weights;
        const double ends = (stage_parameters(i) - real(layers_[i]) * shard_.layer_parameters) /
                            shard_.layer_parameters * (2 * gather + reduce);
        const double micro_batch =
            real(layers_[i]) * (exposed_s(gather, layer.forward_s, share) +
                                exposed_s(framework_.regather_weights * gather + reduce,
                                          layer.backward_s, share)) +
            ends;
        return real(choice_.micro_batches) * micro_batch + gather;
    }

    double longest_exchange_s() const {
        if (choice_.dp * choice_.cp <= 1) return 0;
        double longest = 0;
        for (std::size_t i = 0; i < layers_.size(); ++i) longest = std::max(longest, exchange_s(i));
        return longest;
    }

    /// First and last stage add up the gradients of a shared table.
    double tied_exchange_s() const {
        const std::int64_t stages = choice_.stages;
        if (stages == 1 || !context_.model.tied_embedding) return 0;
        const bool crosses =
            stages * choice_.dp * choice_.cp * shard_.shape.tp > topology_.gpus_per_node;
        const double table =
            real(shard_vocab(context_.model, shard_.shape.tp)) * real(context_.model.hidden);
        return all_reduce_s(topology_, {2, crosses ? 1 : 2}, exchanged_bytes(table));
    }

    double stepped_share() const {
        return choice_.zero_stage >= 1 ? 1 / real(choice_.dp * choice_.cp) : 1;
    }

    double optimizer_s() const {
        double most = 0;
        for (std::size_t i = 0; i < layers_.size(); ++i) most = std::max(most, stage_parameters(i));
        const std::int64_t layers = *std::max_element(layers_.begin(), layers_.end());
        const double host = framework_.iteration_s + real(layers) * framework_.iteration_layer_s;
        return stepped_share() * most * shard_.optimizer_parameter_s + (is_emulated() ? 0 : host);
    }

    double memory_bytes() const {
        double peak = 0;
        for (std::size_t i = 0; i < layers_.size(); ++i)
            peak = std::max(
                peak, shard_.memory.stage(choice_, static_cast<std::int64_t>(i)).total(layers_[i]));
        return peak;
    }

    /// Shares of evidence over all layers and both ends, weighted by compute time.
    void set_source(Estimate& e) const {
        const double total_layers =
            real(std::accumulate(layers_.begin(), layers_.end(), std::int64_t{0}));
        double sum = 0, measured = 0, error = 0;
        for (std::size_t k = 0; k < evidence_count; ++k) {
            const double seconds =
                total_layers * shard_.layer_evidence[k] + shard_.ends_evidence[k];
            sum += seconds;
            error += seconds * evidence_error[k];
            if (k <= static_cast<std::size_t>(Evidence::interpolated)) measured += seconds;
        }
        e.source = measured >= profiled_share * sum ? Source::profiled : Source::analytic;
        const double comm = (e.tp_comm_s + e.pp_comm_s + e.dp_comm_s) / e.iteration_s;
        e.error_bound = (1 - comm) * error / sum + comm * communication_error;
    }

    void finish(Estimate& e) const {
        const double gpus =
            real(choice_.stages) * real(choice_.dp) * real(choice_.cp) * real(shard_.shape.tp);
        const double batch = real(context_.global_batch);
        e.samples_per_s = batch / e.iteration_s;
        e.tflops_per_gpu = model_tflops_per_gpu(context_, e.samples_per_s, gpus);
        e.memory_bytes_per_gpu = memory_bytes();
        set_source(e);
    }

    const PoolContext& context_;
    const Topology& topology_;
    const Shard& shard_;
    const PlanChoice& choice_;
    std::span<const std::int64_t> layers_;
    const FrameworkConstants& framework_;
};

}  // namespace

StagePart stage_part(const PoolContext& context, const Topology& topology, const Shard& shard,
                     const PlanChoice& choice, std::span<const std::int64_t> stage_layers,
                     std::size_t index) {
    return Iteration(context, topology, shard, choice, stage_layers).part(index);
}

double fixed_seconds(const PoolContext& context, const Topology& topology, const Shard& shard,
                     const PlanChoice& choice) {
    return Iteration(context, topology, shard, choice, {}).fixed_s();
}

Estimate price_stages(const PoolContext& context, const Topology& topology, const Shard& shard,
                      const PlanChoice& choice, std::span<const std::int64_t> stage_layers) {
    return Iteration(context, topology, shard, choice, stage_layers).price();
}

double least_interleaved_seconds(const PoolContext& context, const Topology& topology,
                                 const Shard& shard, const PlanChoice& choice,
                                 std::span<const std::int64_t> stage_layers) {
    return Iteration(context, topology, shard, choice, stage_layers).least_interleaved_s();
}

}  // namespace arena
