// SPDX-License-Identifier: GPL-2.0-or-later
// Requests from what a user wrote, with the zoo, the model readers and the rules of plans.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "planner/models/readers.h"
#include "request/request.h"

namespace arena {

/// Settings -> Request. `model_text` is the content of the model file when the `model` setting
/// names a file (SPANK channel only), otherwise empty and `model` names a zoo entry. Knows nothing
/// of the cluster.
Result<Request> build_request(const std::vector<Setting>& settings, std::string_view model_text,
                              std::string_view model_file_name, const ReadBase& = {});

/// Whether the model makes sense and a plan with the pin can be: what parse_record() does not ask.
Status check_request(const Request&);

/// A later word on the options that have a Option::change, by the same rules as build_request()'s.
/// A plan that fixes the number of GPUs sets the range unless gpus comes with it. On an
/// error the request stays as it was.
Status change_request(Request&, const std::vector<Setting>& changes);

/// A job's Comment: "arena:KEY=VALUE" with a KEY of change_request(), or "arena:off"; several
/// joined by ';', at most 256 characters. True where it says off: leave the job to Slurm. One that
/// does not begin with "arena:" changes nothing. Errors say what is accepted, and leave the request
/// as it was.
Result<bool> apply_comment(std::string_view comment, Request&);
/// An error about a setting, as one about the same word of a Comment.
Error in_comment(Error);

}  // namespace arena
