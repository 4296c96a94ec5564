// SPDX-License-Identifier: GPL-2.0-or-later
// Measured collectives, in the profile store: the table `comm` (open.cc).
#include <utility>

#include "store/open.h"
#include "store/rows.h"
#include "store/sql.h"
#include "store/store.h"

namespace arena {

using sql::sql_error;
using sql::Statement;
using sql::Transaction;

Result<std::int64_t> CommStore::import(const std::vector<CommTime>& rows,
                                       const std::string& source) {
    Transaction t(db_);
    if (t.code() != SQLITE_OK) return sql_error(db_, path_, "import");
    Statement s(db_, "INSERT OR REPLACE INTO comm VALUES(?,?,?,?,?,?,?,?,?,?,?)");
    for (const CommTime& row : rows) {
        if (auto wrong = check_comm_time(row); !wrong) return wrong.error();
        s.bind(row.gpu_type).bind(to_string(row.op)).bind(row.ranks).bind(row.nodes);
        s.bind(row.groups)
            .bind(row.bytes)
            .bind(to_string(row.span))
            .bind(row.min_s)
            .bind(row.median_s)
            .bind(row.p95_s);
        if (s.bind(source).run() != SQLITE_OK) return sql_error(db_, path_, "import");
    }
    if (t.commit() != SQLITE_OK) return sql_error(db_, path_, "import");
    return static_cast<std::int64_t>(rows.size());
}

Result<std::vector<CommTime>> CommStore::times(const std::string& gpu_type) {
    Statement s(db_, std::string(sql::select_comm) +
                         "WHERE ?1 = '' OR gpu_type = ?1 ORDER BY gpu_type, op, nodes, ranks, "
                         "span, groups, bytes");
    s.bind(gpu_type);
    std::vector<CommTime> rows;
    while (s.step()) {
        auto row = sql::comm_of(s);
        if (!row) return sql::bad_row(path_, sql::told(row.error()));
        rows.push_back(std::move(*row));
    }
    if (s.code() != SQLITE_OK) return sql_error(db_, path_, "comm");
    return rows;
}

}  // namespace arena
