// SPDX-License-Identifier: GPL-2.0-or-later
// job_submit_arena.so: takes Arena jobs in (checked, normalised, held) and guards Arena's holds
// when jobs are updated. Only field copying and Slurm calls; the rules are in submit_rules and
// modify_rules. An ordinary job passes untouched, except that nobody may set ARENA_* in the control
// environment.
#include <pwd.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "core/limits.h"
#include "planner/hardware/hardware.h"
#include "plugin/common/job_mark.h"
#include "plugin/common/quick_estimate.h"
#include "plugin/common/shared.h"
#include "plugin/common/slurm_layout.h"
#include "plugin/common/slurm_text.h"
#include "plugin/job_submit/hard_limits.h"
#include "plugin/job_submit/modify_rules.h"
#include "plugin/job_submit/observe_rules.h"
#include "plugin/job_submit/option_rules.h"
#include "plugin/job_submit/submit_rules.h"
#include "plugin/job_submit/take_report.h"
#include "request/rendezvous.h"
#include "request/request.h"
#include "site/config.h"
#include "site/config_place.h"
#include "site/config_sum.h"
#include "site/gpu_facts.h"
#include "site/kept_config.h"

extern "C" {
extern const char plugin_name[] = "Arena job submit plug-in";
extern const char plugin_type[] = "job_submit/arena";
extern const std::uint32_t plugin_version = SLURM_VERSION_NUMBER;
}

namespace {

using arena::assign_text;
using arena::find_variable;
using arena::is_report;
using arena::record_of;
using arena::SubmitFacts;
using arena::text_of;
using arena::value_of;

/// What this plug-in knows of the site.
struct SubmitSite : arena::SiteFacts {
    std::vector<arena::ModelRule> rules;  ///< of what ordinary jobs train
};
using Site = std::shared_ptr<const SubmitSite>;

/// arena.yaml and the hardware as last read well, and what was wrong with them if they changed for
/// the worse. Asked by several submissions at a time: since 23.02 Slurm keeps them no longer apart.
class Context {
  public:
    /// What holds for one submission, however long that takes.
    arena::Result<Site> current();
    /// Slurm asks about updates one at a time: it holds its write lock of jobs.
    arena::ReportDesk reports;

  private:
    void refresh();
    std::mutex mutex_;
    Site site_;
    std::string problem_;
    struct stat seen_ {};
};
std::unique_ptr<Context> context;  // between init and fini

bool same_file(const struct stat& a, const struct stat& b) {
    return a.st_ino == b.st_ino && a.st_dev == b.st_dev && a.st_size == b.st_size &&
           a.st_mtim.tv_sec == b.st_mtim.tv_sec && a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
}

arena::Result<Site> read_site(arena::Result<arena::Config> config) {
    if (!config) return config.error();
    arena::Result<std::vector<arena::GpuType>> hardware =
        arena::load_hardware(config->hardware_file);
    if (!hardware) return hardware.error();
    arena::Result<std::vector<arena::ModelRule>> rules =
        arena::load_model_rules(config->observe_models);
    if (!rules) return rules.error();
    return std::make_shared<const SubmitSite>(
        SubmitSite{{std::move(*config), std::move(*hardware)}, std::move(*rules)});
}

/// As the scheduler kept it: this slurmctld has not read a good one.
arena::Result<Site> kept_site() {
    return read_site(arena::load_kept_config(
        arena::kept_config_directory(text_of(slurm_conf.state_save_location))));
}

/// Reads arena.yaml again when it changed; a bad new one leaves the old one in force.
void Context::refresh() {
    const std::string path = arena::config_path_beside(slurm_conf.slurm_conf);
    struct stat now {};
    if (::stat(path.c_str(), &now) == 0 && site_ && problem_.empty() && same_file(now, seen_))
        return;
    seen_ = now;
    arena::Result<Site> site = read_site(arena::load_config(path));
    const std::string why = site ? std::string() : site.error().message();
    if (!site && !site_) site = kept_site();
    if (site) site_ = std::move(*site);
    if (problem_ != why && !why.empty())
        error("arena: %s%s", arena::printable(why, 500).c_str(),
              site_ ? "; the configuration read before stays in force" : "");
    problem_ = why;
}

arena::Result<Site> Context::current() {
    const std::lock_guard lock(mutex_);
    refresh();
    if (!site_) return arena::environment_error("Arena has no configuration: " + problem_);
    return site_;
}

// ---- string arrays of Slurm's ------------------------------------------------------------------

/// Drops the entries for which `unwanted` holds; an array that becomes empty is freed, as if never
/// sent.
template <typename Unwanted>
void drop_entries(char**& list, std::uint32_t& count, Unwanted unwanted) {
    if (list == nullptr) return;
    std::uint32_t kept = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
        if (list[i] != nullptr && unwanted(std::string_view(list[i])))
            xfree(list[i]);
        else
            list[kept++] = list[i];
    }
    if (kept == count) return;
    for (std::uint32_t i = kept; i < count; ++i) list[i] = nullptr;  // envcount() walks to a null
    count = kept;
    if (kept == 0) xfree(list);
}

