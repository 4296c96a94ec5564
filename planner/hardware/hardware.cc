// SPDX-License-Identifier: GPL-2.0-or-later
// Reads hardware.yaml: one entry per GPU type. A site's own file adds entries or replaces them by
// name; its aliases win over the built-in ones. Rates are data-sheet peaks; a link's `efficiency`
// turns its nominal rate into what collectives reach.
#include "planner/hardware/hardware.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/text.h"
#include "base/yaml.h"
#include "core/limits.h"
#include "installed_paths.h"
#include "planner/hardware/calibration.h"
#include "planner/hardware/card_names.h"

namespace arena {

namespace {

constexpr double gib = 1024.0 * 1024 * 1024;
constexpr std::size_t max_hardware_bytes = 256 * 1024;

/// Typed access to the members of one map; keeps the first error.
class MapReader {
  public:
    MapReader(const YamlNode& map, std::string_view file) : map_(map), file_(file) {}

    double number(std::string_view key, double min, double max,
                  std::optional<double> otherwise = {}) {
        const YamlNode* node = wanted(key, otherwise.has_value());
        if (node == nullptr) return otherwise.value_or(min);
        const Result<double> value = yaml_number(*node, file_, key, min, max);
        if (!value) keep(value.error());
        return value ? *value : min;
    }

    std::int64_t integer(std::string_view key, std::int64_t min, std::int64_t max) {
        const YamlNode* node = wanted(key, false);
        if (node == nullptr) return min;
        const Result<std::int64_t> value = yaml_integer(*node, file_, key, min, max);
        if (!value) keep(value.error());
        return value ? *value : min;
    }

    std::string text(std::string_view key) {
        const YamlNode* node = wanted(key, false);
        if (node == nullptr) return {};
        const Result<std::string> value = yaml_string(*node, file_, key, limits::name_bytes);
        if (!value) keep(value.error());
        return value ? *value : std::string();
    }

    bool boolean(std::string_view key) {
        const YamlNode* node = map_.find(key);
        if (node == nullptr) return false;
        const Result<bool> value = yaml_bool(*node, file_, key);
        if (!value) keep(value.error());
        return value && *value;
    }

    const YamlNode* child(std::string_view key, YamlNode::Kind kind, bool optional = false) {
        const YamlNode* node = wanted(key, optional);
        if (node == nullptr || node->kind == kind) return node;
        keep(usage_error(
            fmt::format("{} must be a {}", key, kind == YamlNode::Kind::map ? "map" : "list"),
            node->where(file_)));
        return nullptr;
    }

    void keep(Error error) {
        if (!error_) error_ = std::move(error);
    }
    const std::optional<Error>& error() const { return error_; }
    std::string_view file() const { return file_; }

  private:
    const YamlNode* wanted(std::string_view key, bool optional) {
        const YamlNode* node = map_.find(key);
        if (node == nullptr && !optional)
            keep(usage_error(fmt::format("the key {} is missing", key), map_.where(file_)));
        return node;
    }

