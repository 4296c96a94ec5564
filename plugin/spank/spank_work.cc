// SPDX-License-Identifier: GPL-2.0-or-later
// libarena_spank.so, behind spank_arena.so (spank_work.h). In sbatch and salloc, running as the
// user, it turns the --arena-* options into one request record in the job's control environment. In
// the steps of an Arena job, as the user, it adds what ranks read (ranks.h), and has those of a
// watched job watched (watch.h). Only field copying and Slurm calls live here.
#include "plugin/spank/spank_work.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "base/text.h"
#include "installed_paths.h"
#include "ipc/child.h"
#include "plugin/common/given.h"
#include "plugin/common/quick_estimate.h"
#include "plugin/spank/controller.h"
#include "plugin/spank/given.h"
#include "plugin/spank/preview.h"
#include "plugin/spank/ranks.h"
#include "plugin/spank/spank_options.h"
#include "plugin/spank/watch.h"
#include "request/options.h"
#include "request/rendezvous.h"
#include "site/gpu_facts.h"

extern "C" {
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
}

namespace {

using arena::OptionSet;
using arena::OptionSource;

/// The memory of this process' arguments: a value that points into it came from the command line.
struct ArgumentArea {
    std::uintptr_t begin = 0, end = 0;
    [[nodiscard]] bool holds(const char* text) const {
        const auto at = reinterpret_cast<std::uintptr_t>(text);
        return at >= begin && at < end;
    }
};

/// arg_start and arg_end, fields 48 and 49 of /proc/self/stat; an empty area where unreadable, so
/// that every option counts as given in one place.
ArgumentArea find_argument_area() {
    std::ifstream file("/proc/self/stat");
    std::stringstream text;
    text << file.rdbuf();
    const std::string line = text.str();
    const auto name_end = line.rfind(')');
    if (name_end == std::string::npos) return {};
    std::istringstream fields(line.substr(name_end + 1));
    std::string skipped;
    for (int field = 3; field < 48; ++field) fields >> skipped;
    ArgumentArea area;
    fields >> area.begin >> area.end;
    return fields ? area : ArgumentArea{};
}

struct Context {
    OptionSet options;
    ArgumentArea arguments = find_argument_area();
};
std::unique_ptr<Context> context;  // from the first option on

/// As Slurm forms it: prefix, plug-in, option, everything but letters and digits as '_'.
std::string option_variable(std::string_view key) {
    std::string name = "_SLURM_SPANK_OPTION_arena_arena_" + std::string(key);
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
}

OptionSource source_of(std::string_view key, const char* value) {
    if (context->arguments.holds(value)) return OptionSource::command_line;
    const std::string inherited = "SLURM_SPANK_" + option_variable(key);
    return value == std::getenv(inherited.c_str()) ? OptionSource::environment
                                                   : OptionSource::script;
}

/// A job that is made from inside one of Arena's has nothing of that one. Before Slurm reads its
/// own options from the environment: the memory of Arena's shape would be one.
void leave_job() {
    const char* given = std::getenv(arena::given_variable.data());
    if (given == nullptr) return;
    const char* preload = std::getenv("LD_PRELOAD");
    for (const auto& [name, value] : arena::taken_back(given, preload != nullptr ? preload : ""))
        value ? setenv(name.c_str(), value->c_str(), 1) : unsetenv(name.c_str());
}

/// Our options must not reach jobs that are submitted from inside this one.
void forget_options(spank_t spank) {
    for (const arena::Option& option : arena::options()) {
        const std::string name = option_variable(option.key);
        unsetenv(name.c_str());
        spank_job_control_unsetenv(spank, name.c_str());
    }
}

/// Slurm would add a second line and, for an optional plug-in, submit the job all the same.
[[noreturn]] void refuse(const arena::Error& error) {
    slurm_error("arena: %s", arena::printable(error.message(), 1000).c_str());
    const char* wanted = std::getenv("SLURM_EXIT_ERROR");
    const int code = wanted == nullptr ? 0 : std::atoi(wanted);
    std::exit(code == 0 ? 1 : code);
}

/// After what is wrong with the request itself, which costs slurmctld nothing.
void need_arena_in_controller() {
    const auto facts = arena::ask_controller();
    if (!facts) refuse(facts.error());
    if (const arena::Status status = arena::check_controller(*facts); !status)
        refuse(status.error());
}

/// The GPUs of each node of the cluster; none where slurmctld does not say.
std::vector<arena::NodeGpus> cluster_gpus() {
    node_info_msg_t* nodes = nullptr;
    std::vector<arena::NodeGpus> found;
    if (slurm_load_node(0, &nodes, SHOW_ALL) != SLURM_SUCCESS || nodes == nullptr) return found;
    for (std::uint32_t i = 0; i < nodes->record_count; ++i) {
        const char* gres = nodes->node_array[i].gres;
        for (arena::NodeGpus& gpus : arena::parse_gres_config(gres != nullptr ? gres : ""))
            found.push_back(std::move(gpus));
    }
    slurm_free_node_info_msg(nodes);
    return found;
}

/// For the line that job_submit/arena answers with. Whatever is in the way of it, the line says
/// less then, and the job is submitted.
void hand_on_preview(spank_t spank, const arena::Request& request) noexcept {
    try {
        constexpr std::chrono::milliseconds limit{300};
        const std::string text =
            arena::preview(arena::preview_queries(request, cluster_gpus()), limit);
        if (!text.empty())
            (void)spank_job_control_setenv(spank, arena::estimate_variable.data(), text.c_str(), 1);
    } catch (const std::exception&) {
    }
}

void hand_on_record(spank_t spank) {
    const arena::Result<arena::Request> request =
        arena::make_request(context->options, geteuid() == 0);
    if (!request) refuse(request.error());
    const arena::Result<std::string> record = arena::format_record(*request);
    if (!record) refuse(record.error());
    need_arena_in_controller();
    hand_on_preview(spank, *request);
    if (spank_job_control_setenv(spank, arena::record_variable.data(), record->c_str(), 1) !=
        ESPANK_SUCCESS)
        refuse(arena::environment_error(
            fmt::format("{} did not take the request record", program_invocation_short_name)));
}

void say_ordinary() {
    slurm_info(
        "arena: --arena-* options are for sbatch and salloc; this job of srun's is an ordinary "
        "one");
}

void process_options(spank_t spank, spank_context_t where) {
    if (context->options.empty()) return;
    forget_options(spank);
    if (where == S_CTX_ALLOCATOR)  // sbatch, salloc
        hand_on_record(spank);
    else if (std::getenv("SLURM_JOB_ID") == nullptr)
        say_ordinary();
}

/// "" where the task's environment does not have it.
std::string task_variable(spank_t spank, const char* name) {
    char value[64 * 1024];
    return spank_getenv(spank, name, value, sizeof value) == ESPANK_SUCCESS ? value : "";
}

template <typename T>
bool get(spank_t spank, spank_item_t item, std::int64_t& out) {
    T value{};
    if (spank_get_item(spank, item, &value) != ESPANK_SUCCESS) return false;
    out = static_cast<std::int64_t>(value);
    return true;
}

/// NodeAddr, as slurmctld has it now; "" where it does not say.
std::string address_of_node(const std::string& node) {
    node_info_msg_t* found = nullptr;
    std::string name = node, address;
    if (slurm_load_node_single(&found, name.data(), SHOW_ALL) != SLURM_SUCCESS || found == nullptr)
        return {};
    if (found->record_count == 1 && found->node_array[0].node_addr != nullptr)
        address = found->node_array[0].node_addr;
    slurm_free_node_info_msg(found);
    return address;
}

/// So that a job that is made from inside the task starts without them.
void note_given(spank_t spank, const std::vector<std::string_view>& names) {
    if (names.empty()) return;
    const std::string given =
        arena::given_also(task_variable(spank, arena::given_variable.data()), names);
    (void)spank_setenv(spank, arena::given_variable.data(), given.c_str(), 1);
}

/// MASTER_ADDR of all tasks that this node has of a step, before they are forked off: a resolver
/// is asked, and where it does not know, slurmctld. What the user set stays.
void set_meeting_place(spank_t spank) {
    std::int64_t step = 0;
    if (!get<std::uint32_t>(spank, S_JOB_STEPID, step) || step > SLURM_MAX_NORMAL_STEP_ID ||
        !arena::starts_ranks(task_variable(spank, "ARENA_LAUNCHER")) ||
        !task_variable(spank, "MASTER_ADDR").empty())
        return;
    const std::string wanted = task_variable(spank, arena::rendezvous_variable.data());
    const auto host = arena::rendezvous_host(wanted, task_variable(spank, "SLURM_STEP_NODELIST"),
                                             {arena::resolves_soon, address_of_node});
    if (!host)
        return slurm_error("arena: MASTER_ADDR is not set: %s", host.error().message().c_str());
    if (host->empty()) return;
    (void)spank_setenv(spank, "MASTER_ADDR", host->c_str(), 0);
    note_given(spank, {"MASTER_ADDR"});
}

/// Ranks of a step that srun started in a job of Arena's. The batch script and Slurm's own steps
/// have none.
void set_rank_variables(spank_t spank) {
    arena::StepTask task;
    task.launcher = task_variable(spank, "ARENA_LAUNCHER");
    if (task.launcher.empty()) return;
    const bool known = get<std::uint32_t>(spank, S_JOB_ID, task.job) &&
                       get<std::uint32_t>(spank, S_JOB_STEPID, task.step) &&
                       get<std::uint32_t>(spank, S_TASK_GLOBAL_ID, task.rank) &&
                       get<int>(spank, S_TASK_ID, task.local_rank) &&
                       get<std::uint32_t>(spank, S_JOB_TOTAL_TASK_COUNT, task.world_size);
    if (!known || task.step > SLURM_MAX_NORMAL_STEP_ID) return;
    const auto variables = arena::rank_variables(task);
    std::vector<std::string_view> given;
    for (const auto& [name, value] : variables) {
        if (!task_variable(spank, name.c_str()).empty()) continue;  // what the user set stays
        (void)spank_setenv(spank, name.c_str(), value.c_str(), 1);
        given.push_back(name);
    }
    note_given(spank, given);
}

/// One on each node of a step, for all its tasks there.
void start_agent(spank_t spank) {
    char** task = nullptr;
    if (spank_get_item(spank, S_JOB_ENV, &task) != ESPANK_SUCCESS) return;
    const arena::Status started = arena::start_detached(
        {ARENA_BINDIR "/arena-watch", "agent", "--task", std::to_string(getpid())},
        arena::agent_environment(task));
    if (!started)
        slurm_error("arena: the step runs unwatched: %s", started.error().message().c_str());
}

/// Steps that srun started in a job that is watched. The batch script is none.
void watch_step(spank_t spank) {
    std::int64_t step = 0, local_rank = 0;
    if (!get<std::uint32_t>(spank, S_JOB_STEPID, step) || step > SLURM_MAX_NORMAL_STEP_ID ||
        !get<int>(spank, S_TASK_ID, local_rank))
        return;
    const auto variables =
        arena::task_variables({.slowdown = task_variable(spank, "ARENA_SLOWDOWN"),
                               .key = task_variable(spank, "ARENA_WATCH_KEY"),
                               .launcher = task_variable(spank, "ARENA_LAUNCHER"),
                               .mpi = task_variable(spank, "ARENA_WATCH_MPI"),
                               .preload = task_variable(spank, "LD_PRELOAD"),
                               .profiler = task_variable(spank, "NCCL_PROFILER_PLUGIN"),
                               .binds = task_variable(spank, "APPTAINER_BIND") +
                                        task_variable(spank, "SINGULARITY_BIND")},
                              ARENA_LIBEXECDIR);
    if (variables.empty()) return;
    // The loader would complain in each process of the task.
    if (access(ARENA_LIBEXECDIR "/libarena_watch.so", R_OK) != 0) {
        if (local_rank == 0)
            slurm_error("arena: the step runs unwatched: " ARENA_LIBEXECDIR
                        "/libarena_watch.so: %s",
                        strerror(errno));
        return;
    }
    std::vector<std::string_view> given;
    for (const auto& [name, value] : variables) {
        (void)spank_setenv(spank, name.c_str(), value.c_str(), 1);
        given.push_back(name);
    }
    note_given(spank, given);
    if (local_rank == 0) start_agent(spank);
}

/// Slurm must not see an exception: `work` is done, or said to have failed.
template <typename Work>
int guarded(const char* failed, int code, Work work) noexcept {
    try {
        work();
        return 0;
    } catch (const std::exception& e) {
        slurm_error("arena: %s: %s", failed, e.what());
        return code;
    }
}

int take_option(int index, const char* value) {
    return guarded("option not read", -1, [&] {
        if (!context) context = std::make_unique<Context>();
        const std::string_view key = arena::options()[static_cast<std::size_t>(index)].key;
        if (value == nullptr)
            context->options.add(key, "yes", std::nullopt);  // a bare --arena-elastic
        else
            context->options.add(key, value, source_of(key, value));
    });
}

void take_request(spank_t spank, spank_context_t where) {
    if (!context || guarded("request not made", 1, [&] { process_options(spank, where); }) == 0)
        return;
    std::exit(1);
}

void enter_step(spank_t spank) {
    (void)guarded("MASTER_ADDR is not set", 0, [&] { set_meeting_place(spank); });
}

void enter_task(spank_t spank) {
    (void)guarded("the task's environment is not complete", 0, [&] {
        set_rank_variables(spank);
        watch_step(spank);
    });
}

void leave_job_guarded() { (void)guarded("ARENA_* of the outer job stay", 0, leave_job); }

}  // namespace

extern "C" const SpankWork arena_spank_work = {leave_job_guarded, take_option, take_request,
                                               enter_step, enter_task};
