// SPDX-License-Identifier: GPL-2.0-or-later
// See plan_array.h. The JSON is a contract (arena(1)).
#include "cli/planning/plan_array.h"

#include <fmt/format.h>

#include "base/count_text.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/common/wrap.h"
#include "core/values_json.h"
#include "planner/arrays/array_offers.h"

namespace arena::cli {
namespace {

Json json_of(const ArrayOffer& offer) {
    Json json = {{"way", words_of(offer.way)},
                 {"possible", offer.possible},
                 {"reason", offer.reason},
                 {"plan", offer.possible ? arena::json_of(offer.plan) : Json()}};
    if (!offer.possible) return json;
    json["gpus"] = offer.gpus;
    json["groups"] = offer.groups;
    json["at_a_time"] = offer.at_a_time;
    json["iteration_s"] = offer.iteration_s;
    json["iterations_per_s"] = offer.rate_per_s();
    json["bubble"] = offer.bubble;
    return json;
}

void print_json(const PlanOptions& options, const Model& model, const ArrayOffers& offers) {
    Json ways = Json::array();
    for (const ArrayOffer& offer : offers.ways) ways.push_back(json_of(offer));
    fmt::print("{}\n", dump_json({{"schema_version", 1},
                                  {"model", model.name},
                                  {"global_batch", options.global_batch},
                                  {"members", options.array},
                                  {"ways", ways},
                                  {"binds", offers.binds},
                                  {"why", offers.why}}));
}

void print_table(const ArrayOffers& offers) {
    Table table({{"members"},
                 {"groups x GPUs", true},
                 {"at a time", true},
                 {"plan", false, Wide::below},
                 {"iteration", true},
                 {"iterations per s", true}});
    for (const ArrayOffer& offer : offers.ways) {
        if (!offer.possible) continue;
        table.add({std::string(words_of(offer.way)),
                   fmt::format("{} x {}", offer.groups, offer.gpus),
                   fmt::format("{}", offer.groups * offer.at_a_time), short_form(offer.plan),
                   human_seconds(offer.iteration_s), fmt::format("{:.4g}", offer.rate_per_s())});
    }
    fmt::print("{}", table.text());
    for (const ArrayOffer& offer : offers.ways)
        if (!offer.possible)
            print_wrapped(fmt::format("Not {}: ", words_of(offer.way)), offer.reason);
}

}  // namespace

int plan_array(const Globals& globals, const PlanOptions& options, const Model& model,
               const std::vector<GpuRange>& ranges, const std::vector<GpuPool>& pools,
               const Capabilities& can) {
    if (!options.fixed.empty() || options.pareto || pools.size() != 1 || ranges.size() != 1)
        return fail(globals, usage_error("wants one --gpu-type and one --gpus, and neither --fixed "
                                         "nor --pareto",
                                         "--array"));
    ArrayQuery query{.model = model,
                     .global_batch = options.global_batch,
                     .pool = pools.front(),
                     .can = can,
                     .members = options.array};
    query.pool.max_gpus = ranges.front().max;
    const ArrayOffers offers = array_offers(query);
    if (globals.json) {
        print_json(options, model, offers);
    } else {
        fmt::print("{} of {}, each with a global batch of {}, on {} {}\n\n",
                   counted(options.array, "member"), model.name, options.global_batch,
                   query.pool.max_gpus, query.pool.gpu_type);
        print_table(offers);
        fmt::print("\n");
        print_wrapped("", offers.why);
    }
    return offers.binds ? exit_yes : exit_no;
}

}  // namespace arena::cli
