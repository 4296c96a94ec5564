#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Somebody interferes with an Arena job at every stage of its life: one row per stage and action says
# what must come of it. Cancelled jobs never come back, holds last until the right person releases
# them, a requeue gets a new plan, and no node is left drained.
# shellcheck disable=SC2317  # functions are called by ok
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/arena.sh"
need_arena

# stage       held: others wait before it; waiting: released with a reservation; starting: its Prolog
#             runs; checkpointing: signalled; completing: ended, its Epilog runs; requeued: the same
#             after a requeue
# action      rq = scontrol requeue, rqhold = scontrol requeuehold, uhold = scontrol uhold, ahold =
#             scontrol hold by an administrator, limit = scontrol update TimeLimit; one after the other:
#             uholdrq, aholdrq = hold and requeue, uholdcan, aholdcan = hold and cancel. A hold of a run
#             that goes on (completed) is released too, by the right person
# comes of it cancelled | completed | user = held until released | admin = the same, and its user cannot
# starts      how often the script starts in all
read -r -d '' table <<'END'
held          cancel  cancelled 0
held          rq      completed 1
held          uhold   user      1
held          ahold   admin     1
held          release completed 1
held          limit   completed 1
held          aholdcan cancelled 0
waiting       cancel  cancelled 0
waiting       rq      completed 1
waiting       uhold   user      1
waiting       ahold   admin     1
waiting       release completed 1
waiting       limit   completed 1
waiting       uholdcan cancelled 0
starting      cancel  cancelled 0
starting      rq      completed 1
starting      rqhold  user      1
starting      uhold   completed 1
starting      ahold   completed 1
starting      uholdrq user      1
starting      aholdrq admin     1
starting      aholdcan cancelled 0
starting      release completed 1
starting      limit   completed 1
running       cancel  cancelled 1
running       rq      completed 2
running       rqhold  user      2
running       uhold   completed 1
running       ahold   completed 1
running       uholdrq user      2
running       aholdrq admin     2
running       uholdcan cancelled 1
running       release completed 1
running       limit   completed 1
checkpointing cancel  cancelled 1
checkpointing rq      completed 2
checkpointing rqhold  user      2
checkpointing uhold   user      2
checkpointing ahold   admin     2
checkpointing release completed 2
checkpointing limit   completed 2
completing    cancel  completed 1
completing    rq      completed 2
completing    rqhold  user      2
completing    uhold   completed 1
completing    ahold   completed 1
completing    release completed 1
completing    limit   completed 1
requeued      cancel  cancelled 1
requeued      rq      completed 2
requeued      uhold   user      2
requeued      ahold   admin     2
requeued      release completed 2
requeued      limit   completed 2
requeued      aholdcan cancelled 1
END
mapfile -t rows <<<"$table"

# ---- one GPU type, one node and one job per row --------------------------------------------------
nodes=''
declare -a at action outcome wanted job hog_of first_of
for i in "${!rows[@]}"; do
    read -r "at[i]" "action[i]" "outcome[i]" "wanted[i]" <<<"${rows[i]}"
    nodes+="${nodes:+,}${at[i]}_${action[i]}:1x2"
done
node_of() { echo "n$(($1 + 1))"; }
type_of() { echo "${at[$1]}_${action[$1]}"; }
each() {   # each STAGE|all: the rows of a stage
    local i
    for i in "${!rows[@]}"; do [[ $1 != all && ${at[i]} != "$1" ]] || echo "$i"; done
}

make_work
gate_hooks
start_arena --nodes "$nodes,probe:1x1" --arena-set resize.checkpoint_grace_s=600 \
    "${hook_options[@]}"

# ---- to the stage --------------------------------------------------------------------------------
submitter() { if [[ ${action[$1]} == ahold* ]] && can_be_user; then as_user "${@:2}"; else "${@:2}"; fi; }
as_owner() { submitter "$@"; }
sbatch_as() {   # sbatch_as ROW OPTIONS...: an Arena job for the row's type, by its owner
    local i=$1
    shift
    as_owner "$i" sbatch --parsable --time=60 -o /dev/null --chdir=/ --arena-model=gpt2 --arena-launcher=env --arena-batch=64 \
        --arena-types="$(type_of "$i")" "$@" "$work/trainer"
}

