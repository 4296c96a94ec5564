// SPDX-License-Identifier: GPL-2.0-or-later
#include "tests/lab/slowdown/truth/calls_file.h"

#include <functional>
#include <map>

#include "base/csv.h"

namespace arena::slowdown {
namespace {

constexpr std::int64_t most_told = std::int64_t{1} << 62;

Call read_call(sim::Csv& csv) {
    Call call;
    call.time_us = csv.integer("t_us", 0, most_told);
    call.key.op = static_cast<Op>(csv.integer("op_id", 0, most_op));
    call.key.count = csv.integer("count", 0, most_told);
    call.key.comm = csv.integer("comm", -most_told, most_told);
    if (csv.has("peer")) call.key.peer = csv.integer("peer", -1, most_told);
    return call;
}

}  // namespace

Result<std::vector<CallStream>> parse_calls(std::string_view text, const std::string& file) {
    auto csv = sim::Csv::open(text, file, {"sequence", "t_us", "op_id", "count", "comm"});
    if (!csv) return csv.error();
    std::vector<CallStream> streams;
    std::map<std::string, std::size_t, std::less<>> places;
    while (csv->next()) {
        const std::string_view name = csv->word("sequence");
        const Call call = read_call(*csv);
        const auto [at, is_new] = places.try_emplace(std::string(name), streams.size());
        if (is_new) streams.push_back({std::string(name), {}});
        std::vector<Call>& calls = streams[at->second].calls;
        if (!calls.empty() && call.time_us < calls.back().time_us)
            csv->refuse("t_us goes back in time: rows of a sequence stand in order of time");
        calls.push_back(call);
    }
    if (csv->error()) return *csv->error();
    return streams;
}

}  // namespace arena::slowdown
