// SPDX-License-Identifier: GPL-2.0-or-later
// Wish: what a job asks for now, that is its record as changed by `Comment=arena:...`.
#pragma once

#include <string>
#include <string_view>

#include "core/request.h"
#include "core/result.h"
#include "core/values.h"

namespace arena {

struct Wish {
    Request request;
    bool off = false;          ///< arena:off: leave the job to Slurm
    bool overridden = false;   ///< the comment changed plan or range
    std::string problem;       ///< why it cannot be planned; shown as the pending reason
    std::string fingerprint;   ///< of request.model; "" with a problem
    bool operator==(const Wish&) const = default;
};

/// "arena:plan=pp2,dp2,tp1", "arena:gpus=4-8", "arena:off"; several joined by ';'. A comment that does
/// not begin with "arena:" changes nothing. Errors say what is accepted.
Status apply_comment(std::string_view comment, Wish& wish);

/// What a record says, as the comment changes it.
Wish make_wish(const std::string& record, const std::string& comment);

}  // namespace arena
