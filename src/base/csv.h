// SPDX-License-Identifier: GPL-2.0-or-later
// Tables of separated cells with a header line, read row by row: numbers are checked, and every
// refusal names file:line and column. No quoting (neither the tables that the simulator reads nor
// `sacct -P` have any).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace arena::sim {

/// How a table is written.
struct CsvShape {
    char separator = ',';
    /// A column of people's words, which may hold the separator: what a row has too many of is its.
    std::string_view free_text = {};
};

class Csv {
  public:
    /// `text` must outlive the reader. Errors: no header, a required column missing.
    static Result<Csv> open(std::string_view text, std::string name,
                            const std::vector<std::string_view>& required, CsvShape shape = {});
    /// Moves to the next row that is not blank; false at the end or after the first error.
    bool next();
    [[nodiscard]] bool has(std::string_view column) const { return find(column) >= 0; }
    /// The cell, "" when the column is absent.
    [[nodiscard]] std::string_view cell(std::string_view column) const;
    /// Cell as a number; keeps the first error and answers `min` when it is not one in [min, max].
    double number(std::string_view column, double min, double max);
    std::int64_t integer(std::string_view column, std::int64_t min, std::int64_t max);
    /// 1 to max_length printable bytes.
    std::string_view word(std::string_view column, std::size_t max_length = 128);
    void refuse(std::string_view what);
    [[nodiscard]] const std::optional<Error>& error() const { return error_; }
    [[nodiscard]] std::string where() const;
    [[nodiscard]] std::size_t line() const { return line_; }

  private:
    [[nodiscard]] int find(std::string_view column) const;
    void join_free_text();

    CsvShape shape_;
    std::string_view rest_;
    std::string name_;
    std::vector<std::string_view> columns_, cells_;
    std::size_t line_ = 0;
    std::optional<Error> error_;
};

}  // namespace arena::sim
