// SPDX-License-Identifier: GPL-2.0-or-later
// What `arena array list` is answered: the pipelines that train members of arrays, and their
// members.
#pragma once

#include <optional>
#include <string>

#include "plugin/sched/arrays/array_book.h"

namespace arena {

/// `user`: whose alone; nothing: everybody's.
std::string arrays_json(const ArrayBook::Carriers& carriers, const Config& config,
                        std::optional<std::uint32_t> user);

}  // namespace arena
