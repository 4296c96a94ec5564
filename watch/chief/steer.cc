// SPDX-License-Identifier: GPL-2.0-or-later
// What is done next: one word to the trainer at a time, towards what is wanted; answers to the
// event as they become due; reports.
#include <fmt/format.h>

#include <algorithm>

#include "watch/chief/state.h"

namespace arena::watch {
namespace {

using slowdown::Strategy;
using Kind = Trainer::Word::Kind;

constexpr int most_words_lost = 3;
constexpr std::size_t steps_before_answer = 3;  ///< since the last word, that say what is so now
constexpr std::size_t steps_before_redo = 10;
constexpr double between_redos_s = 5;
constexpr double stuck_s = 60;

}  // namespace

void Chief::State::turn() {
    expire();
    look_while_healthy();
    steer();
    speak();
    report();
}

bool Chief::State::is_mitigating() const { return trainer_.is_changed(); }

bool Chief::State::is_moving() const {
    return (wanted_counts_ && *wanted_counts_ != trainer_.counts()) ||
           (wanted_placement_ && *wanted_placement_ != trainer_.placement());
}

// ---- words -------------------------------------------------------------------------------------

void Chief::State::expire() {
    if (const auto word = trainer_.lost(now_.steady_s)) on_lost(*word);
    if (trainer_.obeys() && !is_moving()) {
        wanted_counts_.reset();
        wanted_placement_.reset();
    }
}

void Chief::State::on_lost(const Trainer::Word& word) {
    complain("the trainer did not obey: " + word.text.substr(0, 80));
    if (word.kind == Kind::check) {
        if (const auto purpose = std::exchange(check_, std::nullopt))
            check_failed(*purpose, "no answer");
        return;
    }
    if (word.kind == Kind::swap) placement_is_known_ = false;  // it may still be obeyed
    if (++words_lost_ >= most_words_lost || word.kind == Kind::swap) {
        wanted_counts_.reset();
        wanted_placement_.reset();
        note(problem("the trainer is asked for nothing more in this event", "not_obeyed"));
    }
}

void Chief::State::on_obeyed(const Obeyed& obeyed) {
    const auto word = trainer_.obeyed(obeyed);
    if (!word) return;  // a check's, or one given up
    note(line(fmt::format("obeyed before step {}: {}", obeyed.step, word->text), "obeyed",
              {{"word", word->text}, {"step", obeyed.step}, {"seconds", obeyed.seconds}}));
    steps_since_word_ = 0;
    recent_.clear();
    words_lost_ = 0;
    if (open_) open_->next_recheck_s = now_.steady_s + options_.recheck_s;
}

void Chief::State::speak() {
    if (!trainer_.obeys() || !trainer_.is_idle()) return;
    if (say_move()) return;
    if (const auto purpose = wanted_check()) say_check(*purpose);
}

bool Chief::State::say_move() {
    Trainer::Word word;
    if (wanted_counts_ && *wanted_counts_ != trainer_.counts()) {
        word.kind = Kind::split;
        word.counts = *wanted_counts_;
    } else if (wanted_placement_ && *wanted_placement_ != trainer_.placement()) {
        word.kind = Kind::swap;
        word.swap = swaps_between(trainer_.placement(), *wanted_placement_).front();
    } else {
        return false;
    }
    auto message = trainer_.say(std::move(word), now_.steady_s);
    if (!message) {
        wanted_counts_.reset();
        wanted_placement_.reset();
        return false;
    }
    actions_.messages.push_back(std::move(*message));
    return true;
}

// ---- answers -----------------------------------------------------------------------------------

void Chief::State::steer() {
    if (!open_) return;
    Open& open = *open_;
    if (open.phase == Phase::profiling) {
        if (all_told() || now_.steady_s >= open.until_s) end_profile();
    } else if (!trainer_.obeys() && open.phase != Phase::known) {
        look_again();
    } else if (open.phase == Phase::pausing && now_.steady_s >= open.until_s) {
        begin_checks(false);
    } else if (open.phase == Phase::known) {
        steer_known();
    }
}

void Chief::State::steer_known() {
    if (options_.mode != SlowdownMode::mitigate || is_moving() || !trainer_.is_idle()) return;
    if (!open_->due.empty()) answer_due();
    if (!is_moving()) redo_split();
    tell_stuck();
    SlowAction action = SlowAction::none;
    if (trainer_.obeys()) {
        if (trainer_.counts() != even_split(trainer_.micro_batches(), trainer_.plan().dp))
            action = SlowAction::s2;
        if (trainer_.placement() != trainer_.started()) action = SlowAction::s3;
    }
    if (open_->wants_restart) action = SlowAction::s4;
    culprits_.act(action);
}

/// The dearest of those that are due is worth most; it is also the last that was.
void Chief::State::answer_due() {
    if (trainer_.obeys() && steps_since_word_ < steps_before_answer) return;
    for (std::size_t i = open_->due.size(); i-- > 0;) {
        const Strategy strategy = open_->due[i];
        const bool is_restart = strategy == Strategy::restart;
        // A restart is for what the other two left: it stays due until that is worth it.
        if (is_restart &&
            (present_level() < options_.threshold * open_->healthy || open_->due.size() > 1))
            continue;
        open_->due.erase(open_->due.begin() + static_cast<std::ptrdiff_t>(i));
        if (answer(strategy)) return;
    }
}

/// False: it would gain too little.
bool Chief::State::answer(Strategy strategy) {
    const std::string name(slowdown::name(strategy));
    if (strategy == Strategy::restart) {
        open_->wants_restart = true;
        note(problem("S4: a restart without what is slow is asked for", "answer",
                     {{"strategy", name}}));
        return true;
    }
    if (strategy == Strategy::micro_batches) {
        const auto split = better_split(situation());
        if (split) {
            wanted_counts_ = split->counts;
            note(problem(
                fmt::format("[DP solver] New DP plan: [{}]", fmt::join(split->counts, ", ")),
                "answer",
                {{"strategy", name}, {"counts", split->counts}, {"expected_s", split->step_s}}));
            return true;
        }
    } else if (const auto places = better_places(situation(), cause_);
               places && placement_is_known_) {
        wanted_placement_ = places->placement;
        note(problem(fmt::format("[PP solver] {} swaps of ranks, for {:.3g} s of each step",
                                 places->swaps.size(), places->gain_s),
                     "answer",
                     {{"strategy", name},
                      {"swaps", std::ssize(places->swaps)},
                      {"expected_gain_s", places->gain_s}}));
        return true;
    }
    note(line(name + " would gain too little", "no_gain", {{"strategy", name}}));
    return false;
}

/// While S2 is at work: the replicas' times have changed. Where they have become even a check says
/// whether the event is over; where no GPU is slow any more it need not: S2 does nothing for a
/// link, and a split that fits no GPU would keep the steps long, and the event open, on its own.
void Chief::State::redo_split() {
    if (!trainer_.obeys() || steps_since_word_ < steps_before_redo) return;
    if (now_.steady_s < open_->next_redo_s) return;
    open_->next_redo_s = now_.steady_s + between_redos_s;
    const Counts even = even_split(trainer_.micro_batches(), trainer_.plan().dp);
    if (trainer_.counts() == even) return;
    const Situation now = situation();
    if (now.present.micro_batch_s.empty()) return;  // the check's products say less than it did
    const auto split = better_split(now);
    if (!split) return;
    if (split->counts == even && culprits_.any_open(SlowCause::compute)) {
        open_->next_recheck_s = std::min(open_->next_recheck_s, now_.steady_s);
        return;
    }
    wanted_counts_ = split->counts;
    note(line(fmt::format("[DP solver] New DP plan: [{}]", fmt::join(split->counts, ", ")),
              "answer", {{"strategy", std::string("S2")}, {"counts", split->counts}}));
}

/// A restart would help, and cannot be had.
void Chief::State::tell_stuck() {
    const bool can = trainer_.obeys() ? trainer_.plan().checkpoints : options_.elastic;
    if (can || open_->is_told_stuck || !culprits_.any_open() || !open_->due.empty() ||
        (open_->rental && open_->rental->next()) || now_.steady_s < open_->decided_s + stuck_s ||
        present_level() < options_.threshold * open_->healthy)
        return;
    open_->is_told_stuck = true;
    note(
        problem("nothing more can be done: the job cannot be restarted elsewhere, for it has no "
                "checkpoints or is not elastic",
                "stuck"));
}

// ---- reports -----------------------------------------------------------------------------------

void Chief::State::report() {
    for (SlowReport& report : culprits_.due(now_.steady_s, steps_watched_)) {
        note(problem("reported: " + slow_word(report), "report",
                     {{"onset", report.onset},
                      {"action", std::string(to_string(report.action))},
                      {"lost_s", report.lost_s},
                      {"relief", report.relief}}));
        actions_.reports.push_back(std::move(report));
    }
}

}  // namespace arena::watch
