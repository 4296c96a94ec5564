// SPDX-License-Identifier: GPL-2.0-or-later
// src/ipc/child: what a started process is given and what not, and what becomes of it where its
// parent has closed its streams, blocks or ignores signals, has many threads, or is interrupted all
// the time; where the program is missing, says too much, or never ends.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/signals.h"
#include "base/text.h"
#include "directory.h"
#include "ipc/child.h"
#include "suite.h"

namespace {

using namespace arena;
using Clock = Child::Clock;
using Masks = std::vector<std::uint64_t>;
using Texts = std::vector<std::string>;
constexpr std::size_t most = std::size_t{1} << 20;

/// Never the measure of anything.
Clock::time_point soon() { return Clock::now() + std::chrono::seconds(60); }

ChildStart shell(const std::string& script) {
    return {.words = {"/bin/sh", "-c", script}, .out = Stream::pipe, .err = Stream::pipe};
}

ChildOutput run(const ChildStart& start) {
    auto output = run_child(start, soon(), most);
    if (!output) ck_abort_msg("%s", output.error().message().c_str());
    return std::move(*output);
}

std::string out_of(const ChildStart& start) { return run(start).out; }

void assert_error(const Error& error, ErrorCode code, const char* words) {
    ck_assert_int_eq(static_cast<int>(error.code), static_cast<int>(code));
    if (error.message().find(words) == std::string::npos)
        ck_abort_msg("%s: not in: %s", words, error.message().c_str());
}

void assert_same(const std::string& is, const std::string& wanted) {
    ck_assert_str_eq(is.c_str(), wanted.c_str());
}

/// Running, or ended and not waited for.
bool has_children() { return ::waitpid(-1, nullptr, WNOHANG) >= 0; }

std::vector<std::string> words_of(const std::string& text) {
    std::istringstream in(text);
    return {std::istream_iterator<std::string>(in), {}};
}

// ---- what it is given
// ----------------------------------------------------------------------------

TEST(a_program_has_its_words_and_its_output_is_read_to_the_end) {
    const ChildOutput output = run({.words = {"printf", "%s|", "a; echo $HOME", "", "*"},
                                    .out = Stream::pipe,
                                    .err = Stream::pipe});
    assert_same(output.out, "a; echo $HOME||*|");
    assert_same(output.err, "");
    ck_assert_int_eq(output.end.status, 0);
    const ChildOutput both = run(shell("echo out; echo err >&2; exit 7"));
    assert_same(both.out, "out\n");
    assert_same(both.err, "err\n");
    ck_assert_int_eq(both.end.status, 7);
    ck_assert(!both.end.by_signal);
}

TEST(a_program_that_a_signal_ends_says_which) {
    const ChildEnd end = run(shell("kill -9 $$")).end;
    ck_assert_int_eq(end.status, 128 + SIGKILL);
    ck_assert(end.by_signal);
    ck_assert(!run(shell("exit 137")).end.by_signal);
}

TEST(variables_are_this_programs_own_or_those_that_are_given_alone) {
    ::setenv("ARENA_TEST_CHILD", "own", 1);
    ChildStart start = shell("echo \"$ARENA_TEST_CHILD $OTHER\"");
    assert_same(out_of(start), "own \n");
    start.variables = Texts{"OTHER=given"};
    assert_same(out_of(start), " given\n");
    start = {.words = {"/usr/bin/env"}, .variables = Texts{}, .out = Stream::pipe};
    assert_same(out_of(start), "");
}

TEST(what_it_reads_is_nothing_or_a_pipe) {
    assert_same(out_of(shell("cat")), "");
    ChildStart start{.words = {"cat"}, .in = Stream::pipe, .out = Stream::pipe};
    auto child = start_child(start);
    ck_assert(child.ok());
    ck_assert_int_eq(::write(child->in.get(), "abc", 3), 3);
    child->in.reset();
    char text[8] = {};
    ck_assert_int_eq(::read(child->out.get(), text, sizeof text), 3);
    assert_same(text, "abc");
    ck_assert_int_eq(child->wait().status, 0);
}

TEST(no_descriptor_but_the_standard_ones_gets_into_it) {
    const FileDescriptor leaks(::open("/dev/null", O_RDONLY));  // without O_CLOEXEC
    const int far = ::fcntl(leaks.get(), F_DUPFD, 200);
    ck_assert_int_ge(far, 200);
    // ls has one of its own, of the directory.
    const std::string seen = out_of({.words = {"ls", "/proc/self/fd"}, .out = Stream::pipe});
    assert_same(seen, "0\n1\n2\n3\n");
    ::close(far);
}

TEST(signals_are_neither_blocked_nor_ignored_but_for_what_nohup_ignores) {
    const BlockedSignals blocked{SIGTERM, SIGUSR1, SIGINT};
    // A shell's command in the background is born with SIGINT and SIGQUIT ignored.
    for (const int number : {SIGINT, SIGQUIT}) ::signal(number, SIG_DFL);
    for (const int number : {SIGPIPE, SIGHUP, SIGUSR2}) ::signal(number, SIG_IGN);
    const auto masks = [](const ChildStart& start) {
        Masks found;  // of signals 1 to 31: glibc has two of its own ignored
        const std::string text = out_of(start);
        for (const std::string_view line : split(text, '\n'))
            if (line.starts_with("SigBlk") || line.starts_with("SigIgn"))
                found.push_back(std::stoull(std::string(line.substr(8)), nullptr, 16) & 0x7fffffff);
        return found;
    };
    ChildStart start{.words = {"cat", "/proc/self/status"}, .out = Stream::pipe};
    const std::uint64_t hup = 1U << (SIGHUP - 1), usr2 = 1U << (SIGUSR2 - 1);
    ck_assert(masks(start) == Masks({0, hup | usr2}));
    start.not_ignored = {SIGUSR2};
    ck_assert(masks(start) == Masks({0, hup}));
}

TEST(apart_it_leads_a_session_and_a_group_of_its_own) {
    const auto of = [](bool apart) {
        ChildStart start = shell("read -r line </proc/$$/stat; set -- ${line##*) }; echo $$ $3 $4");
        start.apart = apart;
        return words_of(out_of(start));
    };
    const auto own = of(true), ours = of(false);
    ck_assert_uint_eq(own.size(), 3U);
    ck_assert(own[0] == own[1] && own[0] == own[2]);
    ck_assert(ours[1] == std::to_string(::getpgrp()) && ours[2] == std::to_string(::getsid(0)));
}

// ---- hostile parents
// -----------------------------------------------------------------------------

TEST(a_parent_without_standard_streams_gets_the_output_all_the_same) {
    for (int closed = 0; closed < 8; ++closed) {
        auto child =
            start_copy({.in = Stream::inherited, .out = Stream::pipe}, [&](CopyEnds& ends) {
                for (int fd = 0; fd < 3; ++fd)
                    if ((closed >> fd & 1) != 0) ::close(fd);
                const auto said = run_child(shell("cat; echo out; echo err >&2"), soon(), most);
                const auto one = run_child(
                    {.words = {"/bin/sh", "-c", "echo out; echo one >&2"}, .err = Stream::pipe},
                    soon(), most);
                const std::string text =
                    said && one ? said->out + said->err + one->err : "not started";
                return ::write(ends.out.get(), text.data(), text.size()) > 0 ? 0 : 1;
            });
        ck_assert(child.ok());
        char text[256] = {};
        ck_assert_int_gt(::read(child->out.get(), text, sizeof text - 1), 0);
        assert_same(text, "out\nerr\none\n");
        ck_assert_int_eq(child->wait().status, 0);
    }
}

TEST(where_the_ends_of_children_go_nowhere_no_success_is_made_up) {
    ::signal(SIGCHLD, SIG_IGN);
    ck_assert_int_eq(run(shell("exit 0")).end.status, -1);
    ck_assert(start_detached({"/bin/true"}).ok());
    ::signal(SIGCHLD, SIG_DFL);
    ck_assert_int_eq(run(shell("exit 0")).end.status, 0);
}

TEST(whom_somebody_else_waited_for_has_ended) {
    auto child = start_child({.words = {"/bin/true"}});
    ck_assert(child.ok());
    ck_assert_int_eq(::waitpid(child->id(), nullptr, 0), child->id());
    child->signal(SIGKILL);  // goes to nobody
    ck_assert_int_eq(child->wait(soon())->status, -1);
    ck_assert(!child->is_running());
    child->signal(SIGKILL);
    ck_assert_int_eq(child->wait().status, -1);
}

std::atomic<int> interruptions = 0;

TEST(signals_interrupt_nothing) {
    struct sigaction action {};
    action.sa_handler = [](int) { ++interruptions; };  // without SA_RESTART
    ::sigaction(SIGALRM, &action, nullptr);
    const itimerval often{{0, 200}, {0, 200}};
    ::setitimer(ITIMER_REAL, &often, nullptr);
    for (int i = 0; interruptions < 1000 || i < 20; ++i) {
        const ChildOutput output = run(shell("echo $((6 * 7)); exit 3"));
        assert_same(output.out, "42\n");
        ck_assert_int_eq(output.end.status, 3);
        auto child = start_child({.words = {"/bin/sh", "-c", "sleep 0.01; exit 4"}});
        ck_assert_int_eq((i % 2 == 0 ? child->wait() : *child->wait(soon())).status, 4);
    }
    const itimerval never{};
    ::setitimer(ITIMER_REAL, &never, nullptr);
}

/// A pipe that another thread's child had inherited would not end here before that child does.
TEST(children_of_many_threads_have_nothing_of_each_other) {
    const test::Directory directory;
    auto blocker = start_child({.words = {"cat"}, .in = Stream::pipe, .out = Stream::pipe});
    ck_assert(blocker.ok());
    std::atomic<int> right = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t)
        threads.emplace_back([&, t] {
            for (int i = 0; i < 25; ++i) {
                const std::string word = fmt::format("{}.{}", t, i);
                auto slow = start_child({.words = {"cat"}, .in = Stream::pipe});
                const auto said =
                    run_child(shell("ls /proc/self/fd | wc -l; echo " + word), soon(), most);
                if (slow && said && said->out == "4\n" + word + "\n" && said->end.status == 0)
                    ++right;
            }
        });
    for (std::thread& thread : threads) thread.join();
    ck_assert_int_eq(right, 8 * 25);
    blocker->in.reset();
    ck_assert_int_eq(blocker->wait().status, 0);
    ck_assert(!has_children());
}

