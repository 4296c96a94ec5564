#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Moves inside the allocation (--arena-elastic=inplace): arena-train that really trains goes from four nodes to two and to
# another plan on these, in one life: no requeue, no step lost or done twice. slurmctld is killed while the script asks. A
# script that does not ask is moved the old way.
# shellcheck disable=SC2016,SC2034,SC2317  # functions are called by ok, conditions evaluated by wait_until
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/arena.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/train.sh"
need_arena
[[ -x $ARENA_BUILDDIR/arena-train ]] || skip_all 'arena-train is not built'
command -v jq >/dev/null || skip_all 'jq is not installed'

start_arena --nodes a40:4x1 --arena-set resize.moves_per_hour=12 --arena-set resize.checkpoint_grace_s=120
write_tiny_model "$work/tiny.yaml"
write_training_text "$work/text"
trainer=("$ARENA_BUILDDIR/arena-train" --device cpu --model "$work/tiny.yaml" --data "$work/text" --quiet --no-report)

# The ranks are threads of one process: nodes that are one host have no MPI between them. Each step of the job writes a log of its own. ASKS: whether the script knows of moves inside the job.
cat >"$work/life" <<END
#!/bin/bash
cd $gates || exit 1
eval "\$(arena-args --elastic)"
name=\$SLURM_JOB_NAME
mkdir -p "\$name.saved"
while :; do
    log=\$name.log.\${SLURM_RESTART_COUNT:-0}.\$ARENA_PLAN_NUMBER
    env | sort >"\$log.env"
    srun bash -c 'echo "\$SLURMD_NODENAME"' | sort >"\$log.nodes"   # a step as srun makes it by itself
    srun -N1 -n1 ${trainer[*]} --steps 1000000000 --checkpoint "\$name.saved" --log "\$log"
    code=\$?
    touch "\$log.end"
    [[ \$ASKS == yes ]] || exit "\$code"
    elastic_next "\$code"
done
END
chmod 755 "$work/life"
learn() {   # learn NAME ASKS
    submit -J "$1" -o "$gates/$1.out" --open-mode=append --time=1-0 --export="ALL,ASKS=$2" --arena-model="$work/tiny.yaml" --arena-batch=64 \
        --arena-launcher=arena-train --arena-types=a40 --arena-gpus=4 --arena-elastic=inplace "$work/life"
}
trains() { [[ -s $gates/$1 ]] && grep -q '"loss"' "$gates/$1"; }
ranks_of() { jq -r 'select(has("ranks")).ranks' "$gates/$1"; }
has() { sed -n "s/^$2=//p" "$gates/$1.env"; }
logs_of() { find "$gates" -name "$1.log.*" ! -name '*.end' ! -name '*.env' ! -name '*.nodes' | sort -V; }
# Every step of all logs once and in order.
whole() {
    local logs
    mapfile -t logs < <(logs_of "$1")
    losses "${logs[@]}" | awk '$1 != ++n { print $0 " is not step " n; exit bad = 1 } END { exit bad || n == 0 }'
}
ask() { scontrol update JobId="$1" Comment="arena:$2"; }
restarts() { job_field "$1" Restarts; }
seconds_to() {   # seconds_to JOB LOG: from the signal until now
    local line
    line=$(grep "arena: JobId=$1 signalled" "$cluster_dir/log/slurmctld.log" | tail -n 1 | sed 's/^\[\([^]]*\)\].*/\1/')
    diag "from the signal to the first step of $2: $(jq -rn --argjson a "$(date -d "$line" +%s.%N)" --argjson b "$(date +%s.%N)" '($b - $a) * 10 | round / 10') s"
}
pin_other_than() { if [[ $1 == 1 ]]; then echo pp2,dp1; else echo pp1,dp2; fi; }

job=$(learn one yes)
ok "it trains on four nodes" wait_until 'trains one.log.0.0' 60 || BAIL_OUT "it does not train: $(cat "$gates/one.out")"
is "$(ranks_of one.log.0.0) $(xargs <"$gates/one.log.0.0.nodes")" "4 n1 n2 n3 n4" "with four ranks"
# ---- fewer of its nodes ---------------------------------------------------------------------------------
ok "its owner asks for two GPUs" ask "$job" gpus=2
ok "it trains by its second plan" wait_until 'trains one.log.0.1' 60 || BAIL_OUT "it does not: $(cat "$gates/one.out"; tail -n 30 "$cluster_dir/log/slurmctld.log")"
seconds_to "$job" one.log.0.1
is "$(ranks_of one.log.0.1)" 2 "with two ranks"
is "$(job_field "$job" NumNodes) $(restarts "$job") $(job_state "$job")" "2 0 RUNNING" "Slurm's job has two nodes, and was not requeued"
is "$(has one.log.0.1 SLURM_JOB_NUM_NODES) $(has one.log.0.1 SLURM_NNODES) $(has one.log.0.1 SLURM_NTASKS) $(has one.log.0.1 SLURM_TASKS_PER_NODE)" \
    "2 2 2 1(x2)" "its script knows how many nodes and tasks it has"
is "$(scontrol show hostnames "$(has one.log.0.1 SLURM_JOB_NODELIST)" | xargs)" "$(xargs <"$gates/one.log.0.1.nodes")" "and which"
unlike "$(scontrol show job "$job")" '_KEY' "no key is shown"
other=$(hog a40 1 -N2)
ok "another job starts on the nodes that it gave back" wait_for_state "$other" RUNNING 60
# ---- another plan, and slurmctld dies while it is asked for ---------------------------------------------
ok "its owner asks for another plan" ask "$job" "plan=$(pin_other_than "$(has one.log.0.1 ARENA_PP)")" || BAIL_OUT "refused"
ok "the step saves its state and ends" wait_until '[[ -e $gates/one.log.0.1.end ]]' 60 || BAIL_OUT "it does not"
cluster ctld kill
ok "slurmctld was killed, and starts again" eval 'cluster ctld start && cluster wait'
ok "it trains by its third plan" wait_until 'trains one.log.0.2' 150 || BAIL_OUT "it does not: $(cat "$gates/one.out"; tail -n 30 "$cluster_dir/log/slurmctld.log")"
seconds_to "$job" one.log.0.2
unlike "$(has one.log.0.2 ARENA_PP)" "^$(has one.log.0.1 ARENA_PP)\$" "which is another one"
is "$(job_field "$job" NumNodes) $(restarts "$job")" "2 0" "on the same nodes, in the same life"
scancel "$job"
ok "it is cancelled" wait_for_state "$job" CANCELLED 60
ok "it did every step once, in order" whole one
# ---- a script that does not ask -------------------------------------------------------------------------
let_go "$other"
job=$(learn two no)
ok "a job whose script does not ask trains" wait_until 'trains two.log.0.0' 60
ok "its owner asks for two GPUs" ask "$job" gpus=2
ok "it trains in its second life" wait_until 'trains two.log.1.0' 100
seconds_to "$job" two.log.1.0
is "$(ranks_of two.log.1.0) $(restarts "$job")" "2 1" "requeued, with two ranks"
scancel "$job"
ok "it is cancelled" wait_for_state "$job" CANCELLED 60
ok "it did every step once, in order" whole two
is "$(grep -c 'Arena is off' "$cluster_dir/log/slurmctld.log")" 0 "Arena had no fault"
ok "no node is left drained" clean_nodes
done_testing
