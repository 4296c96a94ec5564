// SPDX-License-Identifier: GPL-2.0-or-later
#include "planner/evaluate/measured.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>

#include "base/text.h"

namespace arena {

namespace {

constexpr std::size_t max_columns = 256;
constexpr std::int64_t max_count = std::int64_t{1} << 40;
constexpr std::array<std::string_view, 12> needed{"gpu",    "gpus", "family", "layers",
                                                  "hidden", "seq",  "tp",     "pp",
                                                  "dp",     "mbs",  "gbs",    "iter_time_s"};

/// Fields of one record (RFC 4180: quotes double inside quotes); advances past its line end.
std::vector<std::string> next_record(std::string_view text, std::size_t& at, std::size_t& line) {
    std::vector<std::string> fields(1);
    bool quoted = false;
    for (; at < text.size(); ++at) {
        const char c = text[at];
        if (c == '\n') ++line;
        if (quoted && c == '"' && at + 1 < text.size() && text[at + 1] == '"') {
            fields.back() += text[++at];
        } else if (c == '"') {
            quoted = !quoted;
        } else if (!quoted && c == '\n') {
            ++at;
            break;
        } else if (!quoted && c == ',') {
            if (fields.size() < max_columns) fields.emplace_back();
        } else if (c != '\r') {
            fields.back() += c;
        }
    }
    return fields;
}

struct IntegerColumn {
    std::string_view name;
    std::int64_t MeasuredRow::*member;
};
constexpr IntegerColumn integer_columns[] = {
    {"id", &MeasuredRow::id},
    {"layers", &MeasuredRow::layers},
    {"hidden", &MeasuredRow::hidden},
    {"heads", &MeasuredRow::heads},
    {"kv_heads", &MeasuredRow::kv_heads},
    {"ffn_hidden", &MeasuredRow::ffn_hidden},
    {"seq", &MeasuredRow::seq},
    {"vocab", &MeasuredRow::vocab},
    {"experts", &MeasuredRow::experts},
    {"topk", &MeasuredRow::top_k},
    {"moe_ffn", &MeasuredRow::moe_ffn},
    {"gpus", &MeasuredRow::gpus},
    {"gpus_per_node", &MeasuredRow::gpus_per_node},
    {"tp", &MeasuredRow::tp},
    {"pp", &MeasuredRow::pp},
    {"dp", &MeasuredRow::dp},
    {"vpp", &MeasuredRow::vpp},
    {"cp", &MeasuredRow::cp},
    {"ep", &MeasuredRow::ep},
    {"mbs", &MeasuredRow::micro_batch},
    {"gbs", &MeasuredRow::global_batch},
};

struct TextColumn {
    std::string_view name;
    std::string MeasuredRow::*member;
};
constexpr TextColumn text_columns[] = {
    {"source", &MeasuredRow::source},
    {"framework", &MeasuredRow::framework},
    {"family", &MeasuredRow::family},
    {"model", &MeasuredRow::model},
    {"gpu", &MeasuredRow::gpu},
    {"intra_link", &MeasuredRow::intra_link},
    {"recompute", &MeasuredRow::recompute},
    {"precision", &MeasuredRow::precision},
    {"sharding", &MeasuredRow::sharding},
    {"attn", &MeasuredRow::attention},
    {"status", &MeasuredRow::status},
    {"confidence", &MeasuredRow::confidence},
    {"mem_kind", &MeasuredRow::mem_kind},
    {"notes", &MeasuredRow::notes},
    {"kind", &MeasuredRow::kind},
};

struct NumberColumn {
    std::string_view name;
    std::optional<double> MeasuredRow::*member;
};
constexpr NumberColumn number_columns[] = {
    {"inter_gbps_per_node", &MeasuredRow::inter_gbps},
    {"iter_time_s", &MeasuredRow::iteration_s},
    {"mem_gb", &MeasuredRow::memory_gb},
};

/// A record with names.
class Record {
  public:
    Record(const std::map<std::string, std::size_t, std::less<>>& columns,
           const std::vector<std::string>& fields)
        : columns_(columns), fields_(fields) {}
    [[nodiscard]] std::string_view at(std::string_view name) const {
        const auto it = columns_.find(name);
        return it == columns_.end() || it->second >= fields_.size() ? std::string_view()
                                                                    : fields_[it->second];
    }

