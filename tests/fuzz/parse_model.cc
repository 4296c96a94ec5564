// SPDX-License-Identifier: GPL-2.0-or-later
// Any bytes may be a model file (config.json, YAML, Megatron's arguments). A
// refusal is one line of bounded length; an accepted model passes its own check, travels in a
// record, has layers that add up, and operators of positive sizes for every kind of layer.
#include <cmath>

#include "fuzz.h"
#include "planner/models/model.h"
#include "planner/models/readers.h"
#include "planner/operators/operators.h"
#include "request/request.h"

namespace {

using namespace arena;

void demand(bool holds) {
    if (!holds) std::abort();
}

void check_operators(const std::vector<OpCount>& ops) {
    for (const OpCount& op : ops) {
        demand(op.count > 0 && op_flops(op.shape) >= 0 && op_bytes(op.shape) > 0);
        for (std::size_t i = 0; i < dim_count(op.shape.kind); ++i) demand(op.shape.dims[i] > 0);
    }
}

void check_layers(const Model& model) {
    const LayerList list = layer_list(model);
    std::int64_t layers = 0;
    for (const LayerRun& run : list.runs) layers += run.count;
    demand(layers == model.layers && std::isfinite(forward_flops(model)));
    demand(active_parameter_count(model) <= parameter_count(model) * (1 + 1e-12));
    for (std::size_t k = 0; k < list.kinds.size() && k < 8; ++k) {
        const ShardOperators ops =
            shard_operators(model, model.precision, {1, 1, false}, list.kinds[k]);
        check_operators(ops.layer_forward);
        check_operators(ops.layer_backward);
        check_operators(ops.embedding);
        check_operators(ops.head);
    }
}

void check_record(const Model& model) {
    Request request;
    request.model = model;
    request.global_batch = 1;
    const Result<std::string> record = format_record(request);
    if (!record) return demand(model.custom_layers.size() > 32);  // too many different layers
    const Result<Request> back = parse_record(*record);
    demand(back.ok() && check_model(back->model).ok());
    demand(fingerprint(back->model) == fingerprint(model) || !model.custom_layers.empty());
}

}  // namespace

FUZZ(text) {
    const Result<Model> model = parse_model(text, "fuzz");
    if (!model) {
        const std::string message = model.error().message();
        demand(!message.empty() && message.size() < 2000 &&
               message.find('\n') == std::string::npos);
        return;
    }
    demand(check_model(*model).ok());
    check_layers(*model);
    check_record(*model);
}
