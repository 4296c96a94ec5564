#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Policy arena in a real Slurm: elastic jobs grow when others end and give way when others come, each going
# on from its checkpoint; then 200 random submissions, cancellations, wishes, holds and drains, and no job is lost.
# shellcheck disable=SC2016,SC2317  # functions are called by ok, conditions evaluated by wait_until
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/arena.sh"
need_arena

# A signal that comes before the script has said what to do with it ends the script, or is lost: the
# cool-down is there for that, too.
start_arena --nodes a40:2x4,a100:2x2 --arena-set policy=arena --arena-set resize.cooldown_s=15 \
    --arena-set resize.moves_per_hour=12

# A training job in small: numbers its steps in $NAME.log, saves the number when told to, goes on from it.
# Ends after STEPS steps, or without that at the gate $NAME.end.
cat >"$work/walker" <<END
#!/bin/bash
cd $gates || exit 1
END
cat >>"$work/walker" <<'END'
name=$SLURM_JOB_NAME step=0 told=''
trap 'told=1' USR1
[[ ! -e $name.saved ]] || step=$(<"$name.saved")
echo "start ${SLURM_RESTART_COUNT:-0} at $step on $SLURM_NTASKS" >>"$name.log"
exec {never}<> <(:)
until [[ -e $name.end ]] || ((STEPS > 0 && step >= STEPS)); do
    if [[ $told ]]; then echo "$step" >"$name.new" && mv "$name.new" "$name.saved" && exit 99; fi
    step=$((step + 1))
    echo "step $step" >>"$name.log"
    read -rt 0.1 -u "$never"
done
echo "end at $step" >>"$name.log"
END
chmod 755 "$work/walker"
walk() {   # walk NAME STEPS OPTIONS...
    local name=$1 steps=$2
    shift 2
    submit -J "$name" -o /dev/null --time=1-0 --export="ALL,STEPS=$steps" --arena-model=gpt2 --arena-batch=64 --arena-launcher=env "$@" "$work/walker"
}
gpus_of() { awk '/^start/ { n = $NF } END { print n + 0 }' "$gates/$1.log" 2>/dev/null; }
# Every step once and in order, whatever happened between.
whole() { awk '$1 == "step" && $2 != ++n { bad = 1; print FILENAME ": " $0 " is not step " n } END { exit bad }' "$gates/$1.log"; }

# ---- grow and give way ---------------------------------------------------------------------------
declare -A job
third=$(hog a40 4)
wedge=$(hog a40 2)
for id in "$third" "$wedge"; do wait_for_state "$id" RUNNING; done
elastic=(--arena-elastic --arena-types=a40 --arena-gpus=1-4 --arena-steps=1000000)
job[one]=$(walk one 0 "${elastic[@]}")
ok "one: starts on the two GPUs that are free" wait_until '[[ $(gpus_of one) == 2 ]]'
job[two]=$(walk two 0 "${elastic[@]}")
ok "two: waits" wait_for_reason "${job[two]}" '^(Arena: waits for|Resources|Priority)'
let_go "$wedge"
ok "two: starts on two GPUs when they are free" wait_until '[[ $(gpus_of two) == 2 ]]'
is "$(gpus_of one)" 2 "one: still has two"
let_go "$third"
for name in one two; do
    ok "$name: grows to four GPUs when a third job ends" wait_until "[[ \$(gpus_of $name) == 4 ]]" 40
