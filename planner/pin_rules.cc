// SPDX-License-Identifier: GPL-2.0-or-later
// See pin_rules.h. Each rule mirrors one of grids.cc, by which a search finds no plan.
#include "planner/pin_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <tuple>

#include "core/launchers.h"
#include "planner/model.h"
#include "planner/operators.h"

namespace arena {

namespace {

std::int64_t or_one(std::int64_t pinned) { return pinned == 0 ? 1 : pinned; }

std::string stages_obstacle(const PlanPin& pin, const Request& request, const Capabilities& can) {
    const Model& model = request.model;
    if (pin.pp > model.layers)
        return fmt::format("pp{} needs at least {} layers; {} has {}", pin.pp, pin.pp, model.name,
                           model.layers);
    if (can.layers == LayerSplit::even && model.layers % or_one(pin.pp) != 0)
        return fmt::format(
            "the launcher {} wants the same number of layers on every stage, and pp{} does not divide "
            "the {} of {}",
            request.launcher, pin.pp, model.layers, model.name);
    return {};
}

std::string batch_obstacle(const PlanPin& pin, std::int64_t batch) {
    if (batch % or_one(pin.dp) != 0)
        return fmt::format("dp{} does not divide the batch {}", pin.dp, batch);
    if (batch % (or_one(pin.dp) * or_one(pin.micro_batch)) != 0)
        return fmt::format("mb{} does not divide the {} samples of each replica", pin.micro_batch,
                           batch / or_one(pin.dp));
    return {};
}

std::string context_obstacle(std::int64_t cp, const Model& model) {
    if (cp_fits(model, or_one(cp))) return {};
    if (!is_transformer(model.family))
        return fmt::format("cp{} shares out the tokens of a sample, and {} has none: give cp1", cp,
                           model.name);
    return fmt::format("cp{} does not split the {} tokens of {} into {} equal pieces", cp,
                       model.seq_length, model.name, 2 * cp);
}

std::string expert_obstacle(const PlanPin& pin, const Model& model) {
    if (pin.ep <= 1) return {};
    if (model.experts == 0)
        return fmt::format("ep{} shares out experts, and {} has none: give ep1", pin.ep, model.name);
    if (!ep_fits(model, pin.ep))
        return fmt::format("ep{} does not divide the {} experts of {}", pin.ep, model.experts,
                           model.name);
    const std::int64_t ranks = pin.dp * pin.tp * or_one(pin.cp);
    if (ranks != 0 && ranks % pin.ep != 0)
        return fmt::format("ep{} does not divide the {} ranks of a stage, which are dp*tp*cp", pin.ep,
                           ranks);
    return {};
}

/// Interleaving takes 2 or more stages of vpp equal chunks each, and micro-batches that are a multiple
/// of the stages: any number that divides both, or the pinned one.
std::string interleaving_obstacle(const PlanPin& pin, const Request& request) {
    if (pin.vpp <= 1) return {};
    const std::int64_t chunks =
        request.model.layers % pin.vpp == 0 ? request.model.layers / pin.vpp : 1;
    const std::int64_t most_micro_batches =
        request.global_batch / (or_one(pin.dp) * or_one(pin.micro_batch));
    const std::int64_t stages = std::gcd(chunks, most_micro_batches);
    if (stages > 1 && pin.pp != 1 && stages % or_one(pin.pp) == 0) return {};
    return fmt::format(
        "vpp{} wants 2 or more stages that each take {} equal chunks of the {} layers of {}, and "
        "micro-batches that are a multiple of the stages",
        pin.vpp, pin.vpp, request.model.layers, request.model.name);
}

std::string launcher_obstacle(const PlanPin& pin, const Request& request, const Capabilities& can) {
    for (const auto& [key, degree, value] :
         {std::tuple{"vpp", can.vpp, pin.vpp}, {"cp", can.cp, pin.cp}, {"ep", can.ep, pin.ep}})
        if (value > 1 && degree == Degree::no)
            return fmt::format("the launcher {} cannot be told {}{}; accepted: {}1, or another launcher",
                               request.launcher, key, value, key);
    if (request.model.family == Family::wide_resnet && pin.tp > 1 && can.convolutions == Degree::no)
        return fmt::format(
            "the launcher {} cannot split the convolutions of {} by tp{}; accepted: tp1, or another "
            "launcher",
            request.launcher, request.model.name, pin.tp);
    return {};
}

}  // namespace

std::string pin_obstacle(const Request& request) {
    const PlanPin& pin = request.pin;
    const Launcher* launcher = find_launcher(request.launcher);
    const Capabilities can = launcher ? launcher->can : Capabilities{};
    for (std::string obstacle :
         {tp_obstacle(request.model, or_one(pin.tp)), launcher_obstacle(pin, request, can),
          stages_obstacle(pin, request, can), batch_obstacle(pin, request.global_batch),
          context_obstacle(pin.cp, request.model), expert_obstacle(pin, request.model),
          interleaving_obstacle(pin, request)})
        if (!obstacle.empty()) return obstacle;
    return {};
}

bool pin_sets_range(const Request& request) {
    const std::int64_t product = request.pin.gpus();
    return request.pin != PlanPin{} && request.min_gpus == product &&
           request.max_gpus == (request.pin.fixes_gpus() ? product : 0);
}

Status fit_range_to_pin(Request& request, bool gpus_given) {
    const PlanPin& pin = request.pin;
    const std::int64_t product = pin.gpus();
    if (product > max_request_gpus)
        return usage_error(fmt::format("pp*dp*tp*cp exceeds {} GPUs", max_request_gpus));
    const bool complete = pin.fixes_gpus();
    if (!gpus_given) {
        request.min_gpus = product;
        request.max_gpus = complete ? product : 0;
        return Done{};
    }
    const std::int64_t largest = request.max_gpus / product * product;
    const bool fits = complete ? product >= request.min_gpus && product <= request.max_gpus
                               : largest >= std::max(request.min_gpus, product);
    if (fits) return Done{};
    return usage_error(fmt::format("{} takes {} {} GPUs, which --arena-gpus={}-{} does not allow",
                                   to_string(pin), complete ? "exactly" : "a multiple of", product,
                                   request.min_gpus, request.max_gpus));
}

}  // namespace arena
