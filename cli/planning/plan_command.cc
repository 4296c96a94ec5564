// SPDX-License-Identifier: GPL-2.0-or-later
// `arena plan`: every grid of the asked GPU types and counts with its proxy plan and estimate,
// ranked; or with --fixed the price of exactly one plan. The JSON is a contract (arena(1)).
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>

#include "base/count_text.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/common/wrap.h"
#include "cli/planning/commands.h"
#include "cli/planning/plan_array.h"
#include "cli/planning/plan_input.h"
#include "core/limits.h"
#include "core/values_json.h"
#include "planner/models/model.h"
#include "request/launchers.h"

namespace arena::cli {
namespace {

/// A fixed plan that does not fit memory has a price all the same.
bool has_plan(const GridResult& result) { return result.estimate.iteration_s > 0; }

bool knows_spans(const GridResult& result) { return result.slower != SpanFactors{1, 1}; }

/// Of an iteration over leaves of a pod, or over pods.
double span_s(const GridResult& result, Span span) {
    return result.estimate.iteration_s * result.slower[static_cast<std::size_t>(span) - 1];
}

Json json_of(const GridResult& result) {
    Json json = arena::json_of(result.grid);
    json["feasible"] = result.feasible;
    json["reason"] = result.reason;
    json["proxy_plan"] = has_plan(result) ? arena::json_of(result.plan) : Json();
    json["estimate"] = has_plan(result) ? arena::json_of(result.estimate) : Json();
    if (result.segment > 1) json["segment"] = result.segment;
    if (knows_spans(result))
        json["iteration_s_over"] = {{"pod", span_s(result, Span::pod)},
                                    {"pods", span_s(result, Span::pods)}};
    return json;
}

/// The source has a column where not all plans have the same.
void print_ranking(const std::vector<GridResult>& results) {
    const bool source = std::any_of(results.begin(), results.end(), [&](const GridResult& r) {
        return r.feasible && r.estimate.source != results.front().estimate.source;
    });
    std::vector<Table::Column> columns{{"rank", true}, {"grid"}, {"plan", false, Wide::below}};
    columns.insert(columns.end(), {{"iteration", true},
                                   {"samples per s", true},
                                   {"TFLOP/s per GPU", true},
                                   {"memory per GPU", true}});
    const auto any = [&](auto has) { return std::any_of(results.begin(), results.end(), has); };
    const bool spans = any(knows_spans);
    const bool segments = any([](const GridResult& r) { return r.segment > 1; });
    if (spans) columns.insert(columns.end(), {{"over leaves", true}, {"over pods", true}});
    if (segments) columns.push_back({"nodes of a domain", true});
    if (source) columns.push_back({"source"});
    Table table(columns);
    std::size_t rank = 0;
    for (const GridResult& r : results) {
        if (!r.feasible) continue;
        const Estimate& e = r.estimate;
        std::vector<std::string> row{fmt::format("{}", ++rank), short_form(r.grid),
                                     short_form(r.plan)};
        for (std::string cell :
             {human_seconds(e.iteration_s), fmt::format("{:.4g}", e.samples_per_s),
              fmt::format("{:.1f}", e.tflops_per_gpu), human_bytes(e.memory_bytes_per_gpu)})
            row.push_back(std::move(cell));
        for (const Span span : {Span::pod, Span::pods})
            if (spans) row.push_back(r.grid.nodes > 1 ? human_seconds(span_s(r, span)) : "");
        if (segments) row.push_back(r.segment > 1 ? fmt::format("{}", r.segment) : "");
        if (source) row.emplace_back(to_string(e.source));
        table.add(std::move(row));
    }
    if (rank > 0) fmt::print("{}", table.text());
}

void print_breakdown(const GridResult& best) {
    const Estimate& e = best.estimate;
    fmt::print("\nBest: {} {}, {} per iteration, {}, within {:.0f} %\n", short_form(best.grid),
               short_form(best.plan), human_seconds(e.iteration_s), to_string(e.source),
               100 * e.error_bound);
    const std::pair<const char*, double> parts[] = {{"compute", e.compute_s},
                                                    {"collectives inside stages", e.tp_comm_s},
                                                    {"pipeline communication", e.pp_comm_s},
                                                    {"data-parallel communication", e.dp_comm_s},
                                                    {"pipeline bubble", e.bubble_s},
                                                    {"optimizer", e.optimizer_s}};
    for (const auto& [name, seconds] : parts) {
        if (seconds > 0) {
            fmt::print("  {:<30} {:>9}  {:>3.0f} %\n", name, human_seconds(seconds),
                       100 * seconds / e.iteration_s);
        }
    }
    if (best.plan.recompute != Recompute::none)
        fmt::print("  recomputation: {}\n", to_string(best.plan.recompute));
    if (best.plan.zero_stage != 0) fmt::print("  ZeRO stage: {}\n", best.plan.zero_stage);
    if (best.segment > 1)
        print_wrapped("  ",
                      fmt::format("needs {} nodes at a time in one NVLink domain", best.segment));
    print_wrapped("  layers per stage: ",
                  fmt::format("{}", fmt::join(best.plan.stage_layers, ",")));
}

/// Grids with the same reason share a line.
void print_infeasible(const std::vector<GridResult>& results) {
    std::map<std::string, std::vector<std::string>> reasons;
    for (const GridResult& r : results) {
        if (r.feasible) continue;
        reasons[r.reason].push_back(fmt::format("{} pp{}", short_form(r.grid), r.grid.stages));
    }
    if (!reasons.empty()) fmt::print("\nNot possible:\n");
    for (const auto& [reason, grids] : reasons) {
        for (const std::string& line : wrapped(join(grids, ", ") + ":", line_width() - 2))
            fmt::print("  {}\n", line);
        print_wrapped("    ", reason);
    }
}

/// Grids where the planner did not look at all stages that differ in dp and tp; also those that
/// --top hides.
struct NotLookedAt {
    std::vector<Grid> uniform_only, mixed_in_part, in_part;
};

NotLookedAt not_looked_at(const std::vector<GridResult>& results) {
    NotLookedAt grids;
    for (const GridResult& r : results) {
        if (r.uniform_only) grids.uniform_only.push_back(r.grid);
        if (r.mixed_in_part) grids.mixed_in_part.push_back(r.grid);
        if (r.in_part) grids.in_part.push_back(r.grid);
    }
    return grids;
}

/// The bound on what is looked at, and where it was met.
template <typename Bound>
Json json_of(const std::vector<Grid>& grids, Bound bound) {
    Json list = Json::array();
    for (const Grid& grid : grids) list.push_back(arena::json_of(grid));
    return {{"bound", bound}, {"grids", list}};
}

/// One line, however many there are.
void print_grids(const char* what, const std::vector<Grid>& grids, const std::string& why) {
    constexpr std::size_t most = 4;
    if (grids.empty()) return;
    std::vector<std::string> names;
    for (const Grid& grid : grids)
        if (names.size() < most)
            names.push_back(fmt::format("{} pp{}", short_form(grid), grid.stages));
    if (grids.size() > most) names.push_back(fmt::format("{} more", grids.size() - most));
    fmt::print("\n{}: {}: {}\n", what, join(names, ", "), why);
}

void print_not_looked_at(const PlanOptions& options, const Model& model, const NotLookedAt& grids) {
    print_grids(
        "Left out", grids.in_part,
        fmt::format("the {:.4g} s of --budget-s were spent before all plans were looked at; there "
                    "may be a faster one, or one that fits; --budget-s 0 searches to the end",
                    options.budget_s));
    print_grids(
        "Uniform stages only", grids.uniform_only,
        fmt::format("stages that differ in dp and tp were not looked at, as stages x GPUs x "
                    "layers^2 is above {}",
                    mixed_stages_bound(model)));
    print_grids(
        "Mixed stages in part", grids.mixed_in_part,
        fmt::format("a setting (micro-batches, recomputation, ZeRO) has more than {} partial plans "
                    "of stages that differ in dp and tp, and was left out; there may be a faster "
                    "plan, or one that fits",
                    PlanQuery{}.max_partial_plans));
}

/// Feasible first, fastest first; the K best of them when top is not 0.
void rank(std::vector<GridResult>& results, std::size_t top) {
    const auto worse_key = [](const GridResult& r) {
        return std::make_tuple(!r.feasible, r.feasible ? r.estimate.iteration_s : 0.0, r.grid);
    };
    std::stable_sort(results.begin(), results.end(), [&](const GridResult& a, const GridResult& b) {
        return worse_key(a) < worse_key(b);
    });
    const auto feasible = static_cast<std::size_t>(std::count_if(
        results.begin(), results.end(), [](const GridResult& r) { return r.feasible; }));
    if (top == 0 || feasible <= top) return;
    results.erase(results.begin() + static_cast<std::ptrdiff_t>(top),
                  results.begin() + static_cast<std::ptrdiff_t>(feasible));
}

/// Timings of an emulated type are a CPU's: said wherever they are shown.
bool is_emulated(const std::vector<GpuPool>& pools, const std::string& gpu_type) {
    return std::any_of(pools.begin(), pools.end(), [&](const GpuPool& pool) {
        return pool.gpu_type == gpu_type && pool.hardware.emulated;
    });
}

/// Of which no run was measured, among what is feasible.
std::set<std::string> data_sheet_types(const std::vector<GridResult>& results) {
    std::set<std::string> types;
    for (const GridResult& r : results)
        if (r.feasible && r.estimate.source == Source::data_sheet) types.insert(r.grid.gpu_type);
    return types;
}

/// "8.03 B parameters", of experts also how many one token uses.
std::string size_of(const Model& model) {
    const double all = parameter_count(model), active = active_parameter_count(model);
    std::string text = fmt::format("{:.4g} {} parameters", all >= 1e9 ? all / 1e9 : all / 1e6,
                                   all >= 1e9 ? "B" : "M");
    if (active < all) text += fmt::format(" ({:.4g} B active)", active / 1e9);
    return text;
}

int report(const Globals& globals, const PlanOptions& options, const Model& model,
           const std::vector<GpuPool>& pools, const std::vector<GridResult>& results,
           const NotLookedAt& left_out) {
    const bool any = !results.empty() && results.front().feasible;
    if (globals.json) {
        Json grids = Json::array();
        for (const GridResult& r : results) {
            grids.push_back(json_of(r));
            grids.back()["emulated"] = is_emulated(pools, r.grid.gpu_type);
        }
        fmt::print(
            "{}\n",
            dump_json(
                {{"schema_version", 1},
                 {"model", model.name},
                 {"parameters", parameter_count(model)},
                 {"active_parameters", active_parameter_count(model)},
                 {"adapters", adapter_words(model)},
                 {"global_batch", options.global_batch},
                 {"grids", grids},
                 {"uniform_only", json_of(left_out.uniform_only, mixed_stages_bound(model))},
                 {"mixed_in_part", json_of(left_out.mixed_in_part, PlanQuery{}.max_partial_plans)},
                 {"left_out", json_of(left_out.in_part, options.budget_s)},
                 {"best", any ? 0 : -1}}));
        return any ? exit_yes : exit_no;
    }
    const std::string sample = model.seq_length > 0
                                   ? fmt::format(", sequence length {}", model.seq_length)
                                   : std::string();
    const std::string adapters = is_adapted(model) ? ", " + adapter_words(model) : std::string();
    fmt::print("{}, {}{}, global batch {}{}, {}\n", model.name, size_of(model), adapters,
               options.global_batch, sample, to_string(model.precision));
    for (const GpuPool& pool : pools) {
        if (!pool.hardware.emulated) continue;
        fmt::print("{} is emulated ({}): its times are a CPU's\n", pool.gpu_type,
                   pool.hardware.name);
    }
    for (const std::string& type : data_sheet_types(results))
        print_wrapped("", data_sheet_note(type));
    fmt::print("\n");
    print_ranking(results);
    if (any) print_breakdown(results.front());
    if (!any) fmt::print("No plan fits.\n");
    print_infeasible(results);
    print_not_looked_at(options, model, left_out);
    return any ? exit_yes : exit_no;
}

std::vector<GridResult> search(const Model& model, std::int64_t global_batch,
                               const std::vector<GpuRange>& ranges, std::vector<GpuPool> pools,
                               const Capabilities& can, bool pareto, PlanBudget& budget) {
    std::vector<GridResult> all;
    std::size_t ranges_left = ranges.size();
    for (const GpuRange& range : ranges) {
        const PlanBudget::Slice slice(budget, 1 / static_cast<double>(ranges_left--));
        for (GpuPool& pool : pools) pool.max_gpus = range.max;
        PlanQuery query{.model = model,
                        .global_batch = global_batch,
                        .min_gpus = range.min,
                        .max_gpus = range.max,
                        .pools = pools,
                        .can = can};
        for (GridResult& result : pareto ? plan_pareto(query, budget) : plan_grids(query, budget))
            all.push_back(std::move(result));
    }
    return all;
}

/// The grid that a fixed plan needs on this pool.
Result<Grid> fixed_grid(const FixedPlan& fixed, const GpuPool& pool) {
    const std::int64_t gpus = fixed.gpus();
    if (gpus <= pool.gpus_per_node) return Grid{pool.gpu_type, 1, gpus, fixed.pp};
    if (gpus % pool.gpus_per_node != 0) {
        return usage_error(
            fmt::format("{} GPUs do not fill nodes of {}; every node must give the same "
                        "number (see --gpus-per-node)",
                        gpus, pool.gpus_per_node),
            "--fixed");
    }
    return Grid{pool.gpu_type, gpus / pool.gpus_per_node, pool.gpus_per_node, fixed.pp};
}

/// Prices exactly this plan; infeasible, with its price, where it does not fit memory.
Result<GridResult> price_one(const PlanOptions& options, const Model& model, const FixedPlan& fixed,
                             const Grid& grid, const GpuPool& pool, const Capabilities& can,
                             PlanBudget& budget) {
    auto plan = make_plan(fixed, model, options.global_batch, can.split(fixed.pp));
    if (!plan) return plan.error();
    if (const std::string what = inexpressible(can, model, *plan); !what.empty()) {
        return usage_error(
            fmt::format("has {}, which --launcher {} cannot be told; --launcher any prices it "
                        "all the same",
                        what, options.launcher),
            "--fixed");
    }
    auto estimate = price_plan(model, options.global_batch, grid, *plan, pool);
    if (estimate) {  // a plan at all
        *plan = with_best_layers(model, options.global_batch, grid, *plan, pool,
                                 can.split(fixed.pp), budget);
        estimate = price_plan(model, options.global_batch, grid, *plan, pool);
    }
    GridResult result{.grid = grid, .plan = *plan};
    if (!estimate && estimate.error().code != ErrorCode::no) return estimate.error();
    if (!estimate) {
        result.reason = estimate.error().text;
        return result;
    }
    result.estimate = *estimate;
    price_spans(model, options.global_batch, pool, result);
    const auto memory_bytes = static_cast<double>(pool.hardware.memory_bytes);
    result.feasible = estimate->memory_bytes_per_gpu <= memory_bytes;
    if (!result.feasible) {
        result.reason = fmt::format("memory: needs {} per GPU, {} has {}",
                                    human_bytes(estimate->memory_bytes_per_gpu), pool.hardware.name,
                                    human_bytes(memory_bytes));
    }
    return result;
}

/// The plan as the search finds and shows it, partitioned as there; nothing where none fits.
std::optional<GridResult> search_pinned(const PlanOptions& options, const Model& model,
                                        const FixedPlan& fixed, const Grid& grid,
                                        const GpuPool& pool, const Capabilities& can,
                                        PlanBudget& budget) {
    const PlanPin pin = fixed.pin();
    const std::int64_t samples =
        fixed.dp * fixed.micro_batch * std::max<std::int64_t>(1, fixed.num_micro_batches);
    if (options.global_batch % samples != 0 ||
        (fixed.num_micro_batches != 0 && samples != options.global_batch))
        return std::nullopt;  // make_plan() says why
    const PlanQuery query{.model = model,
                          .global_batch = options.global_batch,
                          .min_gpus = grid.gpus(),
                          .max_gpus = grid.gpus(),
                          .pin = pin,
                          .pools = {pool},
                          .can = can};
    for (GridResult& result : plan_grids(query, budget))
        if (result.feasible && result.grid == grid && matches(pin, result.plan))
            return std::move(result);
    return std::nullopt;
}

/// Of settings that were left free the fastest that fits, else the one that lacks the least memory.
bool is_better(const GridResult& a, const GridResult& b) {
    if (a.feasible != b.feasible || has_plan(a) != has_plan(b))
        return a.feasible || (!b.feasible && has_plan(a));
    return a.feasible ? a.estimate.iteration_s < b.estimate.iteration_s
                      : a.estimate.memory_bytes_per_gpu < b.estimate.memory_bytes_per_gpu;
}

Result<std::vector<GridResult>> price(const PlanOptions& options, const Model& model,
                                      const std::vector<GpuRange>& ranges,
                                      std::vector<GpuPool> pools, const Capabilities& can,
                                      PlanBudget& budget) {
    const auto fixed = parse_fixed(options.fixed);
    if (!fixed) return fixed.error();
    if (pools.size() != 1 || ranges.size() > 1) {
        return usage_error("prices one plan: give one --gpu-type and at most one --gpus",
                           "--fixed");
    }
    if (!ranges.empty() && (fixed->gpus() < ranges[0].min || fixed->gpus() > ranges[0].max)) {
        return usage_error(fmt::format("pp * dp * tp * cp = {}, but --gpus says {}",
                                       counted(fixed->gpus(), "GPU"), options.gpus[0]),
                           "--fixed");
    }
    const auto grid = fixed_grid(*fixed, pools[0]);
    if (!grid) return grid.error();
    pools[0].max_gpus = grid->gpus();
    if (fixed->as_shown)
        if (auto found = search_pinned(options, model, *fixed, *grid, pools[0], can, budget))
            return std::vector{std::move(*found)};
    std::vector<GridResult> best;
    std::optional<Error> untold;
    for (const FixedPlan& one : settings_of(*fixed, model, can)) {
        auto result = price_one(options, model, one, *grid, pools[0], can, budget);
        if (!result && !untold) untold = result.error();
        if (!result) continue;  // of settings left free some can be told
        if (best.empty() || is_better(*result, best[0])) best = {std::move(*result)};
    }
    if (best.empty() && untold) return *untold;
    return best;
}

int plan(const Globals& globals, const PlanOptions& options) {
    const auto model = read_model(options);
    if (!model) return fail(globals, model.error());
    const auto ranges = read_gpu_ranges(options);
    if (!ranges) return fail(globals, ranges.error());
    if (ranges->empty() && options.fixed.empty()) {
        return fail(globals, usage_error("is needed, unless --fixed gives the plan", "--gpus"));
    }
    const auto store = open_profiles(options);
    if (!store) return fail(globals, store.error());
    auto pools = read_pools(globals, options, *store);
    if (!pools) return fail(globals, pools.error());
    const auto can = read_launcher(options);
    if (!can) return fail(globals, can.error());
    if (options.pareto && !options.fixed.empty())
        return fail(globals, usage_error("has one plan only; leave out --pareto", "--fixed"));
    if (options.array > 0) return plan_array(globals, options, *model, *ranges, *pools, *can);
    PlanBudget::Limits limits{.bytes = std::size_t{512} << 20};
    if (options.budget_s > 0) limits.seconds = options.budget_s;
    PlanBudget budget(limits);
    auto results = options.fixed.empty() ? search(*model, options.global_batch, *ranges, *pools,
                                                  *can, options.pareto, budget)
                                         : price(options, *model, *ranges, *pools, *can, budget);
    if (!results) return fail(globals, results.error());
    correct_by_reports(*store, options, *model, *pools, *results);
    const NotLookedAt left_out = not_looked_at(*results);
    rank(*results, options.top);
    return report(globals, options, *model, *pools, *results, left_out);
}

void add_network_options(CLI::App& command, PlanOptions& o) {
    const CLI::Range counts(std::int64_t{1}, limits::gpus);
    command.add_option("--leaf-nodes", o.leaf_nodes, "nodes below one leaf switch [any number]")
        ->check(counts);
    command.add_option("--pod-leaves", o.pod_leaves, "leaves of a pod [any number]")
        ->check(counts)
        ->needs("--leaf-nodes");
    command
        .add_option("--domain-nodes", o.domain_nodes,
                    "nodes of one NVLink domain [none: intra joins the GPUs of a node]")
        ->check(counts);
    command
        .add_option("--oversubscription", o.oversubscription,
                    "times less than in a leaf that a node gets above it, and above pods: "
                    "LEAF[,POD] [the site's]")
        ->delimiter(',')
        ->expected(1, 2)
        ->check(CLI::Range(1.0, 1000.0));
}

}  // namespace

void add_plan(CLI::App& app, Globals& globals) {
    CLI::App* command =
        app.add_subcommand("plan", "rank grids and plans for a model, or price one plan");
    const auto o = std::make_shared<PlanOptions>();
    command->add_option("--model", o->model, "built-in name, config.json or model YAML")
        ->required();
    command->add_option("--model-ignore", o->model_ignore,
                        "keys or options of its text that do not change its cost: WORD,...");
    command->add_option("--global-batch", o->global_batch, "samples per iteration")
        ->required()
        ->check(CLI::Range(std::int64_t{1}, limits::batch));
    command->add_option("--seq-length", o->seq_length, "tokens per sample [the model's]")
        ->check(CLI::Range(std::int64_t{1}, limits::tokens));
    command
        ->add_option("--lora", o->lora, "rank of adapters that are trained beside frozen weights")
        ->check(CLI::Range(std::int64_t{1}, find_integer_field("lora_rank")->max));
    command->add_option("--gpu-type", o->gpu_types, "hardware entry or GRES type; may be repeated")
        ->required();
    command->add_option("--gpus", o->gpus, "number of GPUs, or MIN-MAX; may be repeated");
    command->add_option("--gpus-per-node", o->gpus_per_node, "GPUs of one node [the hardware's]")
        ->check(CLI::Range(std::int64_t{1}, std::int64_t{1024}));
    add_network_options(*command, *o);
    command->add_option("--hardware", o->hardware, "more hardware entries (YAML)");
    command->add_option("--calibration", o->calibration, "constants over the built-in ones (YAML)");
    command->add_option(
        "--profiles", o->profiles,
        "profile JSON, a profile store (.db), or none [what comes with slurm-arena]");
    command->add_option("--fixed", o->fixed,
                        "price exactly pp=..,dp=..,tp=..,micro_batch=..[,...]");
    command->add_option("--launcher", o->launcher,
                        "only plans that it can be told, NAME or NAME@VERSION: any, " +
                            launcher_names() + " [env]");
    command->add_flag("--pareto", o->pareto,
                      "all plans that no other beats in both time and memory");
    command
        ->add_option(
            "--budget-s", o->budget_s,
            fmt::format("seconds to search, then the best so far and what was left out; 0 = to "
                        "the end [{}]",
                        o->budget_s))
        ->check(CLI::Range(0.0, 86400.0));
    command
        ->add_option("--array", o->array,
                     "so many siblings of a job array: side by side, one after another, or through "
                     "one pipeline")
        ->check(CLI::Range(2, 1024));
    command->add_option("--top", o->top, "show only the K best [all]")
        ->check(CLI::Range(1, 1 << 20));
    command->callback([&globals, o] { globals.status = plan(globals, *o); });
}

}  // namespace arena::cli
