// SPDX-License-Identifier: GPL-2.0-or-later
// See history_file.h.
#include "plugin/sched/history/history_file.h"

#include <optional>

#include "base/json.h"

namespace arena {
namespace {

constexpr std::size_t most_line_bytes = 4096;

}  // namespace

std::string format_history_line(const HistoryLine& line) {
    Json json{{"t", line.at_s},
              {"job", line.job},
              {"uid", line.uid},
              {"state", line.state},
              {"text", line.text}};
    if (line.used) json.update({{"used", *line.used}, {"account", line.account}});
    if (line.iteration_s > 0) json["iteration_s"] = line.iteration_s;
    if (line.estimate_s > 0) json["estimate_s"] = line.estimate_s;
    return dump_json(json);
}

Result<HistoryLine> parse_history_line(std::string_view text) {
    const auto json = parse_json(text, {.bytes = most_line_bytes, .depth = 2});
    if (!json) return json.error();
    HistoryLine line;
    std::int64_t job = 0, uid = 0;
    std::optional<Error> error;
    const JsonFields fields(*json, "", error);
    fields.number("t", line.at_s, 0, 1e12);
    fields.integer("job", job, 1, UINT32_MAX);
    fields.integer("uid", uid, 0, UINT32_MAX);
    fields.text("state", line.state, 64);
    fields.text("text", line.text, 1024);
    if (fields.has("used")) {
        fields.number("used", line.used.emplace(), 0, 1);
        fields.text("account", line.account, 256);
    }
    if (fields.has("iteration_s")) fields.number("iteration_s", line.iteration_s, 0, 1e9);
    if (fields.has("estimate_s")) fields.number("estimate_s", line.estimate_s, 0, 1e9);
    if (error) return *error;
    line.job = static_cast<JobId>(job);
    line.uid = static_cast<std::uint32_t>(uid);
    return line;
}

std::string HistoryFile::path_beside(const std::string& profile_store) {
    return LineFile::path_beside(profile_store, "history.jsonl");
}

HistoryFile::Read HistoryFile::read() const {
    Read out;
    out.problem = file_.read([&](std::string_view text) {
        auto line = parse_history_line(text);
        if (line)
            out.lines.push_back(std::move(line).value());
        else
            ++out.broken;
    });
    return out;
}

Status HistoryFile::append(const std::vector<HistoryLine>& lines) {
    std::vector<std::string> texts;
    for (const HistoryLine& line : lines) texts.push_back(format_history_line(line));
    return file_.append(texts);
}

}  // namespace arena
