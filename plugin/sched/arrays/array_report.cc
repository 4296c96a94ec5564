// SPDX-License-Identifier: GPL-2.0-or-later
// See array_report.h.
#include "plugin/sched/arrays/array_report.h"

#include "base/json.h"

namespace arena {
namespace {

Json member_json(JobId job, const ArrayBook::Share& share) {
    return {{"job", job},
            {"array", share.place.id},
            {"task", share.place.task},
            {"runs", share.here},
            {"gpu_s", share.gpu_s}};
}

Json carrier_json(const ArrayBook::Carrier& carrier) {
    const ArrayCarrierView& view = carrier.view;
    Json members = Json::array();
    for (const auto& [job, share] : carrier.members) members.push_back(member_json(job, share));
    const char* state = view.finished    ? "over"
                        : !view.running  ? "ending"
                        : carrier.left_s ? "leaving"
                                         : "running";
    return {{"job", view.id},
            {"uid", view.user_id},
            {"state", state},
            {"end", view.finished ? view.end : ""},
            {"nodes", view.nodes},
            {"gpus", view.gpus},
            {"since", static_cast<std::int64_t>(view.start_s)},
            {"until", view.finished ? static_cast<std::int64_t>(view.end_s) : 0},
            {"plan", carrier.facts.plan},
            {"at_a_time", carrier.facts.members},
            {"iteration_s", carrier.facts.iteration_s},
            {"bubble", carrier.facts.bubble},
            {"unshared_gpu_s", carrier.unshared_gpu_s},
            {"members", std::move(members)}};
}

}  // namespace

std::string arrays_json(const ArrayBook::Carriers& carriers, const Config& config,
                        std::optional<std::uint32_t> user) {
    Json list = Json::array();
    for (const auto& [id, carrier] : carriers)
        if (!user || *user == carrier.view.user_id) list.push_back(carrier_json(carrier));
    return dump_json({{"schema_version", 1},
                      {"enabled", config.array_enabled},
                      {"carriers", std::move(list)}}) +
           "\n";
}

}  // namespace arena
