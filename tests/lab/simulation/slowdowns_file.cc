// SPDX-License-Identifier: GPL-2.0-or-later
// See slowdowns_file.h.
#include "tests/lab/simulation/slowdowns_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/csv.h"
#include "base/text.h"

namespace arena::sim {
namespace {

using slowdown::Cause;

constexpr double latest_s = 1e12;
constexpr double greatest_factor = 1e4;
constexpr std::size_t most_rows = 100'000;

class Reader {
  public:
    Reader(Csv csv, const std::vector<NodeState>& nodes, double usual_factor)
        : csv_(std::move(csv)), nodes_(nodes), usual_factor_(usual_factor) {}

    Result<std::vector<Slowdown>> read(void (Reader::*read_row)(Slowdown&)) {
        std::vector<Slowdown> out;
        while (csv_.next()) {
            if (out.size() == most_rows) csv_.refuse("more than 100000 slowdowns");
            Slowdown& slow = out.emplace_back();
            slow.duration_s = csv_.number("duration_s", 1e-6, latest_s);
            (this->*read_row)(slow);
            check_ends(slow);
        }
        if (csv_.error()) return *csv_.error();
        std::stable_sort(out.begin(), out.end(), [](const Slowdown& a, const Slowdown& b) {
            return a.start_s < b.start_s;
        });
        for (std::size_t row = 0; row < out.size(); ++row) out[row].row = row;
        return out;
    }

    void own_row(Slowdown& slow) {
        slow.start_s = csv_.number("time_s", 0, latest_s);
        slow.factor = csv_.number("factor", 1, greatest_factor);
        slow.node = node("node");
        slow.gpus = gpus("gpu", slow.node);
        const std::string_view kind = csv_.cell("kind");
        const auto cause = std::find(slowdown::causes.begin(), slowdown::causes.end(), kind);
        if (cause == slowdown::causes.end()) {
            csv_.refuse(
                fmt::format("kind: \"{}\" is not compute or communication", printable(kind)));
            return;
        }
        slow.cause = static_cast<Cause>(cause - slowdown::causes.begin());
        const bool has_peer = !csv_.cell("peer").empty();
        if (has_peer != (slow.cause == Cause::communication)) {
            csv_.refuse("peer: is given where kind is communication, and there alone");
            return;
        }
        if (!has_peer) return;
        slow.peer = node("peer");
        if (!csv_.cell("peer_gpu").empty()) slow.peer_gpu = gpu("peer_gpu", slow.peer);
    }

    void pair_row(Slowdown& slow) {
        slow.start_s = csv_.number("start_s", 0, latest_s);
        slow.cause = cause();
        slow.factor = usual_factor_;
        slow.node = node("node_a");
        slow.gpus = {gpu("gpu_a", slow.node)};
        slow.peer = node("node_b");
        slow.peer_gpu = gpu("gpu_b", slow.peer);
        if (slow.cause == Cause::communication && slow.node != slow.peer) {
            slow.gpus.clear();  // all GPUs of a node share its way out
            slow.peer_gpu = every_gpu;
        }
        if (slow.cause == Cause::compute) slow.peer_gpu = every_gpu;
    }

    void delay_row(Slowdown& slow) {
        slow.start_s = csv_.number("start_s", 0, latest_s);
        slow.cause = cause();
        slow.node = node("node");
        if (slow.cause == Cause::communication) {
            slow.factor = usual_factor_;
            slow.peer = node("delay_s_per_hook_or_peer_node");
            return;
        }
        slow.gpus = gpus("gpus", slow.node);
        slow.delay_s = csv_.number("delay_s_per_hook_or_peer_node", 0, 1e6);
    }

  private:
    Cause cause() {
        return csv_.integer("kind_0comp_1comm", 0, 1) == 0 ? Cause::compute : Cause::communication;
    }

    NodeIndex node(std::string_view column) {
        const std::string_view text = csv_.cell(column);
        const auto most = static_cast<std::int64_t>(nodes_.size()) - 1;
        if (const auto number = parse_integer(text, 0, most))
            return static_cast<NodeIndex>(*number);
        for (NodeIndex n = 0; n < nodes_.size(); ++n)
            if (nodes_[n].name == text) return n;
        csv_.refuse(
            fmt::format("{}: \"{}\" is no node of the cluster: a number from 0 to {}, or a "
                        "name as {}",
                        column, printable(text), most, nodes_.front().name));
        return 0;
    }

    std::int64_t one_gpu(std::string_view column, std::string_view text, NodeIndex n) {
        const std::int64_t most = nodes_[n].total_gpus - 1;
        if (const auto number = parse_integer(text, 0, most)) return *number;
        csv_.refuse(fmt::format("{}: \"{}\" is no GPU of {}: a number from 0 to {}", column,
                                printable(text), nodes_[n].name, most));
        return 0;
    }
    std::int64_t gpu(std::string_view column, NodeIndex n) {
        return one_gpu(column, csv_.cell(column), n);
    }
    std::vector<std::int64_t> gpus(std::string_view column, NodeIndex n) {
        std::vector<std::int64_t> out;
        if (csv_.cell(column).empty()) return out;
        for (const std::string_view word : split(csv_.cell(column), ' '))
            if (!word.empty()) out.push_back(one_gpu(column, word, n));
        std::sort(out.begin(), out.end());
        out.erase(std::unique(out.begin(), out.end()), out.end());
        return out;
    }

    void check_ends(const Slowdown& slow) {
        if (slow.cause == Cause::compute || slow.node != slow.peer) return;
        if (slow.gpus == std::vector{slow.peer_gpu})
            csv_.refuse("a link within a node is between two different GPUs of it");
    }

    Csv csv_;
    const std::vector<NodeState>& nodes_;
    double usual_factor_;
};

}  // namespace

Result<std::vector<Slowdown>> parse_slowdowns(std::string_view text, const std::string& name,
                                              const std::vector<NodeState>& nodes,
                                              double usual_factor) {
    Result<Csv> csv = Csv::open(text, name, {"duration_s"});
    if (!csv) return csv.error();
    struct Form {
        std::vector<std::string_view> columns;
        void (Reader::*row)(Slowdown&);
    };
    const Form forms[] = {
        {{"time_s", "node", "factor", "kind"}, &Reader::own_row},
        {{"start_s", "node_a", "gpu_a", "node_b", "gpu_b", "kind_0comp_1comm"}, &Reader::pair_row},
        {{"start_s", "node", "gpus", "delay_s_per_hook_or_peer_node", "kind_0comp_1comm"},
         &Reader::delay_row}};
    for (const Form& form : forms) {
        if (std::all_of(form.columns.begin(), form.columns.end(),
                        [&](std::string_view column) { return csv->has(column); }))
            return Reader(std::move(*csv), nodes, usual_factor).read(form.row);
    }
    return usage_error(
        fmt::format("no table of slowdowns: duration_s comes with {}, with {} or with {}",
                    fmt::join(forms[0].columns, ", "), fmt::join(forms[1].columns, ", "),
                    fmt::join(forms[2].columns, ", ")),
        name);
}

}  // namespace arena::sim
