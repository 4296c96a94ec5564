// SPDX-License-Identifier: GPL-2.0-or-later
#include "train/members/frames.h"

#include <fmt/format.h>

#include <optional>

#include "base/json.h"
#include "core/limits.h"

namespace arena::train {
namespace {

constexpr std::size_t longest_path = 4096, longest_text = 4096, longest_facts = 8192;
constexpr std::int64_t most_steps = std::int64_t{1} << 30, most_width = std::int64_t{1} << 22;

/// Where a letter of several bytes is cut through, what stands for it is longer by two.
std::string cut(const std::string& text) { return text.substr(0, longest_text - 2); }

// ---- writing -----------------------------------------------------------------------------------

Json json_of(const MemberJoin& join) {
    const MemberOptions& o = join.options;
    const OptimizerOptions& adam = o.optimizer;
    return {{"type", "join"},
            {"version", 1},
            {"member", o.member},
            {"layers", o.shape.layers},
            {"hidden", o.shape.hidden},
            {"heads", o.shape.heads},
            {"ffn", o.shape.ffn},
            {"vocab", o.shape.vocab},
            {"seq", o.shape.seq},
            {"tied", o.shape.tied},
            {"rate", adam.rate},
            {"beta1", adam.beta1},
            {"beta2", adam.beta2},
            {"epsilon", adam.epsilon},
            {"decay", adam.decay},
            {"clip", adam.clip},
            {"warmup_steps", adam.warmup_steps},
            {"batch", o.batch},
            {"data", o.data},
            {"token_bytes", static_cast<int>(o.width)},
            {"seed", o.seed},
            {"steps", o.steps},
            {"checkpoints", o.checkpoints},
            {"save_every", o.save_every},
            {"requeue_code", o.requeue_code}};
}
Json json_of(const MemberLeave&) { return Json::object({{"type", "leave"}}); }
Json json_of(const MemberPong&) { return Json::object({{"type", "pong"}}); }
Json json_of(const MemberLine& line) {
    return {{"type", "line"},
            {"text", cut(line.text)},
            {"facts", line.facts.size() > longest_facts ? "" : line.facts}};
}
Json json_of(const MemberExit& exit) {
    return {{"type", "exit"}, {"code", exit.code}, {"why", cut(exit.why)}};
}
Json json_of(const MemberPing&) { return Json::object({{"type", "ping"}}); }

// ---- reading -----------------------------------------------------------------------------------

void read_shape(const JsonFields& f, GptShape& s) {
    f.integer("layers", s.layers, 1, limits::gpus);
    f.integer("hidden", s.hidden, 1, most_width);
    f.integer("heads", s.heads, 1, limits::gpus);
    f.integer("ffn", s.ffn, 1, most_width);
    f.integer("vocab", s.vocab, 1, limits::tokens);
    f.integer("seq", s.seq, 1, limits::tokens);
    f.boolean("tied", s.tied);
}

void read_optimizer(const JsonFields& f, OptimizerOptions& o) {
    const auto number = [&](const char* key, float& out, double max) {
        double value = static_cast<double>(out);
        f.number(key, value, 0, max);
        out = static_cast<float>(value);
    };
    number("rate", o.rate, 1e3);
    number("beta1", o.beta1, 1);
    number("beta2", o.beta2, 1);
    number("epsilon", o.epsilon, 1);
    number("decay", o.decay, 1e3);
    number("clip", o.clip, 1e9);
    f.integer("warmup_steps", o.warmup_steps, 0, most_steps);
}

void read_path(const JsonFields& f, const char* key, std::string& out, bool may_be_none) {
    f.text(key, out, longest_path);
    if (f.ok() && !out.starts_with('/') && !(may_be_none && out.empty()))
        f.refuse(key, "an absolute path");
}

MemberJoin read_join(const JsonFields& f) {
    MemberOptions o;
    std::int64_t version = 0, width = 0, requeue = o.requeue_code;
    f.integer("version", version, 1, 1);
    f.integer("member", o.member, 0, most_steps);
    read_shape(f, o.shape);
    read_optimizer(f, o.optimizer);
    f.integer("batch", o.batch, 1, limits::batch);
    read_path(f, "data", o.data, false);
    f.integer("token_bytes", width, 1, 4);
    if (f.ok() && width == 3) f.refuse("token_bytes", "1, 2 or 4");
    f.unsigned_integer("seed", o.seed, UINT64_MAX);
    f.integer("steps", o.steps, 0, most_steps);
    read_path(f, "checkpoints", o.checkpoints, true);
    f.integer("save_every", o.save_every, 0, limits::batch);
    f.integer("requeue_code", requeue, 1, 255);
    if (f.ok() && (o.shape.hidden % o.shape.heads != 0)) f.refuse("heads", "a divisor of hidden");
    o.width = static_cast<TokenWidth>(width);
    o.requeue_code = static_cast<int>(requeue);
    return {std::move(o)};
}

MemberLine read_line(const JsonFields& f, std::optional<Error>& error) {
    MemberLine line;
    f.text("text", line.text, longest_text);
    f.text("facts", line.facts, longest_facts);
    if (line.facts.empty() || error) return line;
    const auto facts = parse_json(line.facts, {.bytes = longest_facts, .depth = 8});
    if (!facts || !facts->is_object()) f.refuse("facts", "a JSON object as text");
    return line;
}

MemberExit read_exit(const JsonFields& f) {
    std::int64_t code = 0;
    MemberExit exit;
    f.integer("code", code, 0, 255);
    f.text("why", exit.why, longest_text);
    exit.code = static_cast<int>(code);
    return exit;
}

}  // namespace

std::string format_array_frame(const ArrayFrame& frame) {
    return dump_json(std::visit([](const auto& one) { return json_of(one); }, frame));
}

Result<ArrayFrame> parse_array_frame(std::string_view text) {
    const auto json = parse_json(text, {.bytes = longest_array_frame, .depth = 2});
    if (!json) return json.error();
    std::optional<Error> error;
    const JsonFields f(*json, "", error);
    std::string type;
    f.text("type", type, 16);
    ArrayFrame frame;
    if (type == "join")
        frame = read_join(f);
    else if (type == "leave")
        frame = MemberLeave{};
    else if (type == "pong")
        frame = MemberPong{};
    else if (type == "line")
        frame = read_line(f, error);
    else if (type == "exit")
        frame = read_exit(f);
    else if (type == "ping")
        frame = MemberPing{};
    else
        f.refuse("type", "join, leave, pong, line, exit or ping");
    if (error) return *error;
    return frame;
}

}  // namespace arena::train
