// SPDX-License-Identifier: GPL-2.0-or-later
// Any bytes may be a host list; what comes out is host names, each once, and no more than asked
// for.
#include <set>

#include "base/hostlist.h"
#include "fuzz.h"

FUZZ(text) {
    const auto hosts = arena::parse_hostlist(text, 64);
    if (!hosts) return;
    if (hosts->empty() || hosts->size() > 64) std::abort();
    if (std::set<std::string>(hosts->begin(), hosts->end()).size() != hosts->size()) std::abort();
    for (const std::string& host : *hosts)
        if (host.empty() || host.find_first_of(" ,[]\n;$`'\"=") != std::string::npos) std::abort();
}
