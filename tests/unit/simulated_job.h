// SPDX-License-Identifier: GPL-2.0-or-later
// A training job that never was, and a chief that watches it: a grid of ranks whose steps take what
// their slowest replica and links take, with noise, and faults that come and go. It obeys words
// between two steps, as a trainer does, and holds the chief to its promises meanwhile.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "watch/chief/chief.h"

namespace arena::test {

struct SimulatedFault {
    enum class Kind { gpu, link, host } kind = Kind::gpu;  ///< host: the step as a whole
    int rank = 0, peer = 0;
    double factor = 1;
    double from_s = 0, until_s = 1e12;
    double ramp_s = 0;   ///< from 1 to the factor
    double delay_s = 0;  ///< of each message over a link
};

struct SimulatedOptions {
    std::int64_t dp = 2, pp = 1, tp = 1;
    std::int64_t micro_batches = 16;  ///< of all replicas
    double micro_batch_s = 0.05;      ///< of a healthy stage
    double fixed_s = 0.05;
    double gradient_bytes = 0, activation_bytes = 0, state_bytes = 1e9;
    double link_bytes_per_s = 1e9;
    double noise = 0.01, check_noise = 0.01, check_s = 0.5, swap_s = 3;
    double spikes = 0;  ///< share of steps that take up to 3 times as long
    double bursts = 0;  ///< share of checks of a GPU that other work makes as long
    std::int64_t gpus_per_node = 8;
    bool has_trainer = true, has_agents = true, tells_micro_batches = true;
    bool checkpoints = true;
    double restart_s = 120;
    unsigned seed = 1;
    watch::ChiefOptions chief = {.mode = SlowdownMode::mitigate};
};

struct SimulatedStep {
    double end_s = 0, seconds = 0;
};

class SimulatedJob {
  public:
    explicit SimulatedJob(const SimulatedOptions& options);
    void add(const SimulatedFault& fault) { faults_.push_back(fault); }
    /// Connects, then goes on until then.
    void run_until(double end_s);

    // ---- what happened
    struct Said {
        double at_s = 0;
        std::string text;
    };
    struct Reported {
        double at_s = 0;
        SlowReport report;
    };
    [[nodiscard]] const std::vector<SimulatedStep>& steps() const { return steps_; }
    [[nodiscard]] const std::vector<Said>& words() const { return words_; }  ///< obeyed
    [[nodiscard]] const std::vector<Said>& lines() const { return lines_; }
    [[nodiscard]] const std::vector<Reported>& reports() const { return reports_; }
    /// Lines of the chief's in the job's own output.
    [[nodiscard]] const std::string& told() const { return told_; }
    /// When the first line that contains it was written, at or after from_s; none: -1.
    [[nodiscard]] double line_at(const std::string& part, double from_s = 0) const;
    [[nodiscard]] std::size_t count_lines(const std::string& part) const;
    [[nodiscard]] double word_at(const std::string& part, double from_s = 0) const;
    /// Mean seconds of the steps that ended in between.
    [[nodiscard]] double step_s(double from_s, double until_s) const;
    [[nodiscard]] const std::vector<std::int64_t>& counts() const { return counts_; }
    [[nodiscard]] bool has_first_roles() const;
    [[nodiscard]] double now_s() const { return now_s_; }
    [[nodiscard]] watch::Now now() const;
    [[nodiscard]] bool is_event_open() const { return event_open_; }

    // ---- what a test does to it
    watch::Chief& chief() { return chief_; }
    void take(watch::Actions actions);
    void kill_agent(std::int64_t node);
    void kill_trainer(bool in_a_check = false);
    /// Its connection ends; it introduces itself again, as a new peer.
    void reconnect_trainer();
    /// Checks answer this from now on; nothing: the truth.
    std::optional<watch::Checked> nonsense;
    bool answers_checks = true, obeys = true;

    static constexpr std::int64_t epoch_ms = 1'763'900'000'000;
    static constexpr watch::PeerId first_agent = 100;

  private:
    [[nodiscard]] std::int64_t ranks() const { return o_.dp * o_.pp * o_.tp; }
    [[nodiscard]] std::vector<std::int64_t> first_roles() const;
    [[nodiscard]] std::int64_t node_of(std::int64_t rank) const { return rank / o_.gpus_per_node; }
    [[nodiscard]] std::string name_of(std::int64_t node) const {
        return "n" + std::to_string(node);
    }
    [[nodiscard]] double factor(SimulatedFault::Kind kind, std::int64_t a,
                                std::int64_t b = -1) const;
    [[nodiscard]] double share_of(const SimulatedFault&, SimulatedFault::Kind, std::int64_t a,
                                  std::int64_t b) const;
    [[nodiscard]] double delay_s(std::int64_t a, std::int64_t b) const;
    [[nodiscard]] double message_s(double bytes, std::int64_t a, std::int64_t b) const {
        return delay_s(a, b) + bytes / bandwidth(a, b);
    }
    [[nodiscard]] double bandwidth(std::int64_t a, std::int64_t b) const;
    [[nodiscard]] double stage_s(std::int64_t replica, std::int64_t stage) const;
    [[nodiscard]] std::int64_t rank_at(std::int64_t replica, std::int64_t stage,
                                       std::int64_t shard) const;
    [[nodiscard]] double true_step_s() const;
    [[nodiscard]] double noisy(double value, double noise);
    [[nodiscard]] double product_ms(std::int64_t rank);
    void connect();
    void introduce_trainer();
    void pass_to(double end_s);
    void step();
    void obey(const std::string& word);
    void check(const std::string& word);
    void split(const std::string& word);
    void swap(const std::string& word);
    void poll_agents();
    void send(watch::PeerId from, const watch::Frame& frame);
    void note_iteration(double seconds, double end_s);
    [[nodiscard]] watch::GroupTimes times_of(std::int64_t rank);

    SimulatedOptions o_;
    watch::Chief chief_;
    std::mt19937 random_;
    std::vector<SimulatedFault> faults_;
    std::vector<std::int64_t> counts_, roles_;
    std::deque<std::string> to_obey_;
    watch::PeerId trainer_ = 1;
    double now_s_ = 0, next_tick_s_ = 0, next_poll_s_ = 0;
    bool is_connected_ = false, has_trainer_ = false, event_open_ = false, dies_in_check_ = false;
    std::vector<bool> agents_;
    std::int64_t profile_left_ = 0;
    std::vector<double> profiled_s_;
    std::vector<watch::Iterations::One> iterations_;  ///< since the last poll
    std::int64_t step_ = 0;
    std::vector<SimulatedStep> steps_;
    std::vector<Said> words_, lines_;
    std::string told_;
    std::vector<Reported> reports_;
};

}  // namespace arena::test