    const YamlNode& map_;
    std::string_view file_;
    std::optional<Error> error_;
};

/// {name: nvlink3, gb_per_s: 300, alpha_us: 10, efficiency: 0.75}; GB/s of one direction. Between
/// nodes cross_rail_cost too, and a name of a network entry (calibration.h) stands for what it
/// says.
Link read_link(MapReader& entry, std::string_view key) {
    Link link;
    const YamlNode* map = entry.child(key, YamlNode::Kind::map);
    if (map == nullptr) return link;
    std::vector<std::string_view> keys{"name", "gb_per_s", "alpha_us", "efficiency"};
    if (key == "inter") keys.push_back("cross_rail_cost");
    if (Status s = yaml_check_keys(*map, entry.file(), keys); !s) entry.keep(s.error());
    MapReader reader(*map, entry.file());
    link.name = reader.text("name");
    const NetworkConstants* named =
        key == "inter" ? builtin_calibration().named_network(link.name) : nullptr;
    const double share = named != nullptr ? named->share : 0.75,
                 cross_rail = named != nullptr ? named->cross_rail_cost : 0;
    link.bytes_per_s =
        reader.number("gb_per_s", 0.01, 100000) * 1e9 * reader.number("efficiency", 0.05, 1, share);
    link.alpha_s = reader.number("alpha_us", 0, 1e6) * 1e-6;
    link.cross_rail_cost = reader.number("cross_rail_cost", 0, 10, cross_rail);
    if (reader.error()) entry.keep(*reader.error());
    return link;
}

/// {leaf: 2, pod: 4, leaf_alpha_us: 1, pod_alpha_us: 3}, each with a default.
void read_uplinks(MapReader& entry, GpuType& type) {
    const YamlNode* map = entry.child("oversubscription", YamlNode::Kind::map, true);
    if (map == nullptr) return;
    if (Status s =
            yaml_check_keys(*map, entry.file(), {"leaf", "pod", "leaf_alpha_us", "pod_alpha_us"});
        !s)
        entry.keep(s.error());
    MapReader reader(*map, entry.file());
    std::size_t level = 0;
    for (const auto& [rate, start_up] :
         {std::pair("leaf", "leaf_alpha_us"), std::pair("pod", "pod_alpha_us")}) {
        Uplink& uplink = type.uplinks[level++];
        uplink.oversubscription = reader.number(rate, 1, 1000, 1);
        uplink.alpha_s = reader.number(start_up, 0, 1e6, 0) * 1e-6;
    }
    if (reader.error()) entry.keep(*reader.error());
}

void read_flops(MapReader& entry, GpuType& type) {
    const YamlNode* map = entry.child("tflops", YamlNode::Kind::map);
    if (map == nullptr) return;
    for (const auto& [key, node] : map->members) {
        const std::optional<Precision> precision = parse_precision(key);
        if (!precision)
            return entry.keep(usage_error(
                fmt::format("tflops: '{}' is not {}", printable(key, 20), one_of_precisions),
                node.where(entry.file())));
        const Result<double> value = yaml_number(node, entry.file(), key, 1e-4, 1e6);
        if (!value) return entry.keep(value.error());
        type.flops[*precision] = *value * 1e12;
    }
    if (type.flops.empty())
        entry.keep(
            usage_error("tflops must name at least one precision", map->where(entry.file())));
}

void read_aliases(MapReader& entry, GpuType& type) {
    const YamlNode* list = entry.child("aliases", YamlNode::Kind::sequence, true);
    if (list == nullptr) return;
    for (const YamlNode& node : list->items) {
        const Result<std::string> alias =
            yaml_string(node, entry.file(), "aliases", limits::name_bytes);
        if (!alias) return entry.keep(alias.error());
        type.aliases.push_back(*alias);
    }
}

bool answers_to(const GpuType& type, std::string_view word) {
    return same_word(type.name, word) ||
           std::any_of(type.aliases.begin(), type.aliases.end(),
                       [&](const std::string& alias) { return same_word(alias, word); });
}

/// A slice of a GPU has the rates of its multiprocessors, and its share of the memory's.
void read_share(MapReader& entry, const YamlNode& node, const std::vector<GpuType>& known,
                GpuType& type) {
    const std::string whole = entry.text("share_of");
    const auto from = std::find_if(known.begin(), known.end(),
                                   [&](const GpuType& other) { return answers_to(other, whole); });
    const double memory = entry.number("memory_share", 0.01, 1);
    if (from == known.end())
        return entry.keep(usage_error(
            fmt::format("share_of: no entry '{}' before this one", printable(whole, 40)),
            node.where(entry.file())));
    for (const char* key : {"tflops", "memory_gb_per_s"})
        if (node.find(key) != nullptr)
            entry.keep(usage_error(fmt::format("{} follows from share_of: leave it out", key),
                                   node.where(entry.file())));
    if (type.sm_count > from->sm_count)
        entry.keep(usage_error(fmt::format("sm_count {} is more than the {} of {}", type.sm_count,
                                           from->sm_count, from->name),
                               node.where(entry.file())));
    type.flops = from->flops;
    for (auto& [precision, rate] : type.flops)
        rate *= static_cast<double>(type.sm_count) / static_cast<double>(from->sm_count);
    type.memory_bytes_per_s = memory * from->memory_bytes_per_s;
}

Result<GpuType> read_entry(const YamlNode& node, std::string_view file,
                           const std::vector<GpuType>& known) {
    if (node.kind != YamlNode::Kind::map)
        return usage_error("each hardware entry is a map", node.where(file));
    if (Status s = yaml_check_keys(
            node, file,
            {"name", "aliases", "memory_gib", "tflops", "memory_gb_per_s", "sm_count",
             "gpus_per_node", "domain_gpus", "intra", "inter", "oversubscription", "reserved_gib",
             "emulated", "share_of", "memory_share"});
        !s)
        return s.error();
    MapReader entry(node, file);
    GpuType type;
    type.name = entry.text("name");
    read_aliases(entry, type);
    type.memory_bytes = static_cast<std::int64_t>(entry.number("memory_gib", 0.1, 4096) * gib);
    type.sm_count = entry.integer("sm_count", 1, 10000);
    if (node.find("share_of") != nullptr) {
        read_share(entry, node, known, type);
    } else {
        read_flops(entry, type);
        type.memory_bytes_per_s = entry.number("memory_gb_per_s", 0.1, 1e6) * 1e9;
        if (node.find("memory_share") != nullptr)
            entry.keep(
                usage_error("memory_share is of a slice, which share_of names the GPU of: give "
                            "both, or memory_gb_per_s alone",
                            node.where(file)));
    }
    type.gpus_per_node = entry.integer("gpus_per_node", 1, limits::gpus_per_node);
    if (node.find("domain_gpus") != nullptr)
        type.domain_gpus = entry.integer("domain_gpus", 1, limits::gpus);
    type.intra = read_link(entry, "intra");
    type.inter = read_link(entry, "inter");
    read_uplinks(entry, type);
    type.reserved_bytes = entry.number("reserved_gib", 0, 1024, 2.5) * gib;
    type.emulated = entry.boolean("emulated");
    if (type.reserved_bytes >= static_cast<double>(type.memory_bytes))
        entry.keep(usage_error("reserved_gib leaves no memory", node.where(file)));
    if (type.name.empty()) entry.keep(usage_error("name is empty", node.where(file)));
    if (entry.error()) return *entry.error();
    return type;
}

/// A name or alias that an earlier entry of the same file has already, or "".
std::string taken_word(const std::vector<GpuType>& types, const GpuType& added) {
    std::vector<std::string> words = added.aliases;
    words.push_back(added.name);
    for (const std::string& word : words)
        for (const GpuType& type : types)
            if (answers_to(type, word)) return word;
    return {};
}

Result<std::vector<GpuType>> load_file(const std::string& path,
                                       const std::vector<GpuType>& wholes) {
    const Result<std::string> text = read_regular_file(path, max_hardware_bytes);
    if (!text) return text.error();
    return parse_hardware(*text, path, wholes);
}

}  // namespace

Result<std::vector<GpuType>> parse_hardware(std::string_view text, std::string_view name,
                                            const std::vector<GpuType>& wholes) {
    const Result<YamlNode> root =
        parse_yaml(text, name, {.bytes = max_hardware_bytes, .depth = 8, .scalars = 32768});
    if (!root) return root.error();
    const YamlNode* list = root->find("gpu_types");
    if (list == nullptr || list->kind != YamlNode::Kind::sequence)
        return usage_error("hardware is a map with one key gpu_types, a list of entries",
                           std::string(name));
    if (Status s = yaml_check_keys(*root, name, {"gpu_types"}); !s) return s.error();
    std::vector<GpuType> types;
    for (const YamlNode& node : list->items) {
        std::vector<GpuType> known;
        if (node.find("share_of") != nullptr) {
            known = types;
            known.insert(known.end(), wholes.begin(), wholes.end());
        }
        Result<GpuType> type = read_entry(node, name, known);
        if (!type) return type.error();
        if (const std::string word = taken_word(types, *type); !word.empty())
            return usage_error(
                fmt::format("the name or alias '{}' is there twice", printable(word, 40)),
                node.where(name));
        types.push_back(std::move(*type));
    }
    return types;
}

std::string builtin_hardware_path() {
    if (const char* dir = std::getenv("ARENA_DATA_DIR")) return std::string(dir) + "/hardware.yaml";
    const std::string installed = std::string(ARENA_PKGDATADIR) + "/hardware.yaml";
    const char* source = std::getenv("ARENA_SRCDIR");
    if (source == nullptr || access(installed.c_str(), R_OK) == 0) return installed;
    return std::string(source) + "/etc/hardware.yaml";
}

Result<std::vector<GpuType>> load_hardware(const std::string& extra_file) {
    Result<std::vector<GpuType>> builtin = load_file(builtin_hardware_path(), {});
    if (!builtin || extra_file.empty()) return builtin;
    Result<std::vector<GpuType>> types = load_file(extra_file, *builtin);
    if (!types) return types;
    const std::size_t own = types->size();
    for (GpuType& type : *builtin) {
        const auto end = types->begin() + static_cast<std::ptrdiff_t>(own);
        const bool replaced = std::any_of(types->begin(), end, [&](const GpuType& mine) {
            return same_word(mine.name, type.name);
        });
        if (!replaced) types->push_back(std::move(type));
    }
    return types;
}

Result<GpuType> find_hardware(const std::vector<GpuType>& types, std::string_view word) {
    for (const GpuType& type : types)
        if (same_word(type.name, word)) return type;
    for (const GpuType& type : types)
        if (answers_to(type, word)) return type;
    for (const GpuType& type : types)
        if (same_card(type, word)) return type;
    std::vector<std::string_view> words;
    std::string names;
    for (const GpuType& type : types) {
        words.push_back(type.name);
        words.insert(words.end(), type.aliases.begin(), type.aliases.end());
        names += (names.empty() ? "" : ", ") + type.name;
    }
    const std::string near = nearest(word, words);
    return usage_error(fmt::format("no hardware entry '{}'{}; known: {}", printable(word, 40),
                                   near.empty() ? "" : ", did you mean '" + near + "'?", names));
}

std::optional<Precision> effective_precision(const GpuType& type, Precision precision) {
    if (type.emulated) return Precision::fp32;
    if (type.flops.contains(precision)) return precision;
    return std::nullopt;
}

void set_oversubscription(GpuType& type, double leaf, double pod) {
    type.uplinks[0].oversubscription = std::max(type.uplinks[0].oversubscription, leaf);
    type.uplinks[1].oversubscription = std::max(type.uplinks[1].oversubscription, pod);
}

std::string precisions_of(const GpuType& type) {
    std::string list;
    for (const auto& [precision, rate] : type.flops)
        list += (list.empty() ? "" : ", ") + std::string(to_string(precision));
    return list;
}

}  // namespace arena
