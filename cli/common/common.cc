// SPDX-License-Identifier: GPL-2.0-or-later
// What the sub-commands share: see cli.h.
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/json.h"
#include "base/text.h"
#include "cli/common/cli.h"
#include "cli/common/wrap.h"

namespace arena::cli {

int fail(const Globals& globals, const Error& error) {
    fmt::print(stderr, "{}: {}\n", globals.program, error.message());
    if (globals.json) print_error_json(error);
    return exit_code(error.code);
}

void print_error_json(const Error& error) {
    const Json json{{"schema_version", 1},
                    {"error", {{"text", error.text}, {"where", error.where}}}};
    fmt::print("{}\n", dump_json(json));
}

void warn(const std::vector<std::string>& sentences) {
    for (const std::string& sentence : sentences) fmt::print(stderr, "arena: {}\n", sentence);
}

std::string site_config_path(const Globals& globals) {
    return globals.config_file.empty() ? config_path() : globals.config_file;
}

Result<Config> load_site_config(const Globals& globals) {
    return load_user_config(site_config_path(globals));
}

Result<Profile> read_user_profile(const std::string& path) {
    const Result<std::string> text = read_user_file(path, max_profile_bytes);
    if (!text) return text.error();
    Result<Profile> profile = parse_profile(*text);
    if (!profile) return usage_error(profile.error().message(), path);
    return profile;
}

std::size_t line_width() {
    constexpr std::size_t least = 60, most = 300;
    winsize window{};
    if (::isatty(STDOUT_FILENO) == 0 || ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) != 0 ||
        window.ws_col == 0)
        return usual_line_width;
    return std::clamp<std::size_t>(window.ws_col, least, most);
}

std::vector<std::string> wrapped(std::string_view text, std::size_t width) {
    std::vector<std::string> lines;
    while (text.size() > width) {
        std::size_t end = text.find_last_of(' ', width);
        if (end == std::string_view::npos || end == 0) {
            const std::size_t comma = text.find_last_of(",;:-_/.", width - 1);
            end = comma == std::string_view::npos ? width : comma + 1;
        }
        lines.emplace_back(trim(text.substr(0, end)));
        text = trim(text.substr(end));
    }
    if (!text.empty() || lines.empty()) lines.emplace_back(text);
    return lines;
}

void print_wrapped(const std::string& first, std::string_view text) {
    constexpr std::size_t least = 40;  // of a line, however long the first words are
    const std::size_t width = line_width(), left = width - std::min(first.size(), width - least);
    std::string before = first;
    for (const std::string& line : wrapped(text, left)) {
        fmt::print("{}{}\n", before, line);
        before.assign(first.size(), ' ');
    }
}

