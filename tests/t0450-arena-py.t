#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# arena.py: its parts by themselves; a small GPT of PyTorch (gloo) on 2 nodes x 2 ranks in a real cluster. It tells its step times;
# signalled, it saves, comes back in another shape and does each step once; watched, a slow rank is named, micro-batches are dealt
# anew, and the losses stay those of a run that nobody disturbs. Under a chief that the test plays it parks again and again.
# ARENA_PARKS: how often (5).
# shellcheck disable=SC2016,SC2034,SC2317  # functions are called by ok, conditions evaluated by wait_until
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/arena.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/watched.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/ddp.sh"
need_arena
need_torch
python=/usr/bin/python3 train=$ARENA_SRCDIR/tests/arena_py/train.py fake_chief=$ARENA_BUILDDIR/tests/tools/fake_chief
export PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1

# ---- its parts -------------------------------------------------------------------------------------------------------
ok "the adapters are called by what frameworks call" env PYTHONPATH="$ARENA_SRCDIR/contrib/python" "$python" "$ARENA_SRCDIR/tests/arena_py/adapters.py"
is "$(env ARENA_DATA_DIR="$stage/share/slurm-arena" "$stage/bin/arena-args" --python)" "$stage/share/slurm-arena/python" "arena-args says where it is"
ok "and there it is installed" test -r "$stage/share/slurm-arena/python/arena.py"

# ---- in a cluster ----------------------------------------------------------------------------------------------------
start_arena --nodes a40:2x2 --arena-set slowdown.poll_s=2 --arena-set slowdown.threshold=1.5 --arena-set resize.cooldown_s=1 --arena-set resize.checkpoint_grace_s=60
# What needs no cluster runs beside its jobs, and is judged below.
# ended PID: what it returned, in $rc.   said FILE: fails by $rc, and shows the file.
ended() { rc=0; wait "$1" || rc=$?; }
said() { cat "$1"; return "$rc"; }
alone() { PYTHONPATH="$ARENA_SRCDIR/contrib/python" "$python" "$train" "$gates/alone" 200 >"$work/alone.out" 2>&1; }
parks=${ARENA_PARKS:-5}
{
    echo plan
    for ((i = 1; i <= parks; i++)); do printf '%s\n' 'say park 60s' 'pause 5' release "obeyed $i"; done
    printf '%s\n' 'say split 9,3' "obeyed $((parks + 1))" 'say swap 0 1' 'say leave now' 'say check 1 gpus links 0>1|1>0' 'checked 1'
} >"$work/script"
key=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
"$fake_chief" "$key" $$.7.0 "$work/script" "$work/heard" 2>"$work/chief.err" &
chief=$!
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
two() {
    local rank pids=() rc=0
    for rank in 0 1; do
        env LD_PRELOAD="$ARENA_BUILDDIR/.libs/libarena_watch.so" ARENA_WATCH_PROFILE=1 SLURM_JOB_ID=$$ SLURM_STEP_ID=7 RANK=$rank LOCAL_RANK=$rank WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT="$port" ARENA_WATCH_KEY="$key" ARENA_WATCH_CHIEF=127.0.0.1 \
            DEVICE_S=0.01 PYTHONPATH="$ARENA_SRCDIR/contrib/python" "$python" "$train" "$gates/parked" $((40 + 2 * parks)) 2>>"$work/err" &
        pids+=($!)
    done
    for rank in 0 1; do wait "${pids[rank]}" || rc=$?; done
    return $rc
}
two >"$work/two.out" 2>&1 &
parked=$!
alone &
alone=$!

