#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Slurm's order beside stock Slurm where a real slurmdbd says it: QOS and its changes, three classes of jobs, shares of
# two accounts. The same jobs are played on both, in lock step, and the same is asserted of both.
# Needs root: the caller is an operator.
# shellcheck disable=SC2016,SC2317  # functions are called by ok, conditions evaluated by wait_until
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/arena.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/beside_stock.sh"
need_arena
need_accounting
make_work

# Slurm counts usage once a minute at most: here once a second, on both.
options=(--nodes 'a40:2x4,a100:1x1' --accounting 'associations,limits,qos' --priority multifactor
    --conf-extra PriorityWeightQOS=1000000 --conf-extra PriorityWeightFairshare=20000 --conf-extra PriorityCalcPeriod=1
    --conf-extra PriorityDecayHalfLife=7-0)
usage_library=$ARENA_BUILDDIR/tests/tools/short_minute.so
[[ -e $usage_library ]] || skip_all "tests/tools/short_minute.so is not built"

sacct_do() { sacctmgr -i "$@" >/dev/null; }
qos_priority() { scontrol show assoc_mgr flags=qos | awk -v name="$1(" '/^ *QOS=/ { here = index($1, "QOS=" name) } here && match($0, /Priority=[0-9]+/) { print substr($0, RSTART + 9, RLENGTH - 9); exit }'; }
knows_qos() { wait_until "[[ \$(qos_priority $1) == $2 ]]"; }
# counted A B: stock has computed that A stands before B; Arena does in each round.
priority_of() { job_field "${job[$1]}" Priority; }
counted() { [[ $kind != stock ]] || wait_until "((\$(priority_of $1) > \$(priority_of $2)))"; }
with_accounting() {
    ok "$kind: slurmctld stops" cluster ctld stop
    ok "$kind: and starts with short minutes" start_slurmctld_with LD_PRELOAD="$usage_library"
    local qos
    for qos in low:10 mid:100 other:5 high:1000; do
        ok "$kind: there is a QOS $qos" sacct_do add qos "${qos%:*}" priority="${qos#*:}"
    done
    ok "$kind: accounts have shares" sacct_do add account p q fairshare=1
    ok "$kind: of 70" sacct_do modify account p set fairshare=70
    ok "$kind: and 30" sacct_do modify account q set fairshare=30
    ok "$kind: the user works in both" sacct_do add user root account=p,q
    ok "$kind: and has every QOS" sacct_do modify user root set qos=normal,low,mid,other,high
    for qos in low:10 mid:100 other:5 high:1000; do
        ok "$kind: slurmctld knows $qos" knows_qos "${qos%:*}" "${qos#*:}"
    done
    ok "$kind: and who may have it" wait_until 'sbatch --test-only -A q --qos=high --wrap true'
}

# ---- QOS ----------------------------------------------------------------------------------------------
# Nobody changes a job, nor can Arena start it, before slurmdbd has said by what number it knows it.
all_known() {
    local ids
    ids=$(squeue -h -o %i | sort -u | paste -sd,)
    [[ ! $ids || $(sacct -n -X -a -o JobID -j "$ids" | wc -l) -ge $(tr , '\n' <<<"$ids" | wc -l) ]]
}
ends() { wait_until all_known && end_of "$1"; }
quality_of_service() {
    ask a 4 60
    ask b 4 60
    now_run "a b" "two jobs fill the nodes"
    ask l1 4 60 --qos=low
    ask l2 4 60 --qos=low
    ask h1 4 60 --qos=high
    now_run "a b" "nobody stops for a QOS"
    ok "$kind: one ends" ends a
    now_run "b h1" "a high QOS goes before who came earlier with a low one"
    ok "$kind: one ends" ends b
    now_run "h1 l1" "then who came first"
    # ---- a waiting job gets another one ----
    ask l3 4 60 --qos=low
    ok "$kind: a job gets a high QOS" scontrol update JobId="${job[l3]}" QOS=high
    now_run "h1 l1" "which stops nobody"
    ok "$kind: one ends" ends h1
    now_run "l1 l3" "a QOS that a job got while it waited counts"
    # ---- a QOS gets another priority ----
    ask o1 4 60 --qos=other
    ok "$kind: one ends" ends l1
    now_run "l2 l3" "the QOS of the lowest priority waits"
    ask l4 4 60 --qos=low
    ok "$kind: its priority is raised" sacct_do modify qos other set priority=500
    ok "$kind: and slurmctld knows" knows_qos other 500
    ok "$kind: it counts for jobs that wait" counted o1 l4
    ask l5 4 60 --qos=low
    now_run "l2 l3" "which stops nobody"
    ok "$kind: one ends" ends l2
    now_run "l3 o1" "and counts for the job that waited with it"
    ok "$kind: all jobs go" none_left
}

# ---- three classes: nobody of the highest waits for one of the lowest that came later --------------------------
three_classes() {
    ask a 4 60 --qos=low
    ask b 4 70 --qos=low
    now_run "a b" "two jobs of the lowest class fill the nodes"
    ask l1 4 100 --qos=low
    ask m1 4 100 --qos=mid
    ask wide 8 60 --qos=high
    ask m2 4 100 --qos=mid
    ask l2 4 100 --qos=low
    ask short 4 5 --qos=low
    ok "$kind: one ends" ends a
    now_run "b short" "of all classes only who ends in time passes the highest"
    ok "$kind: that one ends" ends short
    now_run b "and nobody else does"
    ok "$kind: the other one ends" ends b
    now_run wide "then the highest class starts"
    ok "$kind: it ends" ends wide
    now_run "m1 m2" "then the middle one, whoever of the lowest came first"
    ok "$kind: one ends" ends m1
    now_run "l1 m2" "then the lowest"
    ok "$kind: all jobs go" none_left
}

