#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A cluster that saves power, whose ResumeProgram notes each node that it is told to wake up: the same stream of jobs
# boots no more nodes under Arena than under stock Slurm; profile runs go where a node is awake, end with the last job
# that wants them, and nobody goes to a node that did not boot; slurmctld knows that and how long boots take after it was
# restarted. Nodes boot by a new slurmd (-b), when the test says so.
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/arena.sh"
need_arena
command -v jq >/dev/null || skip_all 'jq is not installed'

make_work
wake=$work/wake boots=$work/boots
mkdir -m 1777 "$boots" && mkfifo -m 666 "$wake"
printf '#!/bin/bash\nfor node in $(%q show hostnames "$1"); do echo "$node" >>%q; echo "$node" >%q; done\n' \
    "$(command -v scontrol)" "$boots/log" "$wake" >"$work/resume"
chmod 755 "$work/resume"
start_arena --profile on --nodes a40:6x2 --arena-set profile.max_wait_s=600 --conf-extra "
SuspendProgram=/bin/true
ResumeProgram=$work/resume
SuspendTime=100000
SuspendTimeout=1
ResumeTimeout=300
SlurmctldParameters=power_save_interval=1"
cat >"$cluster_dir/arena-profiler" <<END
#!/bin/bash
echo "\$SLURMD_NODENAME" >>"$boots/measures"
for ((i = 0; i < 1200; i++)); do
    [[ ! -e "$work/gate" ]] || exec "$stage/libexec/slurm-arena/arena-profiler" "\$@" --budget 5
    sleep 0.1
done
END
chmod 755 "$cluster_dir/arena-profiler"

# A node that boots is a slurmd that begins anew and says so. While a slurmd forks it is found twice: the older one counts.
slurmd_of() { pgrep -o -f "^$cluster_dir/bin/slurmd -N $1( |\$)"; }
mapfile -d '' environment <"/proc/$(slurmd_of n1)/environ"
# A node takes its time: slurmctld reckons in whole seconds since when it is up, and does not believe one that was up before
# it was to boot.
boot() {
    stop_slurmd "$1"
    sleep 2
    (cd "$cluster_dir/run" && exec env -i "${environment[@]}" "$cluster_dir/bin/slurmd" -N "$1" -b) \
        </dev/null >>"$cluster_dir/log/slurmd.out" 2>&1 6>&- 8>&-
}
stop_slurmd() {
    local pid
    ! pid=$(slurmd_of "$1") || { kill "$pid" && wait_until "[[ ! -e /proc/$pid ]]"; } || kill -9 "$pid"
}
exec 8<>"$wake"
(while kill -0 $$; do
    if [[ ! -e $work/sleepy ]] && read -rt 0.2 -u 8 node; then
        boot "$node" || echo "$node did not boot" >>"$boots/failed"
    fi
    [[ ! -e $work/sleepy ]] || sleep 0.2
done) 2>/dev/null 6>&- &
booter=$!

