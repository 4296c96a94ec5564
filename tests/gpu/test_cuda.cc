// SPDX-License-Identifier: GPL-2.0-or-later
// Every CUDA kernel and GEMM layout against the CPU back-end's kernels, which unit tests hold to
// fp64. Inputs are rounded to the element type first, so that only arithmetic differs. Error = max
// |got - want| / (1e-3 + max |want|); bounds: 2e-5 in fp32 (2e-3 for tf32 GEMMs), 2e-3 in
// fp16, 1.6e-2 in bf16. Run by tests/gpu/run, which skips where there is no GPU. TAP on standard
// output.
#include <cublasLt.h>

#include "profiler/cpu/cpu_kernels.h"
#include "tests/gpu/device_array.h"
#include "train/cpu/cpu_device.h"
#include "train/cuda/cuda_train_kernels.h"

namespace {

using train::cpu_elements;
using train::cpu_numbers;
using train::cpu_tokens;

struct Blas {
    cublasLtHandle_t handle = nullptr;
    void* workspace = nullptr;
    static constexpr std::size_t bytes = 32U << 20;
    Blas() {
        cuda::check(cublasLtCreate(&handle), "create");
        cuda::check(cudaMalloc(&workspace, bytes), "workspace");
    }
    ~Blas() {
        cudaFree(workspace);
        cublasLtDestroy(handle);
    }
    Blas(const Blas&) = delete;
    Blas& operator=(const Blas&) = delete;
};

void gemms(const Blas& blas, Type t) {
    const cuda::Layout device[] = {cuda::Layout::nt, cuda::Layout::nn, cuda::Layout::tn};
    const cpu::Layout host[] = {cpu::Layout::nt, cpu::Layout::nn, cpu::Layout::tn};
    for (int l = 0; l < 3; ++l)
        for (const Index batch : {Index{1}, Index{3}}) {
            const Index m = 72, n = 136, k = 200;
            const auto a = draw(batch * m * k, 1, t), b = draw(batch * k * n, 2, t);
            Floats c(size_of(batch * m * n));
            cpu::batched_gemm({host[l], m, n, k}, batch, a.data(), b.data(), c.data(), 1);
            const Array da(a, t), db(b, t), dc(batch * m * n, t);
            cuda::Gemm g(blas.handle, {device[l], m, n, k, batch, precision_of(t)}, blas.workspace,
                         Blas::bytes);
            const std::string name = std::string(name_of(t)) + "gemm layout " + std::to_string(l) +
                                     " batch " + std::to_string(batch);
            g.run(nullptr, da, db, dc);
            close(dc, c, bound_of(t), name);
            g.tune(nullptr, da, db, dc);
            cuda::check(cudaMemset(dc, 0xff, size_of(batch * m * n) * width_of(t)), "memset");
            g.run(nullptr, da, db, dc);
            close(dc, c, bound_of(t), name + ", tuned");
        }
}

void norms(Stream s) {
    for (const bool rms : {false, true}) {
        const cpu::Norm n{67, 300, rms};
        const Index size = n.rows * n.cols;
        const auto x = draw(size, 1, s.type), gamma = draw(n.cols, 2, s.type),
                   beta = draw(n.cols, 3, s.type), dy = draw(size, 4, s.type);
        Floats y(size_of(size)), saved(size_of(2 * n.rows)), dx(y), dg(size_of(n.cols)), db(dg),
            part(size_of(2 * n.cols));
        cpu::norm_forward(n,
                          {.x = x.data(),
                           .gamma = gamma.data(),
                           .beta = beta.data(),
                           .y = y.data(),
                           .saved = saved.data()},
                          1);
        cpu::norm_backward(n, {.x = x.data(), .gamma = gamma.data(), .saved = saved.data()},
                           dy.data(), {.x = dx.data(), .gamma = dg.data(), .beta = db.data()},
                           part.data(), 1);
        const Array ax(x, s.type), ag(gamma, s.type), ab(beta, s.type), ady(dy, s.type),
            ay(size, s.type), adx(size, s.type), as(2 * n.rows, Type::f32), adg(n.cols, Type::f32),
            adb(n.cols, Type::f32);
        const cuda::Norm norm{.rows = n.rows, .cols = n.cols, .rms = rms, .epsilon = n.epsilon};
        cuda::norm_forward(s, norm, {.x = ax, .gamma = ag, .beta = ab, .y = ay, .saved = as.f32()});
        cuda::norm_backward(s, norm, {.x = ax, .gamma = ag, .saved = as.f32()}, ady,
                            {.x = adx, .gamma = adg.f32(), .beta = adb.f32()});
        const std::string name = std::string(name_of(s.type)) + (rms ? "rms norm " : "layer norm ");
        close(ay, y, bound_of(s.type), name + "forward");
        close(adx, dx, bound_of(s.type), name + "dx");
        close(adg, dg, 2e-5, name + "dgamma");
        if (!rms) close(adb, db, 2e-5, name + "dbeta");
    }
}

void elementwise(Stream s) {
    const Index rows = 33, cols = 129, n = rows * cols;  // not a multiple of a pack
    const auto a = draw(n, 1, s.type, 8), b = draw(n, 2, s.type), c = draw(n, 3, s.type),
               bias = draw(cols, 4, s.type);
    Floats y(size_of(n)), z(y), db(size_of(cols)), part(db);
    const Array da(a, s.type), dB(b, s.type), dc(c, s.type), dbias(bias, s.type), dy(n, s.type),
        dz(n, s.type), ddb(cols, Type::f32);
    const std::string name = name_of(s.type);
    const double bound = bound_of(s.type);
    cpu::gelu_forward(n, a.data(), y.data(), 1);
    cuda::gelu_forward(s, n, da, dy);
    close(dy, y, bound, name + "gelu forward");
    cpu::gelu_backward(n, a.data(), b.data(), y.data(), 1);
    cuda::gelu_backward(s, n, da, dB, dy);
    close(dy, y, bound, name + "gelu backward");
    cpu::swiglu_forward(n, a.data(), b.data(), y.data(), 1);
    cuda::swiglu_forward(s, n, da, dB, dy);
    close(dy, y, bound, name + "swiglu forward");
    cpu::swiglu_backward(n, a.data(), b.data(), c.data(), y.data(), z.data(), 1);
    cuda::swiglu_backward(s, n, da, dB, dc, dy, dz);
    close(dy, y, bound, name + "swiglu dgate");
    close(dz, z, bound, name + "swiglu dup");
    cpu::add(n, a.data(), b.data(), y.data(), 1);
    cuda::add(s, n, da, dB, dy);
    close(dy, y, bound, name + "add");
    cpu::bias_residual_forward(rows, cols, a.data(), bias.data(), b.data(), y.data(), 1);
    cuda::bias_residual_forward(s, rows, cols, da, dbias, dB, dy);
    close(dy, y, bound, name + "bias_residual forward");
    cpu::bias_residual_backward(rows, cols, b.data(), y.data(), db.data(), part.data(), 1);
    cuda::bias_residual_backward(s, rows, cols, dB, dy, ddb.f32());
    close(dy, y, 0, name + "bias_residual dx");
    close(ddb, db, 2e-5, name + "bias_residual dbias");
}

/// Forward: softmax of causal scores, row by row. Backward: by the CPU's formula in double.
void softmax(Stream s) {
    const Index seq = 77, rows = 3 * seq;
    const float scale = 0.25F;
    for (const bool causal : {false, true}) {
        const auto x = draw(rows * seq, 1, s.type, 20), g = draw(rows * seq, 2, s.type);
        Floats p(x.size()), ds(x.size());
        for (Index r = 0; r < rows; ++r) {
            const Index end = causal ? r % seq + 1 : seq;
            double sum = 0, dot = 0;
            for (Index i = 0; i < end; ++i)
                sum += std::exp(static_cast<double>(x[size_of(r * seq + i)]) * scale);
            for (Index i = 0; i < end; ++i)
                p[size_of(r * seq + i)] = static_cast<float>(
                    std::exp(static_cast<double>(x[size_of(r * seq + i)]) * scale) / sum);
            for (Index i = 0; i < end; ++i)
                dot += static_cast<double>(p[size_of(r * seq + i)]) * g[size_of(r * seq + i)];
            for (Index i = 0; i < end; ++i)
                ds[size_of(r * seq + i)] = static_cast<float>(
                    p[size_of(r * seq + i)] * (g[size_of(r * seq + i)] - dot) * scale);
        }
        const Array dx(x, s.type), dg(g, s.type);
        cuda::softmax_forward(s, rows, seq, scale, causal, dx);
        close(dx, p, bound_of(s.type), std::string(name_of(s.type)) + "softmax forward");
        cuda::softmax_backward(s, rows, seq, scale, dx, dg);
        close(dg, ds, bound_of(s.type), std::string(name_of(s.type)) + "softmax backward");
    }
}

void rest(Stream s) {
    const Index tokens = 41, hidden = 260, vocab = 50;
    const std::string name = name_of(s.type);
    std::vector<std::int32_t> ids;
    for (int i = 0; i < tokens; ++i) ids.push_back(i * 7 % 30);
    const Array dids(ids);
    const auto table = draw(vocab * hidden, 1, s.type), d_out = draw(tokens * hidden, 2, s.type);
    Floats out(size_of(tokens * hidden)), d_table(size_of(vocab * hidden), 0);
    cpu::embedding_forward(tokens, hidden, ids.data(), table.data(), out.data(), 1);
    cpu::embedding_backward(tokens, hidden, vocab, ids.data(), d_out.data(), d_table.data(), 1);
    const Array dt(table, s.type), dd(d_out, s.type), dout(tokens * hidden, s.type),
        ddt(Floats(d_table.size(), 0), Type::f32);
    cuda::embedding_forward(s, tokens, hidden, dids.ids(), dt, dout);
    close(dout, out, 0, name + "embedding forward");
    cuda::embedding_backward(s, tokens, hidden, dids.ids(), dd, ddt.f32());
    close(ddt, d_table, 2e-5, name + "embedding backward");

    const auto x = draw(tokens * hidden, 3, s.type, 20);
    Floats loss(size_of(tokens)), lse(loss), dx(x.size());
    cpu::cross_entropy_forward(tokens, hidden, x.data(), ids.data(), loss.data(), lse.data(), 1);
    cpu::cross_entropy_backward(tokens, hidden,
                                {.x = x.data(), .label = ids.data(), .lse = lse.data()}, 0.25F,
                                dx.data(), 1);
    const Array ax(x, s.type), al(tokens, Type::f32), as(tokens, Type::f32),
        adx(tokens * hidden, s.type);
    cuda::cross_entropy_forward(s, tokens, hidden, ax, dids.ids(), al.f32(), as.f32());
    cuda::cross_entropy_backward(s, tokens, hidden, {.x = ax, .label = dids.ids(), .lse = as.f32()},
                                 0.25F, adx);
    close(al, loss, 2e-5, name + "cross entropy forward");
    close(adx, dx, bound_of(s.type), name + "cross entropy backward");

    const Index n = 1003;
    auto p = draw(n, 5, Type::f32), m = Floats(size_of(n), 0.01F), v = m;
    const auto g = draw(n, 6, s.type);
    const Array dp(p, Type::f32), dm(m, Type::f32), dv(v, Type::f32), dg(g, s.type),
        copy(n, s.type);
    cpu::AdamW a;
    a.step = 3;
    cpu::adamw(a, n, p.data(), g.data(), m.data(), v.data(), 1);
    cuda::adamw(s, n, 3, {.p = dp.f32(), .m = dm.f32(), .v = dv.f32(), .copy = copy}, dg);
    close(dp, p, 2e-6, name + "adamw parameters");
    close(dm, m, 2e-6, name + "adamw first moment");
    close(dv, v, 2e-6, name + "adamw second moment");
    close(copy, p, bound_of(s.type), name + "adamw copy");
}

// ---- arena-train's own --------------------------------------------------------------------------

/// What is added to: gradients of weights and biases, in fp32.
void added(const Blas& blas, Stream s) {
    const std::string name = std::string(name_of(s.type)) + "added: ";
    const Index m = 72, n = 136, k = 200;
    const auto a = draw(k * m, 1, s.type), b = draw(k * n, 2, s.type),
               c = draw(m * n, 3, Type::f32);
    const auto cpu = train::make_cpu_device(1);
    Floats want = c;
    cpu->multiply_add(train::Layout::tn, m, n, k, cpu_elements(a), cpu_elements(b),
                      cpu_numbers(want));
    const Array da(a, s.type), db(b, s.type), dc(c, Type::f32), spoilt(m * n, Type::f32);
    cuda::Gemm g(blas.handle, {cuda::Layout::tn, m, n, k, 1, precision_of(s.type), true},
                 blas.workspace, Blas::bytes);
    g.tune(s.handle, da, db, spoilt);
    g.run(s.handle, da, db, dc);
    close(dc, want, 1e-4, name + "gemm");

    const Index rows = 133, cols = 264;
    const auto x = draw(rows * cols, 4, s.type), bias = draw(cols, 5, s.type),
               dy = draw(rows * cols, 6, s.type);
    const auto start = draw(cols, 7, Type::f32);
    Floats y = x, sums = start, saved(size_of(2 * rows)), dx(x.size()), d_gamma = start,
           d_beta = start;
    cpu->add_bias(rows, cols, cpu_elements(bias), cpu_elements(y));
    cpu->add_column_sums(rows, cols, cpu_elements(x), cpu_numbers(sums));
    cpu->norm_forward(rows, cols, cpu_elements(x), cpu_elements(bias), cpu_elements(bias),
                      cpu_elements(dx), cpu_numbers(saved));
    cpu->norm_backward(rows, cols, {cpu_elements(x), cpu_elements(bias), cpu_numbers(saved)},
                       cpu_elements(dy), cpu_elements(dx), cpu_numbers(d_gamma),
                       cpu_numbers(d_beta));
    const Array ax(x, s.type), ay(x, s.type), abias(bias, s.type), asums(start, Type::f32),
        ady(dy, s.type), adx(rows * cols, s.type), as(saved, Type::f32), ag(start, Type::f32),
        ab(start, Type::f32);
    cuda::add_bias(s, rows, cols, abias, ay);
    close(ay, y, bound_of(s.type), name + "bias");
    cuda::add_column_sums(s, rows, cols, ax, asums.f32());
    close(asums, sums, 2e-5, name + "bias's gradient");
    cuda::norm_backward_add(s, {.rows = rows, .cols = cols},
                            {.x = ax, .gamma = abias, .saved = as.f32()}, ady,
                            {.x = adx, .gamma = ag.f32(), .beta = ab.f32()});
    close(adx, dx, bound_of(s.type), name + "norm dx");
    close(ag, d_gamma, 2e-5, name + "norm dgamma");
    close(ab, d_beta, 2e-5, name + "norm dbeta");
}

void heads(Stream s) {
    const auto cpu = train::make_cpu_device(1);
    for (const Index d : {Index{24}, Index{5}})  // whole packs, and none
        for (const Index parts : {Index{1}, Index{3}}) {
            const train::AttentionShape shape{2, 3, 7, d};
            const Index n = 2 * 3 * 7 * d, part = parts - 1;
            const auto rows = draw(parts * n, 1, s.type), back = draw(n, 2, s.type);
            Floats want(size_of(n)), want_rows = rows;
            cpu->to_heads({shape, part, parts}, cpu_elements(rows), cpu_elements(want));
            cpu->to_rows({shape, part, parts}, cpu_elements(back), cpu_elements(want_rows));
            const Array in(rows, s.type), out(n, s.type), from(back, s.type);
            const cuda::HeadsLayout layout{2, 7, 3, d, part, parts};
            const std::string name = std::string(name_of(s.type)) + std::to_string(parts) +
                                     " parts of heads of " + std::to_string(d);
            cuda::to_heads(s, layout, in, out);
            close(out, want, 0, name + ", from rows");
            cuda::to_rows(s, layout, from, in);
            close(in, want_rows, 0, name + ", to rows");
        }
}

/// A shard of a vocabulary, and ids of which some are another's.
void vocabulary(Stream s) {
    const auto cpu = train::make_cpu_device(1);
    const train::LogitsShape shape{.tokens = 37, .width = 130, .first = 50};
    const cuda::VocabularyShard shard{shape.first, shape.width};
    const Index hidden = 70, cells = shape.tokens * shape.width;
    const std::string name = std::string(name_of(s.type)) + "vocabulary: ";
    std::vector<std::int32_t> ids;
    for (int i = 0; i < 37; ++i) ids.push_back(i * 7 % 230);
    const Array dids(ids);
    const auto table = draw(shape.width * hidden, 1, s.type),
               d_out = draw(shape.tokens * hidden, 2, s.type),
               before = draw(shape.width * hidden, 3, Type::f32);
    Floats out(size_of(shape.tokens * hidden)), d_table = before;
    const train::Tokens tokens = cpu_tokens(ids);
    cpu->gather_rows(shape, hidden, tokens, cpu_elements(table), cpu_elements(out));
    cpu->scatter_rows(shape, hidden, tokens, cpu_elements(d_out), cpu_numbers(d_table));
    const Array at(table, s.type), aout(shape.tokens * hidden, s.type), ad(d_out, s.type),
        adt(before, Type::f32);
    cuda::gather_rows(s, shard, shape.tokens, hidden, dids.ids(), at, aout);
    close(aout, out, 0, name + "rows");
    cuda::scatter_rows(s, shard, shape.tokens, hidden, dids.ids(), ad, adt.f32());
    close(adt, d_table, 2e-5, name + "gradient of rows");

    const auto x = draw(cells, 4, s.type, 20);
    Floats top(37), target(37), sums(37), gradient = x;
    cpu->top_and_target(shape, cpu_elements(x), tokens, cpu_numbers(top), cpu_numbers(target));
    cpu->sum_exponentials(shape, cpu_elements(gradient), cpu_numbers(top), cpu_numbers(sums));
    double loss = 0;
    cpu->add_losses(37, cpu_numbers(top), cpu_numbers(target), cpu_numbers(sums),
                    train::Pointer(&loss));
    cpu->logits_gradient(shape, cpu_elements(gradient), tokens, cpu_numbers(top), cpu_numbers(sums),
                         0.25F);
    const Array ax(x, s.type), atop(37, Type::f32), atarget(37, Type::f32), asums(37, Type::f32);
    cuda::top_and_target(s, shard, 37, ax, dids.ids(), atop.f32(), atarget.f32());
    close(atop, top, 0, name + "largest logits");
    close(atarget, target, 0, name + "logits of labels");
    cuda::sum_exponentials(s, shard, 37, ax, atop.f32(), asums.f32());
    close(asums, sums, 2e-5, name + "sums of exponentials");
    cuda::logits_gradient(s, shard, 37, ax, dids.ids(), {atop.f32(), asums.f32()}, 0.25F);
    close(ax, gradient, bound_of(s.type), name + "gradient of logits");
    const Array sum(Floats(4, 0), Type::f32);  // two doubles
    double* const numbers = static_cast<double*>(static_cast<void*>(sum));
    cuda::add_losses(s.handle, 37, atop.f32(), atarget.f32(), asums.f32(), numbers);
    cuda::add_squares(s.handle, 37, asums.f32(), numbers + 1);
    double got[2] = {}, squares = 0;
    cuda::check(cudaMemcpy(got, numbers, sizeof got, cudaMemcpyDeviceToHost), "copy");
    for (const float v : sums) squares += static_cast<double>(v) * v;
    const bool good = std::abs(got[0] - loss) <= 1e-5 * std::abs(loss) &&
                      std::abs(got[1] - squares) <= 1e-4 * squares;
    failures += !good;
    std::printf("%sok %d - %sloss and sum of squares\n", good ? "" : "not ", ++tests, name.c_str());
}

/// fp32 masters and gradient, weights of the type.
void masters(Stream s) {
    const Index n = 1003;
    auto p = draw(n, 5, Type::f32), m = Floats(size_of(n), 0.01F), v = m;
    const auto g = draw(n, 6, Type::f32);
    const Array dp(p, Type::f32), dm(m, Type::f32), dv(v, Type::f32), dg(g, Type::f32),
        copy(n, s.type);
    const cpu::AdamW a{
        .rate = 3e-3F, .beta1 = 0.8F, .beta2 = 0.9F, .epsilon = 1e-6F, .decay = 0.2F, .step = 4};
    cpu::adamw(a, n, p.data(), g.data(), m.data(), v.data(), 1);
    cuda::adamw_masters(s, cuda::adam_factors(3e-3, 0.8, 0.9, 1e-6, 0.2, 4), n,
                        {.p = dp.f32(), .m = dm.f32(), .v = dv.f32(), .copy = copy}, dg.f32());
    const std::string name = std::string(name_of(s.type)) + "masters: ";
    close(dp, p, 2e-6, name + "parameters");
    close(dv, v, 2e-6, name + "second moment");
    close(copy, p, bound_of(s.type), name + "weights");
    cuda::scale(s.handle, n, 0.5F, dp.f32());
    for (float& x : p) x *= 0.5F;
    close(dp, p, 2e-6, name + "scaled");
}

}  // namespace

int main() {
    if (!have_gpu()) return 0;
    const Blas blas;
    for (const Type t : {Type::f32, Type::f16, Type::bf16}) {
        gemms(blas, t);
        norms({nullptr, t});
        elementwise({nullptr, t});
        softmax({nullptr, t});
        rest({nullptr, t});
        added(blas, {nullptr, t});
        heads({nullptr, t});
        vocabulary({nullptr, t});
        masters({nullptr, t});
    }
    std::printf("1..%d\n", tests);
    return failures == 0 ? 0 : 1;
}
