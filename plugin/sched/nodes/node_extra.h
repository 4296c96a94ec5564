// SPDX-License-Identifier: GPL-2.0-or-later
// Facts of a node, as its Extra field keeps them for Arena: Slurm saves it with the node, shows it
// in `scontrol show node` and lets operators alone change it. One text form for all who have
// something to say of a node; what an administrator wrote before and after it stays.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace arena {

/// One fact: "slow=1:compute:2.10 seen=2 until=1790000000" is one of kind `slow`.
struct Fact {
    std::string kind, value;
    std::vector<std::pair<std::string, std::string>> attributes;  ///< in their order
    /// nullptr where it has no such attribute.
    [[nodiscard]] const std::string* find(std::string_view key) const;
    void set(std::string_view key, std::string value);
    bool operator==(const Fact&) const = default;
};

/// What a node's Extra may hold as a whole, for Arena to read it.
inline constexpr std::size_t max_extra_bytes = 4096;

struct NodeExtra {
    std::string before, after;  ///< not Arena's
    std::vector<Fact> facts;
    /// Somebody has made of Arena's part what Arena would not write, or a later version wrote it:
    /// no fact, and the text is left alone. Why; "" = it is sound.
    std::string broken;
    bool operator==(const NodeExtra&) const = default;
};

/// "BEFORE arena:v1 slow=1:compute:2.10 seen=2 until=1790000000 loan=L7 state=returning AFTER": a
/// fact is a word of a kind with its value, then words of that kind's attributes, each once; words
/// are apart by one blank. "sound=TIME": what the node's own tools found by then counts no more.
/// Arena's part ends at the first word that is neither. At most 4,096 bytes, 16 facts, 256 bytes a
/// word.
NodeExtra parse_node_extra(std::string_view text);
/// The same again; without a fact what is not Arena's alone.
std::string format_node_extra(const NodeExtra& extra);

}  // namespace arena
