// SPDX-License-Identifier: GPL-2.0-or-later
// The scheduler plug-in's rules without Slurm: which holds are Arena's, what a comment changes,
// what a job is launched with. Tables of cases; each row says what it stands for.
#include <algorithm>
#include <cmath>
#include <csignal>
#include <string>

#include "planner/requests/build_request.h"
#include "plugin/common/job_mark.h"
#include "plugin/common/record_size.h"
#include "plugin/job_submit/modify_rules.h"
#include "plugin/sched/host/end_comment.h"
#include "plugin/sched/host/fingerprint.h"
#include "plugin/sched/host/host.h"
#include "plugin/sched/host/move_end.h"
#include "plugin/sched/round/launch.h"
#include "plugin/sched/round/request_cache.h"
#include "plugin/sched/round/running.h"
#include "request/launchers.h"
#include "suite.h"

using namespace arena;
using arena::test::must;

namespace {

JobFacts facts(HostJobState state, bool held, std::uint32_t restart,
               std::optional<JobMark> mark = {}, bool special_exit = false) {
    JobFacts f;
    f.state = state;
    f.held = held;
    f.restart = restart;
    f.mark = mark;
    f.special_exit = special_exit;
    return f;
}

JobMark mark(Phase phase, std::uint32_t restart, OtherHold hold = OtherHold::none) {
    return {phase, restart, hold, 0};
}

struct Row {
    const char* what;
    JobFacts facts;
    Step step;
    bool plannable;
};

constexpr auto P = HostJobState::pending;
constexpr auto R = HostJobState::running;
constexpr auto C = HostJobState::completing;

const Row rows[] = {
    {"new job, held by job_submit", facts(P, true, 0), Step::take, false},
    {"held by Arena, to be planned", facts(P, true, 0, mark(Phase::held, 0)), Step::none, true},
    {"user holds a held job", facts(P, true, 0, mark(Phase::held, 0, OtherHold::user)), Step::none,
     false},
    {"admin holds a held job", facts(P, true, 0, mark(Phase::held, 0, OtherHold::admin)),
     Step::none, false},
    {"waits with a reservation", facts(P, false, 0, mark(Phase::released, 0)), Step::none, true},
    {"Slurm preempts for it", facts(P, false, 0, mark(Phase::starting, 0)), Step::none, false},
    {"Slurm started the released job", facts(R, false, 0, mark(Phase::released, 0)),
     Step::mark_started, false},
    {"runs under our plan", facts(R, false, 0, mark(Phase::started, 0)), Step::none, false},
    {"requeued by its user", facts(P, false, 1, mark(Phase::started, 0)), Step::take, false},
    {"requeued while it waited with a shape", facts(P, false, 1, mark(Phase::released, 0)),
     Step::take, false},
    {"requeue is still completing", facts(C, false, 1, mark(Phase::started, 0)), Step::none, false},
    {"requeuehold by a user or admin", facts(P, true, 1, mark(Phase::started, 0)), Step::none,
     false},
    {"launch failed, held by Slurm", facts(P, true, 1, mark(Phase::starting, 0)), Step::none,
     false},
    {"left with the requeue code unasked", facts(P, true, 1, mark(Phase::started, 0), true),
     Step::none, false},
    {"left with the requeue code as asked", facts(P, true, 1, mark(Phase::checkpointing, 0), true),
     Step::take, false},
    {"we requeued it at the deadline", facts(P, true, 1, mark(Phase::checkpointing, 1)), Step::take,
     false},
    {"requeuehold by a user during a checkpoint", facts(P, true, 1, mark(Phase::checkpointing, 0)),
     Step::none, false},
    {"requeue by a user during a checkpoint", facts(P, false, 1, mark(Phase::checkpointing, 0)),
     Step::take, false},
    {"held, restarted, never marked", facts(P, true, 2), Step::none, false},
    {"unheld without a mark", facts(P, false, 0), Step::take, false},
    {"opted out", facts(P, false, 0, mark(Phase::off, 0)), Step::none, false},
    {"opted out, requeued", facts(P, false, 1, mark(Phase::off, 0)), Step::none, false},
    {"cancelled, completing", facts(C, true, 0, mark(Phase::started, 0)), Step::none, false},
    {"finished", facts(HostJobState::finished, true, 0, mark(Phase::started, 0)), Step::none,
     false},
};

TEST(holds_belong_to_whoever_the_mark_names) {
    for (const Row& row : rows) {
        ck_assert_msg(classify(row.facts) == row.step, "%s: step", row.what);
        ck_assert_msg(plannable(row.facts) == row.plannable, "%s: plannable", row.what);
    }
}

JobFacts told(JobMark m, std::uint32_t restart) {
    return facts(HostJobState::completing, false, restart, std::move(m));
}

/// Told at 1000 s, in its life 2, by SIGUSR1.
JobMark told_mark() {
    JobMark m = mark(Phase::checkpointing, 2);
    m.since = 1000;
    m.signal = SIGUSR1;
    return m;
}

constexpr std::uint32_t exits(int code) { return static_cast<std::uint32_t>(code) << 8; }

TEST(an_end_by_our_own_signal_is_no_failure_of_the_jobs) {
    const LeaveRules rules{.grace_s = 120, .requeue_code = 99};
    const double in_time = 1100, late = 1121;
    struct {
        const char* what;
        JobEnd end;
        bool unsaved;
    } const ends[] = {
        {"srun's word for ranks that the signal ended",
         {true, exits(128 + SIGUSR1), in_time},
         true},
        {"the script itself was ended", {true, SIGUSR1, in_time}, true},
        {"with a core file", {true, SIGUSR1 | 0x80, in_time}, true},
        {"by that signal, whenever Slurm hears of it", {true, SIGUSR1, late}, true},
        {"the same in srun's word", {true, exits(128 + SIGUSR1), late}, true},
        {"torchrun's 1, whose ranks were ended", {true, exits(1), in_time}, true},
        {"the number of the signal", {true, exits(SIGUSR1), in_time}, true},
        {"ended by another signal in time", {true, SIGSEGV, in_time}, true},
        {"its own failure, later than it was to have left", {true, exits(1), late}, false},
        {"another signal, as late", {true, SIGSEGV, late}, false},
        {"the requeue code: Slurm requeues it", {true, exits(99), in_time}, false},
        {"completed meanwhile", {false, 0, in_time}, false},
        {"cancelled, out of time or of memory", {false, SIGUSR1, in_time}, false},
        {"the clock was set back since", {true, exits(1), 900}, true},
    };
    for (const auto& [what, end, unsaved] : ends)
        ck_assert_msg(leaves_unsaved(told(told_mark(), 2), end, rules) == unsaved, "%s", what);
    const auto hidden = [&](std::uint32_t steps, bool completed = true) {
        return JobEnd{false, 0, in_time, completed, steps};
    };
    const JobFacts facts_told = told(told_mark(), 2);
    ck_assert_msg(leaves_unsaved(facts_told, hidden(SIGUSR1), rules), "srun ... | tee");
    ck_assert(!leaves_saved(facts_told, hidden(SIGUSR1), rules));
    ck_assert_msg(leaves_saved(facts_told, hidden(exits(99)), rules), "its ranks have saved");
    ck_assert(!leaves_unsaved(facts_told, hidden(exits(99)), rules));
    for (const std::uint32_t steps : {0U, exits(1), std::uint32_t{SIGSEGV}})
        ck_assert_msg(!leaves_unsaved(facts_told, hidden(steps), rules) &&
                          !leaves_saved(facts_told, hidden(steps), rules),
                      "it has done what it was to do");
    ck_assert(!leaves_saved(facts_told, hidden(exits(99), false), rules));
    ck_assert(!leaves_saved(told(told_mark(), 3), hidden(exits(99)), rules));
    const JobMark saved = left_saved(told_mark(), 3, 1100);
    ck_assert_msg(saved.unsaved == 0 && saved.done == told_mark().done &&
                      classify(facts(P, true, 3, saved)) == Step::take,
                  "and its hold is Arena's");
    const JobEnd end{true, exits(128 + SIGUSR1), in_time};
    ck_assert_msg(!leaves_unsaved(told(told_mark(), 3), end, rules), "told in another life");
    JobMark other = told_mark();
    other.phase = Phase::started;
    ck_assert_msg(!leaves_unsaved(told(other, 2), end, rules), "nobody told it");
    ck_assert(!leaves_unsaved(told({}, 0), end, rules));
    ck_assert(!leaves_unsaved(facts(C, false, 2), end, rules));
    other = told_mark();
    other.signal = 0;
    ck_assert_msg(leaves_unsaved(told(other, 2), end, rules), "of an earlier Arena, in time");
    ck_assert(!leaves_unsaved(told(other, 2), {true, exits(128 + SIGUSR1), late}, rules));
    other.signal = SIGUSR2;
    ck_assert_msg(leaves_unsaved(told(other, 2), {true, SIGUSR2, late}, rules), "by its own");
    ck_assert(!leaves_unsaved(told(other, 2), {true, SIGUSR1, late}, rules));
    ck_assert_int_eq(leave_signal(0, SIGUSR1), SIGUSR1);
    ck_assert_int_eq(leave_signal(SIGUSR2, SIGUSR1), SIGUSR2);
}

TEST(who_leaves_without_a_checkpoint_goes_on_from_the_one_before) {
    JobMark m = told_mark();
    m.done = 500;
    m.saved = 300;
    const JobMark left = left_unsaved(m, 3, 1100);
    ck_assert(left.done == 300 && left.unsaved == 1 && left.restart == 3);
    ck_assert_msg(classify(facts(P, true, 3, left)) == Step::take, "its hold is Arena's");
    JobMark users = m;
    users.hold = OtherHold::user;
    ck_assert_msg(classify(facts(P, true, 3, left_unsaved(users, 3, 1100))) == Step::none,
                  "or its user's, who held it meanwhile");
    JobMark held = next_mark(left, Phase::held, 3, OtherHold::none, 1101);
    ck_assert(held.unsaved == 1 && held.done == 300 && held.saved == 0 && held.signal == 0);
    held = next_mark(held, Phase::started, 3, OtherHold::none, 1102);
    ck_assert_uint_eq(held.unsaved, 1);
    JobMark again = next_mark(held, Phase::checkpointing, 3, OtherHold::none, 1200);
    ck_assert_uint_eq(left_unsaved(again, 4, 1201).unsaved, 2);
    again.done = 900;
    const JobMark saved = next_mark(again, Phase::held, 4, OtherHold::none, 1202);
    ck_assert_msg(saved.unsaved == 0 && saved.done == 900, "one checkpoint, and it is trusted");
}

TEST(a_job_that_stays_keeps_its_life_and_learns_what_that_takes) {
    JobMark m = mark(Phase::started, 0);
    m.unsaved = 1;
    m = next_mark(m, Phase::checkpointing, 0, OtherHold::none, 1000);
    m.asks = true;
    ck_assert(parse_mark(format_mark(m)) == m);
    m = stays(m, 1002);
    ck_assert(m.phase == Phase::started && m.plan == 1 && m.restart == 0 && !m.asks);
    ck_assert(m.since == 1002 && m.unsaved == 0 && m.took.empty());
    ck_assert_msg(note_stay(m, 1003.6) && m.stayed == (std::vector<std::int64_t>{4}), "since 1000");
    ck_assert_msg(!note_stay(m, 1010), "later steps are not the first one");
    ck_assert(parse_mark(format_mark(m)) == m);
    for (std::int64_t i = 1; i <= 3; ++i) {
        m = stays(next_mark(m, Phase::checkpointing, 0, OtherHold::none, 2000 * i), 2000 * i + 1);
        ck_assert(!note_start(m, 1) && note_stay(m, static_cast<double>(2000 * i + i)));
    }
    ck_assert(m.plan == 4 && m.stayed == (std::vector<std::int64_t>{1, 2, 3}));
    m = next_mark(m, Phase::checkpointing, 0, OtherHold::none, 9000);
    ck_assert_msg(m.plan == 4 && !m.asks, "which plan its script has");
    m = next_mark(m, Phase::held, 1, OtherHold::none, 9001);
    ck_assert_msg(m.plan == 0, "another life begins with its first");
    ck_assert(!parse_mark("v=1;phase=held;stayed=1,2,3,4") && !parse_mark("v=1;asks=2"));
}

TEST(a_job_learns_what_its_moves_take) {
    JobMark m = mark(Phase::started, 0);
    std::uint32_t life = 0;
    // Signalled at 1000, back in the queue `saves_s` later, started `waits_s` after that.
    const auto move = [&](std::int64_t saves_s, std::int64_t waits_s, double start_s = -1) {
        m = next_mark(m, Phase::checkpointing, life, OtherHold::none, 1000);
        m = next_mark(m, Phase::held, ++life, OtherHold::none, 1000 + saves_s);
        m = next_mark(m, Phase::released, life, OtherHold::none, 1000 + saves_s);
        m = next_mark(m, Phase::started, life, OtherHold::none, 1000 + saves_s + waits_s);
        ck_assert(m.leaves_at == 0 && m.left_at == 0);
        if (start_s >= 0) ck_assert(note_start(m, start_s));
    };
    using Took = std::vector<JobMark::Took>;
    ck_assert(!note_start(m, 5));  // its first start is no move
    move(7, 3, 4.4);
    ck_assert(m.took == (Took{{10, 4}}));
    ck_assert(!note_start(m, 60));  // later steps are not the first one
    move(8, JobMark::most_requeue_s + 1);
    ck_assert_msg(m.took == (Took{{10, 4}, {8, 0}}), "a long wait is the queue's");
    ck_assert_msg(moves_took(m, 20) == (MovesTook{14, 28, 0}), "the site's launch for one untold");
    ck_assert(note_start(m, 0.1));
    move(9, 0, 1);
    move(1, 1, 1);
    ck_assert_msg(m.took == (Took{{8, 1}, {9, 1}, {2, 1}}), "the last three");
    ck_assert(!note_start(m, -1) && !note_start(m, NAN));
    // What is no move of Arena's, or failed, or was taken back, teaches nothing.
    const JobMark before = m;
    m = next_mark(m, Phase::held, ++life, OtherHold::none, 2000);
    m = next_mark(m, Phase::started, life, OtherHold::none, 2010);
    ck_assert(m.took == before.took);
    m = next_mark(m, Phase::checkpointing, life, OtherHold::none, 3000);
    m = next_mark(m, Phase::started, life, OtherHold::none, 3001);
    ck_assert(m.took == before.took);
    m = next_mark(m, Phase::checkpointing, life, OtherHold::none, 4000);
    m = left_unsaved(m, ++life, 4010);
    m = next_mark(m, Phase::held, life, OtherHold::none, 4011);
    m = next_mark(m, Phase::started, life, OtherHold::none, 4012);
    ck_assert(m.took == before.took);
    move(-5, 0);  // the clock was set back
    ck_assert(m.took == before.took);
    // One that saved and said so by no exit code.
    m = next_mark(m, Phase::checkpointing, life, OtherHold::none, 5000);
    m = left_saved(m, ++life, 5006);
    m = next_mark(m, Phase::held, life, OtherHold::none, 5009);
    m = next_mark(m, Phase::started, life, OtherHold::none, 5010);
    ck_assert(m.took.back() == (JobMark::Took{10, 0}));
    move(JobMark::most_took_s - 1, JobMark::most_requeue_s);  // longer than what a mark can say
    ck_assert(m.took.back() == (JobMark::Took{10, 0}));
    move(JobMark::most_took_s, 0);
    ck_assert(m.took.back() == (JobMark::Took{JobMark::most_took_s, 0}));
    ck_assert(parse_mark(format_mark(m)).has_value());
}

TEST(a_users_own_hold_is_kept) {
    JobFacts f = facts(P, true, 0);
    f.asked_to_hold = true;
    ck_assert(classify(f) == Step::take_user_hold);
}

TEST(marks_survive_their_text_form) {
    for (Phase phase : {Phase::held, Phase::released, Phase::starting, Phase::started,
                        Phase::checkpointing, Phase::off})
        for (OtherHold hold : {OtherHold::none, OtherHold::user, OtherHold::admin}) {
            const JobMark m{phase, 7, hold, 1700000000};
            ck_assert(parse_mark(format_mark(m)) == m);
        }
    for (const char* bad : {"", "v=0;phase=held", "v=x;phase=held", "phase=held", "v=1;phase=nap",
                            "v=1;restart=-1", "v=1;restart=99999999999", "v=1;;", "v=1;hold=me"})
        ck_assert_msg(!parse_mark(bad), "accepted: %s", bad);
    ck_assert(!parse_mark(std::string(1100, 'v')));
}

TEST(what_a_later_version_planned_is_left_to_it) {
    struct {
        const char* text;
        OtherHold hold;
    } const marks[] = {
        {"v=2;phase=held;restart=0;hold=none;since=1", OtherHold::none},
        {"v=2;phase=held;restart=0;hold=user;since=1", OtherHold::user},
        {"v=3;phase=resting;restart=0,4;hold=admin", OtherHold::admin},
        {"v=2;hold=policy", OtherHold::admin},
        {"v=17", OtherHold::none},
        {"v=2;no pairs at all", OtherHold::none},
    };
    for (const auto& [text, hold] : marks) {
        const auto read = parse_mark(text);
        ck_assert_msg(read && read->newer && read->hold == hold, "%s", text);
        for (HostJobState state : {P, R, C, HostJobState::suspended})
            for (bool held : {false, true})
                for (std::uint32_t restart : {0u, 1u})
                    for (bool special : {false, true}) {
                        const JobFacts f = facts(state, held, restart, read, special);
                        ck_assert_msg(
                            classify(f) == Step::none && !plannable(f) && !waits_released(f), "%s",
                            text);
                    }
    }
    const auto longer = parse_mark("v=2;hold=user;more=" + std::string(600, 'x'));
    ck_assert_msg(longer && longer->newer && longer->hold == OtherHold::user,
                  "longer than this version's may be");
    ModifyFacts facts;
    facts.pending = facts.held = true;
    facts.mark = parse_mark("v=2;phase=held;restart=0;hold=none");
    facts.priority = PriorityChange::release;
    ck_assert(decide_modify(facts).refusal == Refusal::later_version);
    ck_assert(decide_modify(facts).what.find("later version of Arena") != std::string::npos);
    facts.priority = PriorityChange::hold;
    ck_assert_msg(decide_modify(facts) == ModifyDecision{},
                  "Slurm's own hold is enough, and no mark is written");
}

TEST(a_record_of_another_size_is_named_with_both_sizes) {
    ck_assert(size_fault("job_record_t", 1048, 1048).empty());
    ck_assert(size_fault("job_record_t", 1048, 1056) ==
              "job_record_t has 1048 bytes in the running Slurm and 1056 in the headers");
    ck_assert(!size_fault("node_record_t", 481, 480).empty());
}

TEST(a_fingerprint_tells_fields_apart) {
    const auto of = [](std::string_view a, std::string_view b) {
        return Fingerprint().add(a).add(b).value();
    };
    ck_assert(of("ab", "c") == of("ab", "c"));
    ck_assert(of("ab", "c") != of("a", "bc"));
    ck_assert(of("", "a") != of("a", ""));
    ck_assert(Fingerprint().add(1).add(2).value() != Fingerprint().add(2).add(1).value());
}

/// Of a launcher that can be told most plans, unless another is named.
Request a_request(std::vector<Setting> more = {}) {
    std::vector<Setting> settings = {{"model", "gpt2"}, {"batch", "64"}};
    const bool names_one = std::any_of(more.begin(), more.end(),
                                       [](const Setting& s) { return s.first == "launcher"; });
    if (!names_one) settings.emplace_back("launcher", "env");
    settings.insert(settings.end(), more.begin(), more.end());
    return *build_request(settings, {}, {});
}

TEST(comments_change_only_what_they_name) {
    Request r = a_request({{"gpus", "1-8"}});
    const Request before = r;
    ck_assert(!*apply_comment("my favourite job", r) && r == before);
    ck_assert(!*apply_comment("arena:plan=pp2,dp2,tp1", r));
    ck_assert(r.pin.pp == 2 && r.min_gpus == 4 && r.max_gpus == 4);
    ck_assert(!*apply_comment("arena:gpus=2-6", r));
    ck_assert(r.min_gpus == 2 && r.max_gpus == 6 && r.pin.pp == 2);
    ck_assert(!*apply_comment("arena:types=a100,h100", r));
    ck_assert(r.gpu_types == std::vector<std::string>({"a100", "h100"}) && r.pin.pp == 2);
    ck_assert(!*apply_comment("arena:types=any;plan=any;gpus=any", r));
    ck_assert(r == a_request());
    ck_assert(*apply_comment("arena:off", r));
    ck_assert(r == a_request());
    for (const char* bad :
         {"arena:", "arena:fast", "arena:gpus=8-2", "arena:gpus=0", "arena:gpus=-", "arena:plan=",
          "arena:plan=zz9", "arena:off=1", "arena:gpus=1-2;;", "arena:plan=pp65521,dp65519,tp65497",
          "arena:types=", "arena:types=a b", "arena:gpus=1;gpus=2", "arena:batch=8"}) {
        Request other = before;
        ck_assert_msg(!apply_comment(bad, other).ok(), "accepted: %s", bad);
        ck_assert_msg(other == before, "changed by a refused one: %s", bad);
    }
}

TEST(a_pin_by_comment_counts_gpus_and_is_checked_as_one_by_option) {
    Request r = a_request();
    ck_assert(apply_comment("arena:plan=pp2,dp2,tp1,cp2", r).ok());
    ck_assert(r.min_gpus == 8 && r.max_gpus == 8);  // and not 4: cp counts
    // A later plan moves the range that the earlier one had set; another word leaves the pin alone.
    ck_assert(apply_comment("arena:plan=pp2", r).ok());
    ck_assert(r.min_gpus == 2 && r.max_gpus == 0);
    ck_assert(apply_comment("arena:gpus=4-4", r).ok());
    ck_assert(r.pin.pp == 2 && r.min_gpus == 4 && r.max_gpus == 4);
    Request even = a_request({{"launcher", "megatron-deepspeed"}});
    ck_assert(!apply_comment("arena:plan=pp5", even).ok());  // 12 layers, as many on every stage
    ck_assert(!apply_comment("arena:plan=cp2", even).ok());
    ck_assert(!apply_comment("arena:gpus=3-3;plan=pp2", even).ok());
    ck_assert(even == a_request({{"launcher", "megatron-deepspeed"}}));
}

TEST(a_forged_pin_that_can_never_be_is_a_problem) {
    Request forged = a_request();
    forged.pin.ep = 2;
    ck_assert(make_effective_request(*format_record(forged), "")
                  .problem.find("gpt2 has none: give ep1") != std::string::npos);
    ck_assert(make_effective_request(*format_record(a_request()), "arena:plan=ep2").problem ==
              "Comment=arena:plan: ep2 shares out experts, and gpt2 has none: give ep1");
}

Offer example_offer() {
    Offer offer;
    offer.grid = {"a40", 2, 4, 2};
    offer.plan.stage_layers = {6, 6};
    offer.plan.stage_dp = {2, 2};
    offer.plan.stage_tp = {2, 2};
    offer.plan.micro_batch = 4;
    offer.plan.num_micro_batches = 16;
    offer.plan.recompute = Recompute::full;
    offer.estimate.iteration_s = 10.42;
    offer.estimate.source = Source::profiled;
    return offer;
}

TEST(the_environment_and_comments_carry_the_plan) {
    Request request;
    request.global_batch = 128;
    request.launcher = "megatron";
    const Offer offer = example_offer();
    const auto environment = launch_environment(request, offer);
    const auto has = [&](const std::string& entry) {
        for (const auto& e : environment)
            if (e == entry) return true;
        return false;
    };
    ck_assert(has("ARENA_PP=2") && has("ARENA_DP=2") && has("ARENA_TP=2"));
    ck_assert(has("ARENA_MICRO_BATCH=4") && has("ARENA_NUM_MICRO_BATCHES=16"));
    ck_assert(has("ARENA_GLOBAL_BATCH=128") && has("ARENA_STAGE_LAYERS=6,6"));
    ck_assert(has("ARENA_PLAN=" + to_json(offer)));
    ck_assert(
        has("ARENA_ARGS=--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 "
            "--micro-batch-size 4 --global-batch-size 128 --recompute-granularity full "
            "--recompute-method uniform --recompute-num-layers 1 --bf16"));
    ck_assert(has("ARENA_LAUNCHER=megatron@0.13") && has("ARENA_PRECISION=bf16"));
    ck_assert(has("ARENA_LORA_RANK=0"));
    Request adapted = request;
    adapted.launcher = "env", adapted.model.lora_rank = 8, adapted.model.base_bits = 4;
    const auto told = launch_environment(adapted, offer);
    for (const char* entry :
         {"ARENA_LORA_RANK=8", "ARENA_LORA_TARGETS=attention", "ARENA_BASE_BITS=4"})
        ck_assert_msg(std::find(told.begin(), told.end(), entry) != told.end(), "%s", entry);
    const std::string comment = admin_comment("running", offer);
    ck_assert_str_eq(comment.c_str(),
                     "arena:v1 state=running grid=2x4xa40 plan=pp2,dp2,tp2,mb4x16,full est=10.4s "
                     "source=profiled");
    ck_assert(parse_offer_json(to_json(offer)).value() == offer);
    ck_assert_int_eq(tasks_per_node("megatron", offer.grid), 4);
    ck_assert_int_eq(tasks_per_node("torchrun", offer.grid), 1);
    ck_assert(has("ARENA_VPP=1") && has("ARENA_CP=1") && has("ARENA_EP=1") &&
              has("ARENA_ZERO_STAGE=0"));
    const std::string offers =
        system_comment(std::vector<Offer>(200, offer), std::string(2000, 'x'));
    ck_assert(offers.size() <= 1024);
    ck_assert_int_eq(std::count(offers.begin(), offers.end(), ';'), 5);
}

TEST(a_job_says_which_of_its_variables_are_arenas) {
    const Request request;
    test::assert_text(
        given_entry({"ARENA_PP=2", "ARENA_PLAN={\"a\":1}"}, request),
        "ARENA_GIVEN=ARENA_GIVEN ARENA_STATE ARENA_EXCLUDES ARENA_SEGMENT ARENA_PP ARENA_PLAN "
        "SLURM_MEM_PER_NODE");
    // Memory that the user asked for stays with what the user submits from inside, as in stock
    // Slurm.
    for (const auto ask : {+[](Request& r) { r.mem_per_node_mb = 3000; },
                           +[](Request& r) { r.mem_per_cpu_mb = 100; },
                           +[](Request& r) { r.whole_memory = true; }}) {
        Request asked;
        ask(asked);
        test::assert_text(given_entry({}, asked),
                          "ARENA_GIVEN=ARENA_GIVEN ARENA_STATE ARENA_EXCLUDES ARENA_SEGMENT");
    }
    Request by_gpu;
    by_gpu.mem_per_gpu_mb = 100;  // the shape asks by node
    ck_assert(given_entry({}, by_gpu).ends_with(" SLURM_MEM_PER_NODE"));
}

TEST(a_job_that_is_over_does_not_say_that_it_runs) {
    const std::string rest = " grid=4xa40 plan=pp2,dp2,tp1,mb4x16 est=10.4s source=profiled";
    for (const char* state : {"running", "released", "submitted", "profiling"}) {
        const auto comment = comment_of_end("arena:v1 state=" + (state + rest), "COMPLETED");
        ck_assert(comment && *comment == "arena:v1 state=completed" + rest);
    }
    ck_assert(*comment_of_end("arena:v1 state=profiling", "OUT_OF_MEMORY") ==
              "arena:v1 state=out_of_memory");
    ck_assert(!comment_of_end("arena:v1 state=timeout" + rest, "TIMEOUT"));
    for (const char* other :
         {"arena:v1 state=off", "", "arena:v1", "of the admin's: arena:v1 state=running"})
        ck_assert_msg(!comment_of_end(other, "COMPLETED"), "%s", other);
}

/// Golden lines: what each framework is told of one plan with every feature that it has.
TEST(each_launcher_is_told_the_plan_in_its_own_words) {
    Request request;
    request.global_batch = 128;
    Plan plan = example_offer().plan;
    plan.recompute = Recompute::none;
    const auto told = [&](const char* launcher, const char* wanted) {
        request.launcher = launcher;
        const std::string arguments = launcher_arguments(request, plan);
        ck_assert_str_eq(arguments.c_str(), wanted);
    };
    told("env", "");
    told("torchrun", "");  // its words name the job's hosts
    told("megatron-deepspeed",
         "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --micro-batch-size 4 "
         "--global-batch-size 128 --zero-stage 0 --bf16");
    told("torchtitan", "");  // no sequence parallelism, no shards: it has no words for that
    plan.zero_stage = 1, plan.sequence_parallel = true;
    told(
        "torchtitan",
        "--parallelism.tensor_parallel_degree 2 --parallelism.pipeline_parallel_degree 2 "
        "--parallelism.context_parallel_degree 1 --parallelism.expert_parallel_degree 1 "
        "--parallelism.data_parallel_replicate_degree 1 --parallelism.data_parallel_shard_degree 2 "
        "--training.global_batch_size 128 "
        "--training.local_batch_size 64 --parallelism.pipeline_parallel_microbatch_size 4 "
        "--parallelism.pipeline_parallel_first_stage_less_layers 0 "
        "--parallelism.pipeline_parallel_last_stage_less_layers 0 "
        "--parallelism.fsdp_reshard_after_forward never "
        "--parallelism.pipeline_parallel_schedule 1F1B --activation_checkpoint.mode none "
        "--training.mixed_precision_param bfloat16");
    plan.stage_dp = {4, 4}, plan.hsdp = 2;
    ck_assert(launcher_arguments(request, plan)
                  .find("replicate_degree 2 --parallelism.data_parallel_"
                        "shard_degree 2 ") != std::string::npos);
    request.launcher = "megatron";
    ck_assert(launcher_arguments(request, plan).find("--num-distributed-optimizer-instances 2") !=
              std::string::npos);
    request.launcher = "megatron-deepspeed";
    ck_assert(launcher_arguments(request, plan).empty());  // it has no words for groups
    plan.stage_dp = {2, 2}, plan.hsdp = 0;
    plan.vpp = 3, plan.cp = 2, plan.ep = 4;
    told("megatron",
         "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --micro-batch-size 4 "
         "--global-batch-size 128 --sequence-parallel --use-distributed-optimizer "
         "--num-layers-per-virtual-pipeline-stage 2 --context-parallel-size 2 "
         "--expert-model-parallel-size 4 --expert-tensor-parallel-size 1 --bf16");
    plan = example_offer().plan;
    plan.stage_layers = {3, 4, 5}, plan.stage_dp = {2, 2, 2}, plan.stage_tp = {1, 1, 1};
    plan.recompute = Recompute::selective;
    told("megatron",
         "--tensor-model-parallel-size 1 --pipeline-model-parallel-size 3 --micro-batch-size 4 "
         "--global-batch-size 128 --recompute-granularity selective "
         "--decoder-first-pipeline-num-layers 3 --decoder-last-pipeline-num-layers 5 --bf16");
}

/// tests/unit/test_launchers.cc knows the features; here is what follows for plans.
TEST(capabilities_say_which_plans_a_launcher_can_run) {
    Plan plan = example_offer().plan;
    Model model;
    model.kv_heads = 4;
    const auto can = [&](const char* launcher) {
        return expresses(capabilities_of(launcher), model, plan);
    };
    for (const Launcher& launcher : launchers()) {
        plan = example_offer().plan;
        plan.stage_dp = {4, 2}, plan.stage_tp = {1, 2};
        ck_assert(!expresses(launcher.can(), model, plan));
        ck_assert(expresses(all_capabilities(), model, plan));
    }
    plan = example_offer().plan;
    plan.stage_layers = {5, 7};
    ck_assert(can("env") && can("megatron") && can("megatron@0.10") && !can("nemo") &&
              !can("megatron-deepspeed"));
    ck_assert(!can("megatron@0.11") &&
              !can("megatron@0.12.1"));  // they divide by the layers between
    plan.vpp = 2;
    ck_assert(!can("env"));  // interleaved stages are even
    plan.stage_layers = {6, 6};
    ck_assert(can("env") && can("megatron") && !can("torchtitan") && !can("megatron-deepspeed"));
    plan = example_offer().plan;
    plan.recompute = Recompute::selective;
    ck_assert(can("megatron") && !can("megatron-deepspeed") && !can("torchtitan"));
    plan = example_offer().plan;
    plan.zero_stage = 3;
    ck_assert(!can("megatron-deepspeed") && !can("torchtitan") && !can("megatron"));
    plan.stage_layers = {12}, plan.stage_dp = {8}, plan.stage_tp = {1};
    ck_assert(can("megatron-deepspeed") && can("torchtitan") && !can("megatron") && !can("env"));
    ck_assert(can("torchrun"));
    ck_assert(expresses(LayerSplit::ends, std::vector<std::int64_t>{3, 4, 4, 5}));
    ck_assert(!expresses(LayerSplit::ends, std::vector<std::int64_t>{3, 4, 5, 5}));
    ck_assert_ptr_null(find_launcher("mpirun"));
    plan = example_offer().plan;
    plan.stage_layers = {5, 7, 6, 6}, plan.stage_dp = {2, 2, 2, 2}, plan.stage_tp = {2, 2, 2, 2};
    ck_assert(can("megatron@0.13") && !can("megatron@0.12"));
    // Where a plan cannot be told, the part that cannot is named.
    const auto lacks = [&](const char* launcher, const char* what) {
        const std::string said = inexpressible(capabilities_of(launcher), model, plan);
        ck_assert_str_eq(said.c_str(), what);
    };
    plan = example_offer().plan;
    lacks("nemo", "");
    plan.stage_layers = {5, 7};
    lacks("nemo", "stages of 5,7 layers");
    plan = example_offer().plan;
    plan.zero_stage = 3;
    lacks("nemo", "ZeRO 3 with pipeline stages");
    plan = example_offer().plan;
    plan.cp = 2;
    lacks("megatron-deepspeed", "context parallelism of 2");
    lacks("deepspeed", "pipeline stages");
    model.kv_heads = 1;
    plan.cp = 1;
    lacks("megatron@0.15", "tensor parallelism of 2 over 1 key-value heads");
    lacks("megatron@0.16", "");
    // Tensor parallelism of convolutions is none of a transformer's.
    plan = example_offer().plan;
    plan.stage_tp = {2, 2};
    Model images;
    images.family = Family::wide_resnet;
    for (const char* script : {"env", "torchrun"})
        ck_assert(expresses(capabilities_of(script), images, plan));
    for (const char* other : {"megatron", "nemo", "arena-train"})
        ck_assert(inexpressible(capabilities_of(other), images, plan) ==
                  "convolutions split by tp2");
    ck_assert(inexpressible(all_capabilities(), images, plan).empty());
}

TEST(a_report_is_taken_of_the_plan_that_runs_and_of_no_other) {
    const Offer offer = example_offer();
    const JobMark started{Phase::started, 0, OtherHold::none, 1, 0, {}};
    const double long_s = 1e6;
    IterationReport report{1.2 * offer.estimate.iteration_s, 0.01, 40, short_form(offer.grid),
                           short_form(offer.plan)};
    const auto read = must(parse_report(format_report(report)));
    ck_assert(read.plan == report.plan && read.grid == report.grid && read.steps == 40);
    ck_assert_double_eq_tol(read.iteration_s, report.iteration_s, 1e-5 * report.iteration_s);
    ck_assert_str_eq(refuse_report(report, offer, started, long_s).c_str(), "");
    ck_assert(!refuse_report(report, offer, started, std::nullopt).empty());
    const double reported_s = 40 * report.iteration_s;
    ck_assert_str_eq(refuse_report(report, offer, started, reported_s - 0.9).c_str(),
                     "");  // Slurm's clock
    ck_assert(refuse_report(report, offer, started, reported_s - 1.1).find("40 iterations of ") ==
              0);
    ck_assert(!refuse_report(report, offer, std::nullopt, long_s).empty());
    ck_assert(!refuse_report(report, std::nullopt, started, long_s).empty());
    for (const double times : {8.5, 94.0, 1 / 20.0}) {  // bound by its loader, or better than told
        report.iteration_s = times * offer.estimate.iteration_s;
        ck_assert_str_eq(refuse_report(report, offer, started, long_s).c_str(), "");
    }
    report.iteration_s = offer.estimate.iteration_s;
    report.trained_s = long_s;
    ck_assert_double_eq(must(parse_report(format_report(report))).trained_s, long_s);
    ck_assert_str_eq(refuse_report(report, offer, started, long_s).c_str(), "");
    report.trained_s += 2;
    ck_assert(refuse_report(report, offer, started, long_s).find("its first step was") == 0);
    report.trained_s = -1;
    ck_assert_double_eq(must(parse_report(format_report(report))).trained_s, -1);
    report.plan = "pp1,dp1,tp1,mb1x1";
    ck_assert(refuse_report(report, offer, started, long_s).find("it runs") != std::string::npos);
    const std::string start(report_prefix), rest = "spread=0;steps=40;grid=a40;plan=pp1";
    for (const char* wrong :
         {"iteration_s=0;", "iteration_s=-1;", "iteration_s=nan;", "iteration_s=1e9;", "",
          "iteration_s=1;iteration_s=1;", "iteration_s=1;x=1;", "iteration_s=1;;"})
        ck_assert_msg(!parse_report(start + wrong + rest), "%s", wrong);
    ck_assert(parse_report(start + "iteration_s=1;" + rest).ok());
    ck_assert(!parse_report(start + "iteration_s=1;" + rest + std::string(512, '1')));
    ck_assert(!parse_report("arena:gpus=1-1"));
}

TEST(a_mark_keeps_the_history_of_its_job) {
    JobMark mark{Phase::checkpointing,     3,         OtherHold::user, 1700000000, 4711,
                 {1699990000, 1699999999}, 1690000000};
    ck_assert(parse_mark(format_mark(mark)) == mark);
    mark = {
        Phase::checkpointing, UINT32_MAX, OtherHold::admin, INT64_MAX, INT64_MAX, {}, INT64_MAX};
    mark.moves.assign(JobMark::max_moves, INT64_MAX);
    ck_assert_msg(parse_mark(format_mark(mark)) == mark, "the largest has to fit, too");
    for (const char n : {'a', 'b', 'c', 'd'})
        mark.avoid.push_back({std::string(JobMark::max_node_bytes, n), INT64_MAX});
    mark.array = mark.unsaved = UINT32_MAX;
    mark.lost = mark.saved = INT64_MAX;
    mark.signal = 64;
    mark.leaves_at = mark.left_at = INT64_MAX;
    mark.took.assign(JobMark::max_took, {86400, 86400});
    ck_assert_msg(parse_mark(format_mark(mark)) == mark, "and all that a mark can hold");
    for (const char* bad : {"took=1", "took=1+", "took=1+-1", "took=1+86401", "took=1+1,",
                            "took=1+1,1+1,1+1,1+1", "leaves=-1", "left=x"})
        ck_assert_msg(!parse_mark("v=1;phase=held;restart=0;hold=none;since=1;" + std::string(bad)),
                      "accepted: %s", bad);
    mark.moves.push_back(1);
    ck_assert(!parse_mark(format_mark(mark)));
    ck_assert(!parse_mark("v=1;phase=held;restart=0;hold=none;since=1;signal=65"));
    ck_assert(!parse_mark("v=1;phase=held;restart=0;hold=none;since=1;unsaved=-1"));
    ck_assert(!parse_mark("v=1;phase=held;restart=0;hold=none;since=1;moves=1,x"));
    ck_assert(!parse_mark("v=1;phase=held;restart=0;hold=none;since=1;done=-1"));
    const auto old = parse_mark("v=1;phase=started;restart=2;hold=none;since=5");
    ck_assert(old && old->done == 0 && old->waited_since == 0 && old->moves.empty());
    ck_assert(next_mark(mark, Phase::held, 5, OtherHold::none, 1).waited_since == INT64_MAX);
    ModifyFacts facts;
    facts.priority = PriorityChange::hold;
    facts.pending = facts.held = true;
    facts.mark = JobMark{Phase::held, 1, OtherHold::none, 10, 99, {7}};
    const ModifyDecision held = decide_modify(facts);
    ck_assert(held.mark && held.mark->done == 99 && held.mark->moves.size() == 1);
}

}  // namespace
