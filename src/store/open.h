// SPDX-License-Identifier: GPL-2.0-or-later
// Private to the profile store: opening its SQLite file. Decides whether a file is ours, whole, of
// a schema that this program knows; sets a corrupt one aside; creates and upgrades.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "store/sql.h"

namespace arena::sql {

/// For writing: created or upgraded where needed. *notice (may be null) says that a corrupt file
/// was set aside.
Result<Database> open_store(const std::string& path, std::string* notice);
/// For reading: never creates, converts or renames anything.
Result<Database> open_store_read_only(const std::string& path);

bool is_corrupt(int code);
/// The last error of `db` as a sentence.
Error sql_error(sqlite3* db, const std::string& path, std::string_view doing);
/// Adds what SQLite finds wrong with the file; SQLITE_OK or why it could not look.
int quick_check(sqlite3* db, std::vector<std::string>* wrong);

}  // namespace arena::sql