/// Leaves a null behind the last entry, as Slurm's own arrays have it.
void append_entry(char**& list, std::uint32_t& count, const std::string& entry) {
    xrecalloc(list, count + 2u, sizeof(char*));
    list[count++] = xstrdup(entry.c_str());
}

// ---- job description -> facts ------------------------------------------------------------------

std::string gpu_option(const job_desc_msg_t* job) {
    if (job->tres_per_job != nullptr) return "--gpus";
    if (job->tres_per_node != nullptr) return "--gres (or --gpus-per-node)";
    if (job->tres_per_socket != nullptr) return "--gpus-per-socket";
    if (arena::asks_for_gres(job->tres_per_task)) return "--gpus-per-task";
    return {};
}

bool shape_given(const job_desc_msg_t* job) {
    const auto given16 = [](std::uint16_t n) { return n != NO_VAL16 && n != 0; };
    const bool nodes = job->min_nodes != NO_VAL && job->min_nodes > 1;
    return nodes || (job->bitflags & JOB_NTASKS_SET) != 0 || given16(job->ntasks_per_node) ||
           given16(job->ntasks_per_socket) || given16(job->ntasks_per_core) ||
           given16(job->ntasks_per_tres);
}

/// This cluster's name, if others of its federation may start the job, too.
std::string offered_from(const job_desc_msg_t* job) {
    const std::string here = text_of(slurm_conf.cluster_name);
    return fed_mgr_fed_rec == nullptr || text_of(job->clusters) == here ? std::string() : here;
}

/// --mem, --mem-per-cpu or --mem=0.
void take_memory(const job_desc_msg_t* job, SubmitFacts& f) {
    if (job->pn_min_memory == NO_VAL64) return;
    constexpr std::uint64_t most = std::uint64_t{1} << 30;
    const bool per_cpu = (job->pn_min_memory & MEM_PER_CPU) != 0;
    const auto megabytes =
        static_cast<std::int64_t>(std::min<std::uint64_t>(job->pn_min_memory & ~MEM_PER_CPU, most));
    (per_cpu ? f.memory_per_cpu_mb : f.memory_per_node_mb) = megabytes;
    f.whole_memory = megabytes == 0;
}

SubmitFacts facts_of(const job_desc_msg_t* job) {
    SubmitFacts f;
    for (std::uint32_t i = 0; job->spank_job_env != nullptr && i < job->spank_job_env_size; ++i)
        if (const auto value = value_of(job->spank_job_env[i], arena::record_variable))
            f.records.emplace_back(*value);
        else if (const auto text = value_of(job->spank_job_env[i], arena::estimate_variable))
            f.estimate = *text;
    if (job->script != nullptr) f.script = job->script;
    f.interactive = job->script == nullptr;
    f.immediate = job->immediate == 1;
    f.het = job->het_job_offset != NO_VAL;
    f.array = job->array_inx != nullptr;
    f.cron = (job->bitflags & CRON_JOB) != 0;
    f.offered_from = offered_from(job);
    f.held = job->priority == 0;
    f.no_requeue = job->requeue == 0;
    f.node_list = job->req_nodes != nullptr;
    f.signal = job->warn_signal == NO_VAL16 ? 0 : job->warn_signal;
    f.shape_given = shape_given(job);
    take_memory(job, f);
    f.tmp_mb = job->pn_min_tmp_disk == NO_VAL ? 0 : job->pn_min_tmp_disk;
    f.limit_given = job->time_limit != NO_VAL || (job->time_min != NO_VAL && job->time_min != 0);
    f.comment = text_of(job->comment);
    f.priority_given = job->priority != NO_VAL && job->priority != INFINITE && job->priority != 0;
    f.gpu_option = gpu_option(job);
    f.cpus_per_tres = text_of(job->cpus_per_tres);
    f.mem_per_tres = text_of(job->mem_per_tres);
    f.cpus_per_task = job->cpus_per_task == NO_VAL16 ? 0 : job->cpus_per_task;
    return f;
}

/// sbatch itself asks for as many CPUs as the tasks of a node have; only more than that is
/// --mincpus.
bool asks_for_mincpus(const job_desc_msg_t* job) {
    const auto given = [](std::uint16_t n) {
        return n == NO_VAL16 || n == 0 ? 1 : static_cast<int>(n);
    };
    return given(job->pn_min_cpus) > given(job->cpus_per_task) * given(job->ntasks_per_node);
}

