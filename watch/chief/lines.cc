// SPDX-License-Identifier: GPL-2.0-or-later
#include "watch/chief/lines.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"

namespace arena::watch {
namespace {

constexpr std::size_t most_lines = 32;   ///< of one kind at a time
constexpr std::size_t most_listed = 64;  ///< of a line's list

struct ToJson {
    Json operator()(const auto& value) const { return value; }
};

std::string joined(const std::vector<std::string>& parts) {
    const std::size_t shown = std::min(parts.size(), most_listed);
    std::string text = fmt::format(
        "{}", fmt::join(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
    if (shown < parts.size()) text += fmt::format(", and {} more", parts.size() - shown);
    return text;
}

LogLine of_people(std::string text) { return {.node = {}, .text = std::move(text), .json = {}}; }

struct Places {
    std::int64_t first = 0, stride = 1, count = 0;
};

void add_clique(std::vector<LogLine>& lines, std::string_view kind, const Placement& started,
                const Places& places) {
    if (places.count < 2 || lines.size() > 3 * most_lines) return;
    std::vector<std::string> ranks;
    for (std::int64_t i = 0; i < places.count; ++i) {
        const auto place = static_cast<std::size_t>(places.first + i * places.stride);
        ranks.push_back(std::to_string(started[place]));
    }
    lines.push_back(of_people(fmt::format("Build {} clique [{}]", kind, joined(ranks))));
}

struct Spread {
    double least = 0, greatest = 0, sum = 0;
    std::size_t count = 0;
    void add(double ms) {
        least = count == 0 ? ms : std::min(least, ms);
        greatest = std::max(greatest, ms);
        sum += ms;
        ++count;
    }
    [[nodiscard]] std::string text() const {
        return fmt::format("{:.4g},{:.4g},{:.4g}", least, greatest,
                           sum / static_cast<double>(count));
    }
};

template <typename Key>
void add_results(std::vector<LogLine>& lines, std::string_view what,
                 const std::map<Key, Spread>& results) {
    std::size_t shown = 0;
    for (const auto& [key, spread] : results) {
        if (++shown > most_lines) break;
        lines.push_back(of_people(fmt::format("{} {}: {}", what, key, spread.text())));
    }
    if (results.size() > most_lines)
        lines.push_back(of_people(fmt::format("{} of {} more", what, results.size() - most_lines)));
}

}  // namespace

LogLine line(std::string text, std::string_view event,
             std::initializer_list<std::pair<std::string_view, Fact>> facts) {
    Json json{{"event", event}};
    for (const auto& [key, value] : facts) json[std::string(key)] = std::visit(ToJson{}, value);
    return {.node = {}, .text = std::move(text), .json = dump_json(json), .is_problem = false};
}

LogLine problem(std::string text, std::string_view event,
                std::initializer_list<std::pair<std::string_view, Fact>> facts) {
    LogLine one = line(std::move(text), event, facts);
    one.is_problem = true;
    return one;
}

std::vector<LogLine> clique_lines(const TrainerPlan& plan) {
    const Placement started = ranks_as_started(plan);
    std::vector<LogLine> tensor, data, stages;
    for (std::int64_t i = 0; i < plan.dp * plan.pp && tensor.size() < most_lines; ++i)
        add_clique(tensor, "TP", started, {i * plan.tp, 1, plan.tp});
    for (std::int64_t i = 0; i < plan.pp * plan.tp && data.size() < most_lines; ++i)
        add_clique(data, "DP", started, {i, plan.pp * plan.tp, plan.dp});
    for (std::int64_t d = 0; d < plan.dp; ++d)
        for (std::int64_t t = 0; t < plan.tp && stages.size() < most_lines; ++t)
            add_clique(stages, "PP", started, {d * plan.pp * plan.tp + t, plan.tp, plan.pp});
    tensor.insert(tensor.end(), data.begin(), data.end());
    tensor.insert(tensor.end(), stages.begin(), stages.end());
    return tensor;
}

std::vector<LogLine> dispatch_lines(bool gpus, const std::vector<slowdown::Pass>& passes) {
    std::vector<LogLine> lines;
    if (gpus) lines.push_back(of_people("Computation tasks dispatched!"));
    for (const slowdown::Pass& pass : passes) {
        if (lines.size() > most_lines) break;
        std::vector<std::string> transfers;
        for (const slowdown::Transfer& one : pass)
            transfers.push_back(fmt::format("S{}→R{}", one.from, one.to));
        lines.push_back(of_people(fmt::format("Communication test: [{}]", joined(transfers))));
    }
    return lines;
}

std::vector<LogLine> result_lines(const Checked& checked, const slowdown::CheckRound& rounds) {
    std::map<int, Spread> gpus;
    std::map<std::string, Spread> links;
    for (const slowdown::GpuCheck& gpu : rounds.gpus) gpus[gpu.rank].add(gpu.time_ms);
    for (const slowdown::LinkCheck& link : rounds.links)
        links[fmt::format("{}→{}", link.from, link.to)].add(link.time_ms);
    std::vector<LogLine> lines;
    add_results(lines, "Computation result of rank", gpus);
    add_results(lines, "Communication result of link", links);
    lines.push_back(line("", "checked",
                         {{"id", checked.id},
                          {"seconds", checked.seconds},
                          {"gpus", std::ssize(checked.gpus)},
                          {"links", std::ssize(checked.links)}}));
    return lines;
}

LogLine estimate_line(const std::string& node, const Iterations& iterations) {
    std::vector<std::int64_t> ends, times;
    for (const Iterations::One& one : iterations.done) {
        ends.push_back(one.end_ms);
        times.push_back(one.time_us);
    }
    const std::size_t n = std::min<std::size_t>(2, times.size());
    double sum = 0;
    for (std::size_t i = times.size() - n; i < times.size(); ++i)
        sum += static_cast<double>(times[i]);
    LogLine one = line(fmt::format("Estimated iteration time: {{'rank{}': {:.1f}}}",
                                   iterations.rank, n == 0 ? 0 : sum / static_cast<double>(n)),
                       "iterations",
                       {{"rank", iterations.rank},
                        {"series", iterations.series},
                        {"end_ms", std::move(ends)},
                        {"time_us", std::move(times)}});
    one.node = node;
    return one;
}

}  // namespace arena::watch
