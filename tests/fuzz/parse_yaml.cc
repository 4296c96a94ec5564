// SPDX-License-Identifier: GPL-2.0-or-later
// Any bytes may claim to be YAML; what is accepted stays within the limits.
#include <algorithm>

#include "base/yaml.h"
#include "fuzz.h"

namespace {

std::size_t depth_of(const arena::YamlNode& node) {
    std::size_t deepest = 0;
    for (const auto& item : node.items) deepest = std::max(deepest, depth_of(item));
    for (const auto& [key, value] : node.members) deepest = std::max(deepest, depth_of(value));
    return deepest + (node.kind == arena::YamlNode::Kind::scalar ? 0 : 1);
}

}  // namespace

FUZZ(text) {
    const auto root = arena::parse_yaml(text, "fuzz");
    if (!root && root.error().text.empty()) std::abort();
    if (root && depth_of(*root) > arena::YamlLimits{}.depth) std::abort();
}