arena::OptionFacts options_of(const job_desc_msg_t* job) {
    return {.constraint = text_of(job->features),
            .prefer = text_of(job->prefer),
            .mincpus = asks_for_mincpus(job),
            .priority = job->priority != NO_VAL && job->priority != INFINITE && job->priority != 0};
}

// ---- node table -> facts -----------------------------------------------------------------------

/// As select_nodes() counts them: what the node is configured with.
arena::NodeFacts facts_of(const node_record_t* node) {
    const config_record_t* config = node->config_ptr;
    arena::NodeFacts facts;
    facts.gpus =
        arena::parse_gres_config(text_of(node->gres != nullptr ? node->gres : config->gres));
    facts.cpus = node->cpus_efctv != 0 ? node->cpus_efctv : config->cpus;
    facts.memory_mb = static_cast<std::int64_t>(config->real_memory - node->mem_spec_limit);
    facts.tmp_mb = config->tmp_disk;
    return facts;
}

/// The partitions of a comma list, or the default one. One that is not there is Slurm's to refuse,
/// in its words: nothing, and its error code.
std::vector<const part_record_t*> partitions_of(const char* list, int& rc, std::string& words) {
    std::vector<const part_record_t*> found;
    rc = SLURM_SUCCESS;
    const std::string names = text_of(list);
    for (std::string_view name : arena::split(names, ',')) {
        if (name.empty()) continue;
        const part_record_t* part = find_part_record(std::string(name).data());
        if (part == nullptr) {
            rc = ESLURM_INVALID_PARTITION_NAME;
            words = "invalid partition specified: " + arena::printable(name, 100);
            return {};
        }
        found.push_back(part);
    }
    if (list == nullptr && default_part_loc != nullptr) found.push_back(default_part_loc);
    if (found.empty()) rc = ESLURM_DEFAULT_PARTITION_NOT_SET;
    return found;
}

bool holds_node(const std::vector<const part_record_t*>& parts, int index) {
    return std::any_of(parts.begin(), parts.end(), [&](const part_record_t* part) {
        return part->node_bitmap != nullptr && index < bit_size(part->node_bitmap) &&
               bit_test(part->node_bitmap, index) != 0;
    });
}

std::string place_of(const std::vector<const part_record_t*>& parts) {
    std::vector<std::string> names;
    for (const part_record_t* part : parts)
        names.push_back(arena::printable(text_of(part->name), 40));
    return (names.size() == 1 ? "partition " : "partitions ") + arena::join(names, ",");
}

/// Our headers' idea of the record is this slurmctld's; an error in the log where it is not.
template <typename Record>
bool is_sound(const Record* record) {
    const std::string fault = arena::layout_fault(record);
    if (!fault.empty())
        error("%s", arena::layout_error(fault, "job_submit_arena.so",
                                        "submissions to Arena are refused, updates not looked at")
                        .c_str());
    return fault.empty();
}

/// False when our headers' idea of the node and partition records is not this slurmctld's.
bool read_cluster(const std::vector<const part_record_t*>& parts, arena::ClusterFacts& facts) {
    for (const part_record_t* part : parts)
        if (!is_sound(part)) return false;
    facts.place = place_of(parts);
    for (int i = 0; i < node_record_count; ++i) {
        const node_record_t* node = node_record_table_ptr[i];
        if (node == nullptr) continue;
        if (!is_sound(node) || node->config_ptr == nullptr) return false;
        arena::NodeFacts found = facts_of(node);
        for (const arena::NodeGpus& gpus : found.gpus)
            if (std::find(facts.types.begin(), facts.types.end(), gpus.type) == facts.types.end())
                facts.types.push_back(gpus.type);
        if (holds_node(parts, i)) facts.partition.push_back(std::move(found));
    }
    return true;
}

// ---- submit ------------------------------------------------------------------------------------

/// One node, one task, no GPU, held: Arena writes the shape before it starts the job. A held job
/// needs no GRES of its own, and Slurm 22.05 would merge one with what Arena writes later.
void normalise(job_desc_msg_t* job, bool elastic) {
    job->priority = 0;
    job->min_nodes = job->max_nodes = 1;
    job->num_tasks = 1;
    job->min_cpus = 1;
    job->max_cpus = NO_VAL;
    job->cpus_per_task = job->ntasks_per_node = job->ntasks_per_socket = NO_VAL16;
    job->ntasks_per_core = job->ntasks_per_tres = NO_VAL16;
    job->ntasks_per_board = 0;
    job->pn_min_cpus = NO_VAL16;
    job->bitflags &= ~static_cast<std::uint64_t>(JOB_NTASKS_SET);
    // An elastic job comes back from its checkpoints; whether others do is the site's JobRequeue.
    if (elastic && job->requeue != 0) job->requeue = 1;
    xfree(job->cpus_per_tres);
    xfree(job->mem_per_tres);
    xfree(job->tres_per_task);  // no GRES: see asks_for_gres()
}

