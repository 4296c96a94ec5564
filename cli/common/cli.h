// SPDX-License-Identifier: GPL-2.0-or-later
// What the sub-commands of `arena` and `arena-lab` share: exit codes, the options before the
// sub-command, how an error and a JSON document are printed. Each sub-command is one file with one
// add_* function.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/count_text.h"
#include "base/result.h"
#include "base/user_file.h"
#include "core/profile.h"
#include "site/config.h"

namespace CLI {
class App;
}

namespace arena::cli {

enum Exit {
    exit_yes = 0,
    exit_no = exit_code(ErrorCode::no),
    exit_usage = exit_code(ErrorCode::usage),
    exit_environment = exit_code(ErrorCode::environment)
};

struct Globals {
    const char* program = "arena";  ///< whose errors begin with it
    bool json = false;              ///< --json
    std::string config_file;        ///< --config; empty = config_path()
    int status = exit_yes;          ///< of the sub-command that ran
};

/// Prints "PROGRAM: message" to stderr, with --json also {"schema_version":1,"error":{..}} to
/// stdout.
int fail(const Globals&, const Error&);
/// The document of an error, to stdout.
void print_error_json(const Error&);
/// Each as a line on standard error; the command goes on.
void warn(const std::vector<std::string>& sentences);
Result<Config> load_site_config(const Globals&);
std::string site_config_path(const Globals&);
/// Of a profile; an error names the file.
Result<Profile> read_user_profile(const std::string& path);

/// Columns of text, right-aligned where `numeric`; widths fit the content.
/// What a cell does in a table that is wider than a line: takes several lines, stays whole, or goes
/// to a line below its row, with the column's title before it.
enum class Wide { wraps, whole, below };

/// Lines of at most line_width() (wrap.h). Words are not broken, for people paste them, before
/// nothing else helps.
class Table {
  public:
    struct Column {
        std::string title;
        bool numeric = false;
        Wide wide = Wide::wraps;
    };
    explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
    void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
    [[nodiscard]] std::string text() const;  ///< in lines of line_width()
    [[nodiscard]] std::string text(std::size_t width) const;

  private:
    std::vector<Column> columns_;
    std::vector<std::vector<std::string>> rows_;
};

}  // namespace arena::cli
