// SPDX-License-Identifier: GPL-2.0-or-later
// Pages in unit tests: whether they are well-formed, and need nothing else.
#pragma once

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>
#include <vector>

#include "suite.h"

namespace arena {

/// A strict reader of the XML that a page is made of: tags that match, attributes in double quotes,
/// each once, five entities. Answers "" or what is wrong.
class XmlReader {
  public:
    explicit XmlReader(std::string_view text) : text_(text) {}
    std::string read();
    std::vector<std::string> elements, attributes;  ///< names as they come

  private:
    std::string tag();
    std::string attribute(std::vector<std::string>& seen);
    std::string check_text(std::string_view part) const;
    std::string name();
    bool take(std::string_view word) {
        if (!text_.substr(at_).starts_with(word)) return false;
        at_ += word.size();
        return true;
    }
    void skip_space() {
        while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
    }
    std::string_view text_;
    std::size_t at_ = 0;
    std::vector<std::string> open_;
};

inline std::string XmlReader::check_text(std::string_view part) const {
    for (std::size_t i = 0; i < part.size(); ++i) {
        const auto c = static_cast<unsigned char>(part[i]);
        if (c == '<' || (c < 32 && c != '\n') || c > 126) return "a bare byte " + std::to_string(c);
        if (c != '&') continue;
        bool known = false;
        for (const char* entity : {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"}) {
            known = known || part.substr(i).starts_with(entity);
        }
        if (!known) return "a bare &";
    }
    return "";
}

inline std::string XmlReader::name() {
    const std::size_t from = at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '-'))
        ++at_;
    return std::string(text_.substr(from, at_ - from));
}

inline std::string XmlReader::attribute(std::vector<std::string>& seen) {
    const std::string key = name();
    if (key.empty() || !take("=\"")) return "an attribute without quotes at " + std::to_string(at_);
    if (std::count(seen.begin(), seen.end(), key) > 0) return key + " is given twice";
    seen.push_back(key);
    attributes.push_back(key);
    const std::size_t end = text_.find('"', at_);
    if (end == std::string_view::npos) return "an open attribute";
    const std::string bad = check_text(text_.substr(at_, end - at_));
    at_ = end + 1;
    return bad;
}

inline std::string XmlReader::tag() {
    if (take("/")) {
        const std::string closed = name();
        if (open_.empty() || open_.back() != closed) return "</" + closed + "> closes nothing";
        open_.pop_back();
        return take(">") ? "" : "a bad end of </" + closed;
    }
    const std::string opened = name();
    if (opened.empty()) return "a tag without a name at " + std::to_string(at_);
    elements.push_back(opened);
    std::vector<std::string> seen;
    for (skip_space(); at_ < text_.size() && text_[at_] != '>' && text_[at_] != '/'; skip_space()) {
        if (const std::string bad = attribute(seen); !bad.empty()) return bad;
    }
    if (take("/>")) return "";
    open_.push_back(opened);
    return take(">") ? "" : "a bad end of <" + opened;
}

inline std::string XmlReader::read() {
    if (!take("<!DOCTYPE html>\n")) return "no document type";
    while (at_ < text_.size()) {
        const std::size_t next = std::min(text_.find('<', at_), text_.size());
        if (const std::string bad = check_text(text_.substr(at_, next - at_)); !bad.empty())
            return bad;
        at_ = next;
        if (!take("<")) break;
        if (const std::string bad = tag(); !bad.empty()) return bad;
    }
    return open_.empty() ? "" : "<" + open_.back() + "> stays open";
}

inline std::size_t count(std::string_view text, std::string_view word) {
    std::size_t found = 0;
    for (auto at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1))
        ++found;
    return found;
}

/// Well-formed, and it asks nobody for anything.
inline void assert_stands_alone(const std::string& page) {
    XmlReader reader(page);
    ck_assert_str_eq(reader.read().c_str(), "");
    for (const char* outside :
         {"://", "url(", "@import", "import(", "fetch(", "XMLHttp", "innerHTML", "eval("}) {
        ck_assert_msg(page.find(outside) == std::string::npos, "%s", outside);
    }
    for (const std::string& attribute : reader.attributes) {
        for (const char* bad :
             {"src", "href", "srcset", "action", "onclick", "background", "data"}) {
            ck_assert_msg(attribute != bad, "%s", bad);
        }
    }
    for (const std::string& element : reader.elements) {
        for (const char* bad :
             {"link", "img", "iframe", "object", "embed", "image", "use", "base"}) {
            ck_assert_msg(element != bad, "%s", bad);
        }
    }
    ck_assert(page.find("default-src 'none'") != std::string::npos);
}

}  // namespace arena
