// SPDX-License-Identifier: GPL-2.0-or-later
// JSON of a repeatable decision: see replay.h.
#include "policy/replay.h"

#include "core/json.h"

namespace arena {
namespace {

void read_options(const JsonFields& fields, PolicyOptions& out) {
    if (fields.has("reserve_depth")) fields.integer("reserve_depth", out.reserve_depth, 0, 1000000);
    if (fields.has("seed")) fields.unsigned_integer("seed", out.seed, UINT64_MAX);
}

void read_replay(const JsonFields& fields, std::optional<Error>& error, Replay& out) {
    std::int64_t version = 0;
    fields.integer("schema_version", version, 1, 1);
    if (const Json* json = fields.any("snapshot")) read(*json, "snapshot", error, out.snapshot);
    if (const Json* json = fields.any("offers")) read(*json, "offers", error, out.offers);
    if (!fields.has("options")) return;
    if (const Json* json = fields.any("options")) {
        read_options(JsonFields(*json, "options", error), out.options);
    }
}

}  // namespace

std::string to_json(const Replay& replay) {
    return dump_json({{"schema_version", 1},
                      {"snapshot", json_of(replay.snapshot)},
                      {"offers", json_of(replay.offers)},
                      {"options",
                       {{"reserve_depth", replay.options.reserve_depth},
                        {"seed", replay.options.seed}}}});
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
