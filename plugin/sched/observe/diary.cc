// SPDX-License-Identifier: GPL-2.0-or-later
// See diary.h.
#include "plugin/sched/observe/diary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace arena {
namespace {

constexpr std::size_t most_diary_bytes = 4096;

Json run_json(const DiaryRun& run) {
    return {
        {"start_s", run.start_s}, {"end_s", run.end_s}, {"grid", run.grid}, {"gpu_s", run.gpu_s}};
}

void read_run(const JsonFields& line, const char* key, DiaryRun& run, std::optional<Error>& error) {
    const Json* json = line.object(key);
    if (json == nullptr) return;
    const JsonFields fields(*json, key, error);
    fields.number("start_s", run.start_s, 0, 1e12);
    fields.number("end_s", run.end_s, 0, 1e12);
    fields.text("grid", run.grid, 128);
    fields.number("gpu_s", run.gpu_s, 0, 1e15);
}

}  // namespace

std::string words_of(const DiaryLine& line, double now_s, double plan_s) {
    const DiaryRun &actual = line.actual, &planned = line.planned;
    const std::string on = planned.grid.empty() ? std::string() : "on " + planned.grid;
    const std::string slurms = actual.grid.empty() || actual.grid == planned.grid
                                   ? std::string()
                                   : fmt::format(" (Slurm: {})", actual.grid);
    if (planned.start_s == 0)
        return actual.start_s == 0 || plan_s < actual.start_s
                   ? std::string()
                   : fmt::format("would have waited {} longer at least{}",
                                 human_seconds(plan_s - actual.start_s), slurms);
    if (actual.start_s == 0)
        return fmt::format("would have started {} ago {}; Slurm has it wait",
                           human_seconds(std::max(now_s - planned.start_s, 0.0)), on);
    const double earlier_s = actual.start_s - planned.start_s;
    if (std::abs(earlier_s) < same_start_s)
        return fmt::format("would have started at the same time {}{}", on, slurms);
    return fmt::format("would have started {} {} {}{}", human_seconds(std::abs(earlier_s)),
                       earlier_s > 0 ? "earlier" : "later", on, slurms);
}

Json to_json(const DiaryLine& line) {
    return {{"job", line.job},
            {"uid", line.uid},
            {"name", line.name},
            {"account", line.account},
            {"partition", line.partition},
            {"as_if", line.as_if},
            {"eligible_s", line.eligible_s},
            {"actual", run_json(line.actual)},
            {"planned", run_json(line.planned)},
            {"moves", line.moves}};
}

std::string format_diary_line(const DiaryLine& line) { return dump_json(to_json(line)); }

Result<DiaryLine> parse_diary_line(std::string_view text) {
    const auto json = parse_json(text, {.bytes = most_diary_bytes, .depth = 3});
    if (!json) return json.error();
    DiaryLine line;
    std::int64_t job = 0, uid = 0;
    std::optional<Error> error;
    const JsonFields fields(*json, "", error);
    fields.integer("job", job, 1, UINT32_MAX);
    fields.integer("uid", uid, 0, UINT32_MAX);
    fields.text("name", line.name, 256);
    fields.text("account", line.account, 256);
    fields.text("partition", line.partition, 1024);
    fields.boolean("as_if", line.as_if);
    fields.number("eligible_s", line.eligible_s, 0, 1e12);
    fields.integer("moves", line.moves, 0, 1000000);
    read_run(fields, "actual", line.actual, error);
    read_run(fields, "planned", line.planned, error);
    if (error) return *error;
    line.job = static_cast<JobId>(job);
    line.uid = static_cast<std::uint32_t>(uid);
    return line;
}

void DiaryTotals::add(const DiaryLine& line) {
    ++jobs;
    as_if += line.as_if;
    moves += line.moves;
    const double earlier_s = line.actual.start_s - line.planned.start_s;
    earlier += earlier_s >= same_start_s;
    later += earlier_s <= -same_start_s;
    wait_actual_s += std::max(line.actual.start_s - line.eligible_s, 0.0);
    wait_planned_s += std::max(line.planned.start_s - line.eligible_s, 0.0);
    jct_actual_s += std::max(line.actual.end_s - line.eligible_s, 0.0);
    jct_planned_s += std::max(line.planned.end_s - line.eligible_s, 0.0);
    gpu_actual_s += line.actual.gpu_s;
    gpu_planned_s += line.planned.gpu_s;
}

Json to_json(const DiaryTotals& totals) {
    return {{"jobs", totals.jobs},
            {"as_if", totals.as_if},
            {"earlier", totals.earlier},
            {"later", totals.later},
            {"moves", totals.moves},
            {"wait_s", {{"actual", totals.wait_actual_s}, {"planned", totals.wait_planned_s}}},
            {"jct_s", {{"actual", totals.jct_actual_s}, {"planned", totals.jct_planned_s}}},
            {"gpu_s", {{"actual", totals.gpu_actual_s}, {"planned", totals.gpu_planned_s}}}};
}

void Diary::add(DiaryLine line) {
    totals_.add(line);
    lines_.push_back(std::move(line));
    if (lines_.size() > most_lines) lines_.pop_front();
}

std::string Diary::recall() {
    return file_.read([this](std::string_view text) {
        if (auto line = parse_diary_line(text)) add(std::move(line).value());
    });
}

Status Diary::write(DiaryLine line) {
    const Status kept = file_.append({format_diary_line(line)});
    add(std::move(line));
    return kept;
}

}  // namespace arena
