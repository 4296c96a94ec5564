// SPDX-License-Identifier: GPL-2.0-or-later
// What a check leaves in the spool is anybody's bytes; what is accepted is judged and told.
// also: src/checks/judge.cc src/checks/node_check_json.cc src/slowdown/locate.cc
#include "checks/judge.h"
#include "fuzz.h"

FUZZ(text) {
    const auto check = arena::parse_node_check(text);
    if (!check) return;
    const auto again = arena::parse_node_check(arena::to_json(*check));
    if (!again || again->products.size() != check->products.size()) std::abort();
    arena::References known = arena::references_of(*check);
    arena::add_beside(*check, known);
    if (arena::words_of(arena::judge(*check, known)).empty()) std::abort();
    if (arena::judge(*check, arena::references_of(*check)).is_slow()) std::abort();
}