for i in $(each starting); do touch "$gates/prolog.$(node_of "$i")"; done
for i in $(each held) $(each waiting); do hog_of[i]=$(hog "$(type_of "$i")" 2); done
for i in $(each held) $(each waiting); do wait_for_state "${hog_of[i]}" RUNNING; done
for i in $(each held); do first_of[i]=$(sbatch_as "$i"); done
for i in $(each all); do
    options=() mode=none
    [[ ${at[i]} != checkpointing ]] || options=(--arena-elastic --arena-gpus=2) mode=steps
    # Not by --export: with more than ALL the node asks the user's login shell for its environment, and nobody has none.
    job[i]=$(MODE=$mode sbatch_as "$i" "${options[@]}") || BAIL_OUT "${rows[i]}: ${job[i]}"
done
for i in $(each checkpointing); do touch "$gates/${job[i]}.deaf"; done
for i in $(each running) $(each checkpointing) $(each completing) $(each requeued); do wait_started "${job[i]}"; done
for i in $(each checkpointing); do
    wait_ranks "${job[i]}" 2
    as_owner "$i" scontrol update JobId="${job[i]}" Comment=arena:gpus=1
done
for i in $(each completing) $(each requeued); do touch "$gates/epilog.$(node_of "$i")"; done
for i in $(each completing); do let_go "${job[i]}" 0 0; done
for i in $(each requeued); do scontrol requeue "${job[i]}"; done

at_stage() {
    case ${at[$1]} in
        held) wait_until "[[ \$(arena_word ${first_of[$1]} state) == released ]]" &&
            wait_for_reason "${job[$1]}" '^Arena: waits for' ;;
        waiting) wait_until "[[ \$(arena_word ${job[$1]} state) == released ]]" ;;
        starting) wait_for_state "${job[$1]}" 'CONFIGURING|RUNNING' ;;
        running) wait_for_state "${job[$1]}" RUNNING ;;
        checkpointing) wait_until "[[ -e '$gates/${job[$1]}.signals' ]]" ;;
        completing | requeued) wait_for_state "${job[$1]}" COMPLETING ;;
    esac
}
for i in $(each all); do ok "${at[i]}, ${action[i]}: the job gets to this stage" at_stage "$i"; done

# ---- the action ----------------------------------------------------------------------------------
# Whether Slurm takes it is Slurm's to say (a pending job cannot be requeued); what comes of it is ours.
act() {
    local id=${job[$1]}
    case ${action[$1]} in
        uholdrq) scontrol uhold "$id" && scontrol requeue "$id" ;;
        aholdrq) scontrol hold "$id" && scontrol requeue "$id" ;;
        uholdcan) scontrol uhold "$id" && scancel "$id" ;;
        aholdcan) scontrol hold "$id" && scancel "$id" ;;
        cancel) scancel "$id" ;;
        rq) scontrol requeue "$id" ;;
        rqhold) scontrol requeuehold "$id" ;;
        uhold) scontrol uhold "$id" ;;
        ahold) scontrol hold "$id" ;;
        release) as_owner "$1" scontrol release "$id" ;;
        limit) scontrol update JobId="$id" TimeLimit=47 ;;
    esac 2>&1
}
for i in $(each all); do note "${at[i]} ${action[i]} JobId=${job[i]}: $(act "$i")"; done
ok "rounds go on" wait_rounds probe

# A run that is held goes on; the hold is for the job's next life. A job that is over takes neither.
release_run() {
    local name="${at[$1]}, ${action[$1]}"
    if [[ ${at[$1]} == completing ]]; then
        not_ok "$name: nobody can release a job that is over" scontrol release "${job[$1]}"
        return
    fi
    if [[ ${action[$1]} == ahold ]] && can_be_user; then
        not_ok "$name: its user cannot release it" as_owner "$1" scontrol release "${job[$1]}"
    fi
    ok "$name: the right person releases it" scontrol release "${job[$1]}"
}
for i in $(each all); do
    [[ ${action[i]} != [ua]hold || ${outcome[i]} != completed ]] || release_run "$i"
