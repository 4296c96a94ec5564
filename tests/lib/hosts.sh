# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Black-box tests on three hosts of one machine: network namespaces on a bridge, each with a mount, PID, UTS and IPC
# namespace of its own: hostname, address, /run, /tmp, /dev/shm and /var/log. slurmctld is on h0, a slurmd with one GPU
# on each. Source it after tap.sh and cluster.sh. All of it ends with the test.
#   need_hosts                skips the test, with the reason, where no such hosts can be made
#   start_hosts [KEY: VALUE]  the hosts, munged and Slurm with our plug-ins on them; lines of arena.yaml besides
#   host_conf                 lines of slurm.conf besides, an array
#   on HOST COMMAND...        runs it there, as root
#   crash_host HOST           all that ran there is gone at once, and so is the host from the network
#   boot_host HOST            it is back, with munged and slurmd
#   plug HOST off|on          its cable
#   slow_host HOST on|off     its network card takes 200 Mbit/s and 5 ms for each packet; off: as before
#   $host_dir                 shared by the hosts, at the same path, as is $work/shared
: "${ARENA_SRCDIR=}" "${ARENA_BUILDDIR=}" "${work=}" "${stage=}"   # of cluster.sh
host_dir='' host_conf=()
hosts=(h0 h1 h2)
net=arena_$$

need_hosts() {
    ((EUID == 0)) || skip_all "needs root: hosts are namespaces"
    local program reason
    for program in ip tc unshare nsenter; do
        command -v "$program" >/dev/null || skip_all "$program is not installed"
    done
    reason=$({ ip netns add "${net}_try" && ip netns exec "${net}_try" ip link add br0 type bridge &&
        ip netns exec "${net}_try" tc qdisc add dev br0 root tbf rate 1mbit burst 32kb latency 1ms; } 2>&1) ||
        { ip netns del "${net}_try" 2>/dev/null; skip_all "this kernel makes no bridge, or no tbf, in a network namespace: $reason"; }
    ip netns del "${net}_try"
    unshare -m -u -i -p -f --mount-proc true 2>/dev/null || skip_all "no mount and PID namespaces can be made here"
}

# The subnet is in namespaces alone: another test may have the same one.
make_network() {
    local i
    ip netns add "${net}_sw"
    ip netns exec "${net}_sw" ip link add br0 type bridge
    ip netns exec "${net}_sw" ip link set br0 up
    for i in 0 1 2; do
        ip netns add "${net}_h$i"
        ip netns exec "${net}_sw" ip link add "p$i" type veth peer name eth0 netns "${net}_h$i"
        ip netns exec "${net}_sw" ip link set "p$i" master br0 up
        ip netns exec "${net}_h$i" ip addr add "10.77.0.1$i/24" dev eth0
        ip netns exec "${net}_h$i" ip link set eth0 up
        ip netns exec "${net}_h$i" ip link set lo up
    done
}

write_host_files() {
    local i
    printf '127.0.0.1 localhost\n10.77.0.10 h0\n10.77.0.11 h1\n10.77.0.12 h2\n' >"$host_dir/etc/hosts"
    head -c 128 /dev/urandom >"$host_dir/etc/munge.key"
    chmod 400 "$host_dir/etc/munge.key"
    echo "optional $stage/lib/slurm-arena/spank_arena.so" >"$host_dir/etc/plugstack.conf"
    echo "Name=gpu Type=a40 File=$host_dir/dev/gpu0" >"$host_dir/etc/gres.conf"
    # As private-cluster has them.
    if slurm_has 24.05; then echo CgroupPlugin=disabled; else echo CgroupPlugin=cgroup/v1; fi >"$host_dir/etc/cgroup.conf"
    echo PMIxCollFence=ring >"$host_dir/etc/mpi.conf"
    ln -s /dev/null "$host_dir/dev/gpu0"
    {
        printf '%s\n' 'interval_s: 1' 'min_gap_s: 0.2' "socket: $host_dir/run/arena.sock" 'profile:' '  enabled: false' \
            "  store: $host_dir/state/profiles.db" "  spool: $host_dir/spool"
        printf '%s\n' "$@" 'gpu_types:' '  a40: emulated-cpu'
    } >"$host_dir/etc/arena.yaml"
    cat >"$host_dir/etc/slurm.conf" <<END
ClusterName=hosts
SlurmctldHost=h0
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=/run/munge/munge.socket
CredType=cred/munge
StateSaveLocation=$host_dir/state
SlurmdSpoolDir=/var/spool/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile=$host_dir/log/slurmctld.log
SlurmdLogFile=$host_dir/log/slurmd.%h.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=100
GresTypes=gpu
PriorityType=priority/basic
PlugStackConfig=$host_dir/etc/plugstack.conf
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=1,bf_interval=1,bf_resolution=1,batch_sched_delay=1,bf_continue
ReturnToService=2
KillWait=2
MessageTimeout=60
PluginDir=$stage/lib/slurm-arena:$(stock_plugin_dir)
SchedulerType=sched/arena
JobSubmitPlugins=arena
RequeueExitHold=99
$(printf '%s\n' ${host_conf[@]+"${host_conf[@]}"})
NodeName=h[0-2] CPUs=4 RealMemory=4000 Gres=gpu:a40:1 Feature=a40 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES State=UP MaxTime=INFINITE DefaultTime=60
END
}

