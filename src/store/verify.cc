// SPDX-License-Identifier: GPL-2.0-or-later
// See verify.h. One table says of each table of the store how its rows are read, what is wrong with
// one, and how it is removed: what is named and what is removed cannot differ.
#include "store/verify.h"

#include <functional>

#include "base/text.h"
#include "store/open.h"
#include "store/rows.h"

namespace arena::sql {
namespace {

using Lines = std::vector<std::string>;

Lines entry_faults(const Statement& s) {
    const auto shape = shape_of(s, 0);
    const std::string row = "run " + s.text(13) + " operator " + printable(s.text(11), 160) + ": ";
    Lines wrong;
    if (s.text(13).empty()) wrong.push_back(row + "belongs to no run (" + s.text(12) + ")");
    if (!shape || op_key(*shape) != s.text(11))
        wrong.push_back(row + "the key does not match the shape");
    if (!is_time(s.number(8))) wrong.push_back(row + "seconds outside (0, 3600]");
    if (s.integer(9) < 1) wrong.push_back(row + "repeats below 1");
    if (const double w = s.number(10); !(w >= 0 && w <= 10))
        wrong.push_back(row + "spread outside [0, 10]");
    return wrong;
}

Lines run_faults(const Statement& s) {
    return {"run " + printable(s.text(0)) + ": bad nonce, unknown status, or failed with entries"};
}

Lines comm_faults(const Statement& s) {
    const auto row = comm_of(s);
    return row ? Lines{} : Lines{told(row.error())};
}

Lines observed_faults(const Statement& s) {
    const auto row = observed_of(s);
    return row ? Lines{} : Lines{told(row.error())};
}

struct Removal {
    std::string_view statement;
    std::vector<std::size_t> takes;  ///< of Table::key
};

struct Table {
    const char* name;
    std::string_view select;
    Lines (*faults)(const Statement&);
    std::vector<int> key;  ///< columns of select that identify a row
    std::vector<Removal> remove;
};

const Table tables[] = {
    {"entries",
     "SELECT kind, pass, precision, d0, d1, d2, d3, variant, seconds, repeats, spread, op_key, run,"
     " (SELECT nonce FROM runs WHERE seq = run) FROM entries",
     entry_faults,
     {12, 11},
     {{"DELETE FROM entries WHERE run IS ? AND op_key IS ?", {0, 1}},
      // of no model any more: it is measured again, with what is left of the run
      {"UPDATE runs SET model_fingerprint = printf('%064d', 0) WHERE seq IS ?", {0}},
      {"DELETE FROM runs WHERE seq IS ? AND NOT EXISTS(SELECT 1 FROM entries WHERE run = seq)",
       {0}}}},
    {"runs",
     "SELECT nonce, seq FROM runs WHERE length(nonce) NOT BETWEEN 16 AND 64 OR"
     " status NOT IN ('complete', 'partial', 'failed') OR"
     " (status = 'failed' AND EXISTS(SELECT 1 FROM entries WHERE run = seq))",
     run_faults,
     {1},
     {{"DELETE FROM entries WHERE run IS ?", {0}}, {"DELETE FROM runs WHERE seq IS ?", {0}}}},
    {"comm",
     select_comm,
     comm_faults,
     {0, 1, 2, 3, 4, 5, 9},
     {{"DELETE FROM comm WHERE gpu_type IS ? AND op IS ? AND ranks IS ? AND nodes IS ? AND"
       " groups IS ? AND bytes IS ? AND span IS ?",
       {0, 1, 2, 3, 4, 5, 6}}}},
    {"observed",
     select_observed,
     observed_faults,
     {15},
     {{"DELETE FROM observed WHERE seq IS ?", {0}}}},
};

using RowKey = std::vector<Value>;

/// Calls visit(key, what is wrong) for each row that cannot be, until one says SQLite's code of a
/// failure; SQLITE_OK, or what ended it.
int each_bad_row(sqlite3* db, const Table& table,
                 const std::function<int(const RowKey&, Lines)>& visit) {
    Statement row(db, table.select);
    while (row.step()) {
        RowKey key;
        for (const int column : table.key) key.push_back(row.value(column));
        Lines wrong = table.faults(row);
        if (wrong.empty()) continue;
        if (const int code = visit(key, std::move(wrong)); code != SQLITE_OK) return code;
    }
    return row.code();
}

/// A SELECT may go on behind what is removed where it stands.
int remove(sqlite3* db, const Table& table, const RowKey& key) {
    for (const Removal& removal : table.remove) {
        Statement s(db, removal.statement);
        for (const std::size_t part : removal.takes) s.bind(key[part]);
        if (const int code = s.run(); code != SQLITE_OK) return code;
    }
    return SQLITE_OK;
}

}  // namespace

Result<std::vector<std::string>> find_bad_rows(sqlite3* db, const std::string& path) {
    Lines all;
    for (const Table& table : tables) {
        const int code = each_bad_row(db, table, [&](const RowKey&, const Lines& wrong) {
            all.insert(all.end(), wrong.begin(), wrong.end());
            return SQLITE_OK;
        });
        if (code != SQLITE_OK && !is_corrupt(code)) return sql_error(db, path, "verify");
        if (code != SQLITE_OK)
            all.push_back(std::string(table.name) + " cannot be read to the end");
    }
    return all;
}

Status remove_bad_rows(sqlite3* db, const std::string& path) {
    Transaction t(db);
    if (t.code() != SQLITE_OK) return sql_error(db, path, "remove");
    for (const Table& table : tables) {
        const int code = each_bad_row(
            db, table, [&](const RowKey& key, const Lines&) { return remove(db, table, key); });
        if (code != SQLITE_OK) return sql_error(db, path, "remove");
    }
    if (t.commit() != SQLITE_OK) return sql_error(db, path, "remove");
    return Done{};
}

}  // namespace arena::sql
