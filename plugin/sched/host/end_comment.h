// SPDX-License-Identifier: GPL-2.0-or-later
// What the comment of a job says once the job is over: a pure rule, in classify.cc.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace arena {

/// The comment with Slurm's word for the job's end ("COMPLETED") as its state; nothing where it
/// says so already, where the job ran without Arena (state=off), or where the comment is not ours.
std::optional<std::string> comment_of_end(std::string_view comment, std::string_view end);

}  // namespace arena
