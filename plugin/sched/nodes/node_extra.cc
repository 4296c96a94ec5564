// SPDX-License-Identifier: GPL-2.0-or-later
// See node_extra.h.
#include "plugin/sched/nodes/node_extra.h"

#include <algorithm>
#include <array>
#include <span>

#include "base/text.h"

namespace arena {
namespace {

constexpr std::size_t max_facts = 16, max_word = 256;
constexpr std::string_view any_version = "arena:v", version = "arena:v1";

struct Kind {
    std::string_view name;
    std::span<const std::string_view> attributes;
};
constexpr std::array<std::string_view, 7> of_slow{"peer",  "seen",    "by",    "since",
                                                  "until", "checked", "driver"};
constexpr std::array<std::string_view, 4> of_loan{"state", "since", "until", "ends"};
constexpr std::array<Kind, 3> kinds{{{"slow", of_slow}, {"loan", of_loan}, {"sound", {}}}};

const Kind* find_kind(std::string_view name) {
    const auto at = std::find_if(kinds.begin(), kinds.end(),
                                 [&](const Kind& kind) { return kind.name == name; });
    return at == kinds.end() ? nullptr : &*at;
}

bool is_value(std::string_view text) {
    return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
        const bool alnum =
            (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        return alnum || std::string_view("._:,*+-").find(c) != std::string_view::npos;
    });
}

/// Reads Arena's part word by word.
class Reader {
  public:
    explicit Reader(NodeExtra& out) : out_(out) {}

    /// False where the word is not Arena's any more.
    bool take(std::string_view word) {
        const std::size_t equals = word.find('=');
        if (equals == std::string_view::npos) return false;
        const std::string_view key = word.substr(0, equals), value = word.substr(equals + 1);
        if (const Kind* kind = find_kind(key)) {
            kind_ = kind;
            out_.facts.push_back({std::string(key), std::string(value), {}});
        } else if (!kind_ || !has_attribute(key)) {
            return false;
        } else if (out_.facts.back().find(key)) {
            refuse(word, "is there twice");
        } else {
            out_.facts.back().attributes.emplace_back(key, value);
        }
        if (word.size() > max_word || !is_value(value)) refuse(word, "has no such value");
        if (out_.facts.size() > max_facts) refuse(word, "is one fact too many");
        return true;
    }

  private:
    [[nodiscard]] bool has_attribute(std::string_view key) const {
        return std::find(kind_->attributes.begin(), kind_->attributes.end(), key) !=
               kind_->attributes.end();
    }
    void refuse(std::string_view word, const char* why) {
        if (out_.broken.empty()) out_.broken = printable(word) + " " + why;
    }

    NodeExtra& out_;
    const Kind* kind_ = nullptr;
};

/// Where Arena's part begins, as a word; npos = nowhere.
std::size_t find_part(std::string_view text) {
    for (std::size_t at = 0; (at = text.find(any_version, at)) != std::string_view::npos; ++at)
        if (at == 0 || text[at - 1] == ' ') return at;
    return std::string_view::npos;
}

void read_part(std::string_view part, NodeExtra& out) {
    Reader reader(out);
    const std::string_view head = part.substr(0, part.find(' '));
    if (head != version) {
        out.broken = printable(head) + " is a later version's";
        return;
    }
    std::size_t next = head.size();
    while (next < part.size() && part[next] == ' ') {
        const std::size_t end = std::min(part.find(' ', next + 1), part.size());
        if (!reader.take(part.substr(next + 1, end - next - 1))) break;
        next = end;
    }
    if (next < part.size()) out.after = part.substr(next + 1);
}

}  // namespace

const std::string* Fact::find(std::string_view key) const {
    for (const auto& [name, text] : attributes)
        if (name == key) return &text;
    return nullptr;
}

void Fact::set(std::string_view key, std::string text) {
    for (auto& [name, old] : attributes)
        if (name == key) return static_cast<void>(old = std::move(text));
    attributes.emplace_back(key, std::move(text));
}

NodeExtra parse_node_extra(std::string_view text) {
    NodeExtra extra;
    const std::size_t at = find_part(text);
    extra.before = text.substr(0, at == 0 ? 0 : at == std::string_view::npos ? at : at - 1);
    if (at == std::string_view::npos) return extra;
    if (text.size() > max_extra_bytes)
        extra.broken = "it is longer than 4096 bytes";
    else
        read_part(text.substr(at), extra);
    if (!extra.broken.empty()) extra.facts.clear();
    return extra;
}

std::string format_node_extra(const NodeExtra& extra) {
    std::vector<std::string> words;
    if (!extra.before.empty()) words.push_back(extra.before);
    if (!extra.facts.empty()) words.emplace_back(version);
    for (const Fact& fact : extra.facts) {
        words.push_back(fact.kind + "=" + fact.value);
        for (const auto& [key, value] : fact.attributes) words.push_back(key + "=" + value);
    }
    if (!extra.after.empty()) words.push_back(extra.after);
    return join(words, " ");
}

}  // namespace arena
