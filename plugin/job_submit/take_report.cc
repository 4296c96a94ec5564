// SPDX-License-Identifier: GPL-2.0-or-later
// See take_report.h. Field copying and Slurm calls; the rules are in modify_rules.
#include "plugin/job_submit/take_report.h"

#include <cerrno>
#include <chrono>
#include <ctime>
#include <optional>
#include <string>
#include <utility>

#include "base/text.h"
#include "planner/requests/cluster_rules.h"
#include "plugin/common/job_mark.h"
#include "plugin/common/shared.h"
#include "plugin/common/slurm_layout.h"
#include "plugin/common/slurm_text.h"
#include "plugin/job_submit/modify_rules.h"
#include "reports/next_plan.h"

namespace arena {
namespace {

struct Sender {
    ReportDesk& desk;
    const Config* config;
    const job_desc_msg_t* change;
    job_record_t* job;
    std::uint32_t uid;
};

/// By a clock that nobody sets.
double steady_s() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

int refuse(const Sender& from, int code, const std::string& why) {
    info("arena: JobId=%u report refused: %s (uid=%u)", from.job->job_id, why.c_str(), from.uid);
    return code;
}

/// What strangers send without end costs no line, and takes no turn from the job's user.
int refuse_stranger(const Sender& from, double now_s) {
    if (!from.desk.lines.has_one(now_s)) return ESLURM_ACCESS_DENIED;
    from.desk.lines.take_one(now_s);
    return refuse(from, ESLURM_ACCESS_DENIED, "not its user's");
}

const char* variable(const job_record_t* job, std::string_view name) {
    return find_variable(job->details->env_sup, job->details->env_cnt, name);
}

std::optional<Offer> plan_of(const job_record_t* job) {
    const char* plan = variable(job, "ARENA_PLAN");
    if (plan == nullptr) return std::nullopt;
    auto offer = parse_offer_json(plan);
    return offer ? std::optional(std::move(*offer)) : std::nullopt;
}

std::optional<JobMark> mark_of(const job_record_t* job) {
    const char* mark = variable(job, state_variable);
    return mark != nullptr ? parse_mark(mark) : std::nullopt;
}

// ---- iteration times ---------------------------------------------------------------------------

int take_iteration_times(const Sender& from) {
    const job_record_t* job = from.job;
    const double now_s = steady_s();
    if (from.uid != job->user_id && !validate_operator(from.uid))
        return refuse_stranger(from, now_s);
    if (!from.desk.times.take(job->job_id, job->user_id, now_s)) return EAGAIN;
    const auto report = parse_report(from.change->comment);
    if (!report) return refuse(from, ESLURM_NOT_SUPPORTED, report.error().message());
    const char* record = record_of(job);
    if (record == nullptr) return refuse(from, ESLURM_JOB_NOT_RUNNING, "not a job of Arena's");
    const std::optional<Offer> offer = plan_of(job);
    const auto ran_s = IS_JOB_RUNNING(job)
                           ? std::optional(difftime(std::time(nullptr), job->start_time))
                           : std::nullopt;
    const std::string why = refuse_report(*report, offer, mark_of(job), ran_s);
    if (!why.empty())
        return refuse(from, offer ? ESLURM_NOT_SUPPORTED : ESLURM_JOB_NOT_RUNNING, why);
    leave_report({job->job_id, record, variable(job, "ARENA_PLAN"), *report, job->user_id});
    return SLURM_SUCCESS;
}

// ---- slow GPUs and links -----------------------------------------------------------------------

/// The GPUs that one of the job's nodes is configured with; nothing: it has no such node.
std::optional<std::int64_t> gpus_of(const job_record_t* job, const std::string& name) {
    node_record_t* node =
        name.empty() ? nullptr : find_node_record(const_cast<char*>(name.c_str()));
    if (node == nullptr || !layout_fault(node).empty() || job->node_bitmap == nullptr)
        return std::nullopt;
    const auto index = static_cast<bitoff_t>(node->index);
    if (index >= bit_size(job->node_bitmap) || bit_test(job->node_bitmap, index) == 0)
        return std::nullopt;
    std::int64_t count = 0;
    const char* gres = node->gres != nullptr ? node->gres : node->config_ptr->gres;
    for (const NodeGpus& gpus : parse_gres_config(text_of(gres))) count += gpus.count;
    return count;
}

struct OwnGpu {
    std::int32_t node;   ///< among the job's
    std::int64_t index;  ///< on it
    bool is_known = false, is_own = false;
};

/// Where Slurm does not keep which of a node's GPUs a job has, nothing is known.
int look_for_gpu(void* item, void* argument) {
    const auto* gres = static_cast<const gres_state_t*>(item);
    auto* wanted = static_cast<OwnGpu*>(argument);
    const auto* job = static_cast<const gres_job_state_t*>(gres->gres_data);
    const bool has_bits = text_of(gres->gres_name) == "gpu" && job != nullptr &&
                          job->gres_bit_alloc != nullptr &&
                          wanted->node < static_cast<std::int32_t>(job->node_cnt);
    bitstr_t* own = has_bits ? job->gres_bit_alloc[wanted->node] : nullptr;
    if (own == nullptr) return 0;
    wanted->is_known = true;
    wanted->is_own |= wanted->index < bit_size(own) && bit_test(own, wanted->index) != 0;
    return 0;
}

/// Of a place on one of the job's nodes.
bool is_own_gpu(const job_record_t* job, const SlowPlace& place) {
    const node_record_t* node = find_node_record(const_cast<char*>(place.node.c_str()));
    if (place.gpu == any_gpu || node == nullptr || job->gres_list_alloc == nullptr) return true;
    OwnGpu gpu{.node = bit_set_count_range(job->node_bitmap, 0, static_cast<int>(node->index)),
               .index = place.gpu};
    list_for_each_ro(job->gres_list_alloc, look_for_gpu, &gpu);
    return gpu.is_own || !gpu.is_known;
}

bool is_admin(std::uint32_t uid) { return uid == 0 || uid == slurm_conf.slurm_user_id; }

bool is_by_admin(const Sender& from) { return is_admin(from.uid) || is_admin(from.job->user_id); }

WatchedJob watched(const Sender& from, const SlowReport& report, bool has_plan) {
    const job_record_t* job = from.job;
    const auto request = parse_record(record_of(job));
    const auto mark = mark_of(job);
    const bool ours = mark && !mark->newer && mark->restart == job->restart_cnt &&
                      (mark->phase == Phase::started || mark->phase == Phase::checkpointing);
    const auto gpus_at = gpus_of(job, report.at.node),
               gpus_of_peer = gpus_of(job, report.peer.node);
    return {.mode = request ? slowdown_of(*request, *from.config) : SlowdownMode::off,
            .runs = IS_JOB_RUNNING(job) && ours && has_plan,
            .life = job->restart_cnt,
            .start = job->start_time,
            .now = std::time(nullptr),
            .gpus_at = gpus_at,
            .gpus_of_peer = gpus_of_peer,
            .owns_at = !gpus_at || is_own_gpu(job, report.at),
            .owns_peer = !gpus_of_peer || is_own_gpu(job, report.peer),
            .by_admin = is_by_admin(from)};
}

bool is_its_user(const Sender& from) { return from.uid == from.job->user_id || is_admin(from.uid); }

/// What is sent without end costs no line and no parsing.
int take_slowdown(const Sender& from) {
    const double now_s = steady_s();
    if (!is_its_user(from)) {
        count_slow_reports({.refused = 1});
        return refuse_stranger(from, now_s);
    }
    if (!from.desk.slow.take(from.job->job_id, from.job->user_id, now_s)) {
        count_slow_reports({.over_rate = 1});
        return EAGAIN;
    }
    const auto refused = [&](int code, const std::string& why) {
        count_slow_reports({.refused = 1});
        return refuse(from, code, why);
    };
    const auto report = parse_slowdown_report(from.change->comment);
    if (!report) return refused(ESLURM_NOT_SUPPORTED, report.error().message());
    if (record_of(from.job) == nullptr || from.config == nullptr)
        return refused(ESLURM_JOB_NOT_RUNNING, "not a job of Arena's");
    const std::optional<Offer> offer = plan_of(from.job);
    const WatchedJob job = watched(from, *report, offer.has_value());
    if (const std::string why = refuse_slow_report(*report, job); !why.empty())
        return refused(job.runs ? ESLURM_NOT_SUPPORTED : ESLURM_JOB_NOT_RUNNING, why);
    const bool left = leave_slow_report({.job = from.job->job_id,
                                         .user = from.job->user_id,
                                         .gpus = offer->grid.gpus(),
                                         .report = *report,
                                         .voice = job.by_admin ? 0 : from.job->user_id});
    count_slow_reports({.taken = left, .over_rate = !left});
    return left ? SLURM_SUCCESS : EAGAIN;
}

// ---- the next plan -----------------------------------------------------------------------------

/// The plan of a job as the script's next step needs it: what sbatch and Arena would have put into
/// the environment of a job of this shape.
NextAnswer answer_of(const job_record_t* job, const std::string& id) {
    NextAnswer answer{.id = id, .variables = {}};
    const JobDetails* details = job->details;
    for (std::uint32_t i = 0; i < details->env_cnt; ++i) {
        const std::string_view entry = details->env_sup[i];
        const std::string_view name = entry.substr(0, entry.find('='));
        const bool hidden = name == state_variable || name.ends_with("_KEY") ||
                            name == excludes_variable || name == segment_variable;
        if (!hidden && (name.starts_with("ARENA_") || name.starts_with("SLURM_")))
            answer.variables.emplace_back(name, entry.substr(name.size() + 1));
    }
    const auto add = [&](const char* name, const char* other, const std::string& value) {
        answer.variables.emplace_back(name, value);
        if (other != nullptr) answer.variables.emplace_back(other, value);
    };
    const std::string nodes = std::to_string(job->node_cnt);
    add("SLURM_JOB_NODELIST", "SLURM_NODELIST", text_of(job->nodes));
    add("SLURM_JOB_NUM_NODES", "SLURM_NNODES", nodes);
    add("SLURM_NTASKS", "SLURM_NPROCS", std::to_string(details->num_tasks));
    const auto times = [](std::uint32_t value, std::uint32_t count) {
        return std::to_string(value) + (count > 1 ? "(x" + std::to_string(count) + ")" : "");
    };
    add("SLURM_TASKS_PER_NODE", nullptr, times(details->ntasks_per_node, job->node_cnt));
    const job_resources_t* held = job->job_resrcs;
    std::vector<std::string> cpus;
    for (std::uint32_t i = 0; held != nullptr && i < held->cpu_array_cnt; ++i)
        cpus.push_back(times(held->cpu_array_value[i], held->cpu_array_reps[i]));
    if (!cpus.empty()) add("SLURM_JOB_CPUS_PER_NODE", nullptr, join(cpus, ","));
    return answer;
}

/// Steps whose end slurmctld had heard, and not saved, when it was killed: they would keep their
/// GPUs from the job's next ones. Their script says that they are over.
void end_lost_steps(job_record_t* job) {
    struct Lost {
        std::vector<step_record_t*> steps;
    } lost;
    if (job->step_list == nullptr) return;
    list_for_each(
        job->step_list,
        [](void* item, void* argument) {
            auto* step = static_cast<step_record_t*>(item);
            if (step->step_id.step_id < SLURM_MAX_NORMAL_STEP_ID &&
                step->start_time < slurmctld_config.boot_time && step->step_node_bitmap != nullptr)
                static_cast<Lost*>(argument)->steps.push_back(step);
            return 0;
        },
        &lost);
    for (step_record_t* step : lost.steps) {
        step_complete_msg_t end{};
        end.step_id = step->step_id;
        end.range_last = static_cast<std::uint32_t>(bit_set_count(step->step_node_bitmap) - 1);
        info("arena: JobId=%u step %u is over: its script says so", job->job_id,
             step->step_id.step_id);
        int left = 0;
        std::uint32_t worst = 0;
        (void)step_partial_comp(&end, slurm_conf.slurm_user_id, true, &left, &worst);
    }
}

/// Asked again by whom slurmctld forgot, as often as it likes: the same answer each time.
int take_ask(const Sender& from) {
    job_record_t* job = from.job;
    const double now_s = steady_s();
    if (!is_its_user(from)) return refuse_stranger(from, now_s);
    if (!from.desk.asks.take(job->job_id, job->user_id, now_s)) return EAGAIN;
    const auto ask = parse_next_ask(from.change->comment);
    if (!ask) return refuse(from, ESLURM_NOT_SUPPORTED, ask.error().message());
    const char* record = record_of(job);
    const auto request = record != nullptr ? parse_record(record) : Result<Request>(Request{});
    if (record == nullptr || !request || !request->inplace)
        return refuse(from, ESLURM_NOT_SUPPORTED, "it is not --arena-elastic=inplace");
    auto mark = mark_of(job);
    const bool runs = IS_JOB_RUNNING(job) && !IS_JOB_COMPLETING(job) && mark && !mark->newer &&
                      mark->restart == job->restart_cnt && ask->life == job->restart_cnt;
    if (!runs) return refuse(from, ESLURM_JOB_NOT_RUNNING, "of no life of the job that runs");
    end_lost_steps(job);
    if (mark->phase == Phase::started) {
        if (has_unsaved_plan(job->job_id)) return SLURM_SUCCESS;
        assign_text(&job->system_comment, format_next_answer(answer_of(job, ask->id)));
        last_job_update = std::time(nullptr);
        return SLURM_SUCCESS;
    }
    if (mark->phase != Phase::checkpointing || variable(job, next_plan_variable) == nullptr)
        return refuse(from, ESLURM_NOT_SUPPORTED, "it is to leave its nodes");
    mark->asks = true;
    for (std::uint32_t i = 0; i < job->details->env_cnt; ++i)
        if (value_of(job->details->env_sup[i], state_variable))
            assign_text(&job->details->env_sup[i],
                        std::string(state_variable) + "=" + format_mark(*mark));
    return SLURM_SUCCESS;
}

// ---- the table ---------------------------------------------------------------------------------

struct ReportWord {
    std::string_view prefix;
    int (*take)(const Sender&);
};
constexpr ReportWord report_words[] = {
    {report_prefix, take_iteration_times},
    {slow_report_prefix, take_slowdown},
    {ask_prefix, take_ask},
};

const ReportWord* word_of(const job_desc_msg_t* change) {
    if (change->comment == nullptr) return nullptr;
    for (const ReportWord& word : report_words)
        if (std::string_view(change->comment).starts_with(word.prefix)) return &word;
    return nullptr;
}

}  // namespace

const char* record_of(const job_record_t* job) {
    if (job->details == nullptr) return nullptr;
    return find_variable(job->spank_job_env, job->spank_job_env_size, record_variable);
}

bool is_report(const job_desc_msg_t* change) { return word_of(change) != nullptr; }

int take_report(ReportDesk& desk, const Config* config, job_desc_msg_t* change, job_record_t* job,
                std::uint32_t uid) {
    const int rc = word_of(change)->take(
        {.desk = desk, .config = config, .change = change, .job = job, .uid = uid});
    if (rc != SLURM_SUCCESS) return rc;
    xfree(change->comment);
    request_round();
    return SLURM_SUCCESS;
}

}  // namespace arena
