// SPDX-License-Identifier: GPL-2.0-or-later
// Any text may be a job's Comment; what it makes of a request stays within
// bounds, can be planned as far as its model goes, and is the same when it comes again.
#include "core/cluster.h"
#include "core/limits.h"
#include "fuzz.h"
#include "planner/requests/build_request.h"
#include "request/request.h"

namespace {

const arena::Request& base() {
    static const arena::Request request = *arena::build_request({{"family", "moe"},
                                                                 {"layers", "12"},
                                                                 {"hidden", "768"},
                                                                 {"heads", "12"},
                                                                 {"vocab", "1000"},
                                                                 {"seq-length", "128"},
                                                                 {"experts", "8"},
                                                                 {"top-k", "2"},
                                                                 {"moe-ffn-hidden", "512"},
                                                                 {"batch", "64"}},
                                                                {}, {});
    return request;
}

}  // namespace

FUZZ(text) {
    arena::Request request = base();
    const auto off = arena::apply_comment(text, request);
    const bool changed = request != base();
    if (!off && changed) std::abort();
    if (!off) return;
    if (!text.starts_with("arena:") && (*off || changed)) std::abort();
    if (request.min_gpus < 1 || (request.max_gpus != 0 && request.max_gpus < request.min_gpus) ||
        request.max_gpus > arena::limits::gpus ||
        request.gpu_types.size() > arena::limits::gpu_types)
        std::abort();
    if (!arena::check_request(request)) std::abort();
    const auto record = arena::format_record(request);
    if (!record || *arena::parse_record(*record) != request) std::abort();
    arena::Request again = request;
    if (!arena::apply_comment(text, again) || again != request) std::abort();
}
