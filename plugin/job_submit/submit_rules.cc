// SPDX-License-Identifier: GPL-2.0-or-later
// See submit_rules.h.
#include "plugin/job_submit/submit_rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "base/text.h"
#include "core/limits.h"
#include "planner/requests/build_request.h"
#include "planner/requests/would_fit.h"
#include "plugin/job_submit/steps_limit_rules.h"
#include "plugin/job_submit/submit_line.h"
#include "request/options.h"
#include "request/rendezvous.h"
#include "request/script_programs.h"
#include "site/leave_signals.h"

namespace arena {
namespace {

Error refuse(std::string text, std::string_view key = {}) {
    return usage_error(std::move(text), key.empty() ? std::string() : option_spelling(key));
}

// ---- the two channels ------------------------------------------------------------------------

bool names_a_path(const std::vector<Setting>& settings) {
    return std::any_of(settings.begin(), settings.end(), [](const Setting& s) {
        const std::string_view value = s.second;
        return s.first == "model" &&
               (value.ends_with(".json") || value.ends_with(".yaml") || value.ends_with(".yml"));
    });
}

Result<std::optional<Request>> request_of_directives(const std::vector<Setting>& settings) {
    if (names_a_path(settings))
        return refuse(
            "a file cannot be named in an #ARENA line, which slurmctld reads; use sbatch "
            "--arena-model=FILE or #SBATCH --arena-model=FILE",
            "model");
    Result<Request> request = build_request(settings, {}, {});
    if (!request) return request.error();
    return std::optional<Request>(std::move(*request));
}

Result<std::optional<Request>> request_of_record(const std::string& record) {
    Result<Request> request = parse_record(record);
    if (!request) return request.error();
    if (Status sound = check_request(*request); !sound) return in_record(sound.error());
    return std::optional<Request>(std::move(*request));
}

// ---- what the job asks of Slurm itself ---------------------------------------------------------

Status check_kind(const SubmitFacts& f) {
    if (f.het)
        return refuse(
            "a heterogeneous job cannot be an Arena job; submit its parts as separate jobs");
    if (!f.offered_from.empty())
        return refuse(
            fmt::format("a job that several clusters of a federation may start cannot be an Arena "
                        "job: its plan "
                        "is for one cluster; submit it with --clusters={}",
                        f.offered_from));
    if (f.cron) return refuse("a scrontab job cannot be an Arena job; let it call sbatch instead");
    return Done{};
}

Status check_array(const SubmitFacts& f, const Request& request, const Config& config) {
    if (f.array && !config.array_enabled)
        return refuse(
            "a job array cannot be an Arena job on this cluster (array.enabled is false in "
            "arena.yaml); submit its tasks as separate jobs");
    if (f.array && !request.array)
        return refuse(
            "a job array is an Arena job with --arena-array (#ARENA array) only; add it, or "
            "submit its tasks as separate jobs");
    if (request.array && !f.array)
        return refuse("needs a job array, as of --array=0-63; give one or leave it out", "array");
    return Done{};
}

/// A job is told to save its state by the signal that its --signal names: one that no program can
/// handle would only end it.
Status check_signal(int number) {
    if (number == 0 || name_of(leave_signals, number) != "?") return Done{};
    const char* name = ::sigabbrev_np(number);
    return refuse(
        fmt::format("tells the job to save its state by the signal of --signal, and {} cannot; "
                    "accepted: {}; or leave --signal out",
                    name ? name : std::to_string(number), fmt::join(leave_signal_names, ", ")),
        "elastic");
}

Status check_options(const SubmitFacts& f, const Request& request) {
    if (!f.gpu_option.empty())
        return refuse(
            fmt::format("{} cannot be combined with Arena, which chooses the GPUs; use "
                        "--arena-gpus=MIN-MAX and --arena-types=TYPE,...",
                        f.gpu_option));
    if (f.node_list)
        return refuse(
            "--nodelist cannot be combined with Arena, which chooses the nodes; use --exclude, "
            "--constraint or --partition to keep it away from some");
    if (f.no_requeue && request.elastic)
        return refuse("needs requeueing, which --no-requeue forbids; leave one of them out",
                      "elastic");
    return request.elastic ? check_signal(f.signal) : Done{};
}

/// What only a job can have that Slurm can requeue: a shell that somebody sits at is none.
Status check_interactive(const SubmitFacts& f, const Request& request) {
    if (!f.interactive) return Done{};
    constexpr const char* batch_only =
        "is for batch jobs, which can be restarted; submit with sbatch, or leave it out";
    if (request.elastic) return refuse(batch_only, "elastic");
    if (request.slowdown == SlowdownMode::mitigate)
        return refuse(std::string("mitigate ") + batch_only + " (watch is possible)", "slowdown");
    if (f.immediate)
        return refuse(
            "--immediate cannot be combined with Arena, which plans a job before it starts; leave "
            "it out");
    return Done{};
}

/// "gres:gpu:N", "gres/gpu:N" (since 23.11) or "gpu:N" -> N.
std::int64_t per_gpu(std::string_view text) {
    const auto colon = text.rfind(':');
    return colon == std::string_view::npos
               ? 0
               : parse_integer(text.substr(colon + 1), 1, std::int64_t{1} << 30).value_or(0);
}

/// CPUs and memory of each GPU: by Arena's options or by sbatch's, not by both.
Status check_per_gpu(const SubmitFacts& f, const Request& request) {
    const bool cpus = !f.cpus_per_tres.empty() || f.cpus_per_task > 0;
    if (request.cpus_per_gpu > 0 && cpus)
        return refuse("cannot be combined with --cpus-per-task or --cpus-per-gpu; give one of them",
                      "cpus-per-gpu");
    const bool memory = !f.mem_per_tres.empty() || f.memory_per_node_mb > 0 ||
                        f.memory_per_cpu_mb > 0 || f.whole_memory;
    if (request.mem_per_gpu_mb > 0 && memory)
        return refuse(
            "cannot be combined with --mem, --mem-per-cpu or --mem-per-gpu; give one of them",
            "mem-per-gpu");
    return Done{};
}

/// As a job's script and ranks will take it: what is no host would make them wait for nobody.
Status check_rendezvous(const SubmitFacts& f) {
    return f.rendezvous.empty() ? Status(Done{}) : arena::check_rendezvous(f.rendezvous);
}

/// What the user asks for beside GPUs; whatever the record says of it is forged, but for options.
void take_user_limits(const SubmitFacts& f, Request& request) {
    request.user_hold = f.held;
    const std::int64_t cpus = std::min(per_gpu(f.cpus_per_tres), limits::gpus);
    if (cpus > 0 || f.cpus_per_task > 0) request.cpus_per_gpu = cpus > 0 ? cpus : f.cpus_per_task;
    const std::int64_t memory_mb = per_gpu(f.mem_per_tres);
    if (memory_mb > 0) request.mem_per_gpu_mb = memory_mb;
    const bool other = request.mem_per_gpu_mb == 0;  // sbatch takes one of the three
    request.mem_per_node_mb = other ? f.memory_per_node_mb : 0;
    request.mem_per_cpu_mb = other ? f.memory_per_cpu_mb : 0;
    request.whole_memory = other && f.whole_memory;
}

// ---- what nobody can ever have -----------------------------------------------------------------

/// Of the limits of a kind the tightest; nullptr: there is none.
const HardLimit* tightest(const std::vector<HardLimit>& limits, HardLimit::Of of) {
    const HardLimit* least = nullptr;
    for (const HardLimit& limit : limits)
        if (limit.of == of && (least == nullptr || limit.most < least->most)) least = &limit;
    return least;
}

/// sbatch looked at every GPU type of the cluster that the job may have, to the end. Memory and
/// degrees, which a plan fails by, depend on no measurement.
Status check_some_plan(const std::optional<QuickEstimate>& estimate) {
    if (!estimate || !estimate->complete || estimate->none.empty()) return Done{};
    const std::string other = would_fit_text(estimate->would_fit);
    return refuse(fmt::format("no plan fits on any node of this cluster: {}{}{}; ask for more GPUs "
                              "or other types, or give another batch, precision or launcher",
                              estimate->none, other.empty() ? "" : "; ", other),
                  "gpus");
}

// ---- what is written ---------------------------------------------------------------------------

/// Of an array whose tasks can only run by themselves.
std::string array_note(const Request& request) {
    const std::string why = request.array ? why_not_shared(request) : "";
    return why.empty() ? "" : "arena: each task of the array runs by itself: " + why;
}

/// Of a script that starts what a launcher is named for, where its user named none.
std::string launcher_note(const SubmitFacts& f, const Request& request) {
    if (!request.launcher_by_default) return {};
    std::vector<std::string> named;
    for (const ScriptProgram& p : parse_script_programs(f.script))
        if (p.launcher != request.launcher)
            named.push_back(fmt::format("line {} of the script starts {}: --arena-launcher={}",
                                        p.line, p.word, p.launcher));
    if (named.empty()) return {};
    return fmt::format("arena: {}? What is planned now is for the launcher {}",
                       join(named, ", or "), request.launcher);
}

std::string note_for(const SubmitFacts& f) {
    std::vector<std::string> ignored;
    if (f.shape_given) ignored.emplace_back("the numbers of nodes and tasks");
    if (f.priority_given) ignored.emplace_back("--priority");
    if (ignored.empty()) return {};
    return "arena: " + join(ignored, " and ") +
           (f.shape_given || ignored.size() > 1 ? " are" : " is") +
           " chosen by Arena; what was given is ignored";
}

bool starts_with_any(std::string_view text, const std::vector<std::string_view>& prefixes) {
    return std::any_of(prefixes.begin(), prefixes.end(),
                       [&](std::string_view p) { return text.starts_with(p); });
}

}  // namespace

Result<std::optional<Request>> read_request(const SubmitFacts& facts) {
    if (facts.script.empty() && facts.records.empty()) return std::optional<Request>();
    const Result<std::vector<Setting>> settings = parse_directives(facts.script);
    if (!settings) return settings.error();
    if (settings->empty() && facts.records.empty()) return std::optional<Request>();
    if (Status kind = check_kind(facts); !kind) return kind.error();
    if (!settings->empty() && !facts.records.empty())
        return refuse(
            "the job says what it wants both by --arena-* options and by #ARENA lines; use one "
            "of the two");
    if (facts.records.size() > 1) return refuse("the job carries more than one request record");
    Result<std::optional<Request>> request = settings->empty()
                                                 ? request_of_record(facts.records.front())
                                                 : request_of_directives(*settings);
    if (!request) return request;
    if (const auto off = apply_comment(facts.comment, **request); !off) return off.error();
    return request;
}

Status check_limits(const Request& request, const std::vector<HardLimit>& limits,
                    std::int64_t tmp_mb, const ClusterFacts& cluster, const SiteFacts& site) {
    const HardLimit* gpus = tightest(limits, HardLimit::Of::gpus);
    const HardLimit* each = tightest(limits, HardLimit::Of::gpus_per_node);
    const HardLimit* nodes = tightest(limits, HardLimit::Of::nodes);
    if (gpus != nullptr && request.min_gpus > gpus->most)
        return refuse(fmt::format("at least {} GPUs are asked for; {} allows a job {}",
                                  request.min_gpus, gpus->words, gpus->most),
                      "gpus");
    const std::int64_t step = std::max<std::int64_t>(request.pin.gpus(), 1);
    const std::int64_t group = std::max<std::int64_t>(request.pin.tp, 1);
    const std::int64_t most_each = each != nullptr ? each->most : INT64_MAX;
    std::int64_t fewest_gpus = 0, least_nodes = INT64_MAX;
    for (const TypePool& pool : pools_for(request, tmp_mb, cluster, site)) {
        std::int64_t last = pool.total();
        if (request.max_gpus > 0) last = std::min(last, request.max_gpus);
        if (gpus != nullptr) last = std::min(last, gpus->most);
        for (std::int64_t n = (request.min_gpus + step - 1) / step * step; n <= last; n += step) {
            const std::int64_t on = fewest_nodes(request, pool, n, group, most_each);
            if (on == 0 || on >= least_nodes) continue;
            least_nodes = on;
            fewest_gpus = n;
        }
    }
    if (fewest_gpus == 0 && each != nullptr)
        return refuse(
            fmt::format("no count of GPUs that it may have is had with at most {} on each "
                        "node, which {} allows",
                        each->most, each->words),
            "gpus");
    if (fewest_gpus == 0 && gpus != nullptr)
        return refuse(
            fmt::format("no count of GPUs that it may have is within the {} that {} allows",
                        gpus->most, gpus->words),
            "gpus");
    if (nodes != nullptr && fewest_gpus > 0 && least_nodes > nodes->most)
        return refuse(fmt::format("{} GPUs take at least {} nodes here; {} allows a job {}",
                                  fewest_gpus, least_nodes, nodes->words, nodes->most),
                      "gpus");
    return Done{};
}

Result<Acceptance> accept_request(Request request, const SubmitFacts& facts,
                                  const ClusterFacts& cluster, const SiteFacts& site) {
    if (!site.config.enabled)
        return refuse(
            "Arena is switched off on this cluster (enabled: false in arena.yaml); submit without "
            "--arena-* options and #ARENA lines");
    if (Status s = check_array(facts, request, site.config); !s) return s.error();
    const bool observes = arena::observes(site.config);
    if (Status s = check_options(facts, request); !s && !observes) return s.error();
    if (Status s = check_interactive(facts, request); !s) return s.error();
    if (Status s = check_per_gpu(facts, request); !s) return s.error();
    if (Status s = check_rendezvous(facts); !s) return s.error();
    take_user_limits(facts, request);
    // Only Arena's own holds are known without this; while it observes there are none.
    if (observes) request.user_hold = true;
    const bool by_default = !request.slowdown && site.config.slowdown_default == "mitigate";
    if (facts.interactive && by_default) request.slowdown = SlowdownMode::watch;
    if (Status s = check_cluster(request, facts.tmp_mb, cluster, site); !s) return s.error();
    const std::optional<QuickEstimate> estimate = parse_estimate(facts.estimate);
    if (Status s = check_some_plan(estimate); !s) return s.error();
    if (Status s = check_limits(request, facts.limits, facts.tmp_mb, cluster, site); !s)
        return s.error();
    const StepsLimit limit = limit_by_steps(request, estimate, facts, cluster, site);
    request.iteration_s = limit.iteration_s;
    Result<std::string> record = format_record(request);
    if (!record) return record.error();
    std::string model = printable(request.model.name, 64);
    std::replace(model.begin(), model.end(), ' ', '_');
    Acceptance accepted;
    accepted.admin_comment =
        fmt::format("arena:v1 state={} model={}", observes ? "observed" : "submitted", model);
    accepted.record = std::move(*record);
    accepted.limit_minutes = limit.minutes;
    const std::int64_t limit_s = limit.minutes > 0 ? 60 * limit.minutes : facts.limit_s;
    accepted.note = submit_line(request, estimate, facts.tmp_mb, cluster, site, limit_s);
    for (const std::string& note :
         {limit.note, launcher_note(facts, request), note_for(facts), array_note(request)})
        if (!note.empty()) accepted.note += "\n" + note;
    accepted.request = std::move(request);
    return accepted;
}

Result<std::optional<std::string>> change_record(const std::string& record,
                                                 std::string_view comment, std::int64_t tmp_mb,
                                                 const ClusterFacts& cluster,
                                                 const SiteFacts& site) {
    if (!comment.starts_with(comment_prefix)) return std::optional<std::string>();
    Result<Request> request = parse_record(record);
    if (!request) return request.error();
    const Request before = *request;
    const auto off = apply_comment(comment, *request);
    if (!off) return off.error();
    if (*off || *request == before) return std::optional<std::string>();
    if (Status s = check_cluster(*request, tmp_mb, cluster, site); !s) return in_comment(s.error());
    Result<std::string> changed = format_record(*request);
    if (!changed) return changed.error();
    return std::optional<std::string>(std::move(*changed));
}

std::optional<std::string> partitions_with_lent(const Request& request, std::string_view given,
                                                std::string_view by_default, const Config& config) {
    const std::string_view own = given.empty() ? by_default : given;
    if (!config.loan_enabled || !request.loan || own.empty()) return std::nullopt;
    for (const std::string_view name : split(own, ','))
        if (name == config.loan_partition) return std::nullopt;
    return std::string(own) + "," + config.loan_partition;
}

Status check_lent(const std::optional<Request>& request, std::string_view partitions,
                  const Config& config) {
    if (!config.loan_enabled || (request && request->loan)) return Done{};
    for (const std::string_view name : split(partitions, ','))
        if (name == config.loan_partition)
            return refuse(fmt::format(
                "partition {} has nodes that inference lends, and is for jobs that can leave them: "
                "give --arena-loan and --arena-elastic, or another partition",
                config.loan_partition));
    return Done{};
}

bool is_arena_control(std::string_view entry) {
    return starts_with_any(entry, {"ARENA_", "SPANK_ARENA_"});
}

bool is_arena_option_control(std::string_view entry) {
    return entry.starts_with("_SLURM_SPANK_OPTION_arena_");
}

bool is_stale_variable(std::string_view entry) {
    static const std::vector<std::string_view> names = {
        "SLURM_NTASKS=",        "SLURM_NPROCS=",         "SLURM_NNODES=",
        "SLURM_JOB_NUM_NODES=", "SLURM_TASKS_PER_NODE=", "SLURM_CPUS_PER_TASK=",
        "SLURM_TRES_PER_TASK=", "SLURM_MEM_PER_GPU=",    "SLURM_MEM_PER_NODE=",
        "SLURM_MEM_PER_CPU=",
    };
    static const std::vector<std::string_view> prefixes = {
        "SLURM_GPUS",
        "SLURM_CPUS_PER_GPU",
        "SLURM_NTASKS_PER_",
        "_SLURM_SPANK_OPTION_arena_",
        "SLURM_SPANK__SLURM_SPANK_OPTION_arena_",
        "SLURM_SPANK_ARENA_",
        "SLURM_SPANK_SPANK_ARENA_",
    };
    static const std::vector<std::string_view> of_the_user = {"ARENA_CONF=", "ARENA_RDZV_HOST="};
    if (entry.starts_with("ARENA_")) return !starts_with_any(entry, of_the_user);
    return starts_with_any(entry, names) || starts_with_any(entry, prefixes);
}

}  // namespace arena
