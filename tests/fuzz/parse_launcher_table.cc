// SPDX-License-Identifier: GPL-2.0-or-later
// Any bytes may be a launcher's table; what is accepted can be asked about each
// of its versions, and tells a plan or says why not.
#include "fuzz.h"
#include "request/launcher_table.h"

FUZZ(text) {
    using namespace arena;
    const auto table = parse_launcher_table(text, "fuzz");
    if (!table) return;
    Plan plan, flat;
    plan.stage_layers = {3, 4}, plan.stage_dp = {2, 2}, plan.stage_tp = {2, 2};
    flat.stage_layers = {7}, flat.stage_dp = {8}, flat.stage_tp = {1};
    flat.zero_stage = 3, flat.num_micro_batches = 2, flat.recompute = Recompute::full;
    for (const Version& version : table->changes()) {
        if (!table->knows(version) || parse_version(to_string(version)) != version) std::abort();
        for (const Plan& told : {plan, flat}) {
            const auto words = render(*table, version, words_of(Model{}, 16, told));
            if (words.ok() != expresses(table->can(version), Model{}, told)) std::abort();
        }
        if (!parse_version_of(*table, to_string(version)).ok()) std::abort();
    }
    if (table->version && !table->knows(*table->version)) std::abort();
    if (table->version && table->known_versions().empty()) std::abort();
}