void write_acceptance(job_desc_msg_t* job, const arena::Acceptance& accepted) {
    normalise(job, accepted.request.elastic);
    assign_text(&job->admin_comment, accepted.admin_comment);
    if (accepted.limit_minutes > 0)
        job->time_limit = static_cast<std::uint32_t>(accepted.limit_minutes);
    drop_entries(job->environment, job->env_size, arena::is_stale_variable);
    drop_entries(job->spank_job_env, job->spank_job_env_size, arena::is_arena_option_control);
    append_entry(job->spank_job_env, job->spank_job_env_size,
                 std::string(arena::record_variable) + "=" + accepted.record);
}

int refuse(const arena::Error& why, std::uint32_t uid, char** message) {
    const std::string text = "arena: " + arena::printable(why.message(), 1000);
    info("%s (uid=%u, job refused)", text.c_str(), uid);
    assign_text(message, text);
    return EINVAL;
}

constexpr const char* other_slurm =
    "job_submit/arena was built for another Slurm; tell the administrator";

/// What Slurm gives a job that names no limit: the partition's default, else its greatest.
std::int64_t limit_s_of(const job_desc_msg_t* job, const part_record_t* part) {
    std::uint32_t minutes = job->time_limit;
    if (minutes == NO_VAL) minutes = part->default_time;
    if (minutes == NO_VAL) minutes = part->max_time;
    return minutes == INFINITE || minutes == NO_VAL ? 0 : std::int64_t{60} * minutes;
}

std::int64_t least_limit_s(const job_desc_msg_t* job,
                           const std::vector<const part_record_t*>& parts) {
    std::int64_t least_s = 0;
    for (const part_record_t* part : parts)
        if (const std::int64_t limit_s = limit_s_of(job, part); limit_s > 0)
            least_s = least_s == 0 ? limit_s : std::min(least_s, limit_s);
    return least_s;
}

int take_in(job_desc_msg_t* job, arena::Request request, SubmitFacts facts, std::uint32_t uid,
            char** message) {
    const auto site = context->current();
    if (!site) return refuse(site.error(), uid, message);
    int rc = SLURM_SUCCESS;
    std::string words;
    const auto parts = partitions_of(job->partition, rc, words);
    if (rc != SLURM_SUCCESS) {
        assign_text(message, words);
        return rc;
    }
    if (const arena::Status options = arena::check_options(options_of(job)); !options)
        return refuse(options.error(), uid, message);
    arena::ClusterFacts cluster;
    if (!read_cluster(parts, cluster))
        return refuse(arena::environment_error(other_slurm), uid, message);
    facts.limit_s = least_limit_s(job, parts);
    facts.limits = arena::hard_limits(job, parts);
    facts.rendezvous =
        text_of(find_variable(job->environment, job->env_size, arena::rendezvous_variable));
    const auto accepted = arena::accept_request(std::move(request), facts, cluster, **site);
    if (!accepted) return refuse(accepted.error(), uid, message);
    if (const arena::Status lent =
            arena::check_lent(accepted->request, text_of(job->partition), (*site)->config);
        !lent)
        return refuse(lent.error(), uid, message);
    if (const auto lent =
            arena::partitions_with_lent(accepted->request, text_of(job->partition),
                                        text_of(parts.front()->name), (*site)->config))
        assign_text(&job->partition, *lent);
    write_acceptance(job, *accepted);
    if (!accepted->note.empty()) assign_text(message, accepted->note);
    arena::request_round();
    return SLURM_SUCCESS;
}

// ---- submit, while Arena only observes ----------------------------------------------------------

/// What the job asks Slurm for, on all its nodes: type and count of its GPUs; {"", 0} where that is
/// not said by node.
std::pair<std::string, std::int64_t> asked_gpus(const job_desc_msg_t* job) {
    std::string tres = text_of(job->tres_per_node);
    for (const std::string_view prefix : {"gres:", "gres/"})
        for (std::size_t at; (at = tres.find(prefix)) != std::string::npos;)
            tres.erase(at, prefix.size());
    const auto gpus = arena::parse_gres_config(tres);
    if (gpus.size() != 1) return {"", 0};
    const std::int64_t nodes = job->min_nodes == NO_VAL ? 1 : job->min_nodes;
    return {gpus.front().type, std::min(nodes * gpus.front().count, arena::limits::gpus)};
}

