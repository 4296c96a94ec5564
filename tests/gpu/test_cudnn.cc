// SPDX-License-Identifier: GPL-2.0-or-later
// cuDNN's fused attention and convolutions, both directions, against plain loops in fp64. Inputs
// are rounded to the element type first; bounds: 4e-3 in fp16, 2.5e-2 in bf16 (sums of rounded
// probabilities), 2e-3 for fp32 convolutions (which must not be tf32). Run by tests/gpu/run. TAP.
#include "profiler/cuda/cudnn_attention.h"
#include "tests/gpu/device_array.h"

namespace {

using cuda::AttentionShape;
using cuda::ConvolutionProblem;
using Doubles = std::vector<double>;

double looser(Type t) { return t == Type::f16 ? 4e-3 : t == Type::bf16 ? 2.5e-2 : 2e-3; }

Floats narrowed(const Doubles& v) { return {v.begin(), v.end()}; }

/// Attention by its definition.
struct Reference {
    Doubles o, stats, dq, dk, dv;
    Reference(const AttentionShape& s, const Floats& q, const Floats& k, const Floats& v,
              const Floats& d_o)
        : o(q.size()), stats(size_of(s.heads * s.seq)), dq(q.size()), dk(k.size()), dv(v.size()) {
        for (Index h = 0; h < s.heads; ++h)
            for (Index i = 0; i < s.seq; ++i) row(s, h, i, q, k, v, d_o);
    }

  private:
    void row(const AttentionShape& s, Index h, Index i, const Floats& q, const Floats& k,
             const Floats& v, const Floats& d_o) {
        const Index end = s.is_causal ? i + 1 : s.seq, shared = h / (s.heads / s.kv_heads);
        const double scale = 1 / std::sqrt(static_cast<double>(s.d));
        const auto at = [&](Index r) { return size_of((h * s.seq + i) * s.d + r); };
        const auto key = [&](Index j, Index r) { return size_of((shared * s.seq + j) * s.d + r); };
        Doubles p(size_of(end)), dp(p);
        double sum = 0, weighted = 0;
        for (Index j = 0; j < end; ++j) {
            double score = 0;
            for (Index r = 0; r < s.d; ++r) score += static_cast<double>(q[at(r)]) * k[key(j, r)];
            sum += p[size_of(j)] = std::exp(score * scale);
        }
        stats[size_of(h * s.seq + i)] = std::log(sum);
        for (Index j = 0; j < end; ++j) {
            p[size_of(j)] /= sum;
            for (Index r = 0; r < s.d; ++r) {
                o[at(r)] += p[size_of(j)] * v[key(j, r)];
                dv[key(j, r)] += p[size_of(j)] * d_o[at(r)];
                dp[size_of(j)] += static_cast<double>(d_o[at(r)]) * v[key(j, r)];
            }
            weighted += p[size_of(j)] * dp[size_of(j)];
        }
        for (Index j = 0; j < end; ++j) {
            const double ds = p[size_of(j)] * (dp[size_of(j)] - weighted) * scale;
            for (Index r = 0; r < s.d; ++r) {
                dq[at(r)] += ds * k[key(j, r)];
                dk[key(j, r)] += ds * q[at(r)];
            }
        }
    }
};

void attention(cudnnHandle_t handle, const AttentionShape& s, Type t) {
    const Index queries = s.heads * s.seq * s.d, keys = s.kv_heads * s.seq * s.d;
    const auto q = draw(queries, 1, t), k = draw(keys, 2, t), v = draw(keys, 3, t),
               d_o = draw(queries, 4, t);
    const Reference want(s, q, k, v, d_o);
    const Array aq(q, t), ak(k, t), av(v, t), ado(d_o, t), ao(queries, t), adq(queries, t),
        adk(keys, t), adv(keys, t), stats(s.heads * s.seq, Type::f32), sums(queries, Type::f32);
    const cuda::FlashAttention flash(handle, s, true);
    const Array workspace(static_cast<Index>(flash.workspace_bytes() / 4 + 1), Type::f32);
    const auto bound = flash.bind({aq, ak, av, ao, stats.f32(), ado, adq, adk, adv, sums.f32()},
                                  static_cast<void*>(workspace));
    const std::string name = std::string(name_of(t)) + "flash attention " +
                             std::to_string(s.heads) + "/" + std::to_string(s.kv_heads) +
                             " heads " + std::to_string(s.seq) + "x" + std::to_string(s.d) +
                             (s.is_causal ? " causal " : " ");
    bound.forward(nullptr);
    close(ao, narrowed(want.o), looser(t), name + "forward");
    close(stats, narrowed(want.stats), 2e-3, name + "statistics");
    for (const char* again : {"", " again"}) {  // the sums of dq are cleared each time
        bound.backward(nullptr);
        close(adq, narrowed(want.dq), looser(t), name + "dq" + again);
        close(adk, narrowed(want.dk), looser(t), name + "dk" + again);
        close(adv, narrowed(want.dv), looser(t), name + "dv" + again);
    }
}

/// Channels last; filters [out, kernel, kernel, in].
struct Images {
    const ConvolutionProblem& p;
    [[nodiscard]] Index in(Index n, Index y, Index x, Index c) const {
        return ((n * p.edge_in() + y) * p.edge_in() + x) * p.in_channels + c;
    }
    [[nodiscard]] Index out(Index n, Index y, Index x, Index c) const {
        return ((n * p.edge + y) * p.edge + x) * p.out_channels + c;
    }
    [[nodiscard]] Index filter(Index o, Index y, Index x, Index c) const {
        return ((o * p.kernel + y) * p.kernel + x) * p.in_channels + c;
    }
    /// f(source, filter, result) for each product of the convolution.
    template <typename F>
    void each(const F& f) const {
        for (Index n = 0; n < p.images; ++n)
            for (Index y = 0; y < p.edge; ++y)
                for (Index x = 0; x < p.edge; ++x)
                    for (Index o = 0; o < p.out_channels; ++o) taps(n, y, x, o, f);
    }