done
for i in $(each held) $(each waiting); do
    is "$(starts "${job[i]}")" 0 "${at[i]}, ${action[i]}: nothing starts while the GPUs are taken"
done

# ---- let everything go on ------------------------------------------------------------------------
for i in $(each held); do scancel "${first_of[i]}"; done
for i in $(each held) $(each waiting); do let_go "${hog_of[i]}"; done
for i in $(each checkpointing); do
    rm "$gates/${job[i]}.deaf"
    [[ ${action[i]} == cancel || ${action[i]} == rq* ]] || let_go "${job[i]}" 99 0
done
rm -f "$gates"/prolog.* "$gates"/epilog.*

still_held() {
    local reason='JobHeldUser|job requeued in held state'
    [[ ${outcome[$1]} != admin ]] || reason=JobHeldAdmin
    wait_for_reason "${job[$1]}" "^($reason)\$"
}
for i in $(each all); do
    [[ ${outcome[i]} == user || ${outcome[i]} == admin ]] || continue
    ok "${at[i]}, ${action[i]}: the job is held" still_held "$i"
done
ok "rounds go on" wait_rounds probe
for i in $(each all); do
    [[ ${outcome[i]} == user || ${outcome[i]} == admin ]] || continue
    is "$(starts "${job[i]}")" $((wanted[i] - 1)) "${at[i]}, ${action[i]}: it has not started again"
    if [[ ${outcome[i]} == admin ]] && can_be_user; then
        as_owner "$i" scontrol release "${job[i]}" >/dev/null 2>&1
        ok "${at[i]}, ${action[i]}: its user cannot release it" still_held "$i"
    fi
    ok "${at[i]}, ${action[i]}: the right person releases it" scontrol release "${job[i]}"
done

# ---- what comes of it ----------------------------------------------------------------------------
finish() {
    local id=${job[$1]} end=COMPLETED
    [[ ${outcome[$1]} != cancelled ]] || end=CANCELLED
    [[ $end == CANCELLED ]] || wait_started "$id" "${wanted[$1]}" 40 || return
    let_go "$id"
    wait_for_state "$id" "$end"
}
for i in $(each all); do ok "${at[i]}, ${action[i]}: ends as ${outcome[i]}" finish "$i"; done
ok "rounds go on" wait_rounds probe
for i in $(each all); do
    is "$(starts "${job[i]}")" "${wanted[i]}" "${at[i]}, ${action[i]}: it started ${wanted[i]} times in all"
    [[ ${outcome[i]} == cancelled ]] &&
        is "$(job_state "${job[i]}")" CANCELLED "${at[i]}, ${action[i]}: it stays cancelled"
    [[ ${action[i]} == limit && ${at[i]} != completing ]] &&
        is "$(job_field "${job[i]}" TimeLimit)" 00:47:00 "${at[i]}, ${action[i]}: the time limit is the new one"
    [[ ${at[i]} == checkpointing && ${wanted[i]} == 2 ]] &&
        is "$(last_start "${job[i]}")" "1 1 1 1" "${at[i]}, ${action[i]}: its next life has the new plan"
    [[ ${outcome[i]} == cancelled || ${at[i]} == checkpointing ]] ||
        like "$(last_start "${job[i]}")" '^[01] 2 1 2$' "${at[i]}, ${action[i]}: it ran with a plan for two GPUs"
done
ok "no node is left drained" clean_nodes
is "$(squeue -h -a -o %i | wc -l)" 0 "no job is left"

# ---- cancelled for good --------------------------------------------------------------------------
restart() { wait_saved && cluster ctld kill && cluster ctld start && cluster wait; }
ok "slurmctld is killed and starts again" restart
ok "rounds go on" wait_rounds probe
for i in $(each all); do
    [[ ${outcome[i]} == cancelled ]] || continue
    is "$(job_state "${job[i]}") $(starts "${job[i]}")" "CANCELLED ${wanted[i]}" \
        "${at[i]}, ${action[i]}: it is cancelled for good"
done

done_testing
