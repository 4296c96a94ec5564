# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Black-box tests of the scheduler plug-in: jobs that wait at a gate, and what Arena says about them.
# Source it after cluster.sh. A cluster may have one GPU type per case, so that many cases run at once.
#   start_arena [OPTIONS...]     a cluster with our plug-ins, no profiling; makes $gates
#   train TYPE [OPTIONS...]      submits an Arena job for that GPU type, of any plan (launcher env), prints its
#                                id; its script notes each start in $gates/JOB.starts and runs until `let_go JOB`
#   hog TYPE GPUS [OPTIONS...]   submits an ordinary job that takes GPUs of a type, prints its id
#   let_go JOB [CODE] [LIFE]     the job's script ends with this exit code (default 0), in that life only
#   starts JOB                   how often the script started
#   last_start JOB               "RESTART_COUNT NTASKS NODES GPUS_PER_NODE" of the newest start
#   arena_word JOB WORD          the value of WORD=value in AdminComment
#   wait_rounds TYPE             until Arena has planned, started and seen the end of another job
#   wait_ranks JOB N             until N processes of a MODE=steps job are ready for the checkpoint signal: the
#                                step is there before they are, and a signal would end them
#   gate_hooks                   Prolog and Epilog that wait while $gates/prolog.NODE or epilog.NODE is there;
#                                $hook_options has the options of start_arena for them
#   wait_started JOB [N] [LIMIT] until the script has started N times (default 1)
#   extra_of NODE                what Slurm has in its Extra
#   clean_nodes                  succeeds when no node is drained, down or failing
#   need_accounting              skips the whole test, with the reason, where no user's limits can be tested
#   as_user COMMAND...           runs it as an unprivileged user (only where can_be_user succeeds)
: "${work=}"        # of cluster.sh
gates=''
hook_options=()
arena_user=${ARENA_TEST_USER:-nobody}

need_accounting() {
    local program
    [[ ${ARENA_TEST_USER-} ]] || arena_user=daemon   # since 26.05 Slurm knows no association of nobody's
    can_be_user || skip_all "needs root and a user $arena_user: operators have no limits"
    for program in mariadbd slurmdbd sacctmgr; do
        command -v "$program" >/dev/null || skip_all "$program is not installed (contrib/install-deps)"
    done
}

start_arena() {
    make_work
    gates=$work/gates
    mkdir -m 1777 "$gates"
    write_trainer
    start_cluster --arena on --profile off "$@"
    cd "$work" || BAIL_OUT "no $work"
}

# The gate is a file that is polled: nothing else reaches a job on every kind of node. MODE=steps: the
# job's work is in a step, which is what gets the checkpoint signal.
write_trainer() {
    printf '#!/bin/bash\ngates=%q\n' "$gates" >"$work/trainer"
    cat >>"$work/trainer" <<'END'
job=${SLURM_JOB_ID:?}
cd "$gates"
if [[ ${1-} == rank ]]; then
    trap 'echo "signal" >>"$job.signals"; [[ -e $job.deaf ]] || exit 99' USR1
    echo "${SLURM_RESTART_COUNT:-0}" >>"$job.ranks"
else
    env | grep '^ARENA_' >"$job.env.${SLURM_RESTART_COUNT:-0}"   # before what tests wait for
    echo "${SLURM_RESTART_COUNT:-0} ${SLURM_NTASKS-} ${SLURM_JOB_NUM_NODES-} ${SLURM_GPUS_ON_NODE-} $SLURM_JOB_NODELIST $(date +%s)" >>"$job.starts"
    if [[ ${MODE-} == steps ]]; then srun "$gates/../trainer" rank; exit; fi
    trap 'echo "signal" >>"$job.signals"; [[ -e $job.deaf ]] || exit 99' USR1
fi
[[ ! -e $job.stubborn ]] || trap '' TERM
exec {never}<> <(:)   # a wait without a process each time
until [[ -e $job.go || -e $job.go.${SLURM_RESTART_COUNT:-0} ]]; do read -rt 0.3 -u "$never"; done
[[ ! -e $job.go.${SLURM_RESTART_COUNT:-0} ]] || exit "$(<"$job.go.${SLURM_RESTART_COUNT:-0}")"
exit "$(<"$job.go")"
END
    chmod 755 "$work/trainer"
}

train() {
    local type=$1
    shift
    submit --time=60 -o /dev/null --arena-model=gpt2 --arena-batch=64 --arena-launcher=env --arena-types="$type" "$@" "$work/trainer"
}

hog() {
    local type=$1 gpus=$2
    shift 2
    submit --time=60 -o /dev/null -J hog --gres="gpu:$type:$gpus" "$@" "$work/trainer"
}

# $gates is anybody's: nothing is written through a name there.
let_go() { echo "${2:-0}" >"$work/.go.$1" && mv -T "$work/.go.$1" "$gates/$1.go${3+.$3}"; }
starts() { if [[ -e $gates/$1.starts ]]; then wc -l <"$gates/$1.starts"; else echo 0; fi; }
last_start() { tail -n 1 "$gates/$1.starts" 2>/dev/null | cut -d' ' -f1-4; }
arena_word() { job_field "$1" AdminComment | tr ' ' '\n' | sed -n "s/^$2=//p"; }

wait_started() {
    wait_until "(( \$(starts $1) >= ${2:-1} ))" "${3:-20}" && return
    echo "job $1 started $(starts "$1") times, not ${2:-1}: it is $(job_state "$1") ($(job_reason "$1"))"
    return 1
}

wait_ranks() { wait_until "[[ -e $gates/$1.ranks ]] && (( \$(wc -l <$gates/$1.ranks) >= $2 ))"; }

# Less than PrologEpilogTimeout of the private cluster: a hook that is killed drains its node.
gate_hooks() {
    local hook
    for hook in prolog epilog; do
        cat >"$work/$hook" <<END
#!/bin/bash
cd $work/gates || exit 0
while [[ -e $hook.\$SLURMD_NODENAME ]] && ((SECONDS < 900)); do sleep 0.1; done
exit 0
END
        chmod 755 "$work/$hook"
        hook_options+=(--conf-extra "${hook^}=$work/$hook")
    done
}

wait_rounds() {
    local probe
    probe=$(submit --time=10 -o /dev/null -J probe --arena-model=gpt2 --arena-launcher=env --arena-batch=64 --arena-types="$1" --wrap true)
    wait_for_state "$probe" COMPLETED 30
}

# A node that has missed a ping comes back; a drained one does not.
bad_nodes() { sinfo -h -N -o '%N %T %E' | grep -E '^[^ ]+ [^ ]*(drain|down|fail|unknown|\*)'; }
# shellcheck disable=SC2016  # evaluated by wait_until
clean_nodes() { wait_until '[[ ! $(bad_nodes) ]]' 10 || { bad_nodes; return 1; }; }

extra_of() { scontrol show node "$1" | sed -n 's/^ *Extra=//p'; }

can_be_user() { ((EUID == 0)) && id "$arena_user" >/dev/null 2>&1; }
as_user() { runuser -u "$arena_user" -- "$@"; }
