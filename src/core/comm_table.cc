// SPDX-License-Identifier: GPL-2.0-or-later
// See comm_table.h.
#include "core/comm_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/names.h"
#include "base/text.h"
#include "core/limits.h"

namespace arena {
namespace {

constexpr std::array<Name<CommOp>, 5> op_words{{
    {CommOp::all_reduce, "all_reduce"},
    {CommOp::all_gather, "all_gather"},
    {CommOp::reduce_scatter, "reduce_scatter"},
    {CommOp::all_to_all, "all_to_all"},
    {CommOp::send, "send"},
}};
constexpr std::array<Name<CommSpan>, 5> span_words{{
    {CommSpan::unsaid, ""},
    {CommSpan::leaf, "leaf"},
    {CommSpan::pod, "pod"},
    {CommSpan::pods, "pods"},
    {CommSpan::domain, "domain"},
}};
constexpr std::string_view one_node = "node";
constexpr std::int64_t max_buffer = std::int64_t{1} << 50;
constexpr double max_seconds = 3600;
constexpr std::size_t max_line = 4096, max_columns = 32;

enum Column {
    table,
    gpu_type,
    op,
    ranks,
    nodes,
    groups,
    bytes,
    span,
    middle,
    least,
    p95,
    column_count
};
struct ColumnName {
    std::string_view word;
    Column column;
};
constexpr ColumnName column_names[] = {
    {"table", table},         {"gpu_type", gpu_type}, {"op", op},
    {"ranks", ranks},         {"group_size", ranks},  {"nodes", nodes},
    {"hosts_crossed", nodes}, {"groups", groups},     {"concurrent_groups", groups},
    {"bytes", bytes},         {"median_s", middle},   {"time_s", middle},
    {"min_s", least},         {"p95_s", p95},         {"span", span},
};
constexpr std::string_view must_have[] = {"op", "ranks", "nodes", "groups", "bytes", "median_s"};

/// Where each column stands in a line; -1 = absent.
using Places = std::array<int, column_count>;

Result<Places> parse_header(std::string_view line) {
    Places places;
    places.fill(-1);
    const auto words = split(line, ',');
    for (std::size_t i = 0; i < std::min(words.size(), max_columns); ++i)
        for (const ColumnName& name : column_names)
            if (trim(words[i]) == name.word) places[name.column] = static_cast<int>(i);
    for (const std::string_view word : must_have) {
        const auto at = std::find_if(std::begin(column_names), std::end(column_names),
                                     [&](const ColumnName& name) { return name.word == word; });
        if (places[at->column] < 0)
            return usage_error(fmt::format("has no column '{}'", word), "line 1");
    }
    return places;
}

class Row {
  public:
    Row(std::string_view line, const Places& places) : words_(split(line, ',')), places_(places) {}
    [[nodiscard]] std::string_view text(Column column) const {
        const int at = places_[column];
        if (at < 0 || static_cast<std::size_t>(at) >= words_.size()) return {};
        return trim(words_[static_cast<std::size_t>(at)]);
    }
    [[nodiscard]] std::int64_t integer(Column column, std::int64_t most) const {
        return parse_integer(text(column), 1, most).value_or(0);  // 0 is refused by the check
    }
    [[nodiscard]] double seconds(Column column, double otherwise) const {
        if (places_[column] < 0) return otherwise;
        return parse_number(text(column), 0, max_seconds).value_or(0);
    }

