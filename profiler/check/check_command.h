// SPDX-License-Identifier: GPL-2.0-or-later
// `arena-profiler check`, and what `run` does with a request for a check.
#pragma once

#include <string>

#include "profiler/check/check_run.h"
#include "profiler/core/prolog_help.h"

namespace arena {

struct CheckOptions {
    std::string baseline, out, node;
    std::int64_t devices = 0;  ///< 0: all; of a CPU one
    bool json = false;
};

/// By hand: measures, compares, tells. 0 healthy or nothing to compare with, 1 slow, 3 where a
/// device fails.
int run_check_command(const CheckOptions& options, const CheckRequest& request,
                      const CheckTools& tools);
/// Of a carrier: writes the NodeCheck to `out`; 1 where it says that it failed.
int run_requested_check(const CheckRequest& request, const std::string& out,
                        const std::string& node, const CheckTools& tools);
/// For the Prolog: the part file if it answers the request, else one that says why not.
NodeCheck result_of_check(const CheckRequest& request, const RunEnd& end);

}  // namespace arena
