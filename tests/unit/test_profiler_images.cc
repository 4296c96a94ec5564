// SPDX-License-Identifier: GPL-2.0-or-later
// CPU operators of convolutional networks against naive fp64 references: convolutions in all three
// directions, batch norm, ReLU. Error = max |got - want| / (1e-3 + max |want|).
#include <cmath>
#include <vector>

#include "float_arrays.h"
#include "profiler/cpu/cpu_kernels.h"
#include "suite.h"

using namespace arena::cpu;
using namespace arena::test;

namespace {

/// Calls body(source index, filter index, result index) for every product of the convolution.
template <typename Body>
void each_product(const Conv& c, Body body) {
    const Index edge_in = c.edge * c.stride;
    const Index pad = std::max<Index>(0, (c.edge - 1) * c.stride + c.kernel - edge_in) / 2;
    for (Index n = 0; n < c.images; ++n)
        for (Index y = 0; y < c.edge; ++y)
            for (Index x = 0; x < c.edge; ++x)
                for (Index r = 0; r < c.kernel; ++r)
                    for (Index s = 0; s < c.kernel; ++s) {
                        const Index sy = y * c.stride + r - pad, sx = x * c.stride + s - pad;
                        if (sy < 0 || sx < 0 || sy >= edge_in || sx >= edge_in) continue;
                        for (Index k = 0; k < c.out; ++k)
                            for (Index i = 0; i < c.in; ++i)
                                body(at(((n * edge_in + sy) * edge_in + sx) * c.in + i),
                                     at(((k * c.in + i) * c.kernel + r) * c.kernel + s),
                                     at(((n * c.edge + y) * c.edge + x) * c.out + k));
                    }
}

constexpr Conv cases[] = {{Conv::Direction::forward, 2, 5, 7, 6, 1, 1},
                          {Conv::Direction::forward, 1, 16, 24, 7, 3, 1},
                          {Conv::Direction::forward, 3, 8, 16, 4, 3, 2},
                          {Conv::Direction::forward, 2, 8, 32, 5, 1, 2},
                          {Conv::Direction::forward, 2, 3, 16, 8, 7, 2}};

}  // namespace

TEST_NEEDING(convolutions_agree_with_fp64_in_every_direction,
             have_convolution() ? "" : "this build has no convolutions (oneDNN)") {
    for (Conv c : cases) {
        const Convolution forward(c, 2);
        c.direction = Conv::Direction::data;
        const Convolution data(c, 2);
        c.direction = Conv::Direction::weights;
        const Convolution weights(c, 1);
        const Index filter_count = c.out * c.in * c.kernel * c.kernel;
        ck_assert_int_eq(forward.source_size(),
                         c.images * c.in * c.edge * c.stride * c.edge * c.stride);
        ck_assert_int_eq(forward.result_size(), c.images * c.out * c.edge * c.edge);
        const Floats source = draw(forward.source_size(), 1), filter = draw(filter_count, 2),
                     gradient = draw(forward.result_size(), 3);
        Doubles result(gradient.size()), d_source(source.size()), d_filter(filter.size());
        each_product(c, [&](std::size_t s, std::size_t f, std::size_t r) {
            result[r] += static_cast<double>(source[s]) * filter[f];
            d_source[s] += static_cast<double>(gradient[r]) * filter[f];
            d_filter[f] += static_cast<double>(gradient[r]) * source[s];
        });
        Floats packed(at(forward.filter_size())), got(gradient.size(), 1e9F);
        forward.pack(filter.data(), packed.data());
        forward.run(source.data(), packed.data(), got.data());
        close(got, result, 1e-5, "result");
        Floats packed_data(at(data.filter_size())), got_source(source.size(), 1e9F);
        data.pack(filter.data(), packed_data.data());
        data.run(got_source.data(), packed_data.data(), gradient.data());
        close(got_source, d_source, 1e-5, "source gradient");
        Floats packed_gradient(at(weights.filter_size()), 1e9F), got_filter(filter.size(), 1e9F);
        weights.run(source.data(), packed_gradient.data(), gradient.data());
        weights.unpack(packed_gradient.data(), got_filter.data());
        close(got_filter, d_filter, 1e-5, "filter gradient");
    }
}

TEST(batch_norm_agrees_with_fp64_forward_and_backward) {
    const Index rows = 37, cols = 19, n = rows * cols;
    const Floats x = draw(n, 1), gamma = draw(cols, 2), beta = draw(cols, 3), w = draw(n, 4);
    const auto reference = [&](const Doubles& in, const Doubles& g, const Doubles& b) {
        Doubles y(at(n));
        for (Index c = 0; c < cols; ++c) {
            double mean = 0, square = 0;
            for (Index r = 0; r < rows; ++r) mean += in[at(r * cols + c)] / rows;
            for (Index r = 0; r < rows; ++r)
                square += std::pow(in[at(r * cols + c)] - mean, 2) / rows;
            for (Index r = 0; r < rows; ++r)
                y[at(r * cols + c)] =
                    (in[at(r * cols + c)] - mean) / std::sqrt(square + 1e-5) * g[at(c)] + b[at(c)];
        }
        return y;
    };
    const Doubles X(x.begin(), x.end()), G(gamma.begin(), gamma.end()), B(beta.begin(), beta.end());
    const auto loss = [&](const Doubles& in, const Doubles& g, const Doubles& b) {
        const Doubles y = reference(in, g, b);
        double sum = 0;
        for (std::size_t i = 0; i < y.size(); ++i) sum += w[i] * y[i];
        return sum;
    };
    const auto differences = [&](int which) {
        Doubles args[3] = {X, G, B};
        Doubles out(args[which].size());
        for (std::size_t i = 0; i < out.size(); ++i) {
            const double keep = args[which][i];
            args[which][i] = keep + 1e-5;
            const double up = loss(args[0], args[1], args[2]);
            args[which][i] = keep - 1e-5;
            out[i] = (up - loss(args[0], args[1], args[2])) / 2e-5;
            args[which][i] = keep;
        }
        return out;
    };
    for (const int threads : {1, 3}) {
        Floats y(at(n), 1e9F), saved(at(2 * cols)), partial(at(2 * cols * threads)), dx(y),
            d_gamma(at(cols), 1e9F), d_beta(d_gamma);
        batch_norm_forward(rows, cols,
                           {.x = x.data(),
                            .gamma = gamma.data(),
                            .beta = beta.data(),
                            .y = y.data(),
                            .saved = saved.data()},
                           partial.data(), threads);
        close(y, reference(X, G, B), 1e-5, "y");
        batch_norm_backward(rows, cols,
                            {.x = x.data(), .gamma = gamma.data(), .saved = saved.data()}, w.data(),
                            {.x = dx.data(), .gamma = d_gamma.data(), .beta = d_beta.data()},
                            partial.data(), threads);
        close(dx, differences(0), 1e-4, "dx");
        close(d_gamma, differences(1), 1e-4, "dgamma");
        close(d_beta, differences(2), 1e-4, "dbeta");
    }
}

TEST(relu_passes_what_is_positive) {
    const Floats x = draw(1003, 1), dy = draw(1003, 2);
    Floats y(x.size(), 1e9F), dx(y);
    relu_forward(1003, x.data(), y.data(), 2);
    relu_backward(1003, x.data(), dy.data(), dx.data(), 2);
    for (std::size_t i = 0; i < x.size(); ++i) {
        ck_assert_float_eq(y[i], x[i] > 0 ? x[i] : 0);
        ck_assert_float_eq(dx[i], x[i] > 0 ? dy[i] : 0);
    }
}
