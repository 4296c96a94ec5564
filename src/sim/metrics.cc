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

Json json_of(const Beside& b) {
    return {{"jobs", b.jobs},
            {"unfinished", b.unfinished},
            {"unfinished_in_both", b.unfinished_in_both},
            {"jct_ratio", json_of(b.ratio)},
            {"above_1", b.above_1},
            {"above_1_1", b.above_1_1},
            {"above_2", b.above_2}};
}

/// Share of the ratios that are larger, by more than sums of times may be off.
double share_above(const std::vector<double>& ratios, double limit) {
    const auto above =
        std::ranges::count_if(ratios, [&](double r) { return r > limit * (1 + 1e-9); });
    return ratios.empty() ? 0 : static_cast<double>(above) / static_cast<double>(ratios.size());
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

Beside beside_of(const Metrics& run, const Metrics& other) {
    Beside out;
    out.policy = other.policy;
    out.jobs = static_cast<std::int64_t>(std::min(run.outcomes.size(), other.outcomes.size()));
    for (std::size_t i = 0; i < static_cast<std::size_t>(out.jobs); ++i) {
        const JobOutcome &ours = run.outcomes[i], &theirs = other.outcomes[i];
        out.unfinished += ours.finished && theirs.finished ? 0 : 1;
        out.unfinished_in_both += ours.finished || theirs.finished ? 0 : 1;
        out.ratios.push_back(theirs.jct_s > 0 ? ours.jct_s / theirs.jct_s : 1);
    }
    out.ratio = spread_of(out.ratios);
    out.above_1 = share_above(out.ratios, 1);
    out.above_1_1 = share_above(out.ratios, 1.1);
    out.above_2 = share_above(out.ratios, 2);
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
         {"promises",
          {{"given", m.promises.given}, {"kept", m.promises.kept}, {"broken", m.promises.broken}}},
         {"decisions", m.decisions},
         {"decision_ms",
          {{"p50", m.decision_ms_p50}, {"p95", m.decision_ms_p95}, {"max", m.decision_ms_max}}},
         {"wall_s", m.wall_s}});
    if (m.loans) json["loans"] = json_of(*m.loans);
    if (m.slow) json["slowdowns"] = json_of(*m.slow);
    if (m.liars) json["liars"] = json_of(*m.liars);
    if (m.network) {
        json["network"] = {{"placements", m.network->placements},
                           {"in_one_leaf", m.network->in_one_leaf},
                           {"leaves", m.network->leaves}};
        if (m.network->racks) json["network"]["need_domain"] = m.network->need_domain;
    }
    constexpr double hour_s = 3600;
    if (m.power)
        json["power"] = {{"boots", m.power->boots},
                         {"awake_node_hours", m.power->awake_node_s / hour_s},
                         {"node_hours", m.power->node_s / hour_s}};
    for (const Beside& b : m.beside) json["beside"][b.policy] = json_of(b);
    return dump_json(json);
}

}  // namespace arena::sim
