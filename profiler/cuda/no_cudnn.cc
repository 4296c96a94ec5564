// SPDX-License-Identifier: GPL-2.0-or-later
// Stands where cuDNN is missing: attention is then measured unfused, convolutions are refused.
#include "profiler/cuda/cudnn_recipes.h"

namespace arena::cuda {

struct Cudnn::State {};
Cudnn::Cudnn(cudaStream_t) {}
Cudnn::~Cudnn() = default;
std::string Cudnn::version() const { return {}; }
Result<Recipe> Cudnn::attention(const OpShape& op, Precision) {
    return no_error("this build has no cuDNN", op_key(op));
}
Result<Recipe> Cudnn::attention_in_rows(const OpShape& op) {
    return no_error("this build has no cuDNN", op_key(op));
}
Result<Recipe> Cudnn::convolution(const OpShape& op) {
    return no_error("this build has no cuDNN, which convolutions need", op_key(op));
}

}  // namespace arena::cuda
