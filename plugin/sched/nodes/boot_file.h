// SPDX-License-Identifier: GPL-2.0-or-later
// How nodes boot as a JSON document: what boots.json tells the next slurmctld.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "plugin/sched/nodes/boot_book.h"

namespace arena {

std::string format_boots(const BootBook::Kept&);
/// At most 64 MiB and 100,000 nodes. Errors: not such a document.
Result<BootBook::Kept> parse_boots(std::string_view);

}  // namespace arena
