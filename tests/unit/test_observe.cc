// SPDX-License-Identifier: GPL-2.0-or-later
// An observing Arena on the scripted host: what it decides stays in the shadow, what an acting one
// held is let go, and the diary compares the two worlds.
#include "full_disk.h"
#include "plugin/sched/observe/observer.h"
#include "request/script_programs.h"
#include "request/script_training.h"
#include "scripted_host.h"
#include "suite.h"

using namespace arena;

namespace {

void same(const std::string& got, const std::string& wanted) {
    ck_assert_msg(got == wanted, "%s\nwanted: %s", got.c_str(), wanted.c_str());
}

struct Watching : Scene {
    Watched* watched = nullptr;  ///< the observer's
    std::unique_ptr<Observer> observer;

    Watching() {
        config.mode = "observe";
        node("n1", "a40", 4, 4);
        node("n2", "a40", 4, 4);
        open();
    }
    void open() {
        auto made = std::make_unique<Watched>(config.profile_store);
        watched = made.get();
        observer =
            std::make_unique<Observer>(host, std::move(made), config, load_hardware("").value(),
                                       builtin_calibration(), PlanLimits{});
    }
    /// As Slurm has an ordinary job: not held, no mark.
    JobView& waits(JobId id, Request r = request()) {
        JobView& job = this->job(id, r);
        job.facts.held = false;
        job.facts.mark.reset();
        job.submit_s = job.eligible_s = host.view.snapshot.time_s;
        job.time_limit_s = 3600;
        return job;
    }
    void slurm_starts(JobId id, NodeIndex node, std::int64_t gpus) {
        for (JobView& job : host.view.jobs) {
            if (job.id != id) continue;
            job.facts.state = HostJobState::running;
            job.start_s = host.view.snapshot.time_s;
            job.nodes = {node};
        }
        host.view.snapshot.nodes[node].free_gpus -= gpus;
        host.view.running.push_back({id, INFINITY, {{node, gpus, gpus, 0}}});
    }
    void slurm_ends(JobId id) {
        auto& view = host.view;
        for (const Occupied& held : view.running)
            for (const Occupied::Part& part : held.parts)
                if (held.job == id) view.snapshot.nodes[part.node].free_gpus += part.gpus;
        for (const JobView& job : view.jobs)
            if (job.id == id) view.over.push_back({id, job.start_s, view.snapshot.time_s});
        std::erase_if(view.running, [&](const Occupied& held) { return held.job == id; });
        std::erase_if(view.jobs, [&](const JobView& job) { return job.id == id; });
    }
    void pass(double seconds) {
        host.view.snapshot.time_s += seconds;
        catch_up();
    }
    /// A round goes on for a moment only, however much there is to do.
    void catch_up() {
        do observer->round();
        while (observer->is_due());
    }
    DiaryRun planned(JobId id) {
        if (const auto line = watched->shadow.line(id)) return line->planned;
        return {};
    }
    [[nodiscard]] double now() const { return host.view.snapshot.time_s; }
    std::string words(JobId id) { return observer->json_of(id).value("words", ""); }
    /// Plans come from a thread of their own.
    bool would_start(JobId id) {
        for (int i = 0; i < 200; ++i) {
            observer->round();
            const auto line = watched->shadow.line(id);
            if (line && line->planned.start_s > 0) return true;
        }
        return false;
    }
};

}  // namespace

TEST(what_it_decides_is_done_to_no_job) {
    Watching site;
    site.waits(1);
    ck_assert(site.would_start(1));
    site.pass(60);
    ck_assert_msg(site.host.calls.empty(), "%s", join(site.host.calls, "; ").c_str());
    ck_assert(site.host.reasons.empty());
    ck_assert(!std::filesystem::exists(site.directory / "promises.json"));
    ck_assert(!std::filesystem::exists(site.directory / "history.jsonl"));
    ck_assert(site.words(1).starts_with("would have started 60 s ago on "));
}

