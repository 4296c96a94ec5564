// SPDX-License-Identifier: GPL-2.0-or-later
// Convolutions on the host by oneDNN: channels-last images, filters in the layout that oneDNN likes
// best (packed before, not measured), one primitive per problem and direction. Without oneDNN there
// is no convolution: no own one, because nobody trains with a naive loop.
#include "config.h"
#include "profiler/cpu/cpu_kernels.h"

#ifdef HAVE_ONEDNN
#include <dnnl.hpp>
#endif
#ifdef _OPENMP
#include <omp.h>
#endif

#include <algorithm>
#include <stdexcept>

namespace arena::cpu {

#ifdef HAVE_ONEDNN

namespace {

using dnnl::memory;
using Tag = memory::format_tag;

memory::desc images(Index count, Index channels, Index edge) {
    return {{count, channels, edge, edge}, memory::data_type::f32, Tag::nhwc};
}

memory::desc filters(const Conv& c, Tag tag) {
    return {{c.out, c.in, c.kernel, c.kernel}, memory::data_type::f32, tag};
}

struct Geometry {
    memory::desc src, weights, dst;
    memory::dims strides, before, after;
};

/// Padding that makes the output edge * stride smaller than the input; none where the filter is
/// smaller than the stride.
Geometry geometry_of(const Conv& c) {
    const Index edge_in = c.edge * c.stride;
    const Index pad = std::max<Index>(0, (c.edge - 1) * c.stride + c.kernel - edge_in);
    return {images(c.images, c.in, edge_in),
            filters(c, Tag::any),
            images(c.images, c.out, c.edge),
            {c.stride, c.stride},
            {pad / 2, pad / 2},
            {pad - pad / 2, pad - pad / 2}};
}

constexpr auto algorithm = dnnl::algorithm::convolution_direct;

#if DNNL_VERSION_MAJOR >= 3
dnnl::convolution_forward::primitive_desc forward_of(const Geometry& g, const dnnl::engine& e) {
    return {e,         dnnl::prop_kind::forward_training,
            algorithm, g.src,
            g.weights, g.dst,
            g.strides, g.before,
            g.after};
}
dnnl::convolution_backward_data::primitive_desc data_of(const Geometry& g, const dnnl::engine& e) {
    return {e, algorithm, g.src, g.weights, g.dst, g.strides, g.before, g.after, forward_of(g, e)};
}
dnnl::convolution_backward_weights::primitive_desc weights_of(const Geometry& g,
                                                              const dnnl::engine& e) {
    return {e, algorithm, g.src, g.weights, g.dst, g.strides, g.before, g.after, forward_of(g, e)};
}
#else
dnnl::convolution_forward::primitive_desc forward_of(const Geometry& g, const dnnl::engine& e) {
    return {{dnnl::prop_kind::forward_training, algorithm, g.src, g.weights, g.dst, g.strides,
             g.before, g.after},
            e};
}
dnnl::convolution_backward_data::primitive_desc data_of(const Geometry& g, const dnnl::engine& e) {
    return {
        {algorithm, g.src, g.weights, g.dst, g.strides, g.before, g.after}, e, forward_of(g, e)};
}
dnnl::convolution_backward_weights::primitive_desc weights_of(const Geometry& g,
                                                              const dnnl::engine& e) {
    return {
        {algorithm, g.src, g.weights, g.dst, g.strides, g.before, g.after}, e, forward_of(g, e)};
}
#endif

}  // namespace

struct Convolution::State {
    explicit State(const Conv& c) : problem(c), geometry(geometry_of(c)) { prepare(); }

    void prepare() {
        switch (problem.direction) {
            case Conv::Direction::forward: {
                const auto d = forward_of(geometry, engine);
                packed = d.weights_desc();
                primitive = dnnl::convolution_forward(d);
                return;
            }
            case Conv::Direction::data: {
                const auto d = data_of(geometry, engine);
                packed = d.weights_desc();
                primitive = dnnl::convolution_backward_data(d);
                return;
            }
            case Conv::Direction::weights: {
                const auto d = weights_of(geometry, engine);
                packed = d.diff_weights_desc();
                primitive = dnnl::convolution_backward_weights(d);
                return;
            }
        }
    }

    memory on(const memory::desc& desc, const float* data) const {
        return {desc, engine, const_cast<float*>(data)};
    }
    void reorder(memory from, memory to) const {
        dnnl::reorder(from, to).execute(stream, from, to);
        stream.wait();
    }

    Conv problem;
    Geometry geometry;
    dnnl::engine engine{dnnl::engine::kind::cpu, 0};
    mutable dnnl::stream stream{engine};
    memory::desc packed;
    dnnl::primitive primitive;
};

bool have_convolution() { return true; }

Convolution::Convolution(const Conv& problem, [[maybe_unused]] int threads) {
#ifdef _OPENMP
    omp_set_num_threads(threads);
#endif
    state_ = std::make_shared<State>(problem);
}

Index Convolution::source_size() const {
    return static_cast<Index>(state_->geometry.src.get_size() / sizeof(float));
}
Index Convolution::result_size() const {
    return static_cast<Index>(state_->geometry.dst.get_size() / sizeof(float));
}
Index Convolution::filter_size() const {
    return static_cast<Index>(state_->packed.get_size() / sizeof(float));
}

void Convolution::pack(const float* oihw, float* packed) const {
    const State& s = *state_;
    s.reorder(s.on(filters(s.problem, Tag::oihw), oihw), s.on(s.packed, packed));
}
void Convolution::unpack(const float* packed, float* oihw) const {
    const State& s = *state_;
    s.reorder(s.on(s.packed, packed), s.on(filters(s.problem, Tag::oihw), oihw));
}

void Convolution::run(const float* source, const float* filter, const float* result) const {
    const State& s = *state_;
    const memory src = s.on(s.geometry.src, source), weights = s.on(s.packed, filter),
                 dst = s.on(s.geometry.dst, result);
    switch (s.problem.direction) {
        case Conv::Direction::forward:
            s.primitive.execute(
                s.stream, {{DNNL_ARG_SRC, src}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DST, dst}});
            break;
        case Conv::Direction::data:
            s.primitive.execute(
                s.stream,
                {{DNNL_ARG_DIFF_SRC, src}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DIFF_DST, dst}});
            break;
        case Conv::Direction::weights:
            s.primitive.execute(
                s.stream,
                {{DNNL_ARG_SRC, src}, {DNNL_ARG_DIFF_WEIGHTS, weights}, {DNNL_ARG_DIFF_DST, dst}});
            break;
    }
    s.stream.wait();
}

#else

struct Convolution::State {};
bool have_convolution() { return false; }
Convolution::Convolution(const Conv&, int) { throw std::runtime_error("built without oneDNN"); }
Index Convolution::source_size() const { return 0; }
Index Convolution::result_size() const { return 0; }
Index Convolution::filter_size() const { return 0; }
void Convolution::pack(const float*, float*) const {}
void Convolution::unpack(const float*, float*) const {}
void Convolution::run(const float*, const float*, const float*) const {}

#endif

}  // namespace arena::cpu