booted() { cat "$boots/log" 2>/dev/null | wc -l; }
states() { sinfo -h -N -n "$1" -o %T; }
awake() { sinfo -h -N -n "$1" -o '%N %T' | grep -v 'idle~\|powered_down' | cut -d' ' -f1; }
# What sleeps answers nobody. Did its slurmd answer while it boots, slurmctld would know since when that is up, and not take
# the word of the next, which is up for 0 s; it asks again only where it knows nothing (22.05.8).
put_to_sleep() {
    local node
    for node in $(awake "$1"); do scontrol update NodeName="$node" State=POWER_DOWN || return; done
    wait_until "[[ ! \$(awake '$1') ]]" || return
    for node in $(scontrol show hostnames "$1"); do stop_slurmd "$node"; done
}
settled() { wait_until "[[ ! \$(sinfo -h -N -o %T | grep -E '#|powering_up') ]]" 60; }
# Those of the job that slept have been woken up.
has_nodes() {
    wait_for_state "$1" 'RUNNING|CONFIGURING' &&
        wait_until "[[ ! \$(states \"\$(on_nodes $1)\" | grep -E '~|powered_down') ]]"
}
gone() { scancel "$@" && wait_until "[[ ! \$(squeue -h -t PD,R,CF,CG -o %i) ]]" 60 && settled; }
on_nodes() { job_field "$1" NodeList; }
run() { squeue -h -n arena-profile -t R,CF -o %A | head -n 1; }
# model SIZE: a small model of its own; prints its file
model() {
    printf '%s\n' "name: b$1" 'family: gpt' 'layers: 2' "hidden: $1" 'heads: 4' 'vocab: 1024' 'seq_length: 64' \
        'precision: fp32' >"$work/b$1.yaml"
    echo "$work/b$1.yaml"
}
# shellcheck disable=SC2317  # called by stream
ordinary() { submit --time=60 -o /dev/null -N "$1" --gres="gpu:a40:$2" "$work/trainer"; }
ours() {
    submit --time=60 -o /dev/null --arena-model="$(model "${3-128}")" --arena-batch=24 --arena-launcher=env \
        --arena-types=a40 --arena-gpus=$(($1 * $2)) "$work/trainer"
}

# ---- a profile run goes to the node that is awake ---------------------------------------------------------------
ok "five nodes sleep" put_to_sleep 'n[1-5]'
job=$(ours 1 1)
ok "a model is measured" wait_until "[[ -s $boots/measures ]]"
is "$(<"$boots/measures")" n6 "on the node that is awake"
touch "$work/gate"
ok "its job starts" wait_started "$job" 1 60
is "$(on_nodes "$job") $(booted)" "n6 0" "there, too, and no node was woken up"
let_go "$job"
ok "it ends" wait_for_state "$job" COMPLETED

