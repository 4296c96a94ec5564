// SPDX-License-Identifier: GPL-2.0-or-later
#include "tests/lab/array/compare_models.h"

#include <fmt/format.h>

#include "cli/planning/plan_input.h"
#include "tests/lab/array/comparison_text.h"

namespace arena::cli {
namespace {

/// INFOCOM'25, section VI.
constexpr const char* paper_models[] = {"vgg-19", "resnet-152", "bert-large", "gpt2-xl"};
constexpr std::int64_t batches_of_images[] = {128, 256, 512, 768};
constexpr std::int64_t batches_of_text[] = {8, 16, 24, 32};

std::vector<std::int64_t> batches_for(const ModelComparison& o, const Model& model) {
    if (!o.batches.empty()) return o.batches;
    const bool images = model.family == Family::wide_resnet || model.family == Family::custom;
    const auto& list = images ? batches_of_images : batches_of_text;
    return {std::begin(list), std::end(list)};
}

PlanOptions plan_options(const ModelComparison& o, const std::string& model) {
    PlanOptions plan;
    plan.model = model;
    plan.seq_length = o.seq_length;
    plan.gpu_types = {o.gpu_type};
    plan.hardware = o.hardware;
    plan.calibration = o.calibration;
    plan.profiles = o.profiles;
    plan.launcher = o.launcher;
    return plan;
}

Result<GpuPool> pool_of(const Globals& globals, const ModelComparison& o,
                        const PlanOptions& options) {
    auto pools = read_pools(globals, options);
    if (!pools) return pools.error();
    GpuPool pool = std::move(pools->front());
    if (o.servers > o.stages)
        return usage_error(fmt::format("{} stages are on {} servers at most", o.stages, o.stages),
                           "--servers");
    if (o.servers > 0) pool.gpus_per_node = (o.stages + o.servers - 1) / o.servers;
    if (o.memory_gib > 0)
        pool.hardware.memory_bytes = static_cast<std::int64_t>(o.memory_gib * (1 << 30));
    if (o.link_gb_per_s > 0) {
        pool.hardware.intra.bytes_per_s = o.link_gb_per_s * 1e9;
        pool.profile = {};  // links that were measured are others
    }
    return pool;
}

Result<std::vector<ComparedCell>> compare_model(const Globals& globals, const ModelComparison& o,
                                                const std::string& name) {
    const PlanOptions options = plan_options(o, name);
    auto model = read_model(options);
    if (!model) return model.error();
    const auto pool = pool_of(globals, o, options);
    if (!pool) return pool.error();
    const auto can = read_launcher(options);
    if (!can) return can.error();
    CompareQuery query{.model = *model, .pool = *pool, .can = *can};
    query.stages = o.stages;
    query.members = o.members;
    query.host_bytes_per_s = o.host_gb_per_s * 1e9;
    if (o.search_s) query.solve = {.seconds = *o.search_s};
    std::vector<ComparedCell> cells;
    for (const std::int64_t batch : batches_for(o, *model)) {
        query.batch = batch;
        auto all = compare_array(query);
        if (!all) return all.error();
        cells.push_back({model->name, batch, std::move(*all)});
    }
    return cells;
}

Result<ComparedSetting> compare_setting(const Globals& globals, const ModelComparison& o,
                                        const std::string& value) {
    ComparedSetting setting{o.axis, value, {}};
    const std::vector<std::string> paper{std::begin(paper_models), std::end(paper_models)};
    for (const std::string& name : o.models.empty() ? paper : o.models) {
        auto cells = compare_model(globals, o, name);
        if (!cells) return cells.error();
        setting.cells.insert(setting.cells.end(), cells->begin(), cells->end());
    }
    return setting;
}

/// The paper's values of each axis.
std::vector<std::pair<std::string, ModelComparison>> values_of(const ModelComparison& o) {
    std::vector<std::pair<std::string, ModelComparison>> values;
    const auto add = [&](std::string value, auto change) {
        ModelComparison one = o;
        change(one);
        values.emplace_back(std::move(value), std::move(one));
    };
    if (o.axis == "servers")
        for (const std::int64_t n : {1, 2, 4, 8})
            add(fmt::format("{}", n), [n](ModelComparison& one) { one.servers = n; });
    if (o.axis == "stages")
        for (const std::int64_t n : {4, 8, 16})
            add(fmt::format("{}", n), [n](ModelComparison& one) { one.stages = n; });
    if (o.axis == "memory")
        for (const double gib : {40.0, 80.0})
            add(fmt::format("{:g} GiB", gib),
                [gib](ModelComparison& one) { one.memory_gib = gib; });
    if (o.axis == "bandwidth")
        for (const double rate : {32.0, 300.0})
            add(fmt::format("{:g} GB/s", rate),
                [rate](ModelComparison& one) { one.link_gb_per_s = rate; });
    if (o.axis.empty()) values.emplace_back("", o);
    return values;
}

void print_text(const ModelComparison& o, const std::vector<ComparedSetting>& settings) {
    fmt::print(
        "{} members on {} stages of {}: one iteration of all, in the planner's model\n", o.members,
        o.axis == "stages" ? std::string("4, 8 and 16") : fmt::format("{}", o.stages), o.gpu_type);
    if (!o.axis.empty()) return print_axis(settings);
    for (const ComparedCell& cell : settings.front().cells) print_cell(cell);
    print_savings(settings.front());
}

}  // namespace

int compare_models(const Globals& globals, const ModelComparison& options) {
    std::vector<ComparedSetting> settings;
    for (const auto& [value, one] : values_of(options)) {
        auto setting = compare_setting(globals, one, value);
        if (!setting) return fail(globals, setting.error());
        settings.push_back(std::move(*setting));
    }
    if (!globals.json) {
        print_text(options, settings);
        return exit_yes;
    }
    Json list = Json::array();
    for (const ComparedSetting& setting : settings) list.push_back(json_of(setting));
    fmt::print("{}\n", dump_json({{"schema_version", 1},
                                  {"kind", "array-compare-models"},
                                  {"gpu_type", options.gpu_type},
                                  {"stages", options.stages},
                                  {"members", options.members},
                                  {"settings", list}}));
    return exit_yes;
}

}  // namespace arena::cli
