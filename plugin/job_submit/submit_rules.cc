// SPDX-License-Identifier: GPL-2.0-or-later
// See submit_rules.h.
#include "plugin/job_submit/submit_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/text.h"
#include "planner/planner.h"

namespace arena {
namespace {

constexpr std::int64_t unlimited_gpus = 65536;

std::string spelled(std::string_view key) {
    return fmt::format("--arena-{} (#ARENA {})", key, key);
}
Error refuse(std::string text, std::string_view key = {}) {
    return usage_error(std::move(text), key.empty() ? std::string() : spelled(key));
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
    if (Status sound = check_model(request->model); !sound)
        return usage_error(sound.error().message(), "request record");
    return std::optional<Request>(std::move(*request));
}

// ---- what the job asks of Slurm itself ---------------------------------------------------------

Status check_kind(const SubmitFacts& f) {
    if (f.het)
        return refuse(
            "a heterogeneous job cannot be an Arena job; submit its parts as separate jobs");
    if (f.array)
        return refuse("a job array cannot be an Arena job yet; submit its tasks as separate jobs");
    if (!f.offered_from.empty())
        return refuse(fmt::format("a job that several clusters of a federation may start cannot be an Arena job: its plan "
                                  "is for one cluster; submit it with --clusters={}",
                                  f.offered_from));
    if (f.cron) return refuse("a scrontab job cannot be an Arena job; let it call sbatch instead");
    return Done{};
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
    return Done{};
}

/// "gres:gpu:N" or "gpu:N" -> N.
std::int64_t per_gpu(std::string_view text) {
    const auto colon = text.rfind(':');
    return colon == std::string_view::npos
               ? 0
               : parse_integer(text.substr(colon + 1), 1, std::int64_t{1} << 30).value_or(0);
}

void take_user_limits(const SubmitFacts& f, Request& request) {
    request.user_hold = f.held;
    request.cpus_per_gpu = std::min<std::int64_t>(per_gpu(f.cpus_per_tres), 65536);
    if (request.cpus_per_gpu == 0) request.cpus_per_gpu = f.cpus_per_task;
    request.mem_per_gpu_mb = per_gpu(f.mem_per_tres);
}

// ---- the cluster -------------------------------------------------------------------------------

std::vector<std::string> type_names(const std::vector<TypePool>& pools) {
    std::vector<std::string> names;
    for (const TypePool& p : pools)
        if (!p.type().empty()) names.push_back(printable(p.type(), 40));
    std::sort(names.begin(), names.end());
    return names;
}

std::string listed(const std::vector<std::string>& names) {
    return names.empty() ? "none" : join(names, ", ");
}

bool is_mapped(const Config& config, const std::string& type) {
    return std::any_of(config.gpu_types.begin(), config.gpu_types.end(),
                       [&](const GpuMapping& m) { return m.gres_type == type; });
}

Status check_types(const Request& request, const std::vector<TypePool>& cluster,
                   const Config& config) {
    for (const std::string& type : request.gpu_types) {
        const auto same = [&](const TypePool& p) { return p.type() == type; };
        if (std::none_of(cluster.begin(), cluster.end(), same))
            return refuse(fmt::format("this cluster has no GPU type '{}'; it has {}",
                                      printable(type, 40), listed(type_names(cluster))),
                          "types");
        if (!is_mapped(config, type))
            return refuse(
                fmt::format("GPU type '{}' is not in gpu_types of arena.yaml, so nothing is known "
                            "of its speed; ask the administrator to add it",
                            printable(type, 40)),
                "types");
    }
    return Done{};
}

/// The pools of the partition that the job may use.
std::vector<TypePool> usable_pools(const Request& request, std::vector<TypePool> pools,
                                   const Config& config) {
    const auto& wanted = request.gpu_types;
    std::erase_if(pools, [&](const TypePool& p) {
        const bool asked =
            wanted.empty() || std::find(wanted.begin(), wanted.end(), p.type()) != wanted.end();
        return !asked || !is_mapped(config, p.type());
    });
    return pools;
}

std::string capacities(const std::vector<TypePool>& pools) {
    std::vector<std::string> parts;
    for (const TypePool& p : pools)
        parts.push_back(fmt::format("{} {}", p.largest(), printable(p.type(), 40)));
    return join(parts, ", ");
}

Status check_range(const Request& request, const std::vector<TypePool>& pools,
                   const std::string& place) {
    const std::int64_t max = request.max_gpus == 0 ? unlimited_gpus : request.max_gpus;
    for (const TypePool& p : pools)
        if (p.can_place_any(request.min_gpus, max, 1)) return Done{};
    return refuse(
        fmt::format("at least {} GPUs of one type are asked for; a job in {} can have at most {}",
                    request.min_gpus, place, capacities(pools)),
        "gpus");
}

Status check_pin(const Request& request, const std::vector<TypePool>& pools,
                 const std::string& place) {
    const PlanPin& pin = request.pin;
    if (pin == PlanPin{}) return Done{};
    const std::int64_t product = pin.gpus();
    const bool complete = pin.fixes_gpus();
    std::int64_t max = request.max_gpus == 0 ? unlimited_gpus : request.max_gpus;
    if (complete) max = std::min(max, product);
    for (const TypePool& p : pools)
        if (p.can_place_any(request.min_gpus, max, product)) return Done{};
    return refuse(
        fmt::format("{} takes {}{} GPUs of one type, the same number on every node; a job in {} "
                    "can have at most {}",
                    to_string(pin), complete ? "" : "a multiple of ", product, place,
                    capacities(pools)),
        "plan");
}

Status check_cluster(const Request& request, const ClusterFacts& facts, const Config& config) {
    if (Status s = check_types(request, make_pools(facts.cluster), config); !s) return s;
    const std::vector<TypePool> pools = usable_pools(request, make_pools(facts.partition), config);
    if (pools.empty())
        return refuse(
            fmt::format("{} has no node with a GPU type that this job may use and arena.yaml maps; "
                        "its types are {}",
                        facts.place, listed(type_names(make_pools(facts.partition)))),
            "types");
    // A pin without a range sets the range: then the pin is what the user has to change.
    if (Status s = check_pin(request, pools, facts.place); !s) return s;
    return check_range(request, pools, facts.place);
}

// ---- what is written ---------------------------------------------------------------------------

std::string note_for(const SubmitFacts& f) {
    std::vector<std::string> ignored;
    if (f.shape_given) ignored.emplace_back("the numbers of nodes and tasks");
    if (f.memory_given) ignored.emplace_back("the memory per node and CPU (not --mem-per-gpu)");
    if (f.priority_given) ignored.emplace_back("--priority");
    if (ignored.empty()) return {};
    return "arena: " + join(ignored, " and ") + (f.shape_given || ignored.size() > 1 ? " are" : " is") +
           " chosen by Arena; what was given is ignored";
}

bool starts_with_any(std::string_view text, const std::vector<std::string_view>& prefixes) {
    return std::any_of(prefixes.begin(), prefixes.end(),
                       [&](std::string_view p) { return text.starts_with(p); });
}

}  // namespace

Result<std::optional<Request>> read_request(const SubmitFacts& facts) {
    if (facts.script.empty()) return std::optional<Request>();
    const Result<std::vector<Setting>> settings = parse_directives(facts.script);
    if (!settings) return settings.error();
    if (settings->empty() && facts.records.empty()) return std::optional<Request>();
    if (Status kind = check_kind(facts); !kind) return kind.error();
    if (!settings->empty() && !facts.records.empty())
        return refuse(
            "the job says what it wants both by --arena-* options and by #ARENA lines; use one "
            "of the two");
    if (facts.records.size() > 1) return refuse("the job carries more than one request record");
    return settings->empty() ? request_of_record(facts.records.front())
                             : request_of_directives(*settings);
}

Result<Acceptance> accept_request(Request request, const SubmitFacts& facts,
                                  const ClusterFacts& cluster, const Config& config) {
    if (!config.enabled)
        return refuse(
            "Arena is switched off on this cluster (enabled: false in arena.yaml); submit without "
            "--arena-* options and #ARENA lines");
    if (Status s = check_options(facts, request); !s) return s.error();
    if (Status s = check_cluster(request, cluster, config); !s) return s.error();
    take_user_limits(facts, request);
    Result<std::string> record = format_record(request);
    if (!record) return record.error();
    std::string model = printable(request.model.name, 64);
    std::replace(model.begin(), model.end(), ' ', '_');
    Acceptance accepted;
    accepted.admin_comment = "arena:v1 state=submitted model=" + model;
    accepted.record = std::move(*record);
    accepted.note = note_for(facts);
    accepted.request = std::move(request);
    return accepted;
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
        "SLURM_TRES_PER_TASK=", "SLURM_MEM_PER_GPU=",
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
    if (entry.starts_with("ARENA_")) return !entry.starts_with("ARENA_CONF=");
    return starts_with_any(entry, names) || starts_with_any(entry, prefixes);
}

}  // namespace arena
