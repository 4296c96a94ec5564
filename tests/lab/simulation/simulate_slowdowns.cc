// SPDX-License-Identifier: GPL-2.0-or-later
// `arena-lab simulate`: `arena simulate` with slow GPUs and links, so that what they cost, and what
// finding them gains, is seen beside the same run without them.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/user_file.h"
#include "cli/simulation/commands.h"
#include "cli/simulation/simulate_options.h"
#include "reports/slowdown_mode.h"
#include "tests/lab/simulation/commands.h"
#include "tests/lab/simulation/slowdowns_file.h"

namespace arena::cli {
namespace {

constexpr std::size_t max_slowdowns_bytes = std::size_t{64} << 20;

class SlowdownAddition final : public SimulateAddition {
  public:
    void add_options(CLI::App& command, SimulateOptions& given) override;
    [[nodiscard]] Status check(const SimulateOptions& given) const override;
    Status read(const sim::Workload& workload, sim::SimulationOptions& options) const override;
    void add_facts(const sim::SimulationOptions& options, sim::PageFacts& facts) const override;
    [[nodiscard]] std::optional<sim::SimulationOptions> beside(
        const sim::SimulationOptions& options) const override;
    void compare(const sim::Metrics& beside, sim::Metrics& run) const override;
    void print(const std::vector<sim::Metrics>& runs) const override;

  private:
    std::string file_, mode_ = "off";
    double factor_ = 2;
};

void SlowdownAddition::add_options(CLI::App& command, SimulateOptions& given) {
    SlowdownRules& rules = given.simulation.slowdown.rules;
    command.add_option("--slowdowns", file_, "slow GPUs and links, CSV");
    command.add_option("--slowdown-mode", mode_, "off, watch or mitigate")
        ->check(CLI::IsMember({"off", "watch", "mitigate"}))
        ->capture_default_str();
    command.add_option("--slowdown-factor", factor_, "times slower, where the file does not say")
        ->check(CLI::Range(1.0, 1e4))
        ->capture_default_str();
    command
        .add_option("--slowdown-latency", given.simulation.slowdown.latency_iterations,
                    "iterations until a slowdown is detected")
        ->check(CLI::Range(1.0, 1e5))
        ->capture_default_str();
    command
        .add_option("--slowdown-confirmations", rules.confirmations,
                    "jobs that find a node slow before all avoid it")
        ->check(CLI::Range(1, 100))
        ->capture_default_str();
    command
        .add_option("--slowdown-quarantine-percent", rules.max_quarantined_percent,
                    "of a type's nodes, avoided at a time")
        ->check(CLI::Range(0.0, 100.0))
        ->capture_default_str();
    command.add_option("--slowdown-recheck", rules.recheck_s, "how long a verdict holds, s")
        ->check(CLI::Range(1.0, 1e9))
        ->capture_default_str();
}

Status SlowdownAddition::check(const SimulateOptions& given) const {
    const auto& s = given.simulation.slowdown;
    const OptionNumber numbers[] = {
        {"--slowdown-factor", factor_},
        {"--slowdown-latency", s.latency_iterations},
        {"--slowdown-quarantine-percent", s.rules.max_quarantined_percent},
        {"--slowdown-recheck", s.rules.recheck_s}};
    if (const Status finite = check_finite(numbers); !finite) return finite;
    if (!file_.empty() && given.placement == "pools")
        return usage_error("needs nodes, not pools: slow GPUs stand in nodes", "--slowdowns");
    if (file_.empty() && mode_ != "off")
        return usage_error("needs --slowdowns FILE: without it nothing is slow", "--slowdown-mode");
    return Done{};
}

Status SlowdownAddition::read(const sim::Workload& workload,
                              sim::SimulationOptions& options) const {
    if (file_.empty()) return Done{};
    const Result<std::string> text = read_user_file(file_, max_slowdowns_bytes);
    if (!text) return text.error();
    auto slowdowns = sim::parse_slowdowns(*text, file_, workload.nodes, factor_);
    if (!slowdowns) return slowdowns.error();
    if (slowdowns->empty()) return usage_error("has no row: no slowdown to simulate", file_);
    options.slowdowns = std::move(*slowdowns);
    options.slowdown.mode = parse_slowdown_mode(mode_).value_or(SlowdownMode::off);
    return Done{};
}

void SlowdownAddition::add_facts(const sim::SimulationOptions& options,
                                 sim::PageFacts& facts) const {
    if (!options.slowdowns.empty())
        facts.emplace_back("slowdowns",
                           fmt::format("{}: {}, mode {}", file_, options.slowdowns.size(), mode_));
}

/// The same without slowdowns: what they cost is the difference.
std::optional<sim::SimulationOptions> SlowdownAddition::beside(
    const sim::SimulationOptions& options) const {
    if (options.slowdowns.empty()) return std::nullopt;
    sim::SimulationOptions sound = options;
    sound.slowdowns.clear();
    sound.keep_stays = false;
    return sound;
}

void SlowdownAddition::compare(const sim::Metrics& beside, sim::Metrics& run) const {
    run.slow->jct_without_s = beside.jct_s.mean;
}

void SlowdownAddition::print(const std::vector<sim::Metrics>& runs) const {
    if (runs.empty() || !runs.front().slow) return;
    Table table({{"POLICY"},
                 {"SLOWDOWNS", true},
                 {"MET JOBS", true},
                 {"DETECTED", true},
                 {"S2", true},
                 {"S4", true},
                 {"NODES AVOIDED", true},
                 {"LOST GPU-S", true},
                 {"JCT mean", true},
                 {"WITHOUT", true}});
    for (const sim::Metrics& m : runs) {
        const sim::SlowMetrics& s = *m.slow;
        table.add({m.policy, std::to_string(s.events), std::to_string(s.met),
                   std::to_string(s.detected), std::to_string(s.splits), std::to_string(s.restarts),
                   std::to_string(s.most_quarantined), fmt::format("{:.0f}", s.lost_gpu_s),
                   fmt::format("{:.0f}", m.jct_s.mean),
                   fmt::format("{:.0f}", s.jct_without_s.value_or(0))});
    }
    fmt::print("{}", table.text());
}

}  // namespace

void add_lab_simulate(CLI::App& app, Globals& globals) {
    add_simulate(app, globals, std::make_shared<SlowdownAddition>());
}

}  // namespace arena::cli