printf 'name: tiny\nfamily: gpt\nlayers: 2\nhidden: 32\nheads: 4\nvocab: 128\nseq_length: 16\nprecision: fp32\n' >"$work/tiny.yaml"
# Where charliecloud is, jobs that say IN=charliecloud run in an image that has none of this installation.
image=$work/image
make_image() {
    local path
    for path in "$gates" "$cluster_dir" "$stage"/{bin,lib,libexec/slurm-arena,share/slurm-arena/python} "$ARENA_SRCDIR/tests/arena_py" /usr /etc /dev /proc /sys /tmp; do
        mkdir -p "$image$path"
    done
    for path in bin lib lib64 sbin; do ln -s "usr/$path" "$image/$path"; done
    touch "$image"/etc/{passwd,group,hosts,resolv.conf}
}
make_image
cat >"$work/life" <<END
#!/bin/bash
cd $gates || exit 1
export PYTHONPATH=$stage/share/slurm-arena/python ARENA_DATA_DIR=$stage/share/slurm-arena MASTER_ADDR=127.0.0.1 ARENA_RDZV_HOST=127.0.0.1
export PATH=$stage/bin:\$PATH USER=\${USER:-root} ARENA_WATCH_LOG_DIR=$gates/\$SLURM_JOB_NAME.watch ARENA_WATCH_RECHECK_S=600
mkdir -p "\$SLURM_JOB_NAME.watch"
inside=()
if [[ \$IN == charliecloud ]]; then
    mapfile -t mounts < <(arena-args --mounts charliecloud)
    for path in /usr /etc $gates $cluster_dir $stage/{bin,lib} $ARENA_SRCDIR/tests/arena_py; do mounts+=(-b "\$path"); done
    inside=(ch-run "\${mounts[@]}" --cd=$gates $image --)
    export ARENA_WATCH_PRECHECK=0
fi
exec srun "\${inside[@]}" $python $train "\$SLURM_JOB_NAME" "\$STEPS"
END
chmod 755 "$work/life"
# teach NAME STEPS OPTIONS...: a job of train.py; NAME.log, NAME.out, NAME.watch of $gates
teach() {
    local name=$1 steps=$2
    shift 2
    submit -J "$name" -o "$gates/$name.out" --open-mode=append --time=30 --export="ALL,STEPS=$steps,DEVICE_S=${DEVICE_S-},IN=${IN-}" --arena-model="$work/tiny.yaml" \
        --arena-batch=24 --arena-plan=pp1,tp1,zero0,none,mb2 "$@" "$work/life"
}
# over: the job has ended; one that is being requeued looks so for a moment
over() {
    local look
    for look in 1 2 3 4 5; do
        [[ $(job_state "$job") != @(PENDING|CONFIGURING|RUNNING|COMPLETING) ]] || return 1
        sleep 0.5
    done
}
# reaches CONDITION LIMIT: waits for it, but not for a job that has ended
reaches() { wait_until "$1 || over" "$2" && eval "$1"; }
done_of() { if [[ -e $gates/$1.log ]]; then wc -l <"$gates/$1.log"; else echo 0; fi; }
log_says() { jq -se --argjson began "${began:-0}" "$2" "$gates/$1.log" >/dev/null; }
# same NAME NAME BOUND: as many losses, each within BOUND of the other
same() { jq -ne --slurpfile a "$gates/$1.log" --slurpfile b "$gates/$2.log" --argjson bound "$3" \
    '[range(0; [($a | length), ($b | length)] | min)] | length > 0 and all(.[]; $a[.].step == $b[.].step and (($a[.].loss / $b[.].loss - 1) | fabs) <= $bound)'; }

# ---- told to leave, back in another shape; watched, and in a container -------------------------------------------------
! USER=${USER:-root} ch-run -b /usr "$image" -- /usr/bin/true 2>/dev/null || export IN=charliecloud
job=$(DEVICE_S=0.02 teach moved 100000 --arena-gpus=4 --arena-elastic --arena-slowdown=watch) || BAIL_OUT "no job: $job"
PYTHONPATH="$ARENA_SRCDIR/contrib/python" "$python" "$ARENA_SRCDIR/tests/arena_py/units.py" >"$work/units.out" 2>&1 &
units=$!
ok "it trains on 2 nodes x 2 ranks" reaches '(($(done_of moved) >= 20))' 90 || BAIL_OUT "$(cat "$gates/moved.out")"
ok "it tells how long its steps take" wait_until 'arena profile observed --store "$cluster_dir/profile-store/profiles.db" --json | jq -e "[.. | objects | select(.steps? >= 10)] | length > 0" >/dev/null' 30
ok "it is asked to have two GPUs" scontrol update JobId="$job" Comment=arena:gpus=2-2
ok "it goes on with two" reaches 'log_says moved "any(.[]; .world == 2)"' 90 || diag "$(cat "$gates/moved.out")"
like "$(cat "$gates/moved.out")" 'arena: told to leave: saved after step [0-9]+' "it says that it has saved"
is "$(job_field "$job" Restarts)" 1 "restarted once, by its exit code"
unlike "$(cat "$gates/moved.out")" 'ld\.so' "no process of it lacks the recorder that it is watched by"
not_ok "its chief had a trainer, and complains of nothing" grep -h -e unwatched -e 'is left out' -e 'is gone' "$gates/moved.out"
[[ ${IN-} ]] || skip 1 "charliecloud is not installed, or may not be used here: not in a container"
scancel "$job"
unset IN
ok "each step was done once" log_says moved 'map(.step) == [range(0; length)] and (map(.world) | unique) == [2, 4]'
ok "each had each of its samples once" log_says moved 'all(.[]; .samples == 24 and .most == 1)'
ended "$alone"
ok "outside of Arena the script runs as plain PyTorch" said "$work/alone.out"
is "$(done_of alone)" 200 "all its steps"
ok "its losses are those of one rank" same moved alone 1e-6
ended "$units"
ok "its parts do what they say" said "$work/units.out"