TEST(a_parent_without_descriptors_left_is_told_so) {
    std::vector<FileDescriptor> all;
    rlimit few{64, 64};
    ::setrlimit(RLIMIT_NOFILE, &few);
    for (;;) {
        all.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
        if (all.back().get() < 0) break;
    }
    assert_error(run_child(shell("true"), soon(), most).error(), ErrorCode::environment,
                 "/bin/sh: cannot be started: Too many open files");
    ck_assert_int_eq(start_child({.words = {"/bin/true"}})->wait().status, 0);  // needs no pipe
}

// ---- hostile programs
// ----------------------------------------------------------------------------

TEST(a_program_that_cannot_run_is_told_with_its_reason) {
    const test::Directory directory;
    const std::string script = directory.path() + "/script";
    std::ofstream(script) << "#!/no/such/interpreter\n";
    const auto refused = [](std::vector<std::string> words, const char* reason,
                            ErrorCode code = ErrorCode::environment) {
        assert_error(start_child({.words = words}).error(), code, reason);
        assert_error(start_detached(words).error(), code, reason);
    };
    refused({"/no/such/program"}, "/no/such/program: cannot be started: No such file");
    refused({"no-such-program-of-ours"}, "cannot be started: No such file");
    refused({script}, "cannot be started: Permission denied");
    std::filesystem::permissions(script, std::filesystem::perms::owner_all);
    refused({script}, "cannot be started: No such file");
    refused({directory.path()}, "cannot be started: Permission denied");
    refused({"/bin/echo", std::string(std::size_t{4} << 20, 'x')}, "Argument list too long");
    refused({}, "no program", ErrorCode::usage);
    refused({""}, "no program", ErrorCode::usage);
    refused({"/bin/echo", std::string("a\0b", 3)}, "has a zero byte", ErrorCode::usage);
    ChildStart start{.words = {"/bin/true"}, .variables = Texts{std::string("A=\0", 3)}};
    assert_error(start_child(start).error(), ErrorCode::usage, "has a zero byte");
    ck_assert(!has_children());
}

