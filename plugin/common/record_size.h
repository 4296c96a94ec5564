// SPDX-License-Identifier: GPL-2.0-or-later
// Whether a record of the running Slurm is as large as the one of the headers: a field more
// anywhere, at its very end too, shows in the size of its allocation.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace arena {

/// "" where it is; else a sentence to which "that NAME.so was built with" can be added.
inline std::string size_fault(std::string_view record, std::size_t runs, std::size_t built) {
    if (runs == built) return {};
    return std::string(record) + " has " + std::to_string(runs) +
           " bytes in the running Slurm and " + std::to_string(built) + " in the headers";
}

}  // namespace arena
