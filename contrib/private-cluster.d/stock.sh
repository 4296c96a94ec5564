# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The Slurm that PATH has: its release, and where its own plug-ins are. Sourced by private-cluster and by tests.

# "24.11.5"
slurm_version() { slurmctld -V 2>/dev/null | sed -n 's/.* \([0-9]*\.[0-9]*\.[0-9]*\).*/\1/p'; }
# Whether that is VERSION or later.
slurm_has() { [[ $(printf '%s\n' "$1" "$(slurm_version)" | sort -V | head -n 1) == "$1" ]]; }

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
