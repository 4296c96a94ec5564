// SPDX-License-Identifier: GPL-2.0-or-later
// `arena doctor`, on a compute node: whether the devices that gres.conf names are there. slurmd
// does not start without one of them.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "base/text.h"
#include "cli/doctor/doctor_parts.h"

namespace arena::cli {
namespace {

constexpr const char* name = "GPU devices";
constexpr std::size_t max_expanded = 65536;

std::string lower_case(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return text;
}

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

struct DeviceLine {
    std::vector<std::string> nodes, files;
};

DeviceLine parse_line(std::string_view line) {
    DeviceLine found;
    bool is_gpu = false;
    for (const std::string_view word : split(line.substr(0, line.find('#')), ' ')) {
        const std::size_t equals = word.find('=');
        if (equals == std::string_view::npos) continue;
        const std::string key = lower_case(std::string(trim(word.substr(0, equals))));
        const std::string_view value = trim(word.substr(equals + 1));
        if (key == "name") is_gpu = value == "gpu";
        if (key == "file") found.files = expand_list(value);
        if (key == "nodename") found.nodes = expand_list(value);
    }
    return is_gpu ? found : DeviceLine{};
}

/// The names that slurm.conf has for this host.
std::vector<std::string> own_nodes(const Facts& facts) {
    std::vector<std::string> names{facts.host.name};
    if (facts.nodes)
        for (const SlurmNode& node : *facts.nodes)
            if (node.host.substr(0, node.host.find('.')) == facts.host.name)
                names.push_back(node.name);
    return names;
}

bool share_a_name(const std::vector<std::string>& a, const std::vector<std::string>& b) {
    return std::any_of(a.begin(), a.end(), [&](const auto& name_) {
        return std::find(b.begin(), b.end(), name_) != b.end();
    });
}

Finding missing_device(const std::string& conf, const std::string& device, std::size_t missing,
                       std::size_t all) {
    const std::string text =
        fmt::format("{} of {} is not on this node ({} of {} are missing): slurmd does not start",
                    device, conf, missing, all);
    constexpr const char *prefix = "/dev/nvidia", *maker = "/usr/bin/nvidia-modprobe";
    const auto minor = parse_integer(
        device.starts_with(prefix) ? std::string_view(device).substr(11) : "", 0, 255);
    if (minor && ::access(maker, X_OK) == 0)
        return fail(
            name, text,
            {fmt::format("nvidia-modprobe -c {}", *minor), apply_command(Apply::restart_slurmd)});
    return fail(
        name, text + fmt::format(
                         "; load the GPU's driver, or take it out of {} and of Gres= in slurm.conf",
                         conf));
}

}  // namespace

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

std::vector<Finding> check_devices(const Facts& facts) {
    if (!facts.host.compute) return {};
    const std::string conf =
        std::filesystem::path(facts.slurm_conf_path).parent_path() / "gres.conf";
    std::error_code none;
    const auto text =
        read_regular_file(std::filesystem::canonical(conf, none), std::size_t{1} << 20);
    if (!text) return {skip(name, none ? conf + ": " + none.message() : text.error().message())};
    const std::vector<std::string> own = own_nodes(facts);
    std::vector<std::string> files, missing;
    for (const std::string_view line : split(*text, '\n')) {
        const DeviceLine devices = parse_line(line);
        if (!devices.nodes.empty() && !share_a_name(devices.nodes, own)) continue;
        files.insert(files.end(), devices.files.begin(), devices.files.end());
    }
    for (const std::string& file : files)
        if (::access(file.c_str(), F_OK) != 0) missing.push_back(file);
    if (!missing.empty())
        return {missing_device(conf, missing.front(), missing.size(), files.size())};
    if (files.empty()) return {skip(name, conf + " names none for this node")};
    return {ok(name, fmt::format("{} of {}", files.size(), conf))};
}

}  // namespace arena::cli
