// SPDX-License-Identifier: GPL-2.0-or-later
#include "watch/agent/agent.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace arena::watch {
namespace {

constexpr std::size_t most_ranks_of_node = 1024;
constexpr double rate_within_s = 0.5;
/// While nothing is known yet of how fast ranks call, and where a ring is small or they are fast.
constexpr double first_reads_s = 0.1, shortest_read_s = 0.01;

}  // namespace

void Agent::take(RingNews news, const Clocks& now) {
    auto at = ranks_.find(news.ring);
    if (at == ranks_.end()) {
        if (ranks_.size() >= most_ranks_of_node) return;
        at = ranks_.emplace(news.ring, Rank{.watch = RankWatch(news.owner)}).first;
        at->second.watch.profile(awaited_, now.steady_s);
    }
    Rank& rank = at->second;
    rank.watch.take(std::move(news.records), news.lost, now);
    rank.running = news.running;
    rank.ended = news.ended;
    if (rank.gpu != news.gpu) rank.told = false;
    rank.gpu = news.gpu;
}

void Agent::connected() {
    said_hello_ = false;
    for (auto& [ring, rank] : ranks_) rank.told = false;
}

void Agent::on(const Frame& frame, double now_s) {
    // What EventOpen asks for concerns who reports times: the trainer, which is told as well.
    const auto* wanted = std::get_if<Profile>(&frame);
    if (wanted == nullptr) return;
    awaited_ = ranks_.empty() ? wanted->iterations : 0;
    for (auto& [ring, rank] : ranks_) rank.watch.profile(wanted->iterations, now_s);
}

const RankWatch* Agent::any_with_period() const {
    const auto at = std::find_if(ranks_.begin(), ranks_.end(), [](const auto& one) {
        return !one.second.ended && one.second.running && one.second.watch.has_period();
    });
    return at == ranks_.end() ? nullptr : &at->second.watch;
}

void Agent::measure_rate(double now_s) {
    const double passed_s = now_s - rate_at_s_;
    if (rate_at_s_ >= 0 && passed_s < rate_within_s) return;
    double most = 0;
    for (auto& [ring, rank] : ranks_) {
        const std::uint64_t calls = std::exchange(rank.calls, rank.watch.calls());
        most = std::max(most, static_cast<double>(rank.calls - calls) / passed_s);
    }
    if (rate_at_s_ >= 0 && control_ != Control::pause) calls_per_s_ = most;
    rate_at_s_ = now_s;
}

Control Agent::control(const Clocks& now) {
    const double now_s = now.steady_s;
    measure_rate(now_s);
    const bool profiled = std::any_of(ranks_.begin(), ranks_.end(), [](const auto& one) {
        return one.second.watch.is_profiled() && !one.second.ended;
    });
    const Control before = control_;
    // The rings were told after the last call of this.
    if (before == Control::profile)
        for (auto& [ring, rank] : ranks_) rank.watch.timed_since(now.raw_ns);
    if (profiled && !overhead_.is_stopped())
        control_ = Control::profile;
    else
        control_ = overhead_.next(any_with_period(), calls_per_s_, now_s);
    if (before == Control::pause && control_ != Control::pause) {
        for (auto& [ring, rank] : ranks_) rank.watch.break_off();
    }
    return control_;
}

std::vector<Frame> Agent::report(const Clocks& now) {
    std::vector<Frame> frames;
    if (!std::exchange(said_hello_, true))
        frames.emplace_back(
            AgentHello{.node = node_, .poll_ms = static_cast<std::int64_t>(poll_s_ * 1000)});
    for (auto& [ring, rank] : ranks_) {
        const RingOwner& owner = rank.watch.owner();
        if (!std::exchange(rank.told, true))
            frames.emplace_back(
                RankHere{.rank = owner.rank, .ranks = owner.ranks, .gpu = rank.gpu});
        const bool running = rank.running && !rank.ended && control_ != Control::pause;
        for (Frame& frame : rank.watch.report(running, now)) frames.push_back(std::move(frame));
        for (std::string& line : rank.watch.lines()) lines_.push_back(std::move(line));
    }
    std::erase_if(ranks_, [](const auto& one) { return one.second.ended; });
    if (const auto verdict = overhead_.verdict()) {
        frames.emplace_back(*verdict);
        lines_.push_back(fmt::format("watching costs {:.1f} % of the step: it {}",
                                     100 * verdict->share,
                                     verdict->stopped ? "stops" : "is thinned out to a quarter"));
    }
    return frames;
}

std::vector<std::string> Agent::lines() { return std::exchange(lines_, {}); }

double Agent::read_within_s(std::uint64_t capacity, double now_s) const {
    const double until_turn_s = std::max(overhead_.wake_s() - now_s, 0.0);
    if (ranks_.empty()) return std::min(poll_s_, 0.5);
    double within_s = poll_s_;
    if (calls_per_s_ <= 0) within_s = std::min(within_s, first_reads_s);
    if (calls_per_s_ > 0)
        within_s = std::min(within_s, static_cast<double>(capacity) / (4 * calls_per_s_));
    return std::max(std::min(within_s, until_turn_s), shortest_read_s);
}

}  // namespace arena::watch
