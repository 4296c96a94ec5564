// SPDX-License-Identifier: GPL-2.0-or-later
// JSON of the descriptive values: Model, GpuType, Grid, Plan, Estimate, Offer. Writers and readers
// stand side by side. Ranges here are only sanity limits; check_model() and the planner know the
// meaning.
#include "core/values_json.h"

#include <fmt/format.h>

#include "core/limits.h"
#include "core/model_fields.h"

namespace arena {
namespace {

constexpr std::size_t max_custom_layers = 4096;
constexpr std::size_t max_stages = 4096, max_split = 4096;

Json json_of(const CustomLayer& layer) {
    Json json = {{"name", layer.name},
                 {"count", layer.count},
                 {"forward_flops", layer.forward_flops},
                 {"parameter_bytes", layer.parameter_bytes},
                 {"activation_bytes", layer.activation_bytes},
                 {"output_bytes", layer.output_bytes}};
    for (const LayerOperator& op : layer.operators) json["operators"].push_back(to_string(op));
    return json;
}

void read(const Json& json, const std::string& where, std::optional<Error>& error,
          CustomLayer& out) {
    const JsonFields fields(json, where, error);
    fields.text("name", out.name);
    fields.integer("count", out.count, 1, limits::gpus);
    fields.number("forward_flops", out.forward_flops, 0, limits::number);
    fields.number("parameter_bytes", out.parameter_bytes, 0, limits::number);
    fields.number("activation_bytes", out.activation_bytes, 0, limits::number);
    fields.number("output_bytes", out.output_bytes, 0, limits::number);
    if (!fields.has("operators")) return;
    std::vector<std::string> texts;
    fields.texts("operators", texts, max_layer_operators);
    for (const std::string& text : texts) {
        const Result<LayerOperator> op = parse_layer_operator(text);
        if (!op) return fields.refuse("operators", "a list of operators of a layer");
        out.operators.push_back(*op);
    }
}

Json json_of(const Link& link) {
    return {{"name", link.name},
            {"bytes_per_s", link.bytes_per_s},
            {"alpha_s", link.alpha_s},
            {"cross_rail_cost", link.cross_rail_cost}};
}

void read(const Json& json, const std::string& where, std::optional<Error>& error, Link& out) {
    const JsonFields fields(json, where, error);
    fields.text("name", out.name);
    fields.number("bytes_per_s", out.bytes_per_s, 0, limits::number);
    fields.number("alpha_s", out.alpha_s, 0, 3600);
    if (fields.has("cross_rail_cost")) fields.number("cross_rail_cost", out.cross_rail_cost, 0, 10);
}

/// Of GpuType::uplinks.
constexpr std::array uplink_keys{"above_leaf", "above_pod"};

constexpr std::pair<const char*, double Estimate::*> estimate_numbers[] = {
    {"iteration_s", &Estimate::iteration_s},
    {"samples_per_s", &Estimate::samples_per_s},
    {"tflops_per_gpu", &Estimate::tflops_per_gpu},
    {"memory_bytes_per_gpu", &Estimate::memory_bytes_per_gpu},
    {"compute_s", &Estimate::compute_s},
    {"tp_comm_s", &Estimate::tp_comm_s},
    {"pp_comm_s", &Estimate::pp_comm_s},
    {"dp_comm_s", &Estimate::dp_comm_s},
    {"bubble_s", &Estimate::bubble_s},
    {"optimizer_s", &Estimate::optimizer_s},
    {"error_bound", &Estimate::error_bound},
};

}  // namespace

Json json_of(const Model& model) {
    Json json{{"name", model.name},
              {"family", to_string(model.family)},
              {"precision", to_string(model.precision)},
              {"capacity_factor", model.capacity_factor},
              {"blocks", model.blocks}};
    for (const FlagField& field : flag_fields()) json[field.key] = model.*field.member;
    for (const IntegerField& field : integer_fields())  // adapters: where a model has them
        if (field.group != FieldGroup::adapter || model.*field.member != 0)
            json[field.key] = model.*field.member;
    Json& layers = json["custom_layers"] = Json::array();
    for (const CustomLayer& layer : model.custom_layers) layers.push_back(json_of(layer));
    return json;
}

void read(const Json& json, const std::string& where, std::optional<Error>& error, Model& out) {
    const JsonFields fields(json, where, error);
    fields.text("name", out.name);
    fields.word("family", out.family, &parse_family, one_of_families);
    fields.word("precision", out.precision, &parse_precision, one_of_precisions);
    fields.number("capacity_factor", out.capacity_factor, 0, limits::number);
    fields.integers("blocks", out.blocks, 0, limits::integer, max_stages);
    for (const FlagField& field : flag_fields()) fields.boolean(field.key, out.*field.member);
    for (const IntegerField& field : integer_fields())
        if (field.group != FieldGroup::adapter || json.contains(field.key))
            fields.integer(field.key, out.*field.member, 0, limits::integer);
    const Json* layers = fields.list("custom_layers", max_custom_layers);
    if (layers == nullptr) return;
    out.custom_layers.clear();
    for (const Json& layer : *layers) {
        read(layer, fields.path("custom_layers"), error, out.custom_layers.emplace_back());
    }
}

Json json_of(const GpuType& type) {
    Json flops = Json::object();
    for (const auto& [precision, value] : type.flops) {
        flops[std::string(to_string(precision))] = value;
    }
    Json json{{"name", type.name},
              {"memory_bytes", type.memory_bytes},
              {"flops", flops},
              {"memory_bytes_per_s", type.memory_bytes_per_s},
              {"sm_count", type.sm_count},
              {"gpus_per_node", type.gpus_per_node},
              {"domain_gpus", type.domain_gpus},
              {"intra", json_of(type.intra)},
              {"inter", json_of(type.inter)},
              {"reserved_bytes", type.reserved_bytes},
              {"emulated", type.emulated},
              {"aliases", type.aliases}};
    for (std::size_t i = 0; i < uplink_keys.size(); ++i)
        if (type.uplinks[i] != Uplink{})
            json[uplink_keys[i]] = {{"oversubscription", type.uplinks[i].oversubscription},
                                    {"alpha_s", type.uplinks[i].alpha_s}};
    return json;
}

void read(const Json& json, const std::string& where, std::optional<Error>& error, GpuType& out) {
    const JsonFields fields(json, where, error);
    fields.text("name", out.name);
    fields.integer("memory_bytes", out.memory_bytes, 0, limits::integer);
    fields.number("memory_bytes_per_s", out.memory_bytes_per_s, 0, limits::number);
    fields.integer("sm_count", out.sm_count, 0, 65536);
    fields.integer("gpus_per_node", out.gpus_per_node, 0, limits::gpus_per_node);
    if (fields.has("domain_gpus")) fields.integer("domain_gpus", out.domain_gpus, 0, limits::gpus);
    fields.number("reserved_bytes", out.reserved_bytes, 0, limits::number);
    fields.boolean("emulated", out.emulated);
    fields.texts("aliases", out.aliases, 64, limits::name_bytes);
    if (const Json* link = fields.any("intra")) read(*link, fields.path("intra"), error, out.intra);
    if (const Json* link = fields.any("inter")) read(*link, fields.path("inter"), error, out.inter);
    for (std::size_t i = 0; i < uplink_keys.size(); ++i) {
        if (!fields.has(uplink_keys[i])) continue;
        const JsonFields uplink(*fields.any(uplink_keys[i]), fields.path(uplink_keys[i]), error);
        uplink.number("oversubscription", out.uplinks[i].oversubscription, 1, 1000);
        uplink.number("alpha_s", out.uplinks[i].alpha_s, 0, 1);
    }
    const Json* flops = fields.object("flops");
    if (flops == nullptr) return;
    out.flops.clear();
    const JsonFields rates(*flops, fields.path("flops"), error);
    for (const auto& [name, value] : flops->items()) {
        const auto precision = parse_precision(name);
        if (!precision)
            return fields.refuse("flops", fmt::format("a map of {}", accepted_precisions));
        rates.number(name.c_str(), out.flops[*precision], 0, limits::number);
    }
}

Json json_of(const Grid& grid) {
    Json json{{"gpu_type", grid.gpu_type},
              {"nodes", grid.nodes},
              {"gpus_per_node", grid.gpus_per_node},
              {"gpus", grid.gpus()},
              {"stages", grid.stages}};
    if (grid.is_uneven()) json["split"] = grid.split;
    return json;
}

void read(const Json& json, const std::string& where, std::optional<Error>& error, Grid& out) {
    const JsonFields fields(json, where, error);
    fields.text("gpu_type", out.gpu_type);
    fields.integer("nodes", out.nodes, 1, limits::gpus);
    fields.integer("gpus_per_node", out.gpus_per_node, 1, limits::gpus_per_node);
    fields.integer("stages", out.stages, 1, limits::gpus);
    out.split.clear();
    if (!fields.has("split")) return;
    std::vector<std::int64_t> split;
    fields.integers("split", split, 1, limits::gpus_per_node, max_split);
    if (!fields.ok()) return;
    Grid same = out;
    if (!split.empty()) set_split(same, std::move(split));
    if (!same.is_uneven() || same.nodes != out.nodes || same.gpus_per_node != out.gpus_per_node)
        return fields.refuse("split",
                             "GPUs of each of the nodes, gpus_per_node at most, that differ");
    out = std::move(same);
}

Json json_of(const Plan& plan) {
    Json json = {{"pp", plan.pp()},
                 {"dp", plan.dp()},
                 {"tp", plan.tp()},
                 {"micro_batch", plan.micro_batch},
                 {"num_micro_batches", plan.num_micro_batches},
                 {"recompute", to_string(plan.recompute)},
                 {"zero_stage", plan.zero_stage},
                 {"sequence_parallel", plan.sequence_parallel},
                 {"vpp", plan.vpp},
                 {"cp", plan.cp},
                 {"ep", plan.ep},
                 {"stage_layers", plan.stage_layers},
                 {"stage_dp", plan.stage_dp},
                 {"stage_tp", plan.stage_tp}};
    if (plan.hsdp != 0) json["hsdp"] = plan.hsdp;
    if (plan.etp != 1) json["etp"] = plan.etp;
    if (plan.schedule != Schedule::one_f_one_b) json["schedule"] = to_string(plan.schedule);
    return json;
}

void read(const Json& json, const std::string& where, std::optional<Error>& error, Plan& out) {
    const JsonFields fields(json, where, error);
    fields.integer("micro_batch", out.micro_batch, 1, limits::integer);
    fields.integer("num_micro_batches", out.num_micro_batches, 1, limits::integer);
    fields.word("recompute", out.recompute, &parse_recompute, "one of none, selective, full");
    fields.integer("zero_stage", out.zero_stage, 0, 3);
    fields.boolean("sequence_parallel", out.sequence_parallel);
    for (const auto& [key, field] : {std::pair{"vpp", &Plan::vpp},
                                     {"cp", &Plan::cp},
                                     {"ep", &Plan::ep},
                                     {"etp", &Plan::etp}}) {
        if (fields.has(key)) fields.integer(key, out.*field, 1, limits::gpus);
    }
    if (fields.has("hsdp")) fields.integer("hsdp", out.hsdp, 0, limits::gpus);
    if (fields.has("schedule"))
        fields.word("schedule", out.schedule, &parse_schedule, "one of 1f1b, zbh1, zbv, dualpipev");
    fields.integers("stage_layers", out.stage_layers, 0, limits::gpus, max_stages);
    fields.integers("stage_dp", out.stage_dp, 1, limits::gpus, max_stages);
    fields.integers("stage_tp", out.stage_tp, 1, limits::gpus, max_stages);
    if (!fields.ok()) return;
    if (out.stage_dp.size() != out.stage_layers.size()) {
        fields.refuse("stage_dp", "as many entries as in stage_layers");
    }
    if (out.stage_tp.size() != out.stage_layers.size()) {
        fields.refuse("stage_tp", "as many entries as in stage_layers");
    }
}

Json json_of(const Estimate& estimate) {
    Json json{{"source", to_string(estimate.source)}};
    for (const auto& [key, field] : estimate_numbers) json[key] = estimate.*field;
    return json;
}

void read(const Json& json, const std::string& where, std::optional<Error>& error, Estimate& out) {
    const JsonFields fields(json, where, error);
    fields.word("source", out.source, &parse_source, "one of analytic, profiled, observed");
    for (const auto& [key, field] : estimate_numbers)
        fields.number(key, out.*field, 0, limits::number);
}

Json json_of(const Offer& offer) {
    Json json{{"grid", json_of(offer.grid)},
              {"plan", json_of(offer.plan)},
              {"estimate", json_of(offer.estimate)}};
    if (offer.knows_spans()) json["slower"] = {{"pod", offer.slower[0]}, {"pods", offer.slower[1]}};
    if (offer.segment > 1) json["segment"] = offer.segment;
    return json;
}

void read(const Json& json, const std::string& where, std::optional<Error>& error, Offer& out) {
    const JsonFields fields(json, where, error);
    if (const Json* grid = fields.any("grid")) read(*grid, fields.path("grid"), error, out.grid);
    if (const Json* plan = fields.any("plan")) read(*plan, fields.path("plan"), error, out.plan);
    if (const Json* estimate = fields.any("estimate")) {
        read(*estimate, fields.path("estimate"), error, out.estimate);
    }
    if (fields.has("segment")) fields.integer("segment", out.segment, 1, limits::gpus);
    if (!fields.has("slower")) return;
    const Json* slower = fields.object("slower");
    if (slower == nullptr) return;
    const JsonFields factors(*slower, fields.path("slower"), error);
    factors.number("pod", out.slower[0], 1, Offer::most_slower);
    factors.number("pods", out.slower[1], 1, Offer::most_slower);
    if (factors.ok() && out.slower[0] > out.slower[1])
        factors.refuse("pods", "a factor that is no less than that of a pod");
}

std::string to_json(const Model& v) { return dump_json(json_of(v)); }
Result<Model> parse_model_json(std::string_view s) { return parse_value<Model>(s); }
std::string to_json(const GpuType& v) { return dump_json(json_of(v)); }
Result<GpuType> parse_gpu_type_json(std::string_view s) { return parse_value<GpuType>(s); }
std::string to_json(const Grid& v) { return dump_json(json_of(v)); }
Result<Grid> parse_grid_json(std::string_view s) { return parse_value<Grid>(s); }
std::string to_json(const Plan& v) { return dump_json(json_of(v)); }
Result<Plan> parse_plan_json(std::string_view s) { return parse_value<Plan>(s); }
std::string to_json(const Estimate& v) { return dump_json(json_of(v)); }
Result<Estimate> parse_estimate_json(std::string_view s) { return parse_value<Estimate>(s); }
std::string to_json(const Offer& v) { return dump_json(json_of(v)); }
Result<Offer> parse_offer_json(std::string_view s) { return parse_value<Offer>(s); }

}  // namespace arena
