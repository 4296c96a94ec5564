// SPDX-License-Identifier: GPL-2.0-or-later
// JSON of a repeatable decision: see replay.h.
#include "policy/replay.h"

#include "base/json.h"
#include "core/values_json.h"

namespace arena {
namespace {

void read_shares(const JsonFields& fields, std::optional<Error>& error,
                 std::map<std::string, double>& out) {
    constexpr std::size_t most_accounts = 65536;
    const Json* json = fields.object("shares");
    if (json == nullptr) return;
    if (json->size() > most_accounts) return fields.refuse("shares", "at most 65536 accounts");
    const JsonFields shares(*json, fields.path("shares"), error);
    for (const auto& [account, share] : json->items()) {
        shares.number(account.c_str(), out[account], 1e-6, 1e6);
    }
}

void read_options(const JsonFields& fields, std::optional<Error>& error, PolicyOptions& out) {
    if (fields.has("reserve_depth")) fields.integer("reserve_depth", out.reserve_depth, 0, 1000000);
    if (fields.has("seed")) fields.unsigned_integer("seed", out.seed, UINT64_MAX);
    if (fields.has("checkpoint_s")) fields.number("checkpoint_s", out.restart.checkpoint_s, 0, 1e9);
    if (fields.has("per_gpu_s")) fields.number("per_gpu_s", out.restart.per_gpu_s, 0, 1e9);
    if (fields.has("launch_cap_s")) fields.number("launch_cap_s", out.restart.launch_cap_s, 0, 1e9);
    if (fields.has("objective")) {
        fields.word("objective", out.objective, &parse_objective,
                    "one of jct, throughput, fairness");
    }
    if (fields.has("order"))
        fields.word("order", out.order, &parse_queue_order, "one of priority, value");
    if (fields.has("priority_step")) fields.number("priority_step", out.priority_step, 0, 1);
    if (fields.has("search_steps")) {
        fields.integer("search_steps", out.search_steps, 1, std::int64_t{1} << 40);
    }
    if (fields.has("shares")) read_shares(fields, error, out.shares);
    if (fields.has("window_s")) fields.number("window_s", out.window_s, 0, 1e9);
    if (fields.has("any_layout")) fields.boolean("any_layout", out.any_layout);
    if (fields.has("explain")) fields.boolean("explain", out.explain);
}

void read_replay(const JsonFields& fields, std::optional<Error>& error, Replay& out) {
    std::int64_t version = 0;
    fields.integer("schema_version", version, 1, 1);
    if (const Json* json = fields.any("snapshot")) read(*json, "snapshot", error, out.snapshot);
    if (const Json* json = fields.any("offers")) read(*json, "offers", error, out.offers);
    if (fields.has("policy")) fields.text("policy", out.policy, 64);
    if (!fields.has("options")) return;
    if (const Json* json = fields.any("options")) {
        read_options(JsonFields(*json, "options", error), error, out.options);
    }
}

}  // namespace

std::string to_json(const Replay& replay) {
    Json json({{"schema_version", 1},
               {"snapshot", json_of(replay.snapshot)},
               {"offers", json_of(replay.offers)},
               {"options",
                {{"reserve_depth", replay.options.reserve_depth},
                 {"seed", replay.options.seed},
                 {"checkpoint_s", replay.options.restart.checkpoint_s},
                 {"per_gpu_s", replay.options.restart.per_gpu_s},
                 {"launch_cap_s", replay.options.restart.launch_cap_s},
                 {"objective", to_string(replay.options.objective)},
                 {"order", to_string(replay.options.order)},
                 {"priority_step", replay.options.priority_step},
                 {"search_steps", replay.options.search_steps},
                 {"shares", replay.options.shares},
                 {"window_s", replay.options.window_s},
                 {"any_layout", replay.options.any_layout},
                 {"explain", replay.options.explain}}}});
    if (!replay.policy.empty()) json["policy"] = replay.policy;
    return dump_json(json);
}

Result<Replay> parse_replay(std::string_view text) {
    const Result<Json> json = parse_json(text);
    if (!json) return json.error();
    Replay replay;
    std::optional<Error> error;
    read_replay(JsonFields(*json, "", error), error, replay);
    if (error) return *error;
    return replay;
}

}  // namespace arena
