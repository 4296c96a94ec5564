// SPDX-License-Identifier: GPL-2.0-or-later
// What an array is made of, each by itself: states that are fetched ahead, without allocation;
// orders by measured times; what members and array say to each other, and over which wire.
#include <sys/socket.h>
#include <sys/stat.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "array/search/solve.h"
#include "array_members.h"
#include "counted_new.h"
#include "train/array/states.h"
#include "train/array/timetable.h"
#include "train/members/attach.h"
#include "train/members/serving_desk.h"

using namespace arena;
using namespace arena::train;
using namespace arena::train::test;
using arena::test::allocations;

namespace {

// ---- copies ------------------------------------------------------------------------------------

/// Notes what it is asked for. One mark is never reached, one copy fails.
struct ScriptedLane final : CopyLane {
    explicit ScriptedLane(std::string& said) : said_(said) {}
    void mark(std::size_t i) override { said_ += "m" + std::to_string(i); }
    void copy_in(std::size_t i, const void* host, std::size_t bytes, void* to,
                 const std::stop_token& stop) override {
        while (i == never_reached && !stop.stop_requested())
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        if (i == never_reached) return;
        if (bytes == 0) throw std::runtime_error("the lane is broken");
        std::memcpy(to, host, bytes);
    }
    void copy_out(std::size_t i, const void* from, std::size_t bytes, void* host,
                  const std::stop_token& stop) override {
        copy_in(i, from, bytes, host, stop);
    }
    void pin(void*, std::size_t) override { said_ += "p"; }
    void unpin(void*) override { said_ += "u"; }
    void look_after_others(double) override {}
    static constexpr std::size_t never_reached = 3;
    std::string& said_;
};

TEST(copies_of_a_lane_come_after_their_marks_and_a_failure_is_told) {
    const auto device = make_cpu_device(1);
    std::string said;
    const auto mover = make_mover(*device, std::make_unique<ScriptedLane>(said), 3);
    int host = 7, there = 0, back = 0;
    mover->begin({StateMover::Way::in, &there, &host, sizeof host});
    const auto last = mover->begin({StateMover::Way::out, &there, &back, sizeof back});
    mover->wait(last);
    ck_assert_int_eq(back, 7);
    mover->forget(&host);
    ck_assert_str_eq(said.c_str(), "pm0pm1u");
    const auto broken = mover->begin({StateMover::Way::in, &there, &host, 0});
    for (const bool again : {false, true}) {
        std::string why;
        try {
            mover->wait(broken);
        } catch (const std::runtime_error& error) {
            why = error.what();
        }
        ck_assert_msg(why == "the lane is broken", "%d: %s", again, why.c_str());
    }
    ck_assert(!mover->is_done(broken));
}

TEST(a_copy_whose_mark_is_never_reached_is_given_up_with_its_mover) {
    const auto device = make_cpu_device(1);
    std::string said;
    int host = 7, there = 0;
    {
        const auto mover = make_mover(*device, std::make_unique<ScriptedLane>(said), 4);
        for (int i = 0; i < 4; ++i) mover->begin({StateMover::Way::in, &there, &host, sizeof host});
    }
    ck_assert_str_eq(said.c_str(), "pm0m1m2m3");
}

// ---- states ------------------------------------------------------------------------------------

/// Three members of a stage, each with values of its own.
struct Homes {
    std::unique_ptr<Device> device = make_cpu_device(1);
    std::vector<std::unique_ptr<HomeState>> all;
    Homes() {
        for (int i = 0; i < 3; ++i) {
            all.push_back(
                std::make_unique<HomeState>(sibling_gpt(), stages_of({4}), Place{}, *device));
            std::ranges::fill(all.back()->parameters.weights(), static_cast<float>(i));
            std::ranges::fill(all.back()->second, static_cast<float>(10 * i));
        }
    }
    [[nodiscard]] std::size_t size() const { return all.front()->first.size(); }
    /// So many uses, members in turns.
    [[nodiscard]] std::vector<StateBuffers::Use> uses(int count) const {
        std::vector<StateBuffers::Use> made;
        for (int i = 0; i < count; ++i)
            made.push_back({all[static_cast<std::size_t>(i) % 3].get(), i % 6 >= 3});
        return made;
    }
};

float& front(const Array<float>& array) { return *array.data().address(); }

/// Each backward use adds 1 to a member's first weight and first second moment.
void use_all(StateBuffers& buffers, const std::vector<StateBuffers::Use>& uses) {
    for (const StateBuffers::Use& use : uses) {
        DeviceState& state = buffers.acquire();
        if (use.backward) {
            front(state.masters) += 1;
            front(state.second) += 1;
        }
        buffers.release();
    }
}

TEST(each_use_finds_what_the_one_before_left_whatever_the_buffers) {
    for (const Index count : {0, 1, 2, 3, 4}) {
        Homes homes;
        StateBuffers buffers(*homes.device, homes.size(), count);
        for (int round = 0; round < 2; ++round) {
            const auto uses = homes.uses(600);
            buffers.plan(uses);
            use_all(buffers, uses);
        }
        buffers.settle();
        for (std::size_t i = 0; i < 3; ++i) {
            ck_assert_float_eq(homes.all[i]->parameters.weights()[0], static_cast<float>(i) + 200);
            ck_assert_float_eq(homes.all[i]->second[0], static_cast<float>(10 * i) + 200);
            ck_assert_float_eq(homes.all[i]->second[1], static_cast<float>(10 * i));
        }
    }
}

TEST(a_switch_allocates_nothing) {
    Homes homes;
    StateBuffers buffers(*homes.device, homes.size(), 2);
    const auto uses = homes.uses(3000);
    buffers.plan(uses);
    const long before = allocations;
    use_all(buffers, uses);
    ck_assert_int_eq(allocations - before, 0);
    buffers.plan(homes.uses(6));
    ck_assert_int_gt(allocations - before, 0);  // so it would be seen
}

// ---- orders ------------------------------------------------------------------------------------

std::vector<BlockTimes> even_times(Index stages) {
    return std::vector<BlockTimes>(at(stages), {.forward = 1, .backward = 2});
}

TEST(identical_members_follow_each_other_without_a_gap) {
    Timetable table({1, 1, 1}, 1);
    std::vector<Timetable::Participant> members;
    for (Index i = 0; i < 4; ++i) {
        members.push_back({i, 2});
        table.learn(i, 2, even_times(3));
    }
    // (J + S - 1)(f + b) of one iteration
    ck_assert_double_eq_tol(table.round(members, 1).seconds, 18, 0.01);
    // of several the pipeline is filled about once: J(f + b) of each, and a ramp
    ck_assert_double_le(table.round(members, 8).seconds, 8 * 12 + 2 * 6 + 0.1);
    ck_assert_uint_eq(table.round(members, 8).order.size(), 4U * 6 * 8);
}

TEST(a_member_that_was_not_measured_is_as_its_siblings_are) {
    Timetable table({2, 1}, 0.1);
    ck_assert_double_eq(table.round({{7, 1}}, 1).seconds, 0);
    table.learn(7, 1, even_times(2));
    ck_assert_double_eq_tol(table.round({{7, 1}}, 1).seconds, 6, 0.01);
    ck_assert_double_eq(table.round({{7, 1}, {8, 3}}, 1).seconds, 0);
    table.learn(8, 3, even_times(2));
    ck_assert_double_gt(table.round({{7, 1}, {8, 3}}, 1).seconds, 6);
    table.forget(7);
    ck_assert_double_eq(table.round({{7, 1}, {8, 3}}, 1).seconds, 0);
}

// ---- words -------------------------------------------------------------------------------------

TEST(a_join_says_itself_again_to_the_bit) {
    MemberOptions o = sibling(5, "/data/text", 20, "/data/run");
    o.optimizer.rate = 0.1F / 3;
    o.seed = UINT64_MAX;
    const std::string line = format_array_frame(MemberJoin{o});
    const auto frame = must(parse_array_frame(line));
    const MemberOptions& read = std::get<MemberJoin>(frame).options;
    ck_assert_float_eq(read.optimizer.rate, o.optimizer.rate);
    ck_assert(read.seed == o.seed && read.shape == o.shape && read.data == o.data);
    arena::test::assert_text(format_array_frame(frame), line);
}

TEST(what_is_no_frame_is_refused_with_its_place) {
    const std::string good = format_array_frame(MemberJoin{sibling(5, "/text", 20, "")});
    const auto with = [&](const std::string& key, const std::string& value) {
        const std::size_t from = good.find("\"" + key + "\":") + key.size() + 3;
        return good.substr(0, from) + value + good.substr(good.find_first_of(",}", from));
    };
    ck_assert(parse_array_frame(with("steps", "7")).ok());
    arena::test::assert_refused(parse_array_frame(with("heads", "3")), "a divisor of hidden");
    arena::test::assert_refused(parse_array_frame(with("data", "\"text\"")), "an absolute path");
    arena::test::assert_refused(parse_array_frame(with("rate", "1001")), "rate");
    arena::test::assert_refused(parse_array_frame(with("batch", "0")), "batch");
    arena::test::assert_refused(parse_array_frame(with("version", "2")), "version");
    arena::test::assert_refused(parse_array_frame("{\"type\":\"hello\"}"), "join, leave, pong");
    arena::test::assert_refused(parse_array_frame("{\"type\":\"exit\",\"code\":256,\"why\":\"\"}"),
                                "0 to 255");
    arena::test::assert_refused(parse_array_frame("["), "");
}

// ---- wire --------------------------------------------------------------------------------------

constexpr watch::WatchKey key{1, 2, 3};

/// A desk at a local socket.
struct Counter {
    Directory directory;
    ArrayAddress address = must(read_array_address(directory / "desk", ""));
    MemberDesk desk{key, must(listen_at(address))};
};

/// A member's process, as a thread.
struct Process {
    MemberExit exit;
    std::vector<std::string> lines;
    std::atomic<bool> leave = false, ended = false;
    std::jthread thread;
    Process(const ArrayAddress& address, const watch::WatchKey& with, double patience_s = 60)
        : thread([this, address, with, patience_s] {
              exit = attach({address, with, patience_s}, sibling(3, "/text", 20, ""), leave,
                            [this](const MemberLine& line) { lines.push_back(line.text); });
              ended = true;
          }) {}
};

/// Serves until `done`, at a time that stands still.
template <typename Done>
void serve_until(MemberDesk& desk, double now_s, Done done) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!done() && std::chrono::steady_clock::now() < end) {
        desk.serve(now_s);
        auto wanted = desk.wanted();
        ::poll(wanted.data(), wanted.size(), 10);
    }
    ck_assert_msg(done(), "nothing came for 60 s");
}

