// SPDX-License-Identifier: GPL-2.0-or-later
// Checks: when one is wanted, what it measures, what its answer says. Two rounds decide where what
// they found is far beyond noise, else three do; where noise hides what is clearly slow, as many as
// nine, for the pre-check, too. Answers that say nothing are asked again a few times, with growing
// pauses: each stops the training.
#include <fmt/format.h>

#include <algorithm>

#include "base/count_text.h"
#include "base/text.h"
#include "watch/chief/state.h"

namespace arena::watch {
namespace {

constexpr int rounds_that_agree = 2;  ///< where what they find is clear
constexpr int most_rounds = 9;        ///< where the machine is noisy
constexpr int most_attempts = 5;
constexpr double first_pause_s = 30, longest_pause_s = 600;
constexpr double dear_check_s = 5;         ///< no more rounds than are needed
constexpr double most_of_the_time = 0.05;  ///< that rechecks may take

}  // namespace

std::optional<Chief::State::Purpose> Chief::State::wanted_check() const {
    if (!open_) {
        const bool wanted = options_.precheck && baseline_.count() < baseline_wanted_ &&
                            baseline_failures_ < most_attempts && !trainer_.is_changed();
        return wanted ? std::optional(Purpose::baseline) : std::nullopt;
    }
    if (open_->phase == Phase::checking) return Purpose::validation;
    const bool is_hidden = is_decided() && is_mitigating() && !is_moving();
    if (is_hidden && culprits_.any_open() && now_.steady_s >= open_->next_recheck_s)
        return Purpose::recheck;
    return std::nullopt;
}

/// Both ways of each link, and whether there is a GPU among them decides nothing: GPUs are always
/// checked, for a slow one slows its links.
std::vector<slowdown::Pass> Chief::State::links_of_culprits() const {
    std::vector<slowdown::Transfer> links;
    for (const Culprit& one : culprits_.all()) {
        if (one.is_over() || one.peer < 0) continue;
        links.push_back({one.rank, one.peer});
        links.push_back({one.peer, one.rank});
    }
    return passes_of(links);
}

void Chief::State::say_check(Purpose purpose) {
    std::vector<slowdown::Pass> passes;
    if (purpose == Purpose::baseline)
        passes = links_in_use(trainer_.plan(), trainer_.placement());
    else if (purpose == Purpose::validation)
        passes = open_->passes;
    else
        passes = links_of_culprits();
    const std::int64_t id = ++checks_;
    CheckWord word = check_word(id, true, passes);
    auto message = trainer_.say(
        {.kind = Trainer::Word::Kind::check, .text = std::move(word.text), .check = id},
        now_.steady_s);
    if (!message) return;
    actions_.messages.push_back(std::move(*message));
    check_ = purpose;
    for (LogLine& one : dispatch_lines(true, passes)) note(std::move(one));
    if (word.left_out > 0)
        note(line(fmt::format("left out, for a check can name no more: {}",
                              counted(word.left_out, "link")),
                  "cut"));
}

void Chief::State::on_checked(const Checked& checked) {
    if (!trainer_.checked(checked))
        return complain(fmt::format("an answer to check {}, which was not asked", checked.id));
    const auto purpose = std::exchange(check_, std::nullopt);
    if (!purpose) return;  // what it was for is over
    if (!checked.failure.empty()) return check_hung(*purpose, printable(checked.failure));
    const auto round = to_round(checked, trainer_.ranks());
    if (!round) return check_failed(*purpose, round.error().message());
    if (*purpose == Purpose::baseline) take_baseline(*round, checked.seconds);
    if (*purpose == Purpose::validation) take_validation(*round, checked.seconds);
    if (*purpose == Purpose::recheck) take_recheck(*round, checked.seconds);
    const bool is_event = open_ && *purpose != Purpose::recheck;
    for (LogLine& one : result_lines(checked, is_event ? rounds_.all() : *round))
        note(std::move(one));
}

void Chief::State::take_baseline(const slowdown::CheckRound& round, double seconds) {
    if (open_) return;  // begun before the event: nobody knows what it measured
    baseline_.add(round, now_.steady_s);
    if (seconds > dear_check_s) baseline_wanted_ = 1;
    if (baseline_.count() < baseline_wanted_) return;
    const auto limits = limits_of(baseline_.all(), baseline_.all(), options_.threshold);
    const bool tells =
        is_sharp(limits.gpu, options_.threshold) && is_sharp(limits.link, options_.threshold);
    if (!tells && seconds <= dear_check_s && baseline_wanted_ < most_rounds) {
        ++baseline_wanted_;
        return;
    }
    note(line(fmt::format("pre-check: {} and {} are measured, {}; by how their rounds "
                          "differ, slow is what takes {:.2f} and {:.2f} times as long in as many",
                          counted(round.gpus.size(), "GPU"), counted(round.links.size(), "link"),
                          counted(baseline_.count(), "time"), limits.gpu, limits.link),
              "baseline",
              {{"rounds", std::int64_t{baseline_.count()}},
               {"slow_gpu", limits.gpu},
               {"slow_link", limits.link}}));
    tell_odd_gpus();
}

/// One that was slow before the job began is no event: nothing is told but the log.
void Chief::State::tell_odd_gpus() {
    const auto judged = judge({}, baseline_.all(), clear_factor);
    if (!judged) return;
    for (const slowdown::SlowGpu& gpu : judged->verdict.gpus)
        note(problem(fmt::format("pre-check: the GPU of rank {} ({}) computes {:.2f} times slower "
                                 "than others of its type",
                                 gpu.rank, to_string(place_of(gpu.rank)), gpu.factor),
                     "odd_gpu", {{"rank", std::int64_t{gpu.rank}}, {"factor", gpu.factor}}));
}

void Chief::State::take_validation(const slowdown::CheckRound& round, double seconds) {
    if (!open_ || open_->phase != Phase::checking) return;
    rounds_.add(round, now_.steady_s);
    const double slower = present_level() / open_->healthy;
    const auto judged = judge(baseline_.all(), rounds_.all(), options_.threshold, slower);
    const auto alone = judge(baseline_.all(), round, options_.threshold, slower);
    if (!judged || !alone) return nothing_found((judged ? alone : judged).error().message());
    slowdown::Verdict verdict = judged->verdict;
    // The median of three rounds leaves out what one of them saw; of two it does not.
    if (rounds_.count() == 2) verdict = in_both(verdict, in_both(alone->verdict, found_before_));
    found_before_ = alone->verdict;
    const bool found = !verdict.gpus.empty() || !verdict.links.empty();
    const bool is_dear = seconds > dear_check_s;
    const bool tells_gpus = is_dear || is_sharp(judged->limits.gpu, options_.threshold);
    const bool tells_links = is_dear || is_sharp(judged->limits.link, options_.threshold);
    const int enough = tells_gpus && tells_links ? usual_rounds : most_rounds;
    // A slow GPU slows its links: where noise may hide one, a slow link says nothing yet.
    const bool decides = rounds_.count() >= (is_dear ? 1 : rounds_that_agree) && found &&
                         is_clear(verdict) && (tells_gpus || !verdict.gpus.empty());
    if (rounds_.count() < enough && !decides) return;
    if (!found) return nothing_slow(*judged);
    if (!judged->has_baseline)
        note(line("no pre-check: GPUs are compared with others of their type", "no_baseline"));
    conclude(verdict, told_by(*judged));
}

/// What this validation measured well enough that whoever is not in its verdict is healthy.
slowdown::CheckRound Chief::State::told_by(const Judged& judged) const {
    slowdown::CheckRound told = rounds_.all();
    if (!is_sharp(judged.limits.gpu, options_.threshold)) told.gpus.clear();
    if (!judged.has_baseline || !is_sharp(judged.limits.link, options_.threshold))
        told.links.clear();
    return told;
}

void Chief::State::tell_healthy() {
    for (const Culprit& one : culprits_.all())
        if (one.is_over() && one.told && one.told->relief == 0)
            note(problem("healthy again: " + slow_word(one.report), "healthy"));
}

/// A check ends the event: under a mitigation steps do not show that nothing is slow any more.
void Chief::State::over_by_check() {
    quiet_until_s_ = now_.steady_s + 1;
    close(now_.epoch_ms);
}

/// No GPU and no link is slow: nor is, where noise does not hide it, what was found before. Under a
/// mitigation that ends the event with the last of them, and steps that are slow all the same open
/// another one; else rechecks go on, which would wait for the end of all the pauses.
void Chief::State::nothing_slow(const Judged& judged) {
    if (culprits_.any_open()) {
        culprits_.rechecked({}, told_by(judged), now_.epoch_ms / 1000, 1);
        tell_healthy();
        if (!culprits_.any_open()) forget_answers();
    }
    if (is_mitigating() && !culprits_.any_open()) return over_by_check();
    if (is_mitigating() && !open_->is_narrow) {
        note(line("nothing else is slow", "nothing_else"));
        open_->phase = Phase::known;
        open_->decided_s = now_.steady_s;
        open_->settled = std::max(open_->settled, present_level());
        open_->next_recheck_s = now_.steady_s + options_.recheck_s;
        return;
    }
    if (!judged.verdict.common.empty())
        return nothing_found(
            fmt::format("the GPUs are all {:.2f} times slower than before: that is "
                        "heat, a power cap or clocks, and none is the cause",
                        judged.verdict.common.front().factor));
    nothing_found(judged.has_baseline
                      ? "no GPU and no link is slower than before"
                      : "no GPU is slower than others of its type; without a pre-check "
                        "links are compared with nothing");
}

void Chief::State::take_recheck(const slowdown::CheckRound& round, double seconds) {
    if (!open_ || !is_decided()) return;
    open_->next_recheck_s =
        now_.steady_s + std::max(options_.recheck_s, seconds / most_of_the_time);
    const auto judged = judge(baseline_.all(), round, options_.threshold);
    if (!judged) return;
    const slowdown::Verdict slow = culprits_.without_recovered(judged->verdict);
    culprits_.rechecked(slow, round, now_.epoch_ms / 1000);
    slowdown::Verdict clear;
    for (const slowdown::SlowGpu& gpu : slow.gpus)
        if (gpu.factor >= clear_factor) clear.gpus.push_back(gpu);
    for (const slowdown::SlowLink& link : slow.links)
        if (link.factor >= clear_factor) clear.links.push_back(link);
    culprits_.found(culprits_.without_lesser(in_both(clear, found_before_)), trainer_,
                    now_.epoch_ms / 1000);
    found_before_ = std::move(clear);
    tell_healthy();
    if (!culprits_.any_open()) over_by_check();
}

void Chief::State::check_failed(Purpose purpose, const std::string& why) {
    if (purpose == Purpose::validation && open_ && open_->phase == Phase::checking)
        return nothing_found(why);
    if (purpose == Purpose::baseline && ++baseline_failures_ == most_attempts)
        note(problem("no pre-check: " + why, "no_baseline"));
    if (purpose == Purpose::recheck && open_)
        open_->next_recheck_s = now_.steady_s + 2 * options_.recheck_s;
    complain("a check says nothing: " + why);
}

/// All stood still for a minute, and what hung once may hang again: what the check was for is not
/// looked for any more, or much later.
void Chief::State::check_hung(Purpose purpose, const std::string& why) {
    note(problem("a check was given up: " + why, "given_up"));
    if (purpose == Purpose::baseline) baseline_failures_ = most_attempts;
    if (!open_) return;
    if (purpose == Purpose::recheck) open_->next_recheck_s = now_.steady_s + longest_pause_s;
    if (purpose != Purpose::validation || open_->phase != Phase::checking) return;
    open_->attempts = most_attempts - 1;
    open_->is_narrow = false;
    open_->next_recheck_s = now_.steady_s + longest_pause_s;
    nothing_found(why);
}

void Chief::State::nothing_found(const std::string& why) {
    Open& open = *open_;
    if (open.is_narrow) {
        note(line(why + ": all links are looked at next", "widened"));
        return begin_checks(false);
    }
    ++open.attempts;
    const bool gives_up = open.attempts >= most_attempts;
    const double pause_s =
        std::min(longest_pause_s, first_pause_s * static_cast<double>(1 << (open.attempts - 1)));
    note(problem(fmt::format("a check found no cause ({}): {}", why,
                             gives_up ? "it is looked for no more"
                                      : fmt::format("again in {:.0f} s", pause_s)),
                 "no_cause", {{"attempts", std::int64_t{open.attempts}}}));
    if (gives_up) tell_unexplained();
    open.decided_s = now_.steady_s;
    open.settled = std::max(open.settled, present_level());
    open.phase = gives_up ? Phase::known : Phase::pausing;
    open.until_s = now_.steady_s + pause_s;
}

}  // namespace arena::watch
