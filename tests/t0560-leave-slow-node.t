#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# S4: an elastic job that trains says that its node is slow and that nothing else helps. It saves its state, leaves, and
# goes on elsewhere: under policy fifo and arena, when a node is free and when it has to wait for Slurm's own backfill;
# each step lives once and in order. One that is not elastic stays, and its node is marked. Where that breaks a promise
# to the job itself, that is said; a promise to another job stands.
# shellcheck disable=SC2016,SC2317  # functions are called by ok, conditions evaluated by wait_until
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/arena.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/train.sh"
need_arena
need_mpi_in_slurm
command -v jq >/dev/null || skip_all 'jq is not installed'

# What the jobs' own chiefs see of a busy machine is no slowdown; the test says itself what is slow.
start_arena --nodes a40:3x2,a100:2x2,l4:1x1 --arena-set policy=fifo --arena-set resize.cooldown_s=600 --arena-set resize.moves_per_hour=2 \
    --arena-set resize.checkpoint_grace_s=60 --arena-set promise_slack=0 --arena-set slowdown.threshold=10
log=$cluster_dir/log/slurmctld.log
unset "${!SLURM_JOB@}" SLURM_RESTART_COUNT
write_tiny_model "$work/tiny.yaml"
write_training_text "$work/text"
write_paced 3000

cat >"$work/life" <<END
#!/bin/bash
cd $gates || exit 1
life=\${SLURM_RESTART_COUNT:-0} name=\$SLURM_JOB_NAME
mkdir -p "\$name.saved" "\$name.pmix"
export SLURM_PMIX_TMPDIR=$gates/\$name.pmix
exec srun --mpi=pmix $work/paced $ARENA_BUILDDIR/arena-train --device cpu --model $work/tiny.yaml --data $work/text --quiet --steps 1000000000 \\
    --checkpoint "\$name.saved" --log "\$name.log.\$life" --no-report
END
chmod 755 "$work/life"
learn() {   # learn NAME OPTIONS...
    local name=$1
    shift
    submit -J "$name" -o "$gates/$name.out" --open-mode=append --time=1-0 --arena-model="$work/tiny.yaml" --arena-batch=64 \
        --arena-launcher=arena-train --arena-gpus=2 --arena-steps=1000000000 --arena-slowdown=mitigate "$@" "$work/life"
}
logs_of() { find "$gates" -name "$1.log.*" | sort -V; }
whole() { # every step of all lives once and in order
    local logs
    mapfile -t logs < <(logs_of "$1")
    losses "${logs[@]}" | awk '$1 != ++n { print $0 " is not step " n; exit bad = 1 } END { exit bad || n == 0 }'
}
trains() { wait_until "grep -q '\"loss\"' '$gates/$1.log.$2' 2>/dev/null" "${3:-90}"; }
node_of() { job_field "$1" NodeList; }
s4() { SLURM_JOB_ID=$1 SLURM_RESTART_COUNT=$2 arena slowdown report --at "$3/1" --cause compute --factor 2.1 --action S4 --lost-s 7 --onset "$(date +%s)"; }
counted() { arena stats --json | jq -r ".slowdown.$1"; }
take_back() { for node in n1 n2 n3 n4 n5; do scontrol update NodeName=$node Extra=; done; }

declare -A job=()
for policy in fifo arena; do
    sed -i "s/^policy: .*/policy: $policy/" "$cluster_dir/arena.yaml"
    scontrol reconfigure

    # Side by side: on one type of nodes one is free; on the other the job is released to Slurm's backfill, before and after.
    free=$policy-free full=$policy-backfill
    declare -A hogs=()
    for node in n1 n2 n3; do hogs[$node]=$(hog a40 2 -w "$node"); done
    job[$free]=$(learn "$free" --arena-types=a100 --arena-elastic)
    for node in n1 n2 n3; do wait_for_state "${hogs[$node]}" RUNNING; done
    job[$full]=$(learn "$full" --arena-types=a40 --arena-elastic)
    ok "$free: trains" trains "$free" 0
    ok "$full: waits released" wait_until "[[ \$(arena_word ${job[$full]} state) == released ]]" 30
    let_go "${hogs[n1]}"
    ok "$full: trains when a node is free" trains "$full" 0 120
    is "$(node_of "${job[$full]}")" n1 "$full: on that node"
    moves=$(counted moves)   # since the reconfigure where that is a new slurmctld

    from=$(node_of "${job[$free]}")
    # Its ranks stand still until that was seen: a moment later it is in its next life.
    scancel --signal=STOP "${job[$free]}.0"
    ok "$free: says that $from is slow, and that it wants to leave" s4 "${job[$free]}" 0 "$from"
    ok "$free: AdminComment says so" wait_until "[[ \$(job_field ${job[$free]} AdminComment) == *'slow=$from/1:compute:x2.1'*' action=S4 lost=7s'* ]]" 10
    scancel --signal=CONT "${job[$free]}.0"
    ok "$full: wants to leave n1" s4 "${job[$full]}" 0 n1

    ok "$free: trains again" trains "$free" 1
    isnt "$(node_of "${job[$free]}")" "$from" "$free: elsewhere"
    ok "$free: the log says why" grep -q "JobId=${job[$free]} leaves $from: GPU 1 computes 2.1 times slower" "$log"
    like "$(extra_of "$from")" 'slow=1:compute:2.10 seen=1' "$free: its node is marked"
    like "$(job_field "${job[$free]}" AdminComment)" 'state=running' "$free: AdminComment is that of its new life"
    like "$(arena explain "${job[$free]}" 2>&1)" "$from: GPU 1 computes 2.1 times slower" "$free: arena explain says why it avoids $from"
    ok "$full: waits released, without its node" wait_until "[[ \$(arena_word ${job[$full]} state) == released && \$(job_field ${job[$full]} ExcNodeList) == n1 ]]" 90
    let_go "${hogs[n2]}"
    ok "$full: trains again" trains "$full" 1 120
    is "$(node_of "${job[$full]}")" n2 "$full: on the node that is free and not slow"
    is "$(counted moves)" $((moves + 2)) "$policy: arena stats counts both moves"
    is "$(job_field "${job[$free]}" Restarts)" 1 "$free: it was moved once"
    scancel "${job[$free]}" "${job[$full]}"
    for name in "$free" "$full"; do
        ok "$name: ends" wait_for_state "${job[$name]}" CANCELLED 60
        ok "$name: did every step once, in order" whole "$name"
    done
    let_go "${hogs[n3]}"
    take_back
