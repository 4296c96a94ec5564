// SPDX-License-Identifier: GPL-2.0-or-later
// Siblings and what trains them: who is bound with whom, who waits for what, who joins, when a
// carrier is not needed any more, and whose its GPU-seconds are.
#include <cmath>
#include <string>

#include "plugin/sched/arrays/array_book.h"
#include "plugin/sched/arrays/array_report.h"
#include "plugin/sched/host/end_comment.h"
#include "scripted_host.h"
#include "suite.h"

using namespace arena;

namespace {

using Fate = ArrayBook::Fate;

Request sibling_request() {
    Request r = Scene::request();
    r.array = true;
    r.launcher = "arena-train";
    r.model.tied_embedding = false;
    r.global_batch = 8;
    return r;
}

/// A pipeline of four stages for three members, as if it were the best way.
std::shared_ptr<ArrayOffers> bound(std::int64_t members = 3) {
    auto offers = std::make_shared<ArrayOffers>();
    ArrayOffer& pipeline = offers->ways[static_cast<std::size_t>(ArrayWay::pipeline)];
    pipeline = {.way = ArrayWay::pipeline, .possible = true};
    pipeline.gpus = 4;
    pipeline.groups = 1;
    pipeline.at_a_time = members;
    pipeline.iteration_s = 1.5;
    pipeline.plan.stage_layers = {3, 3, 3, 3};
    offers->binds = true;
    return offers;
}

struct Book {
    ScriptedHost host;
    Config config;
    ArrayBook book{host, config};
    Request request = sibling_request();
    std::shared_ptr<const ArrayOffers> offers = bound();
    std::vector<std::int64_t> priced;
    std::int64_t own_cpus = 0, memory_mb = 1000, member_memory_mb = 0;

    Book() {
        config.array_enabled = true;
        host.view.snapshot.time_s = host.view.steady_s = 1000;
        host.view.jobs.reserve(64);
    }
    JobView& task(JobId id, std::uint32_t number, JobId array = 1, std::uint32_t user = 7) {
        JobView job;
        job.id = id;
        job.user_id = user;
        job.array = {.id = array, .task = number};
        job.facts.held = true;
        job.facts.mark = JobMark{Phase::held, 0, OtherHold::none, 0};
        job.time_limit_s = 600;
        job.eligible_s = 1000;
        host.view.jobs.push_back(job);
        return host.view.jobs.back();
    }
    ArrayCarrierView& carrier(JobId id, std::int64_t members, std::uint32_t user = 7) {
        CarrierFacts facts;
        facts.group = group_tag(host.view.jobs.front(), request, "f");
        facts.key = "0123";
        facts.socket = "/tmp/s";
        facts.members = members;
        ArrayCarrierView view;
        view.id = id;
        view.user_id = user;
        view.facts = format_carrier(facts);
        view.running = true;
        view.nodes = {"n1"};
        view.gpus = 4;
        view.start_s = 900;
        host.view.arrays.push_back(view);
        return host.view.arrays.back();
    }
    /// It runs as a member.
    static void runs(JobView& job, JobId carrier) {
        job.facts.state = HostJobState::running;
        job.facts.held = false;
        job.facts.mark = JobMark{Phase::started, 0, OtherHold::none, 0};
        job.facts.mark->array = carrier;
    }
    /// Tasks 1 to `tasks`: the first runs as a member of carrier 100, which has room for another.
    void one_trains_of(JobId tasks) {
        for (JobId id = 1; id <= tasks; ++id) task(id, id);
        carrier(100, 2);
        runs(host.view.jobs[0], 100);
    }
    void begin_round() {
        book.new_round(host.view);
        for (const JobView& job : host.view.jobs)
            if (job.facts.state == HostJobState::pending) book.add(job, request, "f");
    }
    ArrayBook::Answer ask(JobId id) {
        const auto at = std::find_if(host.view.jobs.begin(), host.view.jobs.end(),
                                     [&](const JobView& job) { return job.id == id; });
        return book.ask(*at, request, [&](std::int64_t members) {
            priced.push_back(members);
            return SiblingPrice{.offers = offers,
                                .gpu_type = "a40",
                                .gpus_per_node = 4,
                                .cpus_per_gpu = 4,
                                .memory_mb_per_gpu = memory_mb,
                                .own_cpus_per_gpu = own_cpus,
                                .member_memory_mb = member_memory_mb};
        });
    }
    void pass(double seconds) {
        host.view.snapshot.time_s += seconds;
        host.view.steady_s += seconds;
    }
};

void says(const ArrayBook::Answer& answer, Fate fate, const char* words) {
    ck_assert_msg(answer.fate == fate, "fate %d: %s", static_cast<int>(answer.fate),
                  answer.text.c_str());
    ck_assert_msg(answer.text.find(words) != std::string::npos, "'%s' lacks '%s'",
                  answer.text.c_str(), words);
}

}  // namespace

