// SPDX-License-Identifier: GPL-2.0-or-later
// Intake under the write locks: applies classify() to every Arena job, asks Slurm about
// dependencies and begin times, refreshes the priority that a held job would have, writes reasons.
#include <chrono>
#include <cmath>

#include "base/text.h"
#include "plugin/sched/host/end_comment.h"
#include "plugin/sched/host/move_end.h"
#include "plugin/sched/slurm/host_slurm_apply.h"
#include "plugin/sched/slurm/host_slurm_facts.h"
#include "plugin/sched/slurm/host_slurm_partitions.h"
#include "plugin/sched/slurm/slurm_util.h"

namespace arena {
namespace {

using Clock = std::chrono::steady_clock;

using Wanted = bool (*)(const job_record_t*);

/// Ids of all wanted jobs; collected first, so that locks can be let go between. What the test
/// reads of each job is read of the whole list under one lock.
std::vector<JobId> ids_of(Wanted wanted) {
    struct Walk {
        Wanted wanted;
        std::vector<JobId> ids;
    } walk{wanted, {}};
    SlurmLock lock(SlurmLock::Kind::read);
    list_for_each_ro(
        job_list,
        [](void* item, void* argument) {
            const auto* job = static_cast<const job_record_t*>(item);
            auto* w = static_cast<Walk*>(argument);
            if (w->wanted(job)) w->ids.push_back(job->job_id);
            return 0;
        },
        &walk);
    return std::move(walk.ids);
}

bool is_live(const job_record_t* job) { return !IS_JOB_FINISHED(job); }

/// "completed" or another end for what is over and still says that it runs or waits, a profile
/// run's too.
std::optional<std::string> comment_of_end(const job_record_t* job) {
    if (!IS_JOB_FINISHED(job) || IS_JOB_COMPLETING(job) || job->admin_comment == nullptr)
        return std::nullopt;
    const auto base = static_cast<job_states>(job->job_state & JOB_STATE_BASE);
    return arena::comment_of_end(job->admin_comment, job_state_string(base));
}

bool is_at_its_end(const job_record_t* job) { return comment_of_end(job).has_value(); }

time_t shared_age_reference() {
    SlurmLock lock(SlurmLock::Kind::read);
    return basic_priority() ? 0 : age_reference();
}

/// Visits every job in slices: the locks are given back when slice_ms has passed.
template <typename Visit>
void for_each_sliced(SlurmLock::Kind kind, const std::vector<JobId>& ids, std::int64_t slice_ms,
                     Visit visit) {
    std::size_t next = 0;
    while (next < ids.size()) {
        SlurmLock lock(kind);
        if (controller_stops()) return;
        const auto end = Clock::now() + std::chrono::milliseconds(slice_ms);
        do {
            job_record_t* job = find_job_record(ids[next]);
            if (job && (arena_record(job) || carrier_request(job) || array_facts(job)))
                visit(job, next);
            ++next;
        } while (next < ids.size() && Clock::now() < end);
    }
}

bool take(job_record_t* job, Step step) {
    if (step == Step::take_user_hold) {
        write_mark(job, Phase::held, OtherHold::user);
        assign_text(&job->admin_comment, "arena:v1 state=held by=user");
        note_job_change();
    } else {
        info("arena: JobId=%u held: to be planned", job->job_id);
        hold_for_arena(job, "Arena: waiting to be planned");
    }
    return true;
}

bool mark_started(job_record_t* job) {
    // Who held it since Slurm started it holds its next life.
    write_mark(job, Phase::started, read_mark(job).value_or(JobMark{}).hold);
    std::string comment = text_of(job->admin_comment);
    const std::size_t at = comment.find("state=released");
    if (at != std::string::npos)
        comment.replace(at, std::size("state=released") - 1, "state=running");
    assign_text(&job->admin_comment, comment);
    restore_request(job);
    info("arena: JobId=%u started on %s: Slurm started it in the shape it waited with", job->job_id,
         job->nodes ? job->nodes : "?");
    note_job_change();
    return true;
}

/// Slurm does not look at the dependencies, the begin time or the rights of a held job; here
/// somebody must. job_independent() answers nothing for a held reason, so the reason is set aside
/// while it works. What it found stays as the text of the hold: the reason itself is reset by each
/// pass of Slurm's main loop.
void refresh_eligibility(job_record_t* job) {
    forget_requeue_delay(job);
    std::string text = text_of(job->state_desc);
    xfree(job->state_desc);
    job->state_reason = WAIT_NO_REASON;
    bool independent = job_independent(job);
    if (!IS_JOB_PENDING(job)) return;  // an impossible dependency may end the job
    auto reason = static_cast<job_state_reason>(job->state_reason);
    if (const job_state_reason lost = lost_right(job); independent && lost != WAIT_NO_REASON) {
        independent = false;
        reason = lost;
    }
    if (!independent && is_deferral(reason))
        text = reason_name(reason);
    else if (deferred(text))
        text = "Arena: waiting to be planned";
    job->state_reason = WAIT_HELD;
    assign_text(&job->state_desc, text);
}

/// As in Slurm's main loop: only a job that nothing but resources keeps from starting is ended.
bool outlives_deadline(job_record_t* job) {
    if (!has_deadline(job) || deferred(text_of(job->state_desc))) return false;
    if (partition_tries(job).list.empty() || can_end_in_time(job)) return false;
    info("arena: JobId=%u is over: it cannot end by its deadline", job->job_id);
    return true;
}

/// Slurm says "held by its user" of every job that left with a requeue code, and "by an
/// administrator" of one that was held while its Prolog ran; the mark knows better.
void show_holder(job_record_t* job, const JobFacts& facts) {
    const OtherHold holder = facts.held && facts.mark ? facts.mark->hold : OtherHold::none;
    if (holder == OtherHold::none || facts.state != HostJobState::pending) return;
    const bool admin = holder == OtherHold::admin;
    if (job->state_reason != static_cast<std::uint32_t>(admin ? WAIT_HELD_USER : WAIT_HELD)) return;
    job->state_reason = admin ? WAIT_HELD : WAIT_HELD_USER;
    xfree(job->state_desc);
    note_job_change();
}

using Rules = Step (*)(const JobFacts&);

/// Whether survey_one() would find nothing to do. Asked under the read locks, so that a long queue
/// of held jobs does not keep Slurm's readers waiting.
bool needs_no_survey(const job_record_t* job, Rules rules, time_t now) {
    const JobFacts facts = facts_of(job);
    if (rules(facts) != Step::none || (facts.mark && facts.mark->hold != OtherHold::none))
        return false;
    if (!plannable(facts) || !facts.held) return true;
    const JobDetails* details = job->details;
    const bool may_wait = details->dependency || details->depend_list || job->resv_name ||
                          job->array_recs || details->begin_time > now ||
                          (job->restart_cnt > 0 && details->begin_time != 0);
    // With accounting, its rights and its priority are Slurm's to say anew.
    return !may_wait && basic_priority() && accounting_enforce == 0 &&
           job->state_reason == WAIT_HELD && job->state_desc && !deferred(job->state_desc);
}

bool survey_one(job_record_t* job, const std::function<bool(const std::string&)>& asks_to_hold,
                Rules rules, time_t reference) {
    JobFacts facts = facts_of(job);
    if (!facts.mark && facts.held) facts.asked_to_hold = asks_to_hold(arena_record(job));
    const Step step = rules(facts);
    bool changed = false;
    if (step == Step::take || step == Step::take_user_hold) changed = take(job, step);
    if (step == Step::mark_started) changed = mark_started(job);
    facts = facts_of(job);
    show_holder(job, facts);
    if (plannable(facts) && facts.held) {
        refresh_eligibility(job);
        if (!IS_JOB_PENDING(job) || outlives_deadline(job)) return true;
        if (!basic_priority()) (void)multifactor_priority(job, reference);
    }
    return changed;
}

}  // namespace

std::size_t survey_jobs(const std::function<bool(const std::string&)>& asks_to_hold, HostMode mode,
                        std::int64_t slice_ms) {
    const Rules rules = mode == HostMode::observes ? classify_observed : classify;
    std::size_t changed = 0;
    std::vector<JobId> ids;
    const time_t now = time(nullptr);
    for_each_sliced(SlurmLock::Kind::read, ids_of(is_live), slice_ms,
                    [&](job_record_t* job, std::size_t) {
                        if (arena_record(job) && !needs_no_survey(job, rules, now))
                            ids.push_back(job->job_id);
                    });
    const time_t reference = shared_age_reference();
    for_each_sliced(SlurmLock::Kind::write, ids, slice_ms, [&](job_record_t* job, std::size_t) {
        if (survey_one(job, asks_to_hold, rules, reference)) ++changed;
    });
    const std::vector<JobId> over = ids_of(is_at_its_end);
    for_each_sliced(SlurmLock::Kind::write, over, slice_ms, [](job_record_t* job, std::size_t) {
        if (const auto comment = comment_of_end(job);
            comment && assign_text(&job->admin_comment, *comment))
            note_job_change();
    });
    if (changed || !over.empty()) schedule_job_save();
    return changed;
}

namespace {

bool shows_reason(const job_record_t* job, const JobFacts& facts) {
    return facts.held && job->state_reason == WAIT_HELD;
}

bool says(const char* text, const std::string& wanted) { return text_of(text) == wanted; }

/// Whether the job shows all of it already; most do, round after round, and readers need not wait
/// for us to find that out.
bool shown(const job_record_t* job, const Host::Reason& reason) {
    if (reason.released) return job->priority == 0 || says(job->state_desc, reason.text);
    return says(job->admin_comment, reason.admin_comment) &&
           says(job->system_comment, reason.system_comment) &&
           (job->priority != 0 || job->state_reason != WAIT_HELD ||
            says(job->state_desc, reason.text));
}

}  // namespace

void write_ends(const std::vector<Host::EndWords>& ends, std::int64_t slice_ms) {
    if (ends.empty()) return;
    std::vector<JobId> ids;
    for (const auto& end : ends) ids.push_back(end.job);
    for_each_sliced(SlurmLock::Kind::write, ids, slice_ms, [&](job_record_t* job, std::size_t i) {
        // While its Epilog runs, too: nobody tries again.
        if (!IS_JOB_FINISHED(job) || IS_JOB_REQUEUED(job)) return;
        std::string comment = text_of(job->admin_comment);
        for (const std::string_view word : split(ends[i].words, ' '))
            comment = with_word(comment, word);
        if (assign_text(&job->admin_comment, comment)) note_job_change();
    });
    schedule_job_save();
}

void write_reasons(const std::vector<Host::Reason>& reasons, std::int64_t slice_ms) {
    std::vector<JobId> ids, other;
    std::vector<const Host::Reason*> wanted;
    for (const auto& reason : reasons) ids.push_back(reason.job);
    for_each_sliced(SlurmLock::Kind::read, ids, slice_ms, [&](job_record_t* job, std::size_t i) {
        if (shown(job, reasons[i])) return;
        other.push_back(ids[i]);
        wanted.push_back(&reasons[i]);
    });
    bool changed = false;
    for_each_sliced(SlurmLock::Kind::write, other, slice_ms, [&](job_record_t* job, std::size_t i) {
        const JobFacts facts = facts_of(job);
        if (!plannable(facts)) return;
        if (wanted[i]->released) {
            if (!facts.held && assign_text(&job->state_desc, wanted[i]->text)) note_job_change();
            return;
        }
        bool now = assign_text(&job->admin_comment, wanted[i]->admin_comment);
        now |= assign_text(&job->system_comment, wanted[i]->system_comment);
        if (shows_reason(job, facts)) now |= assign_text(&job->state_desc, wanted[i]->text);
        if (now) note_job_change();
        changed |= now;
    });
    if (changed) schedule_job_save();
}

namespace {

/// The times are estimates, and each change is a write: as good as a minute, or as a tenth of what
/// is left. Slurm's backfill forgets them all at each of its cycles.
bool shows_start(const job_record_t* job, const Host::Expected& expected, double now_s) {
    const auto shown_s = static_cast<double>(job->start_time);
    if (expected.start_s == 0 || shown_s == 0) return shown_s == expected.start_s;
    const double close_s = std::max(60.0, 0.1 * (expected.start_s - now_s));
    return std::abs(shown_s - expected.start_s) < close_s;
}

}  // namespace

void write_expected_starts(const std::vector<Host::Expected>& starts, std::int64_t slice_ms) {
    const auto now_s = static_cast<double>(time(nullptr));
    std::vector<JobId> ids, other;
    std::vector<const Host::Expected*> wanted;
    for (const auto& expected : starts) ids.push_back(expected.job);
    for_each_sliced(SlurmLock::Kind::read, ids, slice_ms, [&](job_record_t* job, std::size_t i) {
        if (shows_start(job, starts[i], now_s)) return;
        other.push_back(ids[i]);
        wanted.push_back(&starts[i]);
    });
    // Nothing decides by it: no saving, no stamp that would make another round.
    for_each_sliced(SlurmLock::Kind::write, other, slice_ms, [&](job_record_t* job, std::size_t i) {
        if (IS_JOB_PENDING(job) && !IS_JOB_COMPLETING(job) && job->priority == 0)
            job->start_time = static_cast<time_t>(wanted[i]->start_s);
    });
}

// ---- ends of jobs that were told to leave ------------------------------------------------------

namespace {

/// Jobs whose ends Slurm awaits us with, as it does an EpilogSlurmctld of theirs; in which life.
/// Only slurmctld's memory knows of it: after a restart settle_job_ends() asks for it anew, and an
/// end that came first is found as it is.
std::map<JobId, std::uint32_t>& awaited() {
    static std::map<JobId, std::uint32_t> ends;
    return ends;
}

bool has_nodes(const job_record_t* job) {
    return (IS_JOB_RUNNING(job) || IS_JOB_SUSPENDED(job)) && !IS_JOB_COMPLETING(job);
}

/// In this life.
bool is_told(const job_record_t* job) {
    if (!arena_record(job)) return false;
    const auto mark = read_mark(job);
    return mark && !mark->newer && mark->phase == Phase::checkpointing &&
           mark->restart == job->restart_cnt;
}

std::uint32_t base_state(const job_record_t* job) { return job->job_state & JOB_STATE_BASE; }

JobEnd end_of(const job_record_t* job) {
    return {.failed = base_state(job) == JOB_FAILED,
            .status = job->exit_code,
            .at_s = static_cast<double>(job->end_time),
            .completed = base_state(job) == JOB_COMPLETE,
            .steps = job->derived_ec};
}

/// Told, and over or not awaited, for slurmctld was started since.
bool was_missed(const job_record_t* job) {
    const JobEnd end = end_of(job);
    if (end.failed || (end.completed && end.steps != 0)) return is_told(job);
    return has_nodes(job) && !awaited().contains(job->job_id) && is_told(job);
}

std::vector<JobId> awaited_and_over() {
    std::vector<JobId> ids;
    if (awaited().empty()) return ids;
    SlurmLock lock(SlurmLock::Kind::read);
    for (const auto& [id, life] : awaited()) {
        const job_record_t* job = find_job_record(id);
        if (!job || !has_nodes(job)) ids.push_back(id);
    }
    return ids;
}

/// As the requeue code would, but that nobody who waits for its failure sees a special exit. Slurm
/// requeues what completes by the flag, and what is over by request.
bool requeue_left(job_record_t* job, bool saved) {
    const JobMark before = *read_mark(job);
    const bool completes = IS_JOB_COMPLETING(job);
    const char* how = saved ? "left with a checkpoint" : "left without a checkpoint";
    // Whatever comes of it, it is tried once.
    const std::uint32_t life = job->restart_cnt + 1;
    write_mark(job, saved ? left_saved(before, life, time(nullptr))
                          : left_unsaved(before, life, time(nullptr)));
    const int rc = completes ? SLURM_SUCCESS : requeue_job(job, JOB_REQUEUE_HOLD);
    if (rc != SLURM_SUCCESS) {
        error("arena: JobId=%u %s, and cannot be requeued: %s", job->job_id, how,
              slurm_strerror(rc));
        return false;
    }
    if (completes) {
        set_state_flag(job, JOB_REQUEUE);
        job->direct_set_prio = 1;
        job->priority = 0;
        job->state_reason = WAIT_HELD;
        assign_text(&job->state_desc, std::string("Arena: ") + how);
    }
    info("arena: JobId=%u %s: requeued, goes on from its last one", job->job_id, how);
    note_job_change();
    schedule_job_save();
    return true;
}

/// Whether Slurm waits for us with it is told in `waits`.
bool settle_end(JobId id, const LeaveRules& rules, bool& waits, HostJobs::Left& left) {
    ActionLock lock;
    if (!lock) return false;
    job_record_t* job = find_job_record(id);
    if (job && has_nodes(job)) {
        if (is_told(job)) await_end(job);
        return false;
    }
    const auto at = awaited().find(id);
    waits = job && at != awaited().end() && job->prep_epilog_cnt > 0;
    if (at != awaited().end()) awaited().erase(at);
    if (!job || !arena_record(job)) return false;
    const JobFacts facts = facts_of(job);
    const JobEnd end = end_of(job);
    if (leaves_saved(facts, end, rules))
        (void)requeue_left(job, true);
    else if (leaves_unsaved(facts, end, rules) && requeue_left(job, false)) {
        left = {job->job_id, job->user_id, static_cast<double>(time(nullptr))};
        return true;
    }
    return false;
}

}  // namespace

void await_end(job_record_t* job) {
    if (awaited().insert_or_assign(job->job_id, job->restart_cnt).second) ++job->prep_epilog_cnt;
}

void forget_awaited_ends() { awaited().clear(); }

std::vector<HostJobs::Left> settle_job_ends(const LeaveRules& rules, bool all) {
    std::vector<JobId> ids = awaited_and_over();
    if (all)
        for (const JobId id : ids_of(was_missed))
            if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
    std::vector<HostJobs::Left> unsaved;
    for (const JobId id : ids) {
        bool waits = false;
        HostJobs::Left left;
        if (settle_end(id, rules, waits, left)) unsaved.push_back(left);
        if (waits) epilog_is_done(id);
    }
    return unsaved;
}

}  // namespace arena
