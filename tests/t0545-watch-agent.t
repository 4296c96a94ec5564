#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The agents of a watched job in a real cluster: one per node and step, started by the SPANK plug-in; what they say
# arrives at whoever has the job's key, and nobody else is heard; whatever is killed, training ends as ever, and no ring
# stays. And `arena-watch run`, which does the same without a plug-in.
# shellcheck disable=SC2016,SC2317  # functions are called by ok, conditions evaluated by wait_until
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/train.sh"
need_arena
need_mpi_in_slurm
watch=$ARENA_BUILDDIR/arena-watch program=$ARENA_BUILDDIR/tests/watch/nccl_program listen=$ARENA_BUILDDIR/tests/watch/listen
listeners=()

# Other tests have agents and rings beside these: theirs are of other directories and job numbers.
start_cluster --arena on --profile off --nodes a40:2x1 --arena-set slowdown.poll_s=1 --conf-extra "FirstJobId=$((1000 + $$ % 60000000))"
write_tiny_model "$work/tiny.yaml"
write_training_text "$work/text"
trap 'kill "${listeners[@]}" 2>/dev/null' TERM

# The job's script waits for words, one line each, and runs them: steps begin when the test says so.
cat >"$work/job" <<'END'
#!/bin/bash
env >"$work/env"
n=0
while [[ ! -e $work/end ]]; do
    if [[ -e $work/word.$n ]]; then
        bash "$work/word.$n" >"$work/out.$n" 2>&1
        echo $? >"$work/rc.$n"
        n=$((n + 1))
    fi
    sleep 0.05
done
END
sed -i "2i work=$work" "$work/job"
chmod 755 "$work/job"
words=0
# begin_step SHELL: it runs in the job's script; its step has number $step
begin_step() {
    step=$words
    words=$((words + 1))
    printf 'export OMPI_MCA_mpi_yield_when_idle=1\n%s\n' "$1" >"$work/new"
    mv "$work/new" "$work/word.$step"
}
ended() { [[ -e $work/rc.$step ]]; }
train() { # STEPS [SRUN OPTIONS]: as a shell word
    echo "srun --mpi=pmix ${*:2} $ARENA_BUILDDIR/arena-train --device cpu --model $work/tiny.yaml --data $work/text --steps $1 --quiet --log $work/log.$words"
}
agent_pids() { local pid; for pid in $(pgrep -f '/arena-watch agent'); do ! grep -qs "$work" "/proc/$pid/environ" || echo "$pid"; done; }
agents() { agent_pids | wc -l; }
agent_of() { local pid; for pid in $(agent_pids); do ! grep -qsxz "SLURMD_NODENAME=$1" "/proc/$pid/environ" || echo "$pid"; done; }
rings() { find /dev/shm -maxdepth 1 -name "arena-watch.$job.*" | wc -l; }
# listen_at STEP [FRAME]: a listener with the job's key at the first port of that step
listen_at() {
    ARENA_WATCH_KEY=$key "$listen" "$job.$1.0" ${2:+"$2"} >"$work/heard.$1" 2>"$work/port.$1" &
    listeners+=($!)
    wait_until '[[ -s $work/port.'"$1"' ]]' 5
}
heard() { sed 's/^[0-9]* //' "$work/heard.$1"; }
frames() { heard "$1" | grep '^{'; }

job=$(submit --arena-model="$work/tiny.yaml" --arena-batch=8 --arena-gpus=2 --arena-plan=dp2 --arena-launcher=arena-train \
    --arena-slowdown=watch -N 2 -t 30 -o "$work/out" "$work/job")
