// SPDX-License-Identifier: GPL-2.0-or-later
// A job whose trainer obeys no word, or has none: nothing can be measured while it runs. Its calls
// are timed now and then while its steps are healthy, and again when they have become slow: who
// waits least is suspected (slowdown/waits.h). A check of the node, once the job has left it or
// beside it, is the scheduler's.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/count_text.h"
#include "base/statistics.h"
#include "watch/chief/state.h"

namespace arena::watch {
namespace {

using slowdown::Strategy;

constexpr std::int64_t usual_iterations = 8;  ///< of a look; noisy jobs: twice, four times as many
constexpr int most_rounds_of_looks = 3;
constexpr std::ptrdiff_t latest_steps = 3;
constexpr std::size_t kept_looks = 4;       ///< while healthy, the latest
constexpr std::int64_t settled_after = 20;  ///< steps of a job whose looks count
constexpr double between_looks_s = 60;      ///< while healthy, once some are kept
constexpr double times_a_look = 10;         ///< the same, of what the latest took
constexpr double least_look_s = 20, longest_look_s = 900;
constexpr std::size_t most_named = 16;  ///< ranks of a group, in a line

std::vector<std::int64_t> first_of(const std::vector<int>& ranks) {
    const auto count = std::min(ranks.size(), most_named);
    return {ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(count)};
}

/// Ends of pairs are numbered by the ranks that told: where some did not, nobody knows who they
/// are.
slowdown::Look look_of(const GroupProfile& profile, bool is_whole) {
    const bool has_pairs = std::ranges::any_of(profile.look(), [](const slowdown::RankWaits& rank) {
        return std::ranges::any_of(
            rank.calls, [](const slowdown::WaitedCalls& calls) { return calls.peer >= 0; });
    });
    return is_whole || !has_pairs ? profile.look() : slowdown::Look{};
}

}  // namespace

// ---- while all is well -------------------------------------------------------------------------

/// The longer of the level that lasts and that of the last three, which alone are slow at an onset.
double Chief::State::usual_step_s() const {
    std::vector<double> steps;
    for (const IterationTime& step : recent_) steps.push_back(step.time_s);
    const auto last = std::ssize(steps) - std::min<std::ptrdiff_t>(latest_steps, std::ssize(steps));
    const double present = median_of({steps.begin() + last, steps.end()});
    return std::max(present, median_of(std::move(steps)));
}

/// Waiting for answers included, half as long again as its iterations take.
double Chief::State::look_within_s(std::int64_t iterations) const {
    const double seconds = static_cast<double>(iterations + 2) * usual_step_s();
    return std::clamp(2 * options_.poll_s + 2 + 1.5 * seconds, least_look_s, longest_look_s);
}

void Chief::State::look_while_healthy() {
    if (open_ || trainer_.obeys() || agents_.empty()) {
        healthy_looks_.begun_s.reset();
        return;
    }
    if (healthy_looks_.begun_s) {
        const bool is_late =
            now_.steady_s >= *healthy_looks_.begun_s + look_within_s(usual_iterations);
        if (all_told() || is_late) keep_healthy_look();
        return;
    }
    if (steps_watched_ < settled_after || now_.steady_s < healthy_looks_.next_s) return;
    profile_.clear();
    healthy_looks_.begun_s = now_.steady_s;
    tell_agents(Profile{usual_iterations});
}

void Chief::State::keep_healthy_look() {
    const double took_s = now_.steady_s - *healthy_looks_.begun_s;
    const bool is_whole = all_told();
    if (!is_whole) tell_agents(Profile{0});
    healthy_looks_.kept.push_back({now_.steady_s, look_of(profile_, is_whole)});
    healthy_looks_.begun_s.reset();
    if (healthy_looks_.kept.back().look.empty()) healthy_looks_.kept.pop_back();
    if (healthy_looks_.kept.size() > kept_looks) healthy_looks_.kept.pop_front();
    if (const std::size_t kept = healthy_looks_.kept.size();
        kept != std::exchange(healthy_looks_.told, kept))
        note(line(fmt::format("calls of healthy steps: {} kept", counted(kept, "look")), "look",
                  {{"kept", static_cast<std::int64_t>(kept)}}));
    const bool has_some = healthy_looks_.kept.size() >= kept_looks - 1;
    healthy_looks_.next_s =
        now_.steady_s +
        (has_some ? std::max(between_looks_s, times_a_look * took_s) : options_.poll_s);
}

/// The steps were slow already.
void Chief::State::forget_looks_since(double at_s) {
    healthy_looks_.begun_s.reset();
    healthy_looks_.told = 0;
    std::erase_if(healthy_looks_.kept, [&](const HealthyLook& one) { return one.end_s > at_s; });
}

slowdown::Look Chief::State::healthy_look() const {
    slowdown::Look before;
    for (const HealthyLook& one : healthy_looks_.kept) slowdown::add_look(before, one.look);
    return before;
}

// ---- once the steps are slow -------------------------------------------------------------------

std::int64_t Chief::State::iterations_of_look() const {
    return usual_iterations << (open_ ? open_->rounds_of_looks : 0);
}

void Chief::State::look_again() {
    if (open_->phase != Phase::pausing) return conclude_without_checks();
    if (now_.steady_s >= open_->until_s) begin_profile();
}

void Chief::State::take_look() {
    Open& open = *open_;
    const bool is_whole = all_told();
    if (!is_whole) tell_agents(Profile{0});
    const slowdown::Look before = healthy_look();
    if (before.empty()) return conclude_without_checks();
    if (slowdown::Look look = look_of(profile_, is_whole); !look.empty())
        open.looks.push_back(std::move(look));
    else if (++open.rounds_of_looks == most_rounds_of_looks)
        return conclude_without_checks();
    const slowdown::WaitLimits limits{.threshold = options_.threshold};
    if (open.looks.size() >= limits.looks) {
        const auto verdict = slowdown::find_least_waiting(before, open.looks, limits);
        if (!verdict) return conclude_without_checks();
        if (!verdict->ranks.empty() || !verdict->groups.empty())
            return conclude_by_waiting(*verdict);
        if (verdict->is_common || ++open.rounds_of_looks == most_rounds_of_looks)
            return conclude_without_checks();
        open.looks.clear();
    }
    // A straggler that moves has moved by then.
    const double half_a_look_s = static_cast<double>(iterations_of_look()) * usual_step_s() / 2;
    open.phase = Phase::pausing;
    open.until_s = now_.steady_s + std::max(options_.poll_s, half_a_look_s);
}

std::vector<Culprits::Suspicion> Chief::State::suspicions(
    const slowdown::WaitVerdict& verdict) const {
    std::vector<Culprits::Suspicion> all;
    for (const slowdown::SlowRank& slow : verdict.ranks)
        all.push_back({.at = place_of(slow.rank),
                       .factor = slow.factor,
                       .confidence = slow.confidence,
                       .rank = slow.rank});
    for (const slowdown::SlowGroup& slow : verdict.groups) {
        std::set<std::string> nodes;
        for (const int rank : slow.ranks) nodes.insert(place_of(rank).node);
        nodes.erase("");
        Culprits::Suspicion link{.factor = slow.factor, .confidence = slow.confidence};
        if (slow.ranks.size() == 2) {
            link.at = place_of(slow.ranks.front());
            link.peer = place_of(slow.ranks.back());
        } else if (nodes.size() == 2) {
            link.at.node = *nodes.begin();
            link.peer.node = *nodes.rbegin();
        }
        if (link.peer != SlowPlace{}) all.push_back(std::move(link));
    }
    return all;
}

void Chief::State::conclude_by_waiting(const slowdown::WaitVerdict& verdict) {
    Open& open = *open_;
    open.phase = Phase::known;
    open.decided_s = now_.steady_s;
    const bool is_first = culprits_.all().empty();
    const auto all = suspicions(verdict);
    culprits_.suspect(all, open.onset_ms / 1000, now_.epoch_ms / 1000);
    for (const slowdown::SlowRank& slow : verdict.ranks)
        note(problem(fmt::format("suspected: rank {} on {} computes {:.2f} times as long and waits "
                                 "least: {:.0f} % of the slowdown, confidence {:.2f}; no check has "
                                 "told",
                                 slow.rank, to_string(place_of(slow.rank)), slow.factor,
                                 100 * slow.share, slow.confidence),
                     "suspect",
                     {{"cause", std::string("compute")},
                      {"rank", std::int64_t{slow.rank}},
                      {"factor", slow.factor},
                      {"share", slow.share},
                      {"confidence", slow.confidence}}));
    for (const slowdown::SlowGroup& slow : verdict.groups)
        note(problem(fmt::format("suspected: {} ranks ({}) wait together in group {}, and nobody "
                                 "computes longer: a slow link among them, {:.0f} % of the "
                                 "slowdown, confidence {:.2f}; no check has told",
                                 slow.ranks.size(), fmt::join(first_of(slow.ranks), ", "),
                                 slow.group, 100 * slow.share, slow.confidence),
                     "suspect",
                     {{"cause", std::string("communication")},
                      {"ranks", first_of(slow.ranks)},
                      {"factor", slow.factor},
                      {"share", slow.share},
                      {"confidence", slow.confidence}}));
    if (is_first) culprits_.lost(open.lost_s);
    tell_unexplained();
    begin_restart_rental();
}

/// Neither checks nor waiting tell.
void Chief::State::conclude_without_checks() {
    Open& open = *open_;
    open.phase = Phase::known;
    open.decided_s = now_.steady_s;
    // Whoever is named already, by a check or by waiting, says more.
    if (std::ranges::any_of(culprits_.all(),
                            [](const Culprit& one) { return !one.is_over() && one.rank >= 0; }))
        return;
    const bool is_first = culprits_.all().empty();
    std::string names;
    for (const auto& group : profile_.suspicious(options_.threshold))
        if (!group.is_alone)
            names +=
                fmt::format("{}{} (x{:.2f})", names.empty() ? "" : ", ", group.group, group.factor);
    note(problem(
        fmt::format("No check without a trainer that obeys, and who waits for whom does "
                    "not tell which GPU or link is slow{}; groups whose calls take longer "
                    "than others': {}",
                    healthy_looks_.kept.empty() ? ": nobody looked before the steps were slow" : "",
                    names.empty() ? "none" : names),
        "no_check"));
    if (is_first) culprits_.lost(open.lost_s);
    tell_unexplained();
    begin_restart_rental();
}

void Chief::State::begin_restart_rental() {
    if (options_.mode != SlowdownMode::mitigate || !options_.elastic) return;
    const slowdown::Priced restart{Strategy::restart, usual_restart_s};
    auto rental = slowdown::SkiRental::begin(1, std::span(&restart, 1));
    if (!rental) return;
    Open& open = *open_;
    open.rental = std::move(*rental);
    if (auto due = open.rental->iteration(1 + open.lost_s)) open.due = *due;
}

}  // namespace arena::watch
