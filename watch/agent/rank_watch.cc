// SPDX-License-Identifier: GPL-2.0-or-later
#include "watch/agent/rank_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace arena::watch {
namespace {

constexpr std::size_t most_recent = std::size_t{1} << 14, most_told = 4096, most_untold = 64;
constexpr std::size_t most_series = 4096;
constexpr std::int64_t series_of_marks = std::int64_t{1} << 40;
constexpr std::uint64_t ahead_ns = 1'000'000'000;  ///< more than reading takes
constexpr std::int64_t longest_us = 1'000'000'000'000;

slowdown::CallKey key_of(const Record& record) {
    return {.op = static_cast<slowdown::Op>(record.op),
            .count = static_cast<std::int64_t>(std::min<std::uint64_t>(record.count, INT64_MAX)),
            .comm = static_cast<std::int64_t>(record.comm & INT64_MAX),
            .peer = has_peer(record.op) ? record.aux : -1};
}

std::int64_t epoch_ms(std::uint64_t time_ns, const Clocks& now) {
    const auto ago_ns = static_cast<std::int64_t>(now.raw_ns - time_ns);
    return std::max<std::int64_t>((static_cast<std::int64_t>(now.epoch_ns) - ago_ns) / 1'000'000,
                                  0);
}

}  // namespace

/// Stamps that are zero, far ahead or from before the ring was made say that the clock or the
/// wrapper is broken, never that all is well.
bool RankWatch::is_plausible(const Record& record, const Clocks& now) {
    const bool good = record.time_ns >= owner_.opened_ns && record.time_ns != 0 &&
                      record.time_ns <= now.raw_ns + ahead_ns;
    bad_stamps_ = !good;
    if (!good && !std::exchange(said_stamps_, true))
        lines_.push_back(fmt::format(
            "rank {}: the stamp {} of call {} cannot be: its calls say nothing of how it does",
            owner_.rank, record.time_ns, record.sequence));
    return good;
}

void RankWatch::break_off() {
    finder_ = {};
    recent_.clear();
    mark_ns_ = 0;
}

void RankWatch::take(std::vector<Record> records, std::uint64_t lost, const Clocks& now) {
    if (lost > 0) {
        break_off();
        if (!std::exchange(said_lost_, true))
            lines_.push_back(fmt::format("rank {}: {} calls were overwritten before they were read",
                                         owner_.rank, lost));
    }
    // Threads of a rank may overtake each other between their clock and their place in the ring.
    std::stable_sort(records.begin(), records.end(),
                     [](const Record& a, const Record& b) { return a.time_ns < b.time_ns; });
    for (const Record& record : records) {
        if (!is_plausible(record, now)) continue;
        if (record.kind == Kind::timing) {
            if (profile_) profile_->add(record, now.steady_s);
        } else {
            take_call(record, now);
        }
    }
}

void RankWatch::take_call(const Record& record, const Clocks& now) {
    ++calls_;
    heard_s_ = now.steady_s;
    last_ns_ = std::max(last_ns_, record.time_ns);
    const slowdown::CallKey key = key_of(record);
    recent_.push_back({key, last_ns_});
    if (recent_.size() > most_recent) recent_.pop_front();
    if (record.op == Op::step) return take_mark(record, now);
    if (!marked_)
        find_iteration({.key = key, .time_us = static_cast<std::int64_t>(last_ns_ / 1000)}, now);
}

/// The program says itself where a step begins.
void RankWatch::take_mark(const Record& record, const Clocks& now) {
    if (!std::exchange(marked_, true)) done_.clear();
    if (mark_ns_ != 0 && last_ns_ > mark_ns_)
        end_iteration(last_ns_, static_cast<std::int64_t>((last_ns_ - mark_ns_) / 1000),
                      mark_tokens_, series_of_marks, now);
    mark_ns_ = last_ns_;
    mark_tokens_ =
        static_cast<std::int64_t>(std::min<std::uint64_t>(record.count, std::uint64_t{1} << 53));
}

void RankWatch::find_iteration(const slowdown::Call& call, const Clocks& now) {
    const auto found = finder_.add(call);
    if (!found) return break_off();
    if (!*found) return;
    const slowdown::Iteration& iteration = **found;
    end_iteration(static_cast<std::uint64_t>(iteration.end_us) * 1000, iteration.duration_us, 0,
                  series_of(finder_.anchor()), now);
}

