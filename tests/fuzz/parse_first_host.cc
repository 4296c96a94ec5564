// SPDX-License-Identifier: GPL-2.0-or-later
// Any bytes may be a host list; what comes out is a host name and nothing else.
#include "base/hostlist.h"
#include "fuzz.h"

FUZZ(text) {
    const auto host = arena::parse_first_host(text);
    if (!host) return;
    if (host->empty() || host->size() > 255) std::abort();
    if (host->find_first_of(" ,[]\n;$`'\"") != std::string::npos) std::abort();
}