/// The next event.
MemberEvent next_event(MemberDesk& desk, double now_s) {
    std::vector<MemberEvent> events;
    serve_until(desk, now_s, [&] {
        for (MemberEvent& event : desk.take_events()) events.push_back(std::move(event));
        return !events.empty();
    });
    ck_assert_uint_eq(events.size(), 1);
    return events.front();
}

TEST(a_member_attaches_is_told_lines_leaves_and_ends_as_it_is_told) {
    Counter at;
    Process member(at.address, key);
    const MemberEvent joined = next_event(at.desk, 0);
    ck_assert(joined.what == MemberEvent::What::join);
    ck_assert_int_eq(joined.options.member, 3);
    at.desk.send(joined.id, MemberLine{"step 1", "{\"step\":1}"});
    member.leave = true;
    const MemberEvent left = next_event(at.desk, 1);
    ck_assert(left.what == MemberEvent::What::leave && left.id == joined.id);
    at.desk.end(joined.id, {7, "for a reason"});
    ck_assert(at.desk.has_enders());
    serve_until(at.desk, 2, [&] { return member.ended.load() && !at.desk.has_enders(); });
    ck_assert_int_eq(member.exit.code, 7);
    arena::test::assert_text(member.exit.why, "for a reason");
    ck_assert(member.lines == std::vector<std::string>{"step 1"});
    ck_assert(at.desk.take_events().empty());
}

