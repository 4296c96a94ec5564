// SPDX-License-Identifier: GPL-2.0-or-later
// What a launcher must be told of a plan: a plan has features, a launcher of a version has words
// for some of them (request/launcher_table.h), and it can be told the plan iff it has words for
// all. The search, the rules of pins, ARENA_ARGS and arena-args ask this one rule. It knows no
// launcher.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/model.h"
#include "core/plan.h"

namespace arena {

/// In the order in which a launcher is told them. That of torchtitan ends with a word for
/// recompute. request/launcher_features.cc names and describes each.
enum class Feature : std::uint8_t {
    always,
    flat,
    pipeline,
    short_pipeline,
    tp1,
    no_sp,
    sp,
    tp_over_kv,
    convolutions,
    one_replica,
    one_replica_amp,
    zero0,
    zero1,
    zero2,
    zero3,
    zero0_pipeline,
    zero1_pipeline,
    zero2_pipeline,
    zero3_pipeline,
    zero2_accumulated,
    zero3_accumulated,
    one_f_one_b,
    vpp1,
    vpp,
    zb_h1,
    zb_h1_vpp,
    zb_v,
    dual_pipe_v,
    recompute_none,
    recompute_selective,
    recompute_full,
    cp1,
    cp,
    ep1,
    ep,
    ep_tp,
    ep_cp,
    ep_over_replicas,
    ep_part_of_tp,
    ends,
    ends_pp2,
    any_layers,
    mixed,
    fp32,
    tf32,
    fp16,
    bf16,
    fp8,
    mxfp8,
    nvfp4,
    lora,
    lora_mlp,
    lora_targets,
    base_bits,
    hsdp,
    hsdp_zero3,
    etp,
    count,
};
inline constexpr std::size_t feature_count = static_cast<std::size_t>(Feature::count);
static_assert(feature_count <= 64);

class FeatureSet {
  public:
    constexpr FeatureSet() = default;
    constexpr FeatureSet(std::initializer_list<Feature> list) {
        for (const Feature feature : list) add(feature);
    }
    static constexpr FeatureSet all() {
        return FeatureSet((std::uint64_t{1} << feature_count) - 1);
    }

    constexpr void add(Feature feature) { bits_ |= bit(feature); }
    constexpr void remove(Feature feature) { bits_ &= ~bit(feature); }
    [[nodiscard]] constexpr bool has(Feature feature) const { return (bits_ & bit(feature)) != 0; }
    [[nodiscard]] constexpr bool has(FeatureSet all) const { return (all.bits_ & ~bits_) == 0; }
    [[nodiscard]] constexpr bool empty() const { return bits_ == 0; }
    [[nodiscard]] constexpr FeatureSet without(FeatureSet other) const {
        return FeatureSet(bits_ & ~other.bits_);
    }
    [[nodiscard]] constexpr FeatureSet with(FeatureSet other) const {
        return FeatureSet(bits_ | other.bits_);
    }
    constexpr bool operator==(const FeatureSet&) const = default;

  private:
    explicit constexpr FeatureSet(std::uint64_t bits) : bits_(bits) {}
    static constexpr std::uint64_t bit(Feature f) {
        return std::uint64_t{1} << static_cast<unsigned>(f);
    }
    std::uint64_t bits_ = 0;
};

std::string_view to_string(Feature);
std::optional<Feature> parse_feature(std::string_view name);
std::string feature_names();
/// What the search takes only where a plan pins it, unless the launcher's table says otherwise.
FeatureSet asked_features();

/// Which layers per stage can be said.
enum class LayerSplit {
    even,  ///< the same number on every stage
    ends,  ///< first and last stage differ from the rest, which are even
    any,
};
bool expresses(LayerSplit, std::span<const std::int64_t> stage_layers);

/// What features are made of: a plan, whose stages are alike but for their layers unless `mixed`,
/// and what of its model matters.
struct PlanFacts {
    std::int64_t pp = 1, dp = 1, tp = 1, cp = 1, ep = 1, vpp = 1, zero = 0;
    std::int64_t hsdp = 0;  ///< as Plan::hsdp
    std::int64_t etp = 1;
    Schedule schedule = Schedule::one_f_one_b;
    std::int64_t micro_batches = 1;
    Recompute recompute = Recompute::none;
    bool sequence_parallel = false, mixed = false;
    LayerSplit layers = LayerSplit::even;  ///< the narrowest that has them
    Precision precision = Precision::bf16;
    std::int64_t kv_heads = 0;  ///< 0: no matter (latent attention, no attention)
    bool convolutions = false;
    std::int64_t lora_rank = 0;     ///< of adapters; 0: all weights are trained
    std::int64_t lora_targets = 0;  ///< as those of Model
    bool lora_mlp = false;
    std::int64_t base_bits = 16;                 ///< of frozen weights
    std::span<const std::int64_t> stage_layers;  ///< of the plan, for messages; may be empty
};
/// Of the model alone: a plan on one GPU.
PlanFacts facts_of(const Model&);
PlanFacts facts_of(const Model&, const Plan&);
FeatureSet needs(const PlanFacts&);
/// What has adapters, as ARENA_LORA_TARGETS has it: "attention", "attention,mlp", or matrices
/// ("q_proj,v_proj"); and the same read into a model that has a rank.
std::string lora_parts(const PlanFacts&);
Status read_lora_parts(std::string_view text, Model&);
/// The same where words for any partition of the layers stand for words for its ends.
FeatureSet needs_of(FeatureSet told, FeatureSet needed);
/// "tensor parallelism of 4 over 2 key-value heads", for messages.
std::string describe(Feature, const PlanFacts&);

/// Whether a degree can be said: not at all, when the user pins it, or whenever it is faster.
enum class Degree { no, pinned, free };

/// The plans that a launcher can be told. Interleaved plans (vpp > 1) are even everywhere.
struct Capabilities {
    FeatureSet told = plain();            ///< has words for them
    FeatureSet asked = asked_features();  ///< the search takes them only where a plan pins them

    /// Of a script that reads ARENA_* variables: the table of the launcher env
    /// (request/launchers.cc).
    static FeatureSet plain();

    [[nodiscard]] bool tells(FeatureSet needed) const { return missing(needed).empty(); }
    /// What has no words, of a plan that needs these.
    [[nodiscard]] FeatureSet missing(FeatureSet needed) const;
    /// A feature that it lacks, for people.
    [[nodiscard]] std::string lacks(Feature, const PlanFacts&) const;
    [[nodiscard]] Degree degree(Feature) const;
    void set(Feature, Degree);
    /// Of whatever width, with or without sequence parallelism; of convolutions: Feature.
    [[nodiscard]] bool has_tensor() const;
    /// Replicas of the whole model are its only way to use more than one GPU.
    [[nodiscard]] bool is_data_parallel() const;
    /// What stages of this number can have.
    [[nodiscard]] LayerSplit split(std::int64_t stages) const;
    void set(LayerSplit);
    [[nodiscard]] bool has_zero(std::int64_t zero, std::int64_t stages) const;
    /// Whether the search may take this ZeRO stage by itself.
    [[nodiscard]] bool searches_zero(std::int64_t zero, std::int64_t stages) const;
    bool operator==(const Capabilities&) const = default;
};
/// Everything that the planner can price, for `arena plan --launcher any`.
Capabilities all_capabilities();

/// What of a plan cannot be said, for people; "" when all can.
std::string inexpressible(const Capabilities&, const PlanFacts&);
std::string inexpressible(const Capabilities&, const Model&, const Plan&);
bool expresses(const Capabilities&, const Model&, const Plan&);

}  // namespace arena
