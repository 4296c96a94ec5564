# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# For job scripts under --arena-elastic, by eval "$(arena-args --elastic)", which prints this file: how the processes of a
# step hear the signal by which Arena tells the job to save its state and leave. It reaches all of them: what the ranks are
# started by must not die of it.
#   elastic_next CODE             ends the script with CODE, that of its step. Under --arena-elastic=inplace, of a step that
#                                 has saved because Arena has another plan for the job's own nodes, it waits for that plan,
#                                 exports it (ARENA_*, SLURM_*) and returns: while :; do srun ...; elastic_next $?; done
#   elastic_srun HOW COMMAND...   runs COMMAND in each task of the job, and ends the script with its exit code, or with the
#                                 requeue code where it has saved: the words of its launcher are read once. HOW:
#     own          COMMAND knows the signal itself, and how the job comes back
#     ranks        the ranks that COMMAND starts know it, and leave the file $ARENA_LEFT_FILE when they have saved
#     TERM         COMMAND saves on SIGTERM and ends with 0
#     ranks=TERM   so do the ranks that COMMAND starts
#     end          nobody does: COMMAND is ended, and the job goes on from its last checkpoint

# shellcheck disable=SC2016  # expands in the task
elastic_task='how=$1 signal=${ARENA_CHECKPOINT_SIGNAL:-USR1}
shift
[[ $how == own ]] || trap "" "$signal" # what it starts ignores it, too, until it says otherwise
case $how in own | ranks) exec "$@" ;; esac
# It begins when this shell hears the signal: one that came before would be lost.
exec {gate}<> <(:)
{ read -r <&"$gate"; exec {gate}<&-; exec "$@"; } &
command=$! told=0
tell() {
    trap "" "$signal"
    told=1
    if [[ $how != ranks=* ]]; then kill -TERM "$command"; return; fi
    local ranks
    mapfile -t ranks < <(cat "/proc/$command/task"/*/children | tr " " "\n" | grep .)
    ((${#ranks[@]} == 0)) || kill -TERM "${ranks[@]}"
}
trap "tell 2>/dev/null" "$signal"
echo >&"$gate"
wait "$command"
code=$?
if ((code > 128)); then wait "$command"; code=$?; fi # the signal had ended the first
if ((told && code == 0)) && [[ $how == *TERM ]]; then : >"$ARENA_LEFT_FILE"; fi
exit "$code"'

elastic_next() { # CODE
    local words
    [[ ${ARENA_PLAN_NUMBER-} && $1 == "${ARENA_REQUEUE_CODE:-99}" ]] || exit "$1"
    words=$(arena next) || exit "$1" # it is to leave its nodes
    eval "$words"
}

elastic_srun() { # HOW COMMAND...
    local code=0 saved='' left requeue=${ARENA_REQUEUE_CODE:-99}
    case $1 in
        own | ranks | TERM | ranks=TERM | end) ;;
        *) echo "elastic_srun: '$1' is not one of: own ranks TERM ranks=TERM end" >&2; exit 2 ;;
    esac
    # In a directory of the job's own: whoever may write to this one could leave a file of any name.
    left=$(mktemp -d "$PWD/.arena-left.XXXXXX") || exit 3
    export ARENA_LEFT_FILE=$left/saved
    srun bash -c "$elastic_task" _ "$@" || code=$?
    [[ ! -e $ARENA_LEFT_FILE ]] || saved=yes
    rm -rf "$left"
    # Of ranks that say it themselves it counts whatever their launcher ends with; else all tasks have to have saved.
    if [[ $saved ]] && { [[ $1 == ranks ]] || ((code == 0)); }; then exit "$requeue"; fi
    exit "$code"
}
