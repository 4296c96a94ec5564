// SPDX-License-Identifier: GPL-2.0-or-later
// Tables row by row: see csv.h.
#include "base/csv.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace arena::sim {
namespace {

constexpr std::size_t max_columns = 256;

std::string_view take_line(std::string_view& rest) {
    const std::size_t end = rest.find('\n');
    std::string_view line = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    return line;
}

void split_cells(std::string_view line, char separator, std::vector<std::string_view>& out) {
    out.clear();
    while (out.size() < max_columns) {
        const std::size_t end = line.find(separator);
        const std::string_view cell = line.substr(0, end), text = trim(cell);
        // An empty cell keeps its place in the line, by which free text is joined.
        out.push_back(text.empty() ? cell.substr(0, 0) : text);
        if (end == std::string_view::npos) return;
        line.remove_prefix(end + 1);
    }
}

}  // namespace

Result<Csv> Csv::open(std::string_view text, std::string name,
                      const std::vector<std::string_view>& required, CsvShape shape) {
    Csv csv;
    csv.shape_ = shape;
    csv.rest_ = text;
    csv.name_ = std::move(name);
    csv.line_ = 1;
    split_cells(take_line(csv.rest_), shape.separator, csv.columns_);
    for (const std::string_view column : required) {
        if (csv.has(column)) continue;
        return usage_error(fmt::format("the header line has no column \"{}\"", column),
                           csv.where());
    }
    return csv;
}

bool Csv::next() {
    while (!error_ && !rest_.empty()) {
        ++line_;
        const std::string_view line = take_line(rest_);
        if (trim(line).empty()) continue;
        split_cells(line, shape_.separator, cells_);
        join_free_text();
        if (cells_.size() == columns_.size()) return true;
        refuse(
            fmt::format("{} cells, but the header has {} columns", cells_.size(), columns_.size()));
    }
    return false;
}

/// The cells of a row lie one after the other in the text.
void Csv::join_free_text() {
    const int at = find(shape_.free_text);
    if (at < 0 || cells_.size() <= columns_.size()) return;
    const auto first = cells_.begin() + at;
    const auto last = first + static_cast<std::ptrdiff_t>(cells_.size() - columns_.size());
    *first = {first->data(), static_cast<std::size_t>(last->end() - first->data())};
    cells_.erase(first + 1, last + 1);
}

int Csv::find(std::string_view column) const {
    const auto at = std::find(columns_.begin(), columns_.end(), column);
    return at == columns_.end() ? -1 : static_cast<int>(at - columns_.begin());
}

std::string_view Csv::cell(std::string_view column) const {
    const int at = find(column);
    return at < 0 ? std::string_view{} : cells_[static_cast<std::size_t>(at)];
}

double Csv::number(std::string_view column, double min, double max) {
    const auto value = parse_number(cell(column), min, max);
    if (value) return *value;
    refuse(fmt::format("{}: \"{}\" is not a number from {:g} to {:g}", column,
                       printable(cell(column)), min, max));
    return min;
}

std::int64_t Csv::integer(std::string_view column, std::int64_t min, std::int64_t max) {
    const auto value = parse_integer(cell(column), min, max);
    if (value) return *value;
    refuse(fmt::format("{}: \"{}\" is not a whole number from {} to {}", column,
                       printable(cell(column)), min, max));
    return min;
}

std::string_view Csv::word(std::string_view column, std::size_t max_length) {
    const std::string_view text = cell(column);
    const bool is_plain =
        std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 127; });
    if (text.empty() || text.size() > max_length || !is_plain) {
        refuse(fmt::format("{}: \"{}\" is not a name of 1 to {} printable characters", column,
                           printable(text), max_length));
    }
    return text;
}

void Csv::refuse(std::string_view what) {
    if (!error_) error_ = usage_error(std::string(what), where());
}

std::string Csv::where() const { return fmt::format("{}:{}", name_, line_); }

}  // namespace arena::sim
