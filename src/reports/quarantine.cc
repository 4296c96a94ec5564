// SPDX-License-Identifier: GPL-2.0-or-later
#include "reports/quarantine.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

namespace arena {

std::vector<NodeIndex> choose_quarantined(std::vector<Suspect> suspects,
                                          const std::vector<NodeState>& nodes,
                                          const SlowdownRules& rules,
                                          const std::set<NodeIndex>& gone) {
    std::map<std::string_view, double> of_type, usable;
    for (NodeIndex i = 0; i < nodes.size(); ++i) {
        of_type[nodes[i].gpu_type] += nodes[i].total_gpus > 0;
        usable[nodes[i].gpu_type] += nodes[i].total_gpus > 0 && !gone.contains(i);
    }
    std::sort(suspects.begin(), suspects.end(), [](const Suspect& a, const Suspect& b) {
        return std::tuple(!a.gone, !a.trusted, -a.since, a.node) <
               std::tuple(!b.gone, !b.trusted, -b.since, b.node);
    });
    std::map<std::string_view, double> taken;
    std::vector<NodeIndex> chosen;
    for (const Suspect& suspect : suspects) {
        const std::string_view type = nodes[suspect.node].gpu_type;
        if (suspect.gone) {
            of_type[type] -= 1;
            usable[type] -= !gone.contains(suspect.node);
            chosen.push_back(suspect.node);
            continue;
        }
        const double share = std::floor(of_type[type] * rules.max_quarantined_percent / 100);
        const double least = suspect.trusted && rules.max_quarantined_percent > 0 ? 1 : 0;
        const double most = std::max(share, least);
        if (taken[type] + 1 > std::min(most, of_type[type] - 1)) continue;
        const bool is_usable = !gone.contains(suspect.node);
        if (is_usable && usable[type] <= 1) continue;
        usable[type] -= is_usable;
        ++taken[type];
        chosen.push_back(suspect.node);
    }
    std::sort(chosen.begin(), chosen.end());
    return chosen;
}

}  // namespace arena
