// SPDX-License-Identifier: GPL-2.0-or-later
// Wish: what a job asks for now: its record, which job_submit/arena keeps up with
// `Comment=arena:...`, with the present Comment applied to it where that plug-in did not.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "core/model.h"
#include "request/request.h"

namespace arena {

struct Wish {
    Request request;
    bool off = false;         ///< arena:off: leave the job to Slurm
    std::string problem;      ///< why it cannot be planned; shown as the pending reason
    std::string fingerprint;  ///< of request.model; "" with a problem
    bool operator==(const Wish&) const = default;
};

/// What a record says, as the comment changes it.
Wish make_wish(const std::string& record, const std::string& comment);

}  // namespace arena
