// SPDX-License-Identifier: GPL-2.0-or-later
// Whether others could change what a file says: the question to ask before a daemon reads its
// configuration.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/result.h"

namespace arena {

/// Done where only root and `owner` can change, replace or rename `path` or anything on the way to
/// it: every directory and link from the root down, and the file or directory itself, belongs to
/// one of them and others may not write to it. A directory on the way may have the sticky bit
/// instead (/tmp); the group may write where it is the owner's own. Else an error at the first part
/// at fault, with what to do. What does not exist is nobody's fault. ACLs show in the mode as their
/// mask does.
Status check_trusted(const std::string& path, uid_t owner);

}  // namespace arena
