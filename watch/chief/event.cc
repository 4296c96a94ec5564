// SPDX-License-Identifier: GPL-2.0-or-later
// The event: from the steps that open it over what is found to be slow to the steps that close it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/statistics.h"
#include "watch/chief/state.h"

namespace arena::watch {
namespace {

using slowdown::Cause;
using slowdown::Step;
using slowdown::Strategy;

constexpr std::size_t settled_steps = 5;   ///< of a level that counts
constexpr std::size_t back_steps = 12;     ///< near the healthy level, after which it is over
constexpr std::size_t recent_steps = 10;   ///< of the present level
constexpr double nearly_healthy = 0.5;     ///< of what the threshold allows
constexpr double profile_s = 20;           ///< at the most
constexpr double between_verdicts_s = 20;  ///< unless it is the first
constexpr std::int64_t longest_ago_ms = 3'600'000;

}  // namespace

// ---- steps -------------------------------------------------------------------------------------

void Chief::State::on_steps(const JobSteps& seen) {
    for (const IterationTime& step : seen.steps) {
        recent_.push_back(step);
        if (recent_.size() > 2 * recent_steps) recent_.pop_front();
        ++steps_since_word_;
        ++steps_watched_;
        if (open_) count_step(step);
    }
    const bool told = seen.step == Step::onset || seen.step == Step::changed;
    if (!open_) {
        if (now_.steady_s >= quiet_until_s_ && !is_moving() && (told || is_slow_still())) open();
        return;
    }
    if (seen.step == Step::relief && !is_mitigating()) return close(now_.epoch_ms);
    if (told) worsened();
}

/// What a step near the healthy level takes beyond it is noise: counted, it would pay for a restart
/// in the end.
void Chief::State::count_step(const IterationTime& step) {
    Open& open = *open_;
    ++open.steps;
    const double unit = step.tokens > 0 ? step.tokens : 1;
    const double healthy_s = open.healthy * unit;
    const double gate = 1 + nearly_healthy * (options_.threshold - 1);
    const double loss = step.time_s > gate * healthy_s ? step.time_s - healthy_s : 0;
    if (!std::isfinite(loss)) return;
    open.lost_s += loss;
    culprits_.lost(loss);
    if (steps_since_word_ == settled_steps) open.settled = present_level();
    if (open.rental) {
        const auto due = open.rental->iteration(1 + loss);  // healthy: 1, so that loss is loss
        if (due) open.due.insert(open.due.end(), due->begin(), due->end());
    }
    if (is_mitigating() || is_moving() || std::min(open.steps, steps_since_word_) < back_steps)
        return;
    if (present_level() >= gate * open.healthy) return;
    close(now_.epoch_ms);
}

/// The level of the job now; 0 where nothing is known since the last word.
double Chief::State::present_level() const {
    std::vector<double> levels;
    const std::size_t count = std::min({recent_steps, recent_.size(), steps_since_word_});
    for (std::size_t i = recent_.size() - count; i < recent_.size(); ++i)
        levels.push_back(recent_[i].level());
    return median_of(levels);
}

/// Behind an event that a check took for over.
bool Chief::State::is_slow_still() const {
    const Tracking::Event event = tracking_.event();
    return event.healthy > 0 && steps_since_word_ >= back_steps &&
           present_level() >= options_.threshold * event.healthy;
}

/// Medians of the trainer's steps before the event, or of those since the last word.
StepLevel Chief::State::level_of(bool before) const {
    std::vector<const StepDone*> steps;
    for (std::size_t i = steps_.size(); i-- > 0;) {
        const bool is_before = open_ && steps_[i].end_ms <= open_->onset_ms;
        if (!before && (is_before || steps_.size() - i > steps_since_word_)) break;
        if (is_before == before && steps.size() < recent_steps) steps.push_back(&steps_[i]);
    }
    if (steps.empty()) return {};
    const auto middle = [&](auto value) {
        std::vector<double> values;
        for (const StepDone* step : steps) values.push_back(value(*step));
        return median_of(std::move(values));
    };
    StepLevel level{.step_s = middle([](const StepDone& s) { return s.seconds; }),
                    .micro_batch_s = {},
                    .counts = trainer_.obeys() ? trainer_.counts() : Counts{}};
    const std::size_t replicas = level.counts.size();
    if (std::ranges::any_of(
            steps, [&](const StepDone* step) { return step->micro_batch_s.size() != replicas; }))
        return level;
    for (std::size_t i = 0; i < replicas; ++i)
        level.micro_batch_s.push_back(
            middle([i](const StepDone& step) { return step.micro_batch_s[i]; }));
    return level;
}

// ---- from onset to verdict ---------------------------------------------------------------------

void Chief::State::open() {
    const Tracking::Event event = tracking_.event();
    if (!(event.healthy > 0)) return;
    const std::int64_t onset =
        std::clamp(event.onset_ms, now_.epoch_ms - longest_ago_ms, now_.epoch_ms);
    open_ = Open{.healthy = event.healthy,
                 .onset_ms = std::max<std::int64_t>(onset, 1000),
                 .opened_s = now_.steady_s,
                 .lost_s = event.lost_s,
                 .settled = event.present,
                 .decided_s = now_.steady_s - between_verdicts_s};
    culprits_.clear();
    slow_gpus_.clear();
    found_by_ = {};
    healthy_ = level_of(true);
    // A slowdown that crept may have begun before the steps that are kept.
    if (healthy_.step_s <= 0 && !steps_.empty())
        healthy_.step_s = event.healthy * std::max(1.0, static_cast<double>(steps_.back().tokens));
    // What was measured before, by how long ago that was: the node's clock may have been set since.
    const double onset_s = now_.steady_s - static_cast<double>(now_.epoch_ms - onset) / 1000;
    baseline_.keep_before(onset_s);
    forget_looks_since(onset_s);
    const double factor = event.present / event.healthy;
    LogLine told = problem(
        fmt::format("Fail-slow is reported to global controller: steps take {:.2f} times as long",
                    factor),
        "onset", {{"onset_ms", open_->onset_ms}, {"factor", factor}, {"healthy", event.healthy}});
    told.node = place_of(std::max<std::int64_t>(0, tracking_.lead())).node;
    note(std::move(told));
    tell_agents(EventOpen{true});
    if (trainer_.is_here()) actions_.messages.push_back({trainer_.peer(), EventOpen{true}});
    begin_profile();
}

/// The level has changed again: a mitigation's doing, or something else is slow, too.
void Chief::State::worsened() {
    Open& open = *open_;
    const Tracking::Event event = tracking_.event();
    const double present = event.present > 0 ? event.present : present_level();
    const bool is_worse = present > options_.threshold * open.settled;
    const bool is_late = now_.steady_s >= open.decided_s + between_verdicts_s;
    if (open.phase != Phase::known || is_moving() || !is_worse || !is_late) return;
    note(line(fmt::format("steps have become slower again: {:.2f} times the healthy ones",
                          present / open.healthy),
              "changed", {{"factor", present / open.healthy}}));
    open.settled = present;
    open.attempts = open.rounds_of_looks = 0;
    open.looks.clear();
    begin_profile();
}

void Chief::State::begin_profile() {
    profile_.clear();
    open_->phase = Phase::profiling;
    open_->until_s = now_.steady_s + std::min(profile_s, options_.poll_s + 8 * trainer_.step_s());
    if (!trainer_.obeys()) open_->until_s = now_.steady_s + look_within_s(iterations_of_look());
    if (agents_.empty()) return end_profile();
    tell_agents(Profile{trainer_.obeys() ? GroupProfile::iterations : iterations_of_look()});
}

void Chief::State::end_profile() {
    if (!trainer_.obeys()) return take_look();
    begin_checks(true);
}

/// Narrow: the links of suspicious groups, where some can be compared; else all that are in use.
void Chief::State::begin_checks(bool is_narrow) {
    Open& open = *open_;
    rounds_.clear();
    open.phase = Phase::checking;
    open.passes.clear();
    std::vector<std::vector<int>> groups;
    if (is_narrow)
        for (const auto& group : profile_.suspicious(options_.threshold))
            if (!group.is_alone && group.ranks.back() < trainer_.ranks())
                groups.push_back(group.ranks);
    open.passes = ring_links(groups);
    open.is_narrow = !open.passes.empty();
    if (!open.is_narrow) open.passes = links_in_use(trainer_.plan(), trainer_.placement());
    note(line("Performing validation", "validation", {{"narrow", open.is_narrow}}));
}

/// Whoever asks is told what it costs, at least.
void Chief::State::tell_unexplained() {
    if (culprits_.any_open()) return;
    const bool is_first = culprits_.all().empty();
    const double present = std::max(open_->settled, present_level());
    culprits_.unexplained(present / open_->healthy, open_->onset_ms / 1000);
    if (is_first) culprits_.lost(open_->lost_s);
}

void Chief::State::conclude(const slowdown::Verdict& all, const slowdown::CheckRound& told) {
    Open& open = *open_;
    const bool is_first = !culprits_.any_named();
    const slowdown::Verdict verdict = culprits_.without_lesser(all);
    const std::int64_t onset = is_first ? open.onset_ms / 1000 : now_.epoch_ms / 1000;
    culprits_.rechecked(all, told, now_.epoch_ms / 1000, 1);
    tell_healthy();
    culprits_.found(verdict, trainer_, onset);
    if (is_first) culprits_.lost(open.lost_s);
    slow_gpus_ = verdict.gpus;
    found_by_ = rounds_.all();
    cause_ = verdict.gpus.empty() ? Cause::communication : Cause::compute;
    if (!verdict.gpus.empty()) note(problem("Root cause: comp", "cause"));
    if (!verdict.links.empty()) note(problem("Root cause: comm", "cause"));
    for (const Culprit& one : culprits_.all())
        if (!one.is_over())
            note(problem("slow: " + slow_word(one.report), "verdict",
                         {{"rank", std::int64_t{one.rank}},
                          {"peer", std::int64_t{one.peer}},
                          {"factor", one.report.factor},
                          {"at", to_string(one.report.at)},
                          {"cause", std::string(slowdown::name(one.report.cause))}}));
    if (culprits_.without_place() > 0)
        note(
            problem(fmt::format("{} slow links cannot be reported: they are within a node, and the "
                                "numbers of its GPUs are not known",
                                culprits_.without_place()),
                    "no_place"));
    open.phase = Phase::known;
    open.attempts = 0;
    open.decided_s = now_.steady_s;
    open.next_recheck_s = now_.steady_s + options_.recheck_s;
    begin_rental();
}

Situation Chief::State::situation() const {
    return {.trainer = trainer_,
            .healthy = healthy_,
            .present = level_of(false),
            .baseline = baseline_.all(),
            .checked = found_by_,
            .slow_gpus = slow_gpus_};
}

/// With nobody slow there is nothing to answer.
void Chief::State::forget_answers() {
    open_->rental.reset();
    open_->due.clear();
    open_->wants_restart = open_->is_told_stuck = false;
    slow_gpus_.clear();
}

/// With what has been lost so far: that is not got back, but it says how long it has lasted.
void Chief::State::begin_rental() {
    Open& open = *open_;
    open.rental.reset();
    open.due.clear();
    if (options_.mode != SlowdownMode::mitigate || !trainer_.obeys()) return;
    const Situation now = situation();
    auto priced = prices(now, cause_);
    if (!placement_is_known_)
        std::erase_if(priced, [](const auto& one) { return one.strategy == Strategy::roles; });
    const auto cost = [&](Strategy strategy) {
        const auto found = std::ranges::find(priced, strategy, &slowdown::Priced::strategy);
        return found == priced.end() ? std::string("none")
                                     : fmt::format("{:.3g}", found->overhead_s);
    };
    note(line(
        fmt::format("[Mitigation Plan] DPcost={}, PPcost={}, restart_cost={}, "
                    "time_since_slow={:.1f}, min_iter={:.4g}, slow_iter={:.4g}",
                    cost(Strategy::micro_batches), cost(Strategy::roles), cost(Strategy::restart),
                    static_cast<double>(now_.epoch_ms - open.onset_ms) / 1000, now.healthy.step_s,
                    now.present.step_s),
        "plan"));
    auto rental = slowdown::SkiRental::begin(1, priced);
    if (!rental) return;
    open.rental = std::move(*rental);
    if (auto due = open.rental->iteration(1 + open.lost_s)) open.due = *due;
}

void Chief::State::close(std::int64_t relief_ms) {
    const Open over = *open_;
    culprits_.over(relief_ms / 1000);
    report();
    open_.reset();
    check_ = check_ == Purpose::baseline ? check_ : std::nullopt;
    note(problem(fmt::format("relief: steps are healthy again, {:.1f} s were lost", over.lost_s),
                 "relief", {{"lost_s", over.lost_s}, {"relief_ms", relief_ms}}));
    if (over.phase == Phase::profiling) tell_agents(Profile{0});
    tell_agents(EventOpen{false});
    if (trainer_.is_here()) actions_.messages.push_back({trainer_.peer(), EventOpen{false}});
    wanted_counts_.reset();
    wanted_placement_.reset();
    words_lost_ = 0;
    if (options_.mode != SlowdownMode::mitigate || !trainer_.is_changed()) return;
    wanted_counts_ = even_split(trainer_.micro_batches(), trainer_.plan().dp);
    if (placement_is_known_) wanted_placement_ = trainer_.started();
}

}  // namespace arena::watch