namespace {

using Rows = std::vector<std::vector<std::string>>;

std::size_t longest_word(std::string_view text) {
    std::size_t longest = 0;
    for (const std::string_view word : split(text, ' ')) longest = std::max(longest, word.size());
    return longest;
}

/// How wide each column is, and how narrow it may become before words are broken.
struct Widths {
    std::vector<std::size_t> wide, least;
    std::size_t all = 0;  ///< of a line
};

Widths measure(const std::vector<Table::Column>& columns, const Rows& rows) {
    constexpr std::size_t gap = 2;
    Widths w;
    for (const Table::Column& column : columns) {
        w.wide.push_back(column.title.size());
        w.least.push_back(longest_word(column.title));
    }
    for (const auto& row : rows)
        for (std::size_t i = 0; i < row.size(); ++i) {
            const bool is_whole = columns[i].numeric || columns[i].wide != Wide::wraps;
            w.wide[i] = std::max(w.wide[i], row[i].size());
            w.least[i] = std::max(w.least[i], is_whole ? row[i].size() : longest_word(row[i]));
        }
    w.all = gap * (columns.size() - 1);
    for (const std::size_t wide : w.wide) w.all += wide;
    return w;
}

/// The widest columns give way until a line fits, or none is above its least width.
void narrow(Widths& w, std::size_t width) {
    for (; w.all > width; --w.all) {
        std::size_t widest = w.wide.size();
        for (std::size_t i = 0; i < w.wide.size(); ++i)
            if (w.wide[i] > w.least[i] && (widest == w.wide.size() || w.wide[i] > w.wide[widest]))
                widest = i;
        if (widest == w.wide.size()) return;
        --w.wide[widest];
    }
}

bool fits(const std::vector<Table::Column>& columns, const Rows& rows, std::size_t width) {
    Widths w = measure(columns, rows);
    narrow(w, width);
    return w.all <= width;
}

std::vector<std::size_t> fitting_widths(const std::vector<Table::Column>& columns, const Rows& rows,
                                        std::size_t width) {
    constexpr std::size_t least_of_words = 8;
    Widths w = measure(columns, rows);
    narrow(w, width);
    for (std::size_t i = 0; i < columns.size(); ++i)
        if (!columns[i].numeric && columns[i].wide == Wide::wraps)
            w.least[i] = std::min(w.least[i], least_of_words);
    narrow(w, width);  // words are broken now
    return w.wide;
}

/// One row, in as many lines as its longest cell takes.
std::string row_text(const std::vector<Table::Column>& columns,
                     const std::vector<std::size_t>& widths, const std::vector<std::string>& row) {
    Rows cells;
    std::size_t lines = 1;
    for (std::size_t i = 0; i < row.size(); ++i) {
        cells.push_back(wrapped(row[i], std::max<std::size_t>(1, widths[i])));
        lines = std::max(lines, cells.back().size());
    }
    std::string out;
    for (std::size_t l = 0; l < lines; ++l) {
        std::string line;
        for (std::size_t i = 0; i < cells.size(); ++i) {
            const std::string cell = l < cells[i].size() ? cells[i][l] : std::string();
            if (i > 0) line += "  ";
            line += columns[i].numeric ? fmt::format("{:>{}}", cell, widths[i])
                                       : fmt::format("{:<{}}", cell, widths[i]);
        }
        out += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
    }
    return out;
}

/// A table without the columns that went below, and what goes below each row: "plan pp2,dp2,tp1
/// steps 40".
struct Laid {
    std::vector<Table::Column> columns;
    Rows rows;
    std::vector<std::string> below;
};

void put_below(Laid& laid, std::size_t column) {
    const auto at = static_cast<std::ptrdiff_t>(column);
    for (std::size_t r = 0; r < laid.rows.size(); ++r) {
        const std::string& cell = laid.rows[r][column];
        if (!cell.empty())
            laid.below[r] += fmt::format("{}{} {}", laid.below[r].empty() ? "" : "  ",
                                         laid.columns[column].title, cell);
        laid.rows[r].erase(laid.rows[r].begin() + at);
    }
    laid.columns.erase(laid.columns.begin() + at);
}

/// From the left, as many as it takes.
Laid lay_out(const std::vector<Table::Column>& columns, const Rows& rows, std::size_t width) {
    Laid laid{columns, rows, std::vector<std::string>(rows.size())};
    for (std::size_t i = 0; i < laid.columns.size() && !fits(laid.columns, laid.rows, width);) {
        if (laid.columns[i].wide == Wide::below)
            put_below(laid, i);
        else
            ++i;
    }
    return laid;
}

}  // namespace

std::string Table::text() const { return text(line_width()); }

std::string Table::text(std::size_t width) const {
    constexpr std::size_t indent = 4;
    const Laid laid = lay_out(columns_, rows_, width);
    const std::vector<std::size_t> widths = fitting_widths(laid.columns, laid.rows, width);
    std::vector<std::string> titles;
    for (const Column& column : laid.columns) titles.push_back(column.title);
    std::string out = row_text(laid.columns, widths, titles);
    for (std::size_t r = 0; r < laid.rows.size(); ++r) {
        out += row_text(laid.columns, widths, laid.rows[r]);
        if (laid.below[r].empty()) continue;
        for (const std::string& line : wrapped(laid.below[r], width - indent))
            out += std::string(indent, ' ') + line + '\n';
    }
    return out;
}

}  // namespace arena::cli
