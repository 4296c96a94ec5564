// SPDX-License-Identifier: GPL-2.0-or-later
// Private to the profile store: every row looked at, and those that cannot be taken out.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "store/sql.h"

namespace arena::sql {

/// One line for each row that cannot be: which, and what is wrong with it. SQLite's own check of
/// the file is apart.
Result<std::vector<std::string>> find_bad_rows(sqlite3* db, const std::string& path);
/// Removes the rows that find_bad_rows() names, in one transaction: a report, a collective,
/// an operator, whose run no longer counts as its model's (which is measured again, with what is
/// left of the run), and a run that cannot be, with its operators.
Status remove_bad_rows(sqlite3* db, const std::string& path);

}  // namespace arena::sql
