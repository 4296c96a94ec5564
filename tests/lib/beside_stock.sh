# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The same jobs on a stock Slurm and under Arena, in lock step: jobs run until they are told to end, and after each
# event what runs is asked for once the scheduler has looked at all that wait. Source it after arena.sh.
#   start_play KIND OPTIONS...     a cluster of kind `stock` or another, which is Arena's, with a node of one A100 beside
#                                  the A40s of the play; job ids are in ${job[NAME]}
#   ask NAME GPUS MINUTES OPTIONS...   a job of that many A40s, of one node or of whole ones of four
#   end_of NAME                    it ends, after the scheduler has looked at all that were asked for before
#   settle                         until the scheduler has looked at all of them once more
#   running                        names of those that run, sorted
#   now_run NAMES WHAT             it has looked, and these run
#   none_left                      all are cancelled and gone
: "${work=}" "${kind=}"
declare -A job
unseen='' # yes: a job was asked for since the scheduler has looked

ask() {
    local name=$1 gpus=$2 minutes=$3
    shift 3
    unseen=yes
    if [[ $kind == stock ]]; then
        job[$name]=$(submit -J "$name" --time="$minutes" -o /dev/null -N $(((gpus + 3) / 4)) \
            --gres=gpu:a40:$((gpus < 4 ? gpus : 4)) "$@" "$work/trainer")
    else
        job[$name]=$(train a40 -J "$name" --time="$minutes" --arena-gpus="$gpus" "$@")
    fi
}
end_of() { { [[ ! $unseen ]] || settle; } && let_go "${job[$1]}" && wait_for_state "${job[$1]}" COMPLETED; }
cycles() { sdiag | awk '/Total cycles:/ { if (least == "" || $3 < least) least = $3 } END { print least }'; }
settle() {
    if [[ $kind == stock ]]; then
        local before
        before=$(cycles)
        submit -J poke -o /dev/null --gres=gpu:a100:1 --wrap true >/dev/null
        wait_until "((\$(cycles) >= $before + 2)) || [[ ! \$(squeue -h -t PD) ]]" 60
    else
        wait_rounds a100 && wait_rounds a100
    fi && unseen=''
}
running() { squeue -h -t R -p main,high -o %j | grep -vE 'poke|probe' | sort | xargs; }
now_run() {
    ok "$kind: the scheduler has looked" settle
    is "$(running)" "$1" "$kind: $2"
}
# One that has just left with the requeue code comes back after Slurm has refused to cancel it.
# shellcheck disable=SC2016  # evaluated by wait_until
none_left() { wait_until 'scancel -u root; [[ ! $(squeue -h -t PD,R,CG) ]]' 90; }

start_play() {
    kind=$1
    shift
    rm -rf "${work:?}/gates" "$work/cluster"
    [[ $kind != stock ]] || set -- --arena off "$@"
    start_arena "$@"
}
