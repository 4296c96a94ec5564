// SPDX-License-Identifier: GPL-2.0-or-later
// The plug-in's socket: silent, slow, many and vanishing clients cost those who ask nothing, and
// the thread that answers never waits for any of them.
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <string_view>
#include <thread>

#include "plugin/sched/socket/socket_clients.h"
#include "plugin/sched/socket/socket_server.h"
#include "suite.h"

using namespace arena;
using namespace arena::test;
using Clock = SocketClients::Clock;
using namespace std::chrono_literals;

namespace {

constexpr int patience_ms = 20'000;

std::string directory, path;

void before() {
    char name[] = "/tmp/arena-socket-test-XXXXXX";
    directory = ::mkdtemp(name);
    path = directory + "/socket";
}

void after() { std::filesystem::remove_all(directory); }

FileDescriptor dial() {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    FileDescriptor fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ck_assert_int_eq(
        ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    return fd;
}

void say(const FileDescriptor& fd, std::string_view text) {
    ck_assert_int_eq(::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL),
                     static_cast<long>(text.size()));
}

bool is_readable(int fd, int limit_ms = patience_ms) {
    pollfd poll_fd{fd, POLLIN, 0};
    return ::poll(&poll_fd, 1, limit_ms) == 1;
}

/// All that comes until the server hangs up.
std::string hear(const FileDescriptor& fd) {
    std::string text;
    char buffer[65536];
    for (;;) {
        ck_assert_msg(is_readable(fd.get()), "neither an answer nor an end");
        const ssize_t got = ::recv(fd.get(), buffer, sizeof buffer, 0);
        if (got <= 0) return text;
        text.append(buffer, static_cast<std::size_t>(got));
    }
}

std::vector<Question> questions_of(SocketServer& server, std::size_t count) {
    std::vector<Question> all;
    while (all.size() < count) {
        ck_assert_msg(is_readable(server.fd()), "no question came");
        for (Question& question : server.take()) all.push_back(std::move(question));
    }
    return all;
}

void open_server(SocketServer& server, const SocketLimits& limits = {}) {
    const Status status = server.open(path, limits);
    ck_assert_msg(status.ok(), "%s", status ? "" : status.error().message().c_str());
}

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

/// A connected pair; the server's end goes to the state machine.
struct Pair {
    Pair() {
        int fds[2];
        ck_assert_int_eq(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds),
                         0);
        client = FileDescriptor(fds[0]);
        server = FileDescriptor(fds[1]);
    }
    FileDescriptor client, server;
};

bool is_hung_up(const FileDescriptor& fd) {
    char byte;
    return ::recv(fd.get(), &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 0;
}

std::vector<SocketClients::Heard> look(SocketClients& clients) {
    std::vector<pollfd> polls = clients.polls();
    ::poll(polls.data(), polls.size(), 0);
    return clients.advance(polls);
}

}  // namespace

TEST(silent_clients_delay_nobody) {
    SocketServer server;
    SocketLimits limits;
    limits.question = 1h;
    open_server(server, limits);
    std::vector<FileDescriptor> silent;
    for (int i = 0; i < 64; ++i) silent.push_back(dial());
    const FileDescriptor asking = dial();
    const auto start = Clock::now();
    say(asking, "stats\n");
    auto questions = questions_of(server, 1);
    ck_assert_uint_eq(questions.size(), 1);
    assert_text(questions[0].line, "stats");
    ck_assert_uint_eq(questions[0].uid, ::getuid());
    questions[0].reply.send("{}");
    assert_text(hear(asking), "{}");
    // The old server took 4.9 s; the limit is for a loaded machine.
    ck_assert_msg(seconds_since(start) < 2, "the answer took %.1f s", seconds_since(start));
}

TEST(a_silent_client_is_hung_up_in_time) {
    SocketServer server;
    SocketLimits limits;
    limits.question = 20ms;
    open_server(server, limits);
    const FileDescriptor silent = dial(), halfway = dial();
    say(halfway, "sta");
    assert_text(hear(silent), "");
    assert_text(hear(halfway), "");
}

TEST(a_line_may_come_in_pieces_and_not_be_too_long) {
    SocketServer server;
    open_server(server);
    const FileDescriptor pieces = dial(), longer = dial();
    say(longer, std::string(2 * SocketLimits{}.line_bytes, 'x'));
    assert_text(hear(longer), "");
    say(pieces, "explain ");
    std::this_thread::yield();
    say(pieces, "12\nand what follows is nobody's business");
    auto questions = questions_of(server, 1);
    assert_text(questions[0].line, "explain 12");
}

TEST(an_answer_may_come_later_and_from_any_thread) {
    SocketServer server;
    open_server(server);
    const FileDescriptor first = dial(), second = dial(), refused = dial();
    say(first, "1\n");
    say(second, "2\n");
    say(refused, "3\n");
    auto questions = questions_of(server, 3);
    for (Question& question : questions) {
        if (question.line == "3") Reply dropped = std::move(question.reply);
        if (question.line == "2") question.reply.send("two");
    }
    assert_text(hear(second), "two");
    assert_text(hear(refused), "");
    std::thread worker([&] {
        for (Question& question : questions)
            if (question.line == "1") question.reply.send("one");
    });
    assert_text(hear(first), "one");
    worker.join();
}

TEST(a_client_that_leaves_takes_its_question_along) {
    SocketServer server;
    open_server(server);
    FileDescriptor leaving = dial();
    say(leaving, "gone\n");
    ck_assert(is_readable(server.fd()));
    leaving.reset();
    const FileDescriptor staying = dial();
    say(staying, "here\n");
    std::vector<Question> questions;
    while (questions.empty() || questions.back().line != "here") {
        ck_assert_msg(is_readable(server.fd()), "no question came");
        std::this_thread::sleep_for(1ms);  // the bell rang for the first one already
        for (Question& question : server.take()) questions.push_back(std::move(question));
    }
    for (const Question& question : questions)
        ck_assert_msg(question.line == "here" || !question.reply.wanted(), "%s",
                      question.line.c_str());
    ck_assert(questions.back().reply.wanted());
}

