#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Three GPUs free on one node and one on another: stock Slurm's --gpus=4 starts, a job of Arena's for 4 waited, because it
# had the same number on each of its nodes. What it has of each node, what its tasks see, and that a restart of slurmctld, a
# requeue and moves keep it or come back from it.
# shellcheck disable=SC2016,SC2119,SC2317  # conditions are evaluated by wait_until, functions are called by ok
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/arena.sh"
: "${work=}" "${gates=}"
need_arena

start_arena --nodes a40:3x4 --hardware a40=A40 --arena-set reserve_depth=0 --arena-set interval_s=1 \
    --arena-set resize.cooldown_s=1 --arena-set resize.moves_per_hour=12

stock() { submit -t 60 -o /dev/null "$@" --wrap 'sleep 3000'; }
# An Arena job that says where each of its tasks runs, then waits at its gate.
cat >"$work/tasks" <<'END'
#!/bin/bash
echo "$SLURM_NTASKS ${SLURM_NTASKS_PER_NODE-unset} $SLURM_TASKS_PER_NODE $SLURM_CPUS_PER_TASK" >"$SLURM_JOB_ID.shape.${SLURM_RESTART_COUNT:-0}"
srun bash -c 'echo "$SLURMD_NODENAME $RANK/$WORLD_SIZE $LOCAL_RANK $(tr , "\n" <<<"$CUDA_VISIBLE_DEVICES" | grep -c .)"' |
    sort -k2,2n >"$SLURM_JOB_ID.tasks.${SLURM_RESTART_COUNT:-0}"
