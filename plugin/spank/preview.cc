// SPDX-License-Identifier: GPL-2.0-or-later
// See preview.h.
#include "plugin/spank/preview.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>

#include "base/text.h"
#include "ipc/child.h"
#include "ipc/incoming.h"
#include "planner/hardware/hardware.h"
#include "planner/requests/plan_query.h"
#include "planner/requests/would_fit.h"
#include "plugin/common/quick_estimate.h"
#include "site/config.h"

namespace arena {
namespace {

constexpr std::size_t most_bytes = std::size_t{16} << 20;

struct TypeTotal {
    std::int64_t per_node = 0, gpus = 0;
};

std::map<std::string, TypeTotal> totals(const std::vector<NodeGpus>& nodes) {
    std::map<std::string, TypeTotal> found;
    for (const NodeGpus& node : nodes) {
        TypeTotal& total = found[node.type];
        total.per_node = std::max(total.per_node, node.count);
        total.gpus += node.count;
    }
    return found;
}

// ---- the child ---------------------------------------------------------------------------------

void write_all(int fd, std::string_view text) {
    while (!text.empty()) {
        const ssize_t n = ::write(fd, text.data(), text.size());
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return;
        text.remove_prefix(static_cast<std::size_t>(n));
    }
}

/// A line for each query that has any.
void tell_what_would_fit(const std::vector<PlanQuery>& queries, int fd) {
    PlanBudget budget;  // whoever waits ends us
    for (const PlanQuery& query : queries) {
        QuickEstimate none;
        none.would_fit = what_would_fit(query, budget);
        write_all(fd, format_estimate(none) + "\n");
    }
}

/// One line of offers for each query as soon as it is planned; where none has any, others follow.
int plan_in_child(const std::vector<PlanQuery>& queries, int fd) {
    bool has_offers = false;
    for (const PlanQuery& query : queries) {
        std::vector<GridResult> grids = plan_grids(query);
        const std::string none = why_none(grids);
        QuickEstimate estimate = quick_estimate(offers_of(std::move(grids)), true);
        if (estimate.shapes.empty()) estimate.none = none;
        write_all(fd, format_estimate(estimate) + "\n");
        has_offers = has_offers || !estimate.shapes.empty();
    }
    if (!has_offers) tell_what_would_fit(queries, fd);
    return 0;
}

/// What it said until it ended or time was up. Out of memory, it ends: what was planned before
/// counts.
std::string lines_of_child(const std::vector<PlanQuery>& queries, std::chrono::milliseconds limit) {
    const auto until = Child::Clock::now() + limit;
    auto child = start_copy({.out = Stream::pipe}, [&](const CopyEnds& ends) {
        return plan_in_child(queries, ends.out.get());
    });
    if (!child) return {};
    Incoming lines{std::move(child->out), {}};
    read_to_end({&lines, 1}, until, most_bytes);
    return std::move(lines.text);
}

}  // namespace

std::vector<PlanQuery> preview_queries(const Request& request, const std::vector<NodeGpus>& nodes) {
    const auto config = load_config(config_path());
    if (!config) return {};
    const auto hardware = load_hardware(config->hardware_file);
    const auto calibration = load_calibration(config->calibration_file);
    if (!hardware || !calibration) return {};
    std::vector<PlanQuery> queries;
    for (const auto& [type, total] : totals(nodes)) {
        const std::string* name = hardware_of(*config, type);
        if (name == nullptr || !allows_type(request, type)) continue;
        const auto entry = find_hardware(*hardware, *name);
        if (!entry) continue;
        GpuPool pool;
        pool.gpu_type = type;
        pool.hardware = *entry;
        pool.gpus_per_node = total.per_node;
        pool.max_gpus = total.gpus;
        pool.framework = request.launcher;
        pool.constants = calibration->constants(entry->name, request.launcher);
        queries.push_back(plan_query(request, {std::move(pool)}));
    }
    std::stable_sort(queries.begin(), queries.end(), [](const PlanQuery& a, const PlanQuery& b) {
        return a.max_gpus < b.max_gpus;
    });
    return queries;
}

std::string preview(const std::vector<PlanQuery>& queries, std::chrono::milliseconds limit) {
    if (queries.empty()) return {};
    const std::string text = lines_of_child(queries, limit);
    std::vector<QuickEstimate::Shape> shapes;
    std::vector<std::string> would_fit, none;
    std::size_t done = 0;
    for (std::string_view rest = text; rest.find('\n') != std::string_view::npos; ++done) {
        const std::size_t end = rest.find('\n');
        if (const auto part = parse_estimate(rest.substr(0, end))) {
            shapes.insert(shapes.end(), part->shapes.begin(), part->shapes.end());
            for (const std::string& name : part->would_fit)
                if (std::find(would_fit.begin(), would_fit.end(), name) == would_fit.end())
                    would_fit.push_back(name);
            if (!part->none.empty()) none.push_back(part->none);
        }
        rest.remove_prefix(end + 1);
    }
    std::stable_sort(shapes.begin(), shapes.end(),
                     [](const auto& a, const auto& b) { return a.iteration_s < b.iteration_s; });
    keep_most_shapes(shapes);
    const bool complete = done >= queries.size();
    return format_estimate({complete, std::move(shapes), std::move(would_fit),
                            complete ? join(none, "; ") : std::string()});
}

}  // namespace arena
