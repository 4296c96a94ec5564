// SPDX-License-Identifier: GPL-2.0-or-later
// Any bytes may lie where a plug-in should; what comes out is a version.
#include "fuzz.h"
#include "site/plugin_version.h"

FUZZ(text) {
    const auto version = arena::parse_plugin_version(text);
    if (version && version->find_first_not_of("0123456789.") != std::string::npos) std::abort();
}