# ---- a slow rank -------------------------------------------------------------------------------------------------------
job=$(DEVICE_S=0.06 teach slow 100000 -N 2 --arena-gpus=2 --arena-slowdown=mitigate) || BAIL_OUT "no job: $job"
ok "a watched one trains" reaches '(($(done_of slow) >= 25))' 90 || BAIL_OUT "$(cat "$gates/slow.out")"
like "$(cat "$gates/slow.out")" 'arena: check [0-9]+ gpus before step 1' "its GPUs were checked before its first step"
began=$(done_of slow)
echo 1 >"$gates/slow.slow"
ok "rank 1 is slow: micro-batches are dealt anew, fewer for it" reaches 'log_says slow "any(.[]; .step > \$began and .counts[1] < 6)"' 90 || diag "$(cat "$gates/slow.out")"
ok "ten steps of it" reaches 'log_says slow "map(select(.counts[1] < 6)) | length > 12"' 60
median='def median: sort | .[length / 2 | floor]; (map(select(.step > $began and .counts == [6, 6]).s) | median) as $before |
    (map(select(.counts[1] < 6).s)[2:] | median) as $after |'
note "$(jq -sr --argjson began "$began" "$median \"slow \(\$before) s a step, after S2 \(\$after) s, \(last.counts)\"" "$gates/slow.log")"
ok "a step takes at most 0.80 of what it took" log_says slow "$median \$after <= 0.80 * \$before"
scancel "$job"
ok "each step had each of its samples once" log_says slow 'all(.[]; .samples == 24 and .most == 1)'
ok "and its losses are those of a run that nobody disturbs" same slow alone 1e-6

# ---- parked -------------------------------------------------------------------------------------------------------------
ended "$parked"
ok "parked and released $parks times" said "$work/two.out"
ended "$chief"
is "$rc $(<"$work/chief.err")" "0 " "the chief hears of each"
heard() { jq -c "select(.type == \"$1\") | $2" "$work/heard"; }
is "$(heard obeyed .word | grep -c park)" "$parks" "of all $parks"
ok "none takes 10 s" jq -se 'map(select(.type == "obeyed").seconds) | max <= 10' "$work/heard"
is "$(heard trainer_plan .micro_batches | uniq | tr '\n' ' ')" '[6,6] [9,3] ' "the chief is told how micro-batches are dealt"
is "$(grep -c 'a word of the chief is left out' "$work/err")" 2 "words that it cannot obey are left out, with a line each"
ok "each rank and link has a time" jq -se 'map(select(.type == "checked"))[0] | .failure == "" and (.gpus | length == 2 and all(.[]; .ms > 0)) and
    (.links | length == 2 and all(.[]; .ms > 0 and .latency_ms >= 0))' "$work/heard"
ok "every replica has a time per micro-batch" jq -se 'map(select(.type == "step_done")) | length > 20 and all(.[]; .seconds > 0 and (.micro_batch_s | length == 2))' "$work/heard"
ok "no loss changes" same parked alone 1e-6
# Marks of steps; sums of how many kinds, by their bytes; whether all of them were timed.
calls() { "$ARENA_BUILDDIR/arena-watch" dump --job $$.7 --rank 1 "$@" | awk -F, 'NR == 1 { next } $2 == 13 { marks++ } $2 == 6 && $20 == 4 { kinds[$17]; all++; timed += ($12 > 0) }
    END { for (kind in kinds) n++; print marks + 0, n + 0, (all > 0 && timed == all) }'; }
is "$(calls)" "$((40 + 2 * parks)) 3 0" "the recorder has each step, and what gloo sums up: gradients, losses, samples"
is "$(calls --timings)" "0 3 1" "and how long each rank was in it"
"$ARENA_BUILDDIR/arena-watch" clean --job $$.7 >/dev/null
done_testing
