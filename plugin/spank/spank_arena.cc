// SPDX-License-Identifier: GPL-2.0-or-later
// spank_arena.so: what every sbatch, srun, slurmd and slurmstepd loads of Arena. It registers the
// --arena-* options of sbatch and salloc, and looks whether a job has to do with Arena; if so,
// libarena_spank.so of its own directory does the rest (spank_work.h). Ordinary jobs pay for it, so
// it needs the C library alone, opens no file and has no C++ runtime behind it.
#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "plugin/spank/spank_work.h"

extern "C" {
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>

// Constants of C++ are internal unless declared first.
extern const char plugin_name[], plugin_type[];
extern const unsigned int plugin_version, spank_plugin_version;
SPANK_PLUGIN(arena, 1)
}

namespace {

const struct OptionRow {
    const char *name, *argument, *usage;
    int has_argument;
} option_rows[] = {
#include "plugin/spank/option_rows.inc"
};

const SpankWork* work = nullptr;  // once it is needed; stays loaded

/// Beside this file, wherever links to it lie: whoever may write there could write this one.
bool find_work(char (&path)[PATH_MAX]) {
    constexpr char name[] = "/libarena_spank.so";
    Dl_info here;
    if (dladdr(&work, &here) == 0 || realpath(here.dli_fname, path) == nullptr) return false;
    char* slash = strrchr(path, '/');
    if (slash == nullptr || slash + sizeof name > path + PATH_MAX) return false;
    memcpy(slash, name, sizeof name);
    return true;
}

bool load_work() {
    if (work != nullptr) return true;
    char path[PATH_MAX];
    if (!find_work(path)) {
        slurm_error("arena: the directory of spank_arena.so is not found");
        return false;
    }
    void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr)
        work = static_cast<const SpankWork*>(dlsym(library, "arena_spank_work"));
    if (work == nullptr) slurm_error("arena: not installed as a whole: %s", dlerror());
    return work != nullptr;
}

int on_option(int index, const char* value, int remote) {
    if (remote != 0) return 0;
    return load_work() ? work->take_option(index, value) : -1;
}

int register_options(spank_t spank) {
    int index = 0;
    for (const OptionRow& row : option_rows) {
        // Slurm copies the strings.
        spank_option option = {const_cast<char*>(row.name),
                               const_cast<char*>(row.argument),
                               const_cast<char*>(row.usage),
                               row.has_argument,
                               index++,
                               on_option};
        if (spank_option_register(spank, &option) != ESPANK_SUCCESS) return -1;
    }
    return 0;
}

/// Whether the environment of this process, which is about to make a job, is that of an Arena job.
bool leaves_job(spank_context_t where) {
    const bool makes_job =
        where == S_CTX_ALLOCATOR || (where == S_CTX_LOCAL && getenv("SLURM_JOB_ID") == nullptr);
    return makes_job && getenv("ARENA_GIVEN") != nullptr;
}

bool has_variable(spank_t spank, const char* name) {
    char start[2];
    const spank_err_t found = spank_getenv(spank, name, start, sizeof start);
    return found == ESPANK_SUCCESS || found == ESPANK_NOSPACE;
}

/// The batch script and Slurm's own steps have no ranks.
bool is_arena_step(spank_t spank) {
    uint32_t step = 0;
    return spank_get_item(spank, S_JOB_STEPID, &step) == ESPANK_SUCCESS &&
           step <= SLURM_MAX_NORMAL_STEP_ID &&
           (has_variable(spank, "ARENA_LAUNCHER") || has_variable(spank, "ARENA_SLOWDOWN"));
}

}  // namespace

extern "C" {

int slurm_spank_init(spank_t spank, int, char**) {
    const spank_context_t where = spank_context();
    if (where != S_CTX_ALLOCATOR && where != S_CTX_LOCAL && where != S_CTX_REMOTE) return 0;
    if (leaves_job(where) && load_work()) work->leave_job();
    return register_options(spank);
}

int slurm_spank_init_post_opt(spank_t spank, int, char**) {
    const spank_context_t where = spank_context();
    if (where == S_CTX_REMOTE) {
        // Not in the forked tasks: another thread of slurmstepd may hold the loader then. Not in
        // user_init: 24.11 ends a slurmstepd that asks slurmctld for anything as the job's user.
        if (is_arena_step(spank) && load_work()) work->enter_step(spank);
    } else if (work != nullptr) {
        work->take_request(spank, where);
    }
    return 0;
}

int slurm_spank_task_init(spank_t spank, int, char**) {
    if (work != nullptr) work->enter_task(spank);
    return 0;
}

}  // extern "C"
