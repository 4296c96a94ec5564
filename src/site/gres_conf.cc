// SPDX-License-Identifier: GPL-2.0-or-later
// See gres_conf.h.
#include "site/gres_conf.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <optional>

#include "base/text.h"
#include "site/slurm_conf.h"

namespace arena {
namespace {

constexpr std::size_t max_expanded = 65536;

bool is_space(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

std::string_view without_blanks(std::string_view text) {
    while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
    return text;
}

// ---- KEY=VALUE, as the expression in Slurm's parse_config.c has it
// -----------------------------------

struct KeyValue {
    std::string key;  ///< in lower case
    std::string value;
};

/// What is in quotes, where a blank or nothing follows them; else up to the next blank.
std::string_view take_value(std::string_view& text) {
    const std::size_t close = text.starts_with('"') ? text.find('"', 1) : std::string_view::npos;
    const bool is_quoted =
        close != std::string_view::npos && (close + 1 == text.size() || is_space(text[close + 1]));
    const auto blank = std::find_if(text.begin(), text.end(), is_space);
    const auto length =
        is_quoted ? close + 1 : static_cast<std::size_t>(std::distance(text.begin(), blank));
    std::string_view value = text.substr(0, length);
    if (is_quoted) value = value.substr(1, length - 2);
    text.remove_prefix(length);
    return value;
}

/// Takes the first off the text; nothing, and the text stays, where there is none.
std::optional<KeyValue> take_key_value(std::string_view& text) {
    std::string_view rest = without_blanks(text);
    const auto in_key = [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
    };
    const auto end = std::find_if_not(rest.begin(), rest.end(), in_key);
    KeyValue found;
    found.key = lower_case(rest.substr(0, static_cast<std::size_t>(end - rest.begin())));
    rest.remove_prefix(found.key.size());
    rest = without_blanks(rest);
    if (!rest.empty() && std::string_view("-*+/").find(rest.front()) != std::string_view::npos)
        rest.remove_prefix(1);
    if (found.key.empty() || !rest.starts_with('=')) return std::nullopt;
    rest = without_blanks(rest.substr(1));
    if (rest.empty()) return std::nullopt;
    found.value = take_value(rest);
    text = rest;
    return found;
}

// ---- a line
// ------------------------------------------------------------------------------------------

constexpr std::array<std::string_view, 12> gres_keys{
    "autodetect", "count", "cpus",  "cores", "file", "files",
    "flags",      "link",  "links", "name",  "type", "multiplefiles"};

/// What a line says after its first key; the sentence says why slurmd refuses it, "" = it does not.
std::string read_rest(std::string_view text, GresLine& line) {
    std::string file, files, multiple;
    while (const auto item = take_key_value(text)) {
        if (std::find(gres_keys.begin(), gres_keys.end(), item->key) == gres_keys.end())
            return fmt::format("{} is no key of a line that begins so", printable(item->key, 40));
        if (item->key == "name" && line.has_nodes) line.name = item->value;
        if (item->key == "type") line.type = item->value;
        if (item->key == "autodetect") line.auto_detect = item->value;
        if (item->key == "file") file = item->value;
        if (item->key == "files") files = item->value;
        if (item->key == "multiplefiles") multiple = item->value;
    }
    text = without_blanks(text);
    if (!text.empty()) return fmt::format("'{}' is no KEY=VALUE", printable(trim(text), 60));
    const std::string& listed = file.empty() ? files : file;
    line.files = expand_list(multiple.empty() ? listed : multiple);
    if (!multiple.empty() && !listed.empty()) return "File and MultipleFiles exclude each other";
    if (!multiple.empty() && line.files.size() < 2) return "MultipleFiles names one file only";
    return {};
}

std::string read_line(std::string_view text, GresConf& conf) {
    const auto first = take_key_value(text);
    if (!first) {
        text = without_blanks(text);
        return text.empty() ? "" : fmt::format("'{}' is no KEY=VALUE", printable(trim(text), 60));
    }
    GresLine line;
    if (first->key == "autodetect") {
        conf.auto_detect = first->value;
        text = without_blanks(text);
        return text.empty() ? "" : "AutoDetect stands alone, or behind NodeName";
    }
    if (first->key == "name") {
        line.name = first->value;
    } else if (first->key == "nodename") {
        line.has_nodes = true;
        line.nodes = expand_list(first->value);
    } else {
        return fmt::format("begins with {}, not with Name, NodeName, AutoDetect or Include",
                           printable(first->key, 40));
    }
    std::string fault = read_rest(text, line);
    if (line.name.empty()) line.files.clear();  // slurmd leaves out what it is of
    conf.lines.push_back(std::move(line));
    return fault;
}

/// The file of "Include FILE", at the very beginning of a line, which names no more.
std::optional<std::string_view> included(std::string_view line) {
    constexpr std::string_view word = "include";
    if (line.size() <= word.size() || !is_space(line[word.size()]) ||
        lower_case(line.substr(0, word.size())) != word)
        return std::nullopt;
    return trim(line.substr(word.size()));
}

// ---- lists
// -------------------------------------------------------------------------------------------

/// "1-3,7" with as many digits as the first has.
std::vector<std::string> numbers(std::string_view ranges) {
    std::vector<std::string> out;
    for (const std::string_view range : split(ranges, ',')) {
        const std::size_t dash = range.find('-');
        const std::string_view first = range.substr(0, dash);
        const auto low = parse_integer(first, 0, INT32_MAX);
        const auto high = dash == std::string_view::npos
                              ? low
                              : parse_integer(range.substr(dash + 1), 0, INT32_MAX);
        for (std::int64_t n = low.value_or(1); n <= high.value_or(0) && out.size() < max_expanded;
             ++n)
            out.push_back(fmt::format("{:0{}}", n, first.size()));
    }
    return out;
}

void expand_word(const std::string& word, std::vector<std::string>& out) {
    const std::size_t open = word.find('['), close = word.find(']', open);
    if (open == std::string::npos || close == std::string::npos) {
        if (!word.empty()) out.push_back(word);
        return;
    }
    for (const std::string& number :
         numbers(std::string_view(word).substr(open + 1, close - open - 1)))
        if (out.size() < max_expanded)
            expand_word(word.substr(0, open) + number + word.substr(close + 1), out);
}

// ---- files
// -------------------------------------------------------------------------------------------

Result<std::string> content_of(const std::string& path) {
    std::error_code missing;
    const auto real = std::filesystem::canonical(path, missing);
    if (missing) return environment_error(missing.message(), path);
    return read_regular_file(real, max_conf_bytes);
}

Status read_into(const std::string& path, GresConf& conf, std::size_t& files) {
    if (++files > max_conf_files)
        return environment_error("includes more than 64 files, or itself", path);
    const auto text = content_of(path);
    if (!text) return text.error();
    GresConf own = parse_gres_conf(*text, path);
    conf.lines.insert(conf.lines.end(), own.lines.begin(), own.lines.end());
    conf.faults.insert(conf.faults.end(), own.faults.begin(), own.faults.end());
    if (!own.auto_detect.empty()) conf.auto_detect = own.auto_detect;
    for (const std::string& include : own.includes) {
        const std::size_t blank = include.find(' ');
        const std::filesystem::path next =
            std::filesystem::path(path).parent_path() / include.substr(blank + 1);
        if (const Status status = read_into(next, conf, files); !status)
            conf.faults.push_back(fmt::format("{}:{}: Include: {}", path, include.substr(0, blank),
                                              status.error().message()));
    }
    return Done{};
}

}  // namespace

GresConf parse_gres_conf(std::string_view text, std::string_view file) {
    GresConf conf;
    for (const SlurmTextLine& line : slurm_text_lines(text)) {
        std::string fault;
        if (const auto name = included(line.text)) {
            if (name->empty() || name->find('%') != std::string_view::npos ||
                std::any_of(name->begin(), name->end(), is_space))
                fault = "Include takes one file, without %";
            else
                conf.includes.push_back(fmt::format("{} {}", line.number, *name));
        } else {
            fault = read_line(line.text, conf);
        }
        if (!fault.empty())
            conf.faults.push_back(fmt::format("{}:{}: {}", file, line.number, fault));
    }
    return conf;
}

Result<GresConf> read_gres_conf(const std::string& path) {
    GresConf conf;
    std::size_t files = 0;
    if (auto status = read_into(path, conf, files); !status) return status.error();
    return conf;
}

bool applies_to(const GresLine& line, const std::vector<std::string>& names_of_node) {
    if (!line.has_nodes) return true;
    return std::any_of(line.nodes.begin(), line.nodes.end(), [&](const std::string& node) {
        return std::find(names_of_node.begin(), names_of_node.end(), node) != names_of_node.end();
    });
}

std::vector<std::string> expand_list(std::string_view list) {
    std::vector<std::string> out;
    std::string word;
    int depth = 0;
    for (const char c : list) {
        depth += c == '[' ? 1 : c == ']' ? -1 : 0;
        if (c != ',' || depth > 0) {
            word += c;
            continue;
        }
        expand_word(word, out);
        word.clear();
    }
    expand_word(word, out);
    return out;
}

}  // namespace arena