ok "a watched job starts on two nodes" wait_for_state "$job" RUNNING 60
ok "its script runs" wait_until '[[ -s $work/env ]]' 30
key=$(sed -n 's/^ARENA_WATCH_KEY=//p' "$work/env")
like "$key" '^[0-9a-f]{32}$' "it has a key of 128 bits"
is "$(grep -E '^ARENA_(SLOWDOWN|WATCH_(POLL_S|THRESHOLD|PRECHECK|ELASTIC))=' "$work/env" | sort | xargs)" \
    "ARENA_SLOWDOWN=watch ARENA_WATCH_ELASTIC=0 ARENA_WATCH_POLL_S=1 ARENA_WATCH_PRECHECK=1 ARENA_WATCH_THRESHOLD=1.1" "and the keys of arena.yaml"
is "$( (scontrol -o show job "$job"; arena explain "$job"; arena explain --json "$job"; cat "$cluster_dir"/*.log "$cluster_dir"/log/* 2>/dev/null) | grep -c "$key")" 0 \
    "which nothing shows"
is "$(agents)" 0 "its script has no agent"

# ---- a step that trains -----------------------------------------------------------------------------------------
listen_at 0 '{"type":"profile","iterations":5}'
begin_step "$(train 100000)"
ok "an agent runs on each node" wait_until '[[ $(agents) == 2 ]]' 30
ok "both tell of their ranks" wait_until '[[ $(heard 0 | grep -c rank_here) == 2 ]]' 30
is "$(frames 0 | jq -r 'select(.type == "agent_hello") | .node' | sort | xargs)" "n1 n2" "by the names of their nodes"
is "$(frames 0 | jq -r 'select(.type == "rank_here") | "\(.rank)/\(.ranks)"' | sort | xargs)" "0/2 1/2" "which rank of how many"
ok "iterations come from both ranks" wait_until '[[ $(frames 0 | jq -r "select(.type == \"iterations\").rank" | sort -u | wc -l) == 2 ]]' 30
ok "and times of communicators, as asked" wait_until '[[ $(frames 0 | jq -r "select(.type == \"group_times\" and (.step_s | length) == 5).rank" | sort -u | wc -l) == 2 ]]' 30
groups_of() { frames 0 | jq -r "select(.type == \"group_times\" and .rank == $1).groups[].group" | sort -u; }
ok "a communicator has one name on both" test "$(comm -12 <(groups_of 0) <(groups_of 1) | wc -l)" -ge 1
note "# $(frames 0 | jq -c 'select(.type == "group_times" and .rank == 0).groups')"
is "$(rings)" 0 "rings have no name while an agent reads them"
for pid in $(pgrep -f "arena-train --device cpu --model $work/tiny"); do tr '\0' '\n' <"/proc/$pid/environ" | grep -E '^(LD_PRELOAD|NCCL_PROFILER)'; done | sort -u >"$work/preloads"
like "$(cat "$work/preloads")" "^LD_PRELOAD=.*/libarena_watch.so:.*/libarena_watch_mpi.so"$'\n'"NCCL_PROFILER_PLUGIN=.*libarena_watch.so$" "both recorders are preloaded"

# ---- those without the key ---------------------------------------------------------------------------------------
port=$(cat "$work/port.0")
hostile() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
((EUID == 0)) || hostile() { "$@"; }
# shellcheck disable=SC2016
forge='exec 3<>/dev/tcp/127.0.0.1/'$port'; read -r -t 5 line <&3; echo "$line"
    printf "%s\n" "00000000000000000000000000000000 {\"type\":\"too_dear\",\"share\":1,\"stopped\":true}" >&3; cat <&3; echo end'
