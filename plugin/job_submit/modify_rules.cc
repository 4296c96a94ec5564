// SPDX-License-Identifier: GPL-2.0-or-later
// See modify_rules.h.
#include "plugin/job_submit/modify_rules.h"

#include <fmt/format.h>

#include "base/count_text.h"
#include "base/text.h"

namespace arena {
namespace {

OtherHold hold_now(const ModifyFacts& f) {
    if (f.mark) return f.mark->hold;
    return f.asked_to_hold ? OtherHold::user : OtherHold::none;
}

ModifyDecision refused(Refusal why, std::string what) {
    ModifyDecision d;
    d.refusal = why;
    d.what = std::move(what);
    return d;
}

JobMark held_mark(const ModifyFacts& f, OtherHold hold) {
    return next_mark(f.mark, Phase::held, f.restart, hold, f.now);
}

/// Running: the run goes on, only the note of who holds the job's next life changes.
ModifyDecision note_hold(const ModifyFacts& f, OtherHold hold) {
    ModifyDecision d;
    if (!f.mark || f.mark->hold == hold) return d;
    d.mark = f.mark;
    d.mark->hold = hold;
    return d;
}

ModifyDecision release(const ModifyFacts& f) {
    if (hold_now(f) == OtherHold::admin && !f.by_operator)
        return refused(Refusal::not_permitted, "release refused: an administrator holds the job");
    if (!f.pending) return note_hold(f, OtherHold::none);
    if (!f.held) return {};  // planned and waiting: Slurm ignores it
    ModifyDecision d;
    d.drop_priority = true;
    d.mark = held_mark(f, OtherHold::none);
    d.reason = ShownReason::arena;
    d.what = "released: waits for Arena's plan";
    return d;
}

ModifyDecision hold(const ModifyFacts& f) {
    const bool admin = f.by_operator && !f.user_hold_asked;
    if (hold_now(f) == OtherHold::admin && !f.by_operator) return {};  // stays an administrator's
    const OtherHold who = admin ? OtherHold::admin : OtherHold::user;
    if (!f.pending) return note_hold(f, who);
    ModifyDecision d;
    d.mark = held_mark(f, who);
    d.reason = admin ? ShownReason::admin_hold : ShownReason::user_hold;
    d.what = admin ? "held by an administrator" : "held by its user";
    return d;
}

ModifyDecision change_priority(const ModifyFacts& facts) {
    switch (facts.priority) {
        case PriorityChange::release:
            return release(facts);
        case PriorityChange::hold:
            return hold(facts);
        case PriorityChange::value:  // Slurm itself refuses it for a held job
        case PriorityChange::none:
            break;
    }
    return {};
}

/// What a later version planned is left to it: an unknown mark is not written over, and a release
/// would start the job with whatever request it has.
ModifyDecision change_newer(const ModifyFacts& facts) {
    if (!facts.pending || !facts.held || facts.priority != PriorityChange::release) return {};
    return refused(Refusal::later_version,
                   "release refused: a later version of Arena holds the job; install that again, "
                   "or cancel the job");
}

bool waits_released(const ModifyFacts& f) {
    return f.pending && !f.held && f.mark && f.mark->restart == f.restart &&
           (f.mark->phase == Phase::released || f.mark->phase == Phase::starting);
}

/// By how much the clocks of a node and of the controller may differ.
constexpr std::int64_t clock_skew_s = 60;

std::string refuse_place(const SlowPlace& place, std::optional<std::int64_t> gpus, bool owns) {
    if (!gpus) return fmt::format("{} is no node of it", place.node);
    if (place.gpu >= *gpus)
        return fmt::format("{} has {}, none of index {}", place.node, counted(*gpus, "GPU"),
                           place.gpu);
    if (owns) return {};
    return fmt::format("GPU {} of {} is not one of its own", place.gpu, place.node);
}

std::string refuse_times(const SlowReport& report, const WatchedJob& job) {
    const std::int64_t end = report.relief != 0 ? report.relief : job.now;
    if (report.onset < job.start - clock_skew_s) return "the onset lies before its start";
    if (report.onset > job.now + clock_skew_s || report.relief > job.now + clock_skew_s)
        return "onset or relief lie in the future";
    if (report.lost_s > static_cast<double>(end - report.onset + clock_skew_s))
        return "it cannot have lost more than the time since the onset";
    return {};
}

/// An administrator may say it of what he has seen.
std::string refuse_unwatched(const SlowReport& report, const WatchedJob& job) {
    if (job.by_admin || report.steps >= least_watched_steps) return {};
    return fmt::format("{} of its steps were watched, and nothing counts before {} (--steps)",
                       report.steps, least_watched_steps);
}

}  // namespace

ModifyDecision decide_modify(const ModifyFacts& facts) {
    if (facts.mark && facts.mark->phase == Phase::off) return {};
    if (facts.mark && facts.mark->newer && !facts.shape_change) return change_newer(facts);
    if (facts.shape_change)
        return refused(
            Refusal::shape,
            "update refused: Arena chooses nodes, tasks and GPUs; pin with "
            "Comment=arena:plan=..., Comment=arena:gpus=MIN-MAX or opt out with Comment=arena:off");
    ModifyDecision decision = change_priority(facts);
    decision.take_nice = facts.nice_change && facts.pending && facts.held;
    const bool left = decision.refusal == Refusal::none && !decision.mark;
    if (facts.request_change && left && waits_released(facts)) {
        decision.take_back = true;
        decision.mark = held_mark(facts, facts.mark->hold);
        decision.reason = ShownReason::arena;
        decision.what = "held again: its comment asks for something else";
    }
    return decision;
}

std::string refuse_report(const IterationReport& report, const std::optional<Offer>& offer,
                          const std::optional<JobMark>& mark, std::optional<double> ran_s) {
    const bool ours =
        mark && (mark->phase == Phase::started || mark->phase == Phase::checkpointing);
    if (!ran_s || !ours || !offer) return "it does not run under a plan of Arena's";
    const std::string grid = short_form(offer->grid), plan = short_form(offer->plan);
    if (report.grid != grid || report.plan != plan)
        return "it runs " + grid + " " + plan + ", not " + printable(report.grid, 40) + " " +
               printable(report.plan, 80);
    if (!fits_run_time(report.iteration_s, report.steps, *ran_s))
        return fmt::format(
            "{} iterations of {:.6g} s take longer than the {:.0f} s that it has run", report.steps,
            report.iteration_s, *ran_s);
    if (report.trained_s > 0 && !fits_run_time(report.trained_s, 1, *ran_s))
        return fmt::format("its first step was {:.0f} s ago, and it has run for {:.0f} s",
                           report.trained_s, *ran_s);
    return {};
}

std::string refuse_slow_report(const SlowReport& report, const WatchedJob& job) {
    if (!job.runs) return "it does not run under a plan of Arena's";
    if (job.mode == SlowdownMode::off) return "it is not watched: --arena-slowdown is off";
    if (report.life != job.life)
        return fmt::format("it is in its life {}, not {}", job.life, report.life);
    if (std::string why = refuse_times(report, job); !why.empty()) return why;
    if (std::string why = refuse_unwatched(report, job); !why.empty()) return why;
    if (report.cause == SlowCause::unknown) return {};
    if (std::string why = refuse_place(report.at, job.gpus_at, job.owns_at); !why.empty())
        return why;
    if (report.peer.node.empty()) return {};
    return refuse_place(report.peer, job.gpus_of_peer, job.owns_peer);
}

}  // namespace arena
