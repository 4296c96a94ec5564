#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The private cluster itself, with stock Slurm: nodes, fake GPUs, jobs, slurmctld kill and node down,
# two clusters side by side, and nothing left behind.
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
need_slurm

start_cluster --nodes a40:2x4,a100:1x2
is "$(sinfo -h -N -o '%N %T %G' | sort | tr '\n' ';')" "n1 idle gpu:a40:4;n2 idle gpu:a40:4;n3 idle gpu:a100:2;" \
    "three nodes are idle with their typed GPUs"

# shellcheck disable=SC2016
job=$(submit -N2 --ntasks-per-node=1 --gres=gpu:a40:3 -o "$work/out" \
    "$(script 'srun sh -c "echo gpus \$CUDA_VISIBLE_DEVICES on \$SLURMD_NODENAME"')")
ok "a batch job on two nodes completes" wait_for_state "$job" COMPLETED
is "$(sort "$work/out" | tr '\n' ';')" "gpus 0,1,2 on n1;gpus 0,1,2 on n2;" \
    "each rank sees in CUDA_VISIBLE_DEVICES the three GPUs that its node gave"
is "$(job_field "$job" TresPerNode)" gres:gpu:a40:3 "job_field reads TresPerNode of the job"
is "$(job_field "$job" NumNodes)" 2 "job_field reads NumNodes of the job"
is "$(job_field 999999 NumNodes)" "" "job_field of an unknown job is empty"
not_ok "a GPU type that no node has is refused" submit --gres=gpu:h100:1 --wrap true

sleeper=$(submit --gres=gpu:a100:2 --wrap 'sleep 1000')
ok "a long job runs" wait_for_state "$sleeper" RUNNING
waiter=$(submit --gres=gpu:a100:1 --wrap 'sleep 1000')
ok "a job that finds no free GPU waits for resources" wait_for_reason "$waiter" '^(Resources|Priority)$'
not_ok "wait_for_state gives up at its limit" wait_for_state "$waiter" RUNNING 1

ok "slurmctld saves the jobs" wait_saved
ok "slurmctld can be killed" cluster ctld kill
not_ok "a killed slurmctld does not answer" timeout 5 env SLURM_CONF="$cluster_dir/slurm.conf" \
    sh -c 'scontrol ping | grep "is UP"'
ok "slurmctld starts again" cluster ctld start
ok "every node answers again" cluster wait
is "$(job_state "$sleeper")" RUNNING "the long job survived the kill of slurmctld"

ok "a node can be taken down" cluster node n1 down
like "$(sinfo -h -n n1 -o %T)" '^down' "the node is down"
ok "the node comes up again" cluster node n1 up
nap=$((90000 + $$))  # seconds: no other process of this machine sleeps for as long
marker=$(script "touch $work/lives; exec sleep $nap")
doomed=$(submit --no-requeue --gres=gpu:a40:1 "$marker")
ok "a job runs on some node" wait_until "[[ -e $work/lives ]]"
node=$(job_field "$doomed" BatchHost)
sed -i 's/^SlurmdTimeout=.*/SlurmdTimeout=20/' "$cluster_dir/slurm.conf" && scontrol reconfigure
ok "the node can be killed" cluster node "$node" kill
ok "with the job's processes" wait_until '! pgrep -f "^sleep $nap\$" >/dev/null' 10
ok "slurmctld finds out by itself" wait_for_state "$doomed" NODE_FAIL 60
ok "what runs on another node goes on" wait_until '[[ $(sinfo -h -n n3 -o %T) =~ ^mixed-?$ ]]' 20
is "$(job_state "$sleeper") $(job_field "$sleeper" Restarts)" "RUNNING 0" "in its first life"
ok "the killed node comes up again" cluster node "$node" up

first=$work/cluster second=$work/second
ok "a second cluster runs beside the first" "$private_cluster" start --dir "$second" --nodes a40:1x8 --arena off
is "$("$private_cluster" shell --dir "$second" sinfo -h -N -o '%N %G')" "n1 gpu:a40:8" "the second cluster has its own node"
ok "the second cluster stops" "$private_cluster" stop --dir "$second"
is "$(sinfo -h -N | wc -l)" 3 "the first cluster still answers"
not_ok "a used directory is refused" "$private_cluster" start --dir "$first"
not_ok "a directory of somebody else is refused" "$private_cluster" start --dir /usr
not_ok "a malformed node list is refused" "$private_cluster" start --dir "$second" --nodes a40:2 --arena off
ok "the refused start leaves no directory" test ! -e "$second"

isnt "$(all_processes)" "" "the cluster knows its own processes"
pids=$(all_processes | tr '\n' ' ')
# shellcheck disable=SC2317
alive() {   # a zombie that nobody has reaped yet has no command line
    local pid
    for pid in $pids; do
        [[ ! $(tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline") ]] || return 0
    done
    return 1
}
ok "its processes run" alive
ok "the cluster stops with a job still running" stop_cluster
not_ok "no process of the cluster is left" alive
ok "its directory is gone" test ! -e "$first"

# A job runs whatever this machine's own name stands for: Debian's installer writes 127.0.1.1, others an address that
# is not up, some nothing.
runs_with_hosts() ( # LINE
    { echo "127.0.0.1 localhost"; echo "$1"; } >"$work/hosts"
    # shellcheck disable=SC2016  # expands in the other namespace
    unshare --mount sh -c 'mount --bind "$1" /etc/hosts || exit 1; shift
        "$1" start --dir "$2" --nodes cpu:1x0 --arena off && "$1" shell --dir "$2" timeout 90 srun true
        rc=$?; "$1" stop --dir "$2"; exit $rc' sh "$work/hosts" "$private_cluster" "$second"
)
if ((EUID == 0)); then
    for line in "127.0.1.1 $(uname -n)" "192.0.2.1 $(uname -n)" "# no $(uname -n)"; do
        ok "a job runs with \`$line' in /etc/hosts" runs_with_hosts "$line"
    done
else
    skip 3 "only root can give /etc/hosts another content"
fi

# Where a user's port claims lie, anybody could have put something before.
# shellcheck disable=SC1091,SC2034  # the variables are pick_ports' own
claim() ( # WHAT MAKES THE REGISTRY...
    registries=$work/claims- registry=$work/claims-$EUID marker=.arena-private-cluster dir=$cluster_dir port=0
    die() { echo "$*"; exit 1; }
    . "$ARENA_SRCDIR/contrib/own-directory.sh"
    . "$ARENA_SRCDIR/contrib/private-cluster.d/files.sh"
    rm -rf "$registry"
    "$@" "$registry"
    pick_ports 6 && echo "$port"
)
ok "ports are claimed in a directory of one's own" claim true
is "$(find "$work/claims-$EUID" -type f | wc -l)" 1 "the claim is one file"
elsewhere() { find "$work" -maxdepth 1 -type d -name "claims-$EUID.*" -user "$EUID" | wc -l; }
mkdir "$work/linked"
like "$(claim ln -s "$work/linked")" '^[0-9]+$' "where a link is in its place ports are found all the same"
is "$(elsewhere) $(ls "$work/linked")" '1 ' "and claimed beside it"
if ((EUID == 0)); then
    rm -rf "$work"/claims-*
    like "$(claim install -d -o nobody) $(elsewhere)" '^[0-9]+ 1$' "as where a directory of somebody else is there"
else
    skip 1 "only root can make a directory of somebody else's"
fi

done_testing
