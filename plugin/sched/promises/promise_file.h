// SPDX-License-Identifier: GPL-2.0-or-later
// Promises as a JSON document: what promises.json tells the next slurmctld.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "policy/order/promises.h"

namespace arena {

std::string format_promises(const PromiseBook::Kept&);
/// At most 64 MiB. Of the counts the promises that are not settled yet: each counts as given in
/// this life. Errors: not such a document.
Result<PromiseBook::Kept> parse_promises(std::string_view);

}  // namespace arena
