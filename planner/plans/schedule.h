// SPDX-License-Identifier: GPL-2.0-or-later
// Partitioning layers into pipeline stages, and the length of 1F1B over uneven stages, plain and
// interleaved.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace arena {

/// What one stage contributes to an iteration.
struct StagePart {
    double forward_s = 0, backward_s = 0;  ///< one micro-batch, with its transfers onwards
    double exchange_s = 0;    ///< of the gradients, what nothing hides; the longest counts
    double step_s = 0;        ///< optimizer, device; the longest counts
    double host_s = 0;        ///< per iteration, by layers; the longest counts
    double bytes = 0;         ///< device memory
    double boundary_s = 0;    ///< the transfers' share of pass_s(), half of it each way
    double buffer_bytes = 0;  ///< of bytes, what holds the transfers
    double comm_s = 0;        ///< the share of pass_s() of collectives inside the stage
    [[nodiscard]] double pass_s() const { return forward_s + backward_s; }
};

/// What limits the partition: seconds of one layer, of the embedding and of the head (forward +
/// backward per micro-batch), and the most layers that each stage's memory holds.
struct EqualLayers {
    std::int64_t layers = 1;
    double layer_s = 0, first_s = 0, last_s = 0;
    std::span<const std::int64_t> capacity;  ///< one entry per stage
};

/// Layers per stage with the least maximum stage time, every stage at least one layer and at most
/// its capacity; ties go to later stages, which hold fewer micro-batches. Exact, since layers are
/// equal. False when the capacities cannot hold the layers. O(stages^2) at most.
bool partition_layers(const EqualLayers&, std::span<std::int64_t> stage_layers);

/// The length of 1F1B with constant stage times, over stages added first to last: exact, in O(1)
/// per stage. A stage does its warm-up forwards, then one backward after each forward (Narayanan et
/// al. 2021, section 2.2); sending is part of a stage's time. The length is that of the longest
/// path through the tasks. Such a path fills the pipeline, stays on one stage l and drains it.
/// Filling, it goes to the last stage and back to l, or turns earlier, at stage i, after the
/// in_flight - 1 forwards that i has ahead and of which the longest stage so far has the most to
/// do; draining is the mirror image. What may follow a prefix of the stages depends on nothing but
/// these numbers, and on each of them monotonically, so that partial pipelines can be compared.
struct PipelineLength {
    static constexpr double none = -std::numeric_limits<double>::infinity();
    double sum_s = 0;                      ///< one micro-batch through all stages and back
    double forward_s = 0, backward_s = 0;  ///< of the longest stage
    double open_s = none;                  ///< longest path that still fills and drains
    double filled_s = none;                ///< ... that turned for filling already
    double drained_s = none;               ///< ... for draining
    double closed_s = 0;                   ///< ... that did both: the length so far

    /// in_flight = min(micro_batches, stages from this one on).
    void add(double stage_forward_s, double stage_backward_s, std::int64_t in_flight,
             std::int64_t micro_batches);
    /// Whatever follows, no longer than `slack` times the other.
    [[nodiscard]] bool at_most(const PipelineLength& other, double slack = 1) const;
    /// No continuation by stages that sum to rest_s is shorter.
    [[nodiscard]] double least_s(double rest_s) const;
};

/// One pass over all stages. Unequal spans are a bug.
double pipeline_seconds(std::span<const double> forward_s, std::span<const double> backward_s,
                        std::int64_t micro_batches);
/// No 1F1B pipeline of so many stages, which sum to sum_s and of which the longest takes longest_s
/// or more (at least sum_s / stages), is shorter; nor one whose last stage takes last_s or more.
double least_pipeline_seconds(double sum_s, double longest_s, std::int64_t stages,
                              std::int64_t micro_batches, double last_s = 0);

/// Interleaved 1F1B in Megatron-LM's order: stage i has chunks i, i + stages, ... of the layers,
/// each taking chunk_forward_s[i] and chunk_backward_s[i], or where chunks differ, the c-th one
/// those at c * stages + i; the first chunk of stage 0 and the last of the last stage take
/// first_*_s and last_*_s more. Needs micro_batches to be a multiple of the stages.
struct InterleavedStages {
    std::span<const double> chunk_forward_s, chunk_backward_s;
    double first_forward_s = 0, first_backward_s = 0, last_forward_s = 0, last_backward_s = 0;
    std::int64_t chunks = 2, micro_batches = 1;
    bool chunks_differ = false;

    [[nodiscard]] std::size_t stages() const {
        return chunk_forward_s.size() / (chunks_differ ? static_cast<std::size_t>(chunks) : 1);
    }
    [[nodiscard]] std::size_t at(std::size_t stage, std::size_t chunk) const {
        return chunks_differ ? chunk * stages() + stage : stage;
    }
    /// Both directions of all chunks of a stage, without what the ends take more.
    [[nodiscard]] double work_s(std::size_t stage) const;
};

/// Tasks that a replay plays; whole groups of micro-batches, see InterleavedReplay.
inline constexpr std::int64_t max_replayed_tasks = 1 << 18;

/// Plays every task, O(stages chunks micro_batches); keeps its memory between calls. Of more than
/// max_tasks it plays as many whole groups of `stages` micro-batches, and adds for each of the
/// others what the last one added: exact once the pipeline repeats itself, which stages that are
/// nearly equal take long to. Where not even 8 groups may be played, the length is that of stages
/// without ends, m c + (sum - c) / chunks for the longest c.
class InterleavedReplay {
  public:
    double seconds(const InterleavedStages&, std::int64_t max_tasks = max_replayed_tasks);

  private:
    double play(const InterleavedStages&);
    [[nodiscard]] std::size_t slot(std::int64_t stage, std::int64_t chunk,
                                   std::int64_t micro_batch) const;
    bool run_task(const InterleavedStages&, std::int64_t stage);

    std::int64_t stages_ = 1, chunks_ = 1, micro_batches_ = 1;
    std::vector<double> forward_end_s_, backward_end_s_, free_s_;
    std::vector<std::int64_t> next_;
};
/// No replay is shorter.
double least_interleaved_seconds(const InterleavedStages&);

}  // namespace arena
