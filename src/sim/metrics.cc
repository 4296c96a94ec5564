// SPDX-License-Identifier: GPL-2.0-or-later
// Numbers of a simulation: see metrics.h.
#include "sim/metrics.h"

#include <algorithm>
#include <cmath>

#include "base/json.h"
#include "base/statistics.h"
#include "sim/workload.h"

namespace arena::sim {
namespace {

Json json_of(const Spread& s) {
    return {{"mean", s.mean}, {"p50", s.p50}, {"p90", s.p90}, {"p99", s.p99}, {"max", s.max}};
}

Json json_of(const LoanMetrics& m) {
    constexpr double hour_s = 3600;
    return {{"lend", m.lend},
            {"inference_servers", m.inference_servers},
            {"inference_gpus", m.inference_gpus},
            {"inference_gpu_hours", m.inference_gpu_s / hour_s},
            {"lent_gpu_hours", m.lent_gpu_s / hour_s},
            {"loans", m.loans},
            {"servers_lent", m.servers_lent},
            {"reclaims", m.reclaims},
            {"servers_returned", m.servers_returned},
            {"late_returns", m.late_returns},
            {"preemptions", m.preemptions},
            {"least_preemptions", m.least_preemptions},
            {"scaled_in", m.scaled_in},
            {"let_end", m.let_end},
            {"overstayed", m.overstayed},
            {"short_server_s", m.short_server_s},
            {"short_late_s", m.short_late_s},
            {"unmet_server_s", m.unmet_server_s},
            {"usage_both", m.usage_both},
            {"usage_training", m.usage_training}};
}

Json json_of(const SlowMetrics& s) {
    Json json{{"mode", s.mode},
              {"events", s.events},
              {"events_met", s.met},
              {"detected", s.detected},
              {"splits", s.splits},
              {"restarts", s.restarts},
              {"most_quarantined", s.most_quarantined},
              {"lost_gpu_s", s.lost_gpu_s}};
    if (s.jct_without_s) json["jct_without_s"] = *s.jct_without_s;
    return json;
}

Json json_of(const LiarMetrics& l) {
    return {{"jobs", l.jobs},
            {"jct_s", l.jct_s},
            {"truthful_jct_s", l.truthful_jct_s},
            {"honest_jct_s", l.honest_jct_s},
            {"honest_truthful_jct_s", l.honest_truthful_jct_s}};
}

}  // namespace

Spread spread_of(std::vector<double> values) {
    Spread out;
    if (values.empty()) return out;
    for (const double v : values) out.mean += v;
    out.mean /= static_cast<double>(values.size());
    std::sort(values.begin(), values.end());
    out.p50 = percentile(values, 0.5);
    out.p90 = percentile(values, 0.9);
    out.p99 = percentile(values, 0.99);
    out.max = values.back();
    return out;
}

LiarMetrics liars_of(const Errors& errors, const Metrics& lied, const Metrics& truthful) {
    LiarMetrics out;
    for (std::size_t i = 0; i < lied.outcomes.size(); ++i) {
        const bool liar = Workload::is_liar(errors, static_cast<std::uint32_t>(i));
        out.jobs += liar ? 1 : 0;
        (liar ? out.jct_s : out.honest_jct_s) += lied.outcomes[i].jct_s;
        (liar ? out.truthful_jct_s : out.honest_truthful_jct_s) += truthful.outcomes[i].jct_s;
    }
    const auto liars = static_cast<double>(std::max<std::int64_t>(out.jobs, 1));
    const auto honest = static_cast<double>(std::max<std::int64_t>(lied.jobs - out.jobs, 1));
    out.jct_s /= liars, out.truthful_jct_s /= liars;
    out.honest_jct_s /= honest, out.honest_truthful_jct_s /= honest;
    return out;
}

std::string metrics_json(const Metrics& m) {
    Json json(
        {{"policy", m.policy},
         {"jobs", m.jobs},
         {"finished", m.finished},
         {"dropped", m.dropped},
         {"elastic_jobs", m.elastic},
         {"jct_s", json_of(m.jct_s)},
         {"queuing_s", json_of(m.queuing_s)},
         {"finish_time_fairness", json_of(m.finish_time_fairness)},
         {"makespan_s", m.makespan_s},
         {"throughput", {{"mean", m.throughput_mean}, {"peak", m.throughput_peak}}},
         {"normalized_throughput_mean", m.normalized_throughput_mean},
         {"gpu_utilization", m.gpu_utilization},
         {"restarts", m.restarts},
         {"decisions", m.decisions},
         {"decision_ms",
          {{"p50", m.decision_ms_p50}, {"p95", m.decision_ms_p95}, {"max", m.decision_ms_max}}},
         {"wall_s", m.wall_s}});
    if (m.loans) json["loans"] = json_of(*m.loans);
    if (m.slow) json["slowdowns"] = json_of(*m.slow);
    if (m.liars) json["liars"] = json_of(*m.liars);
    return dump_json(json);
}

}  // namespace arena::sim
