// SPDX-License-Identifier: GPL-2.0-or-later
// See script_training.h.
#include "request/script_training.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <optional>

#include "base/text.h"
#include "core/limits.h"
#include "request/script_programs.h"

namespace arena {
namespace {

constexpr std::size_t most_variables = 256, most_put_in = 4 * max_script_bytes;
constexpr std::array<std::string_view, 5> model_words = {
    "--model_name_or_path", "--model-name-or-path", "--config_name", "--model_name", "--model"};
constexpr std::array<std::string_view, 3> batch_words = {
    "--global-batch-size", "--global_batch_size", "--train_batch_size"};
constexpr std::array<std::string_view, 3> device_batch_words = {"--per_device_train_batch_size",
                                                                "--per-device-train-batch-size",
                                                                "--train_micro_batch_size_per_gpu"};
constexpr std::array<std::string_view, 2> accumulation_words = {"--gradient_accumulation_steps",
                                                                "--gradient-accumulation-steps"};

bool is_name_letter(char c, bool first) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    return letter || (!first && c >= '0' && c <= '9');
}

std::string_view take_name(std::string_view text) {
    std::size_t n = 0;
    while (n < text.size() && is_name_letter(text[n], n == 0)) ++n;
    return text.substr(0, n);
}

using Variables = std::map<std::string, std::string, std::less<>>;

/// "$NAME", "${NAME}", "${NAME[@]}" at the beginning of `text`: its name, and how long it is; other
/// forms are none.
std::optional<std::pair<std::string_view, std::size_t>> reference_at(std::string_view text) {
    const bool braced = text.substr(1).starts_with('{');
    const std::size_t begin = braced ? 2 : 1;
    const std::string_view name = take_name(text.substr(begin));
    if (name.empty()) return std::nullopt;
    std::size_t end = begin + name.size();
    if (!braced) return std::pair(name, end);
    for (const std::string_view all : {"[@]", "[*]"})
        if (text.substr(end).starts_with(all)) end += all.size();
    if (!text.substr(end).starts_with('}')) return std::nullopt;
    return std::pair(name, end + 1);
}

/// `left`: bytes that may still be put in; a value that is longer is not.
std::string put_in(std::string_view text, const Variables& variables, std::size_t& left) {
    std::string out;
    for (std::size_t at = 0; at < text.size();) {
        const auto found = text[at] == '$' ? reference_at(text.substr(at)) : std::nullopt;
        const auto value = found ? variables.find(found->first) : variables.end();
        if (value == variables.end() || value->second.size() > left) {
            out += text[at++];
            continue;
        }
        out += value->second;
        left -= value->second.size();
        at += found->second;
    }
    return out;
}

/// The value that begins here: up to its closing quote or bracket, else to the end of the word.
std::string_view value_at(std::string_view text) {
    const char first = text.empty() ? '\0' : text.front();
    const char close = first == '(' ? ')' : first == '"' || first == '\'' ? first : '\0';
    if (close != '\0') {
        const std::size_t end = text.find(close, 1);
        return end == std::string_view::npos ? std::string_view() : text.substr(1, end - 1);
    }
    return text.substr(0, text.find_first_of(" \t\n;&|"));
}

/// One line for many: a value that is set over several lines is put in as one.
std::string in_one_line(std::string_view value) {
    std::string out;
    for (const std::string_view line : split(value, '\n')) {
        std::string_view words = trim(line.substr(0, line.find(" #")));
        if (words.starts_with('#')) continue;
        if (words.ends_with('\\')) words.remove_suffix(1);
        out += (out.empty() ? "" : " ") + std::string(trim(words));
    }
    return out;
}

template <std::size_t N>
std::string value_after(const std::vector<std::string>& words,
                        const std::array<std::string_view, N>& names) {
    for (std::size_t i = 0; i < words.size(); ++i)
        for (const std::string_view name : names) {
            if (words[i] == name) return i + 1 < words.size() ? words[i + 1] : std::string();
            if (words[i].starts_with(name) && words[i].substr(name.size()).starts_with('='))
                return words[i].substr(name.size() + 1);
        }
    return {};
}

template <std::size_t N>
std::int64_t number_after(const std::vector<std::string>& words,
                          const std::array<std::string_view, N>& names) {
    return parse_integer(value_after(words, names), 1, limits::batch).value_or(0);
}

ScriptTraining training_of(const ScriptProgram& program) {
    const auto& words = program.arguments;
    ScriptTraining training;
    training.launcher = program.launcher;
    training.batch = number_after(words, batch_words);
    training.device_batch = number_after(words, device_batch_words);
    training.accumulation = std::max<std::int64_t>(number_after(words, accumulation_words), 1);
    const auto layers = std::find(words.begin(), words.end(), "--num-layers");
    training.by_arguments = layers != words.end();
    if (training.by_arguments) {
        const auto first = std::find_if(words.begin(), words.end(), [](const std::string& word) {
            return word.ends_with(".py");
        });
        const auto from = first == words.end() ? words.begin() : first + 1;
        training.model = join({from, words.end()}, " ");
    } else {
        training.model = value_after(words, model_words);
    }
    return training;
}

}  // namespace

std::string with_own_variables(std::string_view script) {
    script = script.substr(0, max_script_bytes);
    Variables variables;
    std::string out;
    std::size_t left = most_put_in;  // of the variables' values, too: they may hold each other
    for (std::size_t at = 0; at < script.size();) {
        const std::size_t newline = std::min(script.find('\n', at), script.size());
        std::string_view line = script.substr(at, newline - at);
        std::string_view word = line;
        while (!word.empty() && (word.front() == ' ' || word.front() == '\t'))
            word.remove_prefix(1);
        if (word.starts_with("export ")) word.remove_prefix(7);
        const std::string_view name = take_name(word);
        const bool sets = !name.empty() && word.substr(name.size()).starts_with('=');
        if (sets && variables.size() < most_variables) {
            const auto begin =
                static_cast<std::size_t>(word.data() - script.data()) + name.size() + 1;
            const std::string_view value = value_at(script.substr(begin));
            const std::string known = put_in(in_one_line(value), variables, left);
            variables[std::string(name)] = known;
            const std::size_t end = begin + value.size();
            if (end > newline) {  // over several lines
                at = std::min(script.find('\n', end), script.size()) + 1;
                out += '\n';
                continue;
            }
        }
        out += put_in(line, variables, left);
        out += '\n';
        at = newline + 1;
    }
    return out;
}

ScriptTraining parse_script_training(std::string_view script) {
    ScriptTraining last;
    for (const ScriptProgram& program : parse_script_programs(with_own_variables(script))) {
        ScriptTraining training = training_of(program);
        if (training.model.find('$') != std::string::npos) training.model.clear();
        if (!training.model.empty() || last.model.empty()) last = std::move(training);
    }
    return last;
}

}  // namespace arena
