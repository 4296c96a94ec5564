#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Policy arena moves jobs that really train: two of arena-train grow when a third job ends, and one gives way when a
# fourth comes. Each goes on from its checkpoint in another shape: no step is lost or done twice, and the losses are
# those of one rank.
# shellcheck disable=SC2016,SC2034,SC2317  # functions are called by ok, conditions evaluated by wait_until
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/arena.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/train.sh"
need_arena
need_mpi_in_slurm
command -v jq >/dev/null || skip_all 'jq is not installed'

# Nobody is moved before two jobs train.
start_arena --nodes a40:2x4 --arena-set policy=arena --arena-set resize.cooldown_s=3600 \
    --arena-set resize.moves_per_hour=12 --arena-set resize.checkpoint_grace_s=60
write_tiny_model "$work/tiny.yaml"
write_training_text "$work/text"
write_paced 1500
trainer=("$ARENA_BUILDDIR/arena-train" --device cpu --model "$work/tiny.yaml" --data "$work/text" --quiet)

# One life: keeps the checkpoint that it begins with, and writes a log of its own. Observed times stay out of it: eight
# ranks share this machine's cores, and four GPUs would be found slower than two.
cat >"$work/life" <<END
#!/bin/bash
cd $gates || exit 1
life=\${SLURM_RESTART_COUNT:-0} name=\$SLURM_JOB_NAME
mkdir -p "\$name.saved" "\$name.kept.\$life" "\$name.pmix"
last=\$(ls "\$name.saved" | tail -n 1)
[[ ! \$last ]] || cp "\$name.saved/\$last" "\$name.kept.\$life/"
export SLURM_PMIX_TMPDIR=$gates/\$name.pmix
exec srun --mpi=pmix $work/paced ${trainer[*]} --steps \$STEPS --checkpoint "\$name.saved" --log "\$name.log.\$life" --no-report
END
chmod 755 "$work/life"
learn() {   # learn NAME STEPS OPTIONS...
    local name=$1 steps=$2
    shift 2
    submit -J "$name" -o "$gates/$name.out" --open-mode=append --time=1-0 --export="ALL,STEPS=$steps" --arena-model="$work/tiny.yaml" \
        --arena-batch=64 --arena-launcher=arena-train --arena-types=a40 "$@" "$work/life"
}
logs_of() { find "$gates" -name "$1.log.*" | sort -V; }
all_losses() { local logs; mapfile -t logs < <(logs_of "$1") && losses "${logs[@]}"; }
# The ranks of the newest life, once they have done a step.
ranks_of() {
    local log
    log=$(logs_of "$1" | tail -n 1)
    if [[ $log ]] && grep -q '"loss"' "$log"; then jq -r 'select(has("ranks")).ranks' "$log"; else echo 0; fi
}
# Every step of all lives once and in order.
whole() { all_losses "$1" | awk '$1 != ++n { print $0 " is not step " n; exit bad = 1 } END { exit bad || n == 0 }'; }
# The first 20 losses of a life that went on from a checkpoint are those of one rank from there.
same_losses() {   # same_losses NAME LIFE
    local log=$gates/$1.log.$2 alone=$work/alone.$1.$2 first
    first=$(losses "$log" | awk 'NR == 1 { print $1 }')
    "${trainer[@]}" --global-batch 64 --steps $((first + 19)) --checkpoint "$gates/$1.kept.$2" --log "$alone" || return 1
    join <(losses "$log" | head -n 20 | sort) <(losses "$alone" | sort) |
        awk '{ d = $2 - $3; if (d > 1e-4 * $3 || d < -1e-4 * $3) { print; bad = 1 } } END { exit bad || NR == 0 }'
}

declare -A job
third=$(hog a40 4)
wedge=$(hog a40 2)
for id in "$third" "$wedge"; do wait_for_state "$id" RUNNING; done
elastic=(--arena-elastic --arena-gpus=1-4 --arena-steps=1000000)
job[one]=$(learn one 1000000000 "${elastic[@]}")
ok "one: trains on the two GPUs that are free" wait_until '[[ $(ranks_of one) == 2 ]]' 60
job[two]=$(learn two 1000000000 "${elastic[@]}")
# Seen by a round: else the first one has grown into what is for it.
ok "two: waits" wait_until '[[ $(arena_word "${job[two]}" state) =~ ^(held|released)$ ]]'
let_go "$wedge"
ok "two: trains on two GPUs when they are free" wait_until '[[ $(ranks_of two) == 2 ]]' 60
sed -i 's/cooldown_s: .*/cooldown_s: 5/' "$cluster_dir/arena.yaml" && scontrol reconfigure
let_go "$third"
for name in one two; do
    ok "$name: trains on four GPUs when the third job has ended" wait_until "[[ \$(ranks_of $name) == 4 ]]" 90
