// SPDX-License-Identifier: GPL-2.0-or-later
// Rounds of benchmarks before and during a slowdown, and the passes that measure links.
#include <fmt/format.h>

#include <map>
#include <numeric>

#include "base/csv.h"
#include "base/text.h"
#include "core/limits.h"
#include "slowdown/locate.h"
#include "slowdown/passes.h"
#include "tests/lab/slowdown/kinds.h"

namespace arena::cli {
namespace {

using slowdown::CheckRound;
using slowdown::DetectorOptions;
using slowdown::Verdict;

constexpr int most_ranks = 1 << 20;

struct Rounds {
    CheckRound before, now;
};

/// "3->0".
std::optional<slowdown::Transfer> parse_link(std::string_view text) {
    const std::size_t arrow = text.find("->");
    if (arrow == std::string_view::npos) return std::nullopt;
    const auto from = parse_integer(text.substr(0, arrow), 0, most_ranks);
    const auto to = parse_integer(text.substr(arrow + 2), 0, most_ranks);
    if (!from || !to) return std::nullopt;
    return slowdown::Transfer{static_cast<int>(*from), static_cast<int>(*to)};
}

void read_row(sim::Csv& csv, Rounds& rounds) {
    const std::string_view phase = csv.cell("phase"), kind = csv.cell("kind");
    if (phase != "precheck" && phase != "validation")
        return csv.refuse("phase is not precheck or validation");
    CheckRound& round = phase == "precheck" ? rounds.before : rounds.now;
    const double time_ms = csv.number("avg_ms", 1e-9, 1e12);
    if (kind == "gemm") {
        round.gpus.push_back({static_cast<int>(csv.integer("rank", 0, most_ranks)), time_ms,
                              std::string(csv.cell("gpu_type"))});
        return;
    }
    const auto link = parse_link(csv.cell("link"));
    if (kind != "p2p" || !link) return csv.refuse("kind is not gemm, or p2p with a link A->B");
    round.links.push_back({link->from, link->to, time_ms});
}

Result<Rounds> read_rounds(const SlowdownFile& file) {
    auto csv = sim::Csv::open(file.text, file.path, {"phase", "kind", "link", "rank", "avg_ms"});
    if (!csv) return csv.error();
    Rounds rounds;
    while (csv->next()) read_row(*csv, rounds);
    if (csv->error()) return *csv->error();
    if (rounds.before.gpus.empty() && rounds.before.links.empty())
        return usage_error("no row of phase precheck: nothing to compare with", file.path);
    return rounds;
}

std::string cause_of(const Verdict& verdict) {
    if (!verdict.gpus.empty()) return "compute";
    if (!verdict.links.empty()) return "communication";
    return verdict.common.empty() ? "none" : "common";
}

Json json_of(const Verdict& verdict) {
    Json gpus = Json::array(), links = Json::array(), common = Json::array();
    for (const auto& gpu : verdict.gpus)
        gpus.push_back({{"rank", gpu.rank}, {"factor", gpu.factor}});
    for (const auto& link : verdict.links)
        links.push_back({{"from", link.from}, {"to", link.to}, {"factor", link.factor}});
    for (const auto& all : verdict.common)
        common.push_back({{"gpu_type", all.gpu_type}, {"gpus", all.gpus}, {"factor", all.factor}});
    return {{"cause", cause_of(verdict)}, {"gpus", gpus}, {"links", links}, {"common", common}};
}

/// The round before training against itself says nothing. What the other says stands in metrics.
Status evaluate(const SlowdownFiles& files, const DetectorOptions&, SlowdownReport& report) {
    const auto rounds = read_rounds(files.at("benchmarks"));
    if (!rounds) return rounds.error();
    const auto quiet = slowdown::locate(rounds->before, rounds->before);
    if (!quiet) return quiet.error();
    const Json nothing = json_of(Verdict{}), said = json_of(*quiet);
    report.expect("precheck against itself", said == nothing, said, nothing);
    const auto verdict = slowdown::locate(rounds->before, rounds->now);
    if (!verdict) return verdict.error();
    const bool is_whole =
        verdict->gpus_without_baseline.empty() && verdict->links_without_baseline.empty();
    report.expect("all that was measured has a baseline", is_whole, is_whole, true);
    report.metrics = json_of(*verdict);
    return Done{};
}

Result<SlowdownAnswer> solve(const SlowdownFiles& files, const DetectorOptions&) {
    const auto rounds = read_rounds(files.at("benchmarks"));
    if (!rounds) return rounds.error();
    const auto verdict = slowdown::locate(rounds->before, rounds->now);
    if (!verdict) return verdict.error();
    SlowdownAnswer answer{
        .columns = {"slow", "cause", "factor"}, .rows = {}, .json = json_of(*verdict)};
    for (const auto& gpu : verdict->gpus)
        answer.rows.push_back(
            {fmt::format("GPU {}", gpu.rank), "compute", fmt::format("{:.2f}", gpu.factor)});
    for (const auto& all : verdict->common)
        answer.rows.push_back({fmt::format("nearly all of {} GPUs{}{}", all.gpus,
                                           all.gpu_type.empty() ? "" : " ", all.gpu_type),
                               "common (heat, power cap, clocks): none is the culprit",
                               fmt::format("{:.2f}", all.factor)});
    for (const auto& link : verdict->links)
        answer.rows.push_back({fmt::format("link {}->{}", link.from, link.to), "communication",
                               fmt::format("{:.2f}", link.factor)});
    return answer;
}

Json passes_of(std::int64_t ranks) {
    std::vector<int> order(static_cast<std::size_t>(ranks));
    std::iota(order.begin(), order.end(), 0);
    Json passes = Json::array();
    for (const auto& pass : slowdown::ring_passes(order)) {
        Json transfers = Json::array();
        for (const auto& transfer : pass) transfers.push_back({transfer.from, transfer.to});
        passes.push_back(transfers);
    }
    return passes;
}

/// Calls `each` with every ring's size and members.
template <typename Each>
Status each_ring(const SlowdownFile& file, const Each& each) {
    constexpr std::size_t most_rings = 100'000;
    std::optional<Error> error;
    const JsonFields fields(file.json, file.path, error);
    const Json* rings = fields.list("rings", most_rings);
    for (std::size_t i = 0; rings && i < rings->size() && !error; ++i) {
        const JsonFields ring((*rings)[i], fmt::format("{}.rings[{}]", file.path, i), error);
        std::int64_t size = 0;
        ring.integer("ring_size", size, 1, limits::gpus);
        if (!error) each(size, ring);
    }
    if (error) return *error;
    return Done{};
}

Status evaluate_passes(const SlowdownFiles& files, const DetectorOptions&, SlowdownReport& report) {
    return each_ring(files.at("rings"), [&](std::int64_t size, const JsonFields& ring) {
        const Json* known = ring.list("passes", 16);
        if (!known) return ring.refuse("passes", "the known answer is needed to evaluate");
        const Json own = passes_of(size);
        report.expect(fmt::format("ring of {}", size), own == *known, own, *known);
    });
}

Result<SlowdownAnswer> solve_passes(const SlowdownFiles& files, const DetectorOptions&) {
    SlowdownAnswer answer{.columns = {"ring_size", "passes"}, .rows = {}};
    answer.json["rings"] = Json::array();
    const Status status = each_ring(files.at("rings"), [&](std::int64_t size, const JsonFields&) {
        const Json passes = passes_of(size);
        answer.json["rings"].push_back({{"ring_size", size}, {"passes", passes}});
        answer.rows.push_back({fmt::format("{}", size), dump_json(passes)});
    });
    if (!status) return status.error();
    return answer;
}

}  // namespace

SlowdownKind benchmarks_kind() {
    return {.name = "benchmarks",
            .command = "locate",
            .parts = {{"benchmarks", {"phase", "kind", "link", "rank", "avg_ms"}, ".csv"}},
            .evaluate = evaluate,
            .solve = solve};
}

SlowdownKind passes_kind() {
    return {.name = "passes",
            .command = "locate",
            .parts = {{"rings", {"rings", "ring_size"}, ".json"}},
            .evaluate = evaluate_passes,
            .solve = solve_passes};
}

}  // namespace arena::cli
