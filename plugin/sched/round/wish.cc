// SPDX-License-Identifier: GPL-2.0-or-later
// See wish.h.
#include "plugin/sched/round/wish.h"

#include "planner/requests/build_request.h"

namespace arena {

Wish make_wish(const std::string& record, const std::string& comment) {
    Wish wish;
    auto request = parse_record(record);
    if (!request) {
        wish.problem = "its record is not valid: " + request.error().message();
        return wish;
    }
    // job_submit/arena checked it; a site that does not load that plug-in has nobody else who does.
    if (auto sound = check_request(*request); !sound) {
        wish.problem = "its record is not valid: " + sound.error().message();
        return wish;
    }
    wish.request = std::move(request).value();
    wish.fingerprint = fingerprint(wish.request.model);
    if (auto off = apply_comment(comment, wish.request); !off)
        wish.problem = off.error().message();
    else
        wish.off = *off;
    return wish;
}

}  // namespace arena
