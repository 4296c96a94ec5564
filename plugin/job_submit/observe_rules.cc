// SPDX-License-Identifier: GPL-2.0-or-later
// See observe_rules.h.
#include "plugin/job_submit/observe_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "base/text.h"
#include "planner/models/readers.h"
#include "planner/requests/build_request.h"
#include "request/launchers.h"
#include "request/script_training.h"

namespace arena {
namespace {

using ShapeOf = QuickEstimate::Shape;

const ShapeOf* least_shape(const std::vector<ShapeOf>& shapes) {
    const auto least =
        std::min_element(shapes.begin(), shapes.end(), [](const ShapeOf& a, const ShapeOf& b) {
            return std::tuple(a.grid.gpus(), a.iteration_s) <
                   std::tuple(b.grid.gpus(), b.iteration_s);
        });
    return least == shapes.end() ? nullptr : &*least;
}

}  // namespace

PlainRequest plain_request(const Request& request, const std::optional<QuickEstimate>& estimate) {
    PlainRequest plain;
    plain.gpus_per_node = std::max<std::int64_t>(request.min_gpus, 1);
    if (!request.gpu_types.empty()) plain.gpu_type = request.gpu_types.front();
    if (const ShapeOf* shape = estimate ? least_shape(estimate->shapes) : nullptr) {
        plain.gpu_type = shape->grid.gpu_type;
        plain.nodes = shape->grid.nodes;
        plain.gpus_per_node = shape->grid.gpus_per_node;
    }
    const Launcher* launcher = find_launcher(request.launcher);
    const bool one_task = launcher != nullptr && launcher->one_task_per_node;
    plain.tasks_per_node = one_task ? 1 : plain.gpus_per_node;
    plain.cpus_per_task = request.cpus_per_gpu * plain.gpus_per_node / plain.tasks_per_node;
    plain.memory_per_node_mb = request.mem_per_gpu_mb * plain.gpus_per_node;
    return plain;
}

std::string advice(const std::optional<QuickEstimate>& estimate, const std::string& gpu_type,
                   std::int64_t gpus) {
    if (!estimate || estimate->shapes.empty()) return {};
    const auto fits = [&](const ShapeOf& shape) {
        return (gpus == 0 || shape.grid.gpus() == gpus) &&
               (gpu_type.empty() || shape.grid.gpu_type == gpu_type);
    };
    const auto& shapes = estimate->shapes;  // best first
    const auto at = std::find_if(shapes.begin(), shapes.end(), fits);
    const ShapeOf& best = at == shapes.end() ? shapes.front() : *at;
    return advice_words(short_form(best.grid), best.plan, best.iteration_s, best.source);
}

std::string observed_note(const std::optional<PlainRequest>& filled, const std::string& advice) {
    std::string note = "arena: Arena only observes on this cluster: Slurm schedules the job";
    if (filled)
        note += fmt::format(
            " with --nodes={} --gres=gpu:{}{}, for it asks for no GPUs; give --gres for others",
            filled->nodes, filled->gpu_type.empty() ? "" : filled->gpu_type + ":",
            filled->gpus_per_node);
    else
        note += " as it asks";
    if (!advice.empty()) note += fmt::format("\narena: advice (ARENA_ADVICE): {}", advice);
    return note;
}

std::string would_refuse_note(const std::string& why) {
    return "arena: Arena only observes on this cluster: Slurm schedules the job as it asks; an "
           "acting Arena would refuse it: " +
           printable(why, 900);
}

std::optional<Request> seen_request(std::string_view script, const std::vector<ModelRule>& rules,
                                    const RuledJob& job) {
    const ScriptTraining training = parse_script_training(script);
    const ModelRule* rule = find_rule(rules, job);
    std::string model = training.model;
    std::int64_t batch = training.batch_on(job.gpus);
    if (rule != nullptr) {
        model = rule->model;
        batch = rule->batch;
    } else if (!training.by_arguments) {
        model = zoo_name_of(training.model);
    }
    if (model.empty() || batch <= 0) return std::nullopt;
    std::vector<Setting> settings{{"model", model}, {"batch", std::to_string(batch)}};
    if (!training.launcher.empty()) settings.emplace_back("launcher", training.launcher);
    Result<Request> request = build_request(settings, {}, {});
    if (!request) return std::nullopt;
    request->user_hold = true;
    return std::move(*request);
}

bool is_other_jobs_variable(std::string_view entry) {
    return entry.starts_with("ARENA_") && is_stale_variable(entry);
}

}  // namespace arena