/// The finder's own numbers begin anew with each break.
std::int64_t RankWatch::series_of(const slowdown::CallKey& anchor) {
    if (series_.size() >= most_series) series_.clear();
    const auto next = static_cast<std::int64_t>(series_.size()) + 1;
    return series_.try_emplace(anchor, next).first->second;
}

void RankWatch::end_iteration(std::uint64_t end_ns, std::int64_t time_us, std::int64_t tokens,
                              std::int64_t series, const Clocks& now) {
    if (profile_) profile_->end_iteration(end_ns, now.steady_s);
    last_step_s_ = static_cast<double>(time_us) * 1e-6;
    const bool continues =
        !done_.empty() && done_.back().series == series && done_.back().done.size() < most_told;
    if (!continues && done_.size() >= most_untold) return;
    if (!continues) done_.push_back({.rank = owner_.rank, .series = series, .done = {}});
    done_.back().done.push_back({.end_ms = epoch_ms(end_ns, now),
                                 .time_us = std::clamp<std::int64_t>(time_us, 1, longest_us),
                                 .tokens = tokens});
}

void RankWatch::profile(std::int64_t iterations, double now_s) {
    if (iterations > 0)
        profile_.emplace(iterations, now_s);
    else
        profile_.reset();
}

/// Long steps are not silence.
std::optional<Silent> RankWatch::silence(bool running, const Clocks& now) {
    if (heard_s_ < 0 || !running) heard_s_ = now.steady_s;
    const double seconds = now.steady_s - heard_s_;
    if (seconds < std::max(silent_after_s, 3 * last_step_s_)) {
        if (seconds <= 0) is_silent_ = false;
        return std::nullopt;
    }
    if (std::exchange(is_silent_, true)) return std::nullopt;
    if (!std::exchange(said_silent_, true))
        lines_.push_back(fmt::format(
            "rank {} has made no call for {:.0f} s although it runs: nothing is known of it (a "
            "step in a CUDA graph? arena_watch_step() of arena_watch.h tells)",
            owner_.rank, seconds));
    return Silent{.rank = owner_.rank, .seconds = seconds};
}

std::vector<Frame> RankWatch::report(bool running, const Clocks& now) {
    std::vector<Frame> frames;
    for (Iterations& told : done_) frames.emplace_back(std::move(told));
    done_.clear();
    if (profile_) {
        if (auto times = profile_->result(now.steady_s)) {
            times->rank = owner_.rank;
            frames.emplace_back(*std::move(times));
            profile_.reset();
        }
    }
    if (const auto silent = silence(running, now)) frames.emplace_back(*silent);
    return frames;
}

std::vector<std::string> RankWatch::lines() { return std::exchange(lines_, {}); }

// ---- beats --------------------------------------------------------------------------------------

std::optional<RankWatch::Beat> RankWatch::beat() const {
    const std::size_t period = finder_.period();
    if (period == 0 || recent_.size() < 3 * period) return std::nullopt;
    std::map<slowdown::CallKey, std::size_t> counts;
    const auto begin = recent_.end() - static_cast<std::ptrdiff_t>(2 * period);
    for (auto at = begin; at != recent_.end(); ++at) ++counts[at->key];
    const auto middle = begin + static_cast<std::ptrdiff_t>(period);
    for (auto at = middle; at != recent_.end(); ++at) {
        if (counts[at->key] != 2) continue;
        Beat beat{.key = at->key, .last_ns = at->time_ns, .interval_s = 0, .intervals = 0};
        std::uint64_t first = 0;
        std::size_t stamps = 0;
        for (const Seen& seen : recent_) {
            if (seen.key != beat.key) continue;
            if (stamps++ == 0) first = seen.time_ns;
        }
        beat.intervals = stamps - 1;
        beat.interval_s = static_cast<double>(beat.last_ns - first) * 1e-9 /
                          static_cast<double>(std::max<std::size_t>(beat.intervals, 1));
        return beat;
    }
    return std::nullopt;
}

std::uint64_t RankWatch::first_of(const slowdown::CallKey& key) const {
    const auto at = std::find_if(recent_.begin(), recent_.end(),
                                 [&](const Seen& seen) { return seen.key == key; });
    return at == recent_.end() ? 0 : at->time_ns;
}

}  // namespace arena::watch
