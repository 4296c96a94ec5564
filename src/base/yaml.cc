// SPDX-License-Identifier: GPL-2.0-or-later
// YAML reader on libyaml's event interface: see yaml.h. Each event is checked against the limits
// before anything is stored. Anchors, aliases, tags and further documents are refused, not ignored.
#include "base/yaml.h"

#include <fmt/format.h>
#include <yaml.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "base/text.h"

namespace arena {
namespace {

std::string place(std::string_view name, std::size_t line, std::size_t column) {
    return fmt::format("{}:{}:{}", name, line, column);
}

struct EventDelete {
    void operator()(yaml_event_t* event) const {
        yaml_event_delete(event);
        delete event;
    }
};
using Event = std::unique_ptr<yaml_event_t, EventDelete>;

bool is_null_word(std::string_view text) {
    return text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL";
}

class Reader {
  public:
    Reader(std::string_view text, std::string_view name, const YamlLimits& limits)
        : text_(text), name_(name), limits_(limits) {
        if (yaml_parser_initialize(&parser_) == 0) return;
        initialized_ = true;
        yaml_parser_set_encoding(&parser_, YAML_UTF8_ENCODING);
        yaml_parser_set_input_string(&parser_, reinterpret_cast<const unsigned char*>(text.data()),
                                     text.size());
    }
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;
    ~Reader() {
        if (initialized_) yaml_parser_delete(&parser_);
    }

    Result<YamlNode> read();

  private:
    Event next();
    bool expect(yaml_event_type_t type);
    bool node(const Event& event, std::size_t depth, YamlNode& out);
    bool scalar(const yaml_event_t& event, YamlNode& out);
    bool sequence(std::size_t depth, YamlNode& out);
    bool map(std::size_t depth, YamlNode& out);
    bool plain(const yaml_event_t& event);
    bool fail(std::string text, const yaml_mark_t& mark);
    bool fail_parser();

