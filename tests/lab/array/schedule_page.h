// SPDX-License-Identifier: GPL-2.0-or-later
// A picture of a schedule: one HTML page with one inline SVG, without script, network or other
// files. Time to the right, a row for each device; a colour for each member, backward blocks
// darker, switches grey.
#pragma once

#include <string>

#include "array/schedule.h"

namespace arena::cli {

/// `verdict`: how good it is, for the caption. Same arguments, same bytes; at most 65536 blocks.
std::string schedule_page(const array::Instance& instance, const array::Schedule& schedule,
                          const std::string& verdict);

}  // namespace arena::cli
