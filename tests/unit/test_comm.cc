// SPDX-License-Identifier: GPL-2.0-or-later
// arena-profiler comm without NCCL: which groups, which sizes, the statistics, what all ranks must
// agree on, who the ranks are. The communicator of these tests talks to nobody: its times are a
// script.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <stdexcept>

#include "ipc/child.h"
#include "profiler/comm/comm_bench.h"
#include "profiler/comm/comm_command.h"
#include "profiler/comm/host_ranks.h"
#include "profiler/comm/launcher.h"
#include "profiler/comm/node_span.h"
#include "profiler/comm/thread_transport.h"
#include "suite.h"

namespace {

using namespace arena;
using arena::test::assert_refused;
using arena::test::assert_text;
using arena::test::must;

/// 1 ms for anything, or what `seconds` says of the n-th execution; writes down every call.
class ScriptedCommunicator final : public Communicator {
  public:
    Device device() const override { return {}; }
    void regroup(std::int64_t group) override {
        group_ = group;
        calls.push_back("regroup");
    }
    double execute(CommOp op, std::int64_t bytes, std::int64_t times) override {
        ck_assert_msg(group_ >= 0, "a rank without a group was asked to execute");
        executed.push_back({op, bytes, times});
        return seconds(++executions_) * static_cast<double>(times);
    }
    std::vector<double> largest(const std::vector<double>& numbers) override {
        for (const double x : numbers) ck_assert(std::isfinite(x));
        calls.push_back("largest " + std::to_string(numbers.size()));
        return agree(numbers);
    }

    struct Execution {
        CommOp op;
        std::int64_t bytes, times;
    };
    std::function<double(int)> seconds = [](int) { return 1e-3; };
    std::function<std::vector<double>(std::vector<double>)> agree = [](auto numbers) {
        return numbers;
    };
    std::vector<std::string> calls;
    std::vector<Execution> executed;

  private:
    std::int64_t group_ = -1;
    int executions_ = 0;
};

CommQuery small_query() {
    CommQuery q;
    q.gpu_type = "a100";
    q.ops = {CommOp::all_reduce};
    q.placements = {{4, 1, 1}};
    q.min_bytes = 1024;
    q.max_bytes = 4096;
    return q;
}

struct Run {
    ScriptedCommunicator communicator;
    CommWorld world{0, 1, 4};
    CommQuery query = small_query();
    double clock_s = 0, tick_s = 0;  ///< the clock moves at each look
    bool is_stopped = false;
    std::vector<CommTime> times;

