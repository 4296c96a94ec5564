// SPDX-License-Identifier: GPL-2.0-or-later
// What spank_arena.so, which every command and step of Slurm's loads, has libarena_spank.so beside
// it do: loaded where a job has to do with Arena only, for it holds readers, planner and launchers.
#pragma once

extern "C" {
#include <slurm/spank.h>

/// None throws; each returns at once where there is nothing to do.
struct SpankWork {
    /// A process inside an Arena job is about to make another job.
    void (*leave_job)();
    /// An option of the row `index` of arena::options(); `value`: null of a bare one. Non-zero: not
    /// read, and said so.
    int (*take_option)(int index, const char* value);
    /// All options are known.
    void (*take_request)(spank_t spank, spank_context_t where);
    /// A step of an Arena job on this node, before its tasks are forked, as root.
    void (*enter_step)(spank_t spank);
    void (*enter_task)(spank_t spank);
};
extern const SpankWork arena_spank_work;

}  // extern "C"