like "$(hostile timeout 20 bash -c "$forge")" '^arena-watch 1 [0-9a-f]{32}'$'\n''end$' "another user's process is greeted, and not heard"
hostile timeout 20 bash -c 'exec 3<>/dev/tcp/127.0.0.1/'"$port"'; head -c 3000000 /dev/zero | tr "\0" x >&3' 2>/dev/null
hostile timeout 20 bash -c 'exec 3<>/dev/tcp/127.0.0.1/'"$port"'; for ((i = 0; i < 100000; i++)); do echo "line $i"; done >&3' 2>/dev/null
hostile timeout 20 bash -c 'for ((i = 10; i < 150; i++)); do eval "exec $i<>/dev/tcp/127.0.0.1/'"$port"'"; done; sleep 0.5' 2>/dev/null
n=$(frames 0 | wc -l)
ok "a huge line, 10^5 lines and 140 connections later, agents are still heard" wait_until "((\$(frames 0 | wc -l) > $n + 3))" 20
is "$(heard 0 | grep -c -e '"share":1[,}]' -e down)" 0 "nothing of it was taken for an agent's"
chief_port=$(ss -Hltnp 2>/dev/null | awk -v pid="pid=$(agent_of n1)," 'index($0, pid) { sub(/.*:/, "", $4); print $4 }' | head -n 1)
if [[ $chief_port ]]; then
    ok "where its first port is taken, the chief listens at another: $chief_port" test "$chief_port" != "$port"
    port=$chief_port
    hostile timeout 20 bash -c 'exec 3<>/dev/tcp/127.0.0.1/'"$port"'; for ((i = 0; i < 100000; i++)); do echo "line $i"; done >&3' 2>/dev/null
    is "$(agents)" 2 "and outlives a flood, too"
else
    skip 2 "ss(8) does not say who listens"
fi

# ---- what is killed ------------------------------------------------------------------------------------------------
second=$(agent_of n2)
kill -KILL "$second"
ok "an agent is killed: its connection ends" wait_until 'heard 0 | grep -q down' 60
# goes_on: 50 steps more are done
goes_on() { local n; n=$(losses "$work/log.0" | wc -l); wait_until "((\$(losses '$work/log.0' | wc -l) > $n + 50))" 30; }
ok "training goes on" goes_on
kill -KILL "$(agent_of n1)"
ok "without the chief, too" goes_on
is "$(agents) $(rings)" "0 0" "nothing of them is left"
scancel "$job.0"
ok "the step ends" wait_until ended 60

# ---- other steps ---------------------------------------------------------------------------------------------------
listen_at 1
begin_step "$(train 5000)"
ok "a second step trains to its end" wait_until ended 180
is "$(cat "$work/rc.1")" 0 "with exit code 0"
is "$(frames 1 | jq -r 'select(.type == "rank_here").rank' | sort | xargs)" "0 1" "its agents told of its ranks"
ok "and ended after it" wait_until '[[ $(agents) == 0 ]]' 30
# The first ones pass before their rings are seen and their period is known, the last ones with the rank.
told=$(frames 1 | jq -s 'map(select(.type == "iterations" and .rank == 0) | .done | length) | add // 0')
ok "iterations are the steps of training: of 5000 they told $told" test "$told" -gt 200 -a "$told" -le 5000
is "$(rings)" 0 "no ring is left"
begin_step "$(train 100000)"
ok "a third step trains" wait_until '[[ $(losses "$work/log.2" 2>/dev/null | wc -l) -ge 50 && $(agents) == 2 ]]' 60
kill -KILL "$(agent_of n1)"
ok "its chief is killed: the other agent says so, once" wait_until 'grep -q "the chief is gone" "$work/arena-watch-$job.2-n2.log"' 20
is "$(wc -l <"$work/arena-watch-$job.2-n2.log")" 1 "in a log of its own"
pkill -KILL -f "arena-train --device cpu --model $work/tiny"
ok "and is killed" wait_until ended 60
ok "its agents end" wait_until '[[ $(agents) == 0 ]]' 30
is "$(rings)" 0 "and no ring is left of those that were killed"
begin_step 'LD_PRELOAD=/own.so NCCL_PROFILER_PLUGIN=mine srun -n 2 -N 2 bash -c "env | grep -E ^LD_PRELOAD\|^NCCL_PROF; hostname >/dev/null; exit 7"'
ok "a step that is no training runs" wait_until ended 60
is "$(cat "$work/rc.$step")" 7 "its exit code is its own"
is "$(grep -oE '^(LD_PRELOAD=/own.so:|NCCL_PROFILER_PLUGIN=mine$)' "$work/out.$step" | sort | uniq -c | xargs)" "2 LD_PRELOAD=/own.so: 2 NCCL_PROFILER_PLUGIN=mine" \
    "the user's own LD_PRELOAD stands before ours, and the profiler stays"