# ---- the same stream under stock Slurm and under Arena: nodes 1 to 3 sleep, 4 to 6 are awake ------------------------
# Nodes and GPUs per node of each job, in the order of submission.
streams=("1x2 1x2 2x2 1x2" "1x1 1x1 1x2 1x1 1x1" "3x2 1x1 1x1")
# stream COMMAND JOBS: how many nodes it woke up, in $woken. Slurm looks each 30 s whether the nodes of a job are up:
# that is not waited for. A node powers up before its ResumeProgram has noted it: they are counted when none does any more.
stream() {
    local shape job ids=() before
    before=$(booted)
    for shape in $2; do ids+=("$("$1" "${shape%x*}" "${shape#*x}")"); done
    for job in "${ids[@]}"; do has_nodes "$job" || return; done
    gone "${ids[@]}" || return
    woken=$(($(booted) - before))
    put_to_sleep 'n[1-3]'
}
wake_up() { scontrol update NodeName="$1" State=POWER_UP && wait_until "[[ ! \$(states '$1' | grep -v '^idle\$') ]]" 60; }
ok "two of them are woken up again" wake_up 'n[4-5]'
more='' counts='' woken=0
for jobs in "${streams[@]}"; do
    stock=none arena=none
    if stream ordinary "$jobs"; then stock=$woken; fi
    if stream ours "$jobs"; then arena=$woken; fi
    like "$arena/$stock" '^[0-9]+/[0-9]+$' "stock and Arena start $jobs"
    counts+=" $arena/$stock"
    ((arena <= stock)) || more+=" $jobs: $arena (stock $stock)"
done
is "$more" "" "no stream boots more nodes under Arena than under stock Slurm"
like "$counts" '[1-9]' "and some boot nodes"
note "boots, Arena/stock:$counts"
[[ ! -e $boots/failed ]] || note "$(<"$boots/failed")"

# ---- a node is woken up for a run, and the run ends with the last job that wants it ----------------------------------
ok "all nodes sleep" put_to_sleep 'n[1-6]'
touch "$work/sleepy"
before=$(booted)
job=$(ours 1 1 132)
ok "a node is woken up for a profile run, and the job says so" wait_for_reason "$job" 'profiling.b132.*n[1-6].boots' 30
like "$(arena explain "$job" 2>&1)" 'n[1-6] boots, about [0-9]+ s' "arena explain, too"
carrier=$(run)
scancel "$job"
ok "when the job is cancelled the run ends" wait_for_state "$carrier" CANCELLED
ok "and no node is woken up for anybody" wait_until "[[ ! \$(squeue -h -t R,CF,CG) ]]"
ok "at most that one was" test $(($(booted) - before)) -le 1
rm "$work/sleepy"

# ---- a node that did not boot -----------------------------------------------------------------------------------------
ok "the nodes settle" settled
ok "all nodes sleep again" put_to_sleep 'n[1-6]'
scontrol update NodeName=n1 State=DOWN Reason='ResumeTimeout reached'   # as slurmctld says it
job=$(ours 1 2)
ok "a job has another node while n1 is down because it did not boot" has_nodes "$job"
ok "it goes" gone "$job"
ok "n1 looks as before" eval 'scontrol update NodeName=n1 State=RESUME && put_to_sleep "n[1-6]"'
job=$(ours 1 2)
ok "another job has a node" has_nodes "$job"
isnt "$(on_nodes "$job")" n1 "and it is another than the one that did not boot"
like "$(arena explain "$job" 2>&1)" 'n1: it did not boot' "arena explain says why"
ok "it goes" gone "$job"

# ---- slurmctld is restarted: boots.json has what was seen ------------------------------------------------------------------
# seen NODE WHAT: whole seconds of it there, 0 = never; longest: the longest boot of all nodes
seen() { jq "[.nodes[] | select(.node == \"$1\") | .$2 // 0 | floor] | add // 0" "$cluster_dir/profile-store/boots.json"; }
longest() { jq '[.nodes[].took_s // 0 | ceil] | max // 0' "$cluster_dir/profile-store/boots.json"; }
took() { jq -r ".nodes[] | select(.node == \"$1\") | .took_s // 0" "$cluster_dir/profile-store/boots.json"; }
restart() { cluster ctld restart && wait_until '[[ $(scontrol ping) == *UP* ]]' 30; }
ok "all nodes sleep once more" put_to_sleep 'n[1-6]'
touch "$work/sleepy"
job=$(ours 1 2)
ok "a job waits for a node that boots" wait_until '[[ $(on_nodes $job) == n? ]] && (($(seen "$(on_nodes $job)" waking_s) > 0))' 30
node=$(on_nodes "$job")
# Longer than it might have been booting before anybody looked: so its time is believed.
ok "for some time" wait_until '(($(date +%s) - $(seen "$node" waking_s) > 3 + $(seen "$node" waking_s) - $(seen "$node" asleep_s)))' 30
began=$(seen "$node" waking_s)
ok "slurmctld is restarted meanwhile" restart
# shellcheck disable=SC2034  # evaluated by wait_until
before=$(took "$node") least=$(($(date +%s) - began - 1))   # it may have booted before
rm "$work/sleepy"
ok "the node boots, and how long that took is known" wait_until '[[ $(took "$node") != "$before" ]]' 60
ok "all of it" test "$(seen "$node" took_s)" -ge "$least"
ok "up to now at most" test "$(seen "$node" took_s)" -le $(($(date +%s) - began + 1))
ok "the job runs there" wait_for_state "$job" RUNNING 60
ok "it goes" gone "$job"
ok "all nodes sleep again" put_to_sleep 'n[1-6]'
ok "slurmctld is restarted" restart
touch "$work/sleepy"
job=$(ours 1 1 136)
ok "a job says that a node boots" wait_for_reason "$job" 'profiling.b136.*n[2-6].boots' 30
ok "in at most what it took before, not in ResumeTimeout" test \
    "$(job_reason "$job" | sed -n 's/.*boots, about \([0-9]*\) s.*/\1/p')" -le "$(longest)"
like "$(arena explain "$job" 2>&1)" 'n1: it did not boot' "and n1 is still left alone"
rm "$work/sleepy"
ok "it goes" gone "$job"
kill "$booter"
done_testing