  private:
    std::vector<std::string_view> words_;
    const Places& places_;
};

Result<CommTime> time_of(const Row& row, const std::string& type) {
    CommTime t;
    const auto word = parse_comm_op(row.text(op));
    if (!word)
        return usage_error(
            "op must be all_reduce, all_gather, reduce_scatter, all_to_all or send, "
            "not '" +
            printable(row.text(op), 40) + "'");
    t.gpu_type = type.empty() ? std::string(row.text(gpu_type)) : type;
    t.op = *word;
    t.ranks = row.integer(ranks, limits::gpus);
    t.nodes = row.integer(nodes, limits::gpus);
    t.groups = row.integer(groups, limits::gpus);
    t.bytes = row.integer(bytes, max_buffer);
    t.median_s = row.seconds(middle, 0);
    t.min_s = row.seconds(least, t.median_s);
    t.p95_s = row.seconds(p95, t.median_s);
    const std::string_view said = row.text(span) == one_node && t.nodes == 1 ? "" : row.text(span);
    const auto found = parse_comm_span(said);
    if (!found)
        return usage_error(
            "span must be node (of one node), leaf, pod, pods, domain or nothing, not '" +
            printable(row.text(span), 40) + "'");
    t.span = *found;
    if (auto s = check_comm_time(t); !s) return s.error();
    return t;
}

auto key_of(const CommTime& t) {
    return std::tuple(t.gpu_type, t.op, t.ranks, t.nodes, t.groups, t.bytes, t.span);
}

std::string joined(const std::set<std::string>& words) {
    std::string text;
    for (const std::string& word : words) text += (text.empty() ? "" : ", ") + printable(word, 40);
    return text;
}

/// For the message: all names, not only those before the row at hand.
std::string all_tables(const std::vector<std::string_view>& lines, const Places& places) {
    constexpr std::size_t enough = 64;
    std::set<std::string> tables;
    for (std::size_t i = 1; i < lines.size() && tables.size() < enough; ++i)
        if (!trim(lines[i]).empty()) tables.emplace(Row(lines[i], places).text(table));
    return joined(tables);
}

}  // namespace

std::string_view to_string(CommOp value) { return name_of(op_words, value); }

std::optional<CommOp> parse_comm_op(std::string_view text) {
    std::string word(text);
    std::replace(word.begin(), word.end(), '-', '_');
    return value_of(op_words, word);
}

std::string_view to_string(CommSpan value) { return name_of(span_words, value); }

std::optional<CommSpan> parse_comm_span(std::string_view text) {
    return value_of(span_words, text);
}

Status check_comm_time(const CommTime& t) {
    if (!is_type_name(t.gpu_type))
        return usage_error(
            "gpu_type must be a name of letters, digits, '_', '.' and '-'; give "
            "--gpu-type");
    if (t.ranks < 2 || t.ranks > limits::gpus || t.nodes < 1 || t.nodes > t.ranks ||
        t.ranks % t.nodes != 0)
        return usage_error(
            fmt::format("ranks must be 2 to {} and a multiple of nodes", limits::gpus));
    if (t.groups < 1 || t.groups > limits::gpus)
        return usage_error(fmt::format("groups must be 1 to {}", limits::gpus));
    if (t.nodes == 1 && t.span != CommSpan::unsaid)
        return usage_error("a group on one node has no span but node");
    if (t.bytes < 1 || t.bytes > max_buffer) return usage_error("bytes must be 1 to 2^50");
    const bool ordered = t.min_s > 0 && t.min_s <= t.median_s && t.median_s <= t.p95_s;
    if (!ordered || !(t.p95_s <= max_seconds))
        return usage_error("seconds must be 0 < min <= median <= p95 <= 3600");
    return Done{};
}

double bus_bytes_per_s(const CommTime& t) {
    const auto n = static_cast<double>(t.ranks);
    const double share = t.op == CommOp::send         ? 1
                         : t.op == CommOp::all_reduce ? 2 * (n - 1) / n
                                                      : (n - 1) / n;
    return share * static_cast<double>(t.bytes) / t.median_s;
}

Result<std::vector<CommTime>> parse_comm_csv(std::string_view text, const std::string& type,
                                             const std::string& wanted) {
    if (text.size() > max_comm_bytes) return usage_error("is larger than 64 MiB");
    const auto lines = split(text, '\n');
    const auto places = parse_header(lines.front());
    if (!places) return places.error();
    std::vector<CommTime> times;
    std::map<decltype(key_of(CommTime{})), std::size_t> seen;
    std::set<std::string> tables;
    for (std::size_t i = 1; i < lines.size(); ++i) {
        const std::string where = fmt::format("line {}", i + 1);
        if (lines[i].size() > max_line) return usage_error("is longer than 4096 bytes", where);
        if (trim(lines[i]).empty()) continue;
        const Row row(lines[i], *places);
        tables.emplace(row.text(table));
        if (!wanted.empty() && row.text(table) != wanted) continue;
        auto time = time_of(row, type);
        if (!time) return usage_error(time.error().text, where);
        const auto [at, is_new] = seen.try_emplace(key_of(*time), times.size());
        if (is_new) {
            times.push_back(std::move(time).value());
        } else if (wanted.empty() && tables.size() > 1) {
            return usage_error("the file holds several tables; choose one with --table: " +
                                   all_tables(lines, *places),
                               where);
        } else if (time->median_s < times[at->second].median_s) {
            times[at->second] = std::move(time).value();
        }
    }
    if (times.empty() && !wanted.empty())
        return usage_error("the file has no such table; it has: " + joined(tables), "--table");
    if (times.empty()) return usage_error("has no row");
    return times;
}

std::string to_csv(const std::vector<CommTime>& times) {
    std::string text =
        "gpu_type,op,ranks,nodes,groups,bytes,min_s,median_s,p95_s,busbw_gbytes_per_s,span\n";
    for (const CommTime& t : times)
        text += fmt::format("{},{},{},{},{},{},{:.9g},{:.9g},{:.9g},{:.4g},{}\n", t.gpu_type,
                            to_string(t.op), t.ranks, t.nodes, t.groups, t.bytes, t.min_s,
                            t.median_s, t.p95_s, bus_bytes_per_s(t) / 1e9,
                            t.nodes == 1 ? one_node : to_string(t.span));
    return text;
}

}  // namespace arena
