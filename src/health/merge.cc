// SPDX-License-Identifier: GPL-2.0-or-later
// What is said of a node anew, and what of it holds from before. See reader.h.
#include <algorithm>
#include <tuple>

#include "health/reader.h"

namespace arena::health {
namespace {

/// A node tells its boot in whole seconds, counted anew each time.
constexpr std::int64_t boot_jitter_s = 5;

}  // namespace

std::vector<Finding> merge_findings(const std::vector<Finding>& before, const Report& report,
                                    const Machine& machine) {
    std::vector<Finding> merged;
    const auto find = [](auto& list, const Finding& wanted) {
        return std::find_if(list.begin(), list.end(), [&](const Finding& finding) {
            return finding.code == wanted.code && finding.place == wanted.place;
        });
    };
    for (Finding finding : report.findings) {
        if (finding.at == 0) finding.at = machine.now_s;
        merged.push_back(finding);
    }
    for (Finding old : before) {
        const Sign* sign = find_sign(old.code);
        old.place = known_place(old.place, report.indexes);
        const bool is_over = !sign || find(report.notes, old) != report.notes.end() ||
                             (old.at != 0 && old.at + boot_jitter_s < machine.boot_s);
        if (is_over) continue;
        if (const auto now = find(merged, old); now != merged.end()) {
            // The kernel may have said it again; of other tools it goes on.
            const auto said = find(report.findings, old);
            if (said != report.findings.end() && said->at == 0 && old.at != 0) now->at = old.at;
        } else if (is_kernel(sign->tool) || !report.heard.contains(sign->tool)) {
            merged.push_back(old);
        }
    }
    // Whoever says it: a site may hand on its tools' words one by one, and in turn.
    std::sort(merged.begin(), merged.end(), [](const Finding& a, const Finding& b) {
        return std::tie(b.severity, a.code, a.place) < std::tie(a.severity, b.code, b.place);
    });
    if (merged.size() > max_findings) merged.resize(max_findings);
    return merged;
}

}  // namespace arena::health
