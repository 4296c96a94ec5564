/* SPDX-License-Identifier: GPL-2.0-or-later */
/* For programs that arena-watch(1) watches and whose communication it cannot see: a step that is
 * captured in a CUDA graph makes its calls once and replays them, a statically linked NCCL cannot
 * be preloaded. Nothing to link with: the functions are those of the preloaded libarena_watch.so,
 * and are absent (null) in a process that is not watched. ARENA_WATCH_STEP() says it either way. */
#ifndef ARENA_WATCH_H
#define ARENA_WATCH_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A training step begins here: called by every rank, once per step, by the thread that launches it.
 * Returns 0, or 1 where nobody watches this process. Takes well below a microsecond. */
__attribute__((weak)) int arena_watch_step(void);

/* The same, with the tokens (or samples) that this rank has in the step, above 0: steps of unequal
 * length are then compared by time per token. */
__attribute__((weak)) int arena_watch_step_tokens(uint64_t tokens);

/* A communication call that no front of the recorder sees (gloo, a back-end of one's own) has
 * returned after `duration_ns`; 0: that is not known. `op`: as `arena-watch dump` numbers them, no
 * step. `comm` names the communicator on all its ranks, below 2^62. `peer`: of send and recv, else
 * -1. Returns 0; 1 where nobody watches this process, or there is no such call. */
__attribute__((weak)) int arena_watch_call(uint32_t op, uint64_t comm, uint64_t bytes, int32_t peer,
                                           uint64_t duration_ns);

#ifdef __cplusplus
}
#endif

#define ARENA_WATCH_STEP() (arena_watch_step ? arena_watch_step() : 1)
#define ARENA_WATCH_STEP_TOKENS(tokens) \
    (arena_watch_step_tokens ? arena_watch_step_tokens(tokens) : 1)

#endif
