// SPDX-License-Identifier: GPL-2.0-or-later
// Rows of the profile store: see rows.h.
#include "store/rows.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "base/text.h"

namespace arena::sql {

std::optional<OpShape> shape_of(const Statement& s, int first) {
    const auto kind = parse_op_kind(s.text(first));
    const auto pass = parse_pass(s.text(first + 1));
    const auto precision = parse_precision(s.text(first + 2));
    if (!kind || !pass || !precision) return {};
    const auto variant = parse_variant(*kind, s.text(first + 7));
    if (!variant) return {};
    OpShape shape{.kind = *kind, .pass = *pass, .precision = *precision, .variant = *variant};
    for (int i = 0; i < 4; ++i) shape.dims[static_cast<std::size_t>(i)] = s.integer(first + 3 + i);
    return shape;
}

bool is_time(double seconds) { return std::isfinite(seconds) && seconds > 0 && seconds <= 3600; }

Result<CommTime> comm_of(const Statement& s) {
    const std::string row =
        fmt::format("row of comm, collective {} of {}, {} ranks x {} nodes x {} groups, {} bytes,",
                    printable(s.text(1), 40), printable(s.text(0), 40), s.integer(2), s.integer(3),
                    s.integer(4), s.integer(5));
    const auto op = parse_comm_op(s.text(1));
    const auto span = parse_comm_span(s.text(9));
    if (!op || !span) return environment_error("is not one that this program knows", row);
    const CommTime time{.gpu_type = s.text(0),
                        .op = *op,
                        .ranks = s.integer(2),
                        .nodes = s.integer(3),
                        .groups = s.integer(4),
                        .bytes = s.integer(5),
                        .min_s = s.number(6),
                        .median_s = s.number(7),
                        .p95_s = s.number(8),
                        .span = *span};
    if (auto good = check_comm_time(time); !good)
        return environment_error("cannot be: " + good.error().text, row);
    return time;
}

namespace {

/// What text_of() wrote.
std::optional<std::vector<JobId>> parse_jobs(const std::string& text) {
    std::vector<JobId> jobs;
    if (text.empty()) return jobs;
    for (const std::string_view item : split(text, ',')) {
        const auto id = parse_integer(item, 0, UINT32_MAX);
        if (!id || jobs.size() == outlier_jobs) return std::nullopt;
        jobs.push_back(static_cast<JobId>(*id));
    }
    return jobs;
}

}  // namespace

Result<ObservedRun> observed_of(const Statement& s) {
    const std::string row = fmt::format("row {} of observed, report of job {} on {},",
                                        s.integer(15), s.integer(13), printable(s.text(4), 40));
    auto plan = parse_plan_json(s.text(8));
    if (!plan) return environment_error("has a plan that cannot be read", row);
    const Grid grid{s.text(4), s.integer(5), s.integer(6), s.integer(7)};
    ObservedRun run{.model_fingerprint = s.text(0),
                    .model_name = s.text(1),
                    .global_batch = s.integer(2),
                    .launcher = s.text(3),
                    .observation = {.grid = grid,
                                    .plan = std::move(*plan),
                                    .iteration_s = s.number(9),
                                    .estimated_s = s.number(10),
                                    .spread = s.number(11)},
                    .steps = s.integer(12),
                    .job = static_cast<JobId>(s.integer(13)),
                    .at_s = s.number(14),
                    .user = s.integer(16),
                    .shared = s.integer(17) != 0};
    auto agreeing = parse_jobs(s.text(18));
    if (!agreeing) return environment_error("names no jobs that agree", row);
    run.agreeing = std::move(*agreeing);
    if (auto good = check_observed(run); !good)
        return environment_error("cannot be: " + good.error().text, row);
    return run;
}

std::string text_of(const std::vector<JobId>& jobs) {
    return fmt::format("{}", fmt::join(jobs, ","));
}

std::string told(const Error& row) { return row.where + " " + row.text; }

Error bad_row(const std::string& path, const std::string& what) {
    return environment_error(
        what + "; `arena profile verify` names every bad row, with --remove it removes them", path);
}

Status check_observed(const ObservedRun& run) {
    const Observation& o = run.observation;
    if (!is_usable(o)) return usage_error("observed times must be positive and finite");
    if (!std::isfinite(o.spread) || o.spread < 0) return usage_error("spread must be 0 or more");
    if (run.global_batch < 1 || o.grid.nodes < 1 || o.grid.gpus_per_node < 1 || o.grid.stages < 1)
        return usage_error("batch, nodes, GPUs per node and stages must be at least 1");
    if (o.plan.gpus() != o.grid.gpus() || o.plan.pp() != o.grid.stages)
        return usage_error(fmt::format("the plan {} does not fill the grid {} of {} stages",
                                       short_form(o.plan), short_form(o.grid), o.grid.stages));
    return Done{};
}

}  // namespace arena::sql