TEST(a_slow_reader_gets_all_of_it_and_delays_nobody) {
    SocketServer server;
    open_server(server);
    const std::string much(std::size_t{8} << 20, 'm');
    const FileDescriptor slow = dial(), quick = dial();
    say(slow, "snapshot\n");
    questions_of(server, 1)[0].reply.send(much);
    say(quick, "stats\n");
    questions_of(server, 1)[0].reply.send("{}");
    assert_text(hear(quick), "{}");
    ck_assert_uint_eq(hear(slow).size(), much.size());
}

TEST(who_does_not_take_the_answer_is_hung_up) {
    SocketServer server;
    SocketLimits limits;
    limits.answer = 20ms;
    open_server(server, limits);
    const std::string much(std::size_t{8} << 20, 'm');
    const FileDescriptor deaf = dial();
    say(deaf, "snapshot\n");
    questions_of(server, 1)[0].reply.send(much);
    pollfd end{deaf.get(), 0, 0};
    ck_assert_int_eq(::poll(&end, 1, patience_ms), 1);  // POLLHUP while all is unread
    ck_assert_uint_lt(hear(deaf).size(), much.size());
}

TEST(closing_ends_at_once_and_replies_lead_nowhere) {
    SocketServer server;
    SocketLimits limits;
    limits.question = 1h;
    open_server(server, limits);
    const FileDescriptor silent = dial(), asking = dial();
    say(asking, "stats\n");
    auto questions = questions_of(server, 1);
    const auto start = Clock::now();
    server.close();
    ck_assert_msg(seconds_since(start) < 2, "closing took %.1f s", seconds_since(start));
    ck_assert_int_eq(server.fd(), -1);
    ck_assert(!std::filesystem::exists(path));
    ck_assert(!questions[0].reply.wanted());
    questions[0].reply.send("too late");
    assert_text(hear(silent), "");
    open_server(server);  // as after scontrol reconfigure
    const FileDescriptor again = dial();
    say(again, "stats\n");
    questions_of(server, 1)[0].reply.send("again");
    assert_text(hear(again), "again");
}

TEST(a_user_with_too_many_loses_the_longest_silent_one) {
    SocketLimits limits;
    limits.clients_per_user = 3;
    SocketClients clients(limits);
    const auto now = Clock::now();
    Pair mine[4], other;
    clients.add(std::move(other.server), 2, now);
    for (auto& pair : mine) clients.add(std::move(pair.server), 1, now);
    ck_assert(is_hung_up(mine[0].client));
    ck_assert(!is_hung_up(mine[1].client) && !is_hung_up(mine[3].client));
    ck_assert(!is_hung_up(other.client));
    say(mine[3].client, "stats\n");
    ck_assert_uint_eq(look(clients).size(), 1);
}

TEST(clients_that_wait_for_answers_make_no_room_for_more_of_that_user) {
    SocketLimits limits;
    limits.clients_per_user = 2;
    SocketClients clients(limits);
    const auto now = Clock::now();
    Pair asking[2], more, other;
    for (auto& pair : asking) {
        clients.add(std::move(pair.server), 1, now);
        say(pair.client, "explain 1\n");
    }
    ck_assert_uint_eq(look(clients).size(), 2);
    clients.add(std::move(more.server), 1, now);
    clients.add(std::move(other.server), 2, now);
    ck_assert(is_hung_up(more.client));
    ck_assert(!is_hung_up(other.client));
    ck_assert(!is_hung_up(asking[0].client) && !is_hung_up(asking[1].client));
}

TEST(when_all_is_full_the_user_with_most_makes_room) {
    SocketLimits limits;
    limits.clients = 4;
    SocketClients clients(limits);
    const auto now = Clock::now();
    Pair greedy[3], modest, late;
    clients.add(std::move(modest.server), 2, now);
    for (auto& pair : greedy) clients.add(std::move(pair.server), 1, now);
    clients.add(std::move(late.server), 3, now);
    ck_assert(is_hung_up(greedy[0].client));
    ck_assert(!is_hung_up(modest.client) && !is_hung_up(late.client));
}

TEST(time_is_over_by_the_clock_that_is_given) {
    SocketLimits limits;
    limits.question = 2s;
    limits.answer = 5s;
    SocketClients clients(limits);
    const auto now = Clock::now();
    Pair silent, asking;
    ck_assert_int_eq(clients.timeout_ms(now), -1);
    clients.add(std::move(silent.server), 1, now);
    clients.add(std::move(asking.server), 1, now + 1s);
    ck_assert_int_eq(clients.timeout_ms(now), 2000);
    say(asking.client, "stats\n");
    const auto heard = look(clients);
    ck_assert_uint_eq(heard.size(), 1);
    clients.expire(now + 2s);
    ck_assert(is_hung_up(silent.client));
    ck_assert_int_eq(clients.timeout_ms(now), -1);  // the answer may take its time
    clients.expire(now + 1h);
    ck_assert(!is_hung_up(asking.client));
    clients.answer(heard[0].client, std::string(std::size_t{8} << 20, 'm'), now + 1h);
    clients.expire(now + 1h + 4s);
    ck_assert_uint_eq(clients.polls().size(), 1);
    clients.expire(now + 1h + 5s);
    ck_assert_uint_eq(clients.polls().size(), 0);
}

SUITE({.before = before, .after = after});
