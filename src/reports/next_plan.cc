// SPDX-License-Identifier: GPL-2.0-or-later
// See next_plan.h.
#include "reports/next_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"
#include "base/text.h"

namespace arena {
namespace {

constexpr std::size_t max_ask_bytes = 128, max_answer_bytes = std::size_t{64} << 10;
constexpr std::string_view answer_prefix = "arena next ";

bool is_id(std::string_view text) {
    return !text.empty() && text.size() <= 32 &&
           text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

/// One that a shell may be given, of Arena's and Slurm's own.
bool is_variable(std::string_view name) {
    const bool ours = name.starts_with("ARENA_") || name.starts_with("SLURM_");
    return ours && name.size() <= 64 && std::all_of(name.begin(), name.end(), [](char c) {
               return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
           });
}

bool read_number(std::string_view text, std::uint32_t& out) {
    const auto number = parse_integer(text, 0, UINT32_MAX);
    if (number) out = static_cast<std::uint32_t>(*number);
    return number.has_value();
}

}  // namespace

Result<NextAsk> parse_next_ask(std::string_view text) {
    const Error wrong = usage_error("is not \"arena:next;life=N;plan=N;id=HEX\"", "Comment");
    if (text.size() > max_ask_bytes || !text.starts_with(ask_prefix)) return wrong;
    const auto words = split(text.substr(ask_prefix.size()), ';');
    NextAsk ask;
    const auto value = [&](std::size_t at, std::string_view key) {
        return at < words.size() && words[at].starts_with(key) ? words[at].substr(key.size())
                                                               : std::string_view();
    };
    ask.id = value(2, "id=");
    if (words.size() != 3 || !read_number(value(0, "life="), ask.life) ||
        !read_number(value(1, "plan="), ask.plan) || !is_id(ask.id))
        return wrong;
    return ask;
}

std::string format_next_ask(const NextAsk& ask) {
    return fmt::format("{}life={};plan={};id={}", ask_prefix, ask.life, ask.plan, ask.id);
}

Result<NextAnswer> parse_next_answer(std::string_view text) {
    const Error wrong = no_error("is no answer of Arena's");
    if (text.size() > max_answer_bytes || !text.starts_with(answer_prefix)) return wrong;
    const auto json = parse_json(text.substr(answer_prefix.size()));
    if (!json) return json.error();
    if (!json->is_object() || !json->contains("id") || !(*json)["id"].is_string() ||
        !json->contains("variables") || !(*json)["variables"].is_object())
        return wrong;
    NextAnswer answer{.id = (*json)["id"].get<std::string>(), .variables = {}};
    if (!is_id(answer.id)) return wrong;
    for (const auto& [name, value] : (*json)["variables"].items()) {
        if (!is_variable(name) || !value.is_string()) return wrong;
        answer.variables.emplace_back(name, value.get<std::string>());
    }
    return answer;
}

std::string format_next_answer(const NextAnswer& answer) {
    Json variables = Json::object();
    for (const auto& [name, value] : answer.variables) variables[name] = value;
    return std::string(answer_prefix) +
           dump_json({{"id", answer.id}, {"variables", std::move(variables)}});
}

}  // namespace arena
