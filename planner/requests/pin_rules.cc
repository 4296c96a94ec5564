// SPDX-License-Identifier: GPL-2.0-or-later
// See pin_rules.h. Each rule mirrors one of grids.cc, by which a search finds no plan.
#include "planner/requests/pin_rules.h"

#include <fmt/format.h>

#include <numeric>

#include "base/text.h"
#include "core/limits.h"
#include "planner/models/model.h"
#include "planner/operators/operators.h"
#include "planner/search/grids.h"
#include "request/launchers.h"

namespace arena {

namespace {

std::int64_t or_one(std::int64_t pinned) { return pinned == 0 ? 1 : pinned; }

std::string stages_obstacle(const PlanPin& pin, const Request& request, const Capabilities& can) {
    const Model& model = request.model;
    if (pin.pp > model.layers)
        return fmt::format("pp{} needs at least {} layers; {} has {}", pin.pp, pin.pp, model.name,
                           model.layers);
    if (can.split(or_one(pin.pp)) == LayerSplit::even && model.layers % or_one(pin.pp) != 0)
        return fmt::format(
            "the launcher {} wants the same number of layers on every stage, and pp{} does not "
            "divide "
            "the {} of {}",
            launcher_of(request), pin.pp, model.layers, model.name);
    return {};
}

std::string batch_obstacle(const PlanPin& pin, std::int64_t batch) {
    if (batch % or_one(pin.dp) != 0)
        return fmt::format("dp{} does not divide the batch {}", pin.dp, batch);
    const std::int64_t micro_batches = or_one(pin.num_micro_batches),
                       each = pin.micro_batch * micro_batches;
    if (pin.num_micro_batches != 0 && (pin.dp == 0 || pin.dp * each != batch))
        return fmt::format(
            "mb{}x{}{} makes {} samples, not the batch {}: give mb{} alone, or another batch",
            pin.micro_batch, micro_batches, pin.dp == 0 ? "" : fmt::format(" of dp{}", pin.dp),
            each * or_one(pin.dp), batch, pin.micro_batch);
    if (batch % (or_one(pin.dp) * or_one(pin.micro_batch)) != 0)
        return fmt::format("mb{} does not divide the {} samples of each replica", pin.micro_batch,
                           batch / or_one(pin.dp));
    return {};
}

std::string context_obstacle(std::int64_t cp, const Model& model) {
    if (cp_fits(model, or_one(cp))) return {};
    if (!is_transformer(model.family))
        return fmt::format("cp{} shares out the tokens of a sample, and {} has none: give cp1", cp,
                           model.name);
    return fmt::format("cp{} does not split the {} tokens of {} into {} equal pieces", cp,
                       model.seq_length, model.name, 2 * cp);
}

std::string expert_obstacle(const PlanPin& pin, const Model& model) {
    if (pin.ep <= 1) return {};
    if (model.experts == 0)
        return fmt::format("ep{} shares out experts, and {} has none: give ep1", pin.ep,
                           model.name);
    if (!ep_fits(model, pin.ep))
        return fmt::format("ep{} does not divide the {} experts of {}", pin.ep, model.experts,
                           model.name);
    const std::int64_t ranks = pin.dp * pin.tp * or_one(pin.cp);
    if (ranks != 0 && ranks % (pin.ep * or_one(pin.etp)) != 0)
        return fmt::format("ep{}{} does not divide the {} ranks of a stage, which are dp*tp*cp",
                           pin.ep, pin.etp > 1 ? fmt::format(" x etp{}", pin.etp) : "", ranks);
    return {};
}

/// What splits an expert is a part of the tensor-parallel group.
std::string expert_split_obstacle(const PlanPin& pin, const Model& model) {
    if (pin.etp <= 1) return {};
    if (pin.ep <= 1)
        return fmt::format("etp{} splits experts that are shared out: give an ep of 2 or more",
                           pin.etp);
    if (pin.tp % pin.etp != 0)
        return fmt::format("etp{} does not divide tp{}: give a tp that is a multiple of it",
                           pin.etp, pin.tp);
    if (model.moe_ffn_hidden % pin.etp != 0)
        return fmt::format("etp{} does not divide the experts' width of {}", pin.etp,
                           model.moe_ffn_hidden);
    if (model.linear_bias)
        return fmt::format(
            "etp{} splits experts without biases, and those of {} have some: leave "
            "etp out",
            pin.etp, model.name);
    return {};
}

/// Schedules that split backwards want stages, in a V of two chunks, and no recompute.
std::string schedule_obstacle(const PlanPin& pin) {
    if (!pin.schedule || *pin.schedule == Schedule::one_f_one_b) return {};
    const std::string_view name = to_string(*pin.schedule);
    if (pin.pp == 1)
        return fmt::format("{} is an order of pipeline stages, and pp1 is one: give pp2 or more",
                           name);
    if (is_v_shaped(*pin.schedule) && pin.vpp != 2)
        return fmt::format("{} has two chunks of layers for each stage: give vpp2", name);
    if (recomputes_for_weights(*pin.schedule) &&
        pin.recompute.value_or(Recompute::none) != Recompute::none)
        return fmt::format(
            "{} computes gradients of weights apart, for which PyTorch would recompute a layer "
            "once for each of its weights: give none, 1f1b or dualpipev",
            name);
    return {};
}

/// Interleaving takes 2 or more stages of vpp equal chunks each, and micro-batches that are a
/// multiple of the stages: any number that divides both, or the pinned one.
std::string interleaving_obstacle(const PlanPin& pin, const Request& request) {
    if (pin.vpp <= 1) return {};
    const std::int64_t chunks =
        request.model.layers % pin.vpp == 0 ? request.model.layers / pin.vpp : 1;
    const std::int64_t most_micro_batches =
        request.global_batch / (or_one(pin.dp) * or_one(pin.micro_batch));
    const std::int64_t stages = std::gcd(chunks, most_micro_batches);
    if (stages > 1 && pin.pp != 1 && stages % or_one(pin.pp) == 0) return {};
    return fmt::format(
        "vpp{} wants 2 or more stages that each take {} equal chunks of the {} layers of {}, and "
        "micro-batches that are a multiple of the stages",
        pin.vpp, pin.vpp, request.model.layers, request.model.name);
}

bool knows_micro_batches(const PlanPin& pin) { return pin.dp != 0 && pin.micro_batch != 0; }

/// What every plan with the pin needs, however the rest is chosen.
PlanFacts pinned_facts(const PlanPin& pin, const Request& request, const Capabilities& can) {
    const Model& model = request.model;
    const bool has_replicas = request.global_batch / or_one(pin.micro_batch) > 1;
    PlanFacts facts = facts_of(model);
    facts.pp = or_one(pin.pp), facts.tp = or_one(pin.tp), facts.vpp = or_one(pin.vpp);
    facts.cp = or_one(pin.cp), facts.ep = or_one(pin.ep);
    facts.dp = pin.dp != 0    ? pin.dp
               : has_replicas ? 2 * std::max(facts.ep, or_one(pin.hsdp))
                              : 1;  // as good as any
    facts.zero = pin.zero_stage.value_or(0), facts.hsdp = pin.hsdp;
    facts.etp = or_one(pin.etp), facts.schedule = pin.schedule.value_or(facts.schedule);
    facts.recompute = pin.recompute.value_or(Recompute::none);
    facts.sequence_parallel = pin.sequence_parallel.value_or(
        can.told.has(Feature::sp) && default_sequence_parallel(model, facts.tp));
    if (knows_micro_batches(pin))
        facts.micro_batches = request.global_batch / (pin.dp * pin.micro_batch);
    return facts;
}

/// The launcher's versions that can be told what this one cannot, as " (megatron 0.16 can)".
std::string later_version(const Request& request, Feature feature) {
    const Launcher* launcher = find_launcher(request.launcher);
    const std::vector<Version> changes = launcher ? launcher->changes() : std::vector<Version>{};
    for (auto version = changes.rbegin(); version != changes.rend(); ++version)
        if (launcher->can(*version).told.has(feature))
            return fmt::format(", {}@{}", request.launcher, to_string(*version));
    return {};
}

struct PinnedFeature {
    Feature feature;
    const char* accepted;
    bool is_pinned;  ///< the pin asks for it
};

std::string launcher_obstacle(const PlanPin& pin, const Request& request, const Capabilities& can) {
    const PlanFacts facts = pinned_facts(pin, request, can);
    const bool has_zero2 = pin.zero_stage == 2 && pin.pp == 1 && knows_micro_batches(pin);
    const bool has_no_sp = !pin.sequence_parallel.value_or(true);
    const PinnedFeature pinned[] = {
        {Feature::pipeline, "pp1", pin.pp > 1},
        {Feature::short_pipeline, "fewer stages, a smaller dp or mb",
         pin.pp > 1 && knows_micro_batches(pin)},
        {Feature::vpp, "vpp1", pin.vpp > 1},
        {Feature::cp, "cp1", pin.cp > 1},
        {Feature::ep, "ep1", pin.ep > 1},
        {Feature::ep_tp, "ep1, tp1", pin.ep > 1},
        {Feature::ep_cp, "ep1, cp1", pin.ep > 1},
        {Feature::ep_over_replicas, "ep1, an ep that divides dp", pin.ep > 1},
        {Feature::ep_part_of_tp, "ep1, a multiple of tp x cp", pin.ep > 1},
        {Feature::etp, "etp1", pin.etp > 1},
        {Feature::zb_h1, "1f1b, zbh1 with vpp2 or more", pin.schedule.has_value()},
        {Feature::zb_h1_vpp, "1f1b, zbh1 with vpp1", pin.schedule.has_value()},
        {Feature::zb_v, "1f1b", pin.schedule.has_value()},
        {Feature::dual_pipe_v, "1f1b", pin.schedule.has_value()},
        {Feature::hsdp_zero3, "no hsdp, with which all replicas share states", pin.hsdp != 0},
        {Feature::hsdp, "no hsdp, with which all replicas share states", pin.hsdp != 0},
        {Feature::convolutions, "tp1", pin.tp > 1},
        {Feature::no_sp, has_no_sp ? "tp1, sp" : "tp1", pin.tp > 1},
        {Feature::tp_over_kv, "a smaller tp", pin.tp > 1},
        {Feature::zero2_accumulated, "zero0, zero1, as large an mb as each replica has samples",
         has_zero2},
        {Feature::recompute_none, "selective, full", pin.recompute.has_value()},
        {Feature::recompute_selective, "none, full", pin.recompute.has_value()},
        {Feature::recompute_full, "none", pin.recompute.has_value()},
        {Feature::one_replica_amp, "dp2 or more", true}};
    const FeatureSet missing = can.missing(needs(facts));
    for (const auto& [feature, accepted, is_pinned] : pinned)
        if (missing.has(feature) && is_pinned)
            return fmt::format(
                "the launcher {} cannot be told {}; accepted: {}{}, or another launcher",
                launcher_of(request), can.lacks(feature, facts), accepted,
                later_version(request, feature));
    return {};
}

/// Replicas share ZeRO's state; without them there is none, whatever is asked.
std::string zero_obstacle(const PlanPin& pin, const Request& request, const Capabilities& can) {
    if (!pin.zero_stage) return {};
    const std::int64_t zero = *pin.zero_stage;
    const bool shares_tokens =
        pin.cp > 1 || (pin.cp == 0 && can.degree(Feature::cp) == Degree::free);
    const bool has_one_replica = pin.dp == 1 && !shares_tokens;
    if (zero > 0 && has_one_replica)
        return fmt::format("zero{} shares out state over replicas, and dp1{} is one: give zero0",
                           zero, pin.cp == 1 ? ",cp1" : "");
    if (zero == 0 && (has_one_replica || pin.dp == 0)) return {};
    std::vector<std::string> accepted;
    for (std::int64_t other = 0; other <= 3; ++other) {
        const bool is_told = pin.pp == 0 ? can.has_zero(other, 1) || can.has_zero(other, 2)
                                         : can.has_zero(other, pin.pp);
        if (is_told && other == zero) return {};
        if (is_told) accepted.push_back(fmt::format("zero{}", other));
    }
    return fmt::format(
        "the launcher {} cannot be told ZeRO {}{}; accepted: {}, or another launcher",
        launcher_of(request), zero, pin.pp > 1 ? " with pipeline stages" : "",
        accepted.empty() ? "dp1" : join(accepted, ", "));
}

/// Groups of replicas divide them, and share what ZeRO shards.
std::string group_obstacle(const PlanPin& pin) {
    if (pin.hsdp == 0) return {};
    if (pin.hsdp == 1)
        return "hsdp1 is a group of one replica, which shares with none: give hsdp2 or more";
    if (pin.zero_stage.value_or(1) == 0)
        return fmt::format("hsdp{} shares ZeRO's states, and zero0 has none: give zero1 to zero3",
                           pin.hsdp);
    if (pin.ep > 1)
        return fmt::format("hsdp{} beside ep{} is not priced: give ep1", pin.hsdp, pin.ep);
    if (pin.dp % pin.hsdp != 0)
        return fmt::format("hsdp{} does not divide the {} replicas", pin.hsdp, pin.dp);
    return {};
}

std::string sequence_obstacle(const PlanPin& pin, const Request& request, const Capabilities& can) {
    const Model& model = request.model;
    if (!pin.sequence_parallel.value_or(false)) return {};
    if (!is_transformer(model.family))
        return fmt::format("sp shares out the tokens of a sample, and {} has none: give sp0",
                           model.name);
    if (pin.tp == 1)
        return "sp shares out tokens over tp ranks, and tp1 has one: give sp0, or tp2 or more";
    if (pin.tp > 1 && !default_sequence_parallel(model, pin.tp))
        return fmt::format(
            "sp shares out the {} tokens of {}, which tp{} does not divide: give sp0",
            model.seq_length, model.name, pin.tp);
    if (!can.told.has(Feature::sp))
        return fmt::format(
            "the launcher {} cannot be told sequence parallelism; accepted: sp0, or another "
            "launcher",
            launcher_of(request));
    return {};
}

/// Launchers that can be told the feature, in the version that their name means.
std::string launchers_with(Feature feature) {
    std::vector<std::string> names;
    for (const Launcher& launcher : launchers())
        if (launcher.can().told.has(feature)) names.push_back(launcher.name);
    return join(names, ", ");
}

std::string adapter_obstacle(const Request& request, const Capabilities& can, FeatureSet missing) {
    for (const Feature feature :
         {Feature::lora, Feature::lora_mlp, Feature::lora_targets, Feature::base_bits})
        if (missing.has(feature))
            return fmt::format("the launcher {} cannot be told {}; accepted: {}",
                               launcher_of(request), can.lacks(feature, facts_of(request.model)),
                               launchers_with(feature));
    return {};
}

}  // namespace

std::string launcher_model_obstacle(const Request& request) {
    const Capabilities can = capabilities_of(launcher_of(request));
    const PlanFacts facts = facts_of(request.model);
    const FeatureSet missing = can.missing(needs(facts));
    std::vector<std::string> accepted;
    for (int p = 0; p <= static_cast<int>(Precision::nvfp4); ++p) {
        PlanFacts other = facts;
        other.precision = static_cast<Precision>(p);
        if (can.tells(needs(other))) accepted.emplace_back(to_string(other.precision));
    }
    if (std::string untold = adapter_obstacle(request, can, missing); !untold.empty())
        return untold;
    if (missing.empty() || accepted.empty()) return {};
    return fmt::format("the launcher {} cannot be told {}; accepted: {}", launcher_of(request),
                       to_string(request.model.precision), join(accepted, ", "));
}

namespace {

/// What leaves replicas of the whole model alone, for people; "" where there is more.
std::string why_replicas(const Request& request, const Capabilities& can) {
    if (can.is_data_parallel()) return "the launcher " + launcher_of(request);
    const PlanPin& pin = request.pin;
    const bool has_cp = pin.cp > 1 || (pin.cp == 0 && can.degree(Feature::cp) == Degree::free);
    return pin.pp == 1 && pin.tp == 1 && !has_cp ? "the plan " + to_string(pin) : "";
}

}  // namespace

std::string count_obstacle(const Request& request) {
    const std::string why = why_replicas(request, capabilities_of(launcher_of(request)));
    if (why.empty()) return {};
    const std::int64_t micro_batch = or_one(request.pin.micro_batch);
    const std::int64_t samples = request.global_batch / micro_batch;
    const std::int64_t most = request.max_gpus == 0 ? samples : std::min(request.max_gpus, samples);
    for (std::int64_t gpus = request.min_gpus; gpus <= most; ++gpus)
        if (samples % gpus == 0) return {};
    const std::string counts =
        request.max_gpus == request.min_gpus
            ? fmt::format("{} GPUs do not share", request.min_gpus)
            : fmt::format("no number of GPUs from {} {} shares", request.min_gpus,
                          request.max_gpus == 0 ? "on" : fmt::format("to {}", request.max_gpus));
    return fmt::format(
        "{} out the batch {}{} evenly, and under {} each has a whole replica; accepted: a number "
        "that divides it, another batch, or another launcher",
        counts, request.global_batch,
        micro_batch > 1 ? fmt::format(" in micro-batches of {}", micro_batch) : "", why);
}

std::string pin_obstacle(const Request& request) {
    const PlanPin& pin = request.pin;
    const Capabilities can = capabilities_of(launcher_of(request));
    for (std::string obstacle :
         {tp_obstacle(request.model, or_one(pin.tp)), sequence_obstacle(pin, request, can),
          launcher_obstacle(pin, request, can), zero_obstacle(pin, request, can),
          group_obstacle(pin), stages_obstacle(pin, request, can),
          batch_obstacle(pin, request.global_batch), context_obstacle(pin.cp, request.model),
          expert_obstacle(pin, request.model), expert_split_obstacle(pin, request.model),
          schedule_obstacle(pin), interleaving_obstacle(pin, request)})
        if (!obstacle.empty()) return obstacle;
    return {};
}

}  // namespace arena