TEST(a_member_without_the_key_is_no_member_and_is_started_again) {
    Counter at;
    Process forger(at.address, {9}, 0.3);
    serve_until(at.desk, 0, [&] { return forger.ended.load(); });
    ck_assert_int_gt(at.desk.refused(), 0);
    ck_assert(at.desk.take_events().empty());
    ck_assert_int_eq(forger.exit.code, 99);
    ck_assert(forger.exit.why.find("does not take this member's key") != std::string::npos);
}

TEST(an_array_that_is_gone_or_not_there_ends_its_members_with_99) {
    std::optional<Counter> place(std::in_place);
    const ArrayAddress address = place->address;
    Process member(address, key);
    next_event(place->desk, 0);
    place.reset();
    member.thread.join();
    ck_assert_int_eq(member.exit.code, 99);
    ck_assert(member.exit.why.find("the array is gone") != std::string::npos);
    Process late(address, key, 0.1);
    late.thread.join();
    ck_assert_int_eq(late.exit.code, 99);
    ck_assert(late.exit.why.find("cannot be reached") != std::string::npos);
}

/// Attaches, and neither reads nor writes any more.
struct Silent {
    watch::LineStream stream;
    Silent(const ArrayAddress& address, MemberDesk& desk)
        : stream(must(call_at(address)), 128, 1 << 16) {
        std::string nonce;
        serve_until(desk, 0, [&] {
            stream.receive(1 << 16);
            const auto line = stream.next_line();
            if (line) nonce = watch::parse_greeting(*line).value();
            return !nonce.empty();
        });
        watch::Seal up(key, "up", nonce);
        stream.send(up.seal(watch::new_nonce()));
        stream.send(up.seal(format_array_frame(MemberJoin{sibling(1, "/text", 9, "")})));
    }
};

