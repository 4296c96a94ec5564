// SPDX-License-Identifier: GPL-2.0-or-later
// Whether two hosts, or a file and the slurmctld that read it, have the same arena.yaml.
#pragma once

#include <filesystem>
#include <string>

#include "base/text.h"

namespace arena {

/// A job with this comment is never taken in: job_submit/arena refuses it with the words below and
/// the sum of the controller's file. So any host can ask for it.
inline constexpr const char* ask_config_sum = "arena:config-sum";
inline constexpr const char* config_sum_words = "arena.yaml of the controller has sum ";

/// Eight hex digits of the file's text: to compare, not to trust.
inline Result<std::string> config_sum(const std::string& path) {
    std::error_code missing;
    const auto real = std::filesystem::canonical(path, missing);
    if (missing) return environment_error(missing.message(), path);
    const auto text = read_regular_file(real, std::size_t{64} << 10);
    if (!text) return text.error();
    return sha256_hex(*text).substr(0, 8);
}

}  // namespace arena