TEST(a_job_that_slurm_starts_later_would_have_started_earlier) {
    Watching site;
    site.waits(1);
    ck_assert(site.would_start(1));
    site.host.view.snapshot.time_s += 2400;
    site.slurm_starts(1, 0, 4);
    site.observer->round();
    ck_assert_msg(site.words(1).starts_with("would have started 40.0 min earlier on ") &&
                      site.words(1).ends_with(" (Slurm: 4xa40)"),
                  "%s", site.words(1).c_str());
    const auto& news = site.observer->scheduler().books().history.news();
    ck_assert(std::any_of(news.begin(), news.end(), [](const HistoryLine& line) {
        return line.job == 1 && line.state == "observed";
    }));
}

TEST(gpus_that_the_plan_uses_are_not_free_in_the_next_round) {
    Watching site;
    Request two = site.request();
    two.min_gpus = two.max_gpus = 4;
    for (const JobId id : {1, 2, 3}) site.waits(id, two);
    ck_assert(site.would_start(1) && site.would_start(2));
    for (int i = 0; i < 5; ++i) site.pass(10);
    ck_assert(site.watched->shadow.line(3)->planned.start_s == 0);
    // Slurm's own start of the third takes nothing away from the plan of the first two.
    site.slurm_starts(3, 0, 4);
    site.pass(10);
    ck_assert(site.planned(3).start_s == 0);
    same(site.words(3), "");  // the plan is not known so far
    site.slurm_starts(1, 1, 4);
    site.pass(10);
    site.slurm_ends(1);
    site.host.view.jobs.erase(site.host.view.jobs.begin());  // and the second is cancelled
    site.pass(10);
    ck_assert(site.planned(3).start_s > 0);
}

/// Jobs of exactly four GPUs: a node each.
struct WholeNodes : Watching {
    double begin_s;
    explicit WholeNodes(JobId jobs) {
        Request four = request();
        four.min_gpus = four.max_gpus = 4;
        for (JobId id = 1; id <= jobs; ++id) waits(id, four);
        begin_s = now();
    }
};

TEST(what_waits_behind_a_run_starts_when_that_would_have_ended_whenever_that_is_known) {
    WholeNodes site(3);
    ck_assert(site.would_start(1) && site.would_start(2));
    site.pass(100);
    site.slurm_starts(1, 0, 4);
    site.slurm_starts(2, 1, 4);
    site.pass(250);
    // In the plan they ran 250 s already, and nobody knows more.
    const auto counts = site.watched->shadow.counts();
    const JobId waits_for = site.watched->shadow.waits_for();
    ck_assert(counts.behind_s == 100 && (waits_for == 1 || waits_for == 2));
    ck_assert(site.planned(3).start_s == 0);
    site.host.view.snapshot.time_s += 50;
    site.slurm_ends(1);
    site.catch_up();
    ck_assert(site.planned(1).end_s == site.begin_s + 300);
    ck_assert(site.planned(3).start_s == site.begin_s + 300);
    site.slurm_starts(3, 0, 4);
    site.pass(60);
    ck_assert(site.words(3).starts_with("would have started 100 s earlier on "));
}

TEST(a_job_that_slurm_starts_at_once_on_fewer_gpus_is_waited_for) {
    Watching site;
    site.waits(1);
    site.slurm_starts(1, 0, 1);
    ck_assert(site.would_start(1));
    same(site.planned(1).grid, "2xa40");
    site.pass(1);
    site.pass(99);
    ck_assert_msg(site.watched->shadow.counts().behind_s > 20, "%g",
                  site.watched->shadow.counts().behind_s);
}

TEST(a_run_that_slurm_never_begins_holds_the_plan_up_for_a_bounded_time) {
    WholeNodes site(3);
    ck_assert(site.would_start(1) && site.would_start(2));
    site.pass(Shadow::most_behind_s - 60);
    ck_assert(site.planned(3).start_s == 0 && site.planned(1).end_s == 0);
    site.pass(7200);
    // By the limit of an hour, which is all that is believed of them.
    ck_assert(site.planned(1).end_s == site.begin_s + 3600);
    ck_assert(site.planned(3).start_s >= site.begin_s + 3600 &&
              site.planned(3).start_s < site.begin_s + 3600 + Shadow::most_behind_s / 500);
}