TEST(a_program_that_does_not_end_is_ended) {
    const auto limit = [] { return Clock::now() + std::chrono::milliseconds(50); };
    assert_error(run_child(shell("exec sleep 1000"), limit(), most).error(), ErrorCode::environment,
                 "no answer in time");
    assert_error(run_child(shell("trap '' TERM INT; exec >&- 2>&-; while :; do read -r x; done"),
                           limit(), most)
                     .error(),
                 ErrorCode::environment, "does not end in time");
    // What it started has the pipe, and is waited for no longer.
    assert_error(run_child(shell("sleep 5 & exit 0"), limit(), most).error(),
                 ErrorCode::environment, "no answer in time");
    ck_assert(!has_children());
}

TEST(a_program_that_says_too_much_is_ended) {
    assert_error(run_child(shell("exec cat /dev/zero"), soon(), most).error(),
                 ErrorCode::environment, "is too long");
    assert_error(run_child(shell("exec cat /dev/zero >&2"), soon(), most).error(),
                 ErrorCode::environment, "is too long");
    ck_assert_uint_eq(out_of(shell(fmt::format("head -c {} /dev/zero", most))).size(), most);
    ck_assert(!has_children());
}

TEST(a_child_that_is_let_go_of_is_killed_and_waited_for) {
    pid_t id = -1;
    {
        auto child = start_child({.words = {"sleep", "1000"}});
        ck_assert(child.ok() && child->is_running() && child->ended() >= 0);
        ck_assert(!child->wait(Clock::now()));
        id = child->id();
    }
    ck_assert(::kill(id, 0) != 0 && errno == ESRCH);
    Child slot = start_child({.words = {"sleep", "1000"}}).value();
    id = slot.id();
    slot = start_child({.words = {"/bin/true"}}).value();
    ck_assert(::kill(id, 0) != 0 && errno == ESRCH);
    ck_assert_int_eq(slot.wait().status, 0);
}