void ask_for(job_desc_msg_t* job, const arena::PlainRequest& plain) {
    assign_text(&job->tres_per_node, arena::gpu_request(plain.gpu_type, plain.gpus_per_node));
    job->min_nodes = job->max_nodes = static_cast<std::uint32_t>(plain.nodes);
    job->num_tasks = static_cast<std::uint32_t>(plain.nodes * plain.tasks_per_node);
    job->ntasks_per_node = static_cast<std::uint16_t>(plain.tasks_per_node);
    if (plain.cpus_per_task > 0)
        job->cpus_per_task = static_cast<std::uint16_t>(plain.cpus_per_task);
    const std::int64_t cpus = std::max<std::int64_t>(plain.cpus_per_task, 1);
    job->min_cpus = static_cast<std::uint32_t>(plain.nodes * plain.tasks_per_node * cpus);
    if (plain.memory_per_node_mb > 0 && job->pn_min_memory == NO_VAL64)
        job->pn_min_memory = static_cast<std::uint64_t>(plain.memory_per_node_mb);
}

/// The job goes on as Slurm has it, with the record beside it that the scheduler reads.
void write_observed(job_desc_msg_t* job, const SubmitFacts& facts,
                    const arena::Acceptance& accepted, char** message) {
    const auto estimate = arena::parse_estimate(facts.estimate);
    std::optional<arena::PlainRequest> filled;
    auto [type, gpus] = asked_gpus(job);
    if (facts.gpu_option.empty()) {
        filled = arena::plain_request(accepted.request, estimate);
        ask_for(job, *filled);
        type = filled->gpu_type;
        gpus = filled->nodes * filled->gpus_per_node;
    }
    assign_text(&job->admin_comment, accepted.admin_comment);
    drop_entries(job->environment, job->env_size, arena::is_other_jobs_variable);
    drop_entries(job->spank_job_env, job->spank_job_env_size, arena::is_arena_option_control);
    append_entry(job->spank_job_env, job->spank_job_env_size,
                 std::string(arena::record_variable) + "=" + accepted.record);
    const std::string words = arena::advice(estimate, type, gpus);
    if (!words.empty() && job->environment != nullptr)
        append_entry(job->environment, job->env_size,
                     std::string(arena::advice_variable) + "=" + words);
    assign_text(message, arena::observed_note(filled, words));
    arena::request_round();
}

/// What Slurm can do without Arena's word is Slurm's to do.
int refuse_observed(const arena::Error& why, const SubmitFacts& facts, std::uint32_t uid,
                    char** message) {
    if (facts.gpu_option.empty()) return refuse(why, uid, message);
    assign_text(message, arena::would_refuse_note(why.message()));
    return SLURM_SUCCESS;
}

int observe(job_desc_msg_t* job, arena::Result<std::optional<arena::Request>> request,
            SubmitFacts facts, const Site& site, std::uint32_t uid, char** message) {
    if (!request) return refuse_observed(request.error(), facts, uid, message);
    int rc = SLURM_SUCCESS;
    std::string words;
    const auto parts = partitions_of(job->partition, rc, words);
    if (rc != SLURM_SUCCESS) return SLURM_SUCCESS;  // Slurm's to refuse
    arena::ClusterFacts cluster;
    if (!read_cluster(parts, cluster)) return SLURM_SUCCESS;
    facts.limit_s = least_limit_s(job, parts);
    const auto accepted = arena::accept_request(std::move(**request), facts, cluster, *site);
    if (!accepted) return refuse_observed(accepted.error(), facts, uid, message);
    write_observed(job, facts, *accepted, message);
    return SLURM_SUCCESS;
}

std::string name_of(std::uint32_t uid) {
    passwd entry{}, *found = nullptr;
    std::array<char, 4096> buffer{};
    const int rc = ::getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found);
    return rc == 0 && found != nullptr ? found->pw_name : std::string();
}

/// An ordinary job: beside it stands what it seems to train.
void note_training(job_desc_msg_t* job, const SubmitFacts& facts, const SubmitSite& site) {
    const auto [type, gpus] = asked_gpus(job);
    if (gpus == 0 || facts.script.empty() || facts.het || facts.array) return;
    arena::RuledJob ruled{.user = {},
                          .account = text_of(job->account),
                          .partition = text_of(job->partition),
                          .name = text_of(job->name),
                          .gpus = gpus};
    const auto by_user = [](const arena::ModelRule& rule) { return !rule.user.empty(); };
    if (std::any_of(site.rules.begin(), site.rules.end(), by_user))
        ruled.user = name_of(job->user_id);
    const auto request = arena::seen_request(facts.script, site.rules, ruled);
    const auto record = request ? arena::format_record(*request) : arena::usage_error("");
    if (!record) return;
    append_entry(job->spank_job_env, job->spank_job_env_size,
                 std::string(arena::observed_variable) + "=" + *record);
    arena::request_round();
}