TEST(far_behind_it_catches_up_in_few_rounds_however_much_has_happened) {
    WholeNodes site(3);
    ck_assert(site.would_start(1) && site.would_start(2));
    // For four hours, in which nobody knows more of the plan, ordinary jobs come and go.
    constexpr int looks = 7200;
    for (JobId id = 100; id < 100 + looks; ++id) {
        if (id % 2 == 0)
            site.host.view.running.push_back({id, INFINITY, {{1, 4, 4, 0}}});
        else
            site.slurm_ends(id - 1);
        site.host.view.snapshot.time_s += 2;
        site.observer->round();
    }
    ck_assert(site.watched->shadow.counts().behind_s == 2 * looks);
    const auto rounds = [&] { return site.observer->scheduler().stats().rounds; };
    const auto before = rounds();
    site.host.view.jobs.clear();  // all are cancelled: there is nothing to wait for
    site.pass(1);
    ck_assert(site.watched->shadow.counts().behind_s < 5);
    ck_assert_msg(rounds() - before < looks * 2 / 3, "%d rounds", int(rounds() - before));
}

TEST(what_ordinary_jobs_held_is_known_at_the_time_of_the_plan) {
    WholeNodes site(2);
    site.host.view.running.push_back({50, INFINITY, {{1, 4, 4, 0}}});
    site.host.view.snapshot.nodes[1].free_gpus = 0;
    ck_assert(site.would_start(1) && site.planned(2).start_s == 0);
    site.host.view.snapshot.time_s += 200;
    site.slurm_ends(50);
    site.pass(0);
    site.host.view.running.push_back({51, INFINITY, {{1, 4, 4, 0}}});
    site.host.view.snapshot.nodes[1].free_gpus = 0;
    site.pass(100);
    ck_assert(site.planned(2).start_s == 0 && site.watched->shadow.counts().behind_s == 300);
    site.slurm_starts(1, 0, 4);
    site.pass(300);
    site.slurm_ends(1);
    site.catch_up();
    ck_assert(site.planned(2).start_s == site.begin_s + 200);
}

TEST(what_ends_in_the_plan_teaches_as_what_ends) {
    Watching site;
    for (JobId id = 1; id <= 6; ++id) {
        site.waits(id);
        ck_assert(site.would_start(id));
        site.slurm_starts(id, 0, 2);
        site.pass(360);
        EndedJob ended;
        ended.job.id = id;
        site.host.view.ended = {ended};
        site.slurm_ends(id);
        site.catch_up();
        site.host.view.ended.clear();
        site.pass(600);
    }
    const PastUse past = site.observer->scheduler().books().history.past_use(0, "");
    ck_assert_msg(past.jobs == 6 && past.used > 0.05 && past.used < 0.3, "%zu %g", past.jobs,
                  past.used);
}

TEST(the_diary_outlives_slurmctld) {
    Watching site;
    site.waits(1);
    ck_assert(site.would_start(1));
    site.host.view.snapshot.time_s += 100;
    site.slurm_starts(1, 0, 1);
    site.observer->round();
    site.host.view.snapshot.time_s += 500;
    site.slurm_ends(1);
    for (int i = 0; i < 3; ++i) site.pass(5000);
    ck_assert_int_eq(site.watched->diary.totals().jobs, 1);
    ck_assert_int_eq(site.watched->diary.totals().earlier, 1);
    ck_assert(std::abs(site.watched->diary.totals().wait_actual_s - 100) < 1);
    ck_assert(std::abs(site.watched->diary.totals().gpu_actual_s - 500) < 1);
    Diary next(site.config.profile_store);
    same(next.recall(), "");
    ck_assert_int_eq(next.totals().jobs, 1);
    ck_assert(next.lines() == site.watched->diary.lines());
}

