// SPDX-License-Identifier: GPL-2.0-or-later
#include "request/launcher_features.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/text.h"
#include "core/model_fields.h"

namespace arena {
namespace {

struct FeatureFact {
    Feature feature;
    std::string_view name;
    std::string_view words;  ///< for people; braces as in describe()
};
constexpr std::array<FeatureFact, feature_count> facts_table = {{
    {Feature::always, "always", "any plan"},
    {Feature::flat, "flat", "one stage"},
    {Feature::pipeline, "pipeline", "pipeline stages"},
    {Feature::short_pipeline, "short-pipeline", "{mbs} micro-batches over {pp} stages"},
    {Feature::tp1, "tp1", "no tensor parallelism"},
    {Feature::no_sp, "no-sp", "tensor parallelism of {tp} without sequence parallelism"},
    {Feature::sp, "sp", "sequence parallelism"},
    {Feature::tp_over_kv, "tp-over-kv", "tensor parallelism of {tp} over {kv} key-value heads"},
    {Feature::convolutions, "convolutions", "convolutions split by tp{tp}"},
    {Feature::one_replica, "one-replica", "one replica"},
    {Feature::one_replica_amp, "one-replica-amp",
     "{precision} on one replica of more than one GPU"},
    {Feature::zero0, "zero0", "ZeRO 0"},
    {Feature::zero1, "zero1", "ZeRO 1"},
    {Feature::zero2, "zero2", "ZeRO 2"},
    {Feature::zero3, "zero3", "ZeRO 3"},
    {Feature::zero0_pipeline, "zero0-pipeline", "ZeRO 0 with pipeline stages"},
    {Feature::zero1_pipeline, "zero1-pipeline", "ZeRO 1 with pipeline stages"},
    {Feature::zero2_pipeline, "zero2-pipeline", "ZeRO 2 with pipeline stages"},
    {Feature::zero3_pipeline, "zero3-pipeline", "ZeRO 3 with pipeline stages"},
    {Feature::zero2_accumulated, "zero2-accumulated", "ZeRO 2 of more than one micro-batch"},
    {Feature::zero3_accumulated, "zero3-accumulated", "ZeRO 3 of more than one micro-batch"},
    {Feature::one_f_one_b, "1f1b", "1F1B"},
    {Feature::vpp1, "vpp1", "no interleaved stages"},
    {Feature::vpp, "vpp", "interleaved stages (vpp{vpp})"},
    {Feature::zb_h1, "zbh1", "the schedule zbh1"},
    {Feature::zb_h1_vpp, "zbh1-vpp", "the schedule zbh1 of interleaved stages (vpp{vpp})"},
    {Feature::zb_v, "zbv", "the schedule zbv"},
    {Feature::dual_pipe_v, "dualpipev", "the schedule dualpipev"},
    {Feature::recompute_none, "recompute-none", "no recompute"},
    {Feature::recompute_selective, "recompute-selective", "selective recompute"},
    {Feature::recompute_full, "recompute-full", "full recompute"},
    {Feature::cp1, "cp1", "no context parallelism"},
    {Feature::cp, "cp", "context parallelism of {cp}"},
    {Feature::ep1, "ep1", "no expert parallelism"},
    {Feature::ep, "ep", "expert parallelism of {ep}"},
    {Feature::ep_tp, "ep-tp", "whole experts (ep{ep}) beside tensor parallelism of {tp}"},
    {Feature::ep_cp, "ep-cp", "expert parallelism of {ep} beside context parallelism of {cp}"},
    {Feature::ep_over_replicas, "ep-over-replicas", "ep{ep}, which does not divide dp{dp}"},
    {Feature::ep_part_of_tp, "ep-part-of-tp", "ep{ep}, which is no multiple of tp{tp} x cp{cp}"},
    {Feature::ends, "ends", "stages of {layers} layers"},
    {Feature::ends_pp2, "ends-pp2", "stages of {layers} layers"},
    {Feature::any_layers, "any", "stages of {layers} layers"},
    {Feature::mixed, "mixed", "stages that differ in dp or tp"},
    {Feature::fp32, "fp32", "{precision}"},
    {Feature::tf32, "tf32", "{precision}"},
    {Feature::fp16, "fp16", "{precision}"},
    {Feature::bf16, "bf16", "{precision}"},
    {Feature::fp8, "fp8", "{precision}"},
    {Feature::mxfp8, "mxfp8", "{precision}"},
    {Feature::nvfp4, "nvfp4", "{precision}"},
    {Feature::lora, "lora", "adapters (LoRA of rank {rank})"},
    {Feature::lora_mlp, "lora-mlp", "adapters (LoRA of rank {rank}), those of MLPs among them"},
    {Feature::lora_targets, "lora-targets", "adapters (LoRA of rank {rank}) on {targets}"},
    {Feature::base_bits, "base-bits", "frozen weights of {bits} bits"},
    {Feature::hsdp, "hsdp", "states shared by groups of {hsdp} replicas"},
    {Feature::hsdp_zero3, "hsdp-zero3", "ZeRO 3 within groups of {hsdp} replicas"},
    {Feature::etp, "etp", "experts split by {etp} ranks (etp{etp})"},
}};
constexpr bool is_in_order() {
    for (std::size_t i = 0; i < feature_count; ++i)
        if (facts_table[i].feature != static_cast<Feature>(i)) return false;
    return true;
}
static_assert(is_in_order());

constexpr FeatureSet silent{Feature::always, Feature::tp1, Feature::vpp1,
                            Feature::cp1,    Feature::ep1, Feature::one_f_one_b};
constexpr FeatureSet usually_asked{Feature::vpp,
                                   Feature::cp,
                                   Feature::ep,
                                   Feature::convolutions,
                                   Feature::zero2,
                                   Feature::zero3,
                                   Feature::zero2_pipeline,
                                   Feature::zero3_pipeline};

const FeatureFact& fact(Feature feature) { return facts_table[static_cast<std::size_t>(feature)]; }

Feature zero_feature(std::int64_t zero, bool pipeline) {
    const auto first =
        static_cast<std::int64_t>(pipeline ? Feature::zero0_pipeline : Feature::zero0);
    return static_cast<Feature>(first + zero);
}

Feature precision_feature(Precision precision) {
    return static_cast<Feature>(static_cast<int>(Feature::fp32) + static_cast<int>(precision));
}
static_assert(static_cast<int>(Precision::fp32) == 0 && static_cast<int>(Precision::nvfp4) == 6);

Feature recompute_feature(Recompute recompute) {
    return static_cast<Feature>(static_cast<int>(Feature::recompute_none) +
                                static_cast<int>(recompute));
}
static_assert(static_cast<int>(Recompute::none) == 0 && static_cast<int>(Recompute::full) == 2);

void add_if(FeatureSet& set, bool condition, Feature feature) {
    if (condition) set.add(feature);
}

void add_tensor(FeatureSet& set, const PlanFacts& f) {
    if (f.tp == 1 || f.convolutions)
        set.add(Feature::tp1);
    else
        set.add(f.sequence_parallel ? Feature::sp : Feature::no_sp);
    add_if(set, f.tp > 1 && f.kv_heads > 0 && f.kv_heads % f.tp != 0, Feature::tp_over_kv);
    add_if(set, f.tp > 1 && f.convolutions, Feature::convolutions);
}

void add_replicas(FeatureSet& set, const PlanFacts& f) {
    const bool is_one = f.dp * f.cp == 1;
    const bool is_half = f.precision != Precision::fp32 && f.precision != Precision::tf32;
    set.add(is_one && f.zero == 0 ? Feature::one_replica : zero_feature(f.zero, f.pp > 1));
    add_if(set, is_one && is_half && f.pp * f.tp > 1, Feature::one_replica_amp);
    const bool accumulates = f.pp == 1 && f.micro_batches > 1;
    add_if(set, f.zero == 2 && accumulates, Feature::zero2_accumulated);
    add_if(set, f.zero == 3 && accumulates, Feature::zero3_accumulated);
}

void add_experts(FeatureSet& set, const PlanFacts& f) {
    set.add(f.ep > 1 ? Feature::ep : Feature::ep1);
    if (f.ep == 1) return;
    add_if(set, f.tp > 1, Feature::ep_tp);
    add_if(set, f.etp > 1, Feature::etp);
    add_if(set, f.cp > 1, Feature::ep_cp);
    add_if(set, f.dp % f.ep != 0, Feature::ep_over_replicas);
    add_if(set, f.ep % (f.tp * f.cp) != 0, Feature::ep_part_of_tp);
}

void add_adapters(FeatureSet& set, const PlanFacts& f) {
    if (f.lora_rank == 0) return;
    set.add(f.lora_targets != 0 ? Feature::lora_targets
            : f.lora_mlp        ? Feature::lora_mlp
                                : Feature::lora);
    add_if(set, f.base_bits < 16, Feature::base_bits);
}

/// 1F1B of interleaved stages is what `vpp` says.
void add_schedule(FeatureSet& set, const PlanFacts& f) {
    const bool is_plain = f.schedule == Schedule::one_f_one_b;
    set.add(is_plain && f.vpp > 1 ? Feature::vpp : Feature::vpp1);
    add_if(set, is_plain && f.pp > 1 && f.vpp == 1, Feature::one_f_one_b);
    if (f.schedule == Schedule::zb_h1) set.add(f.vpp > 1 ? Feature::zb_h1_vpp : Feature::zb_h1);
    add_if(set, f.schedule == Schedule::zb_v, Feature::zb_v);
    add_if(set, f.schedule == Schedule::dual_pipe_v, Feature::dual_pipe_v);
}

void add_layers(FeatureSet& set, const PlanFacts& f) {
    if (f.layers == LayerSplit::any) set.add(Feature::any_layers);
    if (f.layers == LayerSplit::ends) set.add(f.pp == 2 ? Feature::ends_pp2 : Feature::ends);
}

bool all_equal(std::span<const std::int64_t> values) {
    return std::all_of(values.begin(), values.end(),
                       [&](std::int64_t v) { return v == values.front(); });
}

LayerSplit split_of(std::span<const std::int64_t> stage_layers) {
    for (const LayerSplit split : {LayerSplit::even, LayerSplit::ends})
        if (expresses(split, stage_layers)) return split;
    return LayerSplit::any;
}

}  // namespace

std::string_view to_string(Feature feature) { return fact(feature).name; }

std::optional<Feature> parse_feature(std::string_view name) {
    for (const FeatureFact& entry : facts_table)
        if (entry.name == name) return entry.feature;
    return std::nullopt;
}

std::string feature_names() {
    std::vector<std::string> names;
    for (const FeatureFact& entry : facts_table) names.emplace_back(entry.name);
    return join(names, " ");
}

FeatureSet asked_features() { return usually_asked; }

bool expresses(LayerSplit split, std::span<const std::int64_t> layers) {
    if (split == LayerSplit::any || layers.size() <= 1) return true;
    if (split == LayerSplit::even) return all_equal(layers);
    return all_equal(layers.size() > 2 ? layers.subspan(1, layers.size() - 2) : layers.first(1));
}

PlanFacts facts_of(const Model& model) {
    PlanFacts facts;
    facts.precision = model.precision;
    facts.kv_heads = model.kv_lora_rank > 0 ? 0 : model.kv_heads;
    facts.convolutions = model.family == Family::wide_resnet;
    facts.lora_rank = model.lora_rank;
    facts.lora_targets = model.lora_targets;
    facts.lora_mlp = model.lora_mlp > 0;
    if (model.base_bits > 0) facts.base_bits = model.base_bits;
    return facts;
}

PlanFacts facts_of(const Model& model, const Plan& plan) {
    PlanFacts facts = facts_of(model);
    facts.pp = plan.pp(), facts.dp = plan.dp(), facts.tp = plan.tp();
    facts.cp = plan.cp, facts.ep = plan.ep, facts.vpp = plan.vpp, facts.zero = plan.zero_stage;
    facts.hsdp = plan.hsdp, facts.etp = plan.etp, facts.schedule = plan.schedule;
    facts.micro_batches = plan.num_micro_batches;
    facts.recompute = plan.recompute;
    facts.sequence_parallel = plan.sequence_parallel;
    facts.mixed = !(all_equal(plan.stage_dp) && all_equal(plan.stage_tp));
    facts.layers = split_of(plan.stage_layers);
    facts.stage_layers = plan.stage_layers;
    for (const std::int64_t tp : plan.stage_tp) facts.tp = std::max(facts.tp, tp);
    for (const std::int64_t dp : plan.stage_dp) facts.dp = std::max(facts.dp, dp);
    return facts;
}

std::string lora_parts(const PlanFacts& f) {
    if (f.lora_targets != 0) return lora_target_names(f.lora_targets);
    return f.lora_mlp ? "attention,mlp" : "attention";
}

Status read_lora_parts(std::string_view text, Model& model) {
    model.lora_mlp = text == "attention,mlp" ? 1 : 0;
    if (model.lora_mlp != 0 || text == "attention") return Done{};
    const Result<std::int64_t> targets = read_lora_targets(split(text, ','));
    if (!targets) return targets.error();
    model.lora_targets = *targets;
    return Done{};
}

FeatureSet needs(const PlanFacts& f) {
    FeatureSet set{Feature::always, f.pp > 1 ? Feature::pipeline : Feature::flat,
                   recompute_feature(f.recompute), f.cp > 1 ? Feature::cp : Feature::cp1,
                   precision_feature(f.precision)};
    add_tensor(set, f);
    add_replicas(set, f);
    add_experts(set, f);
    add_layers(set, f);
    add_schedule(set, f);
    add_adapters(set, f);
    add_if(set, f.pp > f.micro_batches, Feature::short_pipeline);
    add_if(set, f.mixed, Feature::mixed);
    if (f.hsdp != 0 && f.hsdp != f.dp) set.add(f.zero == 3 ? Feature::hsdp_zero3 : Feature::hsdp);
    return set;
}

FeatureSet needs_of(FeatureSet told, FeatureSet needed) {
    for (const Feature ends : {Feature::ends, Feature::ends_pp2}) {
        if (!needed.has(ends) || told.has(ends) || !told.has(Feature::any_layers)) continue;
        needed.remove(ends);
        needed.add(Feature::any_layers);
    }
    return needed;
}

std::string describe(Feature feature, const PlanFacts& f) {
    return fmt::format(
        fmt::runtime(fact(feature).words), fmt::arg("tp", f.tp), fmt::arg("dp", f.dp),
        fmt::arg("cp", f.cp), fmt::arg("ep", f.ep), fmt::arg("vpp", f.vpp), fmt::arg("pp", f.pp),
        fmt::arg("mbs", f.micro_batches), fmt::arg("kv", f.kv_heads),
        fmt::arg("layers", fmt::join(f.stage_layers, ",")), fmt::arg("rank", f.lora_rank),
        fmt::arg("bits", f.base_bits), fmt::arg("hsdp", f.hsdp), fmt::arg("etp", f.etp),
        fmt::arg("targets", lora_target_names(f.lora_targets, ", ")),
        fmt::arg("precision", to_string(f.precision)));
}

// ---- capabilities -----------------------------------------------------------------------------

Degree Capabilities::degree(Feature feature) const {
    if (!told.has(feature)) return Degree::no;
    return asked.has(feature) ? Degree::pinned : Degree::free;
}

void Capabilities::set(Feature feature, Degree degree) {
    degree == Degree::no ? told.remove(feature) : told.add(feature);
    degree == Degree::free ? asked.remove(feature) : asked.add(feature);
}

bool Capabilities::has_tensor() const { return told.has(Feature::sp) || told.has(Feature::no_sp); }

bool Capabilities::is_data_parallel() const {
    return !has_tensor() && !told.has(Feature::pipeline) && !told.has(Feature::cp) &&
           !told.has(Feature::convolutions);
}

LayerSplit Capabilities::split(std::int64_t stages) const {
    if (told.has(Feature::any_layers)) return LayerSplit::any;
    return told.has(stages == 2 ? Feature::ends_pp2 : Feature::ends) ? LayerSplit::ends
                                                                     : LayerSplit::even;
}

void Capabilities::set(LayerSplit split) {
    for (const Feature feature : {Feature::any_layers, Feature::ends, Feature::ends_pp2})
        told.remove(feature);
    if (split == LayerSplit::even) return;
    told.add(Feature::ends);
    told.add(Feature::ends_pp2);
    if (split == LayerSplit::any) told.add(Feature::any_layers);
}

bool Capabilities::has_zero(std::int64_t zero, std::int64_t stages) const {
    return told.has(zero_feature(zero, stages > 1));
}

bool Capabilities::searches_zero(std::int64_t zero, std::int64_t stages) const {
    const Feature feature = zero_feature(zero, stages > 1);
    return degree(feature) == Degree::free;
}

Capabilities all_capabilities() {
    Capabilities can;
    can.told = FeatureSet::all().without({Feature::zero2_pipeline, Feature::zero3_pipeline});
    can.asked = {};
    return can;
}

FeatureSet Capabilities::missing(FeatureSet needed) const {
    return needs_of(told, needed).without(told).without(silent);
}

std::string Capabilities::lacks(Feature feature, const PlanFacts& facts) const {
    const bool is_tensor = feature == Feature::sp || feature == Feature::no_sp;
    if (is_tensor && !has_tensor()) return fmt::format("tensor parallelism of {}", facts.tp);
    return describe(feature, facts);
}

std::string inexpressible(const Capabilities& can, const PlanFacts& facts) {
    if (facts.vpp > 1 && facts.layers != LayerSplit::even)
        return "interleaved stages of unequal layers";
    const FeatureSet missing = can.missing(needs(facts));
    for (const FeatureFact& entry : facts_table)
        if (missing.has(entry.feature)) return can.lacks(entry.feature, facts);
    return {};
}

std::string inexpressible(const Capabilities& can, const Model& model, const Plan& plan) {
    return inexpressible(can, facts_of(model, plan));
}

bool expresses(const Capabilities& can, const Model& model, const Plan& plan) {
    return inexpressible(can, model, plan).empty();
}

}  // namespace arena
