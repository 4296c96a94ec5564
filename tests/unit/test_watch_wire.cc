// SPDX-License-Identifier: GPL-2.0-or-later
// Lines that only the key's owner can write, and the connections that carry them: what is forged,
// replayed, reflected, too long or too much ends its own connection; a caller finds the chief at
// whichever port it has, and again after it was gone.
#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/unit/suite.h"
#include "watch/wire/link.h"

using namespace arena;
using namespace arena::watch;

namespace {

using test::assert_text;
using test::must;
using What = LinkEvent::What;

WatchKey fresh_key() {
    const auto key = parse_watch_key(new_nonce());
    ck_assert(key.has_value());
    return *key;
}

// ---- lines --------------------------------------------------------------------------------------

TEST(the_mac_is_the_one_of_rfc_4231) {
    const Digest digest = authenticate("Jefe", "what do ya want for nothing?");
    ck_assert_uint_eq(digest[0], 0x5b);
    ck_assert_uint_eq(digest[1], 0xdc);
    ck_assert_uint_eq(digest[31], 0x43);
}

TEST(a_key_is_32_hex_digits) {
    ck_assert(parse_watch_key("000102030405060708090a0b0c0d0e0f").has_value());
    ck_assert_uint_eq((*parse_watch_key("000102030405060708090a0b0c0d0eff"))[15], 255);
    for (const char* bad :
         {"", "00", "000102030405060708090a0b0c0d0e0g", "000102030405060708090A0B0C0D0E0F",
          "000102030405060708090a0b0c0d0e0f0"})
        ck_assert_msg(!parse_watch_key(bad), "was accepted: %s", bad);
}

TEST(lines_are_opened_in_their_order_by_their_own_end_alone) {
    const WatchKey key = fresh_key(), other = fresh_key();
    Seal writer(key, "up", "n"), reader(key, "up", "n");
    const std::string first = writer.seal("one"), second = writer.seal("two");
    ck_assert(!reader.open(second).has_value());                           // out of order
    ck_assert(!Seal(key, "down", "n").open(first).has_value());            // reflected
    ck_assert(!Seal(key, "up", "another nonce").open(first).has_value());  // another connection's
    ck_assert(!Seal(other, "up", "n").open(first).has_value());            // another job's
    assert_text(std::string(reader.open(first).value_or("?")), "one");
    ck_assert(!reader.open(first).has_value());  // again
    assert_text(std::string(reader.open(second).value_or("?")), "two");
}

TEST(every_damaged_byte_is_noticed) {
    const WatchKey key = fresh_key();
    const std::string line = Seal(key, "up", "n").seal(R"({"type":"release"})");
    for (std::size_t i = 0; i < line.size(); ++i) {
        for (const int bit : {1, 0x20, 0x80}) {
            std::string damaged = line;
            damaged[i] = static_cast<char>(damaged[i] ^ bit);
            ck_assert(!Seal(key, "up", "n").open(damaged).has_value());
        }
        ck_assert(!Seal(key, "up", "n").open(line.substr(0, i)).has_value());
    }
    ck_assert(!Seal(key, "up", "n").open(line + " ").has_value());
}

// ---- where they meet ----------------------------------------------------------------------------

std::map<std::string, std::string> variables;
const char* variable(const char* name) {
    const auto at = variables.find(name);
    return at == variables.end() ? nullptr : at->second.c_str();
}

TEST(ports_follow_from_key_and_step) {
    const WatchKey key = fresh_key();
    const Ports ports = meeting_ports(key, "7.0.0");
    ck_assert(ports == meeting_ports(key, "7.0.0"));
    ck_assert(ports != meeting_ports(key, "7.1.0"));
    ck_assert(ports != meeting_ports(fresh_key(), "7.0.0"));
    ck_assert_uint_eq(std::set(ports.begin(), ports.end()).size(), ports.size());
    for (const std::uint16_t port : ports) ck_assert(port >= 10'000 && port < 20'000);
}

TEST(the_chief_is_on_the_first_node_of_the_step) {
    variables = {{"SLURM_JOB_ID", "7"},
                 {"SLURM_STEP_ID", "2"},
                 {"SLURM_RESTART_COUNT", "1"},
                 {"SLURM_STEP_NODELIST", "n[2-3]"},
                 {"SLURM_STEP_NUM_NODES", "2"},
                 {"SLURM_NODEID", "1"},
                 {"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.2"}};
    Meeting meeting = find_meeting(variable);
    assert_text(meeting.run, "7.2.1");
    ck_assert(meeting.hosts == (std::vector<std::string>{"n2", "10.0.0.2"}));
    ck_assert(!meeting.one_node && !meeting.here);
    variables["SLURM_STEP_NUM_NODES"] = "1";
    ck_assert(find_meeting(variable).hosts == std::vector<std::string>{"127.0.0.1"});
    variables = {};
    meeting = find_meeting(variable);
    assert_text(meeting.run, "0.0.0");
    ck_assert(meeting.one_node && meeting.here);
    variables = {{"ARENA_WATCH_CHIEF", "head"}, {"SLURM_STEP_NUM_NODES", "4"}};
    meeting = find_meeting(variable);
    ck_assert(meeting.hosts == std::vector<std::string>{"head"} && !meeting.one_node);
}

TEST(hosts_that_have_no_address_are_left_out) {
    ck_assert_uint_eq(resolve_hosts({"127.0.0.1", "no host at all", "::1"}).size(), 2);
}

// ---- connections --------------------------------------------------------------------------------

/// A chief and callers, on a clock of their own that stands still until told.
struct Net {
    explicit Net(bool all = false) : listener(must(Listener::open(key, run, all))) {}
    WatchKey key = fresh_key();
    std::string run = "7." + std::to_string(::getpid()) + ".0";
    Listener listener;
    double now_s = 100;
    std::vector<LinkEvent> heard;  ///< by the chief