done

# ---- promises: of the one that leaves, and of one that has a node held ------------------------------------
promises() { arena stats --json | jq -r ".promises.$1"; }
promised() { arena explain "$1" --json | jq -e "$2" >/dev/null; }
moved=$(train a40 --arena-gpus=2 --arena-elastic --arena-slowdown=mitigate)
ok "an elastic job starts in time for its promise" wait_started "$moved"
ok "and has it" promised "$moved" '.promise.ends_by_s > 0'
from=$(node_of "$moved")
read -r near far <<<"$(printf '%s\n' n1 n2 n3 | grep -v "$from" | xargs)"
soon=$(hog a40 2 -w "$near" --time=5)
ok "an ordinary job runs elsewhere, for minutes" wait_for_state "$soon" RUNNING
wide=$(train a40 --arena-gpus=4 --exclude="$from")
ok "a wide one is promised the two other nodes" wait_until 'promised $wide ".promise.ends_by_s > 0"'
kept=$(promises kept) broken=$(promises broken) slow=$(promises broken_by.slow_nodes)   # earlier moves may have broken some
ok "the elastic one wants to leave its node" s4 "$moved" 0 "$from"
ok "and does" wait_until '[[ $(job_state $moved) == PENDING && $(arena_word $moved state) =~ held|released ]]' 60
ok "nobody can keep the mover's own promise" wait_until 'promised $moved ".promise.slurm_start_s + 15 < now"' 30
ok "Arena plans again" wait_rounds l4
ok "and again" wait_rounds l4
is "$(starts "$moved") $(job_state "$wide")" "1 PENDING" "$far is free and held: who could not give way in time does not have it"
let_go "$soon"
ok "the wide one starts" wait_started "$wide"
ok "in time" wait_until "(( \$(promises kept) == $kept + 1 ))"
let_go "$wide"
ok "then the mover does" wait_started "$moved" 2
isnt "$(node_of "$moved")" "$from" "elsewhere"
ok "its own promise is broken" wait_until "(( \$(promises broken) == $broken + 1 ))"
is "$(promises broken_by.slow_nodes) $(promises kept)" "$((slow + 1)) $kept" "arena stats says by what, and counts it once"
like "$(arena history "$moved")" 'promise broken.*started again too late to end by .*: it has left a slow node' "arena history says why"
let_go "$moved"
take_back

# ---- it may not, or not so often -----------------------------------------------------------------------
rigid=$(train l4 --arena-slowdown=mitigate)
ok "one that is not elastic runs" wait_started "$rigid"
at=$(node_of "$rigid")
ok "it wants to leave" env SLURM_JOB_ID="$rigid" "$stage/bin/arena" slowdown report --at "$at/0" --cause compute --factor 3 --action S4 --onset "$(date +%s)"
ok "its node is marked" wait_until "[[ \$(extra_of $at) == *'slow=0:compute:3.00 seen=1'* ]]"
ok "arena explain says why it stays" wait_until "arena explain $rigid | grep -q 'but stays: it is not elastic'"
is "$(starts "$rigid")/$(job_state "$rigid")" 1/RUNNING "nothing was moved"
let_go "$rigid"
is "$(grep -c 'Arena is off' "$log")" 0 "Arena had no fault"
ok "no node is left drained" clean_nodes
done_testing
