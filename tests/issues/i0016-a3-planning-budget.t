#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Twelve model files of 5 KB, 40 to 51 unlike kinds, 10,000 layers in all: planning one took 16 s of a
# round, all of them kept slurmctld from stopping for 245 s and `arena stats` from answering, and
# other users' jobs waited. `arena plan` of such a file took minutes.
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/arena.sh"
need_arena

# KINDS COUNT: a model of so many kinds of layers, so many of each
hostile_model() {
    echo "family: custom"
    echo "precision: bf16"
    echo "layers:"
    for ((i = 0; i < $1; i++)); do
        echo "- {count: $2, forward_flops: $((1 + i * 7 % 50))e9, parameter_bytes: $((1 + i * 11 % 40))e5," \
            "activation_bytes: $((1 + i * 3 % 20))e5, output_bytes: $((1 + i * 13 % 90))e4}"
    done
}

milliseconds() { # COMMAND...: how long it takes; its output is gone
    local begin=${EPOCHREALTIME/./}
    "$@" >/dev/null 2>&1
    echo $(((${EPOCHREALTIME/./} - begin) / 1000))
}

at_most() { (($1 <= $2 * patience)) || { echo "$1 ms, at most $2 (x $patience) wanted"; return 1; }; }
stat() { arena stats | sed -n "s/^$1  *\([0-9]*\).*/\1/p"; }

# ---- arena plan ----------------------------------------------------------------------------------
make_work
chmod 755 "$work"
for ((n = 40; n < 64; n++)); do hostile_model "$n" $((10000 / n)) >"$work/model$n.yaml"; done
arena=$stage/bin/arena
TIMEFORMAT='%3U %3S'
{ time "$arena" plan --model "$work/model50.yaml" --global-batch 720720 --gpu-type A100-SXM-80GB --gpus 1-32 >"$work/planned" 2>&1; } 2>"$work/took"
took=$(awk '{ printf "%.0f", 1000 * ($1 + $2) }' "$work/took") out=$(<"$work/planned")
note "arena plan: $took ms of the processor"
ok "arena plan of 50 kinds of 200 layers takes a second of the processor" at_most "$took" 1000
like "$out" 'Left out: .*the 0\.8 s of --budget-s were spent' "and says what it left out"
like "$out" 'Best: ' "and has found a plan"

# ---- in slurmctld --------------------------------------------------------------------------------
start_arena --nodes a100:4x8,ok:1x2,later:1x2 --hardware A100-SXM-80GB
submit_hostile() { # MODEL: by another user where there is one
    local words=(sbatch --parsable --time=60 -o /dev/null "--arena-model=$work/model$1.yaml" --arena-launcher=env --arena-batch=720720
        --arena-types=a100 --arena-gpus=1-32 "$work/trainer")
    if can_be_user; then as_user "${words[@]}"; else "${words[@]}"; fi
}
declare -a hostile
for ((n = 40; n < 52; n++)); do hostile+=("$(submit_hostile "$n")"); done
isnt "${hostile[*]}" "" "twelve of them are submitted"
ordinary=$(train ok)
answers=0
while ((answers < 10)) || { ((answers < 200)) && (($(stat planning.waiting) > 0)); }; do
    milliseconds arena stats >>"$work/stats.ms"
    ((answers++ > 2)) || milliseconds arena explain "${hostile[11]}" >>"$work/explain.ms"
done
# Nine of ten: this machine itself may stand still for seconds.
longest=$(sort -n "$work/stats.ms" | awk '{ ms[NR] = $1 } END { print ms[int(0.9 * NR)] }')
explained=$(sort -n "$work/explain.ms" | head -n 1)
note "arena stats: $answers answers, nine of ten after $longest ms at the most; arena explain after $explained ms"
ok "arena stats answers within a second, nine times of ten" at_most "$longest" 1000
ok "arena explain of a job that waits to be planned does, too" at_most "$explained" 1000
ok "an ordinary job is planned and started among them" wait_started "$ordinary"
note "$(arena stats | grep -E '^(round_ms|planning)')"
ok "rounds take less than half a second" at_most "$(stat round_ms.mean)" 500
ok "and none takes as long as a plan without a budget" at_most "$(stat round_ms.max)" 4000
ok "each of them is planned once" test "$(stat planning.made)" -le 14
like "$(arena explain "${hostile[0]}")" 'Left out: ' "explain says that not all was looked at"

# ---- stop ----------------------------------------------------------------------------------------
scancel "${hostile[@]}"
for ((n = 52; n < 64; n++)); do submit_hostile "$n" >"$work/last"; done
ok "others wait to be planned" wait_until '(( $(stat planning.waiting) > 0 ))'
wait_for_reason "$(<"$work/last")" 'Arena: waits to be planned' >/dev/null && pass "and say so" || fail "and say so" "$(job_reason "$(<"$work/last")")"
busy=$(milliseconds cluster ctld stop)
cluster ctld start >/dev/null
wait_until 'scontrol ping | grep -q UP'
scancel --me 2>/dev/null
scancel -u "$arena_user" 2>/dev/null
wait_until '[[ ! $(squeue -h -t PD) ]]'
idle=$(milliseconds cluster ctld stop)
note "slurmctld stops in $busy ms while models are planned, in $idle ms without"
ok "slurmctld stops within seconds of what it takes without them" at_most $((busy - idle)) 3000
cluster ctld start >/dev/null
wait_until 'scontrol ping | grep -q UP'
later=$(train later)
ok "jobs start after it" wait_started "$later" 1 40
done_testing