done
job[four]=$(learn four 1000000000 --arena-gpus=2 --time=60)
ok "four: trains on two GPUs" wait_until '[[ $(ranks_of four) == 2 ]]' 90
ok "one of the two gave way, and trains on two" wait_until '(($(ranks_of one) + $(ranks_of two) == 6))' 90
cancel() {
    scancel "${job[$1]}"
    ok "$1: is cancelled" wait_for_state "${job[$1]}" CANCELLED 60
}
cancel four
for name in one two; do
    ok "$name: trains on four GPUs at the end" wait_until "[[ \$(ranks_of $name) == 4 ]]" 90
done
# ---- what moves cost ------------------------------------------------------------------------------------
mover=one
(($(logs_of two | wc -l) <= $(logs_of one | wc -l))) || mover=two
move_of() { arena explain "${job[$mover]}" --json | jq -c ".move$1"; }
ok "$mover was moved most often, and its moves are measured" wait_until '[[ $(move_of ".took_s | length") -ge 2 ]]'
# Each took seconds. Nobody told of its start: the site's launch counts for that.
is "$(move_of ' | .cost_s < .site_s, .site_s' | xargs)" "true 70" "they cost less than arena.yaml says"
like "$(arena explain "${job[$mover]}")" 'A move costs it: [0-9]+ s, the median of what its last moves' "people read it"
iteration_s=$(arena explain "${job[$mover]}" --json | jq ".offers[.chosen].estimate.iteration_s")
trained() { arena report --job "${job[$mover]}" --iteration-s "$iteration_s" --steps 3 --trained-s "$1" 2>&1; }
like "$(trained 1e6; echo "exit $?")" '--trained-s: its first step cannot have been .*exit 2' "its first step cannot have been before its start"
took=$(move_of .took_s)
ok "it says that it has just done its first step" trained 0
ok "so its last move took another time" wait_until '[[ $(move_of .took_s) != "$took" ]]'
took=$(move_of .took_s)
ok "Slurm saves that" wait_saved
restart() { cluster ctld kill && cluster ctld start && cluster wait; }
ok "slurmctld is killed, and starts again" restart
ok "it knows what the moves took" wait_until '[[ $(move_of .took_s) == "$took" ]]' 60
for name in one two; do cancel "$name"; done
# ---- a life with moves on a page ------------------------------------------------------------------------
page=$work/life.html
ok "the history of one is a page, too" arena history "${job[one]}" --html "$page"
told() { arena history "${job[one]}" --json | jq "$1"; }
is "$(grep -c '<rect class="saves" x=' "$page")" "$(told '[.events[] | select(.state == "checkpointing")] | length')" \
    "each time that one saved its state to move is drawn"
is "$(grep -o '<text x="0"[^>]*>[0-9]*xa40 ' "$page" | sort -u | wc -l)" \
    "$(told '[.events[] | select(.state == "running").text | split(": ")[0]] | unique | length')" "with a row for each shape"
unlike "$(cat "$page")" '://|<script' "the page needs nobody"
mapfile -t logs < <(logs_of one; logs_of two)
# More where two grew, or gave way, in two steps.
ok "one and two had six lives, or a little more: one of them gave way to four and grew again: ${#logs[@]}" test "${#logs[@]}" -ge 6 -a "${#logs[@]}" -le 8 ||
    diag "moves:"$'\n'"$(grep -E 'arena: JobId=[0-9]+ (started|signalled|gives|held)|_job_complete.*WEXIT' "$cluster_dir/log/slurmctld.log" | cut -c13-130)"
like "$(jq -r 'select(has("ranks")).ranks' "${logs[@]}" | sort | uniq -c | xargs)" '^[34] 2 [34] 4$' "half of them on two GPUs and half on four"
for name in one two; do
    ok "$name: did every step of all its lives once, in order" whole "$name"
    last=$(all_losses "$name" | awk 'END { print $1 }')
    newest=$(find "$gates/$name.saved" -name 'step-*' | sort | tail -n 1)
    is "${newest##*/}" "$(printf 'step-%010d.arena' "$last")" "$name: its last step is in its checkpoint"
    while read -r log; do
        ok "$name: life ${log##*.} has the losses of one rank" same_losses "$name" "${log##*.}"
    done < <(logs_of "$name" | tail -n +2)
done
is "$(grep -c 'Arena is off' "$cluster_dir/log/slurmctld.log")" 0 "Arena had no fault"
ok "no node is left drained" clean_nodes
done_testing