    Link caller() { return Link(key, run, resolve_hosts({"127.0.0.1"})); }
    void serve() {
        for (LinkEvent& event : listener.serve(now_s)) heard.push_back(std::move(event));
    }
    std::size_t count(What what) const {
        return static_cast<std::size_t>(
            std::count_if(heard.begin(), heard.end(),
                          [&](const LinkEvent& event) { return event.what == what; }));
    }
};

/// Until it is so, or for so many turns as a working loopback never needs.
bool turns_until(Net& net, std::vector<Link*> links, std::vector<LinkEvent>& heard,
                 const std::function<bool()>& so) {
    for (int turn = 0; turn < 4000; ++turn) {
        if (so()) return true;
        net.serve();
        std::vector<pollfd> wanted = net.listener.wanted();
        for (Link* link : links) {
            for (LinkEvent& event : link->serve(net.now_s)) heard.push_back(std::move(event));
            for (const pollfd& one : link->wanted()) wanted.push_back(one);
        }
        ::poll(wanted.data(), wanted.size(), 1);
    }
    return so();
}

TEST(frames_go_both_ways) {
    for (const bool all : {false, true}) {
        Net net(all);
        Link link = net.caller();
        std::vector<LinkEvent> heard;
        ck_assert(!link.send(Release{}));
        ck_assert(turns_until(net, {&link}, heard, [&] { return link.is_up(); }));
        ck_assert(link.send(AgentHello{"n1", 5000}) && link.send(RankHere{3, 4, 1}));
        ck_assert(turns_until(net, {&link}, heard, [&] { return net.count(What::frame) == 2; }));
        assert_text(std::get<AgentHello>(net.heard[1].frame).node, "n1");
        ck_assert_int_eq(std::get<RankHere>(net.heard[2].frame).rank, 3);
        net.listener.send(net.heard[0].peer, Profile{5});
        net.listener.send(net.heard[0].peer + 1, Profile{6});  // nobody
        net.listener.send_all(EventOpen{true});
        ck_assert(turns_until(net, {&link}, heard, [&] { return heard.size() == 3; }));
        ck_assert_int_eq(std::get<Profile>(heard[1].frame).iterations, 5);
        ck_assert(std::get<EventOpen>(heard[2].frame).open);
    }
}

TEST(a_large_frame_arrives_whole) {
    Net net;
    Link link = net.caller();
    std::vector<LinkEvent> heard;
    ck_assert(turns_until(net, {&link}, heard, [&] { return link.is_up(); }));
    const std::string word(longest_frame / 2, 'x');
    for (int i = 0; i < 3; ++i) ck_assert(link.send(Say{word}));
    ck_assert(turns_until(net, {&link}, heard, [&] { return net.count(What::frame) == 3; }));
    assert_text(std::get<Say>(net.heard.back().frame).word, word);
}

/// A plain connection to the chief, for what a Link would never do.
struct Stranger {
    explicit Stranger(std::uint16_t port) : fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in name{};
        name.sin_family = AF_INET;
        name.sin_port = htons(port);
        name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        ck_assert_int_eq(::connect(fd.get(), reinterpret_cast<sockaddr*>(&name), sizeof name), 0);
    }
    void say(const std::string& text) const {
        (void)::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    /// Whole lines so far, or "end".
    std::string read(Net& net) {
        for (int turn = 0; turn < 1000; ++turn) {
            net.serve();
            char buffer[256];
            const ssize_t n = ::recv(fd.get(), buffer, sizeof buffer, MSG_DONTWAIT);
            if (n > 0) return {buffer, static_cast<std::size_t>(n)};
            if (n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK)) return "end";
            pollfd wait{fd.get(), POLLIN, 0};
            ::poll(&wait, 1, 1);
        }
        return "";
    }
    FileDescriptor fd;
};

