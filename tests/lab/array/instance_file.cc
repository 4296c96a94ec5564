// SPDX-License-Identifier: GPL-2.0-or-later
#include "tests/lab/array/instance_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"
#include "base/text.h"

namespace arena::array {

namespace {

using Fault = std::optional<Error>;

/// Rows of times. A null or absent table stays empty.
void read_table(const JsonFields& fields, const char* key, StageTimes::Table& table) {
    if (!fields.has(key)) return;
    const Json* rows = fields.list(key, most_jobs);
    if (rows == nullptr) return;
    for (const Json& row : *rows) {
        if (!row.is_array() || row.size() > most_stages)
            return fields.refuse(key, "a list of lists of times, one list for each job");
        auto& times = table.emplace_back();
        for (const Json& time : row) {
            const bool fits = time.is_number_integer() && time >= 0 && time <= most_ticks;
            if (!fits)
                return fields.refuse(key, fmt::format("whole numbers from 0 to {}", most_ticks));
            times.push_back(time.get<Ticks>());
        }
    }
}

void read_devices(const JsonFields& fields, std::vector<int>& device_of_stage) {
    std::int64_t stages = 0;
    std::vector<std::int64_t> devices;
    if (fields.has("device_of_stage")) {
        fields.integers("device_of_stage", devices, 0, most_stages - 1, most_stages);
    } else {
        fields.integer("stages", stages, 1, most_stages);
        for (std::int64_t s = 0; s < stages; ++s) devices.push_back(s);
    }
    for (const std::int64_t device : devices) device_of_stage.push_back(static_cast<int>(device));
}

/// A number that the file says besides, and that must agree.
void check_count(const JsonFields& fields, const char* key, std::size_t count) {
    std::int64_t said = static_cast<std::int64_t>(count);
    if (fields.has(key)) fields.integer(key, said, 1, most_blocks);
    if (fields.ok() && said != static_cast<std::int64_t>(count))
        fields.refuse(key, fmt::format("{}, as the tables have", count));
}

Result<Instance> read_stages(const JsonFields& fields, std::string name, const std::string& where,
                             Fault& fault) {
    StageTimes times;
    read_devices(fields, times.device_of_stage);
    const std::pair<const char*, StageTimes::Table*> tables[] = {
        {"fp", &times.forward},
        {"bp", &times.backward},
        {"recompute", &times.recompute},
        {"update", &times.update},
        {"switch", &times.setup},
        {"comm_fwd", &times.transfer_forward},
        {"comm_bwd", &times.transfer_backward}};
    for (const auto& [key, table] : tables) read_table(fields, key, *table);
    if (fields.ok() && times.forward.empty()) fields.refuse("fp", "the forward times of each job");
    check_count(fields, "jobs", times.forward.size());
    check_count(fields, "stages", times.device_of_stage.size());
    if (fault) return *fault;
    auto instance = make_instance(std::move(name), times);
    if (!instance) return usage_error(instance.error().message(), where);
    return instance;
}

bool read_step(const Json& step, RouteStep& out) {
    if (!step.is_array() || step.size() != 2) return false;
    for (const Json& number : step)
        if (!number.is_number_integer() || number < 0 || number > most_ticks) return false;
    out = {step[0].get<int>(), step[1].get<Ticks>()};
    return true;
}

Result<Instance> read_routes(const JsonFields& fields, std::string name, const std::string& where,
                             Fault& fault) {
    std::vector<std::vector<RouteStep>> routes;
    const char* shape = "for each job a list of [device, time]";
    int devices = 0;
    const Json* list = fields.list("routes", most_jobs);
    if (list == nullptr) return *fault;
    for (const Json& one : *list) {
        auto& route = routes.emplace_back();
        if (!one.is_array() || one.size() > most_stages) fields.refuse("routes", shape);
        for (std::size_t i = 0; fields.ok() && i < one.size(); ++i) {
            if (!read_step(one[i], route.emplace_back())) fields.refuse("routes", shape);
            devices = std::max(devices, 1 + std::min(route.back().device, 1 << 20));
        }
        if (fault) return *fault;
    }
    std::int64_t said = std::max(devices, 1);
    if (fields.has("devices")) fields.integer("devices", said, 1, most_stages);
    check_count(fields, "jobs", routes.size());
    if (fault) return *fault;
    auto instance = make_job_shop(std::move(name), static_cast<int>(said), routes);
    if (!instance) return usage_error(instance.error().message(), where);
    return instance;
}

void read_answer(const JsonFields& fields, const char* key, std::optional<Ticks>& out) {
    if (!fields.has(key)) return;
    std::int64_t value = 0;
    fields.integer(key, value, KnownAnswers::infeasible, most_ticks);
    out = static_cast<Ticks>(value);
}

void read_in_flight(const JsonFields& fields, KnownAnswers& known) {
    if (!fields.has("physical_inflight_cap")) return;
    const Json* caps = fields.object("physical_inflight_cap");
    if (caps == nullptr) return;
    for (const auto& [key, value] : caps->items()) {
        const auto cap = parse_integer(key, 1, most_blocks);
        const bool fits =
            value.is_number_integer() && value >= KnownAnswers::infeasible && value <= most_ticks;
        if (!cap || !fits)
            return fields.refuse("physical_inflight_cap",
                                 "caps with makespans, -1 where infeasible");
        known.in_flight[static_cast<int>(*cap)] = value.get<Ticks>();
    }
}

KnownAnswers read_known(const JsonFields& fields, const std::string& where, Fault& fault) {
    KnownAnswers known;
    read_answer(fields, "lower_bound", known.lower_bound);
    read_answer(fields, "list_rule_bp_first_longest", known.list_rule);
    read_answer(fields, "best_found_here", known.best_found);
    read_answer(fields, "authors_ga_makespan", known.authors);
    read_answer(fields, "authors_ga_generations", known.authors_generations);
    if (fields.has("best_known")) {
        if (const Json* object = fields.object("best_known"))
            read_answer({*object, where + ".best_known", fault}, "physical", known.best_found);
    }
    if (!fields.has("optimal")) return known;
    const Json* object = fields.object("optimal");
    if (object == nullptr) return known;
    const JsonFields optimal(*object, where + ".optimal", fault);
    read_answer(optimal, "physical", known.physical);
    read_answer(optimal, "literal", known.literal);
    read_answer(optimal, "fp_first_physical", known.forward_first);
    read_in_flight(optimal, known);
    return known;
}

bool read_placed(const Json& one, PlacedBlock& out) {
    if (!one.is_array() || one.size() != 4 || !one[2].is_string()) return false;
    for (const std::size_t i : {0U, 1U, 3U})
        if (!one[i].is_number_integer() || one[i] < -most_ticks || one[i] > most_ticks)
            return false;
    const auto& direction = one[2].get_ref<const std::string&>();
    if (direction != "F" && direction != "B") return false;
    out = {one[0].get<int>(), one[1].get<int>(), direction == "B", one[3].get<std::int64_t>()};
    return true;
}

void read_schedule(const JsonFields& fields, const char* key, KnownSchedule schedule,
                   std::vector<KnownSchedule>& out) {
    if (!fields.has(key)) return;
    const Json* list = fields.list(key, most_blocks);
    if (list == nullptr) return;
    for (const Json& one : *list)
        if (!read_placed(one, schedule.blocks.emplace_back()))
            return fields.refuse(key, "blocks as [job, stage, \"F\" or \"B\", start]");
    out.push_back(std::move(schedule));
}

/// Of the one that `arena-lab array solve --json` writes.
Rules read_rules(const JsonFields& fields) {
    Rules rules;
    std::int64_t cap = 0;
    if (fields.has("forward_first")) fields.boolean("forward_first", rules.forward_first);
    if (fields.has("in_flight_cap")) fields.integer("in_flight_cap", cap, 0, most_blocks);
    rules.in_flight_cap = static_cast<int>(cap);
    return rules;
}

std::optional<Convention> parse_convention(std::string_view word) {
    if (word == "physical") return Convention::physical;
    if (word == "literal") return Convention::literal;
    return std::nullopt;
}

std::vector<KnownSchedule> read_schedules(const JsonFields& fields) {
    std::vector<KnownSchedule> schedules;
    read_schedule(fields, "optimal_schedule_physical", {Convention::physical, {}, {}}, schedules);
    read_schedule(fields, "optimal_schedule_literal", {Convention::literal, {}, {}}, schedules);
    Convention convention = Convention::physical;
    if (fields.has("convention"))
        fields.word("convention", convention, parse_convention, "physical or literal");
    if (fields.has("schedule"))
        read_schedule(fields, "schedule", {convention, read_rules(fields), {}}, schedules);
    return schedules;
}

Result<ArrayCase> read_case(const Json& value, const std::string& where) {
    Fault fault;
    const JsonFields fields(value, where, fault);
    std::string name;
    if (fields.has("name")) fields.text("name", name);
    if (fault) return *fault;
    auto instance = fields.has("routes") ? read_routes(fields, name, where, fault)
                                         : read_stages(fields, name, where, fault);
    if (!instance) return instance.error();
    ArrayCase one{
        {}, std::move(*instance), read_known(fields, where, fault), read_schedules(fields)};
    if (fault) return *fault;
    return one;
}

Result<NamedSchedule> read_named(const Json& value, const std::string& where) {
    Fault fault;
    const JsonFields fields(value, where, fault);
    NamedSchedule named;
    if (fields.has("name")) fields.text("name", named.name);
    if (fault) return *fault;
    if (!fields.has("schedule")) fields.refuse("schedule", "a list of blocks");
    auto schedules = read_schedules(fields);
    if (fault) return *fault;
    named.schedule = std::move(schedules.back());
    return named;
}

/// Of the document, or of each of its `instances`.
template <typename T>
Result<std::vector<T>> read_all(const Json& document, const std::string& where,
                                Result<T> (*read)(const Json&, const std::string&)) {
    Fault fault;
    const JsonFields fields(document, where, fault);
    std::vector<T> all;
    if (fault) return *fault;
    if (!fields.has("instances")) {
        auto one = read(document, where);
        if (!one) return one.error();
        all.push_back(std::move(*one));
        return all;
    }
    const Json* list = fields.list("instances", most_instances);
    if (list == nullptr) return *fault;
    for (std::size_t i = 0; i < list->size(); ++i) {
        auto one = read((*list)[i], fmt::format("{}: instances[{}]", where, i));
        if (!one) return one.error();
        all.push_back(std::move(*one));
    }
    return all;
}

}  // namespace

Result<std::vector<ArrayCase>> parse_array_instance(std::string_view text, std::string_view where) {
    const auto document = parse_json(text);
    if (!document) return usage_error(document.error().message(), std::string(where));
    Fault fault;
    const JsonFields fields(*document, std::string(where), fault);
    std::string kind = "japsp";
    if (fields.has("class")) fields.text("class", kind);
    if (fields.ok() && kind != "japsp" && kind != "jobshop" && kind != "japsp-large")
        fields.refuse("class", "japsp, jobshop or japsp-large");
    if (fault) return *fault;
    auto cases = read_all<ArrayCase>(*document, std::string(where), read_case);
    if (!cases) return cases.error();
    for (ArrayCase& one : *cases) one.kind = kind;
    return cases;
}

Result<std::vector<NamedSchedule>> parse_array_schedule(std::string_view text,
                                                        std::string_view where) {
    const auto document = parse_json(text);
    if (!document) return usage_error(document.error().message(), std::string(where));
    return read_all<NamedSchedule>(*document, std::string(where), read_named);
}

Instance under(const Instance& instance, Convention convention) {
    Instance other = instance;
    if (convention == Convention::literal)
        for (Block& block : other.blocks) {
            block.hold += block.setup;
            block.setup = 0;
        }
    return other;
}

}  // namespace arena::array
