# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Black-box tests of arena-train in a cluster. Source it after cluster.sh.
#   mpi_in_slurm_lacks      what is missing to start ranks by srun --mpi=pmix; fails where nothing is
#   need_mpi_in_slurm       skips the test where ranks cannot be started by srun --mpi=pmix
#   write_tiny_model FILE   a model that trains hundreds of steps a second: 4 layers, 128 words
#   write_training_text FILE
#   write_paced MFLOPS [MESSAGE_MS]   a command $work/paced, under which a rank waits asleep: for its products, which take as long
#                           as on a device of so many MFLOP/s, for others, and with each message. Other tests lose no
#                           processor to it, and their noise is little beside its time
: "${ARENA_BUILDDIR=}" "${ARENA_SRCDIR=}" "${work=}"   # of cluster.sh

mpi_in_slurm_lacks() {
    if [[ ! -x $ARENA_BUILDDIR/arena-train ]]; then echo "arena-train is not built"
    elif ! grep -q '#define HAVE_MPI 1' "$ARENA_BUILDDIR/config.h"; then echo "this build has no MPI"
    elif ! compgen -G "$(stock_plugin_dir)/mpi_pmix*.so" >/dev/null; then
        echo "this Slurm has no mpi/pmix plug-in"
    else return 1; fi
}
need_mpi_in_slurm() { local reason; if reason=$(mpi_in_slurm_lacks); then skip_all "$reason"; fi; }

write_tiny_model() {
    cat >"$1" <<'END'
name: tiny
family: gpt
layers: 4
hidden: 32
heads: 4
vocab: 128
seq_length: 32
precision: fp32
END
}

write_training_text() {
    local i
    for ((i = 0; i < 600; i++)); do printf 'the quick brown fox no. %d jumps over dog %d. ' "$i" $((i * i % 97)); done >"$1"
}

write_paced() {
    cat >"$work/paced" <<END
#!/bin/bash
export ARENA_PACED_MFLOPS=$1 ARENA_PACED_MESSAGE_MS=${2:-0} OMPI_MCA_mpi_yield_when_idle=1
export LD_PRELOAD=\${LD_PRELOAD:+\$LD_PRELOAD:}$ARENA_BUILDDIR/tests/tools/paced.so
exec "\$@"
END
    chmod 755 "$work/paced"
}

losses() { jq -r 'select(has("loss")) | "\(.step) \(.loss)"' "$@"; }
