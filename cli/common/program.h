// SPDX-License-Identifier: GPL-2.0-or-later
// What a program with sub-commands is made of, `arena` and those beside it: the options before the
// sub-command, mistakes as sentences that name the nearest word, exit codes. A verb may be another
// program's, which is then started with the same words.
#pragma once

#include <span>
#include <string>

#include "cli/common/cli.h"

namespace arena::cli {

/// A verb that has a program of its own, beside this one or in libexec.
struct VerbElsewhere {
    const char* verb;
    const char* about;  ///< one line of --help
    const char* program;
};

struct CommandProgram {
    const char* name;   ///< as it is typed, and as its errors begin
    const char* about;  ///< one line of --help
    void (*add_commands)(CLI::App&, Globals&);
    std::span<const VerbElsewhere> elsewhere = {};
};

/// Beside this program (a build directory), else in libexec of its own tree, else where it was to
/// be installed.
std::string libexec_program(const std::string& name);

/// Runs the sub-command that the words name. Exit code; a bug is reported, and ends in 3. Does not
/// return from a verb that is elsewhere, unless that program is not there (3).
int run_commands(const CommandProgram&, int argc, char** argv);

}  // namespace arena::cli
