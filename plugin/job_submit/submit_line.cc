// SPDX-License-Identifier: GPL-2.0-or-later
// See submit_line.h.
#include "plugin/job_submit/submit_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/count_text.h"
#include "base/text.h"
#include "planner/models/model.h"
#include "planner/requests/would_fit.h"
#include "request/launchers.h"

namespace arena {
namespace {

std::string model_text(const Model& model) {
    std::string text = printable(model.name, 64);
    if (model.family != Family::custom) text += " " + count_text(parameter_count(model));
    if (is_adapted(model)) text += ", " + adapter_words(model);
    if (is_transformer(model.family)) text += fmt::format(", {} tokens", grouped(model.seq_length));
    if (model.family == Family::wide_resnet)
        text += fmt::format(", {0}x{0} pixels", model.image_size);
    return text + ", " + std::string(to_string(model.precision));
}

/// Iterations of the best shape that the time limit has room for; what the request asks for beyond
/// that, or that there is none, is a warning.
std::string limit_text(const Request& request, double iteration_s, std::int64_t limit_s) {
    const double limit = static_cast<double>(limit_s), steps = static_cast<double>(request.steps);
    if (iteration_s > limit)
        return fmt::format("\narena: warning: not even one iteration fits in the time limit of {}",
                           human_seconds(limit));
    if (steps * iteration_s > limit)
        return fmt::format("\narena: warning: {} iterations take {} at best, the time limit is {}",
                           grouped(request.steps), human_seconds(steps * iteration_s),
                           human_seconds(limit));
    if (request.steps > 0)
        return fmt::format(", {} iterations {}", grouped(request.steps),
                           human_seconds(steps * iteration_s));
    return fmt::format(", {} iterations in {}",
                       grouped(static_cast<std::int64_t>(limit / iteration_s)),
                       human_seconds(limit));
}

std::string none_text(const Request& request, const QuickEstimate& estimate) {
    const std::string other = would_fit_text(estimate.would_fit);
    return fmt::format("; no plan is known to fit{}{}: arena explain says why once it waits",
                       other.empty() ? "" : " the launcher " + request.launcher + "; ", other);
}

/// "dp4, micro-batch 2 x 2" of replicas alone, else as everywhere.
std::string plan_text(const std::string& plan) {
    const Result<PlanPin> pin = parse_plan_pin(plan);
    if (!pin) return plan;
    const std::string replicas =
        fmt::format("pp1,dp{},tp1,mb{}x{}", pin->dp, pin->micro_batch, pin->num_micro_batches);
    if (plan != replicas) return plan;
    return fmt::format("dp{}, micro-batch {} x {}", pin->dp, pin->micro_batch,
                       pin->num_micro_batches);
}

std::string shape_text(const Grid& grid, const std::vector<TypePool>& pools) {
    const bool equal = std::any_of(pools.begin(), pools.end(), [&](const TypePool& pool) {
        return pool.type() == grid.gpu_type && pool.can_place(grid.gpus());
    });
    return equal ? short_form(grid)
                 : fmt::format("{}x{} in unequal pieces", grid.gpus(), grid.gpu_type);
}

/// Whether no plan but that of a DDP script is left.
bool pins_replicas(const PlanPin& pin) {
    return pin.pp == 1 && pin.tp == 1 && pin.cp <= 1 && pin.ep <= 1 && pin.vpp <= 1 &&
           pin.zero_stage == 0 && pin.recompute == Recompute::none;
}

/// The plan, and what it asks of the script.
std::string plan_line(const Request& request, const std::string& plan) {
    const Launcher* launcher = find_launcher(request.launcher);
    std::string script = launcher == nullptr ? "" : launcher->script;
    // Who pinned what the launcher's sentence advises a DDP script to pin needs no advice.
    if (!script.empty() && pins_replicas(request.pin)) script = "DDP script";
    return fmt::format("\narena: plan {}{}{}", plan_text(plan), script.empty() ? "" : ": ", script);
}

}  // namespace

std::vector<const QuickEstimate::Shape*> possible_shapes(const Request& request,
                                                         const QuickEstimate& estimate,
                                                         std::int64_t tmp_mb,
                                                         const ClusterFacts& facts,
                                                         const SiteFacts& site) {
    const std::vector<TypePool> pools = pools_for(request, tmp_mb, facts, site);
    std::vector<const QuickEstimate::Shape*> possible;
    for (const QuickEstimate::Shape& shape : estimate.shapes) {
        const std::int64_t gpus = shape.grid.gpus();
        if (gpus < request.min_gpus || (request.max_gpus != 0 && gpus > request.max_gpus)) continue;
        if (std::any_of(pools.begin(), pools.end(), [&](const TypePool& pool) {
                return pool.type() == shape.grid.gpu_type && fewest_nodes(request, pool, gpus) > 0;
            }))
            possible.push_back(&shape);
    }
    return possible;
}

std::string submit_line(const Request& request, const std::optional<QuickEstimate>& estimate,
                        std::int64_t tmp_mb, const ClusterFacts& facts, const SiteFacts& site,
                        std::int64_t limit_s) {
    std::string text = "arena: " + model_text(request.model);
    if (!estimate) return text;
    const auto possible = possible_shapes(request, *estimate, tmp_mb, facts, site);
    if (possible.empty()) return text + (estimate->complete ? none_text(request, *estimate) : "");
    const QuickEstimate::Shape* best = possible.front();
    text += fmt::format("; best {}{} {} ({})", estimate->complete ? "" : "found ",
                        shape_text(best->grid, pools_for(request, tmp_mb, facts, site)),
                        human_seconds(best->iteration_s), to_string(best->source));
    std::string plan = plan_line(request, best->plan);
    if (best->source == Source::data_sheet)
        plan += "\narena: " + data_sheet_note(best->grid.gpu_type);
    if (limit_s > 0) {
        const std::string limit = limit_text(request, best->iteration_s, limit_s);
        return text + (limit.starts_with('\n') ? plan + limit : limit + plan);
    }
    if (request.steps > 0)
        text += fmt::format(", {} iterations {}", grouped(request.steps),
                            human_seconds(static_cast<double>(request.steps) * best->iteration_s));
    return text + plan;
}

}  // namespace arena
