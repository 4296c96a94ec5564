// SPDX-License-Identifier: GPL-2.0-or-later
// A small, bounded YAML reader on libyaml: scalars, sequences, maps with line and column. No
// anchors, aliases, tags or multiple documents, so hostile input cannot expand. For models,
// hardware, arena.yaml.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace arena {

struct YamlLimits {
    std::size_t bytes = 64 * 1024;
    std::size_t depth = 16;
    std::size_t scalars = 4096;
};

class YamlNode {
  public:
    enum class Kind { scalar, sequence, map };

    // Defined where the class is complete: clang would instantiate pair<string, YamlNode> too
    // early.
    YamlNode();
    ~YamlNode();
    YamlNode(const YamlNode&);
    YamlNode(YamlNode&&) noexcept;
    YamlNode& operator=(const YamlNode&);
    YamlNode& operator=(YamlNode&&) noexcept;

    Kind kind = Kind::scalar;
    std::string scalar;  ///< kind == scalar; "" for null
    bool quoted = false;
    std::vector<YamlNode> items;                            ///< sequence
    std::vector<std::pair<std::string, YamlNode>> members;  ///< map, in file order, keys unique
    std::size_t line = 1, column = 1;
    std::size_t key_line = 0, key_column = 0;  ///< member of a map: where its key is

    /// Member of a map or nullptr.
    [[nodiscard]] const YamlNode* find(std::string_view key) const;
    /// "FILE:LINE:COLUMN" for messages.
    [[nodiscard]] std::string where(std::string_view file) const;
};

/// Parses one document; an empty one is a null scalar. Errors carry "name:line:column". JSON is
/// YAML enough for config.json.
Result<YamlNode> parse_yaml(std::string_view text, std::string_view name, const YamlLimits& = {});

/// Typed readers: usage errors name the place, the key, the value given and the accepted range.
Result<std::int64_t> yaml_integer(const YamlNode&, std::string_view file, std::string_view key,
                                  std::int64_t min, std::int64_t max);
Result<double> yaml_number(const YamlNode&, std::string_view file, std::string_view key, double min,
                           double max);
Result<bool> yaml_bool(const YamlNode&, std::string_view file, std::string_view key);
Result<std::string> yaml_string(const YamlNode&, std::string_view file, std::string_view key,
                                std::size_t max_length = 256);
/// Refuses what is not a map, and keys outside `known`, naming the nearest known one.
Status yaml_check_keys(const YamlNode& map, std::string_view file,
                       const std::vector<std::string_view>& known);

}  // namespace arena