bool is_observed(const arena::Result<Site>& site) {
    return site && (*site)->config.enabled && arena::observes((*site)->config);
}

/// An ordinary job: nothing is asked of it but that it leaves lent nodes to those who can leave
/// them.
int let_pass(const job_desc_msg_t* job, std::uint32_t uid, char** message) {
    if (job->partition == nullptr) return SLURM_SUCCESS;
    const auto site = context->current();
    if (!site) return SLURM_SUCCESS;
    const arena::Status lent =
        arena::check_lent(std::nullopt, text_of(job->partition), (*site)->config);
    return lent ? SLURM_SUCCESS : refuse(lent.error(), uid, message);
}

/// No job: `arena doctor` of another host asks. Nothing for the log.
int tell_config_sum(char** message) {
    const auto sum = arena::config_sum(arena::config_path_beside(slurm_conf.slurm_conf));
    assign_text(message,
                std::string("arena: ") + (sum ? arena::config_sum_words + *sum
                                              : arena::printable(sum.error().message(), 500)));
    return EINVAL;
}

int submit(job_desc_msg_t* job, std::uint32_t uid, char** message) {
    const SubmitFacts facts = facts_of(job);
    if (facts.comment == arena::ask_config_sum) return tell_config_sum(message);
    arena::Result<std::optional<arena::Request>> request = arena::read_request(facts);
    // Whatever is to be there, Arena puts there itself.
    drop_entries(job->spank_job_env, job->spank_job_env_size, arena::is_arena_control);
    const bool is_arenas = !request || request->has_value();
    if (const auto site = context->current(); is_arenas && is_observed(site))
        return observe(job, std::move(request), facts, *site, uid, message);
    if (!request) return refuse(request.error(), uid, message);
    if (!request->has_value()) {
        if (const auto site = context->current(); is_observed(site))
            note_training(job, facts, **site);
        return let_pass(job, uid, message);
    }
    return take_in(job, std::move(**request), facts, uid, message);
}

// ---- modify ------------------------------------------------------------------------------------

arena::PriorityChange priority_change(const job_desc_msg_t* change) {
    if (change->priority == NO_VAL) return arena::PriorityChange::none;
    if (change->priority == INFINITE) return arena::PriorityChange::release;
    return change->priority == 0 ? arena::PriorityChange::hold : arena::PriorityChange::value;
}

bool changes_shape(const job_desc_msg_t* c) {
    return c->min_nodes != NO_VAL || c->max_nodes != NO_VAL || c->num_tasks != NO_VAL ||
           c->min_cpus != NO_VAL || c->max_cpus != NO_VAL || c->cpus_per_task != NO_VAL16 ||
           c->ntasks_per_node != NO_VAL16 || c->ntasks_per_socket != NO_VAL16 ||
           c->ntasks_per_core != NO_VAL16 ||
           c->ntasks_per_board != 0 ||  // Slurm's initial value, unlike the others'

           c->ntasks_per_tres != NO_VAL16 || c->pn_min_cpus != NO_VAL16 ||
           c->req_nodes != nullptr || c->tres_per_job != nullptr || c->tres_per_node != nullptr ||
           c->tres_per_socket != nullptr || c->tres_per_task != nullptr ||
           c->cpus_per_tres != nullptr || c->mem_per_tres != nullptr ||
           arena::chooses_numbers(text_of(c->features));
}

/// Comments that say nothing to Arena come and go.
bool changes_request(const job_desc_msg_t* change, const job_record_t* job) {
    constexpr std::string_view prefix = "arena:";
    const auto request = [&](const char* comment) {
        const std::string_view text = comment != nullptr ? comment : "";
        return text.starts_with(prefix) ? text : std::string_view();
    };
    return change->comment != nullptr && !is_report(change) &&
           request(change->comment) != request(job->comment);
}

bool asked_to_hold(const char* record) {
    const auto request = arena::parse_record(record);
    return request && request->user_hold;
}

/// job_modify is called before Slurm checks who asks; whoever may not is left for Slurm to refuse.
bool may_update(const job_record_t* job, std::uint32_t uid) {
    return uid == job->user_id || validate_operator(uid) ||
           arena::is_coordinator(uid, job->account);
}