    CommOutcome operator()() {
        CommHooks hooks;
        hooks.now = [this] { return clock_s += tick_s; };
        hooks.is_stopped = [this] { return is_stopped; };
        hooks.on_time = [this](const CommTime& t) { times.push_back(t); };
        return measure_comm(communicator, world, query, hooks);
    }
};

std::string text_of(const std::vector<CommPlacement>& all) {
    std::string text;
    for (const CommPlacement& p : all)
        text += std::to_string(p.ranks) + "x" + std::to_string(p.nodes) + "x" +
                std::to_string(p.groups) + " ";
    return text;
}

TEST(all_groups_that_make_sense_are_measured) {
    assert_text(text_of(all_placements({0, 1, 8})), "2x1x1 2x1x4 4x1x1 4x1x2 8x1x1 ");
    assert_text(text_of(all_placements({0, 1, 6})), "2x1x1 2x1x3 4x1x1 6x1x1 ");
    assert_text(text_of(all_placements({0, 2, 4})),
                "2x1x1 2x1x2 4x1x1 2x2x1 2x2x4 4x2x1 4x2x2 8x2x1 ");
    assert_text(text_of(all_placements({0, 3, 1})), "2x2x1 3x3x1 ");
    assert_text(text_of(all_placements({0, 1, 1})), "");
}

TEST(each_group_of_a_placement_has_its_ranks_on_its_nodes) {
    for (const CommPlacement& p : all_placements({0, 4, 8})) {
        std::map<std::int64_t, std::map<std::int64_t, std::int64_t>> members;  // group, node
        for (std::int64_t rank = 0; rank < 32; ++rank) {
            const CommWorld world{rank, 4, 8};
            if (const std::int64_t group = group_of(world, p); group >= 0)
                ++members[group][world.node()];
        }
        ck_assert_int_eq(static_cast<int>(members.size()), static_cast<int>(p.groups));
        for (const auto& [group, nodes] : members) {
            ck_assert_int_eq(static_cast<int>(nodes.size()), static_cast<int>(p.nodes));
            for (const auto& [node, ranks] : nodes) ck_assert_int_eq(ranks * p.nodes, p.ranks);
        }
    }
}

/// As Slurm tells each task of its node.
NodePlace place_of(const char* address, const char* pattern) {
    return place_of_node([&](const char* name) {
        return std::string_view(name) == "SLURM_TOPOLOGY_ADDR" ? address : pattern;
    });
}

TEST(tables_say_how_far_apart_slurm_says_that_nodes_lie) {
    const char* tree = "switch.switch.node";
    const auto spans = [](const std::vector<NodePlace>& places, bool domains = false) {
        return spans_of_nodes(places, domains);
    };
    const NodePlace a1 = place_of("p0.l1.n1", tree), a2 = place_of("p0.l1.n2", tree),
                    b = place_of("p0.l2.n3", tree), c = place_of("p1.l1.n4", tree);
    ck_assert(a1 == a2 && a1.leaf != b.leaf && a1.pod == b.pod && a1.leaf != c.leaf);
    ck_assert(
        (spans({a1, a2, b, c, a1}) == std::vector{CommSpan::leaf, CommSpan::leaf, CommSpan::pod,
                                                  CommSpan::pods, CommSpan::pods}));
    const NodePlace x = place_of("b1.n1", "block.node"), y = place_of("b2.n2", "block.node");
    ck_assert(
        (spans({x, x, y}, true) == std::vector{CommSpan::domain, CommSpan::domain, CommSpan::pod}));
    ck_assert((spans({x, x, y}) == std::vector{CommSpan::leaf, CommSpan::leaf, CommSpan::pod}));
    const NodePlace flat = place_of("n1", "node"), none = place_of(nullptr, nullptr);
    ck_assert(flat.leaf == 0 && none.leaf == 0 && spans({a1, flat}).empty());
    const NodePlace top = place_of("l1.n1", "switch.node"),
                    other = place_of("l2.n2", "switch.node");
    ck_assert((spans({top, other}) == std::vector{CommSpan::leaf, CommSpan::pods}));

    Run run;
    run.world = {0, 2, 2};
    run.query.placements = {{2, 1, 1}, {4, 2, 1}};
    run.query.spans = {CommSpan::leaf, CommSpan::pod};
    ck_assert_uint_eq(run().measured, run.times.size());
    for (const CommTime& t : run.times)
        ck_assert(t.span == (t.nodes == 1 ? CommSpan::unsaid : CommSpan::pod));
}

TEST(sizes_are_rounded_as_nccl_tests_does) {
    ck_assert_int_eq(usable_bytes(CommOp::all_reduce, 1000, 3), 992);
    ck_assert_int_eq(usable_bytes(CommOp::send, 16, 2), 16);
    ck_assert_int_eq(usable_bytes(CommOp::all_gather, 1024, 3), 1008);
    ck_assert_int_eq(usable_bytes(CommOp::reduce_scatter, 1024, 8), 1024);
    ck_assert_int_eq(usable_bytes(CommOp::all_to_all, 1024, 128), 0);
}

TEST(statistics_are_least_median_and_nearest_rank_95) {
    const SampleStatistics one = statistics_of({3});
    ck_assert(one.min == 3 && one.median == 3 && one.p95 == 3);
    const SampleStatistics even = statistics_of({4, 1, 3, 2});
    ck_assert(even.min == 1 && even.median == 2.5 && even.p95 == 4);
    std::vector<double> hundred;
    for (int i = 100; i > 0; --i) hundred.push_back(i);
    const SampleStatistics s = statistics_of(hundred);
    ck_assert(s.min == 1 && s.median == 50.5 && s.p95 == 95);
    ck_assert(statistics_of(std::vector<double>(20, 7)).p95 == 7);
    std::vector<double> twenty{0,  1,  2,  3,  4,  5,  6,  7,  8,  9,
                               10, 11, 12, 13, 14, 15, 16, 17, 18, 99};
    ck_assert(statistics_of(twenty).p95 == 18);
}

/// https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md
TEST(bus_bandwidth_is_that_of_nccl_tests) {
    const auto busbw = [](CommOp op, std::int64_t ranks) {
        return bus_bytes_per_s({"a100", op, ranks, 1, 1, 1000, 1, 1, 1});
    };
    ck_assert_double_eq_tol(busbw(CommOp::all_reduce, 4), 1500, 1e-9);
    ck_assert_double_eq_tol(busbw(CommOp::all_gather, 4), 750, 1e-9);
    ck_assert_double_eq_tol(busbw(CommOp::reduce_scatter, 4), 750, 1e-9);
    ck_assert_double_eq_tol(busbw(CommOp::all_to_all, 8), 875, 1e-9);
    ck_assert_double_eq_tol(busbw(CommOp::send, 2), 1000, 1e-9);
}

TEST(every_size_gets_a_row_with_the_scripted_time) {
    Run run;
    run.communicator.seconds = [](int n) { return n % 27 == 5 ? 3e-3 : 2e-3; };  // 2 + 25 a size
    const CommOutcome outcome = run();
    ck_assert_uint_eq(outcome.wanted, 3);
    ck_assert_uint_eq(outcome.measured, 3);
    assert_text(outcome.reason, "");
    ck_assert_uint_eq(run.times.size(), 3);
    std::int64_t bytes = 1024;
    for (const CommTime& t : run.times) {
        ck_assert_int_eq(t.bytes, bytes);
        ck_assert(t.ranks == 4 && t.nodes == 1 && t.groups == 1 && t.gpu_type == "a100");
        ck_assert_double_eq_tol(t.min_s, 2e-3, 1e-12);
        ck_assert_double_eq_tol(t.median_s, 2e-3, 1e-12);
        bytes *= 2;
    }
    const auto read = must(parse_comm_csv(to_csv(run.times), "", ""));
    ck_assert_uint_eq(read.size(), 3);
}

TEST(short_collectives_are_timed_many_at_once_after_a_warm_up) {
    Run run;
    run.query.max_bytes = 1024;
    run.communicator.seconds = [](int n) {
        return n == 1 ? 1.0 : 1e-5;
    };  // the first builds connections
    ck_assert_uint_eq(run().measured, 1);
    const auto& all = run.communicator.executed;
    ck_assert_uint_eq(all.size(), 27);
    ck_assert_int_eq(all[0].times, 1);
    ck_assert_int_eq(all[1].times, 1);
    for (std::size_t i = 2; i < all.size(); ++i) ck_assert_int_eq(all[i].times, 50);
    ck_assert_double_eq_tol(run.times.at(0).p95_s, 1e-5, 1e-12);
}

TEST(the_time_of_the_slowest_rank_counts) {
    Run run;
    run.query.max_bytes = 1024;
    run.communicator.agree = [](std::vector<double> numbers) {
        if (numbers.size() == 4)
            numbers[0] = std::max(numbers[0], 5e-3);  // another rank needed longer
        return numbers;
    };
    run();
    ck_assert_double_eq_tol(run.times.at(0).median_s, 5e-3, 1e-12);
}

/// With the same answers every rank must make the same calls, or one waits for another for ever.
TEST(all_ranks_take_the_same_steps_whether_they_are_in_a_group_or_not) {
    std::vector<std::string> first;
    for (std::int64_t rank = 0; rank < 8; ++rank) {
        Run run;
        run.world = {rank, 2, 4};
        run.query.placements = all_placements(run.world);
        run.query.ops = {CommOp::all_reduce, CommOp::all_to_all, CommOp::send};
        run.communicator.agree = [n = 0](std::vector<double> numbers) mutable {
            if (numbers.size() == 4) numbers = {1e-4 + 1e-6 * (n++ % 7), 0, 0, numbers[3]};
            return numbers;
        };
        const CommOutcome outcome = run();
        ck_assert_uint_eq(outcome.measured, outcome.wanted);
        if (rank == 0) first = run.communicator.calls;
        ck_assert_msg(run.communicator.calls == first, "rank %d took other steps",
                      static_cast<int>(rank));
    }
    ck_assert_uint_gt(first.size(), 1000);
}

TEST(a_send_is_measured_between_two_only) {
    Run run;
    run.query.ops = {CommOp::send};
    run.query.placements = {{2, 1, 1}, {4, 1, 1}, {2, 1, 2}};
    ck_assert_uint_eq(run().measured, 6);
    for (const CommTime& t : run.times) ck_assert_int_eq(t.ranks, 2);
}

TEST(the_budget_ends_the_run_and_keeps_what_was_measured) {
    Run run;
    run.tick_s = 1;
    run.query.budget_s = 12;
    const CommOutcome outcome = run();
    ck_assert_uint_eq(outcome.wanted, 3);
    ck_assert_uint_gt(outcome.measured, 0);
    ck_assert_uint_lt(outcome.measured, 3);
    ck_assert_uint_eq(run.times.size(), outcome.measured);
    assert_text(outcome.reason, "the budget of 12 s ended");
    for (const auto& e : run.communicator.executed) ck_assert_int_le(e.bytes, 4096);
}

TEST(one_rank_that_is_told_to_stop_stops_all) {
    Run run;
    run.communicator.agree = [n = 0](std::vector<double> numbers) mutable {
        if (numbers.size() == 4 && ++n == 40) numbers[2] = 1;  // Ctrl-C reached another rank
        return numbers;
    };
    const CommOutcome outcome = run();
    ck_assert_uint_eq(outcome.measured, 1);
    assert_text(outcome.reason, "stopped by a signal");
}

TEST(a_broken_timer_costs_its_size_only_and_never_reaches_a_table) {
    for (const double broken : {std::numeric_limits<double>::quiet_NaN(), 0.0, -1.0,
                                std::numeric_limits<double>::infinity()}) {
        Run run;
        run.communicator.seconds = [broken](int n) { return n == 30 ? broken : 1e-3; };
        const CommOutcome outcome = run();
        ck_assert_uint_eq(outcome.measured, 2);
        ck_assert_msg(outcome.reason.find("no usable time for all_reduce") != std::string::npos,
                      "%s", outcome.reason.c_str());
    }
}

TEST(a_failing_library_ends_the_run_with_its_sentence) {
    Run run;
    run.communicator.seconds = [](int n) -> double {
        if (n == 30) throw std::runtime_error("NCCL: all-reduce: remote process exited");
        return 1e-3;
    };
    const CommOutcome outcome = run();
    ck_assert_uint_eq(outcome.measured, 1);
    ck_assert(outcome.has_failed);
    assert_text(outcome.reason, "NCCL: all-reduce: remote process exited");
}

TEST(sizes_and_placements_are_read_or_refused_with_a_sentence) {
    ck_assert_int_eq(parse_size("1K", "").value(), 1024);
    ck_assert_int_eq(parse_size("32m", "").value(), 32 << 20);
    ck_assert_int_eq(parse_size("1G", "").value(), 1 << 30);
    ck_assert_int_eq(parse_size("7", "").value(), 7);
    for (const char* bad : {"", "K", "0", "-1", "1T", "1.5K", "2000000000000000000G"})
        assert_refused(parse_size(bad, "--min-bytes"), "--min-bytes: must be bytes");
    const CommWorld world{0, 2, 4};
    ck_assert(parse_placement("4", world).value() == CommPlacement({4, 1, 1}));
    ck_assert(parse_placement("8x2", world).value() == CommPlacement({8, 2, 1}));
    ck_assert(parse_placement("2x1x2", world).value() == CommPlacement({2, 1, 2}));
    for (const char* bad : {"", "1", "x", "2x", "3x2", "2x1x1x1", "a"})
        assert_refused(parse_placement(bad, world), "must be RANKS");
    for (const char* bad : {"8", "6x3", "2x1x3", "8x2x2"})
        assert_refused(parse_placement(bad, world), "has no room");
}

TEST(a_query_is_checked_before_a_gpu_is_touched) {
    const CommWorld world{0, 1, 4};
    CommCommand good;
    good.gpu_type = "h100";
    const auto query = must(query_of(good, world));
    ck_assert_uint_eq(query.ops.size(), 5);
    ck_assert_uint_eq(query.placements.size(), 3);
    const auto with = [&](auto change) {
        CommCommand c = good;
        change(c);
        return query_of(c, world);
    };
    assert_refused(with([](auto& c) { c.gpu_type = "a,b"; }),
                   "--gpu-type: gpu_type must be a name");
    assert_refused(with([](auto& c) { c.ops = {"broadcast"}; }), "--ops: accepted are all_reduce");
    assert_refused(with([](auto& c) { c.min_bytes = "2G"; }), "--min-bytes: is more than");
    assert_refused(with([](auto& c) { c.factor = 1; }), "--factor: must be");
    assert_refused(with([](auto& c) { c.budget_s = 0; }), "--budget: must be");
    assert_refused(with([](auto& c) { c.timeout_s = std::nan(""); }), "--timeout: must be");
}

Lookup environment(std::map<std::string, std::string> values) {
    return [values = std::move(values)](const char* name) -> const char* {
        const auto at = values.find(name);
        return at == values.end() ? nullptr : at->second.c_str();
    };
}

TEST(ranks_come_from_a_launcher_where_one_started_several) {
    const auto launched = [](std::map<std::string, std::string> values) {
        return is_launched(environment(std::move(values)));
    };
    ck_assert(!launched({}).value());
    ck_assert(!launched({{"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"}}).value());
    ck_assert(!launched({{"SLURM_STEP_NUM_TASKS", "1"}, {"PMIX_RANK", "0"}}).value());
    ck_assert(launched({{"SLURM_STEP_NUM_TASKS", "8"}, {"PMIX_RANK", "5"}}).value());
    ck_assert(launched({{"OMPI_COMM_WORLD_SIZE", "2"}}).value());
    // mpirun's daemons are tasks of srun; its ranks are its own
    ck_assert(!launched({{"OMPI_COMM_WORLD_SIZE", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}}).value());
    assert_refused(launched({{"SLURM_STEP_NUM_TASKS", "8"}}), "srun --mpi=pmix");
    assert_refused(launched({{"SLURM_STEP_NUM_TASKS", "8"}, {"PMI_RANK", "0"}}), "srun --mpi=pmix");
}

TEST(ranks_know_their_place_from_their_nodes_first_ranks) {
    ck_assert(world_of(5, {0, 0, 0, 0, 4, 4, 4, 4}).value() == CommWorld({5, 2, 4}));
    ck_assert(world_of(0, {0}).value() == CommWorld({0, 1, 1}));
    ck_assert(world_of(1, {0, 1}).value() == CommWorld({1, 2, 1}));
    for (const std::vector<int>& bad : {std::vector<int>{0, 0, 0, 3},
                                        {0, 1, 0, 1},
                                        {0, 0, 2, 3},
                                        {0, 1, 1, 3},
                                        {0, 0, 2},
                                        {1, 1},
                                        {}})
        assert_refused(world_of(0, bad), "the same number of ranks on each node, in blocks");
}

TEST(threads_of_a_group_compute_what_mpi_defines) {
    constexpr std::size_t floats = 12;
    const int code = run_in_threads(6, [](Transport& transport) {
        std::vector<float> send(floats), receive(floats);
        const int rank = transport.rank(), place = rank / 2;  // in groups of 0, 2, 4 and 1, 3, 5
        for (std::size_t i = 0; i < floats; ++i)
            send[i] = static_cast<float>(100 * rank + static_cast<int>(i));
        transport.regroup(rank % 2);
        const auto does = [&](CommOp op, auto expected, std::size_t count) {
            transport.collective(op, send.data(), receive.data(), floats);
            for (std::size_t i = 0; i < count; ++i)
                if (receive[i] != static_cast<float>(expected(static_cast<int>(i)))) return false;
            return true;
        };
        const auto of = [&](int member, int i) { return 100 * (2 * member + rank % 2) + i; };
        const auto sum = [&](int i) { return of(0, i) + of(1, i) + of(2, i); };
        bool good = does(CommOp::all_reduce, sum, floats);
        good &= does(
            CommOp::all_gather, [&](int i) { return of(i / 4, i % 4); }, floats);
        good &= does(
            CommOp::reduce_scatter, [&](int i) { return sum(4 * place + i); }, 4);
        good &= does(
            CommOp::all_to_all, [&](int i) { return of(i / 4, 4 * place + i % 4); }, floats);
        good &= does(
            CommOp::send, [&](int i) { return of((place + 2) % 3, i); }, floats);
        double most = rank;
        transport.largest({&most, 1});
        std::string word = rank == 0 ? "id" : "??";
        transport.broadcast(word);
        return good && most == 5 && word == "id" ? 0 : 1;
    });
    ck_assert_int_eq(code, 0);
}

TEST(a_thread_that_fails_ends_those_that_wait_for_it) {
    const int code = run_in_threads(3, [](Transport& transport) {
        if (transport.rank() == 1) {
            transport.give_up(3);
            return 3;
        }
        try {
            transport.regroup(0);
        } catch (const std::runtime_error& error) {
            const bool is_told = error.what() == std::string("rank 1 has failed");
            return is_told && transport.lost() == error.what() ? 1 : 4;
        }
        return 5;
    });
    ck_assert_int_eq(code, 3);
}

TEST(a_rank_that_is_waited_for_too_long_ends_the_run) {
    const auto wait = [] {
        run_in_threads(2, [](Transport& transport) {
            if (transport.rank() == 1) ::pause();
            HostRanks ranks(transport, {0, 1, 2}, 0.01);
            ranks.largest({0});
            return 0;
        });
    };
    auto child = start_copy({}, [&](CopyEnds&) {
        wait();
        return 0;
    });
    ck_assert(child.ok());
    ck_assert_int_eq(child->wait().status, 3);
}

}  // namespace
