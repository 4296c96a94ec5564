// SPDX-License-Identifier: GPL-2.0-or-later
// `arena doctor`: the cluster's GPUs and what arena.yaml says they are; nodes that are out of work
// because of us.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/text.h"
#include "cli/doctor/doctor_parts.h"
#include "planner/hardware/card_names.h"
#include "planner/hardware/hardware.h"

namespace arena::cli {
namespace {

std::vector<std::string> gpu_types_of(std::string_view field) {
    std::set<std::string> types;
    for (const std::string_view gres : split(field, ',')) {
        const auto parts = split(gres.substr(0, gres.find('(')), ':');
        if (parts.front() == "gpu") types.emplace(parts.size() > 2 ? parts[1] : std::string_view());
    }
    return {types.begin(), types.end()};
}

void read_node_field(SlurmNode& node, std::string_view word) {
    const auto value = [&](std::string_view key) { return std::string(word.substr(key.size())); };
    if (word.starts_with("NodeHostName=")) node.host = value("NodeHostName=");
    if (word.starts_with("State=")) node.state = value("State=");
    if (word.starts_with("Gres=")) node.gpu_types = gpu_types_of(word.substr(5));
    if (word.starts_with("Partitions="))
        for (const std::string_view name : split(word.substr(11), ','))
            node.partitions.emplace_back(name);
}

/// The type's line in the map, which is made where there is none; slurmctld then reads it.
Remedy map_type(const Facts& facts, const std::string& type, const std::string& entry) {
    const std::string file = shell_word(facts.config_path);
    const bool has_map = !facts.config->gpu_types.empty();
    const std::string add =
        has_map ? fmt::format("sed -i '/^gpu_types:/a\\  {}: {}' {}", type, entry, file)
                : fmt::format("printf 'gpu_types:\\n  {}: {}\\n' >>{}", type, entry, file);
    return {add, "arena config check", apply_command(Apply::reconfigure)};
}

Finding check_unmapped(const Facts& facts, const std::string& type) {
    const auto entries =
        facts.hardware ? hardware_like(*facts.hardware, type) : std::vector<std::string>();
    const std::string text = "has no hardware entry and is never offered";
    if (entries.empty())
        return fail("gpu:" + type,
                    text + "; name an entry of hardware.yaml for it under gpu_types in " +
                        facts.config_path);
    const std::string choice =
        entries.size() > 1 ? "; which of " + join(entries, ", ") + " is it? If the first:" : "";
    return fail("gpu:" + type, text + choice, map_type(facts, type, entries.front()));
}

Finding check_type(const Facts& facts, const std::string& type) {
    if (type.empty())
        return fail("gpu",
                    "a node has GPUs without a type, which are never offered; give them a Type in "
                    "gres.conf and "
                    "in Gres= of the node");
    const std::string* hardware = hardware_of(*facts.config, type);
    if (hardware == nullptr) return check_unmapped(facts, type);
    if (!facts.hardware) return skip("gpu:" + type, *hardware);
    const auto entry = find_hardware(*facts.hardware, *hardware);
    if (!entry) return fail("gpu:" + type, entry.error().message());
    return ok("gpu:" + type,
              entry->emulated ? entry->name + " (emulated by this CPU)" : entry->name);
}

bool is_out(const SlurmNode& node) {
    for (const char* word : {"DRAIN", "DOWN", "INVAL", "FAIL", "NOT_RESPONDING"})
        if (node.state.find(word) != std::string::npos) return true;
    return node.state.ends_with('*');
}

}  // namespace

std::vector<SlurmNode> parse_nodes(std::string_view text) {
    std::vector<SlurmNode> nodes;
    for (const std::string_view whole : split(text, '\n')) {
        const std::string_view line = trim(whole);
        if (line.starts_with("Reason=") && !nodes.empty()) {
            nodes.back().reason = std::string(line.substr(7, line.find(" [") - 7));
            continue;
        }
        for (const std::string_view word : split(line, ' ')) {
            if (word.starts_with("NodeName=")) nodes.emplace_back().name = word.substr(9);
            if (!nodes.empty()) read_node_field(nodes.back(), word);
        }
    }
    return nodes;
}

std::vector<Finding> check_gres(const Facts& facts) {
    if (!facts.config) return {};
    if (!facts.nodes) return {skip("GPU types", facts.nodes.error().message())};
    std::set<std::string> types;
    for (const SlurmNode& node : *facts.nodes)
        types.insert(node.gpu_types.begin(), node.gpu_types.end());
    if (types.empty())
        return {fail("GPU types",
                     "no node has a GPU: Gres=gpu:TYPE:COUNT is missing in its NodeName line")};
    std::vector<Finding> found;
    for (const std::string& type : types) found.push_back(check_type(facts, type));
    return found;
}

/// Nodes with GPUs that take no job. One whose Prolog failed goes on when that is mended and it is
/// resumed.
std::vector<Finding> check_nodes(const Facts& facts) {
    if (!facts.nodes) return {};
    std::vector<Finding> found;
    for (const SlurmNode& node : *facts.nodes) {
        if (node.gpu_types.empty() || !is_out(node)) continue;
        const std::string text = fmt::format(
            "{}: {}", node.state, node.reason.empty() ? "no reason" : printable(node.reason));
        const bool prolog = node.reason.find("rolog") != std::string::npos;
        const Remedy resume{fmt::format("scontrol update NodeName={} State=RESUME", node.name)};
        found.push_back(prolog ? fail("node " + node.name, text, resume)
                               : warn("node " + node.name, text));
    }
    if (found.empty() && !facts.nodes->empty())
        found.push_back(ok("nodes", "none with GPUs is down or drained"));
    return found;
}

}  // namespace arena::cli
