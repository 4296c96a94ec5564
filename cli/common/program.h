// SPDX-License-Identifier: GPL-2.0-or-later
// What a program with sub-commands is made of, `arena` and those beside it: the options before the
// sub-command, mistakes as sentences that name the nearest word, exit codes.
#pragma once

#include "cli/common/cli.h"

namespace arena::cli {

struct CommandProgram {
    const char* name;   ///< as it is typed, and as its errors begin
    const char* about;  ///< one line of --help
    void (*add_commands)(CLI::App&, Globals&);
};

/// Runs the sub-command that the words name. Exit code; a bug is reported, and ends in 3.
int run_commands(const CommandProgram&, int argc, char** argv);

}  // namespace arena::cli