TEST(the_first_of_as_many_as_fit_leads) {
    Book b;
    for (JobId id = 1; id <= 5; ++id) b.task(id, id);
    b.begin_round();
    const auto first = b.ask(1);
    ck_assert(first.fate == Fate::leads && first.lead);
    ck_assert_int_eq(first.lead->facts.members, 3);
    ck_assert_int_eq(first.lead->limit_minutes, 10);
    ck_assert_int_eq(first.lead->shape.grid.gpus_per_node, 4);
    ck_assert_int_eq(first.lead->cpus_per_gpu, 3);
    ck_assert_int_eq(b.priced.at(0), 5);
    for (const JobId id : {2, 3}) says(b.ask(id), Fate::waits, "as JobId=1 does");
    const auto fourth = b.ask(4);
    ck_assert(fourth.fate == Fate::leads);
    ck_assert_int_eq(fourth.lead->facts.members, 2);
    says(b.ask(5), Fate::waits, "as JobId=4 does");
}

TEST(an_arrays_own_limit_is_that_of_its_pipeline) {
    Book b;
    b.offers = bound(8);
    for (JobId id = 2; id <= 5; ++id) b.task(id, id).array.limit = 4;
    JobView& record = b.task(1, 0);
    record.array.left = 60;
    record.array.limit = 4;
    b.begin_round();
    const auto lead = b.ask(2);
    ck_assert(lead.fate == Fate::leads);
    ck_assert_int_eq(lead.lead->facts.members, 4);
    ck_assert_int_eq(b.priced.at(0), 4);
    // One of them runs already: three may be with it.
    b.host.view.jobs[0].facts.state = HostJobState::running;
    b.begin_round();
    ck_assert_int_eq(b.ask(3).lead->facts.members, 3);
    // As its user has it now, one at a time.
    b.host.view.jobs[0].facts.state = HostJobState::pending;
    for (JobView& job : b.host.view.jobs) job.array.limit = 1;
    b.begin_round();
    says(b.ask(2), Fate::ordinary, "no sibling may run with it");
}

TEST(tasks_without_a_record_count_as_far_as_they_may_run) {
    Book b;
    b.config.array_max_members = 6;
    b.offers = bound(8);
    for (JobId id = 2; id <= 3; ++id) b.task(id, id);
    b.task(1, 0).array.left = 1000;
    b.begin_round();
    ck_assert_int_eq(b.ask(2).lead->facts.members, 6);
    ck_assert_int_eq(b.priced.at(0), 6);
}

TEST(nobody_is_bound_who_cannot_be) {
    Book b;
    b.task(1, 1);
    b.begin_round();
    says(b.ask(1), Fate::ordinary, "no sibling waits with it");
    ck_assert(b.priced.empty());
    b.task(2, 2).facts.mark->lost = 2;
    b.begin_round();
    says(b.ask(2), Fate::ordinary, "has ended 2 times");
    b.offers = nullptr;
    says(b.ask(1), Fate::waits, "to be priced");
    auto no = std::make_shared<ArrayOffers>();
    no->why = "not bound: a member fits one device";
    b.offers = no;
    says(b.ask(1), Fate::ordinary, "fits one device");
    b.request.launcher = "megatron";
    says(b.ask(1), Fate::ordinary, "launcher megatron trains no siblings");
    b.request = sibling_request();
    b.request.model.tied_embedding = true;
    says(b.ask(1), Fate::ordinary, "ties its output head");
}