arena::ModifyFacts facts_of(const job_desc_msg_t* change, const job_record_t* job,
                            std::uint32_t uid, const char* record) {
    arena::ModifyFacts f;
    f.priority = priority_change(change);
    f.user_hold_asked = change->alloc_sid == ALLOC_SID_USER_HOLD;
    f.by_operator = validate_operator(uid);
    f.nice_change = change->nice != NO_VAL && (f.by_operator || change->nice >= NICE_OFFSET);
    f.shape_change = changes_shape(change);
    f.request_change = changes_request(change, job);
    f.pending = IS_JOB_PENDING(job);
    f.held = job->priority == 0;
    f.restart = job->restart_cnt;
    f.now = static_cast<std::int64_t>(std::time(nullptr));
    if (const char* mark =
            find_variable(job->details->env_sup, job->details->env_cnt, arena::state_variable))
        f.mark = arena::parse_mark(mark);
    if (!f.mark) f.asked_to_hold = asked_to_hold(record);
    return f;
}

void write_mark(job_record_t* job, const arena::JobMark& mark) {
    arena::JobDetails* details = job->details;
    std::uint32_t count = details->env_cnt;
    drop_entries(details->env_sup, count, [](std::string_view entry) {
        return value_of(entry.data(), arena::state_variable).has_value();
    });
    append_entry(details->env_sup, count,
                 std::string(arena::state_variable) + "=" + arena::format_mark(mark));
    details->env_cnt = static_cast<std::uint16_t>(count);
}

void show_reason(job_record_t* job, arena::ShownReason reason) {
    if (reason == arena::ShownReason::keep) return;
    job->state_reason = reason == arena::ShownReason::user_hold ? WAIT_HELD_USER : WAIT_HELD;
    xfree(job->state_desc);
    if (reason != arena::ShownReason::arena) return;
    job->state_desc = xstrdup("Arena: waiting for a plan");
    arena::clear_state_flag(job, JOB_SPECIAL_EXIT);
    job->exit_code = 0;
}

/// As the scheduler holds its jobs: it stops gaining age, and keeps what it has.
void hold(job_record_t* job) {
    acct_policy_remove_accrue_time(job, false);
    job->direct_set_prio = 1;
    job->priority = 0;
}

int apply_decision(const arena::ModifyDecision& decision, job_desc_msg_t* change, job_record_t* job,
                   std::uint32_t uid) {
    if (!decision.what.empty())
        info("arena: JobId=%u %s (uid=%u)", job->job_id, decision.what.c_str(), uid);
    if (decision.refusal == arena::Refusal::shape) return ESLURM_DISABLED;
    if (decision.refusal == arena::Refusal::not_permitted) return ESLURM_ACCESS_DENIED;
    if (decision.refusal == arena::Refusal::later_version) return ESLURM_DISABLED;
    if (decision.mark) write_mark(job, *decision.mark);
    show_reason(job, decision.reason);
    if (decision.drop_priority) change->priority = NO_VAL;
    if (decision.take_back) hold(job);
    if (decision.take_nice) job->details->nice = std::exchange(change->nice, NO_VAL);
    last_job_update = std::time(nullptr);
    arena::request_round();
    return SLURM_SUCCESS;
}

int take_report(job_desc_msg_t* change, job_record_t* job, std::uint32_t uid) {
    const auto site = context->current();
    return arena::take_report(context->reports, site ? &(*site)->config : nullptr, change, job,
                              uid);
}

/// Puts a Comment that asks something of Arena into the job's record, where it stays when another
/// Comment follows. One that asks what cannot be is refused: the sentence for it, else "".
std::string take_comment(const job_desc_msg_t* change, const job_record_t* job, const char* record,
                         std::string& changed) {
    const auto site = context->current();
    if (!site) return site.error().message();
    int rc = SLURM_SUCCESS;
    std::string words;
    const auto parts =
        partitions_of(change->partition != nullptr ? change->partition : job->partition, rc, words);
    arena::ClusterFacts cluster;
    if (rc != SLURM_SUCCESS) return {};  // another part of this update: Slurm refuses it all
    if (!read_cluster(parts, cluster)) return other_slurm;
    const auto asked = arena::change_record(record, change->comment, job->details->pn_min_tmp_disk,
                                            cluster, **site);
    if (!asked) return asked.error().message();
    changed = asked->value_or("");
    return {};
}

void write_record(job_record_t* job, const std::string& record) {
    const std::string entry = std::string(arena::record_variable) + "=" + record;
    for (std::uint32_t i = 0; i < job->spank_job_env_size; ++i)
        if (value_of(job->spank_job_env[i], arena::record_variable))
            assign_text(&job->spank_job_env[i], entry);
}

/// Where Slurm has a way to the user's terminal for it (see ARENA_JOB_MODIFY).
void tell(char** message, const std::string& why) {
    if (message != nullptr) assign_text(message, "arena: " + arena::printable(why, 1000));
}

