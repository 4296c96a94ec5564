// SPDX-License-Identifier: GPL-2.0-or-later
// The one table of signs: which word of which tool means what, for whom, and where that is
// documented. Words that are not in it are counted and mean nothing.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "health/finding.h"

namespace arena::health {

/// Whose words. A finding ends where its tool is heard again and says it no more; but the kernel
/// says a thing once: what it said holds until the next boot, or until somebody clears the node.
enum class Tool { xid, sxid, smi, nvlink_status, nvlink_errors, dcgm_health, dcgm_diag, ib };
constexpr bool is_kernel(Tool tool) { return tool == Tool::xid || tool == Tool::sxid; }

enum class Culprit { gpu, link, node };

/// When a value is the sign.
enum class Test {
    said,    ///< whatever it is
    yes,     ///< "Active", "Yes", "1"
    begins,  ///< begins with the row's `text`
    above,   ///< a number above the row's `than`
};

struct Sign {
    Tool tool = Tool::smi;
    std::string_view keys = {};  ///< as csv names it; of `xid` numbers apart by blanks
    std::string_view also = {};  ///< as `nvidia-smi -q` names it: its headings and its name
    Test test = Test::said;
    std::string_view text = {};  ///< of Test::begins
    double than = 0;             ///< of Test::above
    std::string_view code = {};  ///< of the finding; of `xid` the number follows
    Culprit culprit = Culprit::gpu;
    Severity severity = Severity::watch;
    double factor = 1;  ///< times slower at least, where that is documented; 1 = it is not
    std::string_view words = {};
    std::string_view source = {};
};

std::span<const Sign> signs();
/// By a finding's code; nullptr of one that is not in the table.
const Sign* find_sign(std::string_view code);
/// Rows whose key this is, in their order.
std::vector<const Sign*> signs_of(Tool tool, std::string_view key);
/// Whether the row's test holds of the value.
bool holds(const Sign& sign, std::string_view value);
std::string_view name(Tool);
std::string_view name(Culprit);

}  // namespace arena::health
