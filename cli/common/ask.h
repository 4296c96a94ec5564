// SPDX-License-Identifier: GPL-2.0-or-later
// The two ways in which the command asks Slurm: the plug-in's unix socket on the controller, and
// Slurm's own commands (argv, never a shell) elsewhere.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace arena::cli {

/// Sends one line and reads the answer to its end, within the limit and 64 MiB.
Result<std::string> ask_socket(const std::string& path, std::string_view line,
                               std::chrono::seconds limit = std::chrono::seconds(10));

struct ProgramOutput {
    int status = 0;  ///< exit status, 128 + signal when killed
    std::string out, err;
};
/// Runs a program found in PATH (also /usr/sbin, /sbin), stdin /dev/null, within 64 MiB and the
/// limit.
Result<ProgramOutput> run_program(const std::vector<std::string>& argv,
                                  std::chrono::seconds limit = std::chrono::seconds(15));
/// As run_program, but a status other than 0 is an error that quotes stderr's first line.
Result<std::string> program_text(const std::vector<std::string>& argv);

/// "Key=value" fields of `scontrol show job` text, where AdminComment, SystemComment, Comment and
/// others that may hold blanks are alone on their line.
std::map<std::string, std::string> parse_scontrol_fields(std::string_view text);
/// "Key = value" lines of `scontrol show config`.
std::map<std::string, std::string> parse_scontrol_config(std::string_view text);

}  // namespace arena::cli