TEST(siblings_have_one_user_account_qos_and_partition) {
    Book b;
    const JobView first = b.task(1, 1);
    JobView other = first;
    const auto differs = [&] {
        return group_tag(first, b.request, "f") != group_tag(other, b.request, "f");
    };
    ck_assert(!differs());
    other.user_id = 8;
    ck_assert(differs());
    other = first;
    other.owner.account = "x";
    ck_assert(differs());
    other = first;
    other.owner.qos = 3;
    ck_assert(differs());
    other = first;
    other.partition = "p";
    ck_assert(differs());
    JobView two = first;
    two.partition = "q,p";
    other.partition = "p,q";
    ck_assert(group_tag(two, b.request, "f") == group_tag(other, b.request, "f"));
    other = first;
    other.owner.nodes = "big";
    ck_assert(differs());
    other = first;
    other.node_set = 3;  // the number of a set is another one in each round
    ck_assert(!differs());
    ck_assert(group_tag(first, b.request, "f") != group_tag(first, b.request, "g"));
    Request batch = b.request;
    batch.global_batch = 16;
    ck_assert(group_tag(first, b.request, "f") != group_tag(first, batch, "f"));
}

TEST(users_never_share_a_carrier) {
    Book b;
    for (JobId id = 1; id <= 2; ++id) b.task(id, id);
    for (JobId id = 3; id <= 4; ++id) b.task(id, id, 3, 8);
    b.carrier(100, 3, 8);  // with the group of the first user's, as if somebody had forged it
    b.begin_round();
    ck_assert(b.ask(1).fate == Fate::leads);
    ck_assert(b.ask(3).fate == Fate::leads);
}

TEST(a_size_is_waited_for) {
    Book b;
    b.request.array_size = 3;
    for (JobId id = 1; id <= 2; ++id) b.task(id, id);
    b.begin_round();
    says(b.ask(1), Fate::waits, "waits for 1 more siblings or 30 s");
    b.pass(31);
    b.begin_round();
    ck_assert(b.ask(1).fate == Fate::leads);
}

TEST(members_join_while_there_is_room) {
    Book b;
    b.one_trains_of(3);
    b.begin_round();
    const auto joins = b.ask(2);
    ck_assert(joins.fate == Fate::joins);
    ck_assert_int_eq(joins.carrier, 100);
    says(b.ask(3), Fate::waits, "room in its array's JobId=100");
    b.host.view.arrays[0].running = false;
    b.begin_round();
    says(b.ask(2), Fate::waits, "JobId=100 to begin");
    b.host.view.arrays[0].running = true;
    b.book.close(100, "");
    b.begin_round();
    ck_assert(b.ask(2).fate == Fate::leads);
}

TEST(siblings_for_whom_there_is_no_room_have_a_pipeline_of_their_own) {
    Book b;
    b.one_trains_of(5);
    b.begin_round();
    ck_assert(b.ask(2).fate == Fate::joins);
    const auto next = b.ask(3);
    ck_assert(next.fate == Fate::leads);
    ck_assert_int_eq(next.lead->facts.members, 3);
    ck_assert_int_eq(b.priced.at(0), 3);
    // Where that does not gain, and where nobody is with it, it waits for room.
    auto no = std::make_shared<ArrayOffers>();
    no->why = "not bound: it gains nothing";
    b.offers = no;
    b.begin_round();
    ck_assert(b.ask(2).fate == Fate::joins);
    says(b.ask(3), Fate::waits, "room in its array's JobId=100");
}

