// SPDX-License-Identifier: GPL-2.0-or-later
// See option_rules.h.
#include "plugin/job_submit/option_rules.h"

namespace arena {

bool chooses_numbers(std::string_view features) {
    return features.find_first_of("[]*") != std::string_view::npos;
}

Status check_options(const OptionFacts& facts) {
    if (chooses_numbers(facts.constraint) || chooses_numbers(facts.prefer))
        return usage_error(
            "--constraint with brackets or counts cannot be combined with Arena, which chooses how "
            "many nodes; join features by & and |, with parentheses where needed");
    if (facts.mincpus)
        return usage_error(
            "--mincpus cannot be combined with Arena, which chooses how many GPUs a node gives; "
            "use --arena-cpus-per-gpu");
    if (facts.priority)
        return usage_error(
            "--priority cannot be combined with Arena, which holds the job until it has a plan; "
            "use "
            "--nice, or scontrol update once it runs");
    return Done{};
}

}  // namespace arena
