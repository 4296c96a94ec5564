#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Issue 16, B1: the SPANK part works as soon as it is installed, slurmctld's parts after a restart. In every
# state between installing and leaving, `sbatch --arena-*` reaches Arena or is refused with what to do; it
# never becomes an ordinary job without a GPU, and nothing changes for other jobs.
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
need_arena
start_cluster --nodes a40:1x2 --arena off
cp "$cluster_dir/slurm.conf" "$work/stock.conf"
plugins=$stage/lib/slurm-arena
stock=$(sed -n 's/^PluginDir=//p' "$work/stock.conf")
# A job that nobody runs: whether it is there is all that counts.
asks=(--hold -J asks --arena-model=gpt2 --arena-launcher=env --arena-batch=8 --arena-gpus=1 --wrap true)
jobs_there() { squeue -h -a -t all -n "$1" -o %i | wc -l; }
# set_conf PLUGINDIR SCHEDULER JOBSUBMIT: writes slurm.conf, which slurmctld has not read yet
set_conf() {
    sed -e "s|^PluginDir=.*|PluginDir=$1|" -e "s|^SchedulerType=.*|SchedulerType=$2|" "$work/stock.conf" >"$work/new.conf"
    [[ ! $3 ]] || echo "JobSubmitPlugins=$3" >>"$work/new.conf"
    cat "$work/new.conf" >"$cluster_dir/slurm.conf"
}
running_conf() { scontrol show config | sed -n "s/^$1 *= //p"; }
# refused PATTERN: nothing is submitted, with a sentence
refused() {
    local out rc=0 before
    before=$(jobs_there asks)
    out=$(cd "$work" && sbatch "${asks[@]}" 2>&1) || rc=$?
    note "$out"
    [[ $rc == 1 && $out =~ $1 && $out =~ 'not submitted; ask the administrator' && $(jobs_there asks) == "$before" && $(wc -l <<<"$out") == 1 ]] ||
        { echo "exit $rc, $(jobs_there asks) jobs, $before before: $out"; return 1; }
}
accepted() { local job; job=$(submit "${asks[@]}") && [[ $(job_field "$job" AdminComment) == arena:v1* ]]; }

echo "optional $plugins/spank_arena.so" >"$cluster_dir/plugstack.conf"
ok "the SPANK part is there" grep -q -- --arena-model <(sbatch --help)
no_plugins='JobSubmitPlugins is (empty|\(null\)), without arena'
ok "installed, nothing of it in slurmctld: refused" refused "$no_plugins"
is "$(SLURM_EXIT_ERROR=42 sbatch "${asks[@]}" >/dev/null 2>&1; echo $?)" 42 "with the exit code that the user wants for errors"
ok "an ordinary job is as before" submit --hold --wrap true
like "$(srun --arena-model=gpt2 --arena-launcher=env --arena-batch=8 -t 5 echo ran 2>&1)" 'for sbatch and salloc; this job of srun.*ran' "so is srun, with its note"

set_conf "$plugins:$stock" sched/arena arena
ok "written into slurm.conf, but slurmctld has not read it: refused" refused "$no_plugins"
scontrol reconfigure
ok "the reconfigure brings the submit plug-in" wait_until '[[ $(running_conf JobSubmitPlugins) == arena ]]'
if slurm_has 23.11; then skip 1 "since 23.11 a reconfigure is a new slurmctld, with the scheduler of slurm.conf"
else ok "the scheduler needs a restart: refused" refused 'SchedulerType is sched/backfill, not sched/arena'; fi
ok "slurmctld restarts" cluster ctld restart
ok "all of it is there: taken" accepted
set_conf "$plugins/as-backfill:$plugins:$stock" sched/backfill arena
ok "slurmctld restarts with Arena under Slurm's name" cluster ctld restart
ok "taken" accepted

set_conf "$stock" sched/backfill ''
ok "leaving, before the restart, Arena still works" accepted
ok "slurmctld restarts without Arena" cluster ctld restart
ok "left, but for the SPANK part: refused" refused "$no_plugins"
# The small part without what it leaves to the other.
mkdir "$work/alone" && cp "$plugins/spank_arena.so" "$work/alone"
echo "optional $work/alone/spank_arena.so" >"$cluster_dir/plugstack.conf"
like "$(submit "${asks[@]}" 2>&1; echo "exit $?")" "arena: not installed as a whole: $work/alone/libarena_spank.so.*exit [1-9]" \
    "half a SPANK part refuses Arena jobs"
ok "and takes ordinary ones" submit --hold --wrap true
: >"$cluster_dir/plugstack.conf"
like "$(submit "${asks[@]}")" "unrecognized option '--arena-model=gpt2'" "without the SPANK part sbatch does not know the option"
done_testing
