#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A host whose network becomes slow: three hosts in namespaces, a bridge, `tc tbf` on one. Its watched job names the link
# and not which end it is; another job that has a third host tells. Then the slow host is avoided, and never a healthy
# one alone. Which of the three is slow: ARENA_SLOW_HOST (h0, h1, h2); tests/soak/slow-host runs it again and again.
# shellcheck disable=SC2016,SC2034,SC2317  # functions are called by ok, conditions evaluated by wait_until
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/arena.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/train.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/watched.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/hosts.sh"
need_arena
need_mpi_in_slurm
need_hosts
command -v jq >/dev/null || skip_all 'jq is not installed'
(($(nproc) >= 2)) || skip_all 'two ranks need a processor each'

start_hosts 'slowdown:' '  poll_s: 2' '  confirmations: 2'
gates=$host_dir/gates
mkdir -m 1777 "$gates"
work=$host_dir prepare_learning
sed -i 's/^export OMPI_MCA.*/export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_btl=self,tcp OMPI_MCA_btl_tcp_if_include=eth0/' "$host_dir/life"
slow=${ARENA_SLOW_HOST:-h1}
healthy=()
for host in "${hosts[@]}"; do [[ $host == "$slow" ]] || healthy+=("$host"); done
log=$host_dir/log/slurmctld.log
extra_of() { on h0 scontrol show node "$1" | sed -n 's/^ *Extra=//p'; }
avoided() { on h0 arena slowdown list --json | jq -r '[.nodes[] | select(.confirmed).node] | join(" ")'; }
learn_on() {   # NAME HOSTS: Arena chooses the nodes, among all but the third
    on h0 sbatch --parsable -J "$1" --exclude="$(printf '%s\n' "${hosts[@]}" | grep -vxF -e "${2%,*}" -e "${2#*,}")" -N 2 -o "$gates/$1.out" --chdir="$host_dir" --time=30 --export="ALL,STEPS=100000" \
        --arena-model="$host_dir/small.yaml" --arena-batch=12 --arena-launcher=arena-train --arena-gpus=2 \
        --arena-plan=pp1,dp2,tp1,mb1x6 --arena-slowdown=watch "$host_dir/life" 2>"$host_dir/sbatch.err"
}
on_fail() {
    diag "$(tail -n 15 "$log")"
    diag "$(on h0 squeue -a -o '%i %j %T %r %N' 2>&1; cat "$host_dir/sbatch.err"; tail -n 5 "$gates"/*.out 2>/dev/null)"
}
# a job on these two: the slow one's network becomes slow meanwhile, and the job's chief says so
see_it_become_slow() {   # NAME HOSTS
    local job
    job=$(learn_on "$1" "$2") || { fail "job $1 is submitted" "$(cat "$host_dir/sbatch.err")"; return; }
    ok "a watched job trains on $2" wait_until "((\$(step_of $1) >= 30))" 120
    slow_host "$slow" on
    ok "the network of $slow is slow: its chief names a link" wait_until "has_event $1 '.event == \"verdict\" and .cause == \"communication\"'" 120
    ok "slurmctld holds it against both ends" wait_until "[[ \$(extra_of ${2%,*}) == *communication*peer=${2#*,}* && \$(extra_of ${2#*,}) == *communication*peer=${2%,*}* ]]" 30
    is "$(events "$1" '.event == "verdict" and .cause == "compute"' | jq -s length)" 0 "no GPU is blamed"
    on h0 scancel "$job"
    slow_host "$slow" off
    ok "the job is over" wait_until "[[ ! \$(on h0 squeue -h -j $job -o %T 2>/dev/null) ]]" 60
}

see_it_become_slow first "$(printf '%s\n' "$slow" "${healthy[0]}" | sort | paste -sd,)"
is "$(avoided)" '' "one slow link: no host is avoided alone"
see_it_become_slow second "$(printf '%s\n' "$slow" "${healthy[1]}" | sort | paste -sd,)"
ok "a slow link to a third host tells: $slow is avoided" wait_until '[[ $(avoided) == "$slow" ]]' 20
is "$(grep -oE 'node h[0-2] is avoided' "$log" | sort -u)" "node $slow is avoided" "and no healthy host ever was"
is "$(grep -c 'Arena is off' "$log")" 0 "Arena had no fault"
next=$(on h0 sbatch --parsable -J next -o /dev/null --chdir=/ --time=5 --arena-model=gpt2 --arena-launcher=env --arena-batch=12 --arena-gpus=2 --wrap 'sleep 600')
ok "the next job of two hosts starts" wait_until '[[ $(on h0 squeue -h -j "$next" -o %T) == RUNNING ]]' 60
is "$(on h0 squeue -h -j "$next" -o %N)" "$(printf '%s\n' "${healthy[@]}" | sort | paste -sd, | sed 's/h0,h1/h[0-1]/; s/h1,h2/h[1-2]/; s/h0,h2/h[0,2]/')" "on the healthy ones"
done_testing