TEST(a_limit_in_the_way_is_named) {
    Book b;
    for (JobId id = 1; id <= 2; ++id) b.task(id, id);
    b.begin_round();
    b.book.refuse(b.host.view.jobs[0], "Slurm refused it: AssocGrpGRES");
    says(b.ask(1), Fate::ordinary, "AssocGrpGRES");
    b.pass(301);
    b.begin_round();
    ck_assert(b.ask(1).fate == Fate::leads);
}

TEST(a_limit_that_takes_only_the_carrier_lets_members_run_by_themselves) {
    Book b;
    for (JobId id = 1; id <= 2; ++id) b.task(id, id);
    b.carrier(100, 2);
    b.begin_round();
    ck_assert(b.ask(1).fate == Fate::joins);
    b.book.refuse_member(b.host.view.jobs[0], 100, "not allowed: AssocMaxJobsLimit");
    b.book.settle();
    ck_assert_uint_eq(b.host.calls.size(), 1);
    ck_assert_str_eq(b.host.calls[0].c_str(), "cancel array 100");
    b.begin_round();
    says(b.ask(2), Fate::ordinary, "beside their pipeline: not allowed: AssocMaxJobsLimit");
}

TEST(a_limit_that_takes_some_members_has_the_others_wait) {
    Book b;
    for (JobId id = 1; id <= 3; ++id) b.task(id, id);
    b.carrier(100, 3);
    b.begin_round();
    ck_assert(b.ask(1).fate == Fate::joins);
    b.book.has_started(100);
    ck_assert(b.ask(2).fate == Fate::joins);
    b.book.refuse_member(b.host.view.jobs[1], 100, "not allowed: AssocMaxJobsLimit");
    b.book.settle();
    ck_assert(b.host.calls.empty());
    Book::runs(b.host.view.jobs[0], 100);
    b.begin_round();
    ck_assert(b.ask(2).fate == Fate::joins);
}

TEST(members_have_cpus_beside_those_that_their_user_gives_the_carrier) {
    Book b;
    for (JobId id = 1; id <= 2; ++id) b.task(id, id);
    b.own_cpus = 3;
    b.begin_round();
    const auto lead = b.ask(1);
    ck_assert(lead.fate == Fate::leads);
    ck_assert_int_eq(lead.lead->cpus_per_gpu, 3);
    ck_assert_int_eq(lead.lead->facts.members, 2);
    b.own_cpus = 4;  // all that there are
    b.begin_round();
    says(b.ask(1), Fate::ordinary, "no CPUs for members");
}

