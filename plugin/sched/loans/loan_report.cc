// SPDX-License-Identifier: GPL-2.0-or-later
// See loan_report.h.
#include "plugin/sched/loans/loan_report.h"

#include "base/json.h"

namespace arena {
namespace {

Json lease_json(const LoanBook::LeaseLine& line) {
    Json json{{"id", line.id},       {"node", line.node},   {"partition", line.partition},
              {"state", line.state}, {"since", line.since}, {"jobs", line.jobs},
              {"why", line.why}};
    if (line.until > 0) json["until"] = line.until;
    if (line.deadline > 0) json["deadline"] = line.deadline;
    return json;
}

}  // namespace

std::string leases_json(const LoanBook::Told& told, const Config& config) {
    Json leases = Json::array();
    for (const LoanBook::LeaseLine& line : told.leases) leases.push_back(lease_json(line));
    return dump_json({{"schema_version", 1},
                      {"enabled", config.loan_enabled},
                      {"source", config.loan_source},
                      {"partition", config.loan_partition},
                      {"leases", std::move(leases)},
                      {"problem", config.loan_enabled ? told.problem : ""}}) +
           "\n";
}

std::string offered_json(const LoanBook::Offered& offered) {
    Json leases = Json::array();
    for (const auto& [id, node] : offered.leases) leases.push_back({{"id", id}, {"node", node}});
    return dump_json({{"schema_version", 1}, {"leases", std::move(leases)}}) + "\n";
}

std::string returned_json(const LoanBook::Returned& returned) {
    Json nodes = Json::array();
    for (const auto& node : returned.nodes)
        nodes.push_back({{"id", node.lease}, {"node", node.node}, {"deadline", node.deadline}});
    return dump_json({{"schema_version", 1},
                      {"returning", std::move(nodes)},
                      {"preempted", returned.preempted},
                      {"scaled_in", returned.scaled_in},
                      {"ending", returned.ending},
                      {"short", returned.missing},
                      {"why", returned.why}}) +
           "\n";
}

}  // namespace arena