TEST(a_member_that_does_not_answer_sits_out_and_is_dropped_after_a_minute) {
    Counter at;
    const Silent silent(at.address, at.desk);
    const MemberId id = next_event(at.desk, 0).id;
    const MemberLine line{std::string(4000, 'x'), ""};
    int told = 0;
    for (; told < 10000 && at.desk.keeps_up(id); ++told) at.desk.send(id, line);
    ck_assert_int_lt(told, 1000);
    at.desk.serve(59);
    ck_assert(at.desk.take_events().empty());
    at.desk.serve(61);
    const auto events = at.desk.take_events();
    ck_assert_uint_eq(events.size(), 1);
    ck_assert(events.front().what == MemberEvent::What::gone && events.front().id == id);
    at.desk.send(id, line);  // nobody is there
}

TEST(strangers_have_five_seconds_and_thirty_two_places) {
    Counter at;
    std::vector<FileDescriptor> strangers;
    for (int i = 0; i < 40; ++i) strangers.push_back(must(call_at(at.address)));
    at.desk.serve(0);
    ck_assert_uint_eq(at.desk.wanted().size(), 1 + 32);
    at.desk.serve(4.9);
    ck_assert_uint_eq(at.desk.wanted().size(), 1 + 32);
    at.desk.serve(5.1);
    ck_assert_uint_eq(at.desk.wanted().size(), 1);
    ck_assert_int_eq(at.desk.refused(), 40);
}

TEST(an_address_is_a_host_with_a_port_or_a_local_socket) {
    ck_assert_int_eq(must(read_array_address("n1:20001", "")).port, 20001);
    arena::test::assert_text(must(read_array_address("[::1]:20001", "")).host, "::1");
    arena::test::assert_text(must(read_array_address("/run/a", "")).path, "/run/a");
    for (const char* bad : {"", "n1", "n1:", "n1:0", "n1:65536", "n\n1:5", "@"})
        arena::test::assert_refused(read_array_address(bad, "ARENA_ARRAY"), "is no address");
    const Directory directory;
    for (const std::string& local :
         {directory / "s", "@arena-test-" + std::to_string(::getpid())}) {
        const auto address = must(read_array_address(local, ""));
        for (int life = 0; life < 2; ++life) {
            const auto first = must(listen_at(address));
            arena::test::assert_refused(listen_at(address), "another array listens there");
            ck_assert(is_same_user(must(call_at(address)).get()));
        }
        arena::test::assert_refused(call_at(address), "nobody answers");
    }
}

TEST_NEEDING(nobody_attaches_where_another_user_listens,
             ::geteuid() == 0 ? "" : "only root becomes another user") {
    const Directory directory;
    ck_assert_int_eq(::chmod(directory.path().c_str(), 0777), 0);
    for (const std::string& local :
         {directory / "s", "@arena-other-" + std::to_string(::getpid())}) {
        const auto address = must(read_array_address(local, ""));
        ck_assert_int_eq(::seteuid(65534), 0);
        const auto theirs = listen_at(address);
        ck_assert_int_eq(::seteuid(0), 0);
        ck_assert(bool(theirs));
        arena::test::assert_refused(call_at(address), "another user's process listens there");
        arena::test::assert_refused(listen_at(address), "another array listens there already");
    }
}

TEST(a_caller_waits_where_many_others_call) {
    const auto address = must(read_array_address("@arena-full-" + std::to_string(::getpid()), ""));
    const auto listening = must(listen_at(address));
    std::vector<FileDescriptor> others;
    for (int i = 0; i < 129; ++i) others.push_back(must(call_at(address)));
    std::thread accepts([&] {
        ::usleep(200'000);
        for (int i = 0; i < 100; ++i) ::close(::accept(listening.get(), nullptr, nullptr));
    });
    const auto called = call_at(address);
    accepts.join();
    ck_assert(bool(called));
}

}  // namespace
