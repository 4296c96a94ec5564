// SPDX-License-Identifier: GPL-2.0-or-later
// A moment that is taken lies ahead, and not too far.
// also: cli/common/moment.cc
#include "cli/common/moment.h"
#include "fuzz.h"

FUZZ(text) {
    constexpr std::int64_t now_s = 1790000000, ten_years_s = 3653 * 86400LL;
    const auto moment = arena::cli::parse_moment(text, now_s);
    if (moment && (*moment <= now_s || *moment > now_s + ten_years_s)) std::abort();
}
