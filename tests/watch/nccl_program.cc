// SPDX-License-Identifier: GPL-2.0-or-later
// A rank that calls NCCL, for the tests of the recorder.
//   nccl_program calls N        N calls: 0, 1, ... as their counts, operations in turn, then prints
//                               what reached the library
//   nccl_program threads T N    T threads make N all-reduces each; the count is thread * N + number
//   nccl_program comms          communicators of every making, one all-reduce on each: prints
//   nothing nccl_program bcast          one Bcast and one AlltoAll nccl_program fork           a
//   call, and one in a child nccl_program wait FIFO      10 calls, then waits until FIFO is opened
//   for writing nccl_program steps N        N steps of arena_watch.h
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string_view>
#include <thread>
#include <vector>

#include "watch/arena_watch.h"
#include "watch/recorder/nccl_calls.h"

using namespace arena::watch::nccl;
#define DECLARE(function, operation, aux, parameters, arguments) \
    extern "C" Result function parameters;
ARENA_NCCL_CALLS(DECLARE)
#define DECLARE_COMM(function, parameters) extern "C" Result function parameters;
ARENA_NCCL_COMM_CALLS(DECLARE_COMM)
extern "C" std::uint64_t stub_calls();

namespace {

UniqueId id_of(char c) {
    UniqueId id{};
    id.internal[5] = c;
    return id;
}

Comm world() {
    Comm comm = nullptr;
    ncclCommInitRank(&comm, 8, id_of('w'), 0);
    return comm;
}

int all_reduce(Comm comm, std::size_t count) {
    return ncclAllReduce(nullptr, nullptr, count, 7, 0, comm, nullptr);
}

void calls(std::uint64_t n) {
    Comm comm = world();
    for (std::uint64_t i = 0; i < n; ++i) {
        if (i % 4 == 0) all_reduce(comm, i);
        if (i % 4 == 1) ncclBcast(nullptr, i, 1, 0, comm, nullptr);
        if (i % 4 == 2) ncclSend(nullptr, i, 7, 2, comm, nullptr);
        if (i % 4 == 3) ncclRecv(nullptr, i, 7, 3, comm, nullptr);
    }
    std::printf("%llu\n", static_cast<unsigned long long>(stub_calls()));
}

void threads(std::uint64_t number, std::uint64_t n) {
    Comm comm = world();
    std::vector<std::jthread> all;
    for (std::uint64_t t = 0; t < number; ++t)
        all.emplace_back([=] {
            for (std::uint64_t i = 0; i < n; ++i) all_reduce(comm, t * n + i);
        });
}

/// Counts 1, 2, ... name the communicators; 6 and 7 are made in a group.
void comms() {
    Comm w = world(), a = nullptr, b = nullptr, c = nullptr, d = nullptr, e = nullptr, f = nullptr;
    ncclCommInitRankConfig(&a, 8, id_of('a'), 0, nullptr);
    const char* color = std::getenv("ARENA_TEST_COLOR");
    ncclCommSplit(w, color != nullptr ? std::atoi(color) : 0, 0, &b, nullptr);
    ncclCommSplit(w, color != nullptr ? std::atoi(color) : 0, 0, &c, nullptr);
    int excluded[] = {3};
    ncclCommShrink(w, excluded, 1, &d, nullptr, 0);
    ncclGroupStart();
    ncclCommInitRank(&e, 8, id_of('e'), 0);
    ncclCommSplit(w, 0, 0, &f, nullptr);
    ncclGroupEnd();
    std::size_t count = 1;
    for (Comm comm : {w, a, b, c, d, e, f}) all_reduce(comm, count++);
    ncclCommDestroy(a);
    all_reduce(w, count);
}

void bcast() {
    Comm comm = world();
    ncclBcast(nullptr, 100, 1, 2, comm, nullptr);
    ncclAlltoAll(nullptr, nullptr, 10, 7, comm, nullptr);
}

void in_child() {
    Comm comm = world();
    all_reduce(comm, 1);
    const pid_t child = ::fork();
    if (child == 0) {
        all_reduce(comm, 2);
        ::_exit(0);
    }
    ::waitpid(child, nullptr, 0);
    all_reduce(comm, 3);
}

void wait(const char* fifo) {
    Comm comm = world();
    for (std::size_t i = 0; i < 10; ++i) all_reduce(comm, i);
    std::puts("ready");
    std::fflush(stdout);
    std::ifstream(fifo).get();
}

}  // namespace

int main(int argc, char** argv) {
    const std::string_view what = argc > 1 ? argv[1] : "";
    const auto number = [&](int i) { return argc > i ? std::strtoull(argv[i], nullptr, 10) : 0; };
    if (what == "calls")
        calls(number(2));

    else if (what == "threads")
        threads(number(2), number(3));

    else if (what == "comms")
        comms();

    else if (what == "bcast")
        bcast();

    else if (what == "fork")
        in_child();

    else if (what == "wait")
        wait(argv[2]);

    else if (what == "steps")
        for (std::uint64_t i = 0; i < number(2); ++i) ARENA_WATCH_STEP_TOKENS(i);
    else
        return 2;
    return 0;
}
