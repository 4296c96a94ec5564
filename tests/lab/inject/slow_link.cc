// SPDX-License-Identifier: GPL-2.0-or-later
// libarena_slow_link.so: a slow link between two ranks of an MPI program, without root: preloaded,
// it holds the two up in the calls that send over it, while a file says so. It chains as the
// recorder does, behind which it is to stand: calls are recorded where they begin. A program's
// Isend is held up before it begins; persistent requests and Fortran's names are not.
#define OMPI_SKIP_MPICXX 1  // the C interface alone
#include <fcntl.h>
#include <mpi.h>
#include <pthread.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "tests/lab/inject/slow_link_rule.h"
#include "watch/recorder/mpi_calls.h"
#include "watch/recorder/real.h"

#ifdef OPEN_MPI
#pragma weak ompi_mpi_comm_world
#pragma weak ompi_mpi_byte
#pragma weak ompi_mpi_group_null
#endif

namespace arena::watch {

/// The recorder's is in a library that need not be there.
void say_once(const char* text) {
    static std::atomic<bool> said{false};
    if (!said.exchange(true)) ::dprintf(STDERR_FILENO, "slow-link: %s\n", text);
}

}  // namespace arena::watch

namespace arena::inject {
namespace {

using watch::Op;
using watch::Real;

/// Between two looks at the file.
constexpr std::int64_t look_ns = 20'000'000;
/// A sleep ends so much late, more or less; the rest is waited for awake.
constexpr std::int64_t sleep_error_ns = 80'000;

std::int64_t now_ns() {
    timespec t{};
    ::clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<std::int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

/// The user's own file, or root's.
SlowLink read_link() {
    const char* path = ::secure_getenv("ARENA_SLOW_LINK");
    if (path == nullptr) return {};
    const int fd = ::open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return {};
    struct stat status {};
    char text[most_rule_bytes];
    ssize_t length = -1;
    if (::fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
        (status.st_uid == ::geteuid() || status.st_uid == 0))
        length = ::read(fd, text, sizeof text);
    ::close(fd);
    return length < 0 ? SlowLink{} : parse_slow_link({text, static_cast<std::size_t>(length)});
}

SlowLink present_link() {
    static pthread_mutex_t looking = PTHREAD_MUTEX_INITIALIZER;
    static SlowLink link;
    static std::int64_t looked_ns = -look_ns;
    const int kept = errno;
    const std::int64_t at_ns = now_ns();
    pthread_mutex_lock(&looking);
    if (at_ns - looked_ns >= look_ns) {
        link = read_link();
        looked_ns = at_ns;
    }
    const SlowLink found = link;
    pthread_mutex_unlock(&looking);
    errno = kept;
    return found;
}

void wait_us(double us) {
    const std::int64_t until_ns = now_ns() + static_cast<std::int64_t>(us * 1e3);
    const std::int64_t wake_ns = until_ns - sleep_error_ns;
    timespec at{};
    at.tv_sec = wake_ns / 1'000'000'000;
    at.tv_nsec = wake_ns % 1'000'000'000;
    if (wake_ns > now_ns())
        while (::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, nullptr) == EINTR) {
        }
    while (now_ns() < until_ns) {
    }
}

/// Where the two are in this communicator, and whether the caller is one of them.
bool find_pair(const SlowLink& link, MPI_Comm comm, LinkCall& call) {
    static constinit Real<decltype(MPI_Comm_group)> group_of("PMPI_Comm_group");
    static constinit Real<decltype(MPI_Group_translate_ranks)> translate(
        "PMPI_Group_translate_ranks");
    static constinit Real<decltype(MPI_Group_rank)> rank_in("PMPI_Group_rank");
    static constinit Real<decltype(MPI_Group_size)> size_of("PMPI_Group_size");
    static constinit Real<decltype(MPI_Group_free)> let_go("PMPI_Group_free");
    if (!group_of.get() || !translate.get() || !rank_in.get() || !size_of.get() || !let_go.get())
        return false;
    MPI_Group world, group;
    if (group_of.get()(MPI_COMM_WORLD, &world) != MPI_SUCCESS) return false;
    if (group_of.get()(comm, &group) != MPI_SUCCESS) return false;
    const int wanted[2] = {static_cast<int>(link.a), static_cast<int>(link.b)};
    int there[2] = {MPI_UNDEFINED, MPI_UNDEFINED}, me = MPI_UNDEFINED, ranks = 0, of_world = 0;
    size_of.get()(world, &of_world);
    if (link.a < of_world && link.b < of_world) translate.get()(world, 2, wanted, group, there);
    rank_in.get()(group, &me);
    size_of.get()(group, &ranks);
    let_go.get()(&group);
    let_go.get()(&world);
    if (there[0] == MPI_UNDEFINED || there[1] == MPI_UNDEFINED) return false;
    if (me != there[0] && me != there[1]) return false;
    call.me = me;
    call.other = me == there[0] ? there[1] : there[0];
    call.ranks = ranks;
    return true;
}

void hold_up(Op op, int count, MPI_Datatype type, int aux, MPI_Comm comm) {
    const SlowLink link = present_link();
    if (link.a < 0) [[likely]]
        return;
    LinkCall call;
    if (!find_pair(link, comm, call)) return;
    static constinit Real<decltype(MPI_Type_size)> size_of("PMPI_Type_size");
    int bytes = 0;
    if (size_of.get() != nullptr) size_of.get()(type, &bytes);
    call.op = op;
    call.bytes = count > 0 ? static_cast<std::uint64_t>(count) * static_cast<unsigned>(bytes) : 0;
    call.aux = aux;
    const double us = held_up_us(link, call);
    if (us > 0) wait_us(us);
}

}  // namespace
}  // namespace arena::inject

using namespace arena::watch;   // NOLINT: the symbols below are C's
using namespace arena::inject;  // NOLINT

#define FORWARD(function, operation, count, type, aux, parameters, arguments) \
    extern "C" ARENA_WATCH_EXPORT int function parameters {                   \
        static constinit Real<decltype(function)> real(#function);            \
        auto* const go_on = real.get();                                       \
        if (go_on == nullptr) return MPI_ERR_OTHER;                           \
        const Outermost outermost;                                            \
        if (outermost) hold_up(Op::operation, count, type, aux, comm);        \
        return go_on arguments;                                               \
    }
ARENA_MPI_BLOCKING(FORWARD)
ARENA_MPI_IMMEDIATE(FORWARD)

extern "C" ARENA_WATCH_EXPORT int MPI_Sendrecv(const void* from, int from_count,
                                               MPI_Datatype from_type, int to_rank, int to_tag,
                                               void* to, int to_count, MPI_Datatype to_type,
                                               int from_rank, int from_tag, MPI_Comm comm,
                                               MPI_Status* status) {
    static constinit Real<decltype(MPI_Sendrecv)> real("MPI_Sendrecv");
    auto* const go_on = real.get();
    if (go_on == nullptr) return MPI_ERR_OTHER;
    const Outermost outermost;
    if (outermost) hold_up(Op::send, from_count, from_type, to_rank, comm);
    return go_on(from, from_count, from_type, to_rank, to_tag, to, to_count, to_type, from_rank,
                 from_tag, comm, status);
}
