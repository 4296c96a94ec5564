// SPDX-License-Identifier: GPL-2.0-or-later
// See metrics.h. One table of samples; what `stats` does not have is left out, so that plug-in and
// exporter of neighbouring versions go together.
#include "cli/exporter/metrics.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>

#include "base/json.h"

namespace arena::cli {
namespace {

using Type = Exposition::Type;

constexpr double from_ms = 0.001;
constexpr Type counter = Type::counter, gauge = Type::gauge;

/// A sample, of a number in the answer; those of one family stand together, and the first of them
/// has its help.
struct Row {
    const char* family;
    Type type;
    const char* pointer;
    const char* help = "";
    const char* label = "";
    const char* word = "";  ///< the label's value
    double scale = 1;
};

constexpr Row rows[] = {
    {"slurm_arena_rounds", counter, "/rounds", "Rounds of the scheduler."},
    {"slurm_arena_round_depth", gauge, "/jobs/planned", "Jobs that the last round decided on."},
    {"slurm_arena_last_round_timestamp_seconds", gauge, "/seen_s",
     "When the cluster was last looked at."},
    {"slurm_arena_last_round_seconds", gauge, "/round_ms/last", "How long the last round took.", "",
     "", from_ms},
    {"slurm_arena_decisions", counter, "/decisions/starts",
     "What was done with jobs and nodes; loan and reclaim count nodes.", "kind", "start"},
    {"slurm_arena_decisions", counter, "/decisions/releases", "", "kind", "release"},
    {"slurm_arena_decisions", counter, "/decisions/reholds", "", "kind", "rehold"},
    {"slurm_arena_decisions", counter, "/decisions/checkpoints", "", "kind", "checkpoint"},
    {"slurm_arena_decisions", counter, "/decisions/moves", "", "kind", "migrate"},
    {"slurm_arena_decisions", counter, "/decisions/requeues", "", "kind", "requeue"},
    {"slurm_arena_decisions", counter, "/decisions/opt_outs", "", "kind", "opt_out"},
    {"slurm_arena_decisions", counter, "/loan/leases", "", "kind", "loan"},
    {"slurm_arena_decisions", counter, "/loan/returns", "", "kind", "reclaim"},
    {"slurm_arena_decisions_dropped", counter, "/dropped/stale",
     "Decisions that were not carried out.", "reason", "stale"},
    {"slurm_arena_decisions_dropped", counter, "/dropped/failed_starts", "", "reason",
     "failed_start"},
    {"slurm_arena_promises", counter, "/promises/given",
     "Waiting jobs that were promised an end, as in Slurm's own order."},
    {"slurm_arena_promises_kept", gauge, "/promises/kept",
     "Of those: that started in time for it, and were not moved out of it since."},
    {"slurm_arena_promises_broken", counter, "/promises/broken",
     "Of those: that started too late for it."},
    {"slurm_arena_observed_jobs", counter, "/observe/jobs",
     "Jobs that are over, in Slurm and as an observing Arena planned them."},
    {"slurm_arena_observed_starts", counter, "/observe/earlier",
     "Of those: that would have started at least 10 s earlier or later.", "than", "earlier"},
    {"slurm_arena_observed_starts", counter, "/observe/later", "", "than", "later"},
    {"slurm_arena_observed_wait_seconds", counter, "/observe/wait_s/actual",
     "Their waits, as Slurm had them and as planned.", "of", "slurm"},
    {"slurm_arena_observed_wait_seconds", counter, "/observe/wait_s/planned", "", "of", "plan"},
    {"slurm_arena_observed_jct_seconds", counter, "/observe/jct_s/actual",
     "From when they could run to their ends, likewise.", "of", "slurm"},
    {"slurm_arena_observed_jct_seconds", counter, "/observe/jct_s/planned", "", "of", "plan"},
    {"slurm_arena_observed_gpu_seconds", counter, "/observe/gpu_s/actual",
     "GPU-seconds that they held, likewise.", "of", "slurm"},
    {"slurm_arena_observed_gpu_seconds", counter, "/observe/gpu_s/planned", "", "of", "plan"},
    {"slurm_arena_observed_overlap_gpu_seconds", counter, "/observe/overlap_gpu_s",
     "GPU-seconds that the plan used of GPUs which Slurm had given to others."},
    {"slurm_arena_observed_behind_seconds", gauge, "/observe/behind_s",
     "The plan's clock is behind, as far as runs of Slurm's have not shown what it needs."},
    {"slurm_arena_jobs_running", gauge, "/jobs/running", "Running Arena jobs."},
    {"slurm_arena_reports", counter, "/reports", "Iteration times that running jobs told."},
    {"slurm_arena_profile_gpu_seconds", counter, "/profiles/gpu_s", "GPU-seconds of profile runs."},
    {"slurm_arena_profiles_running", gauge, "/profiles/running", "Profile runs that go on."},
    {"slurm_arena_profiles", counter, "/profiles/imported",
     "Profiles that were measured and taken in."},
    {"slurm_arena_profile_failures", counter, "/profiles/failed", "Profile runs without a result."},
    {"slurm_arena_slowdowns_open", gauge, "/slowdown/open",
     "Slow GPUs and links that watched jobs tell of now."},
    {"slurm_arena_slowdown_lost_gpu_seconds", counter, "/slowdown/lost_gpu_s",
     "GPU-seconds that watched jobs lost to slow GPUs and links."},
    {"slurm_arena_nodes_loaned", gauge, "/loan/lent",
     "Nodes of inference that are lent to training."},
    {"slurm_arena_loan_late_returns", counter, "/loan/late_returns",
     "Lent nodes that were back after their deadline."},
    {"slurm_arena_loan_preemptions", counter, "/loan/preemptions",
     "Jobs that were preempted for lent nodes to go back."},
    {"slurm_arena_lock_hold_seconds", gauge, "/lock_ms/read_max",
     "Longest time that a lock of slurmctld was held at once, since arena stats --reset.", "lock",
     "read", from_ms},
    {"slurm_arena_lock_hold_seconds", gauge, "/lock_ms/write_max", "", "lock", "write", from_ms},
    {"slurm_arena_fallbacks", counter, "/faults",
     "Internal faults: rounds that were left to Slurm's own order."},
};

constexpr std::size_t most_gpu_types = 64;

double number_at(const Json& json, const char* pointer) {
    const Json::json_pointer at(pointer);
    const Json* value = json.contains(at) ? &json.at(at) : nullptr;
    return value != nullptr && value->is_number() ? value->get<double>() : NAN;
}

void write_rows(const Json& stats, Exposition& out) {
    for (const Row& row : rows) {
        if (*row.help != '\0') out.family(row.family, row.type, row.help);
        const double value = number_at(stats, row.pointer);
        if (std::isnan(value)) continue;
        Labels labels;
        if (*row.label != '\0') labels.emplace_back(row.label, row.word);
        out.sample(labels, value * row.scale);
    }
}

/// Numbers that follow from others.
void write_derived(const Json& stats, Exposition& out) {
    const double waiting = number_at(stats, "/jobs/waiting"),
                 known = number_at(stats, "/jobs/with_offers"),
                 slow = number_at(stats, "/slowdown/events"),
                 links = number_at(stats, "/slowdown/of_links");
    if (!std::isnan(waiting) && !std::isnan(known)) {
        out.family("slurm_arena_jobs_pending", Type::gauge,
                   "Waiting Arena jobs, and whether there is a grid that they could have.");
        out.sample({{"grid_known", "true"}}, known);
        out.sample({{"grid_known", "false"}}, waiting - known);
    }
    if (std::isnan(slow) || std::isnan(links)) return;
    out.family("slurm_arena_slowdowns", Type::counter,
               "Slow GPUs and links that watched jobs told of.");
    out.sample({{"kind", "compute"}}, slow - links);
    out.sample({{"kind", "communication"}}, links);
}

void write_pools(const Json& stats, Exposition& out) {
    const auto pools = stats.find("pools");
    if (pools == stats.end() || !pools->is_object()) return;
    std::vector<std::pair<std::string, const Json*>> list;
    for (const auto& [type, pool] : pools->items())
        if (pool.is_object() && list.size() < most_gpu_types) list.emplace_back(type, &pool);
    double lent = 0;
    out.family("slurm_arena_gpus", Type::gauge,
               "GPUs by type as the last round saw them; down: their node takes no jobs.");
    for (const auto& [type, pool] : list) {
        const double free = number_at(*pool, "/free"), down = number_at(*pool, "/down");
        out.sample({{"gpu_type", type}, {"state", "free"}}, free);
        out.sample({{"gpu_type", type}, {"state", "down"}}, down);
        out.sample({{"gpu_type", type}, {"state", "busy"}},
                   number_at(*pool, "/gpus") - free - down);
        lent += number_at(*pool, "/lent");
    }
    out.family("slurm_arena_slow_nodes", Type::gauge,
               "Nodes with a GPU or link that is confirmed to be slow.");
    for (const auto& [type, pool] : list)
        out.sample({{"gpu_type", type}}, number_at(*pool, "/slow_nodes"));
    out.family("slurm_arena_unhealthy_nodes", Type::gauge,
               "Nodes by the worst that their own tools find.");
    for (const auto& [severity, pointer] : {std::pair("gone", "/slowdown/health/gone"),
                                            {"slow", "/slowdown/health/slow"},
                                            {"watch", "/slowdown/health/watch"}})
        out.sample({{"severity", severity}}, number_at(stats, pointer));
    out.family("slurm_arena_gpus_loaned", Type::gauge,
               "GPUs of inference that are lent to training.");
    out.sample({}, lent);
}

void write_histogram(const Json* json, const Labels& labels, Exposition& out) {
    std::vector<double> bounds;
    std::vector<std::uint64_t> counts;
    double sum = 0;
    std::optional<Error> error;
    const JsonFields fields(*json, "histogram", error);
    for (const char* key : {"bounds", "counts"})
        if (const Json* list = fields.list(key, 64))
            for (const Json& item : *list) {
                if (!item.is_number()) return;
                if (*key == 'b')
                    bounds.push_back(item.get<double>());
                else
                    counts.push_back(item.get<std::uint64_t>());
            }
    fields.number("sum", sum, -1e300, 1e300);
    if (!error && counts.size() == bounds.size() + 1) out.buckets(labels, bounds, counts, sum);
}

void write_histograms(const Json& stats, Exposition& out) {
    const auto histograms = stats.find("histograms");
    if (histograms == stats.end() || !histograms->is_object()) return;
    if (const auto stages = histograms->find("round_seconds");
        stages != histograms->end() && stages->is_object()) {
        out.family("slurm_arena_round_seconds", Type::histogram,
                   "Seconds of the stages of a round.");
        for (const auto& [stage, json] : stages->items())
            write_histogram(&json, {{"phase", stage}}, out);
    }
    if (const auto ratio = histograms->find("estimate_ratio"); ratio != histograms->end()) {
        out.family("slurm_arena_estimate_error_ratio", Type::histogram,
                   "Iteration times that running jobs told, divided by the estimate.");
        write_histogram(&*ratio, {}, out);
    }
}

void write_own(const Document& document, const ExporterCounts& counts, Exposition& out) {
    out.family("slurm_arena_exporter_requests", Type::counter, "HTTP requests that were answered.");
    out.sample({}, static_cast<double>(counts.requests));
    out.family("slurm_arena_exporter_questions", Type::counter,
               "Questions that the scheduler plug-in was asked.");
    out.sample({}, static_cast<double>(counts.questions.questions));
    out.family("slurm_arena_exporter_question_failures", Type::counter,
               "Of those: without an answer.");
    out.sample({}, static_cast<double>(counts.questions.failures));
    out.family("slurm_arena_exporter_question_seconds", Type::gauge,
               "How long the answer took that this is made of.");
    out.sample({}, document.took_s);
    out.family("slurm_arena_exporter_build_info", Type::gauge, "1, with the exporter's version.");
    out.sample({{"version", ARENA_VERSION}}, 1);
}

}  // namespace

std::string metrics_text(const Document& document, const ExporterCounts& counts,
                         MetricsFormat format) {
    Exposition out(format);
    Result<Json> stats = parse_json(document.text);
    const bool up =
        document.problem.empty() && stats && stats->is_object() && stats->contains("rounds");
    out.family("slurm_arena_up", Type::gauge, "1 where the scheduler plug-in answered, else 0.");
    out.sample({}, up ? 1 : 0);
    if (up) {
        write_rows(*stats, out);
        write_derived(*stats, out);
        write_pools(*stats, out);
        write_histograms(*stats, out);
    }
    write_own(document, counts, out);
    return out.text();
}

}  // namespace arena::cli
