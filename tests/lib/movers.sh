# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Elastic jobs that are moved again and again by their owner's wish for one GPU or two, for tests/issues/i0035-a1 and
# tests/soak/moves. Source it after cluster.sh and train.sh. What a job runs is the job script of contrib/launchers by that name with a
# small trainer in the framework's place, or one of those that know no signal: loop, plain, agent, shell.
#   write_movers                 the scripts, the frameworks' commands and the trainer, below $work/movers
#   move_job KIND TYPE [OPTIONS] submits one on two GPUs of that type, prints its id
#   ranks_up KIND JOB LIFE       waits until all processes of that life are ready for the signal
#   move_once KIND JOB MOVE      wishes for the other number of GPUs, waits for its next life
#   step_of JOB                  the training step that its last life began with
: "${work=}" "${launchers:=$ARENA_SRCDIR/contrib/launchers}"
# shellcheck disable=SC2034  # the test's
unknowing=(loop plain agent shell piped) knowing=(tee accelerate hf-trainer lightning deepspeed nemo torchtitan)

write_movers() {
    mkdir -p "$work/movers/bin"
    mkdir -m 1777 "$work/movers/state"
    cd "$work/movers" || BAIL_OUT "no $work/movers"
    # As torch.distributed.run: dies of a signal that it does not know, hands SIGTERM on, ends with 1 for any rank's failure.
    cat >bin/torchrun <<'END'
#!/usr/bin/python3
import os, signal, subprocess, sys
words = [w for w in sys.argv[1:] if not w.startswith(("--nnodes", "--nproc", "--rdzv", "--node_rank", "--master"))]
rank = subprocess.Popen([os.environ["MOVER_TRAINER"]] + words)
def leave(*_):
    rank.terminate()
    rank.wait(30)
    sys.exit(1)
signal.signal(signal.SIGTERM, leave)
sys.exit(1 if rank.wait() else 0)
END
    # Knows the signals that MOVER_KNOWS names; a step each 50 ms. It has saved when it says so.
    cat >bin/trainer <<'END'
#!/usr/bin/python3
import os, signal, subprocess, sys, time
job, life = os.environ["SLURM_JOB_ID"], os.environ.get("SLURM_RESTART_COUNT", "0")
base = os.environ["MOVER_STATE"] + "/" + job
knows = os.environ.get("MOVER_KNOWS", "")
told = []
if knows:
    signal.signal(getattr(signal, "SIG" + knows.split("-")[0]), lambda *_: told.append(1))
step = int(open(base + ".saved").read()) if os.path.exists(base + ".saved") else 0
rank = os.environ.get("SLURM_PROCID", "0")
if rank == "0":
    print(step, file=open(base + ".began", "w"), flush=True)
open("%s.up.%s.%s" % (base, life, rank), "w").close()
while not told:
    time.sleep(0.05)
    step += 1
if rank == "0":
    new = base + ".saved.new"
    print(step, file=open(new, "w"), flush=True)
    os.rename(new, base + ".saved")
if knows == "USR1-requeue":  # as Lightning
    if rank == "0":
        subprocess.call(["scontrol", "requeue", job])
    time.sleep(60)
if knows == "USR1":
    if os.environ.get("ARENA_LEFT_FILE"):
        open(os.environ["ARENA_LEFT_FILE"], "w").close()
    sys.exit(99)
END
    printf '#!/bin/bash\nexec torchrun train.py\n' >bin/accelerate
    # shellcheck disable=SC2016  # expands in the jobs, here and below
    printf '#!/bin/bash\nexec "$MOVER_TRAINER"\n' | tee bin/nemo >bin/python
    chmod 755 bin/*
    echo '{}' >settings.json
    write_tiny_model tiny.yaml && sed -i 's/fp32/bf16/' tiny.yaml   # what every framework has a word for
    cat >loop <<'END'
#!/bin/bash
srun bash -c ': >"$MOVER_STATE/$SLURM_JOB_ID.up.${SLURM_RESTART_COUNT:-0}.$SLURM_PROCID"; while :; do sleep 0.2; done'
END
    # shellcheck disable=SC2016
    printf '#!/bin/bash\nsrun "$MOVER_TRAINER"\n' >plain
    # The script ends with 0, however its ranks have.
    # shellcheck disable=SC2016
    printf '#!/bin/bash\nsrun "$MOVER_TRAINER" | cat\n' >piped
    cp piped ./tee
    printf '#!/bin/bash\nsrun torchrun train.py\n' >agent
    cat >shell <<'END'
#!/bin/bash
: >"$MOVER_STATE/$SLURM_JOB_ID.up.${SLURM_RESTART_COUNT:-0}.0"
while :; do sleep 0.2; done
END
    chmod 755 loop plain agent shell piped tee
}

move_job() {
    local kind=$1 type=$2 script=$work/movers/$1 knows='' launcher=env arguments=()
    shift 2
    case $kind in
        agent | tee) knows=USR1 ;;
        accelerate) launcher=accelerate@1.6 knows=USR1 arguments=(train.py) ;;
        deepspeed) launcher=deepspeed knows=USR1 arguments=(settings.json train.py) ;;
        hf-trainer) launcher=hf-trainer@5.12 knows=TERM arguments=(settings.json train.py) ;;
        lightning) launcher=lightning@2.5 knows=USR1-requeue arguments=(train.py) ;;
        nemo) launcher=nemo@2.2 knows=TERM arguments=(recipe) ;;
        torchtitan) launcher=torchtitan@0.2 ;;
    esac
    [[ -e $script ]] || script=$launchers/$kind.sh
    submit --time=120 -o "$work/movers/state/%j.out" -D "$work/movers" --open-mode=append --arena-model="$work/movers/tiny.yaml" --arena-batch=8 \
        --arena-types="$type" --arena-gpus=2-2 --arena-elastic --arena-launcher=$launcher \
        --export="ALL,PATH=$work/movers/bin:$PATH,MOVER_STATE=$work/movers/state,MOVER_TRAINER=$work/movers/bin/trainer,MOVER_KNOWS=$knows" \
        "$@" "$script" "${arguments[@]}"
}

step_of() { cat "$work/movers/state/$1.began" 2>/dev/null; }

# One rank per GPU, or one launcher per node.
ranks_of() { # KIND GPUS
    case $1 in shell | late | failing | accelerate | deepspeed | hf-trainer | torchtitan) echo 1 ;; *) echo "$2" ;; esac
}
gpus_after() { echo $(($1 % 2 ? 1 : 2)); } # so many moves
ranks_up() {
    local ranks
    ranks=$(ranks_of "$1" "$(gpus_after "$3")")
    wait_until "(( \$(compgen -G '$work/movers/state/$2.up.$3.*' | wc -l) >= $ranks ))" 60 && return
    echo "job $2 ($1) has not come up in its life $3: it is $(job_state "$2") ($(job_reason "$2")); $(tail -n 3 "$work/movers/state/$2.out")"
    return 1
}

move_once() {
    local gpus
    gpus=$(gpus_after "$3")
    scontrol update JobId="$2" Comment="arena:gpus=$gpus-$gpus" || return
    ranks_up "$1" "$2" "$3"
}