exec ./trainer
END
chmod 755 "$work/tasks"
ask() { submit -t 60 -o /dev/null --arena-model=gpt2 --arena-batch=840 --arena-types=a40 "$@" "$work/tasks"; }
starts() { wait_for_state "$1" RUNNING; }
# "n1:3:6:3000 n3:1:2:1000": of each node of the job GPUs, CPUs and MB
pieces() {
    scontrol show job -d "$1" | sed -n 's/^ *Nodes=\([^ ]*\) CPU_IDs=\([^ ]*\) Mem=\([0-9]*\) GRES=gpu:a40:\([0-9]*\)(.*/\1 \2 \3 \4/p' |
        while read -r node cpus memory gpus; do
            local -i count=0
            for range in ${cpus//,/ }; do count+=${range#*-}-${range%-*}+1; done
            for one in $(scontrol show hostnames "$node"); do echo "$one:$gpus:$count:$memory"; done
        done | xargs
}
none() { scancel -u "$(id -un)" -s KILL; scancel -u "$(id -un)"; wait_until '[[ ! $(squeue -h -t RUNNING,COMPLETING,PENDING) ]]'; }
plan_of() { scontrol show job "$1" | sed -n 's/.* grid=\([^ ]*\) .*/\1/p'; }

# ---- three and one ----------------------------------------------------------------------------------
ok "one GPU of n1 is taken" starts "$(stock --gres=gpu:a40:1 -w n1)"
ok "n2 is" starts "$(stock --gres=gpu:a40:4 -w n2)"
most=$(stock --gres=gpu:a40:3 -w n3)
ok "three of n3 are" starts "$most"
job=$(stock --gpus=a40:4 -n4)
ok "stock's --gpus=4 starts on three and one" starts "$job"
scancel "$job"
wait_until '[[ ! $(squeue -h -j "$job" 2>/dev/null) ]]'
job=$(ask --arena-gpus=4 --arena-cpus-per-gpu=2 --arena-mem-per-gpu=1000)
ok "so does a job of Arena's" starts "$job"
is "$(pieces "$job")" "n1:3:6:3000 n3:1:2:1000" "with three GPUs of one node and one of the other, their CPUs and memory"
is "$(plan_of "$job")" "3+1xa40" "as its comment says"
ok "its script runs" wait_until '[[ -s $work/$job.tasks.0 && -e $gates/$job.starts ]]'
is "$(<"$work/$job.shape.0")" "4 unset 3,1 2" "with the variables of that shape"
is "$(xargs <"$work/$job.tasks.0")" "n1 0/4 0 3 n1 1/4 1 3 n1 2/4 2 3 n3 3/4 0 1" "and with a task for each GPU, where that is"
like "$(<"$gates/$job.env.0")" 'ARENA_DP=4' "the plan has four replicas"
like "$(<"$gates/$job.env.0")" '"split":\[3,1\]' "and says what each node has"
like "$(arena explain "$job")" '3\+1xa40' "arena explain says it"
snapshot=$(arena snapshot save 2>/dev/null)
like "$snapshot" '"split": ?\[3,1\]' "so does a snapshot"
arena snapshot save >"$work/snapshot.json" 2>/dev/null
ok "which can be replayed" arena snapshot replay "$work/snapshot.json"

# ---- what is known of it after a restart -------------------------------------------------------------
wait_saved
cluster ctld kill
cluster ctld start
cluster wait
is "$(job_state "$job")" RUNNING "it runs on when slurmctld is killed and comes back"
ok "and is known as it is" wait_until '[[ $(arena snapshot save 2>/dev/null) == *\"split\":*3,*1* ]]'
scancel "$most"
second=$(ask --arena-gpus=3 --arena-cpus-per-gpu=2 --arena-mem-per-gpu=1000)
ok "the three GPUs that are free beside it are given to another" starts "$second"
is "$(pieces "$second")" "n3:3:6:3000" "all of them"
third=$(ask --arena-gpus=1)
ok "and nobody is given what it has" wait_for_reason "$third" 'waits for 1xa40'
scancel "$third"

# ---- from pieces to a whole node, and back --------------------------------------------------------------
scancel "$(squeue -h -t RUNNING -w n2 -o %i)"
wait_until '[[ ! $(squeue -h -w n2) ]]'
scontrol requeue "$job"
ok "requeued, it starts again" wait_until '[[ -s $work/$job.tasks.1 ]]'
is "$(plan_of "$job") $(pieces "$job")" "4xa40 n2:4:8:4000" "on a node that is whole"
is "$(job_field "$job" TresPerNode) $(job_field "$job" TresPerTask)" "gres:gpu:a40:4 " "as any job there"
is "$(<"$work/$job.shape.1")" "4 4 4 2" "with those variables"
ok "it ends" eval 'let_go "$job" && wait_for_state "$job" COMPLETED'

# ---- launchers that cannot -------------------------------------------------------------------------------
ok "n2 is taken again" starts "$(stock --gres=gpu:a40:4 -w n2)"
scancel "$second"
wait_until '[[ ! $(squeue -h -j "$second" 2>/dev/null) ]]'
ok "and all but one of n3" starts "$(stock --gres=gpu:a40:3 -w n3)"
job=$(ask --arena-gpus=4 --arena-launcher=lightning)
ok "lightning has the same number of ranks on each node, and its job says why it waits" wait_for_reason "$job" \
    'as many are free, but in pieces: a job has the same number on each of its nodes'
scancel "$job"

# ---- one task per node ---------------------------------------------------------------------------------
cat >"$work/nodes" <<'END'
#!/bin/bash
echo "$SLURM_NTASKS $SLURM_NTASKS_PER_NODE $SLURM_TASKS_PER_NODE ${SLURM_CPUS_PER_TASK-unset}" >"$SLURM_JOB_ID.shape.${SLURM_RESTART_COUNT:-0}"
arena-args torchrun >"$SLURM_JOB_ID.words"
srun bash -c 'echo "$SLURMD_NODENAME $SLURM_PROCID $SLURM_GPUS_ON_NODE $SLURM_CPUS_ON_NODE $(tr , "\n" <<<"$CUDA_VISIBLE_DEVICES" | grep -c .)"' |
    sort -k2,2n >"$SLURM_JOB_ID.tasks.${SLURM_RESTART_COUNT:-0}"
exec ./trainer
END
chmod 755 "$work/nodes"
job=$(submit -t 60 -o /dev/null --arena-model=gpt2 --arena-batch=840 --arena-types=a40 --arena-launcher=torchrun --arena-gpus=4 \
    --arena-plan=pp1,tp1 --arena-cpus-per-gpu=2 --arena-mem-per-gpu=1000 "$work/nodes")
ok "a job whose launcher starts the ranks of a node itself starts on pieces, too" starts "$job"
is "$(plan_of "$job") $(pieces "$job")" "3+1xa40 n1:3:6:3000 n3:1:2:1000" "with their CPUs and memory"
ok "its script runs" wait_until '[[ -s $work/$job.tasks.0 && -e $gates/$job.starts ]]'
is "$(<"$work/$job.shape.0")" "2 1 1(x2) unset" "with a task for each node"
is "$(xargs <"$work/$job.tasks.0")" "n1 0 3 6 3 n3 1 1 2 1" "each of which has all that is there"
like "$(xargs <"$work/$job.words")" '--nnodes=2 --nproc_per_node=gpu ' "which is what the launcher is told"
scancel "$job"
wait_until '[[ ! $(squeue -h -j "$job" 2>/dev/null) ]]'

# ---- more is free than it takes --------------------------------------------------------------------------
ok "all jobs go" none
ok "two GPUs of n1 are taken" starts "$(stock --gres=gpu:a40:2 -w n1)"
ok "one of n2 is" starts "$(stock --gres=gpu:a40:1 -w n2)"
for launcher in ddp torchrun; do
    job=$(submit -t 60 -o /dev/null --arena-model=gpt2 --arena-batch=840 --arena-types=a40 --arena-launcher=$launcher --arena-gpus=8 \
        --arena-plan=pp1,tp1 --arena-cpus-per-gpu=1 --wrap 'sleep 3000')
    ok "$launcher: eight of two, three and four that are free are given" starts "$job"
    is "$(plan_of "$job") $(pieces "$job" | sed 's/:[0-9]*\( \|$\)/\1/g')" "2+3+3xa40 n1:2:2 n2:3:3 n3:3:3" "$launcher: as it was reckoned"
    scancel "$job"
    wait_until '[[ ! $(squeue -h -j "$job" 2>/dev/null) ]]'
done
ok "all jobs go" none
ok "one GPU of n1 is taken" starts "$(stock --gres=gpu:a40:1 -w n1)"
ok "n2 is" starts "$(stock --gres=gpu:a40:4 -w n2)"
ok "and three of n3" starts "$(stock --gres=gpu:a40:3 -w n3)"

# ---- an elastic job ----------------------------------------------------------------------------------------
job=$(MODE=steps submit -t 60 -o /dev/null --arena-model=gpt2 --arena-batch=840 --arena-types=a40 --arena-gpus=4 --arena-elastic \
    --arena-steps=1000000 "$work/trainer")
ok "an elastic job starts on pieces" starts "$job"
is "$(plan_of "$job")" "3+1xa40" "of three and one"
wait_ranks "$job" 4
scontrol update JobId="$job" Comment=arena:gpus=2
ok "told to take two GPUs, it is moved" wait_until '[[ $(plan_of "$job") == 2xa40 && $(job_state "$job") == RUNNING ]]'
scontrol update JobId="$job" Comment=arena:gpus=4
ok "and back to four, in pieces" wait_until '[[ $(plan_of "$job") == 3+1xa40 && $(job_state "$job") == RUNNING ]]'
is "$(pieces "$job" | sed 's/:[0-9]*:[0-9]*\( \|$\)/\1/g')" "n1:3 n3:1" "the same as before"
ok "all jobs go" none

# ---- counts that no equal layout has --------------------------------------------------------------------------
like "$(submit -t 60 -o /dev/null --arena-model=gpt2 --arena-batch=840 --arena-types=a40 --arena-launcher=lightning --arena-gpus=5 "$work/tasks")" \
    'the same number of GPUs on each of its nodes: in partition main it can have 4 or 6 a40, not 5' \
    "five GPUs are no count for lightning"
long=$(ask --arena-gpus=5)
ok "a job that may have pieces starts on five" starts "$long"
is "$(plan_of "$long") $(pieces "$long" | sed 's/:[0-9]*:[0-9]*\( \|$\)/\1/g')" "4+1xa40 n1:4 n2:1" "on the fewest nodes"
wide=$(ask --arena-gpus=10)
ok "one of ten waits" wait_for_reason "$wide" 'waits for 4.4.2xa40: not enough free now'
ok "and has a promise" wait_until '[[ $(arena explain "$wide") == *"in Slurm'"'"'s own order it would start at"*"with 4+4+2xa40"* ]]'
ok "which arena queue names" wait_until '[[ $(arena queue --json | tr -d " \n") == *4+4+2xa40* ]]'
behind=$(submit -t 120 -o /dev/null --arena-model=gpt2 --arena-batch=840 --arena-types=a40 --arena-gpus=4 "$work/tasks")
ok "a job behind it that would be longer than that waits" wait_for_reason "$behind" 'waits for 4xa40: expected to be free'
passes=$(submit -t 30 -o /dev/null --arena-model=gpt2 --arena-batch=840 --arena-types=a40 --arena-gpus=4 "$work/tasks")
ok "one that is over before starts" starts "$passes"
scancel "$passes" "$long"
ok "when the first is gone the ten start" starts "$wide"
is "$(job_state "$behind")" PENDING "before the longer one"
scancel "$wide"
ok "which is next" starts "$behind"
front=$(stock --gpus=a40:9)
ok "an ordinary job of nine waits for it" wait_until '[[ $(job_state "$front") == PENDING ]]'
later=$(ask --arena-gpus=5)
ok "five GPUs that are free are not taken past an ordinary job" wait_for_reason "$later" 'waits behind an ordinary job'
scancel "$front"
ok "but once it is gone" starts "$later"
ok "at last all jobs go" none
done_testing
