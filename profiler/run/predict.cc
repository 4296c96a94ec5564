// SPDX-License-Identifier: GPL-2.0-or-later
// See predict.h.
#include "profiler/run/predict.h"

#include <cstdio>

#include "base/json.h"
#include "base/text.h"
#include "planner/hardware/hardware.h"
#include "planner/models/layers.h"
#include "planner/models/model.h"
#include "planner/operators/whole_layer.h"

namespace arena {
namespace {

double sum(const Pricer& pricer, const std::vector<OpCount>& ops, double& exact_s) {
    double total = 0;
    for (const OpCount& op : ops) {
        const OpTime time = pricer.price(op.shape);
        total += op.count * time.seconds;
        if (time.evidence == Evidence::exact) exact_s += op.count * time.seconds;
    }
    return total;
}

Result<ProfileTable> table_of(const Options& o, const GpuType& type) {
    const auto profile = read_profile(o.profile);
    if (!profile) return profile.error();
    if (profile->hardware != type.name)
        return usage_error("is a profile of " + profile->hardware + ", not of " + type.name,
                           o.profile);
    return ProfileTable(*profile);
}

Status check(const Model& model, const Options& o) {
    if (o.tp < 1 || o.micro_batch < 1 || o.layers < 1)
        return usage_error("--tp, --micro-batch and --layers are at least 1");
    if (const std::string obstacle = tp_obstacle(model, o.tp); !obstacle.empty())
        return usage_error(obstacle);
    return Done{};
}

}  // namespace

LayerPrediction predict_layers(const Model& model, Precision precision, const ShardShape& shard,
                               std::int64_t layers, const Pricer& pricer) {
    const LayerKind kind = layer_list(model).kinds.front();
    const ShardOperators ops = shard_operators(model, precision, shard, kind);
    LayerPrediction p;
    double exact_s = 0;
    const auto whole = [&](Pass pass, const std::vector<OpCount>& list) {
        double exact_operators_s = 0;
        const double sum_s = sum(pricer, list, exact_operators_s);
        p.operators_s += static_cast<double>(layers) * sum_s;
        const PassTime time =
            pass_time(pricer, whole_layer(model, precision, shard, kind, pass), sum_s);
        exact_s += time.exact_s > 0 ? time.exact_s : exact_operators_s * time.seconds / sum_s;
        return static_cast<double>(layers) * time.seconds;
    };
    p.forward_s = whole(Pass::forward, ops.layer_forward);
    p.backward_s = whole(Pass::backward, ops.layer_backward);
    p.exact = static_cast<double>(layers) * exact_s / (p.forward_s + p.backward_s);
    return p;
}

int run_predict_command(const Options& o) {
    auto model = model_of(o.model);
    if (!model) return fail(model.error());
    if (o.seq_length != 0) set_seq_length(*model, o.seq_length);
    if (auto s = check_model(*model); !s) return fail(s.error());
    if (auto s = check(*model, o); !s) return fail(s.error());
    const auto hardware = load_hardware(o.hardware_file);
    if (!hardware) return fail(hardware.error());
    const auto type = find_hardware(*hardware, o.hardware);
    if (!type) return fail(type.error());
    const auto precision = effective_precision(*type, model->precision);
    if (!precision)
        return fail(usage_error(
            type->name + " does not compute in " + std::string(to_string(model->precision)),
            "--hardware"));
    const auto table = table_of(o, *type);
    if (!table) return fail(table.error());
    const ShardShape shard{o.tp, o.micro_batch, default_sequence_parallel(*model, o.tp)};
    const LayerPrediction p =
        predict_layers(*model, *precision, shard, o.layers, Pricer(*type, *table));
    if (o.json) {
        std::printf("%s\n", dump_json({{"schema_version", 1},
                                       {"model", model->name},
                                       {"layers", o.layers},
                                       {"tp", o.tp},
                                       {"micro_batch", o.micro_batch},
                                       {"predicted_forward_s", p.forward_s},
                                       {"predicted_backward_s", p.backward_s},
                                       {"predicted_operators_s", p.operators_s},
                                       {"exact", p.exact}})
                                .c_str());
        return 0;
    }
    std::printf(
        "%s: %lld layers, tp%lld, micro-batch %lld: forward %s, backward %s (%.0f %% from "
        "measured shapes); by the sum of operators alone %s\n",
        model->name.c_str(), static_cast<long long>(o.layers), static_cast<long long>(o.tp),
        static_cast<long long>(o.micro_batch), human_seconds(p.forward_s).c_str(),
        human_seconds(p.backward_s).c_str(), 100 * p.exact, human_seconds(p.operators_s).c_str());
    return 0;
}

}  // namespace arena
