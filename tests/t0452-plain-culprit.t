#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A plain PyTorch script (gloo, `python3 -m arena`, no line of Arena's in it) in a real cluster: healthy, nobody is named; one
# rank becomes slow, and that one is suspected, by who waits for whom alone; the check of its node that follows makes a
# culprit of it, which the next job avoids; a check of the mended node clears it. More of these, links too, counted:
# tests/bench/culprit. The checks' device is a test's, as in t0525.
# shellcheck disable=SC2016,SC2317  # functions are called by ok, conditions evaluated by wait_until
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/arena.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/ddp.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/faulty.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/plain.sh"
need_faulty
need_arena
need_torch

start_faulty --nodes a40:3x2 --arena-set slowdown.poll_s=1
plain=$gates
cp "$ARENA_SRCDIR/tests/arena_py/plain.py" "$work/plain.py"
cat >"$work/life" <<END
#!/bin/bash
cd $gates || exit 1
mkdir -p "\$SLURM_JOB_NAME.watch"
export ARENA_WATCH_LOG_DIR=$gates/\$SLURM_JOB_NAME.watch PYTHONPATH=$stage/share/slurm-arena/python PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1
export MASTER_ADDR=127.0.0.1 MASTER_PORT=$(free_port) WORLD_SIZE=4 DEVICE_S=0.04
exec srun bash -c 'RANK=\$SLURM_PROCID LOCAL_RANK=\$SLURM_LOCALID exec /usr/bin/python3 -m arena $work/plain.py \$SLURM_JOB_NAME \$0' "\$KIND"
END
chmod 755 "$work/life"
start_in_slurm() { # start_in_slurm NAME KIND (plain.py): on n1 and n2, of two GPUs each; its id in $job
    job=$(KIND=$2 submit -J "$1" -o "$gates/$1.out" --time=60 --exclude=n3 --arena-model=gpt2 --arena-batch=64 --arena-launcher=env --arena-types=a40 \
        --arena-gpus=4 --arena-slowdown=watch "$work/life")
    ok "$1: it trains until its healthy steps are known" wait_until "is_known $1" 300 || diag "$(tail -n 5 "$gates/$1.out")"
}
suspects() { told "$1" '.event == "suspect"' | jq -r '.rank // (.ranks | map(tostring) | join("+"))' | sort -u | xargs; }
ends() { touch "$gates/$1.stop" && wait_for_state "$job" COMPLETED 60; }
nodes_of() { scontrol show hostnames "$(job_field "$1" NodeList)" | xargs; }

# ---- a slow rank, and a GPU that is slow (its number is not known of a program without CUDA) -----------------------------------------------------------------------------------
start_in_slurm slow dp
is "$(suspects slow)" '' "slow: nobody is named while all are healthy"
is "$(nodes_of "$job")" "n1 n2" "slow: it has two nodes"
fault slow 3 3
ok "slow: somebody is suspected" wait_until '[[ $(suspects slow) ]]' 180 || diag "$(told slow true)"
is "$(suspects slow)" 3 "slow: the rank that is slow"
like "$(told slow '.event == "suspect"' | jq -r '"\(.cause) \(.confidence >= 0.95) \(.factor > 1.5)"' | head -n 1)" 'compute true true' "slow: with what it does, confidence and factor"
ok "slow: AdminComment says so" wait_until '[[ $(job_field "$job" AdminComment) == *"slow=n2:compute:x"*":suspected=0.9"* ]]' 30
like "$(extra_of n2)" 'slow=[*]:compute:.* suspected=0.9' "slow: so does its node"
like "$(arena slowdown list)" 'n2: it computes .* times slower \(suspected by who waits for whom, confidence 0.9[0-9]*; no check has told\)' "slow: and arena slowdown list"
slow_gpu n2 1
ok "slow: it ends" ends slow
ok "slow: its node is checked" wait_until '[[ $(latest n2) ]]' 90
ok "slow: which finds a culprit" wait_until '[[ $(extra_of n2) == *"checked="* && $(extra_of n2) != *suspected* ]]' 30 || diag "$(extra_of n2)"
ok "slow: its node is avoided" wait_until "grep -q 'node n2 is avoided: it computes' '$log'" 30
next=$(train a40 --arena-gpus=4)
ok "slow: the next job starts" wait_started "$next" 1 60
is "$(nodes_of "$next")" "n1 n3" "slow: elsewhere"
let_go "$next"
sound n2
ok "slow: the node is checked once it is mended" arena slowdown check n2
ok "slow: nothing is held against it" wait_until '[[ ! $(extra_of n2) ]]' 90

is "$(squeue -h -t PD,R,CG -o '%j %T' | grep -v arena-check)" '' "nothing is left"
done_testing