/// An update of 22.05 has no channel for words: they are left where the user looks next.
int refuse_comment(job_record_t* job, std::uint32_t uid, const std::string& why) {
    const std::string text = arena::printable(why, 1000);
    info("arena: JobId=%u %s (uid=%u, update refused)", job->job_id, text.c_str(), uid);
    arena::leave_update({job->job_id, text});
    arena::request_round();
    return EINVAL;
}

bool asks_arena(const job_desc_msg_t* change) {
    return change->comment != nullptr &&
           std::string_view(change->comment).starts_with(arena::comment_prefix);
}

/// Whether the update puts a job among lent nodes that has no business there.
bool moves_among_lent(const job_desc_msg_t* change, const char* record, char** message) {
    if (change->partition == nullptr) return false;
    const auto site = context->current();
    if (!site) return false;
    std::optional<arena::Request> request;
    if (record != nullptr)
        if (auto parsed = arena::parse_record(record)) request = std::move(*parsed);
    const arena::Status lent =
        arena::check_lent(request, text_of(change->partition), (*site)->config);
    if (lent) return false;
    tell(message, lent.error().message());
    return true;
}

/// No hold and no plan of Arena's. What an acting Arena left held needs GPUs before it may start.
bool is_slurms(const arena::ModifyFacts& facts) {
    if (!facts.mark) return true;
    return !facts.mark->newer &&
           (facts.mark->phase == arena::Phase::observed || facts.mark->phase == arena::Phase::off);
}

/// Slurm's to decide; what is told or asked of Arena is taken.
int modify_observed(job_desc_msg_t* change, job_record_t* job, const char* record,
                    std::uint32_t uid, char** message) {
    if (is_report(change)) return take_report(change, job, uid);
    if (!asks_arena(change)) return SLURM_SUCCESS;
    std::string changed;
    if (const std::string why = take_comment(change, job, record, changed); !why.empty()) {
        tell(message, why);
        return refuse_comment(job, uid, why);
    }
    if (!changed.empty()) write_record(job, changed);
    arena::leave_update({job->job_id, {}});
    arena::request_round();
    return SLURM_SUCCESS;
}

int modify(job_desc_msg_t* change, job_record_t* job, std::uint32_t uid, char** message) {
    if (arena::own_call() || !is_sound(job)) return SLURM_SUCCESS;
    const char* record = record_of(job);
    if (moves_among_lent(change, record, message)) return ESLURM_INVALID_PARTITION_NAME;
    if (record == nullptr || IS_JOB_FINISHED(job) || !may_update(job, uid))
        return is_report(change) ? take_report(change, job, uid) : SLURM_SUCCESS;
    const auto facts = facts_of(change, job, uid, record);
    if (is_slurms(facts) && is_observed(context->current()))
        return modify_observed(change, job, record, uid, message);
    // Beside a report, the same rules hold as without; of a refused update nothing is taken.
    const auto decision = arena::decide_modify(facts);
    const bool taken = decision.refusal == arena::Refusal::none;
    if (taken && is_report(change))
        if (const int rc = take_report(change, job, uid); rc != SLURM_SUCCESS) return rc;
    const bool left_alone =
        facts.mark && (facts.mark->newer || facts.mark->phase == arena::Phase::off);
    if (taken && asks_arena(change) && !left_alone) {
        std::string changed;
        if (const std::string why = take_comment(change, job, record, changed); !why.empty()) {
            tell(message, why);
            return refuse_comment(job, uid, why);
        }
        if (!changed.empty()) write_record(job, changed);
    }
    if (taken)
        arena::leave_update({job->job_id, {}});
    else
        tell(message, decision.what);
    return apply_decision(decision, change, job, uid);
}

int guarded_modify(job_desc_msg_t* change, job_record_t* job, std::uint32_t uid,
                   char** message) noexcept {
    try {
        return modify(change, job, uid, message);
    } catch (const std::exception& e) {
        error("arena: update by uid=%u not handled: %s", uid, e.what());
        return SLURM_ERROR;
    }
}

}  // namespace

extern "C" {

int init(void) noexcept {
    try {
        context = std::make_unique<Context>();
        (void)context->current();
    } catch (const std::exception& e) {
        error("arena: job_submit/arena does not start: %s", e.what());
        return SLURM_ERROR;
    }
    return SLURM_SUCCESS;
}

int fini(void) noexcept {
    context.reset();
    return SLURM_SUCCESS;
}

int job_submit(job_desc_msg_t* job, std::uint32_t uid, char** message) noexcept {
    try {
        return submit(job, uid, message);
    } catch (const std::exception& e) {
        error("arena: submission by uid=%u not handled: %s", uid, e.what());
        return SLURM_ERROR;
    }
}

ARENA_JOB_MODIFY(guarded_modify)

}  // extern "C"
