// SPDX-License-Identifier: GPL-2.0-or-later
// Any text may be a gres.conf; its lines are no more than it has, its lists bounded.
#include "fuzz.h"
#include "site/gres_conf.h"

FUZZ(text) {
    const arena::GresConf conf = arena::parse_gres_conf(text, "gres.conf");
    if (conf.lines.size() + conf.includes.size() > text.size()) std::abort();
    for (const arena::GresLine& line : conf.lines)
        if (line.files.size() > 65536 || line.nodes.size() > 65536) std::abort();
}
