// SPDX-License-Identifier: GPL-2.0-or-later
// See steps_limit_rules.h.
#include "plugin/job_submit/steps_limit_rules.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/count_text.h"
#include "base/text.h"
#include "plugin/common/steps_limit.h"
#include "plugin/job_submit/submit_line.h"

namespace arena {
namespace {

/// Seconds of an iteration by the slowest plan that the job may be given; nothing where that is not
/// known of each GPU type that it may have.
std::optional<double> slowest_iteration_s(const Request& request, const QuickEstimate& estimate,
                                          const SubmitFacts& facts, const ClusterFacts& cluster,
                                          const SiteFacts& site) {
    const auto shapes = possible_shapes(request, estimate, facts.tmp_mb, cluster, site);
    if (shapes.empty()) return std::nullopt;
    for (const TypePool& pool : pools_for(request, facts.tmp_mb, cluster, site))
        if (!estimate.complete &&
            std::none_of(shapes.begin(), shapes.end(),
                         [&](const auto* shape) { return shape->grid.gpu_type == pool.type(); }))
            return std::nullopt;
    double slowest_s = 0;
    for (const QuickEstimate::Shape* shape : shapes)
        slowest_s = std::max(slowest_s, shape->iteration_s);
    return slowest_s;
}

RestartCost restart_cost(const Config& config) {
    return {config.restart_checkpoint_s, config.restart_per_gpu_s, config.restart_launch_cap_s};
}

std::string longer_words(std::int64_t limit_s) {
    return limit_s > 0 ? "--time of " + human_seconds(static_cast<double>(limit_s))
                       : "no time limit";
}

}  // namespace

StepsLimit limit_by_steps(const Request& request, const std::optional<QuickEstimate>& estimate,
                          const SubmitFacts& facts, const ClusterFacts& cluster,
                          const SiteFacts& site) {
    StepsLimit limit;
    const bool by_order = site.config.policy == "arena" && site.config.order == "priority";
    if (request.steps == 0 || !by_order || request.array) return limit;
    const std::string steps =
        grouped(request.steps) + (request.steps == 1 ? " iteration" : " iterations");
    const auto slowest_s =
        estimate ? slowest_iteration_s(request, *estimate, facts, cluster, site) : std::nullopt;
    if (!slowest_s) {
        limit.note = fmt::format(
            "arena: the time of {} is not known yet: the job's place goes by its "
            "limit where that is longer than twice that time",
            steps);
        return limit;
    }
    const std::int64_t minutes =
        minutes_for_steps(request.steps, *slowest_s, seconds_on_top(restart_cost(site.config)));
    const bool longer = facts.limit_s == 0 || facts.limit_s > 60 * minutes;
    limit.iteration_s = *slowest_s;
    if (!longer) return limit;
    if (facts.limit_given) {
        limit.note = fmt::format(
            "arena: {} is longer than the {} for {}: the job's place goes by "
            "its limit; --time={} or less to be placed by its steps",
            longer_words(facts.limit_s), counted(minutes, "minute"), steps, minutes);
        return limit;
    }
    limit.minutes = minutes;
    limit.note = fmt::format(
        "arena: the time limit is {}, twice the time of {} on the slowest "
        "GPUs that the job may have; a longer --time is kept, and its place "
        "goes by that",
        counted(minutes, "minute"), steps);
    return limit;
}

}  // namespace arena