// ---- detached, copies, names
// ---------------------------------------------------------------------

TEST(who_is_detached_has_no_parent_no_stream_and_is_no_child) {
    const test::Directory directory;
    const std::string fifo = directory.path() + "/fifo";
    ck_assert_int_eq(::mkfifo(fifo.c_str(), 0600), 0);
    const FileDescriptor leaks(::open("/dev/null", O_RDONLY));
    const std::string script =
        "read -r line </proc/$$/stat; set -- ${line##*) }; "
        "echo $2 $3 $4 $$ $(readlink /proc/$$/fd/*) $OTHER >" +
        fifo;
    ck_assert(
        start_detached({"/bin/sh", "-c", script}, Texts{"PATH=/usr/bin:/bin", "OTHER=x"}).ok());
    ck_assert(!has_children());
    std::string line;
    std::ifstream in(fifo);
    std::getline(in, line);
    const auto words = words_of(line);
    ck_assert_uint_ge(words.size(), 8U);
    ck_assert(words[0] != std::to_string(::getpid()));
    ck_assert(words[1] == words[3] && words[2] == words[3]);
    for (int i = 4; i < 7; ++i) ck_assert(words[static_cast<std::size_t>(i)] == "/dev/null");
    ck_assert(words.back() == "x");
}

TEST(a_copy_runs_a_function_and_ends_with_its_answer) {
    int touched = 0;
    auto child =
        start_copy({.in = Stream::pipe, .out = Stream::pipe, .apart = true}, [&](CopyEnds& ends) {
            char c = 0;
            touched = 1;
            if (::read(ends.in.get(), &c, 1) != 1) return 9;
            if (::read(ends.in.get(), &c, 1) != 0) return 8;  // nobody writes
            return ::write(ends.out.get(), &c, 1) == 1 ? 5 : 7;
        });
    ck_assert(child.ok());
    ck_assert_int_eq(::write(child->in.get(), "k", 1), 1);
    child->in.reset();
    char text[4] = {};
    ck_assert_int_eq(::read(child->out.get(), text, sizeof text), 1);
    assert_same(text, "k");
    ck_assert_int_eq(::read(child->out.get(), text, sizeof text), 0);
    ck_assert_int_eq(child->wait().status, 5);
    ck_assert_int_eq(touched, 0);
    auto throws = start_copy({}, [](CopyEnds&) -> int { throw 1; });
    ck_assert_int_eq(throws->wait().status, 1);
}

TEST(a_program_is_looked_for_in_absolute_directories_alone) {
    const test::Directory directory;
    const auto put = [&](const std::string& name) {
        std::ofstream(directory.path() + "/" + name) << "#!/bin/sh\n";
        ::chmod((directory.path() + "/" + name).c_str(), 0755);
    };
    put("ours");
    std::filesystem::create_directories(directory.path() + "/first/ours");
    std::filesystem::current_path(directory.path());
    ::setenv("PATH", fmt::format(".::{0}/first:{0}", directory.path()).c_str(), 1);
    assert_same(find_program("ours"), (directory.path() + "/ours"));
    assert_same(find_program("./ours"), "./ours");
    ::setenv("PATH", ".:", 1);
    assert_same(find_program("ours"), "");
    ::unsetenv("PATH");
    assert_same(find_program("sh").substr(find_program("sh").size() - 7), "/bin/sh");
}

}  // namespace
