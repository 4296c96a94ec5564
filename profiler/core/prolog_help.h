// SPDX-License-Identifier: GPL-2.0-or-later
// What the Prolog script asks arena-profiler for, so that no shell ever parses YAML or JSON: the
// facts of the site it needs, and the last step of a run, which turns whatever happened into a
// result file.
#pragma once

#include <string>

#include "base/result.h"
#include "core/profile.h"

namespace arena {

/// Lines USER, UID, GID, SPOOL, INNER_LIMIT_S, LOCK_WAIT_S, HARDWARE_FILE ("" = none),
/// CHECK_LIMIT_S, in this order. Refuses a configuration that others than root and SlurmUser may
/// write, a service user that does not exist, uid 0, nobody, and `slurm_user` (name, "" = unknown)
/// unless the caller is that very user.
Result<std::string> site_facts(const std::string& config_path, const std::string& slurm_user);

/// How the measuring program ended.
struct RunEnd {
    std::string part_path;           ///< what it wrote, perhaps
    std::string log_path;            ///< its standard error
    int exit_code = 0;               ///< as the shell sees it; 124, 137: timeout
    std::string progress_path = {};  ///< how far it said it was; "" = unknown
};

/// The Profile for the spool: the part file if it is a valid answer to the request, else a failed
/// one that says why: timed out, killed by signal N, crashed, wrote nothing or garbage, other nonce
/// or type. A failed run is charged with the seconds that its progress file last told.
Profile result_of_run(const ProfileRequest&, const RunEnd&);

}  // namespace arena