done
job[four]=$(walk four 0 --arena-types=a40 --arena-gpus=2 --time=60)
ok "four: starts on two GPUs" wait_until '[[ $(gpus_of four) == 2 ]]' 40
ok "one of the two gives way, and goes on with two" wait_until '(($(gpus_of one) + $(gpus_of two) == 6))' 40
touch "$gates/four.end"
ok "four: completes" wait_for_state "${job[four]}" COMPLETED
for name in one two; do ok "$name: grows back" wait_until "[[ \$(gpus_of $name) == 4 ]]" 40; done
ordinary=$(hog a40 2)
ok "Slurm starts an ordinary job: one of the two gives way" wait_for_state "$ordinary" RUNNING 60
ok "and goes on with two" wait_until '(($(gpus_of one) + $(gpus_of two) == 6))' 40
let_go "$ordinary"
for name in one two; do
    ok "$name: grows again" wait_until "[[ \$(gpus_of $name) == 4 ]]" 40
    touch "$gates/$name.end"
    ok "$name: completes" wait_for_state "${job[$name]}" COMPLETED
    ok "$name: did every step once, in order" whole "$name"
    like "$(job_field "${job[$name]}" Restarts)" '^[1-9]$' "$name: in more than one life"
    is "$(awk '$1 == "start" && $2 != n++ { print }' "$gates/$name.log")" "" "$name: each life began once"
done
like "$(grep -c 'gives way to' "$cluster_dir/log/slurmctld.log")" '^[1-9]' "slurmctld's log says why"

# ---- 200 random events ---------------------------------------------------------------------------
seed=${ARENA_TEST_SEED:-7}
note "seed $seed (ARENA_TEST_SEED)"
RANDOM=$seed
declare -A ours cancelled
names=()
pick() { ((${#names[@]})) && picked=${names[RANDOM % ${#names[@]}]}; }
event() {
    local kind=$((RANDOM % 20)) low options picked
    case $kind in
        [0-7])
            low=$((RANDOM % 3 + 1))
            options=(--arena-gpus="$low-$((low + RANDOM % 3))" --arena-steps=$((RANDOM % 2000 + 1)))
            ((RANDOM % 2)) && options+=(--arena-elastic)
            ((RANDOM % 3)) || options+=(--arena-types=a40)
            ((${#names[@]} < 50)) || return 0
            ours[job$1]=$(walk "job$1" $((RANDOM % 80 + 1)) "${options[@]}") || { echo "${ours[job$1]}"; return 1; }
            names+=("job$1") ;;
        8 | 9) pick && scancel "${ours[$picked]}" 2>/dev/null && cancelled[$picked]=1 ;;
        10 | 11) pick && scontrol update JobId="${ours[$picked]}" Comment="arena:gpus=$((RANDOM % 2 + 1))-4" 2>/dev/null ;;
        12 | 13) pick && scontrol hold "${ours[$picked]}" 2>/dev/null ;;
        14 | 15) pick && scontrol release "${ours[$picked]}" 2>/dev/null ;;
        16 | 17) scontrol update NodeName="n$((RANDOM % 4 + 1))" State=DRAIN Reason=test ;;
        *) scontrol update NodeName="n$((RANDOM % 4 + 1))" State=RESUME 2>/dev/null ;;
    esac
    return 0
}
all_events() { local i; for ((i = 0; i < 200; i++)); do event $i || return 1; sleep 0.05; done; }
all_events   # not under ok: it notes what it does
is $? 0 "200 random events"
scontrol update NodeName=n[1-4] State=RESUME 2>/dev/null
settle() {   # whoever is held, by whatever event, is released until all are over
    local held
    held=$(squeue -h -t PD -o '%i %r' | awk '$2 == "JobHeldUser" || $2 == "JobHeldAdmin" || $2 == "(JobHeldAdmin)" { print $1 }')
    [[ ! $held ]] || scontrol release "${held//$'\n'/,}" 2>/dev/null
    [[ ! $(squeue -h -t PD,R,CG,CF -o %i) ]]
}
ok "all jobs end" wait_until settle 100
lost=''
for name in "${names[@]}"; do
    state=$(job_state "${ours[$name]}")
    [[ $state == COMPLETED ]] || [[ $state == CANCELLED && ${cancelled[$name]-} ]] || lost+=" $name(${ours[$name]}):${state:-gone}"
    [[ $state != COMPLETED ]] || whole "$name" || lost+=" $name:steps"
done
is "$lost" "" "each of ${#names[@]} jobs completed with all its steps, or was cancelled by its user"
is "$(grep -c 'Arena is off' "$cluster_dir/log/slurmctld.log")" 0 "Arena had no fault"
ok "no node is left drained" clean_nodes

done_testing
