// SPDX-License-Identifier: GPL-2.0-or-later
// Answers to a slowdown: the split of micro-batches (S2), roles in the grid (S3), and when each
// strategy is due (ski rental).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "core/limits.h"
#include "slowdown/micro_batches.h"
#include "slowdown/roles.h"
#include "slowdown/ski_rental.h"
#include "tests/lab/slowdown/kinds.h"

namespace arena::cli {
namespace {

using slowdown::DetectorOptions;

constexpr std::size_t most_cases = 100'000, most_items = 10'000'000;
constexpr double most = 1e15, tolerance = 1e-6;

bool is_near(double own, double known) {
    return std::abs(own - known) <= tolerance * (1 + std::abs(known));
}

/// One case of a list: what a file says, and what it is called.
struct Case {
    const JsonFields& fields;
    std::string name;
};

/// Calls `each` with every object of the list; its error, or the first of a field.
Status each_case(const SlowdownFile& file, const char* list,
                 const std::function<Status(const Case&)>& each) {
    std::optional<Error> error;
    const JsonFields fields(file.json, file.path, error);
    const Json* cases = fields.list(list, most_cases);
    for (std::size_t i = 0; cases && i < cases->size() && !error; ++i) {
        const JsonFields one((*cases)[i], fmt::format("{}.{}[{}]", file.path, list, i), error);
        std::string name = fmt::format("{}[{}]", list, i);
        if (one.has("name")) one.text("name", name);
        if (error) break;
        if (const Status status = each({one, name}); !status) return status;
    }
    if (error) return *error;
    return Done{};
}

/// A number in the known answer; the file has none: an error.
double known_number(const Case& one, const char* key) {
    double value = 0;
    if (!one.fields.has(key))
        one.fields.refuse(key, "the known answer is needed to evaluate");
    else
        one.fields.number(key, value, 0, most);
    return value;
}

std::vector<double> numbers(const JsonFields& fields, const char* key) {
    std::vector<double> values;
    const Json* list = fields.list(key, most_items);
    for (std::size_t i = 0; list && i < list->size(); ++i) {
        const Json& value = (*list)[i];
        if (!value.is_number() || !std::isfinite(value.get<double>())) {
            fields.refuse(key, "a list of finite numbers");
            break;
        }
        values.push_back(value.get<double>());
    }
    return values;
}

// ---- S2 ----------------------------------------------------------------------------------------

Result<slowdown::MicroBatchSplit> split(const Case& one) {
    std::int64_t micro_batches = 0, stages = 1;
    one.fields.integer("micro_batches", micro_batches, 1, slowdown::most_micro_batches);
    if (one.fields.has("stages")) one.fields.integer("stages", stages, 1, limits::gpus);
    const auto times = numbers(one.fields, "micro_batch_time");
    if (!one.fields.ok()) return slowdown::MicroBatchSplit{};  // each_case() has the error
    auto own = slowdown::split_micro_batches(times, micro_batches, stages);
    if (!own) return usage_error(own.error().message(), one.name);
    return own;
}

Status evaluate_split(const SlowdownFiles& files, const DetectorOptions&, SlowdownReport& report) {
    return each_case(files.at("cases"), "cases", [&](const Case& one) -> Status {
        const auto own = split(one);
        if (!own) return own.error();
        const double known = known_number(one, "min_max_value");
        if (one.fields.ok()) report.expect(one.name, is_near(own->value, known), own->value, known);
        return Done{};
    });
}

Result<SlowdownAnswer> solve_split(const SlowdownFiles& files, const DetectorOptions&) {
    SlowdownAnswer answer{.columns = {"name", "min_max_value", "min_max_plan"}, .rows = {}};
    answer.json["cases"] = Json::array();
    const Status status = each_case(files.at("cases"), "cases", [&](const Case& one) -> Status {
        const auto own = split(one);
        if (!own) return own.error();
        answer.json["cases"].push_back(
            {{"name", one.name}, {"min_max_plan", own->counts}, {"min_max_value", own->value}});
        answer.rows.push_back({one.name, fmt::format("{:.6g}", own->value),
                               fmt::format("{}", fmt::join(own->counts, ","))});
        return Done{};
    });
    if (!status) return status.error();
    return answer;
}

// ---- S3 ----------------------------------------------------------------------------------------

struct Placing {
    double before = 0;  ///< cost of the places as they are
    slowdown::PlacedRoles plan;
};

Status set_links(const JsonFields& fields, slowdown::LinkTable& links) {
    const Json* slow = fields.list("slow_links", most_items);
    for (std::size_t i = 0; slow && i < slow->size(); ++i) {
        const Json& link = (*slow)[i];
        const bool is_link = link.is_array() && link.size() == 3 && link[0].is_number_unsigned() &&
                             link[1].is_number_unsigned() && link[2].is_number();
        if (!is_link || link[0].get<std::size_t>() >= links.nodes() ||
            link[1].get<std::size_t>() >= links.nodes() || !(link[2].get<double>() > 0))
            return usage_error("a slow link is [node, node, bandwidth above 0]",
                               fields.path("slow_links"));
        links.set(link[0].get<std::size_t>(), link[1].get<std::size_t>(), {link[2].get<double>()});
    }
    return Done{};
}

Result<Placing> place(const Case& one) {
    std::int64_t replicas = 1, stages = 1;
    slowdown::RoleGrid grid;
    one.fields.integer("dp", replicas, 1, slowdown::most_grid_nodes);
    one.fields.integer("pp", stages, 1, slowdown::most_grid_nodes);
    one.fields.number("gradient_GB", grid.gradient, 0, most);
    one.fields.number("activation_GB_per_microbatch", grid.activation, 0, most);
    one.fields.number("microbatches", grid.micro_batches, 0, most);
    if (!one.fields.ok()) return Placing{};  // each_case() has the error
    if (replicas * stages > static_cast<std::int64_t>(slowdown::most_grid_nodes))
        return usage_error(fmt::format("more than {} nodes", slowdown::most_grid_nodes), one.name);
    grid.replicas = static_cast<std::size_t>(replicas);
    grid.stages = static_cast<std::size_t>(stages);
    slowdown::LinkTable links(grid.nodes());
    if (const Status status = set_links(one.fields, links); !status) return status.error();
    slowdown::Placement now(grid.nodes());
    std::iota(now.begin(), now.end(), std::size_t{0});
    auto plan = slowdown::place_roles(grid, links, now);
    if (!plan) return usage_error(plan.error().message(), one.name);
    return Placing{slowdown::communication_cost(grid, links, now), std::move(*plan)};
}

/// As good as the best single swap; how near to the best of all stands in metrics.
Status evaluate_roles(const SlowdownFiles& files, const DetectorOptions&, SlowdownReport& report) {
    double worst = 1;
    const auto each = [&](const Case& one) -> Status {
        const auto own = place(one);
        if (!own) return own.error();
        const double known = known_number(one, "best_single_swap_cost");
        double best = known, before = own->before;
        if (one.fields.has("best_cost")) one.fields.number("best_cost", best, 0, most);
        if (one.fields.has("cost_before")) one.fields.number("cost_before", before, 0, most);
        if (!one.fields.ok()) return Done{};
        const bool is_good =
            own->plan.cost <= known + tolerance * (1 + known) && is_near(own->before, before);
        report.expect(one.name, is_good, {{"cost", own->plan.cost}, {"cost_before", own->before}},
                      {{"cost", fmt::format("<= {}", known)}, {"cost_before", before}});
        if (best > 0) worst = std::max(worst, own->plan.cost / best);
        return Done{};
    };
    const Status status = each_case(files.at("instances"), "instances", each);
    report.metrics["worst_over_best"] = worst;
    return status;
}

Result<SlowdownAnswer> solve_roles(const SlowdownFiles& files, const DetectorOptions&) {
    SlowdownAnswer answer{.columns = {"name", "cost_before", "cost", "moved", "permutation"},
                          .rows = {}};
    answer.json["instances"] = Json::array();
    const auto each = [&](const Case& one) -> Status {
        const auto own = place(one);
        if (!own) return own.error();
        answer.json["instances"].push_back({{"name", one.name},
                                            {"cost_before", own->before},
                                            {"cost", own->plan.cost},
                                            {"moved", own->plan.moved},
                                            {"permutation", own->plan.at}});
        answer.rows.push_back({one.name, fmt::format("{:.6g}", own->before),
                               fmt::format("{:.6g}", own->plan.cost),
                               fmt::format("{:.6g}", own->plan.moved),
                               fmt::format("{}", fmt::join(own->plan.at, ","))});
        return Done{};
    };
    if (const Status status = each_case(files.at("instances"), "instances", each); !status)
        return status.error();
    return answer;
}

// ---- ski rental
// ----------------------------------------------------------------------------------

Result<std::vector<slowdown::Priced>> prices(const JsonFields& fields) {
    std::vector<slowdown::Priced> priced;
    const Json* overheads = fields.object("overheads_s");
    if (!overheads) return priced;
    for (const auto& [name, overhead] : overheads->items()) {
        const auto strategy = slowdown::parse_strategy(name);
        if (!strategy || !overhead.is_number())
            return usage_error("strategies are S2, S3 and S4, each with seconds",
                               fields.path("overheads_s"));
        priced.push_back({*strategy, overhead.get<double>()});
    }
    return priced;
}

Result<Json> rent(const Case& one) {
    double healthy_s = 0;
    one.fields.number("healthy_s", healthy_s, 0, most);
    const auto times = numbers(one.fields, "iter_times_s");
    const auto priced = prices(one.fields);
    if (!priced) return priced.error();
    Json fires = Json::array();
    if (!one.fields.ok()) return fires;  // each_case() has the error
    auto event = slowdown::SkiRental::begin(healthy_s, *priced);
    if (!event) return usage_error(event.error().message(), one.name);
    for (std::size_t i = 0; i < times.size(); ++i) {
        const auto due = event->iteration(times[i]);
        if (!due) return usage_error(due.error().message(), one.name);
        for (const auto strategy : *due)
            fires.push_back({{"iteration", i},
                             {"strategy", slowdown::name(strategy)},
                             {"accumulated_s", event->lost_s()}});
    }
    return fires;
}

/// The same strategies at the same iterations; the loss within 1e-6.
bool is_same(const Json& own, const Json& known) {
    if (own.size() != known.size()) return false;
    for (std::size_t i = 0; i < own.size(); ++i) {
        const Json& fire = known[i];
        if (!fire.is_object() || fire.value("iteration", Json()) != own[i]["iteration"] ||
            fire.value("strategy", Json()) != own[i]["strategy"])
            return false;
        const Json lost = fire.value("accumulated_s", Json());
        if (lost.is_number() && !is_near(own[i]["accumulated_s"], lost.get<double>())) return false;
    }
    return true;
}

Status evaluate_rental(const SlowdownFiles& files, const DetectorOptions&, SlowdownReport& report) {
    constexpr const char* key = "expected_fires_if_no_strategy_helps";
    return each_case(files.at("cases"), "cases", [&](const Case& one) -> Status {
        const auto own = rent(one);
        if (!own) return own.error();
        const Json* known = one.fields.list(key, most_cases);
        if (!known) {
            one.fields.refuse(key, "the known answer is needed to evaluate");
            return Done{};
        }
        report.expect(one.name, is_same(*own, *known), *own, *known);
        return Done{};
    });
}

Result<SlowdownAnswer> solve_rental(const SlowdownFiles& files, const DetectorOptions&) {
    SlowdownAnswer answer{.columns = {"name", "iteration", "strategy", "accumulated_s"},
                          .rows = {}};
    answer.json["cases"] = Json::array();
    const Status status = each_case(files.at("cases"), "cases", [&](const Case& one) -> Status {
        const auto own = rent(one);
        if (!own) return own.error();
        answer.json["cases"].push_back({{"name", one.name}, {"fires", *own}});
        for (const Json& fire : *own)
            answer.rows.push_back({one.name, fmt::format("{}", fire["iteration"].get<int>()),
                                   fire["strategy"].get<std::string>(),
                                   fmt::format("{:.6g}", fire["accumulated_s"].get<double>())});
        return Done{};
    });
    if (!status) return status.error();
    return answer;
}

}  // namespace

SlowdownKind micro_batches_kind() {
    return {.name = "micro-batches",
            .command = "mitigate",
            .parts = {{"cases", {"cases", "micro_batch_time", "micro_batches"}, ".json"}},
            .evaluate = evaluate_split,
            .solve = solve_split};
}

SlowdownKind roles_kind() {
    return {.name = "roles",
            .command = "mitigate",
            .parts = {{"instances", {"instances", "dp", "pp", "slow_links"}, ".json"}},
            .evaluate = evaluate_roles,
            .solve = solve_roles};
}

SlowdownKind ski_rental_kind() {
    return {.name = "ski-rental",
            .command = "mitigate",
            .parts = {{"cases", {"cases", "healthy_s", "iter_times_s", "overheads_s"}, ".json"}},
            .evaluate = evaluate_rental,
            .solve = solve_rental};
}

}  // namespace arena::cli
