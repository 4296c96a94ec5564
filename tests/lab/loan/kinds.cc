// SPDX-License-Identifier: GPL-2.0-or-later
#include "tests/lab/loan/kinds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "base/user_file.h"

namespace arena::cli {
namespace {

constexpr std::size_t most_bytes = std::size_t{256} << 20, most_cases = 100'000;
constexpr double most = 1e15, tolerance = 1e-6;

/// "jobs.work": of the first of its jobs.
bool has_key(const Json& one, std::string_view key) {
    const std::size_t dot = key.find('.');
    if (dot == std::string_view::npos) return one.contains(key);
    const auto list = one.find(key.substr(0, dot));
    if (list == one.end() || !list->is_array() || list->empty() || !list->front().is_object())
        return false;
    return list->front().contains(key.substr(dot + 1));
}

const LoanKind* tell(const Json& one) {
    for (const LoanKind& kind : loan_kinds())
        if (std::all_of(kind.keys.begin(), kind.keys.end(),
                        [&](std::string_view key) { return has_key(one, key); }))
            return &kind;
    return nullptr;
}

Error unknown_kind(const std::string& path) {
    std::vector<std::string> known;
    for (const LoanKind& kind : loan_kinds())
        known.push_back(fmt::format("{} ({})", kind.name, fmt::join(kind.keys, ", ")));
    return usage_error("the keys of its cases are those of no known kind: " + join(known, "; "),
                       path);
}

}  // namespace

void LoanReport::expect(const std::string& name, bool passed, const Json& got, const Json& want) {
    ++cases;
    if (!passed) failed.push_back({{"case", name}, {"got", got}, {"want", want}});
}

void LoanReport::add(const char* metric, double value) {
    metrics[metric] = metrics.value(metric, 0.0) + value;
}

void LoanReport::most(const char* metric, double value) {
    metrics[metric] = std::max(metrics.value(metric, 0.0), value);
}

std::span<const LoanKind> loan_kinds() {
    static const std::vector<LoanKind> all{reclaim_kind(), knapsack_kind(), two_phase_kind()};
    return all;
}

Result<LoanFile> read_loan_file(const std::string& path) {
    Result<std::string> text = read_user_file(path, most_bytes);
    if (!text) return text.error();
    auto json = parse_json(*text, {.bytes = most_bytes});
    if (!json) return usage_error(json.error().text, path + ":" + json.error().where);
    LoanFile file{.path = path, .kind = nullptr, .json = std::move(*json)};
    const auto cases = file.json.is_object() ? file.json.find("instances") : file.json.end();
    if (cases == file.json.end() || !cases->is_array() || cases->empty() ||
        !cases->front().is_object())
        return usage_error("an object with \"instances\", a list of cases, is needed", path);
    file.kind = tell(cases->front());
    if (!file.kind) return unknown_kind(path);
    return file;
}

Status each_loan_case(const LoanFile& file, Status (*each)(const LoanCase&, void*), void* context) {
    std::optional<Error> error;
    const JsonFields fields(file.json, file.path, error);
    const Json* cases = fields.list("instances", most_cases);
    for (std::size_t i = 0; cases && i < cases->size() && !error; ++i) {
        const Json& json = (*cases)[i];
        const JsonFields one(json, fmt::format("{}.instances[{}]", file.path, i), error);
        std::string name = fmt::format("instances[{}]", i);
        if (one.has("name")) one.text("name", name);
        if (error) break;
        if (const Status status = each({json, one, name}, context); !status) return status;
    }
    if (error) return *error;
    return Done{};
}

double known_number(const LoanCase& one, const char* key) {
    double value = 0;
    if (!one.fields.has(key))
        one.fields.refuse(key, "the known answer, to evaluate,");
    else
        one.fields.number(key, value, 0, most);
    return value;
}

bool is_near(double own, double known) {
    return std::abs(own - known) <= tolerance * std::max(1.0, std::abs(known));
}

}  // namespace arena::cli
