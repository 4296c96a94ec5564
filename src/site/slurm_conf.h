// SPDX-License-Identifier: GPL-2.0-or-later
// slurm.conf as it stands on a host, read without Slurm: for root's Prolog helper, and for a host
// where no command of Slurm's works. Left out: what a line says after its first key (a node's, a
// partition's).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace arena {

/// Of Slurm's: with those that one includes, and of each.
inline constexpr std::size_t max_conf_files = 64, max_conf_bytes = std::size_t{1} << 20;

struct SlurmConfLine {
    std::string key;    ///< in lower case
    std::string value;  ///< never empty
    std::string file;   ///< that it stands in; "" from parse_slurm_conf()
    bool operator==(const SlurmConfLine&) const = default;
};

struct SlurmConf {
    std::vector<SlurmConfLine> lines;  ///< those of included files at their places
    /// The last line of that key (any case), which Slurm goes by; nullptr = none.
    [[nodiscard]] const SlurmConfLine* find(std::string_view key) const;
    [[nodiscard]] std::string value(std::string_view key) const;  ///< "" = none
};

/// Keys are in any case.
std::string lower_case(std::string_view text);

/// A line of any of Slurm's files as Slurm sees it.
struct SlurmTextLine {
    std::size_t number = 0;  ///< of the first that it is made of, from 1
    std::string text;
};
/// Comments cut, continued lines joined, escapes resolved.
std::vector<SlurmTextLine> slurm_text_lines(std::string_view text);

/// As in Slurm (parse_config.c): a line has one key, at its beginning and in any case, and what
/// follows a NodeName or PartitionName belongs to it; a value is one word or in quotes; a backslash
/// at the end continues a line, one before a '#' keeps it from beginning a comment. "Include FILE"
/// is a line of key "include".
std::vector<SlurmConfLine> parse_slurm_conf(std::string_view text);
/// At most 64 files, 1 MiB each. An include that cannot be read, or whose %c has no ClusterName
/// before it, is an error; so is a symbolic link that others than root and whoever asks could
/// change, or whose target they could.
Result<SlurmConf> read_slurm_conf(const std::string& path);
/// SlurmUser; root, Slurm's default, when no file names one.
Result<std::string> read_slurm_user(const std::string& path);

}  // namespace arena
