// SPDX-License-Identifier: GPL-2.0-or-later
// Tables of collectives: both forms of columns, bus bandwidth as nccl-tests computes it, and what
// is refused with which words.
#include "core/comm_table.h"
#include "core/profile.h"
#include "suite.h"

using namespace arena;
using arena::test::assert_refused;
using arena::test::assert_text;
using arena::test::must;

namespace {

const char* artifact =
    "table,gpu_type,num_nodes,gpus_per_node,infiniband,op,group_size,hosts_crossed,concurrent_"
    "groups,"
    "elements_f32,bytes,time_s\n"
    "one,a100,1,2,0,send,2,1,1,1,4,9e-04\n"
    "one,a100,1,2,0,all-reduce,2,1,1,1,4,3.4e-05\n"
    "one,a100,1,2,0,send,2,1,1,1,4,2e-05\r\n"
    "two,a100,2,4,0,all-reduce,8,2,1,1,4,5e-05\n\n";

CommTime all_reduce() { return {"h100", CommOp::all_reduce, 8, 1, 1, 1 << 30, 4e-3, 5e-3, 6e-3}; }

}  // namespace

TEST(artifact_table_is_read_and_the_faster_of_two_rows_stays) {
    const auto one = must(parse_comm_csv(artifact, "", "one"));
    ck_assert_uint_eq(one.size(), 2);
    ck_assert(one[0] == (CommTime{"a100", CommOp::send, 2, 1, 1, 4, 2e-5, 2e-5, 2e-5}));
    ck_assert(one[1].op == CommOp::all_reduce);
    const auto two = must(parse_comm_csv(artifact, "x", "two"));
    ck_assert_uint_eq(two.size(), 1);
    assert_text(two[0].gpu_type, "x");
}

TEST(own_table_comes_back_as_it_was) {
    CommTime send{"h100", CommOp::send, 2, 2, 4, 1024, 1.5e-5, 2e-5, 2.25e-5};
    const std::vector<CommTime> times{all_reduce(), send};
    ck_assert(must(parse_comm_csv(to_csv(times), "", "")) == times);
}

TEST(a_table_says_how_far_apart_its_nodes_lie) {
    std::vector<CommTime> times{all_reduce()};
    for (const CommSpan span :
         {CommSpan::unsaid, CommSpan::leaf, CommSpan::pod, CommSpan::pods, CommSpan::domain}) {
        CommTime t{"h100", CommOp::all_reduce, 8, 2, 1, 1024, 1e-5, 2e-5, 3e-5};
        t.span = span;
        times.push_back(t);
    }
    const std::string csv = to_csv(times);
    ck_assert(must(parse_comm_csv(csv, "", "")) == times);
    ck_assert_msg(csv.find(",node\n") != std::string::npos, "%s", csv.c_str());
    ck_assert_msg(csv.find(",pod\n") != std::string::npos, "%s", csv.c_str());
    const std::string head = "gpu_type,op,ranks,nodes,span,groups,bytes,median_s\n";
    assert_refused(parse_comm_csv(head + "x,all_reduce,8,2,rack,1,1024,2e-5\n", "", ""),
                   "span must be node (of one node), leaf, pod, pods, domain or nothing");
    assert_refused(parse_comm_csv(head + "x,all_reduce,8,2,node,1,1024,2e-5\n", "", ""),
                   "span must be");
    assert_refused(parse_comm_csv(head + "x,all_reduce,8,1,leaf,1,1024,2e-5\n", "", ""),
                   "a group on one node has no span");
}

TEST(bus_bandwidth_is_that_of_nccl_tests) {
    CommTime t = all_reduce();
    const double algorithm = static_cast<double>(t.bytes) / t.median_s;
    ck_assert_double_eq_tol(bus_bytes_per_s(t), algorithm * 14 / 8, 1);
    for (const CommOp op : {CommOp::all_gather, CommOp::reduce_scatter, CommOp::all_to_all}) {
        t.op = op;
        ck_assert_double_eq_tol(bus_bytes_per_s(t), algorithm * 7 / 8, 1);
    }
    t.op = CommOp::send;
    ck_assert_double_eq_tol(bus_bytes_per_s(t), algorithm, 1);
}

TEST(bad_tables_are_refused_with_line_and_words) {
    const std::string head = "gpu_type,op,ranks,nodes,groups,bytes,min_s,median_s,p95_s\n";
    const std::string good = "h100,all_reduce,8,1,1,1024,1e-5,2e-5,3e-5\n";
    const auto refused = [&](const std::string& row, const std::string& words) {
        const auto r = parse_comm_csv(head + good + row, "", "");
        assert_refused(r, words);
        ck_assert_msg(r.error().message().find("line 3") != std::string::npos, "%s",
                      r.error().message().c_str());
    };
    refused("h100,all_sing,8,1,1,2048,1e-5,2e-5,3e-5\n", "op must be");
    refused("h100,all_reduce,8,3,1,2048,1e-5,2e-5,3e-5\n", "multiple of nodes");
    refused("h100,all_reduce,1,1,1,2048,1e-5,2e-5,3e-5\n", "ranks must be");
    refused("h100,all_reduce,8,1,0,2048,1e-5,2e-5,3e-5\n", "groups must be");
    refused("h100,all_reduce,8,1,1,-4,1e-5,2e-5,3e-5\n", "bytes must be");
    refused("h100,all_reduce,8,1,1,2048,3e-5,2e-5,3e-5\n", "min <= median <= p95");
    refused("h100,all_reduce,8,1,1,2048,1e-5,nan,3e-5\n", "seconds must be");
    refused("h100,all_reduce,8,1,1,2048\n", "seconds must be");
    refused("h 100,all_reduce,8,1,1,2048,1e-5,2e-5,3e-5\n", "gpu_type must be");
    refused(std::string(5000, 'x') + "\n", "longer than 4096");
    assert_refused(parse_comm_csv("", "", ""), "has no column 'op'");
    assert_refused(parse_comm_csv(head, "", ""), "has no row");
    assert_refused(parse_comm_csv(artifact, "", "three"), "no such table; it has: one, two");
    std::string two = artifact;
    two += "two,a100,1,2,0,send,2,1,1,1,4,2e-05\n";
    assert_refused(parse_comm_csv(two, "", ""), "choose one with --table: one, two");
}

TEST(progress_is_read_exactly_or_not_at_all) {
    const ProfileProgress p{12, 40, 31.5, 58.25};
    const auto back = must(parse_progress(to_text(p)));
    ck_assert(back.done == 12 && back.total == 40 && back.spent_s == 31.5);
    assert_text(short_form(p), "12/40, about 1 min");
    assert_text(short_form({1, 3, 1, 12.4}), "1/3, about 12 s");
    assert_text(short_form({1, 3, 1, 200}), "1/3, about 3 min");
    for (const char* bad :
         {"", "arena-progress 1 12 40 31.5 58.2", "arena-progress 2 12 40 31.5 58.2\n",
          "arena-progress 1 41 40 31.5 58.2\n", "arena-progress 1 12 40 nan 58.2\n",
          "arena-progress 1 -1 40 1 1\n", "arena-progress 1 12 40 31.5\n",
          "arena-progress 1 12 40 31.5 58.2 x\n", "arena-progress 1 12 40 1e9 1\n"})
        ck_assert_msg(!parse_progress(bad).ok(), "%s was accepted", bad);
    ck_assert(!parse_progress("arena-progress 1 " + std::string(200, '1') + " 1 1 1\n").ok());
}
