// SPDX-License-Identifier: GPL-2.0-or-later
// A released job's ExcNodeList: Slurm starts such a job where it likes, so nodes that it avoids are
// written there, and what its user wrote is kept beside it until they are taken out again. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace arena {

/// To be kept with the job: its user's own list, and by which list Arena has replaced it.
std::string keep_own_excludes(std::string_view own, std::string_view written);
/// The user's own list, of a job that has this one now. What Arena did not write is the user's, who
/// has changed it since. `kept`: nothing where Arena has written none.
std::string own_excludes(std::string_view now, std::optional<std::string_view> kept);
/// Whether Arena wrote the list.
bool excludes_are_ours(std::string_view now, std::optional<std::string_view> kept);

}  // namespace arena
