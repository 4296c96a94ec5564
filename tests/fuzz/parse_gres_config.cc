// SPDX-License-Identifier: GPL-2.0-or-later
// Any text may be a node's Gres; counts are positive and bounded.
#include "fuzz.h"
#include "site/gpu_facts.h"

FUZZ(text) {
    for (const arena::NodeGpus& gpus : arena::parse_gres_config(text))
        if (gpus.count < 1 || gpus.count > 1024 || gpus.type.size() > text.size()) std::abort();
}
