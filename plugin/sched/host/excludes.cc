// SPDX-License-Identifier: GPL-2.0-or-later
// See excludes.h. "16 HEX DIGITS:OWN LIST": Slurm's job record holds the list that Arena wrote, a
// hash of it tells whether it is that one still.
#include "plugin/sched/host/excludes.h"

#include "base/text.h"

namespace arena {
namespace {

std::string sum_of(std::string_view list) { return sha256_hex(list).substr(0, 16); }

}  // namespace

std::string keep_own_excludes(std::string_view own, std::string_view written) {
    return sum_of(written) + ":" + std::string(own);
}

bool excludes_are_ours(std::string_view now, std::optional<std::string_view> kept) {
    return kept && kept->substr(0, kept->find(':')) == sum_of(now);
}

std::string own_excludes(std::string_view now, std::optional<std::string_view> kept) {
    if (!excludes_are_ours(now, kept)) return std::string(now);
    const std::size_t colon = kept->find(':');
    return std::string(colon == std::string_view::npos ? "" : kept->substr(colon + 1));
}

}  // namespace arena