TEST(a_full_disk_leaves_no_half_line) {
    Scene scene;
    LineFile file((scene.directory / "diary.jsonl").string(), "the diary");
    ck_assert(file.append({"first"}));
    const Status failed = [&] {
        const FullDisk full(10);
        return file.append({"does not fit any more"});
    }();
    ck_assert(!failed);
    ck_assert_msg(failed.error().message().find("cannot write the diary: File too large") !=
                      std::string::npos,
                  "%s", failed.error().message().c_str());
    ck_assert(file.append({"second"}));
    std::vector<std::string> lines;
    same(file.read([&](std::string_view line) { lines.emplace_back(line); }), "");
    ck_assert(lines == std::vector<std::string>({"first", "second"}));
}

TEST(the_diary_stays_within_its_size) {
    Scene scene;
    const auto path = scene.directory / "diary.jsonl";
    LineFile file(path.string(), "the diary", 1000);
    for (int i = 0; i < 100; ++i) ck_assert(file.append({std::string(98, 'x')}));
    ck_assert(!std::filesystem::exists(path) || std::filesystem::file_size(path) <= 1100);
    ck_assert(std::filesystem::file_size(path.string() + ".1") <= 1100);
}

TEST(a_job_that_no_round_has_a_plan_for_is_left_out_once_it_is_over) {
    Watching site;
    site.config.gpu_types.clear();  // none has a hardware entry
    site.open();
    site.waits(1);
    site.pass(10);
    site.slurm_starts(1, 0, 4);
    site.pass(10);
    site.slurm_ends(1);
    site.pass(Shadow::gives_up_s - 60);
    ck_assert(site.watched->shadow.line(1) && site.watched->shadow.counts().left_out == 0);
    site.pass(120);
    ck_assert(!site.watched->shadow.line(1));
    ck_assert_int_eq(site.watched->shadow.counts().left_out, 1);
    ck_assert(!site.watched->shadow.has_jobs());
    ck_assert_int_eq(site.watched->diary.totals().jobs, 0);
}

TEST(a_job_that_is_cancelled_while_it_waits_is_planned_no_more) {
    Watching site;
    site.waits(1);
    ck_assert(site.would_start(1));
    site.host.view.jobs.clear();
    site.pass(10);
    ck_assert(!site.watched->shadow.has_jobs());
    ck_assert_int_eq(site.watched->diary.totals().jobs, 0);
}

TEST(a_shadow_run_lasts_as_long_as_the_real_one_by_its_shape) {
    Watching site;
    site.waits(1);
    ck_assert(site.would_start(1));
    const DiaryLine before = *site.watched->shadow.line(1);
    site.slurm_starts(1, 0, 1);
    site.observer->round();
    site.host.view.snapshot.time_s += 300;
    site.slurm_ends(1);
    for (int i = 0; i < 100; ++i) site.pass(10);
    const auto line = site.watched->shadow.line(1);
    ck_assert(line && line->planned.end_s > 0);
    const double ran_s = line->planned.end_s - line->planned.start_s;
    // One GPU in reality; the plan has one or two, and takes no longer.
    ck_assert_msg(ran_s > 50 && ran_s <= 301, "%g s on %s", ran_s, before.planned.grid.c_str());
}

TEST(who_is_held_by_an_acting_arena_is_let_go_and_who_opted_out_stays_so) {
    Watching site;
    site.job(1);
    for (int i = 0; i < 200 && site.host.calls.empty(); ++i) site.observer->round();
    ck_assert_int_eq(site.host.calls.size() >= 1, 1);
    ck_assert_msg(site.host.calls.front() == "let_go 1xa40 1", "%s",
                  site.host.calls.front().c_str());
    const auto& given = site.host.last_shape.environment;
    ck_assert(std::any_of(given.begin(), given.end(), [](const std::string& entry) {
        return entry.starts_with("ARENA_ADVICE=grid=");
    }));
}

TEST(a_profile_run_that_waits_is_cancelled_and_one_that_runs_is_not) {
    Watching site;
    CarrierView waits, runs, others;
    waits.id = 50, runs.id = 51, others.id = 52;
    waits.user_id = runs.user_id = site.observer->scheduler().books().profiles.user().id;
    others.user_id = waits.user_id + 1;
    runs.node = "n1";
    site.host.view.carriers = {waits, runs, others};
    site.pass(10);
    same(join(site.host.calls, "; "), "end carrier 50");
}

