// SPDX-License-Identifier: GPL-2.0-or-later
// A node's agent by itself: rings' records in, frames out, on a clock of the test's. Iterations of
// a stream of calls, of marks, over gaps; times of communicators; silence that is never called
// health; stamps that cannot be; what watching costs; which GPU a rank has.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "tests/unit/suite.h"
#include "watch/agent/agent.h"
#include "watch/agent/gpu_index.h"
#include "watch/agent/node_rings.h"
#include "watch/ring/process.h"
#include "watch/ring/ring_file.h"

using namespace arena;
using namespace arena::watch;

namespace {

using test::assert_text;

constexpr std::uint64_t second_ns = 1'000'000'000;
constexpr std::uint64_t boot_ns = 5000 * second_ns, epoch_ns = 1'700'000'000 * second_ns;

/// A rank that makes 12 calls a step, and the agent that reads them once per poll.
struct Node {
    explicit Node(std::uint32_t ranks = 1) : count(ranks) {}

    Agent agent{"n1", 5};
    std::uint32_t count;
    std::uint64_t time_ns = boot_ns + second_ns;
    std::uint64_t sequence = 0;
    double step_s = 0.3;
    double cost_s = 0;  ///< of recording a step
    Control control = Control::record;
    std::vector<Record> waiting;
    std::vector<Frame> said;
    bool running = true, ended = false;

