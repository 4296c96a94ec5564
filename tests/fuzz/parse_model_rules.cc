// SPDX-License-Identifier: GPL-2.0-or-later
// Rules that parse_model_rules() takes name a model, and can be asked of any job.
#include "fuzz.h"
#include "site/model_rules.h"

FUZZ(text) {
    const auto rules = arena::parse_model_rules(text, "models.yaml");
    if (!rules) return;
    for (const arena::ModelRule& rule : *rules) {
        if (rule.model.empty() || rule.batch < 1 || rule.min_gpus > rule.max_gpus) std::abort();
        (void)rule.fits({"ann", "physics", "main", "gpt[2]*", 8});
    }
}
