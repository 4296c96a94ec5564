// SPDX-License-Identifier: GPL-2.0-or-later
// Private to the profile store: whether a file that SQLite cannot read is what is left of a profile
// store. Only then may it be set aside: profile.store of arena.yaml may name any file by mistake.
#pragma once

#include <string_view>

namespace arena::sql {

inline constexpr unsigned application_id = 0x41524e41;  ///< "ARNA"
inline constexpr std::size_t looked_at_bytes = std::size_t{1} << 20;

/// `start`: the first looked_at_bytes of a file of `size` bytes. True where the header names a
/// profile store or is one cut short, where the first page holds our schema, or where a later page
/// of SQLite's holds operators that we keep.
bool is_left_of_store(std::string_view start, std::size_t size);

}  // namespace arena::sql
