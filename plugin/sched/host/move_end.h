// SPDX-License-Identifier: GPL-2.0-or-later
// How a job that was told to save its state and leave has left, by what Slurm's record says of its
// end. Pure: Slurm calls such a job FAILED where its processes did not know the signal, and a move
// is no failure of the job's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "plugin/sched/host/host.h"

namespace arena {

/// So many moves in a row without a checkpoint, and Arena moves the job no more by itself.
inline constexpr std::uint32_t max_unsaved_moves = 2;

/// In the environment of an elastic job: the name of what it is told by, such as USR1.
inline constexpr std::string_view leave_signal_variable = "ARENA_CHECKPOINT_SIGNAL";

/// Of a job that is over or completes.
struct JobEnd {
    bool failed = false;  ///< FAILED: not cancelled, out of time or memory, nor lost with a node
    std::uint32_t status = 0;  ///< of its batch script, as wait(2) has it
    double at_s = 0;           ///< seconds since the epoch
    bool completed = false;    ///< its script ended with 0, whatever its steps did
    std::uint32_t steps = 0;   ///< the worst end of its steps, as wait(2) has it
};

/// Whether a script that ended so was ended by the signal: itself, or what it waited for, as a
/// shell (128 + N) says it.
bool ended_by(int signal, std::uint32_t status);

/// True of a job that ended because it was told to leave, without a checkpoint: by that signal, or
/// with an error before the deadline. One that left with the requeue code has saved, and Slurm
/// requeues it. A script that hides how its steps ended, as `srun ... | tee` does, is taken at
/// their word: by the signal here,
bool leaves_unsaved(const JobFacts& facts, const JobEnd& end, const LeaveRules& rules);
/// and with the requeue code, which Slurm does not look at, here.
bool leaves_saved(const JobFacts& facts, const JobEnd& end, const LeaveRules& rules);

/// What a job is told by: the signal that its sbatch --signal names (0 = none), else the site's.
inline int leave_signal(int own, int site) { return own != 0 ? own : site; }

/// What there is to say of a job that left so many moves in a row without a checkpoint; "" of none.
std::string unsaved_words(std::uint32_t moves);

}  // namespace arena
