// SPDX-License-Identifier: GPL-2.0-or-later
// The "layer" operator of the CUDA back-end: one layer of a dense transformer on one stream, put
// together from the recipes of its operators, each of which reads what the one before it wrote. The
// same layer as cpu::LayerStack has.
#pragma once

#include <functional>

#include "base/result.h"
#include "core/profile.h"
#include "profiler/cuda/cuda_recipe.h"

namespace arena::cuda {

struct LayerParts {
    Stream stream;
    std::function<Recipe(const OpShape&)> operator_of;
    /// Batched GEMMs and a softmax; see Recipes::attention_forward() and attention_backward().
    std::function<Recipe(const OpShape&)> unfused_attention;
    std::function<Result<Recipe>(const OpShape& layer)> attention_in_rows;
    /// Whether attention of this shape alone is fused.
    std::function<bool(const OpShape&)> is_fused;
};

/// OpKind::layer. Backward runs the forward pass once when it is made. ErrorCode::no: attention is
/// fused alone but not in a layer's rows, so that a layer would not be the sum of its operators.
Result<Recipe> layer_recipe(const OpShape&, const LayerParts&);

/// The same launches as one graph, recorded from the stream once, after they ran once without.
/// Throws Unsupported where they cannot be a graph.
Body as_graph_launch(cudaStream_t, const Body&);

}  // namespace arena::cuda
