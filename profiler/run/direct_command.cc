// SPDX-License-Identifier: GPL-2.0-or-later
// See direct_command.h.
#include "profiler/run/direct_command.h"

#include <algorithm>
#include <cstdio>

#include "base/json.h"
#include "base/text.h"
#include "planner/hardware/hardware.h"
#include "planner/models/model.h"
#include "profiler/cpu/cpu_device.h"
#include "profiler/run/direct.h"

namespace arena {
namespace {

Result<DirectOptions> direct_options(const Options& o) {
    auto model = model_of(o.model);
    if (!model) return model.error();
    if (o.seq_length != 0) set_seq_length(*model, o.seq_length);
    if (auto s = check_model(*model); !s) return s.error();
    DirectOptions d;
    d.model = std::move(model).value();
    d.shard.tp = o.tp;
    d.shard.micro_batch = o.micro_batch;
    d.layers = o.layers;
    d.iterations = o.iterations;
    d.threads = o.threads;
    return d;
}

/// Empty when no profile was named: the roofline predicts.
Result<ProfileTable> table_of(const Options& o, std::int64_t threads) {
    if (o.profile.empty()) return ProfileTable();
    const auto profile = read_profile(o.profile);
    if (!profile) return profile.error();
    const std::string here = cpu_device(cpu_facts(), threads).identity();
    if (profile->device.identity() != here)
        return usage_error("was measured on " + printable(profile->device.identity(), 200) +
                               ", this is " + printable(here, 200),
                           o.profile);
    return ProfileTable(*profile);
}

void print(const Options& o, const DirectOptions& d, const DirectResult& r,
           const LayerPrediction& p) {
    const double predicted = p.forward_s + p.backward_s;
    const double error = predicted / r.in_place_s - 1;
    if (o.json) {
        std::printf("%s\n", dump_json({{"schema_version", 1},
                                       {"model", d.model.name},
                                       {"layers", d.layers},
                                       {"tp", d.shard.tp},
                                       {"micro_batch", d.shard.micro_batch},
                                       {"seq_length", d.model.seq_length},
                                       {"threads", r.threads},
                                       {"iterations", d.iterations},
                                       {"forward_s", r.forward_s},
                                       {"backward_s", r.backward_s},
                                       {"spread", r.spread},
                                       {"in_place_s", r.in_place_s},
                                       {"spent_s", r.spent_s},
                                       {"predicted_forward_s", p.forward_s},
                                       {"predicted_backward_s", p.backward_s},
                                       {"predicted_operators_s", p.operators_s},
                                       {"exact", p.exact},
                                       {"error", error}})
                                .c_str());
        return;
    }
    std::printf("%s: %lld layers, tp%lld, micro-batch %lld of %lld tokens, %lld threads\n",
                d.model.name.c_str(), static_cast<long long>(d.layers),
                static_cast<long long>(d.shard.tp), static_cast<long long>(d.shard.micro_batch),
                static_cast<long long>(d.model.seq_length), static_cast<long long>(r.threads));
    std::printf("  measured   forward %10s  backward %10s  +-%.1f %%\n",
                human_seconds(r.forward_s).c_str(), human_seconds(r.backward_s).c_str(),
                100 * r.spread);
    std::printf(
        "  predicted  forward %10s  backward %10s  %+.1f %% (%.0f %% from measured shapes)\n",
        human_seconds(p.forward_s).c_str(), human_seconds(p.backward_s).c_str(), 100 * error,
        100 * p.exact);
    std::printf("  by the sum of the layers' operators alone %s, %+.1f %%\n",
                human_seconds(p.operators_s).c_str(), 100 * (p.operators_s / r.in_place_s - 1));
}

}  // namespace

int run_direct_command(const Options& o) {
    const auto d = direct_options(o);
    if (!d) return fail(d.error());
    const auto hardware = load_hardware(o.hardware_file);
    if (!hardware) return fail(hardware.error());
    const auto type = find_hardware(*hardware, o.hardware);
    if (!type) return fail(type.error());
    if (!type->emulated)
        return fail(
            usage_error("runs on the CPU; name an emulated entry (emulated-cpu), not " + type->name,
                        "--hardware"));
    const std::int64_t allowed = allowed_cpus();
    const std::int64_t threads = d->threads > 0 ? std::min(d->threads, allowed) : allowed;
    const auto table = table_of(o, threads);
    if (!table) return fail(table.error());
    const auto result = run_direct(*d);
    if (!result) return fail(result.error());
    print(o, *d, *result, predict_direct(*d, Pricer(*type, *table)));
    return 0;
}

}  // namespace arena
