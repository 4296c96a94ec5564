// SPDX-License-Identifier: GPL-2.0-or-later
// How it is spread over GPUs: grids, plans and what a user fixes of a plan.
#pragma once

#include <compare>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace arena {

/// Of activations in the backward pass.
enum class Recompute { none, selective, full };
std::string_view to_string(Recompute);
std::optional<Recompute> parse_recompute(std::string_view);

/// In which order pipeline stages do their work. All but 1F1B split a backward in two: gradients of
/// the inputs, which the stage before waits for, and those of the weights, which fill bubbles.
/// zb_h1: as 1F1B else, interleaved where vpp > 1 (Qi et al. 2024; ZB1P of PyTorch). The other two
/// have two chunks a stage, the second in reverse order, so that the first stage also is the last:
/// zb_v (ibid., section 6) and dual_pipe_v (DeepSeek-V3's DualPipe, cut in half).
enum class Schedule { one_f_one_b, zb_h1, zb_v, dual_pipe_v };
std::string_view to_string(Schedule);
std::optional<Schedule> parse_schedule(std::string_view);
inline bool is_v_shaped(Schedule schedule) {
    return schedule == Schedule::zb_v || schedule == Schedule::dual_pipe_v;
}

/// GPU type x GPU count (nodes x GPUs per node) x pipeline stages.
struct Grid {
    std::string gpu_type;  ///< the site's GRES type name ("a40"); in `arena plan` a hardware entry
    std::int64_t nodes = 1;
    std::int64_t gpus_per_node = 1;  ///< the most of them where they differ
    std::int64_t stages = 1;
    /// GPUs on each node, in the order of the nodes, where they differ; empty: gpus_per_node on
    /// each. In an offer it stands for every such split of the count.
    std::vector<std::int64_t> split = {};
    [[nodiscard]] bool is_uneven() const { return !split.empty(); }
    [[nodiscard]] std::int64_t gpus_on(std::size_t node) const {
        return split.empty() ? gpus_per_node : split[node];
    }
    [[nodiscard]] std::int64_t gpus() const {
        return split.empty() ? nodes * gpus_per_node
                             : std::accumulate(split.begin(), split.end(), std::int64_t{0});
    }
    auto operator<=>(const Grid&) const = default;
};
/// Whether the two are one choice: the same grid, or uneven splits of one count.
bool is_same_layout(const Grid&, const Grid&);
/// Puts so many GPUs, which differ, on its nodes; the same number on each is no split.
void set_split(Grid&, std::vector<std::int64_t> gpus);

/// A point in a grid. stage_* have one entry per pipeline stage; sum(stage_layers) = model layers,
/// cp * sum(stage_dp[i] * stage_tp[i]) = GPUs. Uniform plans have equal dp and tp on every stage.
struct Plan {
    std::vector<std::int64_t> stage_layers;
    std::vector<std::int64_t> stage_dp;
    std::vector<std::int64_t> stage_tp;
    std::int64_t micro_batch = 1;  ///< samples per micro-batch per replica (of the first stage)
    std::int64_t num_micro_batches = 1;  ///< per iteration and replica
    Recompute recompute = Recompute::none;
    std::int64_t zero_stage = 0;  ///< optimizer sharding, 0..3
    bool sequence_parallel = false;
    std::int64_t vpp = 1;  ///< chunks of layers per stage; > 1 = interleaved 1F1B
    std::int64_t cp = 1;   ///< context parallel: ranks that share the tokens of one sample
    std::int64_t ep =
        1;  ///< expert parallel: ranks, of a stage's dp * cp * tp, that share the experts
    /// Replicas that share ZeRO's state among them, a group of neighbours; groups exchange what
    /// they reduced (hybrid sharding). 0 = all replicas are one group.
    std::int64_t hsdp = 0;
    std::int64_t etp = 1;  ///< with ep > 1: ranks of the tensor-parallel group that split an expert
    Schedule schedule = Schedule::one_f_one_b;

    [[nodiscard]] std::int64_t pp() const { return static_cast<std::int64_t>(stage_layers.size()); }
    [[nodiscard]] std::int64_t dp() const { return stage_dp.empty() ? 1 : stage_dp.front(); }
    [[nodiscard]] std::int64_t tp() const { return stage_tp.empty() ? 1 : stage_tp.front(); }
    [[nodiscard]] std::int64_t gpus() const;
    auto operator<=>(const Plan&) const = default;
};

/// The one spelling of a plan, wherever it is shown and given: "pp2,dp2,tp1,mb4x16": micro-batch 4,
/// 16 of them; then what a default Plan has not: vpp2, cp2, ep2, etp2, zbh1, zbv or dualpipev,
/// selective or full, zero1 to zero3, hsdp8, sp. All but the layers, which follow from it.
/// parse_plan_pin() reads it back, but for stages that differ in dp or tp ("dp2+1").
std::string short_form(const Plan&);
/// "4xa40" for one node, "2x4xa40" for two nodes of four, "3+1xa40" for nodes that differ.
std::string short_form(const Grid&);

/// What a user fixed with --arena-plan or Comment=arena:plan=...: 0 or nothing = free.
/// Grammar: words joined by commas, each kind once: pp dp tp mb vpp cp ep hsdp etp with a number
/// of 1..limits::gpus, mb4x16, none selective full, 1f1b zbh1 zbv dualpipev, zero0..zero3, sp (sp1)
/// sp0; e.g. "pp2,dp2,tp1". The last two schedules have vpp2, which need not be said.
/// With pp, dp, tp and mb4x16 it is short_form(): what is not named is not free then, but as in a
/// default Plan.
struct PlanPin {
    std::int64_t pp = 0, dp = 0, tp = 0, micro_batch = 0, vpp = 0, cp = 0, ep = 0;
    std::int64_t num_micro_batches = 0;
    std::optional<Recompute> recompute = {};
    std::optional<std::int64_t> zero_stage = {};
    std::optional<bool> sequence_parallel = {};
    std::int64_t hsdp = 0;                  ///< 0: one group, the search tries no others
    std::int64_t etp = 0;                   ///< 0: 1, the search tries no others
    std::optional<Schedule> schedule = {};  ///< nothing: 1F1B, the search tries no others
    /// GPUs that a plan takes a multiple of: the product of the pinned pp, dp, tp and cp; at most
    /// 2^40.
    [[nodiscard]] std::int64_t gpus() const;
    /// Whether that product is the number of GPUs: pp, dp and tp are pinned (cp is 1 unless
    /// pinned).
    [[nodiscard]] bool fixes_gpus() const { return pp != 0 && dp != 0 && tp != 0; }
    auto operator<=>(const PlanPin&) const = default;
};
Result<PlanPin> parse_plan_pin(std::string_view text);
/// What parse_plan_pin() reads; of a whole plan short_form().
std::string to_string(const PlanPin&);
bool matches(const PlanPin&, const Plan&);

/// One line of JSON, and its reader: at most 64 MiB, depth 32; unknown keys are ignored, a missing
/// or mistyped key is an error that names it.
std::string to_json(const Grid&);
std::string to_json(const Plan&);
Result<Grid> parse_grid_json(std::string_view);
Result<Plan> parse_plan_json(std::string_view);

}  // namespace arena
