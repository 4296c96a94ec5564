#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Three hosts, each with an address, a name, a /tmp and a munged of its own: a job trains over their network. A host dies
# without a word; another one is cut off from the network and comes back; a second slurmctld takes over and gives back.
# Each time the job goes on from what it saved, what a host that was cut off still ran is gone when it is back, and hosts
# that are back are used again.
# shellcheck disable=SC2016,SC2034,SC2317  # functions are called by ok, conditions evaluated by wait_until
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/arena.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/train.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/hosts.sh"
need_arena
need_mpi_in_slurm
need_hosts
command -v jq >/dev/null || skip_all 'jq is not installed'

host_conf=(SlurmctldHost=h1 SlurmdTimeout=30 SlurmctldTimeout=20)
start_hosts
gates=$host_dir/gates
mkdir -m 1777 "$gates"
write_tiny_model "$host_dir/tiny.yaml"
write_training_text "$host_dir/text"
cp "$ARENA_BUILDDIR/tests/tools/paced.so" "$host_dir/"
cat >"$host_dir/life" <<END
#!/bin/bash
cd $gates || exit 1
life=\${SLURM_RESTART_COUNT:-0}
# What a host that was cut off still ran cancels, by Slurm's PMIx plug-in, the step of its number: each life has another one.
for ((n = 0; n < life; n++)); do srun -N 1 -n 1 true; done
mkdir -p saved
ls saved | tail -n 1 | sed 's/[^1-9]*\([0-9]*\).*/\1/' >from.\$life
export OMPI_MCA_btl=self,tcp OMPI_MCA_btl_tcp_if_include=eth0 OMPI_MCA_mpi_yield_when_idle=1
export ARENA_PACED_MFLOPS=400 ARENA_PACED_MESSAGE_MS=5
exec srun --mpi=pmix --export=ALL,LD_PRELOAD=$host_dir/paced.so arena-train --device cpu --model $host_dir/tiny.yaml --data $host_dir/text \\
    --quiet --no-report --steps 1000000 --save-every 10 --checkpoint saved --log log.\$life
END
chmod 755 "$host_dir/life"
log=$host_dir/log/slurmctld.log
on_fail() {
    diag "$(on h0 sinfo -N -o '%N %T %E' 2>&1; on h0 squeue -a -o '%i %j %T %r %N' 2>&1; tail -n 3 "$gates"/out "$gates"/log.* 2>/dev/null)"
    diag "$(tail -n 15 "$log")"
}
control=h0   # where commands are given
state_of() { on "$control" squeue -h -t all -j "$1" -o %T; }
hosts_of() { on "$control" bash -c 'scontrol show hostnames "$(squeue -h -t R -j "$1" -o %N)"' _ "$job" | sort | paste -sd,; }
host_state() { on "$control" sinfo -h -N -n "$1" -o %T; }
life() { on "$control" scontrol show job "$job" | sed -n 's/.* Restarts=\([0-9]*\).*/\1/p'; }
done_in() { jq -r 'select(has("loss")).step' "$gates/log.$1" 2>/dev/null | tail -n 1; }
# It trains in its life N, and has saved something in it.
trains() { local step; step=$(done_in "$1"); ((${step:-0} >= $(cat "$gates/from.$1") + 25)); }
# One host of the job's that is not the first.
one_of_its() { hosts_of | tr , '\n' | grep -v h0 | tail -n 1; }
without() { printf '%s\n' "${hosts[@]}" | grep -vx "$1" | paste -sd,; }
# goes_on LIFE WITHOUT: on the two hosts that are left
goes_on() {
    ok "its life $1 trains" wait_until "trains $1" 180
    is "$(life) $(hosts_of)" "$1 $(without "$2")" "on the hosts that are left"
}

