// SPDX-License-Identifier: GPL-2.0-or-later
// Any text may be a slurm.conf; what is found in it is no longer than it.
#include "fuzz.h"
#include "site/slurm_conf.h"

FUZZ(text) {
    std::size_t bytes = 0;
    for (const arena::SlurmConfLine& line : arena::parse_slurm_conf(text)) {
        if (line.value.empty()) std::abort();
        bytes += line.key.size() + line.value.size();
    }
    if (bytes > text.size()) std::abort();
}