    std::string_view text_, name_;
    const YamlLimits& limits_;
    yaml_parser_t parser_{};
    bool initialized_ = false;
    std::size_t scalars_ = 0;
    std::optional<Error> error_;
};

bool Reader::fail(std::string text, const yaml_mark_t& mark) {
    if (!error_)
        error_ = usage_error(std::move(text), place(name_, mark.line + 1, mark.column + 1));
    return false;
}

bool Reader::fail_parser() {
    const char* problem = parser_.problem != nullptr ? parser_.problem : "out of memory";
    yaml_mark_t mark = parser_.problem_mark;
    if (parser_.error == YAML_READER_ERROR) {  // libyaml gives a byte offset only
        const auto before = text_.substr(0, std::min(parser_.problem_offset, text_.size()));
        mark.line = static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n'));
        const std::size_t last = before.rfind('\n');
        mark.column = last == std::string_view::npos ? before.size() : before.size() - last - 1;
        return fail(fmt::format("the text is not UTF-8 or has control bytes ({})", problem), mark);
    }
    return fail(fmt::format("not valid YAML: {}", problem), mark);
}

Event Reader::next() {
    Event event(new yaml_event_t{});
    if (yaml_parser_parse(&parser_, event.get()) != 0) return event;
    fail_parser();
    return nullptr;
}

bool Reader::expect(yaml_event_type_t type) {
    const Event event = next();
    if (event == nullptr) return false;
    if (event->type == type) return true;
    return fail("only one document is accepted", event->start_mark);
}

/// Anchors and tags are refused on every node.
bool Reader::plain(const yaml_event_t& event) {
    const yaml_char_t* anchor = nullptr;
    const yaml_char_t* tag = nullptr;
    if (event.type == YAML_SCALAR_EVENT) {
        anchor = event.data.scalar.anchor;
        tag = event.data.scalar.tag;
    } else if (event.type == YAML_SEQUENCE_START_EVENT) {
        anchor = event.data.sequence_start.anchor;
        tag = event.data.sequence_start.tag;
    } else if (event.type == YAML_MAPPING_START_EVENT) {
        anchor = event.data.mapping_start.anchor;
        tag = event.data.mapping_start.tag;
    }
    if (anchor != nullptr) return fail("anchors (&) are not accepted", event.start_mark);
    if (tag != nullptr) return fail("tags (!) are not accepted", event.start_mark);
    return true;
}

bool Reader::scalar(const yaml_event_t& event, YamlNode& out) {
    if (++scalars_ > limits_.scalars) {
        return fail(fmt::format("more than {} values", limits_.scalars), event.start_mark);
    }
    const auto& data = event.data.scalar;
    out.scalar.assign(reinterpret_cast<const char*>(data.value), data.length);
    out.quoted = data.style != YAML_PLAIN_SCALAR_STYLE;
    if (!out.quoted && is_null_word(out.scalar)) out.scalar.clear();
    return true;
}

bool Reader::sequence(std::size_t depth, YamlNode& out) {
    out.kind = YamlNode::Kind::sequence;
    for (;;) {
        const Event event = next();
        if (event == nullptr) return false;
        if (event->type == YAML_SEQUENCE_END_EVENT) return true;
        if (!node(event, depth, out.items.emplace_back())) return false;
    }
}

bool Reader::map(std::size_t depth, YamlNode& out) {
    out.kind = YamlNode::Kind::map;
    for (;;) {
        const Event key_event = next();
        if (key_event == nullptr) return false;
        if (key_event->type == YAML_MAPPING_END_EVENT) return true;
        YamlNode key;
        if (!node(key_event, depth, key)) return false;
        const yaml_mark_t& mark = key_event->start_mark;
        if (key.kind != YamlNode::Kind::scalar) return fail("a key must be a word", mark);
        if (out.find(key.scalar) != nullptr) {
            return fail(fmt::format("key \"{}\" is given twice", printable(key.scalar)), mark);
        }
        const Event event = next();
        if (event == nullptr) return false;
        YamlNode& value = out.members.emplace_back(std::move(key.scalar), YamlNode{}).second;
        value.key_line = mark.line + 1;
        value.key_column = mark.column + 1;
        if (!node(event, depth, value)) return false;
    }
}

bool Reader::node(const Event& event, std::size_t depth, YamlNode& out) {
    const yaml_mark_t& mark = event->start_mark;
    out.line = mark.line + 1;
    out.column = mark.column + 1;
    if (event->type == YAML_ALIAS_EVENT) return fail("aliases (*) are not accepted", mark);
    if (!plain(*event)) return false;
    if (event->type == YAML_SCALAR_EVENT) return scalar(*event, out);
    // Empty lists and maps count too: "[[],[],...]" must not grow without bound.
    if (++scalars_ > limits_.scalars) {
        return fail(fmt::format("more than {} values", limits_.scalars), mark);
    }
    if (depth >= limits_.depth) {
        return fail(fmt::format("nested deeper than {} levels", limits_.depth), mark);
    }
    if (event->type == YAML_SEQUENCE_START_EVENT) return sequence(depth + 1, out);
    if (event->type == YAML_MAPPING_START_EVENT) return map(depth + 1, out);
    return fail("not valid YAML here", mark);
}

Result<YamlNode> Reader::read() {
    YamlNode root;
    const auto document = [&] {
        if (!expect(YAML_STREAM_START_EVENT)) return false;
        Event event = next();
        if (event == nullptr) return false;
        if (event->type == YAML_STREAM_END_EVENT) return true;
        const auto& start = event->data.document_start;
        if (start.tag_directives.start != start.tag_directives.end) {
            return fail("%TAG is not accepted", event->start_mark);
        }
        event = next();
        return event != nullptr && node(event, 0, root) && expect(YAML_DOCUMENT_END_EVENT) &&
               expect(YAML_STREAM_END_EVENT);
    };
    if (!initialized_) return environment_error("out of memory", std::string(name_));
    if (!document()) return *error_;
    return root;
}

Error wrong_value(const YamlNode& node, std::string_view file, std::string_view key,
                  std::string_view accepted) {
    const bool scalar = node.kind == YamlNode::Kind::scalar;
    const std::string given = scalar ? "\"" + printable(node.scalar) + "\""
                              : node.kind == YamlNode::Kind::map ? std::string("a map")
                                                                 : std::string("a list");
    return usage_error(fmt::format("{}: {} is not accepted; give {}", key, given, accepted),
                       node.where(file));
}

bool is_plain_scalar(const YamlNode& node) {
    return node.kind == YamlNode::Kind::scalar && !node.quoted;
}

}  // namespace

YamlNode::YamlNode() = default;
YamlNode::~YamlNode() = default;
YamlNode::YamlNode(const YamlNode&) = default;
YamlNode::YamlNode(YamlNode&&) noexcept = default;
YamlNode& YamlNode::operator=(const YamlNode&) = default;
YamlNode& YamlNode::operator=(YamlNode&&) noexcept = default;

const YamlNode* YamlNode::find(std::string_view key) const {
    for (const auto& [name, node] : members) {
        if (name == key) return &node;
    }
    return nullptr;
}

std::string YamlNode::where(std::string_view file) const { return place(file, line, column); }

Result<YamlNode> parse_yaml(std::string_view text, std::string_view name,
                            const YamlLimits& limits) {
    if (text.size() > limits.bytes) {
        return usage_error(fmt::format("is larger than {} bytes", limits.bytes), std::string(name));
    }
    return Reader(text, name, limits).read();
}

Result<std::int64_t> yaml_integer(const YamlNode& node, std::string_view file, std::string_view key,
                                  std::int64_t min, std::int64_t max) {
    if (is_plain_scalar(node)) {
        if (const auto value = parse_integer(node.scalar, min, max)) return *value;
    }
    return wrong_value(node, file, key, fmt::format("an integer from {} to {}", min, max));
}

Result<double> yaml_number(const YamlNode& node, std::string_view file, std::string_view key,
                           double min, double max) {
    if (is_plain_scalar(node)) {
        if (const auto value = parse_number(node.scalar, min, max)) return *value;
    }
    return wrong_value(node, file, key, fmt::format("a number from {:.15g} to {:.15g}", min, max));
}

Result<bool> yaml_bool(const YamlNode& node, std::string_view file, std::string_view key) {
    if (is_plain_scalar(node)) {
        const std::string_view s = node.scalar;
        if (s == "true" || s == "yes" || s == "on") return true;
        if (s == "false" || s == "no" || s == "off") return false;
    }
    return wrong_value(node, file, key, "true or false");
}

Result<std::string> yaml_string(const YamlNode& node, std::string_view file, std::string_view key,
                                std::size_t max_length) {
    const bool null = node.scalar.empty() && !node.quoted;
    if (node.kind == YamlNode::Kind::scalar && !null && node.scalar.size() <= max_length) {
        return node.scalar;
    }
    return wrong_value(node, file, key, fmt::format("a text of at most {} bytes", max_length));
}

Status yaml_check_keys(const YamlNode& map, std::string_view file,
                       const std::vector<std::string_view>& known) {
    if (map.kind != YamlNode::Kind::map) {
        return usage_error("a map of key: value is needed here", map.where(file));
    }
    for (const auto& [key, node] : map.members) {
        if (std::find(known.begin(), known.end(), key) != known.end()) continue;
        const std::string near = nearest(key, known);
        return usage_error(near.empty() ? fmt::format("unknown key \"{}\"; known are {}",
                                                      printable(key), fmt::join(known, ", "))
                                        : fmt::format("unknown key \"{}\"; did you mean \"{}\"?",
                                                      printable(key), near),
                           place(file, node.key_line, node.key_column));
    }
    return Done{};
}

}  // namespace arena