ok "its agents end" wait_until '[[ $(agents) == 0 ]]' 30
if ((EUID == 0)); then
    planted=/dev/shm/arena-watch.$job.5.0.0123456789abcdef
    head -c 8192 /dev/zero >"$planted" && chmod 600 "$planted" && chown nobody "$planted"
    begin_step "$(train 300)"
    ok "a step beside another user's object of its name trains" wait_until ended 90
    is "$(cat "$work/rc.$step") $(stat -c '%U %s' "$planted")" "0 nobody 8192" "which stays as it was"
    rm -f "$planted"
else
    skip 2 "needs root, to plant another user's object"
fi
touch "$work/end"
ok "the job completes" wait_for_state "$job" COMPLETED 60
is "$(cat "$work/out")" "" "and its output has no line of ours"

ok "and its last agents end" wait_until '[[ $(agents) == 0 ]]' 30
# ---- a job that is not watched ----------------------------------------------------------------------------------------
plain=$(submit --arena-model="$work/tiny.yaml" --arena-batch=8 --arena-gpus=2 --arena-launcher=arena-train --arena-slowdown=off -t 5 \
    -o "$work/plain" --wrap "env | grep -c ^ARENA_WATCH; srun bash -c 'echo preload=\$LD_PRELOAD; grep -ls $work \$(pgrep -f /arena-watc[h].agent | sed s,.*,/proc/\&/environ,) /dev/null; :'")
ok "one that is not watched" wait_for_state "$plain" COMPLETED 60
is "$(sort -u "$work/plain" | xargs)" "0 preload=" "has no key, no recorder, no agent"
user=$(ARENA_WATCH_KEY=$key ARENA_SLOWDOWN=watch submit --arena-model="$work/tiny.yaml" --arena-batch=8 --arena-gpus=2 --arena-launcher=arena-train \
    -t 5 -o "$work/user" --wrap "env | grep -cE '^ARENA_(WATCH|SLOWDOWN)'; true")
ok "nor does a user's own key come in by sbatch" wait_for_state "$user" COMPLETED 60
is "$(cat "$work/user")" 0 "it is stripped"

# ---- without a plug-in -------------------------------------------------------------------------------------------------
is "$(timeout 20 "$watch" run -- bash -c 'echo out; echo err >&2; exit 5' 2>&1; echo $?)" $'out\nerr\n5' "run: output and exit code are the command's"
timeout 20 "$watch" run -- bash -c 'kill -SEGV $$' 2>/dev/null
is $? 139 "run: so is its signal"
like "$("$watch" run 2>&1; echo $?)" 'run needs a command.*2$' "run: without a command it says what it needs"
like "$("$watch" run -- /none 2>&1; echo $?)" '/none: cannot be run: No such file.*3$' "run: of a command that is not there it says so"
export ARENA_WATCH_KEY=$key
job=$((job + 1000))
listen_at 0
mkfifo "$work/gate"
env SLURM_JOB_ID=$job RANK=0 LOCAL_RANK=0 WORLD_SIZE=1 ARENA_WATCH_POLL_S=0.2 "$watch" run -- "$program" wait "$work/gate" >/dev/null 2>&1 &
ok "run: its agent tells of the rank" wait_until 'heard 0 | grep -q rank_here' 60
echo >"$work/gate"
wait $!
ok "run: and ends with it" wait_until '[[ $(agents) == 0 ]]' 20
is "$(rings)" 0 "run: no ring is left"
like "$(ARENA_WATCH_KEY=x "$watch" agent 2>&1; echo $?)" 'ARENA_WATCH_KEY: is not 32 hex digits.*2$' "an agent without a key says so"
kill "${listeners[@]}" 2>/dev/null
done_testing
