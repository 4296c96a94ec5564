// SPDX-License-Identifier: GPL-2.0-or-later
#include "planner/hardware/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "base/yaml.h"
#include "core/limits.h"
#include "planner/hardware/card_names.h"

namespace arena {

namespace {

constexpr std::size_t max_calibration_bytes = 256 * 1024;

template <typename T>
struct Field {
    std::string_view key;
    double T::*member;
    double min, max;
};

constexpr Field<DeviceConstants> device_fields[] = {
    {"gemm_share", &DeviceConstants::gemm_share, 0.01, 1},
    {"gemm_share_32bit", &DeviceConstants::gemm_share_32bit, 0, 1},
    {"gemm_share_8bit", &DeviceConstants::gemm_share_8bit, 0.01, 1},
    {"gemm_share_4bit", &DeviceConstants::gemm_share_4bit, 0.01, 1},
    {"grouped_share", &DeviceConstants::grouped_share, 0.01, 1},
    {"gemm_ramp", &DeviceConstants::gemm_ramp, 0, 1e5},
    {"gemm_align_8", &DeviceConstants::gemm_align_8, 1, 20},
    {"gemm_align_64", &DeviceConstants::gemm_align_64, 1, 20},
    {"conv_share", &DeviceConstants::conv_share, 0.01, 1},
    {"conv_ramp", &DeviceConstants::conv_ramp, 0, 1e5},
    {"attention_forward", &DeviceConstants::attention_forward, 0.01, 1},
    {"attention_backward", &DeviceConstants::attention_backward, 0.01, 1},
    {"attention_softmax", &DeviceConstants::attention_softmax, 0, 1},
    {"attention_ramp", &DeviceConstants::attention_ramp, 0, 1e5},
    {"memory_share", &DeviceConstants::memory_share, 0.01, 1},
    {"kernel_s", &DeviceConstants::kernel_s, 0, 1},
    {"clock_share", &DeviceConstants::clock_share, 0.1, 1},
    {"node_spread", &DeviceConstants::node_spread, 0, 0.2},
    {"unmeasured", &DeviceConstants::unmeasured, 0, 1},
};

constexpr Field<FrameworkConstants> framework_fields[] = {
    {"host_forward_s", &FrameworkConstants::host_forward_s, 0, 1},
    {"host_backward_s", &FrameworkConstants::host_backward_s, 0, 1},
    {"host_collective_s", &FrameworkConstants::host_collective_s, 0, 1},
    {"host_group_s", &FrameworkConstants::host_group_s, 0, 1e-2},
    {"host_expert_s", &FrameworkConstants::host_expert_s, 0, 1},
    {"collective_skew_s", &FrameworkConstants::collective_skew_s, 0, 1},
    {"host_sharpness", &FrameworkConstants::host_sharpness, 1, 100},
    {"micro_batch_s", &FrameworkConstants::micro_batch_s, 0, 1},
    {"iteration_s", &FrameworkConstants::iteration_s, 0, 10},
    {"iteration_layer_s", &FrameworkConstants::iteration_layer_s, 0, 1},
    {"fused_attention", &FrameworkConstants::fused_attention, 0, 1},
    {"attention_share", &FrameworkConstants::attention_share, 0.01, 1},
    {"ring_imbalance", &FrameworkConstants::ring_imbalance, 0, 1},
    {"attention_passes", &FrameworkConstants::attention_passes, 0, 100},
    {"attention_passes_backward", &FrameworkConstants::attention_passes_backward, 0, 100},
    {"softmax_multiple", &FrameworkConstants::softmax_multiple, 1, 64},
    {"softmax_fallback_s", &FrameworkConstants::softmax_fallback_s, 0, 1},
    {"elementwise_passes", &FrameworkConstants::elementwise_passes, 0, 20},
    {"loss_bytes", &FrameworkConstants::loss_bytes, 0, 500},
    {"head_tokens", &FrameworkConstants::head_tokens, 0, 1},
    {"unpadded_tokens", &FrameworkConstants::unpadded_tokens, 0, 1e6},
    {"pads_vocab", &FrameworkConstants::pads_vocab, 0, 1},
    {"cast_passes", &FrameworkConstants::cast_passes, 0, 20},
    {"conv_weight_passes", &FrameworkConstants::conv_weight_passes, 0, 100},
    {"conv_layout_passes", &FrameworkConstants::conv_layout_passes, 0, 10},
    {"norm_collectives", &FrameworkConstants::norm_collectives, 0, 10},
    {"gradient_bytes", &FrameworkConstants::gradient_bytes, 0, 8},
    {"weight_bytes", &FrameworkConstants::weight_bytes, 0, 8},
    {"optimizer_bytes", &FrameworkConstants::optimizer_bytes, 0, 500},
    {"overlap_gradients", &FrameworkConstants::overlap_gradients, 0, 1},
    {"overlap_weights", &FrameworkConstants::overlap_weights, 0, 1},
    {"overlap_slowdown", &FrameworkConstants::overlap_slowdown, 0, 1},
    {"partitions_boundary", &FrameworkConstants::partitions_boundary, 0, 1},
    {"overlap_boundary", &FrameworkConstants::overlap_boundary, 0, 1},
    {"overlap_chunks", &FrameworkConstants::overlap_chunks, 0, 1},
    {"blocking_boundary", &FrameworkConstants::blocking_boundary, 0, 1},
    {"overlap_tensor", &FrameworkConstants::overlap_tensor, 0, 1},
    {"overlap_expert", &FrameworkConstants::overlap_expert, 0, 1},
    {"regather_weights", &FrameworkConstants::regather_weights, 0, 2},
    {"weight_tensors", &FrameworkConstants::weight_tensors, 1, 100},
    {"weight_rank_s", &FrameworkConstants::weight_rank_s, 0, 1e-3},
    {"weight_share", &FrameworkConstants::weight_share, 0.01, 1},
    {"staged_zero", &FrameworkConstants::staged_zero, 0, 3},
    {"recompute", &FrameworkConstants::recompute, 0, 2},
    {"selective_attention", &FrameworkConstants::selective_attention, 0, 1},
    {"selective_others", &FrameworkConstants::selective_others, 0, 1},
    {"recompute_pointwise", &FrameworkConstants::recompute_pointwise, 0, 1},
    {"recompute_mlp", &FrameworkConstants::recompute_mlp, 0, 1},
    {"bf16_state_bytes", &FrameworkConstants::bf16_state_bytes, 0, 16},
    {"gradient_state_bytes", &FrameworkConstants::gradient_state_bytes, 0, 16},
    {"optimizer_state_bytes", &FrameworkConstants::optimizer_state_bytes, 0, 64},
    {"logit_bytes", &FrameworkConstants::logit_bytes, 0, 40},
    {"keeps_masks", &FrameworkConstants::keeps_masks, 0, 1},
    {"activation_slack", &FrameworkConstants::activation_slack, 1, 2},
    {"reserved_gib", &FrameworkConstants::reserved_gib, 0, 100},
};

constexpr Field<NetworkConstants> network_fields[] = {
    {"intra_share", &NetworkConstants::intra_share, 0.01, 1},
    {"share", &NetworkConstants::share, 0.01, 1},
    {"alpha_s", &NetworkConstants::alpha_s, 0, 1},
    {"cross_rail_cost", &NetworkConstants::cross_rail_cost, 0, 10},
    {"node_spread", &NetworkConstants::node_spread, 0, 0.2},
};

bool answers_to(const Calibration::Framework& entry, std::string_view name) {
    return same_word(entry.name, name) ||
           std::any_of(entry.aliases.begin(), entry.aliases.end(),
                       [&](const std::string& alias) { return same_word(alias, name); });
}

/// Keys that entries have besides their constants.
constexpr std::string_view names_key = "names", name_key = "name", like_key = "like",
                           aliases_key = "aliases", link_key = "intra_link",
                           gbps_key = "inter_gbps", words_key = "words", bounds_key = "bounds";

/// `known`: the keys of this section besides its constants. Any other is an error that lists them.
template <typename T, std::size_t N>
Status read_fields(const YamlNode& map, std::string_view file, std::vector<std::string_view> known,
                   const Field<T> (&fields)[N], T& constants) {
    for (const Field<T>& field : fields) known.push_back(field.key);
    if (Status s = yaml_check_keys(map, file, known); !s)
        return usage_error(
            fmt::format("{}; accepted here: {}", s.error().text, fmt::join(known, ", ")),
            s.error().where);
    for (const Field<T>& field : fields) {
        const YamlNode* node = map.find(field.key);
        if (node == nullptr) continue;
        const Result<double> value = yaml_number(*node, file, field.key, field.min, field.max);
        if (!value) return value.error();
        constants.*field.member = *value;
    }
    return Done{};
}

Result<std::string> read_word(const YamlNode& map, std::string_view file, std::string_view key) {
    const YamlNode* node = map.find(key);
    if (node == nullptr) return std::string();
    return yaml_string(*node, file, key, limits::name_bytes);
}

Result<std::vector<std::string>> read_words(const YamlNode& map, std::string_view file,
                                            std::string_view key) {
    std::vector<std::string> words;
    const YamlNode* list = map.find(key);
    if (list == nullptr) return words;
    if (list->kind != YamlNode::Kind::sequence)
        return usage_error(fmt::format("{} must be a list of names", key), list->where(file));
    for (const YamlNode& node : list->items) {
        const Result<std::string> word = yaml_string(node, file, key, limits::name_bytes);
        if (!word) return word.error();
        words.push_back(*word);
    }
    return words;
}

/// An entry starts from what it has already, else from `like`, else from "default".
template <typename Entry>
Result<Entry*> entry_to_fill(std::vector<Entry>& entries, const std::string& name,
                             const std::string& like, const std::string& where) {
    const auto find = [&](const std::string& word) {
        return std::find_if(entries.begin(), entries.end(),
                            [&](const Entry& e) { return same_word(e.name, word); });
    };
    const auto base = find(like.empty() ? "default" : like);
    if (!like.empty() && base == entries.end())
        return usage_error(fmt::format("like: no entry '{}' before this one", printable(like, 40)),
                           where);
    const auto own = find(name);
    if (own != entries.end()) {
        if (!like.empty()) own->constants = base->constants;
        return &*own;
    }
    Entry entry;
    if (base != entries.end()) entry.constants = base->constants;
    entry.name = name;
    entries.push_back(std::move(entry));
    return &entries.back();
}

Status read_device(const YamlNode& map, std::string_view file, Calibration& table) {
    const auto names = read_words(map, file, names_key);
    if (!names) return names.error();
    if (names->empty()) return usage_error("names must list hardware entries", map.where(file));
    const auto like = read_word(map, file, like_key);
    if (!like) return like.error();
    for (const std::string& name : *names) {
        const auto entry = entry_to_fill(table.devices, name, *like, map.where(file));
        if (!entry) return entry.error();
        if (Status s =
                read_fields(map, file, {names_key, like_key}, device_fields, (*entry)->constants);
            !s)
            return s;
    }
    return Done{};
}

Status read_framework(const YamlNode& map, std::string_view file, Calibration& table) {
    const auto name = read_word(map, file, name_key), like = read_word(map, file, like_key);
    if (!name) return name.error();
    if (!like) return like.error();
    if (name->empty()) return usage_error("name is missing", map.where(file));
    const auto aliases = read_words(map, file, aliases_key);
    if (!aliases) return aliases.error();
    const auto entry = entry_to_fill(table.frameworks, *name, *like, map.where(file));
    if (!entry) return entry.error();
    for (const std::string& alias : *aliases) (*entry)->aliases.push_back(alias);
    return read_fields(map, file, {name_key, like_key, aliases_key}, framework_fields,
                       (*entry)->constants);
}

Status read_network(const YamlNode& map, std::string_view file, Calibration& table) {
    const auto link = read_word(map, file, link_key), name = read_word(map, file, name_key);
    if (!link) return link.error();
    if (!name) return name.error();
    const auto words = read_words(map, file, words_key);
    if (!words) return words.error();
    Calibration::Network entry;
    entry.name = *name;
    entry.words = *words;
    entry.intra_link = *link;
    if (entry.name.empty() && !entry.words.empty())
        return usage_error("words belong to an entry with a name", map.where(file));
    if (const YamlNode* gbps = map.find(gbps_key)) {
        const Result<double> value = yaml_number(*gbps, file, gbps_key, 0, 1e6);
        if (!value) return value.error();
        entry.inter_gbps = *value;
    }
    const auto same = std::find_if(table.networks.begin(), table.networks.end(),
                                   [&](const Calibration::Network& other) {
                                       return same_word(other.name, entry.name) &&
                                              same_word(other.intra_link, entry.intra_link) &&
                                              other.inter_gbps == entry.inter_gbps;
                                   });
    const std::vector<std::string_view> keys{name_key, words_key, link_key, gbps_key};
    if (same != table.networks.end())
        return read_fields(map, file, keys, network_fields, same->constants);
    if (!table.networks.empty()) entry.constants = table.networks.front().constants;
    table.networks.push_back(std::move(entry));
    return read_fields(map, file, keys, network_fields, table.networks.back().constants);
}

/// bounds: {key: [least, most]}, within which contrib/fit-calibration looks; prices do not depend
/// on them.
Status check_bounds(const YamlNode& root, std::string_view file) {
    const YamlNode* map = root.find(bounds_key);
    if (map == nullptr) return Done{};
    if (map->kind != YamlNode::Kind::map)
        return usage_error("bounds is a map of constants", map->where(file));
    std::vector<std::string_view> known;
    const auto add = [&](const auto& fields) {
        for (const auto& field : fields) known.push_back(field.key);
    };
    add(device_fields), add(framework_fields), add(network_fields);
    if (Status s = yaml_check_keys(*map, file, known); !s) return s;
    for (const auto& [key, node] : map->members) {
        if (node.kind != YamlNode::Kind::sequence || node.items.size() != 2)
            return usage_error(fmt::format("bounds: {} is a list of two numbers", key),
                               node.where(file));
        const Result<double> least = yaml_number(node.items[0], file, key, 0, 1e6),
                             most = yaml_number(node.items[1], file, key, 0, 1e6);
        if (!least) return least.error();
        if (!most) return most.error();
        if (*least >= *most)
            return usage_error(fmt::format("bounds: {} has its least first", key),
                               node.where(file));
    }
    return Done{};
}

using Reader = Status (*)(const YamlNode&, std::string_view, Calibration&);

Status read_list(const YamlNode& root, std::string_view key, Reader read, std::string_view file,
                 Calibration& table) {
    const YamlNode* list = root.find(key);
    if (list == nullptr) return Done{};
    if (list->kind != YamlNode::Kind::sequence)
        return usage_error(fmt::format("{} must be a list", key), list->where(file));
    for (const YamlNode& node : list->items) {
        if (node.kind != YamlNode::Kind::map)
            return usage_error(fmt::format("each entry of {} is a map", key), node.where(file));
        if (Status s = read(node, file, table); !s) return s;
    }
    return Done{};
}

constexpr char builtin_text[] =
#include "planner/hardware/calibration_table.inc"
    ;

}  // namespace

const DeviceConstants& Calibration::device(std::string_view name) const {
    const DeviceConstants* found = &devices.front().constants;
    for (const Device& entry : devices)
        if (same_word(entry.name, name)) return entry.constants;
    return *found;
}

const FrameworkConstants& Calibration::framework(std::string_view name, bool* known) const {
    const auto is_own = [&](const Framework& entry) { return entry.name == name; };
    if (const auto own = std::find_if(frameworks.begin(), frameworks.end(), is_own);
        own != frameworks.end()) {
        if (known != nullptr) *known = true;
        return own->constants;
    }
    for (const Framework& entry : frameworks) {
        if (!answers_to(entry, name)) continue;
        if (known != nullptr) *known = true;
        return entry.constants;
    }
    if (known != nullptr) *known = false;
    return frameworks.front().constants;
}

namespace {

/// Whether what was said of a network names the entry; entries without a name need nothing said.
bool is_said(const Calibration::Network& entry, std::string_view said) {
    return entry.name.empty() ||
           std::any_of(entry.words.begin(), entry.words.end(), [&](const std::string& word) {
               return said.find(word) != std::string_view::npos;
           });
}

/// The entry of that link and rate that says most; nothing where there is none.
const Calibration::Network* entry_of(const std::vector<Calibration::Network>& networks,
                                     std::string_view intra_link, double gbps,
                                     std::string_view said) {
    const Calibration::Network* best = nullptr;
    const auto weight = [](const Calibration::Network& entry) {
        return 2 * (entry.name.empty() ? 0 : 1) + (entry.inter_gbps > 0 ? 1 : 0);
    };
    for (const Calibration::Network& entry : networks) {
        if (!same_word(entry.intra_link, intra_link) || !is_said(entry, said)) continue;
        if (entry.inter_gbps != gbps && entry.inter_gbps != 0) continue;
        if (best == nullptr || weight(entry) > weight(*best)) best = &entry;
    }
    return best;
}

}  // namespace

const NetworkConstants& Calibration::network(std::string_view intra_link, double gbps,
                                             std::string_view said) const {
    const Network* entry = entry_of(networks, intra_link, gbps, said);
    return (entry != nullptr ? *entry : networks.front()).constants;
}

const NetworkConstants* Calibration::named_network(std::string_view name) const {
    for (const Network& entry : networks)
        if (!entry.name.empty() && same_word(entry.name, name)) return &entry.constants;
    return nullptr;
}

bool Calibration::has_device(std::string_view name) const {
    return std::any_of(devices.begin(), devices.end(),
                       [&](const Device& entry) { return same_word(entry.name, name); });
}

bool Calibration::has_network(std::string_view intra_link, double gbps,
                              std::string_view said) const {
    return entry_of(networks, intra_link, gbps, said) != nullptr;
}

CostConstants Calibration::constants(std::string_view hardware, std::string_view name) const {
    return {device(hardware), framework(name)};
}

Result<Calibration> parse_calibration(std::string_view text, std::string_view name,
                                      const Calibration& base) {
    const Result<YamlNode> root =
        parse_yaml(text, name, {.bytes = max_calibration_bytes, .depth = 8, .scalars = 32768});
    if (!root) return root.error();
    if (Status s = yaml_check_keys(*root, name, {bounds_key, "devices", "frameworks", "networks"});
        !s)
        return s.error();
    if (Status s = check_bounds(*root, name); !s) return s.error();
    Calibration table = base;
    for (const auto& [key, read] : {std::pair<std::string_view, Reader>{"devices", read_device},
                                    {"frameworks", read_framework},
                                    {"networks", read_network}})
        if (Status s = read_list(*root, key, read, name, table); !s) return s.error();
    return table;
}

Result<Calibration> load_calibration(const std::string& extra_file) {
    if (extra_file.empty()) return builtin_calibration();
    const Result<std::string> text = read_regular_file(extra_file, max_calibration_bytes);
    if (!text) return text.error();
    return parse_calibration(*text, extra_file, builtin_calibration());
}

const Calibration& builtin_calibration() {
    static const Calibration table = [] {
        const Calibration empty{
            {{"default", {}}}, {{"default", {}, {}}}, {{"", {}, "default", 0, {}}}};
        Result<Calibration> parsed = parse_calibration(builtin_text, "calibration.yaml", empty);
        return parsed ? std::move(parsed).value() : empty;  // a unit test holds that it parses
    }();
    return table;
}

}  // namespace arena
