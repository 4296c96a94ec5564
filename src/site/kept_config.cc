// SPDX-License-Identifier: GPL-2.0-or-later
// See kept_config.h. arena.yaml is written last: after a crash between two files the older
// arena.yaml goes with tables that were good, too.
#include "site/kept_config.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "base/text.h"
#include "base/yaml.h"

namespace arena {
namespace {

constexpr std::size_t max_table_bytes = std::size_t{1} << 20;  ///< more than any of them may have

std::string kept_hardware(const std::string& directory) { return directory + "/hardware.yaml"; }
std::string kept_calibration(const std::string& directory) {
    return directory + "/calibration.yaml";
}

Status write_if_new(const std::string& path, const std::string& text) {
    if (const auto before = read_regular_file(path, max_table_bytes); before && *before == text)
        return Done{};
    return write_file_atomic(path, text, 0600);
}

Status copy_table(const std::string& from, const std::string& to) {
    if (from.empty() || from == to) return Done{};
    const Result<std::string> text = read_regular_file(from, max_table_bytes);
    return text ? write_if_new(to, *text) : Status(text.error());
}

}  // namespace

std::string kept_config_directory(const std::string& state_save_location) {
    return state_save_location + "/arena";
}

std::string kept_config_path(const std::string& directory) { return directory + "/arena.yaml"; }

Status keep_config(const std::string& directory, const std::string& path, const Config& config) {
    const Result<std::string> text = read_regular_file(path, YamlLimits{}.bytes);
    if (!text) return text.error();
    const Result<Config> now = parse_config(*text, path);
    if (!now || *now != config) return Done{};
    if (::mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST)
        return environment_error(std::strerror(errno), directory);
    if (Status s = copy_table(config.hardware_file, kept_hardware(directory)); !s) return s;
    if (Status s = copy_table(config.calibration_file, kept_calibration(directory)); !s) return s;
    return write_if_new(kept_config_path(directory), *text);
}

Result<Config> load_kept_config(const std::string& directory) {
    Result<Config> config = load_config(kept_config_path(directory));
    if (!config) return config;
    if (!config->hardware_file.empty()) config->hardware_file = kept_hardware(directory);
    if (!config->calibration_file.empty()) config->calibration_file = kept_calibration(directory);
    return config;
}

}  // namespace arena
