/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Stands in for Slurm's configured config.h: no struct in Slurm's headers depends on more than this.
 * NDEBUG keeps verify_lock() out, which the distributed slurmctld does not export. */
#ifndef NDEBUG
#define NDEBUG 1
#endif
#define USE_ALIAS 1
#define SLURM_BIGENDIAN 0
