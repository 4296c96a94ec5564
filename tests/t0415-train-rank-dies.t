#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# kill -9 of one of two ranks that srun --mpi=pmix started, while they train and while they are parked: the other ends, srun
# says which one died, the last checkpoint stands. In a private cluster of stock Slurm.
# shellcheck disable=SC2016,SC2317  # functions are called by ok
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/train.sh"
need_slurm
need_mpi_in_slurm

start_cluster --nodes cpu:1x0
for ((i = 0; i < 200; i++)); do printf 'the quick brown fox no. %d. ' "$i"; done >"$work/text"
model="--device cpu --layers 2 --hidden 16 --heads 2 --vocab 128 --seq-length 16 --global-batch 2 --data $work/text --quiet"
mkdir "$work/pmix" "$work/saved"
cat >"$work/rank" <<END
#!/bin/bash
echo \$\$ >"$work/pid.\$SLURM_PROCID"
exec "\$@"
END
cat >"$work/job" <<END
#!/bin/bash
export SLURM_PMIX_TMPDIR=$work/pmix OMPI_MCA_mpi_yield_when_idle=1
srun --mpi=pmix -n 2 $work/rank $ARENA_BUILDDIR/arena-train $model --pp 2 --steps 1000000000 --save-every 20 \\
    --checkpoint $work/saved --log $work/log "\$@"
echo "srun ended with \$?"
END
chmod 755 "$work/rank" "$work/job"
last_saved() { grep '}$' "$work/log" | jq -s 'map(select(.event == "saved").step) | max'; }
ended() { grep -qs '^srun ended with' "$work/out"; }
gone() { local pid; for pid in $(<"$work/pid.0") $(<"$work/pid.1"); do ! kill -0 "$pid" 2>/dev/null || return 1; done; }

# dies WHERE EVENT ARGUMENT...: rank 1 of a job is killed once the log has the event
dies() {
    local where=$1 event=$2 job killed_at
    shift 2
    rm -f "$work/out"
    job=$(submit -n 2 -t 30 -o "$work/out" "$work/job" "$@")
    ok "$where: two ranks run" wait_until "grep -qs '\"$event\"' '$work/log' || ended" 60
    killed_at=$SECONDS
    kill -KILL "$(<"$work/pid.1")"
    ok "$where, kill -9 of rank 1: srun ends" wait_until ended 10
    ok "$where: and so does the other rank" wait_until gone 10
    ok "$where: within 10 s, on a machine without other work" test $((SECONDS - killed_at)) -le $((10 * patience))
    unlike "$(<"$work/out")" 'srun ended with 0' "$where: it is no success"
    like "$(<"$work/out")" 'task 1: Killed' "$where: srun says which rank was killed"
    ok "$where: the job ends" wait_for_state "$job" 'COMPLETED|FAILED' 60
}
dies training saved
before=$(last_saved)
echo "$((before + 2000)) park 60s" >"$work/script"
dies parked parked --control "$work/script"
before=$(last_saved)
# shellcheck disable=SC2086
ok "a run on two replicas goes on" "$ARENA_BUILDDIR/arena-train" $model --dp 2 --steps $((before + 200)) --checkpoint "$work/saved" --log "$work/next"
ok "from what was saved, without damage" jq -se --argjson n "$before" \
    '(map(select(.event == "resumed")) | length == 1 and .[0].step >= $n) and (map(select(.event == "damaged")) | length == 0)' "$work/next"
done_testing
