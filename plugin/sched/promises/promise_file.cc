// SPDX-License-Identifier: GPL-2.0-or-later
// See promise_file.h.
#include "plugin/sched/promises/promise_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "base/json.h"
#include "core/limits.h"

namespace arena {
namespace {

constexpr std::size_t most_jobs = 1000000;
constexpr double far_s = 1e12, most_iterations = 1e300;

constexpr std::array<std::pair<std::string_view, Departure>, 4> departures{
    {{"", Departure::none},
     {"move", Departure::move},
     {"slow node", Departure::slow_node},
     {"reclaim", Departure::reclaim}}};

std::string_view word_of(Departure by) {
    for (const auto& [word, known] : departures)
        if (known == by) return word;
    return {};
}

/// A file that an earlier version wrote has none of these.
void read_departure(const JsonFields& fields, Promise& promise) {
    std::string by;
    if (fields.has("done")) fields.number("done", promise.done, 0, most_iterations);
    if (!fields.has("left_by")) return;
    fields.text("left_by", by);
    fields.number("left_s", promise.left_s, 0, far_s);
    for (const auto& [word, known] : departures)
        if (word == by) promise.left_by = known;
}

void read_promise(const Json& value, const std::string& where, std::optional<Error>& error,
                  PromiseBook::Kept& out) {
    const JsonFields fields(value, where, error);
    std::int64_t job = 0;
    Promise promise;
    std::vector<std::int64_t> ahead;
    fields.integer("job", job, 1, UINT32_MAX);
    for (const auto& [key, to] : {std::pair("submit_s", &promise.submit_s),
                                  {"given_s", &promise.given_s},
                                  {"start_s", &promise.start_s},
                                  {"end_s", &promise.end_s},
                                  {"due_s", &promise.due_s}})
        fields.number(key, *to, 0, far_s);
    fields.number("iterations", promise.iterations, 0, most_iterations);
    fields.boolean("started", promise.started);
    fields.boolean("broken", promise.broken);
    read_departure(fields, promise);
    if (fields.has("segment")) fields.integer("segment", promise.grid.segment, 1, limits::gpus);
    fields.integers("ahead", ahead, 1, UINT32_MAX, most_jobs);
    const Json* grid = fields.object("grid");
    if (error) return;
    auto parsed = parse_grid_json(grid->dump());
    if (!parsed) {
        error = parsed.error();
        return;
    }
    static_cast<Grid&>(promise.grid) = *std::move(parsed);
    promise.ahead.assign(ahead.begin(), ahead.end());
    // One that may be broken yet counts as kept meanwhile.
    const bool is_away = promise.left_by != Departure::none && !promise.broken;
    out.counts.given += promise.started && !is_away ? 0 : 1;
    out.counts.kept += is_away ? 1 : 0;
    out.promises[static_cast<JobId>(job)] = std::move(promise);
}

}  // namespace

/// Without Json: of a large cluster it has thousands of jobs, and is written within rounds.
std::string format_promises(const PromiseBook::Kept& kept) {
    std::string text =
        fmt::format("{{\"schema_version\":1,\"looked_s\":{},\"promises\":[", kept.looked_s);
    const char* between = "\n";
    for (const auto& [job, p] : kept.promises) {
        text += fmt::format(
            "{}{{\"job\":{},\"submit_s\":{},\"given_s\":{},\"start_s\":{},\"end_s\":{},\"due_s\":{}"
            ",\"iterations\":{},\"done\":{},\"started\":{},\"broken\":{},\"left_by\":\"{}\",\"left_"
            "s\":{}"
            ",\"grid\":{},\"segment\":{},\"ahead\":[{}]}}",
            between, job, p.submit_s, p.given_s, p.start_s, p.end_s, p.due_s, p.iterations, p.done,
            p.started, p.broken, word_of(p.left_by), p.left_s, to_json(p.grid), p.grid.segment,
            fmt::join(p.ahead, ","));
        between = ",\n";
    }
    return text + "]}\n";
}

Result<PromiseBook::Kept> parse_promises(std::string_view text) {
    const auto json = parse_json(text, {.depth = 6});
    if (!json) return json.error();
    std::optional<Error> error;
    const JsonFields fields(*json, "", error);
    std::int64_t version = 0;
    PromiseBook::Kept out;
    fields.integer("schema_version", version, 1, 1);
    fields.number("looked_s", out.looked_s, 0, far_s);
    const Json* list = fields.list("promises", most_jobs);
    for (std::size_t i = 0; !error && i < list->size(); ++i)
        read_promise((*list)[i], "promises[" + std::to_string(i) + "]", error, out);
    if (error) return *error;
    return out;
}

}  // namespace arena