  private:
    const std::map<std::string, std::size_t, std::less<>>& columns_;
    const std::vector<std::string>& fields_;
};

/// "224x224": the edges of an image, for families without tokens.
bool read_image_size(std::string_view text, MeasuredRow& row) {
    const std::size_t by = text.find('x');
    if (by == std::string_view::npos) return false;
    const auto width = parse_integer(text.substr(0, by), 1, max_count);
    const auto height = parse_integer(text.substr(by + 1), 1, max_count);
    if (!width || !height) return false;
    row.image_width = *width, row.image_height = *height;
    return true;
}

/// The first reason stays.
void mark_unreadable(MeasuredRow& row, std::string_view column, std::string_view text,
                     std::string_view wanted) {
    if (row.unreadable.empty())
        row.unreadable =
            fmt::format("{} is '{}': {} is wanted", column, printable(text, 20), wanted);
}

/// A blank is 0. Two columns have words that mean something.
void read_integers(const Record& record, MeasuredRow& row) {
    for (const IntegerColumn& column : integer_columns) {
        const std::string_view text = trim(record.at(column.name));
        const bool is_word = (column.name == "kv_heads" && text == "MLA") ||
                             (column.name == "seq" && read_image_size(text, row));
        if (text.empty() || is_word) continue;
        const auto value = parse_integer(text, 0, max_count);
        if (!value) mark_unreadable(row, column.name, text, "a whole number from 0 to 2^40");
        row.*column.member = value.value_or(0);
    }
    row.mla = trim(record.at("kv_heads")) == "MLA";
    const std::string_view parallel = trim(record.at("seq_parallel"));
    if (!parallel.empty() && parallel != "0" && parallel != "1")
        mark_unreadable(row, "seq_parallel", parallel, "0, 1 or nothing");
    row.sequence_parallel = parallel == "1";
}

void read_numbers(const Record& record, MeasuredRow& row) {
    for (const NumberColumn& column : number_columns) {
        const std::string_view text = trim(record.at(column.name));
        if (text.empty()) continue;
        row.*column.member = parse_number(text, 0, 1e12);
        if (!(row.*column.member))
            mark_unreadable(row, column.name, text, "a number from 0 to 1e12");
    }
}

MeasuredRow read_row(const Record& record, std::size_t line) {
    MeasuredRow row;
    row.line = line;
    read_integers(record, row);
    for (const TextColumn& column : text_columns)
        row.*column.member = std::string(trim(record.at(column.name)));
    read_numbers(record, row);
    return row;
}

Result<std::map<std::string, std::size_t, std::less<>>> read_header(
    const std::vector<std::string>& names, std::string_view file) {
    std::map<std::string, std::size_t, std::less<>> columns;
    for (std::size_t i = 0; i < names.size(); ++i)
        if (!columns.emplace(std::string(trim(names[i])), i).second)
            return usage_error(
                fmt::format("the column '{}' is there twice", printable(names[i], 40)),
                fmt::format("{}:1", file));
    std::vector<std::string> missing;
    for (std::string_view name : needed)
        if (!columns.contains(name)) missing.emplace_back(name);
    if (!missing.empty())
        return usage_error("the header lacks the columns " + join(missing, ", "),
                           fmt::format("{}:1", file));
    return columns;
}

}  // namespace

Result<std::vector<MeasuredRow>> parse_measured(std::string_view text, std::string_view name) {
    if (text.size() > max_measured_bytes)
        return usage_error(fmt::format("larger than {} MiB", max_measured_bytes >> 20),
                           std::string(name));
    std::size_t at = 0, line = 1;
    const auto columns = read_header(next_record(text, at, line), name);
    if (!columns) return columns.error();
    std::vector<MeasuredRow> rows;
    while (at < text.size()) {
        const std::size_t first_line = line;
        const std::vector<std::string> fields = next_record(text, at, line);
        if (fields.size() == 1 && trim(fields[0]).empty()) continue;
        if (rows.size() == max_measured_rows)
            return usage_error(fmt::format("more than {} rows", max_measured_rows),
                               std::string(name));
        rows.push_back(read_row(Record(*columns, fields), first_line));
    }
    const bool any = std::any_of(rows.begin(), rows.end(),
                                 [](const MeasuredRow& row) { return row.unreadable.empty(); });
    if (any || rows.empty()) return rows;
    const char* others = rows.size() > 1 ? "; nor can any other row be read" : "";
    return usage_error(rows.front().unreadable + others,
                       fmt::format("{}:{}", name, rows.front().line));
}

}  // namespace arena
