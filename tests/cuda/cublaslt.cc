// SPDX-License-Identifier: GPL-2.0-or-later
// libcublasLt: matrix products by descriptors, with the checks of the cuBLAS documentation, section
// 3 "Using the cuBLASLt API" (13.0). The heuristic proposes algorithms that need all that the
// preference lets them: the whole alignment (MIN_ALIGNMENT_*, 256 bytes unless set) and workspace.
#include <cublasLt.h>

#include <array>

#include "tests/cuda/device.h"
#include "tests/cuda/numbers.h"

namespace {

using soft::Number;
using Size = std::int64_t;

struct Layout {
    cudaDataType type;
    Size rows, cols, ld;
    std::int32_t batch = 1;
    Size stride = 0;
};
struct Description {
    cublasComputeType_t compute;
    cudaDataType scale;
    std::int32_t a = CUBLAS_OP_N, b = CUBLAS_OP_N;
    std::int8_t is_fast = 0;
};
struct Preference {
    std::uint64_t workspace = 0;
    std::array<std::uint32_t, 4> alignment{256, 256, 256, 256};
};
struct Handle {
    int device;
};
/// What stands in cublasLtMatmulAlgo_t.
struct Algorithm {
    std::uint64_t id, workspace;
    std::array<std::uint64_t, 4> alignment;
};
static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t));

template <typename T>
T* own(const void* p) {
    return static_cast<T*>(const_cast<void*>(p));
}

#define BEGIN_CALL                   \
    const soft::Call call(__func__); \
    if (call.failure != 0) return static_cast<cublasStatus_t>(call.failure)

