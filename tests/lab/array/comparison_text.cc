// SPDX-License-Identifier: GPL-2.0-or-later
#include "tests/lab/array/comparison_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "cli/common/wrap.h"

namespace arena::cli {
namespace {

/// Less training time than each, of its genetic algorithm on one server, and what its simulation
/// says of each axis (INFOCOM'25, section VI), in percent.
struct Reported {
    PipelineKind over;
    double percent;
};
constexpr Reported reported[] = {
    {PipelineKind::hanayo, 32.1}, {PipelineKind::gpipe, 48.4}, {PipelineKind::one_f_one_b, 50.1}};
struct ReportedValue {
    const char *axis, *value, *words;
};
constexpr ReportedValue reported_values[] = {
    {"servers", "1", "39.1 % less"},
    {"servers", "2", "43.7 % less"},
    {"servers", "4", "48.9 % less"},
    {"servers", "8", "62.9 % less"},
    {"stages", "4", "19.2 % less than Hanayo"},
    {"stages", "16", "57.5 % less than Hanayo"},
    {"memory", "40 GiB", "29 % slower than 80 GiB; 4 of GPT-2-xl together"},
    {"memory", "80 GiB", "19 of GPT-2-xl together"},
    {"bandwidth", "32 GB/s", "49.9 % slower than NVLink"}};

std::size_t at(PipelineKind kind) { return static_cast<std::size_t>(kind); }

/// How much less time in percent; nothing where one of both is not possible.
std::optional<double> saving(const CompareRow& way, const CompareRow& over) {
    if (!way.possible || !over.possible) return std::nullopt;
    return 100 * (1 - way.time.seconds / over.time.seconds);
}

template <typename Way, typename Over>
std::optional<double> mean(const std::vector<ComparedCell>& cells, Way way, Over over) {
    double sum = 0;
    int count = 0;
    for (const ComparedCell& cell : cells)
        if (const auto one = saving(way(cell.all), over(cell.all))) sum += *one, ++count;
    return count > 0 ? std::optional(sum / count) : std::nullopt;
}

const CompareRow& array_of(const Comparison& all) { return all.array; }
auto plain_of(PipelineKind kind) {
    return [kind](const Comparison& all) -> const CompareRow& { return all.plain[at(kind)]; };
}
auto with_array_of(PipelineKind kind) {
    return [kind](const Comparison& all) -> const CompareRow& { return all.with_array[at(kind)]; };
}

std::string percent(const std::optional<double>& value) {
    return value ? fmt::format("{:.1f} %", *value) : "-";
}

std::vector<const CompareRow*> rows_of(const Comparison& all) {
    std::vector<const CompareRow*> rows{&all.model_parallel};
    for (const CompareRow& row : all.plain) rows.push_back(&row);
    for (const CompareRow& row : all.with_array) rows.push_back(&row);
    for (const CompareRow* row :
         {&all.array, &all.without_memory_manager, &all.without_prefetch, &all.alone})
        rows.push_back(row);
    return rows;
}

Json json_of(const CompareRow& row) {
    Json json{{"way", row.way}, {"array", row.is_array}, {"possible", row.possible}};
    json["reason"] = row.reason;
    if (!row.possible) return json;
    json["seconds"] = row.time.seconds;
    json["micro_batches"] = row.micro_batches;
    json["recomputes"] = row.recomputes;
    json["together"] = row.together;
    json["buffers"] = row.buffers;
    json["forward"] = row.time.forward;
    json["backward"] = row.time.backward;
    json["overhead"] = row.time.overhead;
    json["bubble"] = row.time.bubble;
    return json;
}

Json json_of(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

std::vector<std::string> cells_of(const CompareRow& row, double first_s) {
    if (!row.possible) {
        std::vector<std::string> cells(10);
        cells[0] = row.way;
        cells[9] = row.reason;
        return cells;
    }
    const auto share = [](double part) { return fmt::format("{:.0f}", 100 * part); };
    const bool alone = row.time.forward <= 0;  // its devices' time is not told apart
    return {row.way,
            human_seconds(row.time.seconds),
            fmt::format("{:.2f}", first_s / row.time.seconds),
            fmt::format("{}", row.micro_batches),
            fmt::format("{}", row.together),
            alone ? "" : share(row.time.forward),
            alone ? "" : share(row.time.backward),
            alone ? "" : share(row.time.overhead),
            alone ? "" : share(row.time.bubble),
            fmt::format("{}{}", row.recomputes ? "recomputes" : "",
                        row.buffers > 0 ? fmt::format("{}{} states on a device",
                                                      row.recomputes ? ", " : "", row.buffers)
                                        : "")};
}

}  // namespace

Json json_of(const ComparedCell& cell) {
    Json rows = Json::array();
    for (const CompareRow* row : rows_of(cell.all)) rows.push_back(json_of(*row));
    return {{"model", cell.model}, {"batch", cell.batch}, {"ways", rows}};
}

double mean_saving(const std::vector<ComparedCell>& cells, PipelineKind kind) {
    return mean(cells, with_array_of(kind), plain_of(kind)).value_or(0);
}

Json json_of(const ComparedSetting& setting) {
    Json cells = Json::array(), savings = Json::object();
    for (const ComparedCell& cell : setting.cells) cells.push_back(json_of(cell));
    for (const PipelineKind kind : all_pipeline_kinds) {
        Json one{
            {"array", json_of(mean(setting.cells, array_of, plain_of(kind)))},
            {"same_with_array", json_of(mean(setting.cells, with_array_of(kind), plain_of(kind)))},
            {"reported", nullptr}};
        for (const Reported& r : reported)
            if (r.over == kind) one["reported"] = r.percent;
        savings[std::string(words_of(kind))] = std::move(one);
    }
    Json said = nullptr;
    for (const ReportedValue& one : reported_values)
        if (setting.axis == one.axis && setting.value == one.value) said = one.words;
    return {{"axis", setting.axis},
            {"value", setting.value},
            {"reported", said},
            {"saving_percent", savings},
            {"cells", cells}};
}

void print_cell(const ComparedCell& cell) {
    fmt::print("\n{}, batch {}\n", cell.model, cell.batch);
    Table table({{"way"},
                 {"time", true},
                 {"speed", true},
                 {"micro-batches", true},
                 {"to-gether", true},
                 {"forward %", true},
                 {"back-ward %", true},
                 {"over-head %", true},
                 {"bubble %", true},
                 {"memory", false, Wide::below}});
    const double first_s = cell.all.model_parallel.time.seconds;
    for (const CompareRow* row : rows_of(cell.all)) table.add(cells_of(*row, first_s));
    fmt::print("{}", table.text());
}

void print_savings(const ComparedSetting& setting) {
    fmt::print("\nLess time than without an array, mean of {} tables\n", setting.cells.size());
    Table table(
        {{"over"}, {"the same with array", true}, {"ArrayPipe", true}, {"its authors", true}});
    for (const PipelineKind kind : all_pipeline_kinds) {
        std::string theirs = "-";
        for (const Reported& r : reported)
            if (r.over == kind) theirs = fmt::format("{:.1f} %", r.percent);
        table.add({std::string(words_of(kind)),
                   percent(mean(setting.cells, with_array_of(kind), plain_of(kind))),
                   percent(mean(setting.cells, array_of, plain_of(kind))), theirs});
    }
    fmt::print("{}", table.text());
}

void print_axis(const std::vector<ComparedSetting>& settings) {
    std::vector<Table::Column> columns{{settings.front().axis}};
    for (const PipelineKind kind : all_pipeline_kinds)
        columns.push_back({std::string(words_of(kind)), true});
    columns.push_back({"time", true});
    columns.push_back({"the authors say"});
    Table table(columns);
    fmt::print("\nHow much less time ArrayPipe takes than each, mean over models and batches\n");
    for (const ComparedSetting& setting : settings) {
        std::vector<std::string> row{setting.value};
        for (const PipelineKind kind : all_pipeline_kinds)
            row.push_back(percent(mean(setting.cells, array_of, plain_of(kind))));
        double seconds = 0;
        for (const ComparedCell& cell : setting.cells) seconds += cell.all.array.time.seconds;
        row.push_back(human_seconds(seconds));
        row.emplace_back("-");
        for (const ReportedValue& one : reported_values)
            if (setting.axis == one.axis && setting.value == one.value) row.back() = one.words;
        table.add(std::move(row));
    }
    fmt::print("{}", table.text());
}

}  // namespace arena::cli