  private:
    template <typename F>
    void taps(Index n, Index y, Index x, Index o, const F& f) const {
        for (Index ky = 0; ky < p.kernel; ++ky)
            for (Index kx = 0; kx < p.kernel; ++kx) {
                const Index sy = y * p.stride + ky - p.padding(),
                            sx = x * p.stride + kx - p.padding();
                if (sy < 0 || sx < 0 || sy >= p.edge_in() || sx >= p.edge_in()) continue;
                for (Index c = 0; c < p.in_channels; ++c)
                    f(size_of(in(n, sy, sx, c)), size_of(filter(o, ky, kx, c)),
                      size_of(out(n, y, x, o)));
            }
    }
};

void convolution(cudnnHandle_t handle, ConvolutionProblem p, Type t) {
    constexpr std::size_t workspace_bytes = std::size_t{256} << 20;
    p.precision = precision_of(t);
    const Index source = p.images * p.in_channels * p.edge_in() * p.edge_in(),
                filter = p.out_channels * p.in_channels * p.kernel * p.kernel,
                result = p.images * p.out_channels * p.edge * p.edge;
    const auto x = draw(source, 1, t), w = draw(filter, 2, t), dy = draw(result, 3, t);
    Doubles y(size_of(result)), dx(size_of(source)), dw(size_of(filter));
    Images{p}.each([&](std::size_t s, std::size_t f, std::size_t r) {
        y[r] += static_cast<double>(x[s]) * w[f];
        dx[s] += static_cast<double>(dy[r]) * w[f];
        dw[f] += static_cast<double>(dy[r]) * x[s];
    });
    const Array ax(x, t), aw(w, t), ady(dy, t), ay(result, t), adx(source, t), adw(filter, t),
        workspace(workspace_bytes / 4, Type::f32);
    using Direction = cuda::GraphBuilder::Convolution;
    const auto run = [&](Direction direction, void* a, void* b, void* c) {
        p.direction = direction;
        const cuda::ImageConvolution op(handle, p, workspace_bytes);
        op.run(*op.bind(a, b, c, workspace));
        cuda::check(cudaDeviceSynchronize(), "execute");
    };
    const std::string name = std::string(name_of(t)) + "convolution r" + std::to_string(p.kernel) +
                             "s" + std::to_string(p.stride) + " ";
    run(Direction::forward, ax, aw, ay);
    close(ay, narrowed(y), looser(t), name + "forward");
    run(Direction::data_gradient, adx, aw, ady);
    close(adx, narrowed(dx), looser(t), name + "data gradient");
    run(Direction::weight_gradient, ax, adw, ady);
    close(adw, narrowed(dw), looser(t), name + "weight gradient");
}

}  // namespace

int main() {
    if (!have_gpu()) return 0;
    cudnnHandle_t handle = nullptr;
    cuda::check(cudnnCreate(&handle), "start");
    for (const Type t : {Type::f16, Type::bf16})
        for (const bool is_causal : {true, false}) {
            attention(handle, {4, 4, 128, 64, is_causal, precision_of(t)}, t);
            attention(handle, {8, 2, 192, 128, is_causal, precision_of(t)}, t);
        }
    for (const Type t : {Type::f32, Type::f16, Type::bf16})
        for (const auto& [kernel, stride] :
             {std::pair<Index, Index>{3, 1}, {1, 1}, {3, 2}, {1, 2}, {7, 2}}) {
            ConvolutionProblem p;
            p.images = 2, p.in_channels = 16, p.out_channels = 32, p.edge = 14, p.kernel = kernel,
            p.stride = stride;
            convolution(handle, p, t);
        }
    cudnnDestroy(handle);
    std::printf("1..%d\n", tests);
    return failures == 0 ? 0 : 1;
}
