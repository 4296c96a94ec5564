// SPDX-License-Identifier: GPL-2.0-or-later
// The few SQLite calls that the profile store needs, as RAII values: one prepared statement at a
// time, bound by position, read by column. Not a general wrapper; errors stay SQLite result codes.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace arena::sql {

struct Close {
    void operator()(sqlite3* db) const { sqlite3_close_v2(db); }
};
using Database = std::unique_ptr<sqlite3, Close>;

struct Finalize {
    void operator()(sqlite3_stmt* s) const { sqlite3_finalize(s); }
};

struct FreeValue {
    void operator()(sqlite3_value* v) const { sqlite3_value_free(v); }
};
/// One column of a row, kept with its own type.
using Value = std::unique_ptr<sqlite3_value, FreeValue>;

/// A prepared statement. code() is SQLITE_OK, or the first error since preparing (bind or step).
class Statement {
  public:
    Statement(sqlite3* db, std::string_view text) {
        sqlite3_stmt* s = nullptr;
        code_ = sqlite3_prepare_v2(db, text.data(), static_cast<int>(text.size()), &s, nullptr);
        statement_.reset(s);
    }
    Statement& bind(std::string_view v) {
        return note(sqlite3_bind_text(statement_.get(), ++position_, v.data(),
                                      static_cast<int>(v.size()), SQLITE_TRANSIENT));
    }
    Statement& bind(std::int64_t v) {
        return note(sqlite3_bind_int64(statement_.get(), ++position_, v));
    }
    Statement& bind(double v) {
        return note(sqlite3_bind_double(statement_.get(), ++position_, v));
    }
    Statement& bind(const Value& v) {
        return note(sqlite3_bind_value(statement_.get(), ++position_, v.get()));
    }

    /// True while there is a row. False at the end and on an error: look at code().
    bool step() {
        if (code_ != SQLITE_OK) return false;
        const int r = sqlite3_step(statement_.get());
        if (r != SQLITE_ROW && r != SQLITE_DONE) code_ = r;
        return r == SQLITE_ROW;
    }
    /// Runs to the end, then makes ready for the next binding.
    int run() {
        while (step()) {
        }
        sqlite3_reset(statement_.get());
        position_ = 0;
        return code_;
    }
    [[nodiscard]] int code() const { return code_; }
    [[nodiscard]] std::string text(int column) const {
        const auto* p = sqlite3_column_text(statement_.get(), column);
        const auto n = static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column));
        return p == nullptr ? std::string() : std::string(reinterpret_cast<const char*>(p), n);
    }
    /// Before text() and its like, which may convert the column where it is.
    [[nodiscard]] Value value(int column) const {
        return Value(sqlite3_value_dup(sqlite3_column_value(statement_.get(), column)));
    }
    [[nodiscard]] std::int64_t integer(int column) const {
        return sqlite3_column_int64(statement_.get(), column);
    }
    [[nodiscard]] double number(int column) const {
        return sqlite3_column_double(statement_.get(), column);
    }

  private:
    Statement& note(int r) {
        if (code_ == SQLITE_OK) code_ = r;
        return *this;
    }
    std::unique_ptr<sqlite3_stmt, Finalize> statement_;
    int code_ = SQLITE_OK;
    int position_ = 0;
};

/// BEGIN IMMEDIATE; rolled back unless committed.
class Transaction {
  public:
    explicit Transaction(sqlite3* db) : db_(db) { code_ = run("BEGIN IMMEDIATE"); }
    Transaction(const Transaction&) = delete;
    Transaction& operator=(const Transaction&) = delete;
    ~Transaction() {
        if (code_ == SQLITE_OK && !done_) run("ROLLBACK");
    }
    [[nodiscard]] int code() const { return code_; }
    int commit() {
        const int r = run("COMMIT");
        done_ = r == SQLITE_OK;
        return r;
    }

  private:
    int run(const char* text) { return sqlite3_exec(db_, text, nullptr, nullptr, nullptr); }
    sqlite3* db_;
    int code_ = SQLITE_OK;
    bool done_ = false;
};

}  // namespace arena::sql
