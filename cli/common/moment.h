// SPDX-License-Identifier: GPL-2.0-or-later
// A moment that a person names on the command line, in the forms that sbatch --begin takes.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace arena::cli {

/// Epoch seconds, after `now_s`, of "HH:MM[:SS]" (the next such time), "YYYY-MM-DD[THH:MM[:SS]]",
/// both in the local time zone, or "now+COUNT[seconds|minutes|hours|days|weeks]" (seconds where no
/// unit follows). Errors: another form, a day or time that there is not, a moment that is over or
/// more than ten years away.
Result<std::int64_t> parse_moment(std::string_view text, std::int64_t now_s);

}  // namespace arena::cli