job=$(on h0 sbatch --parsable -J hosts -o "$gates/out" --open-mode=append --chdir="$host_dir" --time=1-0 --arena-model="$host_dir/tiny.yaml" \
    --arena-batch=12 --arena-launcher=arena-train --arena-gpus=2 "$host_dir/life")
ok "a job of two hosts trains" wait_until 'trains 0' 120
for host in $(hosts_of | tr , ' '); do
    is "$(on "$host" pgrep -cx arena-train)" 1 "with one rank on $host"
done

# ---- a host dies -------------------------------------------------------------------------------------------------------
dead=$(one_of_its)
crash_host "$dead"
ok "$dead dies, and is missed" wait_until '[[ $(host_state "$dead") == down* ]]' 180
goes_on 1 "$dead"
boot_host "$dead"
ok "$dead is back" wait_until '[[ $(host_state "$dead") == idle ]]' 60

# ---- a host is cut off -------------------------------------------------------------------------------------------------
cut=$(one_of_its)
plug "$cut" off
ok "the cable of $cut is out, and it is missed" wait_until '[[ $(host_state "$cut") == down* ]]' 180
goes_on 2 "$cut"
plug "$cut" on
ok "the cable is in again, and $cut has a place for jobs" wait_until '[[ $(host_state "$cut") == idle ]]' 90
ok "what ran there is gone" wait_until '! on "$cut" pgrep -x arena-train >/dev/null' 60

# ---- a second slurmctld takes over -------------------------------------------------------------------------------------
next() {   # a job of one GPU, submitted on h2
    local id
    id=$(on h2 sbatch --parsable -J next -o /dev/null --chdir=/ --time=5 --arena-model=gpt2 --arena-launcher=env --arena-batch=12 --arena-gpus=1 --wrap 'sleep 600') || return 1
    wait_until "[[ \$(state_of $id) == RUNNING ]]" 60 && like "$(on "$control" arena explain "$id" 2>&1)" "^JobId=$id.*running" "arena explain answers on $control" &&
        on "$control" scancel "$id" && wait_until "[[ ! \$(on $control squeue -h -j $id -o %T 2>/dev/null) ]]" 60
}
up() { on h2 scontrol ping | grep -c "at $1 is UP"; }
on h1 slurmctld
ok "h1 has a slurmctld, too" wait_until '(($(up h1) == 1))' 60
on h0 pkill -KILL -x slurmctld
control=h1
ok "that of h0 is killed, and h1's takes over" wait_until 'on h1 squeue -h -j "$job" -o %T 2>/dev/null | grep -q RUNNING' 120
ok "it starts jobs of Arena's" next
at=$(done_in 2)
ok "meanwhile the job trains on" wait_until '(($(done_in 2) > at + 10))' 60
on h0 slurmctld
control=h0
ok "that of h0 comes back, and takes over" wait_until '(($(up h0) == 1)) && [[ $(state_of "$job") == RUNNING ]]' 120
ok "it starts jobs of Arena's, too" next
is "$(life)" 2 "all the while the job trained on"
on h0 scancel "$job"
ok "it ends" wait_until '[[ ! $(on h0 squeue -h -j "$job" -o %T 2>/dev/null) ]]' 60

# ---- what it did -------------------------------------------------------------------------------------------------------
for n in 1 2; do
    begins=$(jq -r 'select(has("loss")).step' "$gates/log.$n" | head -n 1)
    is "$begins" "$(($(cat "$gates/from.$n") + 1))" "life $n began behind what was saved"
    ok "which was no more than ten steps ago" test $((begins + 10)) -ge "$(done_in $((n - 1)))"
done
is "$(jq -r 'select(has("loss")).step' "$gates"/log.* | sort -n | uniq | awk '$1 != ++n { print $1; exit }')" '' "no step is missing"
is "$(grep -c 'Arena is off' "$log")" 0 "Arena had no fault"
ok "all hosts are idle at the end" wait_until '[[ $(on h0 sinfo -h -N -o %T | sort -u) == idle ]]' 60
done_testing