template <typename T>
cublasStatus_t take(T& field, const void* from, std::size_t bytes) {
    if (from == nullptr || bytes != sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(&field, from, sizeof(T));
    return CUBLAS_STATUS_SUCCESS;
}

bool number_of(cudaDataType type, Number* number) {
    switch (type) {
        case CUDA_R_32F:
            return *number = Number::f32, true;
        case CUDA_R_16F:
            return *number = Number::f16, true;
        case CUDA_R_16BF:
            return *number = Number::bf16, true;
        case CUDA_R_8F_E4M3:
            return *number = Number::e4m3, true;
        default:
            return false;
    }
}

struct Problem {
    Size m, n, k;
    Number a, b, c, d;
};

/// 3.4.17 cublasLtMatmul(), the tables of supported types: those with computation in 32F. The
/// notes on fp8: A transposed, B not, sizes that are multiples of 16, capability 8.9.
cublasStatus_t check_types(const Description& o, const Layout& a, const Problem& p) {
    if (o.scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (p.a != p.b || p.c != p.d) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (o.compute == CUBLAS_COMPUTE_32F_FAST_TF32)
        return p.a == Number::f32 && p.c == Number::f32 ? CUBLAS_STATUS_SUCCESS
                                                        : CUBLAS_STATUS_NOT_SUPPORTED;
    if (o.compute != CUBLAS_COMPUTE_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (p.a == Number::e4m3) {
        const bool sizes = p.m % 16 == 0 && p.n % 16 == 0 && p.k % 16 == 0 && a.ld % 16 == 0;
        if (o.a != CUBLAS_OP_T || o.b != CUBLAS_OP_N || !sizes ||
            soft::setting("ARENA_SOFT_CAPABILITY", 90) < 89)
            return CUBLAS_STATUS_NOT_SUPPORTED;
        return p.c != Number::e4m3 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
    }
    return p.c == p.a || p.c == Number::f32 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t check_problem(const Description& o, const Layout& a, const Layout& b,
                             const Layout& c, const Layout& d, Problem* p) {
    if (!number_of(a.type, &p->a) || !number_of(b.type, &p->b) || !number_of(c.type, &p->c) ||
        !number_of(d.type, &p->d))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    const auto is_turned = [](std::int32_t op) { return op == CUBLAS_OP_T; };
    p->m = is_turned(o.a) ? a.cols : a.rows, p->k = is_turned(o.a) ? a.rows : a.cols;
    p->n = is_turned(o.b) ? b.rows : b.cols;
    if ((is_turned(o.b) ? b.cols : b.rows) != p->k) return CUBLAS_STATUS_INVALID_VALUE;
    for (const Layout* result : {&c, &d})
        if (result->rows != p->m || result->cols != p->n) return CUBLAS_STATUS_INVALID_VALUE;
    for (const Layout* l : {&a, &b, &c, &d})
        if (l->ld < l->rows || l->batch != a.batch) return CUBLAS_STATUS_INVALID_VALUE;
    return check_types(o, a, *p);
}

/// op(X) as dense rows of fp32.
soft::Floats dense(const Layout& l, Number type, const void* p, bool is_turned, Size batch,
                   bool rows_of_op) {
    const Size rows = is_turned ? l.cols : l.rows, cols = is_turned ? l.rows : l.cols;
    soft::Floats out(static_cast<std::size_t>(rows * cols));
    for (Size c = 0; c < l.cols; ++c)
        for (Size r = 0; r < l.rows; ++r) {
            const float x = soft::load(type, p, batch * l.stride + c * l.ld + r);
            const Size i = is_turned ? c : r, j = is_turned ? r : c;
            out[static_cast<std::size_t>(rows_of_op ? i * cols + j : j * rows + i)] = x;
        }
    return out;
}

/// Larger products are timed, but not computed: what asks for one looks at the time alone.
constexpr double most_flops = 2e9;
/// Tiles of 128 x 128 are computed whole, and filling the pipe takes a while, as on a GPU.
constexpr double ramp = 400;
double whole_tiles(Size n) { return 128.0 * static_cast<double>((n + 127) / 128); }

std::size_t bytes_of(const Layout& l, Number type) {
    const Size elements = (l.batch - 1) * l.stride + (l.cols - 1) * l.ld + l.rows;
    return static_cast<std::size_t>(elements) * soft::width_of(type);
}

}  // namespace

extern "C" {

std::size_t cublasLtGetVersion() { return 130000; }
const char* cublasLtGetStatusString(cublasStatus_t s) {
    switch (s) {
        case CUBLAS_STATUS_NOT_INITIALIZED:
            return "CUBLAS_STATUS_NOT_INITIALIZED";
        case CUBLAS_STATUS_ALLOC_FAILED:
            return "CUBLAS_STATUS_ALLOC_FAILED";
        case CUBLAS_STATUS_INVALID_VALUE:
            return "CUBLAS_STATUS_INVALID_VALUE";
        case CUBLAS_STATUS_EXECUTION_FAILED:
            return "CUBLAS_STATUS_EXECUTION_FAILED";
        case CUBLAS_STATUS_NOT_SUPPORTED:
            return "CUBLAS_STATUS_NOT_SUPPORTED";
        default:
            return "a status of the software device";
    }
}
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
    BEGIN_CALL;
    soft::alive("cuBLASLt handles", 1);
    *handle = reinterpret_cast<cublasLtHandle_t>(new Handle{soft::current_device()});
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
    BEGIN_CALL;
    soft::alive("cuBLASLt handles", -1);
    delete own<Handle>(handle);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          std::uint64_t rows, std::uint64_t cols, std::int64_t ld) {
    BEGIN_CALL;
    soft::alive("matrix layouts", 1);
    *layout = reinterpret_cast<cublasLtMatrixLayout_t>(
        new Layout{type, static_cast<Size>(rows), static_cast<Size>(cols), ld});
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
    BEGIN_CALL;
    soft::alive("matrix layouts", -1);
    delete own<Layout>(layout);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* value, std::size_t bytes) {
    BEGIN_CALL;
    auto* const l = own<Layout>(layout);
    if (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT) return take(l->batch, value, bytes);
    if (attribute == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)
        return take(l->stride, value, bytes);
    soft::fault("a matrix layout's attribute not known here");
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* operation,
                                        cublasComputeType_t compute, cudaDataType_t scale) {
    BEGIN_CALL;
    soft::alive("descriptions of products", 1);
    *operation = reinterpret_cast<cublasLtMatmulDesc_t>(new Description{compute, scale});
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t operation) {
    BEGIN_CALL;
    soft::alive("descriptions of products", -1);
    delete own<Description>(operation);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t operation,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t bytes) {
    BEGIN_CALL;
    auto* const o = own<Description>(operation);
    if (attribute == CUBLASLT_MATMUL_DESC_TRANSA) return take(o->a, value, bytes);
    if (attribute == CUBLASLT_MATMUL_DESC_TRANSB) return take(o->b, value, bytes);
    if (attribute == CUBLASLT_MATMUL_DESC_FAST_ACCUM) return take(o->is_fast, value, bytes);
    soft::fault("a product's attribute not known here");
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
    BEGIN_CALL;
    soft::alive("preferences", 1);
    *preference = reinterpret_cast<cublasLtMatmulPreference_t>(new Preference);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
    BEGIN_CALL;
    soft::alive("preferences", -1);
    delete own<Preference>(preference);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, std::size_t bytes) {
    BEGIN_CALL;
    auto* const p = own<Preference>(preference);
    switch (attribute) {
        case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
            return take(p->workspace, value, bytes);
        case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
            return take(p->alignment[0], value, bytes);
        case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
            return take(p->alignment[1], value, bytes);
        case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
            return take(p->alignment[2], value, bytes);
        case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
            return take(p->alignment[3], value, bytes);
        default:
            soft::fault("a preference not known here");
    }
}

/// Three algorithms, of which the second is the fastest and the third takes the whole workspace.
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int most,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* count) {
    BEGIN_CALL;
    *count = 0;
    if (most < 1) return CUBLAS_STATUS_INVALID_VALUE;
    Problem p{};
    if (const auto s = check_problem(*own<Description>(operation), *own<Layout>(a), *own<Layout>(b),
                                     *own<Layout>(c), *own<Layout>(d), &p);
        s != CUBLAS_STATUS_SUCCESS)
        return s;
    const auto& limits = *own<Preference>(preference);
    for (std::uint64_t id = 1; id <= 3 && *count < most; ++id) {
        cublasLtMatmulHeuristicResult_t& r = results[(*count)++];
        r = {};
        r.workspaceSize = id == 3 ? limits.workspace : 0;
        Algorithm made{id, r.workspaceSize, {}};
        std::copy(limits.alignment.begin(), limits.alignment.end(), made.alignment.begin());
        std::memcpy(&r.algo, &made, sizeof made);
        r.state = CUBLAS_STATUS_SUCCESS;
    }
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                              const void* alpha, const void* A, cublasLtMatrixLayout_t Adesc,
                              const void* B, cublasLtMatrixLayout_t Bdesc, const void* beta,
                              const void* C, cublasLtMatrixLayout_t Cdesc, void* D,
                              cublasLtMatrixLayout_t Ddesc, const cublasLtMatmulAlgo_t* algo,
                              void* workspace, std::size_t workspace_bytes, cudaStream_t stream) {
    BEGIN_CALL;
    const Description o = *own<Description>(operation);
    const Layout a = *own<Layout>(Adesc), b = *own<Layout>(Bdesc), c = *own<Layout>(Cdesc),
                 d = *own<Layout>(Ddesc);
    Problem p{};
    if (const auto s = check_problem(o, a, b, c, d, &p); s != CUBLAS_STATUS_SUCCESS) return s;
    if (algo == nullptr) soft::fault("a product without an algorithm is not known here");
    Algorithm chosen;
    std::memcpy(&chosen, algo, sizeof chosen);
    const std::array<const void*, 4> pointers{A, B, C, D};
    for (std::size_t i = 0; i < pointers.size(); ++i)
        if (reinterpret_cast<std::uintptr_t>(pointers[i]) % chosen.alignment[i] != 0)
            return CUBLAS_STATUS_INVALID_VALUE;
    if (workspace_bytes < chosen.workspace) return CUBLAS_STATUS_INVALID_VALUE;
    if (chosen.workspace > 0 && reinterpret_cast<std::uintptr_t>(workspace) % 16 != 0)
        return CUBLAS_STATUS_INVALID_VALUE;
    const auto s = soft::stream_of(stream);
    const int device = own<Handle>(handle)->device;
    if (!s || s->device != device) return CUBLAS_STATUS_INVALID_VALUE;
    if (C == D && (c.ld != d.ld || c.stride != d.stride)) return CUBLAS_STATUS_INVALID_VALUE;
    const float scale = *static_cast<const float*>(alpha), keep = *static_cast<const float*>(beta);
    const auto check_memory = [=] {
        for (const auto& [at, bytes] : {std::pair{A, bytes_of(a, p.a)},
                                        {B, bytes_of(b, p.b)},
                                        {C, bytes_of(c, p.c)},
                                        {static_cast<const void*>(D), bytes_of(d, p.d)}})
            if (soft::device_of(at, bytes, "a product's operand") != device)
                soft::fault("a product's operand is not on the device");
        if (chosen.workspace > 0 &&
            soft::device_of(workspace, chosen.workspace, "a product's workspace") != device)
            soft::fault("a product's workspace is not on the device");
    };
    check_memory();
    const double flops = 2.0 * whole_tiles(p.m) * whole_tiles(p.n) *
                         (static_cast<double>(p.k) + ramp) * a.batch,
                 bytes =
                     static_cast<double>(bytes_of(a, p.a) + bytes_of(b, p.b) + bytes_of(d, p.d));
    const auto run = [=](soft::Stream&) {
        check_memory();
        if (chosen.workspace > 0)
            std::memset(workspace, 0xff, std::min<std::size_t>(chosen.workspace, 4096));
        if (flops > most_flops) return std::memset(D, 0, bytes_of(d, p.d)), true;
        for (Size i = 0; i < a.batch; ++i) {
            const auto left = dense(a, p.a, A, o.a == CUBLAS_OP_T, i, true),
                       right = dense(b, p.b, B, o.b == CUBLAS_OP_T, i, true);
            const auto sums = soft::product(left, right, p.m, p.n, p.k);
            for (Size col = 0; col < p.n; ++col)
                for (Size row = 0; row < p.m; ++row) {
                    float x = scale * sums[static_cast<std::size_t>(row * p.n + col)];
                    if (keep != 0) x += keep * soft::load(p.c, C, i * c.stride + col * c.ld + row);
                    soft::store(p.d, D, i * d.stride + col * d.ld + row, x);
                }
        }
        return true;
    };
    const double slower = chosen.id == 2 ? 1 : 1.25;
    const auto e =
        soft::enqueue(stream, {"a product", slower * soft::seconds_of_flops(flops, bytes), run});
    return e == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // extern "C"