# Its first process is PID 1 of its namespace: with it all that is there ends.
start_host() {
    local host=$1
    mkdir -p "$host_dir/$host"
    # shellcheck disable=SC2016  # expands in the host
    ip netns exec "${net}_$host" unshare -m -u -i -p -f --mount-proc bash -c '
        set -e
        host=$1 dir=$2 stage=$3
        mount --make-rprivate /
        hostname "$host"
        mount --bind "$dir/etc/hosts" /etc/hosts
        mount -t tmpfs -o mode=755 run /run
        mount -t tmpfs -o mode=1777 shm /dev/shm
        mount -t tmpfs -o mode=755 spool /var/spool
        mount -t tmpfs -o mode=755 log /var/log
        # What all share lies below /tmp, which is each own.
        mkdir -p /run/shared /run/stage /run/munge /var/spool/slurmd /var/log/munge
        mount --bind "$dir" /run/shared
        mount --bind "$stage" /run/stage
        mount -t tmpfs -o mode=1777 tmp /tmp
        mkdir -p "$dir" "$stage"
        mount --bind /run/shared "$dir"
        mount --bind /run/stage "$stage"
        echo $$ >"$dir/$host/up"
        exec -a "arena-test-$host" sleep infinity
    ' _ "$host" "$host_dir" "$stage" >"$host_dir/$host/log" 2>&1 </dev/null &
    keeper[$host]=$!
}

on() {
    local host=$1
    shift
    nsenter -t "${inner[$host]}" -m -u -i -n -p -- env -C / SLURM_CONF="$host_dir/etc/slurm.conf" ARENA_CONF="$host_dir/etc/arena.yaml" \
        ARENA_DATA_DIR="$stage/share/slurm-arena" PATH="$stage/bin:$PATH" "$@"
}

declare -A keeper=() inner=()
meet_host() {
    local host=$1
    wait_until "[[ -e $host_dir/$host/up ]]" 10 || BAIL_OUT "$host did not start: $(cat "$host_dir/$host/log")"
    inner[$host]=$(descendant "${keeper[$host]}")
    on "$host" bash -c "install -m 400 $host_dir/etc/munge.key /run/munge.key && exec munged --force --key-file=/run/munge.key --socket=/run/munge/munge.socket --pid-file=/run/munge.pid --log-file=/run/munge.log --seed-file=/run/munge.seed" ||
        BAIL_OUT "munged on $host: $(on "$host" cat /run/munge.log)"
}

start_hosts() {
    local host
    make_work
    host_dir=$work/hosts
    mkdir -p "$host_dir"/{etc,state,log,spool,dev,run}
    trap leave_hosts EXIT
    make_network
    write_host_files "$@"
    for host in "${hosts[@]}"; do start_host "$host"; done
    for host in "${hosts[@]}"; do meet_host "$host"; done
    on h0 slurmctld || BAIL_OUT "slurmctld did not start"
    for host in "${hosts[@]}"; do on "$host" slurmd || BAIL_OUT "slurmd on $host did not start"; done
    # shellcheck disable=SC2016
    wait_until '[[ $(on h0 sinfo -h -o %T 2>/dev/null | sort -u) == idle ]]' 60 || BAIL_OUT "no cluster: $(on h0 sinfo 2>&1; tail -n 20 "$host_dir/log/slurmctld.log")"
}

# unshare -f waits for its child, which became `sleep`.
descendant() {
    local pid=$1 child
    while child=$(pgrep -P "$pid" | head -n 1) && [[ $child ]]; do pid=$child; done
    echo "$pid"
}

plug() { ip netns exec "${net}_sw" ip link set "p${1#h}" "$([[ $2 == on ]] && echo up || echo down)"; }

# Nobody hears that what ran there has ended.
crash_host() {
    plug "$1" off
    kill -KILL "${inner[$1]}"
    wait "${keeper[$1]}" 2>/dev/null
}
boot_host() {
    rm -f "$host_dir/$1/up"
    start_host "$1"
    meet_host "$1"
    plug "$1" on
    on "$1" slurmd || BAIL_OUT "slurmd on $1 did not start"
}

slow_host() {
    if [[ $2 == on ]]; then on "$1" tc qdisc add dev eth0 root tbf rate 200mbit burst 32kb latency 400ms
    else on "$1" tc qdisc del dev eth0 root; fi
}

leave_hosts() {
    local rc=$? host pid
    trap - EXIT
    cd / || true
    for host in "${hosts[@]}"; do
        pid=${inner[$host]-}
        [[ ! $pid || $(tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null) != "arena-test-$host "* ]] || kill -KILL "$pid"
    done
    for pid in "${keeper[@]}"; do wait "$pid" 2>/dev/null; done
    for host in "${hosts[@]}" sw; do ip netns del "${net}_$host" 2>/dev/null; done
    [[ ${ARENA_KEEP_WORK-} ]] || rm -rf "$work"
    exit $rc
}
