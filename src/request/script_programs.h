// SPDX-License-Identifier: GPL-2.0-or-later
// Which launchers a batch script starts, as far as its text says: for a hint to a user who named
// none. The script is a stranger's: it is read in its first 64 KiB, never evaluated, and nothing is
// decided by what is found. A shell's grammar in a small part: words, quotes, comments,
// here-documents and the commands that start others (srun, python -m, bash -c); not what variables
// and functions do.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace arena {

/// A program that the script starts, and the launcher whose table names it.
struct ScriptProgram {
    std::string word;                         ///< printable, at most 40 bytes
    std::string launcher;                     ///< a name of request/launchers.h
    std::size_t line = 0;                     ///< from 1
    std::vector<std::string> arguments = {};  ///< the words after it, on its command
    bool operator==(const ScriptProgram&) const = default;
};

inline constexpr std::size_t max_script_programs = 3;
/// Of a batch script, from its first on: no more is read for options or programs.
inline constexpr std::size_t max_script_bytes = 64 * 1024;

/// The first of each launcher, in the order of the script, at most max_script_programs.
std::vector<ScriptProgram> parse_script_programs(std::string_view script);

}  // namespace arena
