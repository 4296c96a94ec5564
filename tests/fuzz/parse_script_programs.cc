// SPDX-License-Identifier: GPL-2.0-or-later
// Any bytes may be a batch script; what is found in it is short, printable and a launcher.
#include "fuzz.h"
#include "request/launchers.h"
#include "request/script_programs.h"

FUZZ(text) {
    const auto found = arena::parse_script_programs(text);
    if (found.size() > arena::max_script_programs) std::abort();
    for (const arena::ScriptProgram& program : found) {
        if (program.word.empty() || program.word.size() > 64 || program.line == 0) std::abort();
        if (arena::find_launcher(program.launcher) == nullptr) std::abort();
        for (const char c : program.word)
            if (c < ' ' || c > '~') std::abort();
    }
}