TEST(members_have_memory_to_live_on) {
    Book b;
    b.offers = bound(12);
    b.host.view.jobs.reserve(64);
    for (JobId id = 1; id <= 12; ++id) b.task(id, id);
    const auto lead = [&](std::int64_t memory_mb, std::int64_t member_memory_mb) {
        b.memory_mb = memory_mb;
        b.member_memory_mb = member_memory_mb;
        b.begin_round();
        return b.ask(1);
    };
    const auto has = [](const ArrayBook::Answer& answer, std::int64_t members,
                        std::int64_t each_mb) {
        ck_assert(answer.fate == Fate::leads);
        ck_assert_int_eq(answer.lead->facts.members, members);
        ck_assert_int_eq(answer.lead->facts.member_memory_mb, each_mb);
    };
    has(lead(100'000, 0), 12, 512);
    has(lead(1000, 0), 12, 166);
    has(lead(400, 0), 6, 133);
    has(lead(400, 64), 12, 64);
    has(lead(4000, 600), 12, 600);
    has(lead(4000, 4000), 12, 666);
    says(lead(100, 0), Fate::ordinary, "no memory for members beside that of their pipeline");
    has(lead(0, 0), 12, 0);
}

TEST(a_carrier_beside_which_nobody_can_start_is_not_made_again) {
    Book b;
    for (JobId id = 1; id <= 2; ++id) b.task(id, id);
    b.carrier(100, 2);
    b.begin_round();
    ck_assert(b.ask(1).fate == Fate::joins);
    b.book.close(100, "its time limit is too long");
    b.book.settle();
    ck_assert(called(b.host, "cancel array 100"));
    b.begin_round();
    says(b.ask(1), Fate::ordinary, "could start beside its pipeline: its time limit is too long");
    b.pass(301);
    b.host.view.arrays.clear();
    b.begin_round();
    ck_assert(b.ask(1).fate == Fate::leads);
}

TEST(a_carrier_whose_first_member_never_comes_is_given_up) {
    Book b;
    for (JobId id = 1; id <= 2; ++id) b.task(id, id);
    b.carrier(100, 2).configuring = true;
    const auto round = [&](double seconds) {
        b.pass(seconds);
        b.begin_round();
        const auto answer = b.ask(1);
        if (answer.fate == Fate::joins)
            b.book.note_trouble(100, "starting: Requested nodes are busy");
        b.book.settle();
        return answer;
    };
    ck_assert(round(500).fate == Fate::waits);  // a Prolog is nobody's fault
    b.host.view.arrays[0].configuring = false;
    for (int i = 0; i < 4; ++i) ck_assert(round(i == 0 ? 0 : 39).fate == Fate::joins);
    ck_assert(b.host.calls.empty());
    (void)round(4);
    ck_assert(called(b.host, "cancel array 100"));
    says(round(1), Fate::ordinary, "beside its pipeline: starting: Requested nodes are busy");
}

void fails_for_good(Book& b, ArrayCarrierView& carrier) {
    carrier.running = false;
    carrier.finished = true;
    carrier.end = "FAILED";
    b.begin_round();
    b.book.settle();
    b.begin_round();
    says(b.ask(1), Fate::ordinary,
         "JobId=100, which was to train it with its siblings, ended (FAILED)");
}

TEST(a_carrier_that_ends_before_it_had_a_member_is_not_made_again) {
    Book b;
    for (JobId id = 1; id <= 2; ++id) b.task(id, id);
    ArrayCarrierView& carrier = b.carrier(100, 2);
    b.begin_round();
    b.book.settle();
    fails_for_good(b, carrier);
}

TEST(one_that_ends_between_two_rounds_is_not_made_again) {
    Book b;
    for (JobId id = 1; id <= 2; ++id) b.task(id, id);
    b.begin_round();
    b.book.settle();
    b.book.has_begun(100);
    ArrayCarrierView& carrier = b.carrier(100, 2);
    fails_for_good(b, carrier);
}

TEST(siblings_of_a_carrier_that_has_died_wait_for_each_other) {
    Book b;
    b.task(1, 1);
    b.task(2, 2);
    ArrayCarrierView& carrier = b.carrier(100, 2);
    for (JobView& job : b.host.view.jobs) Book::runs(job, 100);
    b.begin_round();
    carrier.running = false;
    carrier.finished = true;
    carrier.end_s = 1000;
    JobView& back = b.host.view.jobs[0];
    back.facts.state = HostJobState::pending;
    back.facts.held = true;
    back.facts.mark->lost = 1;
    b.pass(1);
    b.begin_round();
    says(b.ask(1), Fate::waits, "waits for 1 of its siblings");
    b.pass(90);  // what its script does meanwhile is nobody's business
    b.begin_round();
    says(b.ask(1), Fate::ordinary, "no sibling waits with it");
}

TEST(a_carrier_that_nobody_needs_is_told_to_end) {
    Book b;
    JobView& one = b.task(1, 1);
    b.carrier(100, 2);
    Book::runs(one, 100);
    b.begin_round();
    b.book.settle();
    ck_assert(b.host.calls.empty());
    b.host.view.jobs.clear();
    for (const double seconds : {1, 1}) {
        b.pass(seconds);
        b.begin_round();
        b.book.settle();
        ck_assert(b.host.calls.empty());
    }
    b.pass(2);
    b.begin_round();
    b.book.settle();
    ck_assert_uint_eq(b.host.calls.size(), 1);
    ck_assert_str_eq(b.host.calls[0].c_str(), "end array 100");
}

TEST(one_that_leaves_takes_nobody_and_its_siblings_wait_for_its_members) {
    Book b;
    b.one_trains_of(3);
    const Move move{.why = "leaves n1: drained"};
    b.begin_round();
    b.book.leave(100, move, ArrayBook::Leaving::later);
    ck_assert(b.ask(2).fate == Fate::leads);
    ck_assert(b.book.settle().empty() && b.host.calls.empty());
    b.begin_round();
    b.book.leave(100, move, ArrayBook::Leaving::told);
    says(b.ask(2), Fate::waits, "waits for 1 of its siblings, which leave their pipeline");
    const auto moves = b.book.settle();
    ck_assert(moves.size() == 1 && moves[0].why == move.why);
    ck_assert((b.host.calls == std::vector<std::string>{"move array 100"}));
    ck_assert(arrays_json(b.book.carriers(), b.config, std::nullopt).find("\"leaving\"") !=
              std::string::npos);
    // Nobody says so any more: it has been told. Nor does it matter that somebody needs it.
    JobView& back = b.host.view.jobs[0];
    back.facts = b.host.view.jobs[1].facts;
    for (const double seconds : {1, 10}) {
        b.pass(seconds);
        b.begin_round();
        ck_assert(b.ask(2).fate == Fate::leads);
        ck_assert(b.book.settle().empty());
    }
    ck_assert_uint_eq(b.host.calls.size(), 1);
    b.host.view.arrays[0].running = false;
    b.pass(b.config.checkpoint_grace_s);
    b.begin_round();
    ck_assert(b.book.settle().empty());
    ck_assert_msg(b.host.calls.size() == 1, "it is ending");
}

TEST(a_round_that_read_no_task_ends_nothing) {
    Book b;
    JobView& one = b.task(1, 1);
    b.task(2, 2);
    b.carrier(100, 1);
    Book::runs(one, 100);
    b.begin_round();
    b.book.settle();
    const std::vector<JobView> before = b.host.view.jobs;
    // Slurm has read its configuration again between two looks: of each job little is known.
    for (JobView& job : b.host.view.jobs) {
        JobView changing;
        changing.id = job.id;
        changing.facts = job.facts;
        changing.changing = true;
        job = changing;
    }
    b.pass(1);
    b.book.new_round(b.host.view);
    b.book.settle();
    const ArrayBook::Carrier& carrier = *find_carrier(b.book.carriers(), 100);
    ck_assert_int_eq(carrier.running, 1);
    ck_assert_uint_eq(carrier.members.at(1).place.task, 1);
    // Where nobody is there either, it may be that somebody waits.
    b.host.view.jobs.erase(b.host.view.jobs.begin());
    b.pass(1);
    b.book.new_round(b.host.view);
    b.book.settle();
    ck_assert(b.host.calls.empty());
    b.host.view.jobs = before;
    b.pass(60);
    b.begin_round();
    b.book.settle();
    ck_assert(b.host.calls.empty());
}

TEST(one_that_waits_for_tasks_without_a_record_is_kept) {
    Book b;
    JobView& record = b.task(1, 0);
    record.array.left = 9;
    b.carrier(100, 2);
    Book::runs(b.task(2, 2), 100);
    b.begin_round();
    b.book.settle();
    b.host.view.jobs.pop_back();
    for (int i = 0; i < 5; ++i) {
        b.pass(60);
        b.begin_round();
        b.book.settle();
    }
    ck_assert(b.host.calls.empty());
}

TEST(all_gpu_seconds_of_a_carrier_are_its_members) {
    Book b;
    JobView &one = b.task(1, 1), &two = b.task(2, 2);
    b.carrier(100, 2).start_s = 990;  // ten seconds with nobody there
    Book::runs(one, 100);
    b.begin_round();
    b.book.settle();
    Book::runs(two, 100);
    b.pass(20);
    b.begin_round();
    b.book.settle();
    b.pass(10);
    b.begin_round();
    b.host.view.jobs.erase(b.host.view.jobs.begin());
    b.pass(7);
    b.begin_round();
    b.host.view.jobs.clear();
    ArrayCarrierView& view = b.host.view.arrays[0];
    view.running = false;
    view.finished = true;
    view.end_s = 1040;
    b.pass(5);
    b.begin_round();
    b.book.settle();
    double sum = 0;
    for (const auto& [job, share] : find_carrier(b.book.carriers(), 100)->members)
        sum += share.gpu_s;
    ck_assert_msg(std::abs(sum - 4 * 50) < 1e-6, "%g", sum);
    ck_assert_uint_eq(b.host.shares.size(), 3);
    ck_assert_uint_eq(b.host.shares[2].job, 100);
    ck_assert_str_eq(b.host.shares[2].words.c_str(), "gpu_s=200.00");
    ck_assert(b.host.shares[0].words.starts_with("gpu_s="));
    ck_assert(arrays_json(b.book.carriers(), b.config, std::nullopt).find("\"task\":2") !=
              std::string::npos);
    ck_assert(arrays_json(b.book.carriers(), b.config, 8).find("\"task\"") == std::string::npos);
    b.host.shares.clear();
    b.pass(5);
    b.begin_round();
    b.book.settle();
    ck_assert(b.host.shares.empty());
}

TEST(shares_outlive_slurmctld) {
    Book b;
    Book::runs(b.task(1, 1), 100);
    Book::runs(b.task(2, 2), 100);
    b.carrier(100, 2).start_s = 1000;
    const auto round = [&](Book& book, double seconds) {
        book.pass(seconds);
        book.begin_round();
        book.book.settle();
    };
    round(b, 0);
    round(b, 30);  // 60 each
    ck_assert(b.host.shares.empty());
    b.host.view.jobs.pop_back();  // one of them is over
    round(b, 40);
    ck_assert_uint_eq(b.host.shares.size(), 3);
    // Another slurmctld reads what was written.
    Book again;
    again.host.view = b.host.view;
    for (const auto& share : b.host.shares) {
        const double gpu_s = number_in("arena:v1 state=running " + share.words, share_key);
        if (share.job == 1) again.host.view.jobs[0].array_gpu_s = gpu_s;
        if (share.job == 100) again.host.view.arrays[0].shared_gpu_s = gpu_s;
    }
    round(again, 10);
    const ArrayBook::Carrier& carrier = *find_carrier(again.book.carriers(), 100);
    ck_assert_double_eq_tol(carrier.gone_gpu_s, 60, 0.01);
    ck_assert_double_eq_tol(carrier.members.at(1).gpu_s, 60 + 4 * 50, 0.01);
    again.host.view.jobs.clear();
    again.host.view.arrays[0].finished = true;
    again.host.view.arrays[0].end_s = 1080;
    round(again, 1);
    ck_assert_str_eq(again.host.shares.at(0).words.c_str(), "gpu_s=260.00");
}

TEST(facts_of_a_carrier_come_back) {
    CarrierFacts facts{.group = "g", .key = "k", .socket = "/tmp/a b", .members = 12};
    facts.member_memory_mb = 5;
    facts.partition = "p,q";
    facts.plan = "pp4";
    facts.iteration_s = 1.84;
    facts.bubble = 0.06;
    const auto read = read_carrier(format_carrier(facts));
    ck_assert(read && *read == facts);
    for (const char* bad : {"", "{}", "[1]", R"({"v":2})", R"({"v":1,"group":3})"})
        ck_assert_msg(!read_carrier(bad), "%s", bad);
    const std::string comment = carrier_comment(facts);
    ck_assert_str_eq(comment.c_str(),
                     "arena:v1 state=running members=12 plan=pp4 est=1.84s bubble=6%");
    JobView member;
    member.id = 9;
    member.array = {.id = 1, .task = 5};
    const std::string members = member_comment(4711, member, facts);
    ck_assert_str_eq(members.c_str(), "arena:v1 state=running array=4711 member=5/12 T=1.84s");
}

TEST(the_script_says_the_model_and_its_stages) {
    const CarrierFacts facts{.group = "g", .key = "k", .socket = "/tmp/it's", .members = 3};
    const auto offers = bound();
    const std::string script = carrier_script(
        sibling_request(), offers->ways[static_cast<std::size_t>(ArrayWay::pipeline)], facts, {});
    for (const char* words :
         {"srun --mpi=pmix arena-train --array-serve '/tmp/it'\\''s' --array-members 3 "
          "--array-idle 3600 ",
          "--layers 12 --hidden 768", "--untied", "--pp 4 --stage-layers 3,3,3,3",
          "--global-batch 8 --micro-batch 8", "[ $code != 99 ] || code=0"})
        ck_assert_msg(script.find(words) != std::string::npos, "%s lacks %s", script.c_str(),
                      words);
    ck_assert(script.find("--array-buffers") == std::string::npos);
}

TEST(a_mark_knows_its_array_and_counts_those_that_it_lost) {
    JobMark mark{Phase::started, 3, OtherHold::none, 10};
    mark.array = 4711;
    mark.lost = 1;
    const auto read = parse_mark(format_mark(mark));
    ck_assert(read && *read == mark);
    const JobMark requeued = next_mark(mark, Phase::held, 4, OtherHold::none, 20, true);
    ck_assert(requeued.array == 0 && requeued.lost == 2);
    // Its array goes on: its user has requeued it, or it was preempted.
    const JobMark by_itself = next_mark(mark, Phase::held, 4, OtherHold::none, 20);
    ck_assert(by_itself.array == 0 && by_itself.lost == 1);
    JobMark moved = mark;
    for (std::int64_t at = 1; at <= 13; ++at) add_move(moved, at);
    ck_assert(moved.moves.size() == JobMark::max_moves && moved.moves.front() == 2);
    const JobMark refused = next_mark(mark, Phase::held, 3, OtherHold::none, 20, true);
    ck_assert(refused.array == 0 && refused.lost == 1);
    JobFacts back{.held = true, .special_exit = true, .restart = 4, .mark = mark};
    ck_assert(classify(back) == Step::take);
    back.mark->array = 0;
    ck_assert(classify(back) == Step::none);
}

TEST(a_member_starts_without_gpus_on_its_carriers_first_node) {
    Scene scene;
    scene.config.array_enabled = true;
    scene.node("n1", "a40", 4, 0);
    const Request request = sibling_request();
    JobView& job = scene.job(2, request);
    job.array = {.id = 1, .task = 5};
    CarrierFacts facts;
    facts.group = group_tag(job, *parse_record(format_record(request).value()),
                            fingerprint(parse_record(format_record(request).value())->model));
    facts.members = 4;
    facts.socket = "/tmp/s";
    facts.partition = "main";
    ArrayCarrierView carrier;
    carrier.id = 100;
    carrier.facts = format_carrier(facts);
    carrier.running = true;
    carrier.nodes = {"n1"};
    carrier.start_s = 900;
    scene.host.view.arrays.push_back(carrier);
    scene.scheduler()->round();
    ck_assert_msg(called(scene.host, "start 2 n1"), "%s",
                  scene.host.reasons.empty() ? "" : scene.host.reasons[0].text.c_str());
    const Shape& shape = scene.host.last_shape;
    ck_assert_int_eq(shape.array, 100);
    ck_assert_int_eq(shape.offer.grid.gpus_per_node, 0);
    ck_assert_int_eq(shape.cpus_per_task, 1);
    ck_assert(std::find(shape.environment.begin(), shape.environment.end(), "ARENA_ARRAY=/tmp/s") !=
              shape.environment.end());
}
