// SPDX-License-Identifier: GPL-2.0-or-later
// `arena doctor`: plugstack.conf. Without our line sbatch knows no --arena option; with two of them
// each option is there twice.
#include <fmt/format.h>
#include <glob.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/text.h"
#include "cli/doctor/doctor_parts.h"

namespace arena::cli {
namespace {

constexpr const char* spank_name = "plugstack.conf";

struct PluginLine {
    std::string file, rule, plugin;  ///< where it stands; optional or required; what it loads
};

struct Stack {
    std::vector<PluginLine> ours;
    std::vector<std::string> patterns;  ///< of include lines
    std::string pyxis_first;            ///< file in which pyxis stands before ours; "" = nowhere
    int files = 0;
};

std::vector<std::string> words(std::string_view line) {
    std::vector<std::string> out;
    for (const std::string_view word : split(line, ' '))
        if (!trim(word).empty()) out.emplace_back(trim(word));
    return out;
}

/// As Slurm reads it: "include PATTERN" and "optional|required PLUGIN [ARGS]"; # begins a comment.
void read_stack(const std::string& path, Stack& stack) {
    constexpr int max_files = 256;
    std::error_code missing;
    const auto text =
        read_regular_file(std::filesystem::canonical(path, missing), std::size_t{1} << 20);
    if (!text || ++stack.files > max_files) return;
    for (const std::string_view line : split(*text, '\n')) {
        const auto parts = words(line.substr(0, line.find('#')));
        if (parts.size() < 2) continue;
        if (parts[0] == "include") {
            stack.patterns.push_back(parts[1]);
            glob_t matches{};
            if (::glob(parts[1].c_str(), 0, nullptr, &matches) == 0)
                for (std::size_t i = 0; i < matches.gl_pathc; ++i)
                    read_stack(matches.gl_pathv[i], stack);
            ::globfree(&matches);
        } else if (std::filesystem::path(parts[1]).filename() == "spank_arena.so") {
            stack.ours.push_back({path, parts[0], parts[1]});
        } else if (stack.ours.empty() &&
                   std::filesystem::path(parts[1]).filename() == "spank_pyxis.so") {
            stack.pyxis_first = path;
        }
    }
}

/// arena.conf in the directory that plugstack.conf includes, else a line at its end.
std::string add_line(const std::string& path, const Stack& stack, const std::string& plugin) {
    const auto directory =
        std::find_if(stack.patterns.begin(), stack.patterns.end(),
                     [](const std::string& pattern) { return pattern.ends_with("/*.conf"); });
    if (directory == stack.patterns.end())
        return fmt::format("echo 'optional {}' >>{}", plugin, shell_word(path));
    const std::string folder = directory->substr(0, directory->rfind('/'));
    return fmt::format("install -d {0} && echo 'optional {1}' >{0}/arena.conf", shell_word(folder),
                       plugin);
}

std::string remove_line(const PluginLine& line) {
    return fmt::format("sed -i '/^[^#]*spank_arena.so/d' {}", shell_word(line.file));
}

/// Where the plug-in looks for what it leaves to another file: behind all links.
bool has_library(const std::string& plugin) {
    std::error_code failed;
    const auto real = std::filesystem::canonical(plugin, failed);
    return !failed && ::access((real.parent_path() / "libarena_spank.so").c_str(), R_OK) == 0;
}

Finding check_one(const Facts& facts, const PluginLine& line) {
    const std::string ours = facts.plugin_dir + "/spank_arena.so";
    const bool is_path = line.plugin.starts_with('/');
    if (is_path && ::access(line.plugin.c_str(), R_OK) != 0)
        return fail(
            spank_name,
            fmt::format("{}: {} is not on this host: sbatch knows no --arena option", line.file,
                        line.plugin),
            {line.plugin == ours ? "make install"
                                 : fmt::format("sed -i 's|^[^#]*spank_arena.so|optional {}|' {}",
                                               ours, shell_word(line.file))});
    if (is_path && !has_library(line.plugin))
        return fail(spank_name,
                    fmt::format("{}: libarena_spank.so is not beside {}: sbatch refuses --arena "
                                "options; in the directory where slurm-arena was built:",
                                line.file, line.plugin),
                    {"make install"});
    if (line.rule == "required")
        return warn(spank_name,
                    fmt::format("{}: required; a fault of the plug-in would end jobs", line.file),
                    {fmt::format("sed -i 's|^[^#]*spank_arena.so|optional {}|' {}", line.plugin,
                                 shell_word(line.file))});
    return ok(spank_name, fmt::format("{}: {} {}", line.file, line.rule, line.plugin));
}

/// A plug-in behind pyxis' is called inside of the container, where neither agent nor recorder are.
Finding behind_pyxis(const PluginLine& line, const std::string& pyxis_file) {
    return warn(spank_name,
                fmt::format("{}: spank_pyxis.so stands before spank_arena.so: a step in its "
                            "container runs unwatched",
                            pyxis_file),
                {remove_line(line), fmt::format("sed -i '/^[^#]*spank_pyxis.so/i {} {}' {}",
                                                line.rule, line.plugin, shell_word(pyxis_file))});
}

std::string stack_path(const Facts& facts) {
    const std::string named = wanted_value(facts, "PlugStackConfig");
    return named.empty() ? std::string(std::filesystem::path(facts.slurm_conf_path).parent_path() /
                                       "plugstack.conf")
                         : named;
}

}  // namespace

std::vector<Finding> check_spank(const Facts& facts) {
    if (!facts.slurm_conf && !facts.slurm_config) return {};
    const std::string path = stack_path(facts);
    Stack stack;
    read_stack(path, stack);
    if (stack.ours.empty())
        return {fail(spank_name, path + " loads no spank_arena.so: sbatch knows no --arena option",
                     {add_line(path, stack, facts.plugin_dir + "/spank_arena.so")})};
    if (stack.ours.size() == 1) {
        std::vector<Finding> found{check_one(facts, stack.ours.front())};
        if (!stack.pyxis_first.empty())
            found.push_back(behind_pyxis(stack.ours.front(), stack.pyxis_first));
        return found;
    }
    Remedy remedy;
    std::vector<std::string> files;
    const std::string& kept = stack.ours.front().file;
    for (const PluginLine& line : stack.ours) {
        if (line.file != kept && std::find(files.begin(), files.end(), line.file) == files.end())
            remedy.push_back(remove_line(line));
        files.push_back(line.file);
    }
    if (remedy.empty())  // all in one file: anew
        remedy = {remove_line(stack.ours.front()),
                  fmt::format("echo 'optional {}/spank_arena.so' >>{}", facts.plugin_dir,
                              shell_word(kept))};
    return {
        fail(spank_name,
             fmt::format("spank_arena.so is loaded {} times ({}): each option is there as often",
                         stack.ours.size(), join(files, ", ")),
             std::move(remedy))};
}

}  // namespace arena::cli
