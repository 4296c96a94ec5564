# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Ranks by mpirun on this machine. Source it after tap.sh.
#   $mpi    mpirun with what ranks on few processors need, quiet of itself
mpi=(mpirun --oversubscribe --mca btl "self,vader")
# Open MPI 5 has no --quiet, and says nothing.
! mpirun --version 2>/dev/null | grep -qE ' [1-4]\.[0-9]' || mpi+=(--quiet)
((EUID != 0)) || mpi+=(--allow-run-as-root)