    [[nodiscard]] Clocks now() const {
        return {.steady_s = static_cast<double>(time_ns) * 1e-9,
                .raw_ns = time_ns,
                .epoch_ns = epoch_ns + time_ns};
    }
    void record(Op op, std::uint64_t elements, std::uint64_t comm, Kind kind = Kind::call,
                std::uint64_t duration_ns = 0) {
        if (control == Control::pause) return;
        Record one;
        one.sequence = sequence++;
        one.time_ns = time_ns;
        one.op = op;
        one.count = elements;
        one.bytes = 4 * elements;
        one.comm = comm;
        one.kind = kind;
        one.duration_ns = duration_ns;
        waiting.push_back(one);
    }
    void call(Op op, std::uint64_t elements, std::uint64_t comm, double lasts_s) {
        record(op, elements, comm);
        if (control == Control::profile)
            record(op, elements, comm, Kind::timing, static_cast<std::uint64_t>(lasts_s * 1e9));
    }
    void step() {
        const bool costs = control != Control::pause;
        const auto pass = [&](double share) {
            time_ns += static_cast<std::uint64_t>(share * (step_s + (costs ? cost_s : 0)) * 1e9);
        };
        for (int i = 0; i < 8; ++i) {
            pass(0.1);
            call(Op::all_gather, 5000, 7, 0.002);
        }
        for (int i = 0; i < 3; ++i) call(Op::reduce_scatter, 4000, 7, 0.001);
        pass(0.2);
        call(Op::all_reduce, 100'000, 9, 0.02);
    }
    void read() {
        for (std::uint32_t rank = 0; rank < count; ++rank) {
            RingNews news;
            news.ring = "ring" + std::to_string(rank);
            news.owner.rank = rank;
            news.owner.ranks = 16;
            news.owner.opened_ns = boot_ns;
            news.gpu = rank;
            news.running = running;
            news.ended = ended;
            news.records = waiting;
            agent.take(std::move(news), now());
        }
        waiting.clear();
        control = agent.control(now());
    }
    void report() {
        read();
        for (Frame& frame : agent.report(now())) said.push_back(std::move(frame));
    }
    void steps(int count_of) {
        for (int i = 0; i < count_of; ++i) {
            step();
            if (i % 16 == 15) report();
        }
        report();
    }
    template <typename T>
    [[nodiscard]] std::vector<T> all() const {
        std::vector<T> list;
        for (const Frame& frame : said)
            if (const T* one = std::get_if<T>(&frame)) list.push_back(*one);
        return list;
    }
    [[nodiscard]] std::vector<Iterations::One> iterations() const {
        std::vector<Iterations::One> list;
        for (const Iterations& told : all<Iterations>())
            list.insert(list.end(), told.done.begin(), told.done.end());
        return list;
    }
};

TEST(it_says_who_is_here_and_how_long_each_iteration_took) {
    Node node;
    node.steps(40);
    assert_text(std::get<AgentHello>(node.said.at(0)).node, "n1");
    const auto here = node.all<RankHere>();
    ck_assert_uint_eq(here.size(), 1);
    ck_assert(here[0].rank == 0 && here[0].ranks == 16 && here[0].gpu == 0);
    const auto done = node.iterations();
    ck_assert_uint_ge(done.size(), 34);
    for (const auto& one : done) ck_assert_int_le(std::abs(one.time_us - 300'000), 300);
    const auto end_ms = static_cast<std::int64_t>((epoch_ns + node.time_ns) / 1'000'000);
    ck_assert_int_le(std::abs(done.back().end_ms - end_ms), 301);
}

TEST(a_slow_step_is_seen_as_it_was) {
    Node node;
    node.steps(30);
    node.said.clear();
    node.step_s = 0.6;
    node.steps(20);
    const auto done = node.iterations();
    ck_assert_uint_ge(done.size(), 19);
    for (std::size_t i = 1; i < done.size(); ++i)
        ck_assert_int_le(std::abs(done[i].time_us - 600'000), 600);
}

TEST(a_chief_that_comes_back_is_told_again) {
    Node node;
    node.steps(20);
    node.said.clear();
    node.steps(5);
    ck_assert(node.all<AgentHello>().empty() && node.all<RankHere>().empty());
    node.agent.connected();
    node.steps(5);
    ck_assert_uint_eq(node.all<AgentHello>().size(), 1);
    ck_assert_uint_eq(node.all<RankHere>().size(), 1);
}

TEST(marks_of_the_program_are_its_steps) {
    Node node;
    for (int i = 0; i < 30; ++i) {
        node.record(Op::step, 2048, 0);
        node.step();
    }
    node.report();
    const auto told = node.all<Iterations>();
    ck_assert_uint_eq(told.size(), 1);
    ck_assert_uint_eq(told[0].done.size(), 29);
    for (const auto& one : told[0].done)
        ck_assert(one.tokens == 2048 && std::abs(one.time_us - 300'000) <= 1);
}

TEST(lost_records_make_no_iteration_of_two) {
    Node node;
    node.steps(20);
    node.said.clear();
    for (int i = 0; i < 3; ++i) node.step();
    node.waiting.clear();
    RingNews lossy;
    lossy.ring = "ring0";
    lossy.owner.opened_ns = boot_ns;
    lossy.lost = 36;
    node.agent.take(lossy, node.now());
    node.steps(20);
    const auto done = node.iterations();
    ck_assert_uint_ge(done.size(), 12);
    for (const auto& one : done) ck_assert_int_le(std::abs(one.time_us - 300'000), 300);
    ck_assert_uint_eq(node.agent.lines().size(), 1);
}

// ---- times of communicators ---------------------------------------------------------------------

/// What five more iterations give: one answer, of three communicators' calls.
GroupTimes times_of_five(Node& node) {
    ck_assert(node.control == Control::profile);
    for (int i = 0; i < 5; ++i) node.steps(4);
    const auto times = node.all<GroupTimes>();
    ck_assert_uint_eq(times.size(), 1);
    ck_assert_uint_eq(times[0].step_s.size(), 5);
    for (const double step_s : times[0].step_s) ck_assert_double_eq_tol(step_s, 0.3, 1e-6);
    ck_assert_uint_eq(times[0].groups.size(), 3);
    for (const double seconds : times[0].groups[0].seconds)
        ck_assert_double_eq_tol(seconds, 0.02, 1e-9);
    return times[0];
}

TEST(profiled_iterations_give_each_communicators_time) {
    Node node;
    node.steps(20);
    node.said.clear();
    node.agent.on(Profile{5}, node.now().steady_s);
    node.read();
    const GroupTimes times = times_of_five(node);
    const auto& largest = times.groups[0];
    assert_text(largest.group, "0000000000000009");
    assert_text(largest.kind, "all_reduce");
    ck_assert_int_eq(largest.bytes, 400'000);
    assert_text(times.groups[1].kind, "all_gather");
    ck_assert_uint_eq(times.groups[1].seconds.size(), 5);
    ck_assert_double_eq_tol(times.groups[1].seconds[2], 8 * 0.002, 1e-9);
    node.read();
    ck_assert(node.control == Control::record);
}

// The first calls of a rank are read after they were made, and nothing had asked for their times.
TEST(iterations_from_before_the_recorder_was_asked_do_not_count) {
    Node node;
    node.agent.on(Profile{5}, node.now().steady_s);
    node.steps(16);
    (void)times_of_five(node);
}

TEST(a_profile_of_a_program_without_steps_ends_empty) {
    Node node;
    node.record(Op::all_reduce, 1, 1);
    node.report();
    node.agent.on(Profile{5}, node.now().steady_s);
    node.time_ns += 899 * second_ns;
    node.report();
    ck_assert(node.all<GroupTimes>().empty() && node.control == Control::profile);
    node.time_ns += 2 * second_ns;
    node.report();
    ck_assert_uint_eq(node.all<GroupTimes>().size(), 1);
    ck_assert(node.all<GroupTimes>()[0].step_s.empty());
    node.agent.on(Profile{5}, node.now().steady_s);
    node.agent.on(Profile{0}, node.now().steady_s);
    node.read();
    ck_assert(node.control == Control::record);
}

// ---- silence ------------------------------------------------------------------------------------

TEST(silence_is_said_once_and_never_of_what_stands_still) {
    Node node;
    node.steps(20);
    node.said.clear();
    const auto wait = [&](int seconds) {
        for (int i = 0; i < seconds; ++i) {
            node.time_ns += second_ns;
            node.report();
        }
    };
    node.running = false;  // suspended
    wait(30);
    ck_assert(node.said.empty());
    node.running = true;
    wait(9);
    ck_assert(node.said.empty());
    wait(30);
    const auto silent = node.all<Silent>();
    ck_assert_uint_eq(silent.size(), 1);
    ck_assert(silent[0].rank == 0 && silent[0].seconds >= 10);
    ck_assert_uint_eq(node.agent.lines().size(), 1);
    node.steps(20);
    wait(20);
    ck_assert_uint_eq(node.all<Silent>().size(), 2);
    ck_assert(node.agent.lines().empty());
}

TEST(long_steps_are_no_silence) {
    Node node;
    node.step_s = 100;  // 20 s between calls
    for (int i = 0; i < 8; ++i) {
        node.step();
        node.report();
    }
    node.said.clear();
    for (int i = 0; i < 100; ++i) {
        node.time_ns += second_ns;
        node.report();
    }
    ck_assert(node.all<Silent>().empty());
}

TEST(stamps_that_cannot_be_are_an_error_and_not_health) {
    for (const std::uint64_t stamp : {std::uint64_t{0}, boot_ns - 1, UINT64_MAX}) {
        Node node;
        node.steps(20);
        node.said.clear();
        for (int i = 0; i < 20; ++i) {
            node.step();
            for (Record& record : node.waiting) record.time_ns = stamp;
            node.report();
            node.time_ns += second_ns;
        }
        ck_assert(node.all<Iterations>().empty());
        ck_assert_uint_eq(node.all<Silent>().size(), 1);
        const auto lines = node.agent.lines();
        ck_assert_uint_eq(lines.size(), 2);
        ck_assert(lines[0].find("cannot be") != std::string::npos);
    }
}

TEST(a_rank_that_has_ended_is_said_to_its_end_and_forgotten) {
    Node node;
    node.steps(20);
    node.said.clear();
    for (int i = 0; i < 4; ++i) node.step();
    node.ended = true;
    node.report();
    ck_assert_uint_ge(node.iterations().size(), 3);
    ck_assert_uint_eq(node.agent.ranks(), 0);
}

TEST(rings_are_read_before_they_overflow) {
    Node node;
    ck_assert_double_le(node.agent.read_within_s(32'768, node.now().steady_s), 0.5);
    node.step_s = 0.012;  // 1,000 calls a second
    for (int i = 0; i < 30; ++i) node.steps(16);
    const double within_s = node.agent.read_within_s(1024, node.now().steady_s);
    ck_assert_double_eq_tol(within_s, 0.256, 0.05);
    ck_assert_double_le(node.agent.read_within_s(1 << 22, node.now().steady_s), 5);
    ck_assert_double_ge(node.agent.read_within_s(64, node.now().steady_s), 0.01);
}

// ---- what it costs ------------------------------------------------------------------------------

/// Hours of steps of 5 ms (2,400 calls a second), of which recording takes a share.
Node costly(double share, double hours) {
    Node node;
    node.step_s = 0.005;
    node.cost_s = share * node.step_s;
    const auto until = node.time_ns + static_cast<std::uint64_t>(hours * 3600 * 1e9);
    for (std::uint64_t at = 0; node.time_ns < until; ++at) {
        // Steps vary by 2 %, as no clock of a test would.
        node.step_s = 0.005 * (1 + 0.02 * std::sin(static_cast<double>(at * at % 1000)));
        node.step();
        const bool due =
            at % 8 == 7 || node.agent.read_within_s(1 << 15, node.now().steady_s) <= 0.01;
        if (due) node.report();
    }
    return node;
}

TEST(what_costs_less_than_a_hundredth_goes_on) {
    const Node node = costly(0.005, 0.1);
    ck_assert(node.all<TooDear>().empty());
}

TEST(what_costs_more_is_thinned_out_and_then_stops) {
    Node some = costly(0.02, 0.1);
    const auto thinned = some.all<TooDear>();
    ck_assert_uint_eq(thinned.size(), 1);
    ck_assert(!thinned[0].stopped);
    ck_assert_double_eq_tol(thinned[0].share, 0.02, 0.004);
    Node much = costly(0.08, 0.5);
    const auto stopped = much.all<TooDear>();
    ck_assert_uint_eq(stopped.size(), 2);
    ck_assert(!stopped[0].stopped && stopped[1].stopped);
    ck_assert_double_eq_tol(stopped[0].share, 0.08, 0.01);
    ck_assert(much.control == Control::pause);
    ck_assert(much.agent.lines().back().find("stops") != std::string::npos);
}

TEST(it_is_measured_only_where_it_could_matter) {
    Node node;  // 40 calls a second
    node.steps(1000);
    ck_assert(node.control == Control::record && node.all<TooDear>().empty());
}

TEST(a_pause_is_counted_in_whole_steps_or_not_at_all) {
    RankWatch::Beat beat;
    beat.last_ns = 10 * second_ns;
    beat.interval_s = 1.02;
    ck_assert_double_eq_tol(*Overhead::share_of_turn(beat, 14 * second_ns, 4), 0.02, 1e-9);
    ck_assert(!Overhead::share_of_turn(beat, 11 * second_ns + second_ns / 2, 4));
    ck_assert(!Overhead::share_of_turn(beat, 9 * second_ns, 4));
    beat.interval_s = 0;
    ck_assert(!Overhead::share_of_turn(beat, 14 * second_ns, 4));
}

// ---- GPUs ---------------------------------------------------------------------------------------

TEST(a_gpu_is_counted_as_slurm_counts_it) {
    ck_assert_int_eq(gpu_index(1, "0,1", "2,3"), 3);  // devices of others are hidden
    ck_assert_int_eq(gpu_index(1, "2,3", "2,3"), 3);
    ck_assert_int_eq(gpu_index(0, "3", "2,3"), 3);  // bound by task
    ck_assert_int_eq(gpu_index(-1, "3", "2,3"), 3);
    ck_assert_int_eq(gpu_index(0, "1", "0,1,2"), 1);
    ck_assert_int_eq(gpu_index(1, "", "2,3"), 3);
    ck_assert_int_eq(gpu_index(1, "0,1", ""), 1);
}

TEST(a_gpu_is_never_guessed) {
    ck_assert_int_eq(gpu_index(-1, "2,3", "2,3"), -1);  // nobody said which
    ck_assert_int_eq(gpu_index(0, "1", "1,2"), -1);     // GPU 1, or the second of the step's
    ck_assert_int_eq(gpu_index(2, "0,1", "2,3"), -1);
    ck_assert_int_eq(gpu_index(0, "GPU-1-2-3", "0"), -1);
    ck_assert_int_eq(gpu_index(-1, "", ""), -1);
    ck_assert_int_eq(gpu_index(0, "", ""), -1);
    ck_assert_int_eq(gpu_index(0, "99999999999999999999", ""), -1);
}

// ---- rings --------------------------------------------------------------------------------------

/// Of jobs that nobody has: rings are machine-wide.
RingOwner owner_of(std::uint32_t rank) {
    RingOwner owner;
    owner.job = (std::uint64_t{1} << 51) + static_cast<std::uint64_t>(::getpid());
    owner.rank = rank;
    owner.pid = static_cast<std::uint32_t>(::getpid());
    owner.uid = ::geteuid();
    owner.pid_started = process_started(owner.pid);
    owner.node = 3;
    return owner;
}

RingFilter filter_of(const RingOwner& owner) {
    return {.uid = owner.uid,
            .run = "",
            .job = owner.job,
            .step = owner.step,
            .life = owner.life,
            .node = owner.node};
}

std::size_t names_of(const RingOwner& owner) {
    const auto paths = find_rings(owner.uid);
    const std::string prefix =
        std::string(ring_folder) + "/" + ring_prefix + std::to_string(owner.job) + ".";
    return static_cast<std::size_t>(
        std::count_if(paths->begin(), paths->end(),
                      [&](const std::string& path) { return path.starts_with(prefix); }));
}

TEST(rings_of_the_step_are_read_and_leave_no_name) {
    ::unsetenv("SLURM_NODEID");
    const Ring one = create_ring(owner_of(0), 64), two = create_ring(owner_of(1), 128);
    RingOwner elsewhere = owner_of(2), another = owner_of(3), before = owner_of(4);
    elsewhere.node = 4;
    another.step = 1;
    before.life = 1;
    for (const RingOwner& owner : {elsewhere, another, before})
        ck_assert(create_ring(owner, 64).header != nullptr);
    ck_assert_uint_eq(names_of(owner_of(0)), 5);
    NodeRings rings(filter_of(owner_of(0)), false);
    Record record;
    record.op = Op::all_reduce;
    write_record(one, record);
    auto news = rings.read(1);
    ck_assert_uint_eq(news.size(), 2);
    ck_assert_uint_eq(news[0].records.size() + news[1].records.size(), 1);
    ck_assert(news[0].running && !news[0].ended);
    ck_assert_uint_eq(names_of(owner_of(0)), 3);
    ck_assert_uint_eq(rings.capacity(), 64);
    rings.set_control(Control::profile);
    ck_assert(one.header->control == Control::profile && two.header->control == Control::profile);
    write_record(two, record);
    news = rings.read(2);
    ck_assert_uint_eq(news[0].records.size() + news[1].records.size(), 1);
    const auto paths = find_rings(::geteuid());
    for (const std::string& path : *paths)
        if (path.find(std::to_string(owner_of(0).job)) != std::string::npos) ::unlink(path.c_str());
}

TEST(the_last_words_of_a_killed_rank_are_read_and_its_ring_goes) {
    RingOwner owner = owner_of(7);
    const Ring ring = create_ring(owner, 64);
    Record record;
    write_record(ring, record);
    ring.header->owner.pid_started += 1;  // as if that process were gone
    for (const bool keep : {false, true}) {
        if (keep) {
            const Ring again = create_ring(owner, 64);
            write_record(again, record);
            again.header->owner.pid_started += 1;
        }
        NodeRings rings(filter_of(owner), keep);
        const auto news = rings.read(1);
        ck_assert_uint_eq(news.size(), 1);
        ck_assert(news[0].ended && news[0].records.size() == 1);
        ck_assert(rings.empty() && rings.found() == 1);
        ck_assert_uint_eq(names_of(owner), 0);
    }
}

}  // namespace