TEST(a_forged_line_ends_its_connection_alone) {
    Net net;
    Link link = net.caller();
    std::vector<LinkEvent> heard;
    ck_assert(turns_until(net, {&link}, heard, [&] { return link.is_up(); }));
    const std::string forged = std::string(32, '0') + " " + std::string(32, 'a') + "\n";
    const std::string lines[] = {forged, "\n", "GET / HTTP/1.1\r\n\r\n", std::string(1 << 20, 'x'),
                                 std::string(100, '\0') + "\n"};
    for (const std::string& line : lines) {
        Stranger stranger(net.listener.port());
        ck_assert(stranger.read(net).starts_with("arena-watch 1 "));
        stranger.say(line);
        assert_text(stranger.read(net), "end");
    }
    ck_assert_int_eq(net.listener.counts().forged, 5);
    ck_assert(link.send(Release{}));
    ck_assert(turns_until(net, {&link}, heard, [&] { return net.count(What::frame) == 1; }));
    ck_assert_uint_eq(net.count(What::up), 1);
    ck_assert_uint_eq(net.count(What::down), 0);
}

TEST(one_with_another_key_is_not_heard) {
    Net net;
    Stranger stranger(net.listener.port());
    const std::string greeting = stranger.read(net);
    const auto nonce = parse_greeting(std::string_view(greeting).substr(0, greeting.size() - 1));
    ck_assert(nonce.has_value());
    stranger.say(Seal(fresh_key(), "up", *nonce).seal(new_nonce()) + "\n");
    assert_text(stranger.read(net), "end");
    ck_assert_uint_eq(net.heard.size(), 0);
}

TEST(a_frame_that_is_none_ends_its_connection_though_sealed) {
    Net net;
    Stranger stranger(net.listener.port());
    const std::string greeting = stranger.read(net);
    const auto nonce = parse_greeting(std::string_view(greeting).substr(0, greeting.size() - 1));
    Seal seal(net.key, "up", *nonce);
    stranger.say(seal.seal(new_nonce()) + "\n");
    ck_assert(stranger.read(net).ends_with(" welcome\n"));
    stranger.say(seal.seal(R"({"type":"silent","rank":0,"seconds":1e999})") + "\n");
    assert_text(stranger.read(net), "end");
    ck_assert_int_eq(net.listener.counts().forged, 1);
}

TEST(strangers_have_five_seconds_and_make_room_for_others) {
    Net net;
    Stranger silent(net.listener.port());
    ck_assert(silent.read(net).starts_with("arena-watch 1 "));
    net.now_s += 4.9;
    net.serve();
    ck_assert_int_eq(net.listener.counts().refused, 0);
    net.now_s += 0.2;
    assert_text(silent.read(net), "end");
    ck_assert_int_eq(net.listener.counts().refused, 1);
    std::list<Stranger> crowd;
    for (int i = 0; i < 100; ++i) {
        crowd.emplace_back(net.listener.port());
        net.serve();
    }
    ck_assert_int_eq(net.listener.counts().refused, 1 + 100 - 32);
    ck_assert_uint_eq(net.listener.wanted().size(), 1 + 32);
    Link link = net.caller();
    std::vector<LinkEvent> heard;
    ck_assert(turns_until(net, {&link}, heard, [&] { return link.is_up(); }));
}

