// SPDX-License-Identifier: GPL-2.0-or-later
// The rule of a slow link: what its file says, and how long each kind of call is held up by it.
#include <cmath>
#include <string>

#include "suite.h"
#include "tests/lab/inject/slow_link_rule.h"

using namespace arena::inject;
using arena::watch::Op;

namespace {

double held(LinkCall call, SlowLink link = {.a = 1, .b = 2, .delay_us = 100, .bytes_per_s = 1000}) {
    return held_up_us(link, call);
}

void assert_held(LinkCall call, double us) {
    const double got = held(call);
    ck_assert_msg(std::abs(got - us) < 1e-6, "%g is not %g", got, us);
}

}  // namespace

TEST(a_rule_is_read_as_slow_link_writes_it) {
    const SlowLink whole{.a = 1, .b = 30, .delay_us = 20000, .bytes_per_s = 1048576};
    ck_assert(parse_slow_link("ranks=1,30 delay_us=20000 bytes_per_s=1048576\n") == whole);
    ck_assert(parse_slow_link("ranks=1,30 delay_us=5") ==
              (SlowLink{.a = 1, .b = 30, .delay_us = 5}));
    ck_assert(parse_slow_link("ranks=0,1 bytes_per_s=7") ==
              (SlowLink{.a = 0, .b = 1, .bytes_per_s = 7}));
}

TEST(what_is_no_rule_slows_nothing) {
    for (const char* text :
         {"", "\n", "ranks=", "ranks=1", "ranks=1,1 delay_us=5", "ranks=1,2x", "ranks=1,-2",
          "ranks=1,2 delay_us=", "ranks=1,2 delay_us=100000001", "ranks=1,2 delay_us=5 ",
          "ranks=1,2 delay_us=5\n\n", "ranks=99999999999999999999,2", " ranks=1,2"})
        ck_assert_msg(parse_slow_link(text) == SlowLink{}, "%s", text);
    ck_assert(parse_slow_link("ranks=1,2" + std::string(300, ' ')) == SlowLink{});
}

TEST(a_message_is_held_up_by_its_sender_alone) {
    assert_held({.op = Op::send, .bytes = 500, .aux = 3, .me = 0, .other = 3, .ranks = 4},
                100 + 500e3);
    assert_held({.op = Op::send, .bytes = 500, .aux = 2, .me = 0, .other = 3, .ranks = 4}, 0);
    assert_held({.op = Op::recv, .bytes = 500, .aux = 3, .me = 0, .other = 3, .ranks = 4}, 0);
}

TEST(a_collective_pays_for_the_share_of_a_ring) {
    assert_held({.op = Op::all_reduce, .bytes = 1000, .me = 0, .other = 3, .ranks = 4},
                100 + 1.5e6);
    assert_held({.op = Op::all_reduce, .bytes = 1000, .me = 0, .other = 1, .ranks = 2}, 100 + 1e6);
    assert_held({.op = Op::all_reduce, .bytes = 1000, .me = 0, .other = 2, .ranks = 4}, 0);
    assert_held({.op = Op::all_gather, .bytes = 1000, .me = 1, .other = 2, .ranks = 4}, 100 + 3e6);
    assert_held({.op = Op::barrier, .bytes = 0, .me = 1, .other = 2, .ranks = 4}, 100);
    assert_held({.op = Op::all_to_all, .bytes = 1000, .me = 0, .other = 2, .ranks = 4}, 100 + 1e6);
}

TEST(a_collective_with_a_root_pays_where_the_root_is_one_of_the_two) {
    assert_held({.op = Op::bcast, .bytes = 1000, .aux = 0, .me = 0, .other = 2, .ranks = 4},
                100 + 1e6);
    assert_held({.op = Op::gather, .bytes = 1000, .aux = 2, .me = 0, .other = 2, .ranks = 4},
                100 + 1e6);
    assert_held({.op = Op::reduce, .bytes = 1000, .aux = 1, .me = 0, .other = 2, .ranks = 4}, 0);
}
