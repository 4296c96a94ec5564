// SPDX-License-Identifier: GPL-2.0-or-later
// See boot_file.h.
#include "plugin/sched/nodes/boot_file.h"

#include <array>
#include <optional>
#include <utility>

#include "base/json.h"

namespace arena {
namespace {

constexpr std::size_t most_nodes = 100000;  // Slurm has at most 65,533
constexpr double latest_s = 1e12;

constexpr std::array<std::pair<const char*, double BootBook::Seen::*>, 4> times{
    {{"took_s", &BootBook::Seen::took_s},
     {"failed_s", &BootBook::Seen::failed_s},
     {"asleep_s", &BootBook::Seen::asleep_s},
     {"waking_s", &BootBook::Seen::waking_s}}};

void read_node(const Json& value, const std::string& where, std::optional<Error>& error,
               BootBook::Kept& out) {
    const JsonFields fields(value, where, error);
    std::string name;
    BootBook::Seen seen;
    fields.text("node", name);
    for (const auto& [key, time] : times)
        if (fields.has(key)) fields.number(key, seen.*time, 0, latest_s);
    if (!error) out[std::move(name)] = seen;
}

}  // namespace

std::string format_boots(const BootBook::Kept& kept) {
    Json nodes = Json::array();
    for (const auto& [name, seen] : kept) {
        Json node{{"node", name}};
        for (const auto& [key, time] : times)
            if (seen.*time > 0) node[key] = seen.*time;
        nodes.push_back(std::move(node));
    }
    return dump_json({{"schema_version", 1}, {"nodes", std::move(nodes)}}) + "\n";
}

Result<BootBook::Kept> parse_boots(std::string_view text) {
    const auto json = parse_json(text, {.depth = 4});
    if (!json) return json.error();
    std::optional<Error> error;
    const JsonFields fields(*json, "", error);
    std::int64_t version = 0;
    BootBook::Kept out;
    fields.integer("schema_version", version, 1, 1);
    const Json* list = fields.list("nodes", most_nodes);
    for (std::size_t i = 0; !error && i < list->size(); ++i)
        read_node((*list)[i], "nodes[" + std::to_string(i) + "]", error, out);
    if (error) return *error;
    return out;
}

}  // namespace arena
