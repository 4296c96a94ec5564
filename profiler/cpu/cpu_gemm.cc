// SPDX-License-Identifier: GPL-2.0-or-later
// GEMM on the host by the library of the build: oneDNN where it is there, for it knows AVX-512 on
// every CPU that has it (OpenBLAS 0.3.21 falls back to AVX2 on AMD: half the speed) and shares the
// OpenMP threads of the other loops, else OpenBLAS. Both libraries are called column-major or
// row-major as they like; callers see row-major only. No own GEMM: one of the two is needed for a
// CPU back-end.
#include "config.h"
#include "profiler/cpu/cpu_kernels.h"

#if defined(HAVE_ONEDNN)
#include <dnnl.h>
#elif defined(HAVE_OPENBLAS)
#include <cblas.h>
#endif
#ifdef _OPENMP
#include <omp.h>
#endif

#include <algorithm>
#include <atomic>
#include <stdexcept>

namespace arena::cpu {

#if defined(HAVE_ONEDNN)

bool have_gemm() { return true; }

std::string gemm_library() {
    const dnnl_version_t* v = dnnl_version();
    return "oneDNN " + std::to_string(v->major) + "." + std::to_string(v->minor) + "." +
           std::to_string(v->patch);
}

namespace {
std::atomic<int> gemm_threads{1};

/// Threads that a product called here may take: 1 inside a parallel region.
int threads_here() {
#ifdef _OPENMP
    if (omp_in_parallel()) return 1;
#endif
    return gemm_threads.load(std::memory_order_relaxed);
}

/// oneDNN takes as many threads as OpenMP would give the calling thread, of which each has its own
/// number; inside a parallel region it takes one.
void keep_to_this_thread() {
#ifdef _OPENMP
    if (!omp_in_parallel() && omp_get_max_threads() != 1) omp_set_num_threads(1);
#endif
}

/// Columns of C are dealt to the threads in multiples of so many: a vector of AVX-512.
constexpr Index column_block = 16;
}  // namespace

void set_gemm_threads(int threads) { gemm_threads = threads; }

/// One call per thread, each with its own columns of C: left to itself the library divides some
/// shapes badly (512 x 4096 x 1024 with two threads took 1.6 times as long as with one).
void gemm(const Gemm& g, Matrix<const float> a, Matrix<const float> b, float beta,
          Matrix<float> c) {
    std::atomic<bool> failed{false};
    const Index blocks = (g.n + column_block - 1) / column_block;
    const auto columns = [&](int, Index begin, Index end) {
        const Index first = begin * column_block, n = std::min(end * column_block, g.n) - first;
        keep_to_this_thread();
        const float* mine = b.data + (g.layout == Layout::nt ? first * b.ld : first);
        if (dnnl_sgemm(g.layout == Layout::tn ? 'T' : 'N', g.layout == Layout::nt ? 'T' : 'N', g.m,
                       n, g.k, 1.0F, a.data, a.ld, mine, b.ld, beta, c.data + first,
                       c.ld) != dnnl_success)
            failed = true;
    };
    parallel_for(blocks, threads_here(), columns);
    if (failed) throw std::runtime_error("dnnl_sgemm failed");
}

void parallel_gemms(Index n, int threads, const std::function<void(int, Index, Index)>& body) {
    parallel_for(n, threads, body);
}

#elif defined(HAVE_OPENBLAS)

bool have_gemm() { return true; }

std::string gemm_library() {
    // "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ...": the first two words name the version
    const std::string config = openblas_get_config();
    const auto second = config.find(' ');
    const auto end = second == std::string::npos ? second : config.find(' ', second + 1);
    return config.substr(0, end) + " " + openblas_get_corename();
}

void set_gemm_threads(int threads) { openblas_set_num_threads(threads); }

void gemm(const Gemm& g, Matrix<const float> a, Matrix<const float> b, float beta,
          Matrix<float> c) {
    const auto int_of = [](Index i) { return static_cast<blasint>(i); };
    cblas_sgemm(CblasRowMajor, g.layout == Layout::tn ? CblasTrans : CblasNoTrans,
                g.layout == Layout::nt ? CblasTrans : CblasNoTrans, int_of(g.m), int_of(g.n),
                int_of(g.k), 1.0F, a.data, int_of(a.ld), b.data, int_of(b.ld), beta, c.data,
                int_of(c.ld));
}

void parallel_gemms(Index n, int threads, const std::function<void(int, Index, Index)>& body) {
    if (threads > 1) set_gemm_threads(1);
    parallel_for(n, threads, body);
    if (threads > 1) set_gemm_threads(threads);
}

#else

bool have_gemm() { return false; }
std::string gemm_library() { return "none"; }
void set_gemm_threads(int) {}
void gemm(const Gemm&, Matrix<const float>, Matrix<const float>, float, Matrix<float>) {
    throw std::runtime_error("built without OpenBLAS and without oneDNN");
}
void parallel_gemms(Index n, int threads, const std::function<void(int, Index, Index)>& body) {
    parallel_for(n, threads, body);
}

#endif

void batched_gemm(const Gemm& g, Index batch, const float* a, const float* b, float* c,
                  int threads) {
    const Index lda = g.layout == Layout::tn ? g.m : g.k;
    const Index ldb = g.layout == Layout::nt ? g.k : g.n;
    const auto one = [&](Index i) {
        gemm(g, {a + i * g.m * g.k, lda}, {b + i * g.k * g.n, ldb}, 0.0F, {c + i * g.m * g.n, g.n});
    };
    if (batch < 2 * threads) {
        for (Index i = 0; i < batch; ++i) one(i);
        return;
    }
    parallel_gemms(batch, threads, [&](int, Index begin, Index end) {
        for (Index i = begin; i < end; ++i) one(i);
    });
}

void parallel_for(Index n, int threads, const std::function<void(int, Index, Index)>& body) {
    const auto parts = static_cast<int>(std::min<Index>(threads, std::max<Index>(n, 1)));
    if (parts <= 1) {
        body(0, 0, n);
        return;
    }
#pragma omp parallel for num_threads(parts) schedule(static, 1)
    for (int part = 0; part < parts; ++part) body(part, n * part / parts, n * (part + 1) / parts);
}

}  // namespace arena::cpu
