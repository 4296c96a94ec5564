// SPDX-License-Identifier: GPL-2.0-or-later
// See launch.h. The words of each launcher are in src/request/launchers/.
#include "plugin/sched/round/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "base/text.h"
#include "planner/requests/cluster_rules.h"
#include "planner/search/offers.h"
#include "plugin/common/given.h"
#include "plugin/common/job_mark.h"
#include "plugin/common/quick_estimate.h"
#include "plugin/sched/host/move_end.h"
#include "plugin/sched/host/nonce.h"
#include "reports/next_plan.h"
#include "request/launchers.h"

namespace arena {
namespace {

std::string stage_layers(const Plan& plan) {
    std::vector<std::string> parts;
    for (std::int64_t layers : plan.stage_layers) parts.push_back(std::to_string(layers));
    return join(parts, ",");
}

}  // namespace

std::string launcher_arguments(const Request& request, const Plan& plan) {
    const Result<LauncherChoice> choice = parse_launcher(launcher_of(request));
    if (!choice || choice->launcher->names_hosts()) return {};
    const auto words = render(*choice->launcher, choice->version,
                              words_of(request.model, request.global_batch, plan));
    return words ? join(*words, " ") : "";
}

std::int64_t tasks_per_node(const std::string& name, const Grid& grid) {
    const Launcher* launcher = find_launcher(name);
    return launcher != nullptr && launcher->one_task_per_node ? 1 : grid.gpus_per_node;
}

std::vector<std::string> launch_environment(const Request& request, const Offer& offer) {
    const Plan& plan = offer.plan;
    std::vector<std::string> environment{
        fmt::format("ARENA_PP={}", plan.pp()),
        fmt::format("ARENA_DP={}", plan.dp()),
        fmt::format("ARENA_TP={}", plan.tp()),
        fmt::format("ARENA_MICRO_BATCH={}", plan.micro_batch),
        fmt::format("ARENA_NUM_MICRO_BATCHES={}", plan.num_micro_batches),
        fmt::format("ARENA_GLOBAL_BATCH={}", request.global_batch),
        fmt::format("ARENA_STAGE_LAYERS={}", stage_layers(plan)),
        fmt::format("ARENA_RECOMPUTE={}", to_string(plan.recompute)),
        fmt::format("ARENA_ZERO_STAGE={}", plan.zero_stage),
        fmt::format("ARENA_SEQUENCE_PARALLEL={}", plan.sequence_parallel ? 1 : 0),
        fmt::format("ARENA_VPP={}", plan.vpp),
        fmt::format("ARENA_CP={}", plan.cp),
        fmt::format("ARENA_EP={}", plan.ep),
        fmt::format("ARENA_PRECISION={}", to_string(request.model.precision)),
        fmt::format("ARENA_SEQ_LENGTH={}", request.model.seq_length),
        fmt::format("ARENA_KV_HEADS={}", facts_of(request.model).kv_heads),
        fmt::format("ARENA_LORA_RANK={}", request.model.lora_rank),
        fmt::format("ARENA_MODEL_FAMILY={}", to_string(request.model.family)),
        fmt::format("ARENA_LAUNCHER={}", launcher_of(request)),
        fmt::format("ARENA_GPU_TYPE={}", offer.grid.gpu_type),
        fmt::format("ARENA_PLAN={}", to_json(offer)),
    };
    if (plan.etp != 1) environment.push_back(fmt::format("ARENA_ETP={}", plan.etp));
    if (plan.schedule != Schedule::one_f_one_b)
        environment.push_back(fmt::format("ARENA_SCHEDULE={}", to_string(plan.schedule)));
    if (plan.hsdp != 0) environment.push_back(fmt::format("ARENA_HSDP={}", plan.hsdp));
    if (is_adapted(request.model)) {
        const PlanFacts facts = facts_of(request.model);
        environment.push_back("ARENA_LORA_TARGETS=" + lora_parts(facts));
        environment.push_back(fmt::format("ARENA_BASE_BITS={}", facts.base_bits));
    }
    if (std::string arguments = launcher_arguments(request, plan); !arguments.empty())
        environment.push_back("ARENA_ARGS=" + arguments);
    return environment;
}

std::vector<std::string> watch_environment(const Request& request, const Config& config) {
    const SlowdownMode mode = slowdown_of(request, config);
    if (mode == SlowdownMode::off) return {};
    std::vector<std::string> environment{
        fmt::format("ARENA_SLOWDOWN={}", to_string(mode)),
        fmt::format("ARENA_WATCH_POLL_S={}", config.slowdown_poll_s),
        fmt::format("ARENA_WATCH_THRESHOLD={}", config.slowdown_threshold),
        fmt::format("ARENA_WATCH_PRECHECK={}", config.slowdown_precheck ? 1 : 0),
        fmt::format("ARENA_WATCH_ELASTIC={}", request.elastic ? 1 : 0),
    };
    // Without one it runs unwatched, and is otherwise as any other job.
    if (const std::string key = new_nonce(); !key.empty())
        environment.push_back("ARENA_WATCH_KEY=" + key);
    return environment;
}

std::vector<std::string> leave_environment(const Request& request, const Config& config) {
    if (!request.elastic) return {};
    std::vector<std::string> environment{
        fmt::format("{}={}", leave_signal_variable, config.checkpoint_signal),
        fmt::format("ARENA_REQUEUE_CODE={}", config.requeue_exit_code)};
    if (request.inplace) environment.push_back(fmt::format("{}=0", plan_number_variable));
    return environment;
}

std::string given_entry(const std::vector<std::string>& environment, const Request& request) {
    std::vector<std::string> names{std::string(given_variable), std::string(state_variable),
                                   std::string(excludes_variable), std::string(segment_variable)};
    for (const std::string& entry : environment) names.push_back(entry.substr(0, entry.find('=')));
    const bool asked =
        request.mem_per_node_mb > 0 || request.mem_per_cpu_mb > 0 || request.whole_memory;
    if (!asked) names.emplace_back("SLURM_MEM_PER_NODE");
    return fmt::format("{}={}", given_variable, join(names, " "));
}

std::string admin_comment(std::string_view state, const Offer& offer) {
    return fmt::format("arena:v1 state={} {}", state,
                       advice_words(short_form(offer.grid), short_form(offer.plan),
                                    offer.estimate.iteration_s, offer.estimate.source));
}

std::string advice_entry(const Offer& offer) {
    return fmt::format("{}={}", advice_variable,
                       advice_words(short_form(offer.grid), short_form(offer.plan),
                                    offer.estimate.iteration_s, offer.estimate.source));
}

std::string system_comment(const std::vector<Offer>& offers, std::string_view unmeasured) {
    constexpr std::size_t longest = 1024, longest_note = 400;
    std::string note;
    if (!unmeasured.empty())
        note = fmt::format(" not measured: {}", unmeasured.substr(0, longest_note));
    std::string text = "arena offers:";
    for (const Offer& offer : std::span(offers).first(std::min(offers.size(), top_offers))) {
        const std::string part = fmt::format(
            " {} {} {} {};", short_form(offer.grid), short_form(offer.plan),
            short_seconds(offer.estimate.iteration_s), to_string(offer.estimate.source));
        if (text.size() + part.size() + note.size() > longest) break;
        text += part;
    }
    return text + note;
}

}  // namespace arena