TEST(only_an_acting_arenas_holds_are_taken) {
    JobFacts facts;
    ck_assert(classify_observed(facts) == Step::none);  // waits, unheld: Slurm's
    facts.held = true;
    ck_assert(classify_observed(facts) == Step::take);  // held at its submission to an acting one
    facts.asked_to_hold = true;
    ck_assert(classify_observed(facts) == Step::none);
    facts.mark = JobMark{Phase::observed, 0, OtherHold::none, 0};
    facts.held = false;
    ck_assert(classify_observed(facts) == Step::none);
    ck_assert(classify(facts) == Step::take);  // an acting one takes it back
    facts.held = true;
    ck_assert(classify_observed(facts) == Step::none);
    ck_assert(classify(facts) == Step::take_user_hold);
    ck_assert(parse_mark(format_mark(*facts.mark)) == facts.mark);
}

TEST(words_say_when_and_on_what) {
    DiaryLine line;
    line.actual = {1000, 0, "4xa40", 0};
    same(words_of(line, 1060, 1060), "would have waited 60 s longer at least (Slurm: 4xa40)");
    same(words_of(line, 1060, 990), "");
    line.planned = {1005, 0, "4xa40", 0};
    same(words_of(line, 1060, 1060), "would have started at the same time on 4xa40");
    line.planned = {1600, 0, "8xa100", 0};
    same(words_of(line, 1600, 1600), "would have started 10.0 min later on 8xa100 (Slurm: 4xa40)");
    line.actual = {};
    same(words_of(line, 1720, 1720), "would have started 2.0 min ago on 8xa100; Slurm has it wait");
}

TEST(nothing_is_said_of_gpus_that_nobody_saw) {
    DiaryLine line;
    line.actual = {1600, 1601, "", 0};  // it started and ended between two rounds
    line.planned = {1000, 0, "4xa40", 0};
    same(words_of(line, 1700, 1700), "would have started 10.0 min earlier on 4xa40");
}

TEST(until_the_plan_moves_it_a_job_that_ran_before_is_the_same_in_both_worlds) {
    Watching site;
    site.waits(1);
    site.host.view.snapshot.time_s += 100;
    site.slurm_starts(1, 0, 4);
    const double start_s = site.host.view.snapshot.time_s;
    site.pass(50);
    ck_assert(!site.watched->shadow.line(1));
    site.watched->shadow.leave(1, 0, true);
    const auto line = site.watched->shadow.line(1);
    ck_assert(line && line->planned.start_s == start_s && line->actual.start_s == start_s);
    same(line->planned.grid, "4xa40");
    ck_assert(line->planned.gpu_s == 4 * 50);
}

TEST(a_script_whose_variables_hold_each_other_stays_within_its_bounds) {
    std::string script = "A0=" + std::string(2000, 'x') + "\n";
    for (int i = 1; i < 200; ++i)
        script += "A" + std::to_string(i) + "=\"$A" + std::to_string(i - 1) + " $A" +
                  std::to_string(i - 1) + "\"\n";
    while (script.size() + 20 < max_script_bytes) script += "echo $A199\n";
    ck_assert(with_own_variables(script).size() <= 5 * max_script_bytes + 1);
    ScriptTraining training;
    training.device_batch = training.accumulation = limits::batch;
    ck_assert(training.batch_on(INT64_MAX) == limits::batch * limits::gpus);
}

TEST(a_line_of_the_diary_reads_back_and_nonsense_does_not) {
    DiaryLine line;
    line.job = 7, line.uid = 1000;
    line.name = "a", line.account = "b", line.partition = "c";
    line.as_if = true;
    line.actual = {10, 20, "4xa40", 40};
    line.planned = {5, 9, "1xa100", 4};
    line.moves = 2;
    const auto read = parse_diary_line(format_diary_line(line));
    ck_assert(read && *read == line);
    for (const char* text : {"", "{}", "[]", "{\"job\":1}", "{\"job\":0,\"actual\":3}"})
        ck_assert(!parse_diary_line(text));
}
