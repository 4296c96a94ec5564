// SPDX-License-Identifier: GPL-2.0-or-later
// How ranks find each other over TCP while others knock at the same doors: port scanners that say
// nothing or rubbish, hosts that do not answer, IPv6 and IPv4. Real sockets of this host; no limit
// here is near what a run takes.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <future>

#include "base/text.h"
#include "profiler/comm/comm_world.h"
#include "profiler/comm/peer_sockets.h"
#include "profiler/core/recorder.h"
#include "suite.h"

namespace {

using namespace arena;
using arena::test::assert_refused;
using Joined = Result<std::unique_ptr<PeerSockets>>;

constexpr double timeout_s = 120;
std::filesystem::path directory;

void make_directory() {
    char name[] = "/tmp/arena-peers-XXXXXX";
    directory = ::mkdtemp(name);
}
void remove_directory() { std::filesystem::remove_all(directory); }

CommWorld rank_of(std::int64_t rank, std::int64_t ranks) { return {rank, 1, ranks}; }
PeerPlace place(const char* name = "meet") { return {directory / name, timeout_s}; }

std::future<Joined> joins(std::int64_t rank, std::int64_t ranks, PeerSockets::Shape shape,
                          const PeerPlace& at) {
    return std::async(std::launch::async,
                      [=] { return PeerSockets::join(rank_of(rank, ranks), at, shape); });
}

/// Waits for it.
PeerAddress address_of_rank_0() {
    const MeetingPlace file(directory / "meet", false, timeout_s);
    const auto bytes = file.share([] { return std::string(); }, sizeof(PeerAddress));
    ck_assert_msg(bytes.ok(), "%s", bytes.ok() ? "" : bytes.error().message().c_str());
    PeerAddress address;
    std::memcpy(&address, bytes->data(), sizeof address);
    return address;
}

void write_address(const PeerAddress& address, const char* name) {
    const std::string bytes(reinterpret_cast<const char*>(&address), sizeof address);
    ck_assert(write_file_atomic(directory / name, bytes, 0600).ok());
}

sockaddr_in loopback(std::uint32_t port) {
    struct sockaddr_in to {};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons(static_cast<std::uint16_t>(port));
    return to;
}

FileDescriptor call(std::uint32_t port, int flags = 0) {
    FileDescriptor fd(::socket(AF_INET, SOCK_STREAM | flags, 0));
    const struct sockaddr_in to = loopback(port);
    const int code = ::connect(fd.get(), reinterpret_cast<const struct sockaddr*>(&to), sizeof to);
    ck_assert(code == 0 || (flags != 0 && errno == EINPROGRESS));
    return fd;
}

void limit_wait(int fd) {
    const struct timeval limit { static_cast<time_t>(timeout_s), 0 };
    ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
}

void assert_joined(const Joined& joined) {
    ck_assert_msg(joined.ok(), "%s", joined.ok() ? "" : joined.error().message().c_str());
}

void assert_connected(const PeerSockets& one, std::int64_t to, const PeerSockets& other,
                      std::int64_t back) {
    const char said = 'a';
    char heard = 0;
    ck_assert_int_eq(::send(one.with(to), &said, 1, 0), 1);
    struct pollfd wait {
        other.with(back), POLLIN, 0
    };
    ck_assert_int_eq(::poll(&wait, 1, static_cast<int>(timeout_s * 1000)), 1);
    ck_assert_int_eq(::recv(other.with(back), &heard, 1, MSG_DONTWAIT), 1);
    ck_assert_int_eq(heard, said);
}

START_TEST(all_ranks_of_a_mesh_have_each_other) {
    constexpr std::int64_t ranks = 4;
    std::vector<std::future<Joined>> starting;
    for (std::int64_t rank = 0; rank < ranks; ++rank)
        starting.push_back(joins(rank, ranks, PeerSockets::Shape::mesh, place()));
    std::vector<std::unique_ptr<PeerSockets>> all;
    for (auto& one : starting) {
        auto joined = one.get();
        assert_joined(joined);
        all.push_back(std::move(joined).value());
    }
    for (std::size_t a = 0; a < ranks; ++a)
        for (std::size_t b = 0; b < ranks; ++b) {
            const auto to = static_cast<std::int64_t>(b), back = static_cast<std::int64_t>(a);
            if (a == b)
                ck_assert_int_lt(all[a]->with(to), 0);
            else
                assert_connected(*all[a], to, *all[b], back);
        }
    ck_assert_msg(std::filesystem::is_empty(directory), "a rank left its file behind");
}
END_TEST

START_TEST(who_says_nothing_or_rubbish_keeps_no_rank_waiting) {
    auto first = joins(0, 2, PeerSockets::Shape::star, place());
    const PeerAddress address = address_of_rank_0();
    // One after the other, 5 s each, would outlast the limit.
    std::vector<FileDescriptor> strangers;
    for (int i = 0; i < 40; ++i) {
        strangers.push_back(call(address.port));
        const std::array<char, 64> rubbish{'x'};
        const std::size_t bytes = i % 3 == 0 ? 0 : i % 3 == 1 ? 5 : rubbish.size();
        if (bytes > 0)
            ck_assert_int_eq(::send(strangers.back().get(), rubbish.data(), bytes, MSG_NOSIGNAL),
                             static_cast<ssize_t>(bytes));
    }
    const Joined second = PeerSockets::join(rank_of(1, 2), place(), PeerSockets::Shape::star);
    assert_joined(second);
    const Joined met = first.get();
    assert_joined(met);
    assert_connected(**met, 1, **second, 0);
}
END_TEST

START_TEST(more_silent_callers_than_a_rank_keeps_are_dropped) {
    auto first = joins(0, 2, PeerSockets::Shape::star, place());
    const PeerAddress address = address_of_rank_0();
    std::vector<FileDescriptor> strangers;
    for (int i = 0; i < 300; ++i) strangers.push_back(call(address.port));
    char byte = 0;
    limit_wait(strangers.front().get());
    ck_assert_int_eq(::recv(strangers.front().get(), &byte, 1, 0), 0);  // it was hung up on
    const Joined second = PeerSockets::join(rank_of(1, 2), place(), PeerSockets::Shape::star);
    const Joined met = first.get();
    assert_joined(second);
    assert_joined(met);
    assert_connected(**second, 0, **met, 1);
}
END_TEST

START_TEST(a_host_that_does_not_answer_costs_the_timeout_and_no_more) {
    // A queue that is full: Linux drops further calls, and a blocking connect() waits two minutes.
    const FileDescriptor deaf(::socket(AF_INET, SOCK_STREAM, 0));
    struct sockaddr_in name = loopback(0);
    socklen_t size = sizeof name;
    ck_assert_int_eq(::bind(deaf.get(), reinterpret_cast<struct sockaddr*>(&name), size), 0);
    ck_assert_int_eq(::listen(deaf.get(), 0), 0);
    ck_assert_int_eq(::getsockname(deaf.get(), reinterpret_cast<struct sockaddr*>(&name), &size),
                     0);
    std::vector<FileDescriptor> queue;
    for (int i = 0; i < 8; ++i) queue.push_back(call(ntohs(name.sin_port), SOCK_NONBLOCK));
    PeerAddress address;
    std::strcpy(address.host, "127.0.0.1");
    address.port = ntohs(name.sin_port);
    write_address(address, "meet");
    const double begin = monotonic_s();
    PeerPlace soon = place();
    soon.timeout_s = 1;
    const Joined joined = PeerSockets::join(rank_of(1, 2), soon, PeerSockets::Shape::star);
    assert_refused(joined, "cannot connect to another rank: no answer in time");
    ck_assert_double_lt(monotonic_s() - begin, 60);
}
END_TEST

START_TEST(ranks_meet_over_both_families) {
    for (const char* host : {"127.0.0.1", "::1"}) {
        const FileDescriptor probe(::socket(AF_INET6, SOCK_DGRAM, 0));
        struct sockaddr_in6 here {};
        here.sin6_family = AF_INET6;
        here.sin6_addr = in6addr_loopback;
        const bool is_v6 = host[0] == ':';
        if (is_v6 &&
            ::bind(probe.get(), reinterpret_cast<struct sockaddr*>(&here), sizeof here) != 0)
            continue;  // this host has no IPv6
        auto first = joins(0, 2, PeerSockets::Shape::star, place());
        PeerAddress address = address_of_rank_0();
        std::memset(address.host, 0, sizeof address.host);
        std::strcpy(address.host, host);
        write_address(address, "by-number");
        const Joined second =
            PeerSockets::join(rank_of(1, 2), place("by-number"), PeerSockets::Shape::star);
        assert_joined(second);
        assert_joined(first.get());
        struct sockaddr_storage peer {};
        socklen_t size = sizeof peer;
        ck_assert_int_eq(
            ::getpeername((*second)->with(0), reinterpret_cast<struct sockaddr*>(&peer), &size), 0);
        ck_assert_int_eq(peer.ss_family, is_v6 ? AF_INET6 : AF_INET);
    }
}
END_TEST

START_TEST(a_rank_that_never_comes_is_told_of) {
    PeerPlace soon = place();
    soon.timeout_s = 1;
    assert_refused(PeerSockets::join(rank_of(0, 2), soon, PeerSockets::Shape::star),
                   "not all ranks came within");
    ck_assert(std::filesystem::is_empty(directory));
}
END_TEST

}  // namespace

int main() {
    return test::run_suite(
        "peer sockets",
        {all_ranks_of_a_mesh_have_each_other, who_says_nothing_or_rubbish_keeps_no_rank_waiting,
         more_silent_callers_than_a_rank_keeps_are_dropped,
         a_host_that_does_not_answer_costs_the_timeout_and_no_more, ranks_meet_over_both_families,
         a_rank_that_never_comes_is_told_of},
        {.before = make_directory, .after = remove_directory, .timeout_s = 150});
}
