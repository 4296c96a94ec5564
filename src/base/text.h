// SPDX-License-Identifier: GPL-2.0-or-later
// Small text helpers for messages and parsing: bounded numbers, nearest word, splitting, escaping,
// whole-file reads that never follow a symlink nor block on a fifo.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace arena {

/// Whole-string decimal integer in [min, max]; nothing for empty, signs other than '-', overflow.
std::optional<std::int64_t> parse_integer(std::string_view text, std::int64_t min,
                                          std::int64_t max);
/// Whole-string finite decimal number in [min, max].
std::optional<double> parse_number(std::string_view text, double min, double max);
std::vector<std::string_view> split(std::string_view text, char separator);
std::string_view trim(std::string_view text);
std::string join(const std::vector<std::string>& parts, std::string_view separator);
/// The candidate with the least edit distance, "" if none is within half of the word's length.
std::string nearest(std::string_view word, const std::vector<std::string_view>& candidates);
/// Printable ASCII with control and non-ASCII bytes as \xNN, cut to max bytes: safe in logs.
std::string printable(std::string_view text, std::size_t max = 80);
/// SHA-256 as 64 hex digits: what stands for a text wherever a stranger may have chosen one of two
/// texts. A part of it is for eyes, or for what nobody gains by. Tables have Fnv1a.
std::string sha256_hex(std::string_view text);
/// "1.2 GiB", "350 ms"; for people.
std::string human_bytes(double bytes);
std::string human_seconds(double seconds);

/// Reads a regular file of at most max_bytes as the calling user: O_NOFOLLOW|O_NONBLOCK|O_CLOEXEC,
/// fstat before read. Errors say which of: missing, permission, symlink, not a regular file, too
/// large.
Result<std::string> read_regular_file(const std::string& path, std::size_t max_bytes);
/// Writes path.new, fsync, rename, fsync of the directory. Refuses to replace what is neither file
/// nor missing: root's `--out /dev/null` would leave a machine without that device.
Status write_file_atomic(const std::string& path, std::string_view content, unsigned mode = 0644);
/// The program of that name beside the running one (a build directory); "" where there is none.
std::string program_beside(const std::string& name);
/// Makes a rename to `path` last: syncs the directory that holds it.
Status sync_directory(const std::string& path);

}  // namespace arena
