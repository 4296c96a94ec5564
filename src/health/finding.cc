// SPDX-License-Identifier: GPL-2.0-or-later
// See finding.h.
#include "health/finding.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/names.h"
#include "base/text.h"
#include "health/signs.h"

namespace arena::health {
namespace {

constexpr std::size_t max_word = 64;
constexpr std::int64_t last_second = std::int64_t{1} << 40;
constexpr std::string_view version = "v1";
constexpr std::array<Name<Severity>, 4> severities{{
    {Severity::note, "note"},
    {Severity::watch, "watch"},
    {Severity::slow, "slow"},
    {Severity::gone, "gone"},
}};

bool is_word(std::string_view text) {
    return !text.empty() && text.size() <= max_word &&
           std::all_of(text.begin(), text.end(), [](char c) {
               const bool alnum =
                   (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
               return alnum || std::string_view("._:-").find(c) != std::string_view::npos;
           });
}

/// "gone=xid79/gpu2@1790000000"
std::optional<Finding> read_finding(std::string_view text) {
    const std::size_t equals = text.find('='), slash = text.find('/'), at = text.rfind('@');
    if (at == std::string_view::npos || !(equals < slash && slash < at)) return std::nullopt;
    const auto severity = value_of(severities, text.substr(0, equals));
    const std::string_view code = text.substr(equals + 1, slash - equals - 1);
    const std::string_view place = text.substr(slash + 1, at - slash - 1);
    const auto time = parse_integer(text.substr(at + 1), 0, last_second);
    if (!severity || !is_word(code) || !is_word(place) || !time) return std::nullopt;
    return Finding{std::string(code), std::string(place), *severity, *time};
}

void read_word(std::string_view word, NodeComment& out) {
    const auto parts = split(word.substr(comment_mark.size()), ';');
    if (parts.front() != version) {
        out.broken = printable(parts.front()) + " is a later version's";
        return;
    }
    for (auto part = std::next(parts.begin()); part != parts.end(); ++part) {
        const auto finding = read_finding(*part);
        if (!finding || out.findings.size() == max_findings) {
            out.broken = finding ? "it has more than 24 findings" : printable(*part) + " is none";
            out.findings.clear();
            return;
        }
        out.findings.push_back(*finding);
    }
}

/// Where Arena's word begins; npos = nowhere.
std::size_t find_word(std::string_view text) {
    for (std::size_t at = 0; (at = text.find(comment_mark, at)) != std::string_view::npos; ++at)
        if (at == 0 || text[at - 1] == ' ') return at;
    return std::string_view::npos;
}

std::string words_of_place(const Finding& finding) {
    const std::string& place = finding.place;
    const auto gpu = gpu_of(finding);
    if (gpu && place.find('.') == std::string::npos) return fmt::format("GPU {}", *gpu);
    if (gpu) return fmt::format("GPU {}, {}", *gpu, place.substr(place.find('.') + 1));
    if (place == "node") return "the node";
    return (place.find(':') != std::string::npos ? "GPU " : "port ") + place;
}

}  // namespace

std::string_view name(Severity severity) { return name_of(severities, severity); }

std::optional<std::int64_t> gpu_of(const Finding& finding) {
    const std::string_view place = finding.place;
    if (!place.starts_with("gpu")) return std::nullopt;
    return parse_integer(place.substr(3, place.find('.') - 3), 0, 4095);
}

std::string words_of(const Finding& finding) {
    const std::string place = words_of_place(finding);
    const Sign* sign = find_sign(finding.code);
    if (!sign) return fmt::format("{}: {}", place, finding.code);
    const std::string number =
        sign->tool == Tool::xid ? "XID " + finding.code.substr(3) + ", " : "";
    return fmt::format("{}: {}{}", place, number, sign->words);
}

NodeComment parse_health_comment(std::string_view text) {
    NodeComment comment;
    const std::size_t at = find_word(text);
    comment.before = text.substr(0, at == std::string_view::npos || at == 0 ? at : at - 1);
    if (at == 0) comment.before.clear();
    if (at == std::string_view::npos) return comment;
    const std::size_t end = std::min(text.find(' ', at), text.size());
    if (end < text.size()) comment.after = text.substr(end + 1);
    read_word(text.substr(at, end - at), comment);
    return comment;
}

std::string format_health_comment(const NodeComment& comment) {
    std::vector<std::string> words;
    if (!comment.before.empty()) words.push_back(comment.before);
    if (!comment.findings.empty()) {
        std::string word = std::string(comment_mark) + std::string(version);
        for (const Finding& f : comment.findings)
            word += fmt::format(";{}={}/{}@{}", name(f.severity), f.code, f.place, f.at);
        words.push_back(word);
    }
    if (!comment.after.empty()) words.push_back(comment.after);
    return join(words, " ");
}

}  // namespace arena::health