# ---- shares: of two accounts that always want more -----------------------------------------------------------
# Jobs of two GPUs, of which the one that has run for longest ends, once usage was counted: so each has its GPUs for as
# many starts, and what an account has had of the GPUs is its part of the starts.
few=100 order=()
declare -A account share
more() { ask more 2 60 -A "$1"; account[${job[more]}]=$1; }
all_run() { wait_until '(($(squeue -h -t R -n more -o %i | wc -l) == 4))' 60; }
usage() { sshare -n -P -A p,q -o RawUsage | xargs; }
# One more waits for each that has started since.
note_starts() {
    local id
    for id in $(squeue -h -t R -n more -o '%S %i' | sort -k1,1 -k2,2n | cut -d' ' -f2); do
        [[ " ${order[*]} " != *" $id "* ]] || continue
        order+=("$id")
        more "${account[$id]}"
    done
}
keep_going() {
    local oldest before
    for ((oldest = 0; ${#order[@]} < few; oldest++)); do
        all_run && note_starts || return
        before=$(usage)
        wait_until "[[ \$(usage) != '$before' ]]" || return
        let_go "${order[oldest]}"
        wait_until "[[ ! \$(squeue -h -t R,CG -j ${order[oldest]} -o %i) ]]" || return
    done
}
starts_of() { local id n=0; for id in "${order[@]:0:few}"; do [[ ${account[$id]} != "$1" ]] || n=$((n + 1)); done; echo $n; }
shares() {
    local i
    order=() account=()
    for ((i = 0; i < 6; i++)); do more p; more q; done
    if keep_going; then pass "$kind: two accounts want all GPUs all the time"; else fail "$kind: two accounts want all GPUs all the time"; fi
    share[$kind]=$(starts_of p)
    note "$kind: ${share[$kind]} of $few starts are the account's that has 70 of 100 shares"
    note "$kind: $(for i in "${order[@]}"; do printf '%s' "${account[$i]}"; done)"
    note "$kind: GPU seconds by sacct: $(sacct -n -X -P -a --name more -o Account,ElapsedRaw | awk -F'|' '{ s[$1] += $2 } END { for (a in s) printf "%s %d  ", a, s[a] }')"
    ok "$kind: its part is within 2 points of its share" eval "((100 * ${share[$kind]} >= 68 * $few && 100 * ${share[$kind]} <= 72 * $few))"
    ok "$kind: all jobs go" none_left
}

# ---- accounting as a trace ------------------------------------------------------------------------------
# arena trace import has of each job what sacct has, to the second; backfill replays them. How near the
# starts come is told: it is another one on a busy machine.
# Other tests' jobs have names and states of their own; here all is looked at that this cluster ran.
fields=JobIDRaw,User,Account,Partition,JobName,State,Submit,Eligible,Start,End,TimelimitRaw,Priority,NNodes,ReqTRES,AllocTRES,NodeList
of_sacct() { # ID SUBMIT START RUN GPUS of what ran on GPUs, in order
    awk -F'|' 'NR > 1 && $15 ~ /gres\/gpu/ && $9 ~ /^[0-9]+$/ && $10 > $9 {
        match($15, /gres\/gpu=[0-9]+/); from = $8 > $7 ? $8 : $7
        print $1, (from > $9 ? $9 : from), $9, $10 - $9, substr($15, RSTART + 9, RLENGTH - 9) }' "$work/sacct" | sort
}
of_trace() { awk -F, 'NR > 1 { printf "%s %d %d %d %d\n", $1, $2, $13, $12, $7 }' "$work/month/trace.csv" | sort; }
history() {
    local PATH=$stage/bin:$PATH   # a stock cluster has no arena
    ok "$kind: slurmdbd has heard of every end" wait_until '[[ ! $(sacct -a -X -n -s R -o JobID) ]]'
    SLURM_TIME_FORMAT=%s sacct -a -X -D -P -S now-1hours -E now+1hours -o "$fields" >"$work/sacct"
    scontrol -o show node >"$work/nodes"
    ok "$kind: sacct's jobs become a trace" arena trace import "$work/sacct" --nodes "$work/nodes" --out "$work/month"
    is "$(of_trace)" "$(of_sacct)" "$kind: of each it has the id, when it could start, when it did, its run and its GPUs"
    ok "$kind: of many" test "$(of_trace | wc -l)" -ge 40
    is "$(arena --json trace import "$work/sacct" --nodes "$work/nodes" --out "$work/month" | jq -c '[.rows, (.states | add), .jobs + (.left_out | add)]')" \
        "[$(for n in 1 2 3; do sed 1d "$work/sacct" | wc -l; done | paste -sd,)]" "$kind: each row is a job, or left out for a reason"
    arena --json trace report "$work/month" --within 30 >"$work/report"
    note "$kind: replayed: $(jq -c .replay "$work/report")"
    ok "$kind: backfill replays all of them" jq -es ".[0].replay.jobs == $(of_trace | wc -l) and .[0].runs[1].finished == $(of_trace | wc -l)" "$work/report"
    rm -r "$work/month"
}

play() {
    start_play "$1" "${options[@]}"
    with_accounting
    quality_of_service
    three_classes
    shares
    history
    ok "$kind: no node has suffered" clean_nodes
    stop_cluster
}
play stock
play arena
done_testing
