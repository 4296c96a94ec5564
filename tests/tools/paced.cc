// SPDX-License-Identifier: GPL-2.0-or-later
// LD_PRELOAD: ranks that take their time asleep, so that a test of who is slow does not depend on
// what else the machine does. A matrix product takes as long as on a device of ARENA_PACED_MFLOPS,
// a message ARENA_PACED_MESSAGE_MS longer, and MPI's waits sleep, which asks for
// OMPI_MCA_mpi_yield_when_idle=1. A process that is stopped (SIGSTOP) does no work meanwhile:
// slow-process slows it truly.
#include <dlfcn.h>
#include <sched.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <ctime>

namespace {

/// Asleep at a time: of a turn of slow-process several.
constexpr double slice_s = 0.004;
/// A busy machine wakes a sleeper late: what came late is work done, up to so much.
constexpr double longest_late_s = 0.25;
constexpr double yield_s = 0.0003;

double number_of_environment(const char* name) {
    const char* text = std::getenv(name);
    return text == nullptr ? 0 : std::atof(text);
}
/// In FLOP/s; 0: products are as fast as they are.
const double rate = 1e6 * number_of_environment("ARENA_PACED_MFLOPS");
const double message_s = 1e-3 * number_of_environment("ARENA_PACED_MESSAGE_MS");

/// Blocked, so that it stays to be seen that the process was stopped; a handler will not do:
/// kernels of oneDNN have their stack pointer in other memory, where its frame would be written.
const sigset_t continued = [] {
    sigset_t set;
    ::sigemptyset(&set);
    ::sigaddset(&set, SIGCONT);
    ::sigprocmask(SIG_BLOCK, &set, nullptr);
    return set;
}();

bool was_stopped() {
    const timespec at_once{};
    return ::sigtimedwait(&continued, nullptr, &at_once) == SIGCONT;
}

double now_s() {
    timespec t{};
    ::clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

void sleep_for(double seconds) {
    const timespec t{0, static_cast<long>(seconds * 1e9)};
    ::nanosleep(&t, nullptr);
}

/// Time of which the process worked: of a part in which it was stopped half of a slice, as it comes
/// on the average.
template <typename F>
double worked_s(F part) {
    const double begin_s = now_s();
    part();
    const double elapsed_s = std::min(now_s() - begin_s, longest_late_s);
    return was_stopped() ? std::min(elapsed_s, slice_s / 2) : elapsed_s;
}

/// What is left of it is asleep for less than a slice.
void work_off(double& owed_s) {
    while (owed_s >= slice_s) owed_s -= worked_s([] { sleep_for(slice_s); });
}

/// Until the product of so many operations has taken its time, of which a little is owed to the
/// next ones.
template <typename F>
auto pace(double flops, F product) {
    thread_local double owed_s = 0;
    decltype(product()) result{};
    const double took_s = worked_s([&] { result = product(); });
    if (rate <= 0) return result;
    owed_s = std::max(owed_s + flops / rate - took_s, -longest_late_s);
    work_off(owed_s);
    return result;
}

void hold_message() {
    thread_local double owed_s = 0;
    owed_s += message_s;
    work_off(owed_s);
}

template <typename F>
F* next(const char* name) {
    return reinterpret_cast<F*>(::dlsym(RTLD_NEXT, name));
}

double flops_of(std::int64_t m, std::int64_t n, std::int64_t k) {
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
}

}  // namespace

extern "C" int dnnl_sgemm(char trans_a, char trans_b, std::int64_t m, std::int64_t n,
                          std::int64_t k, float alpha, const float* a, std::int64_t lda,
                          const float* b, std::int64_t ldb, float beta, float* c,
                          std::int64_t ldc) {
    static auto* const real = next<decltype(dnnl_sgemm)>("dnnl_sgemm");
    return pace(flops_of(m, n, k), [&] {
        return real(trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    });
}

extern "C" void cblas_sgemm(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                            const float* a, int lda, const float* b, int ldb, float beta, float* c,
                            int ldc) {
    static auto* const real = next<decltype(cblas_sgemm)>("cblas_sgemm");
    pace(flops_of(m, n, k), [&] {
        real(order, trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
        return 0;
    });
}

// As Open MPI declares them, whose handles are pointers.
extern "C" int MPI_Send(const void* from, int count, void* type, int to, int tag, void* comm) {
    static auto* const real = next<decltype(MPI_Send)>("MPI_Send");
    hold_message();
    return real(from, count, type, to, tag, comm);
}

extern "C" int MPI_Isend(const void* from, int count, void* type, int to, int tag, void* comm,
                         void* request) {
    static auto* const real = next<decltype(MPI_Isend)>("MPI_Isend");
    hold_message();
    return real(from, count, type, to, tag, comm, request);
}

extern "C" int sched_yield() noexcept {
    sleep_for(yield_s);
    return 0;
}

// Ranks that sleep do not disturb each other: a check need not have them take turns.
extern "C" int sched_getaffinity(pid_t pid, std::size_t size, cpu_set_t* set) noexcept {
    static auto* const real = next<decltype(sched_getaffinity)>("sched_getaffinity");
    const int result = real(pid, size, set);
    if (result == 0 && rate > 0)
        for (std::size_t i = 0; i < 16; ++i) CPU_SET_S(i, size, set);
    return result;
}
