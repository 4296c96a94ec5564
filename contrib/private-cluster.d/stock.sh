# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Where Slurm's own plug-ins are: by the slurmctld that PATH has. Sourced by private-cluster and by tests.

# Prints the directory; SLURM_PLUGIN_DIR, or the variable slurm_plugin_dir, names another. Fails where it finds none.
stock_plugin_dir() {
    local d prefix
    prefix=$(realpath -m "$(command -v slurmctld || echo /usr/sbin/slurmctld)")
    prefix=${prefix%/*/*}
    for d in "${slurm_plugin_dir-${SLURM_PLUGIN_DIR-}}" "$prefix"/lib{/*,64,}/slurm{-wlm,}; do
        if [[ $d && -e $d/sched_backfill.so ]]; then echo "$d"; return; fi
    done
    return 1
}
