// SPDX-License-Identifier: GPL-2.0-or-later
#include "tests/lab/slowdown/kinds.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <set>

#include "base/text.h"
#include "base/user_file.h"

namespace arena::cli {
namespace {

constexpr std::size_t most_bytes = std::size_t{256} << 20;
constexpr std::size_t most_header = 4096;

using Words = std::set<std::string, std::less<>>;

void add_keys(const Json& object, Words& words) {
    for (const auto& [key, value] : object.items()) words.insert(key);
}

Words words_of(const SlowdownFile& file) {
    Words words;
    if (file.json.is_object()) {
        add_keys(file.json, words);
        for (const auto& [key, value] : file.json.items())
            if (value.is_array() && !value.empty() && value.front().is_object())
                add_keys(value.front(), words);
        return words;
    }
    const std::string_view text = file.text;
    for (const std::string_view column : split(text.substr(0, text.find('\n')), ','))
        words.emplace(trim(column));
    return words;
}

Result<SlowdownFile> read_file(const std::string& path) {
    Result<std::string> text = read_user_file(path, most_bytes);
    if (!text) return text.error();
    SlowdownFile file{.path = path, .text = std::move(*text), .json = {}};
    if (!trim(std::string_view(file.text).substr(0, most_header)).starts_with('{')) return file;
    auto json = parse_json(file.text, {.bytes = most_bytes});
    if (!json) return usage_error(json.error().text, path + ":" + json.error().where);
    file.json = std::move(*json);
    return file;
}

struct Told {
    const SlowdownKind* kind = nullptr;
    const SlowdownKind::Part* part = nullptr;
};

Told tell(const SlowdownFile& file) {
    const Words words = words_of(file);
    for (const SlowdownKind& kind : slowdown_kinds())
        for (const auto& part : kind.parts)
            if (std::all_of(part.words.begin(), part.words.end(),
                            [&](std::string_view word) { return words.contains(word); }))
                return {&kind, &part};
    return {};
}

Error unknown_kind(const std::string& path) {
    std::vector<std::string> known;
    for (const SlowdownKind& kind : slowdown_kinds())
        known.push_back(fmt::format("{} ({})", kind.name, fmt::join(kind.parts[0].words, ", ")));
    return usage_error("neither columns nor keys are those of a known kind: " + join(known, "; "),
                       path);
}

std::string stem_of(const std::string& path, std::string_view suffix) {
    return path.ends_with(suffix) ? path.substr(0, path.size() - suffix.size()) : path;
}

/// The problem that lacks this part: of the same name, else any of the kind.
SlowdownProblem& problem_for(std::vector<SlowdownProblem>& problems, const Told& told,
                             const std::string& stem) {
    SlowdownProblem* other = nullptr;
    for (SlowdownProblem& problem : problems) {
        if (problem.kind != told.kind || problem.files.has(told.part->role)) continue;
        if (problem.stem == stem) return problem;
        if (!other) other = &problem;
    }
    if (other) return *other;
    problems.push_back({told.kind, stem, {}});
    return problems.back();
}

Status read_beside(SlowdownProblem& problem) {
    for (const auto& part : problem.kind->parts) {
        const std::string path = problem.stem + std::string(part.suffix);
        if (problem.files.has(part.role) || ::access(path.c_str(), R_OK) != 0) continue;
        Result<SlowdownFile> file = read_file(path);
        if (!file) return file.error();
        if (tell(*file).part == &part) problem.files.put(part.role, std::move(*file));
    }
    return Done{};
}

}  // namespace

void SlowdownReport::expect(const std::string& name, bool passed, const Json& got,
                            const Json& want) {
    ++cases;
    if (!passed) failed.push_back({{"case", name}, {"got", got}, {"want", want}});
}

std::span<const SlowdownKind> slowdown_kinds() {
    static const std::vector<SlowdownKind> all{
        detection_kind(),  period_kind(),        pattern_kind(),  estimates_kind(),
        candidates_kind(), timeline_kind(),      schedule_kind(), benchmarks_kind(),
        passes_kind(),     micro_batches_kind(), roles_kind(),    ski_rental_kind(),
    };
    return all;
}

Result<std::vector<SlowdownProblem>> read_slowdown_files(const std::vector<std::string>& paths,
                                                         bool beside) {
    std::vector<SlowdownProblem> problems;
    for (const std::string& path : paths) {
        Result<SlowdownFile> file = read_file(path);
        if (!file) return file.error();
        const Told told = tell(*file);
        if (!told.kind) return unknown_kind(path);
        problem_for(problems, told, stem_of(path, told.part->suffix))
            .files.put(told.part->role, std::move(*file));
    }
    for (SlowdownProblem& problem : problems) {
        if (!beside) continue;
        if (const Status status = read_beside(problem); !status) return status.error();
    }
    return problems;
}

const SlowdownKind::Part* missing_part(const SlowdownProblem& problem) {
    for (const auto& part : problem.kind->parts)
        if (part.is_needed && !problem.files.has(part.role)) return &part;
    return nullptr;
}

}  // namespace arena::cli