TEST(a_flood_is_read_as_fast_as_allowed) {
    Net net;
    Link link = net.caller();
    std::vector<LinkEvent> heard;
    ck_assert(turns_until(net, {&link}, heard, [&] { return link.is_up(); }));
    std::size_t sent = 0;
    for (; sent < 100'000 && link.send(Silent{0, 1}); ++sent) {
        if (sent % 100 == 0) net.serve();
    }
    for (int i = 0; i < 100; ++i) net.serve();
    ck_assert_uint_le(net.count(What::frame), 4000);  // no time has passed
    net.now_s += 1;
    for (int i = 0; i < 100; ++i) net.serve();
    ck_assert_uint_le(net.count(What::frame), 5000);
    ck_assert_uint_ge(net.count(What::frame), 4500);
    ck_assert_int_eq(net.listener.counts().forged, 0);
}

TEST(who_does_not_read_is_dropped) {
    Net net;
    Link link = net.caller();
    std::vector<LinkEvent> heard;
    ck_assert(turns_until(net, {&link}, heard, [&] { return link.is_up(); }));
    const Say large{std::string(100'000, 'x')};
    for (int i = 0; i < 200 && net.listener.counts().dropped == 0; ++i) {
        net.listener.send_all(large);
        net.serve();
    }
    net.serve();
    ck_assert_int_eq(net.listener.counts().dropped, 1);
    ck_assert_uint_eq(net.count(What::down), 1);
    ck_assert_uint_eq(net.listener.wanted().size(), 1);
}

TEST(a_caller_finds_the_chief_behind_ports_of_others) {
    const WatchKey key = fresh_key();
    const std::string run = "8." + std::to_string(::getpid()) + ".0";
    // Two at the first ports that never speak.
    const Ports ports = meeting_ports(key, run);
    std::vector<FileDescriptor> taken;
    for (int i = 0; i < 2; ++i) {
        sockaddr_in name{};
        name.sin_family = AF_INET;
        name.sin_port = htons(ports[static_cast<std::size_t>(i)]);
        name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        taken.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        ck_assert_int_eq(
            ::bind(taken.back().get(), reinterpret_cast<sockaddr*>(&name), sizeof name), 0);
        ck_assert_int_eq(::listen(taken.back().get(), 8), 0);
    }
    auto listener = must(Listener::open(key, run, false));
    ck_assert_uint_eq(listener.port(), ports[2]);
    Link link(key, run, resolve_hosts({"127.0.0.1"}));
    double now_s = 0;
    for (int turn = 0; turn < 2000 && !link.is_up(); ++turn) {
        now_s += 0.1;
        link.serve(now_s);
        listener.serve(now_s);
        ::usleep(100);
    }
    ck_assert(link.is_up());
    ck_assert(now_s > 9);  // two silent ones of 5 s each
}

TEST(a_caller_comes_back_after_the_chief_was_gone) {
    const WatchKey key = fresh_key();
    const std::string run = "9." + std::to_string(::getpid()) + ".0";
    std::optional<Listener> listener(must(Listener::open(key, run, false)));
    Link link(key, run, resolve_hosts({"127.0.0.1"}));
    double now_s = 0;
    std::vector<What> told;
    const auto turns = [&](int count) {
        for (int turn = 0; turn < count; ++turn) {
            now_s += 0.05;
            for (const LinkEvent& event : link.serve(now_s)) told.push_back(event.what);
            if (listener) listener->serve(now_s);
            ::usleep(100);
        }
    };
    turns(100);
    ck_assert(link.is_up());
    listener.reset();
    turns(100);
    ck_assert(!link.is_up());
    listener.emplace(must(Listener::open(key, run, false)));
    turns(400);
    ck_assert(link.is_up());
    ck_assert(told == (std::vector<What>{What::up, What::down, What::up}));
}

}  // namespace
