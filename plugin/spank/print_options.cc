// SPDX-License-Identifier: GPL-2.0-or-later
// Prints the --arena-* options as rows of a C table, when slurm-arena is built: spank_arena.so
// registers them in every sbatch, srun and slurmstepd, and cannot carry request/options.h, which
// knows models and launchers.
#include <fmt/format.h>

#include "base/text.h"
#include "request/options.h"

namespace {

std::string quoted(std::string_view text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') out += '\\';
        out += c;
    }
    return out + "\"";
}

}  // namespace

int main() {
    for (const arena::Option& option : arena::options())
        fmt::print("{{{}, {}, {}, {}}},\n", quoted("arena-" + std::string(option.key)),
                   quoted(option.argument), quoted(arena::usage_of(option)), option.bare ? 2 : 1);
}
