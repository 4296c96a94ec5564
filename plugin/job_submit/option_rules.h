// SPDX-License-Identifier: GPL-2.0-or-later
// Options of sbatch that say what Arena chooses, in ways that it cannot follow: refused with a
// sentence rather than dropped. doc/sbatch-options.md has the table of all options. Plain values,
// no Slurm.
#pragma once

#include <string_view>

#include "base/result.h"

namespace arena {

struct OptionFacts {
    std::string_view constraint, prefer;  ///< as given
    bool mincpus = false;
    bool priority = false;  ///< of an operator; a hold is none
};

Status check_options(const OptionFacts& facts);
/// "[a|b]" and "a*2" choose nodes by number.
bool chooses_numbers(std::string_view features);

}  // namespace arena
