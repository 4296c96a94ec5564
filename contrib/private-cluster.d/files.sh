# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# private-cluster: free ports and the configuration files of a cluster. Sourced.
# shellcheck disable=SC2154  # the variables of the options are private-cluster's
# ---- ports --------------------------------------------------------------------------------------
# Listening ports of the machine, decimal.
busy_ports() {
    local hex
    while read -r hex; do echo $((16#$hex)); done < <(
        cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | awk '$4 == "0A" { n = split($2, a, ":"); print a[n] }')
}

# Directories that hold claims, "UID PATH" each: of a user the one that is named by the uid and belongs to it, or, where
# somebody else has that name, one with more behind it. Anybody may make a directory of any name in /tmp: what belongs to
# another uid than it says is nobody's claim.
all_registries() {
    find "${registries%/*}" -maxdepth 1 -type d -name "${registries##*/}[0-9]*" -printf '%U %f\n' 2>/dev/null |
        awk -v directory="${registries%/*}" -v prefix="${registries##*/}" '
            NF == 2 && substr($2, length(prefix) + 1) ~ ("^" $1 "([.][A-Za-z0-9]+)?$") { print $1, directory "/" $2 }'
}
own_registries() {
    local owner path
    while read -r owner path; do
        [[ $owner != "$EUID" || $(why_not_ours "$path") ]] || echo "$path"
    done < <(all_registries | sort)
}

# The claims of this user's clusters, held until they are closed.
open_registry() {
    registry=$(own_registries | head -n 1)
    if [[ ! $registry ]]; then
        registry=$registries$EUID
        mkdir -m 755 "$registry" 2>/dev/null || registry=$(mktemp -d "$registries$EUID.XXXXXX") ||
            die "no directory for the claims of ports can be made in ${registries%/*}"
        chmod 755 "$registry"
    fi
    exec 8<"$registry"
    flock 8
}

# The first line of somebody else's file: who swaps it for a link or a fifo now gets nothing from us.
first_line() { dd if="$1" iflag=nonblock,nofollow bs=4096 count=1 status=none 2>/dev/null | tr -d '\0' | head -n 1; }

# Claims of one user that are looked at, and the ports of one: those of the largest cluster.
most_claims=32 most_ports=164

# Port ranges that living clusters have claimed, those of other users too (as far as they let us see them).
# Only our own stale claims are removed: another's directory may be a link to anywhere.
claimed_ports() {
    local owner directory name lo hi
    while read -r owner directory; do
        while read -r name; do
            IFS=- read -r lo hi <<<"$name"
            lo=$((10#$lo)) hi=$((10#$hi))
            ((lo <= hi && hi <= 65535 && hi - lo < most_ports)) || continue
            if [[ -e $(first_line "$directory/$name")/$marker ]]; then
                seq "$lo" "$hi"
            elif [[ $directory == "$registry" ]]; then
                rm -f "$directory/$name"
            fi
        done < <(find "$directory" -maxdepth 1 -type f -name '[0-9]*-[0-9]*' -printf '%f\n' 2>/dev/null |
            grep -xE '[0-9]{1,5}-[0-9]{1,5}' | head -n "$most_claims")
    done < <(all_registries)
}

# A block of $1 ports below the ephemeral range that nobody listens on and no living cluster has claimed.
pick_ports() {
    local need=$1 try base busy
    open_registry
    busy=$(busy_ports; claimed_ports)
    for ((try = 0; try < 200; try++)); do
        base=$((port == 0 ? 10000 + (SRANDOM % 2200) * 10 : port))
        if ! awk -v lo=$base -v hi=$((base + need - 1)) '$1 >= lo && $1 <= hi { bad = 1 } END { exit !bad }' \
            <<<"$busy"; then
            port=$base
            echo "$dir" >"$registry/$base-$((base + need - 1))"
            flock -u 8
            exec 8<&-
            return
        fi
        ((port == 0)) || die "--port $port: some of the $need ports from $port on are taken"
    done
    die "no free block of $need ports found"
}

# ---- configuration files ------------------------------------------------------------------------
choose_users() {
    slurm_user=$me service_user=$me
    ((EUID == 0)) || return 0
    getent passwd slurm >/dev/null && slurm_user=slurm
    [[ $arena == on ]] || return 0
    service_user=arena
    local uid said
    uid=$(id -u arena 2>/dev/null) && ((uid >= 1000)) &&
        die "user arena (uid $uid) is not a system user: profile runs would belong to somebody; run as a user other than root"
    if [[ ! ${uid-} ]]; then
        # Another cluster that starts may have been faster.
        said=$(useradd --system --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin arena 2>&1) ||
            id -u arena >/dev/null 2>&1 || die "user arena cannot be made: $said"
        echo "private-cluster: created the system user arena, which profile runs belong to"
    fi
}

# Told not to listen on every address (NoInAddrAny), a Slurm daemon takes the one that this machine's name stands for,
# and srun waits there for answers that come to 127.0.0.1. Debian's installer writes 127.0.1.1 for the name.
choose_address() {
    listen=NoInAddrAny,NoCtldInAddrAny
    [[ $(getent ahostsv4 "$(uname -n)" | awk 'NR == 1 { print $1 }') == 127.0.0.1 ]] || listen=''
}

write_slurm_conf() {
    local group first last type gpus counts part n gres
    cat <<END
# Written by private-cluster; a private cluster on loopback with fake GPUs.
ClusterName=arena$port
SlurmctldHost=$(hostname -s)(127.0.0.1)
SlurmctldPort=$port
SlurmUser=$slurm_user
SlurmdUser=$me
AuthType=auth/munge
AuthInfo=socket=$dir/run/munge.socket
CredType=cred/munge
${listen:+CommunicationParameters=$listen}
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool/%n
TmpFS=$dir/tmp/%n
SlurmctldPidFile=$dir/run/slurmctld.pid
SlurmdPidFile=$dir/run/slurmd.%n.pid
SlurmctldLogFile=$dir/log/slurmctld.log
SlurmdLogFile=$dir/log/slurmd.%n.log
SlurmctldDebug=$debug
SlurmdDebug=$debug
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
$(write_accounting_lines)
MpiDefault=none
SwitchType=switch/none
PlugStackConfig=$dir/plugstack.conf
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=100
GresTypes=gpu
PriorityType=priority/$priority
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=1,bf_interval=1,bf_resolution=1,batch_sched_delay=1,bf_continue
ReturnToService=2
KillWait=2
MessageTimeout=30
SlurmctldTimeout=30
SlurmdTimeout=60
InactiveLimit=0
MinJobAge=3600
MaxJobCount=20000
PropagateResourceLimits=NONE
END
    if [[ $priority == multifactor ]]; then
        printf '%s\n' PriorityWeightAge=1000 PriorityMaxAge=1-0 PriorityWeightJobSize=1000 PriorityWeightPartition=1000
    fi
    if [[ $arena == on ]]; then
        cat <<END
PluginDir=$plugin_dir$([[ $spank_dir == "$plugin_dir" ]] || echo ":$spank_dir"):$stock_plugins
SchedulerType=sched/arena
JobSubmitPlugins=arena
RequeueExitHold=99
BatchStartTimeout=400
PrologEpilogTimeout=1200
END
        [[ $profile == off ]] || echo "Prolog=$dir/bin/prolog"
    else
        printf '%s\n' "PluginDir=$stock_plugins" SchedulerType=sched/backfill
    fi
    for group in "${groups[@]}"; do
        read -r first last type gpus counts <<<"$group"
        gres='' n=$((gpus * 4 > 8 ? gpus * 4 : 8))
        ((gpus)) && for part in $counts; do gres+=${gres:+,}gpu:$part; done
        gres=${gres:+ Gres=$gres}
        echo "NodeName=$(bracket n "$first" "$last") NodeHostname=$(hostname -s) NodeAddr=127.0.0.1" \
            "Port=$(bracket '' $((port + first)) $((port + last))) CPUs=${cpus:-$n}" \
            "RealMemory=$memory$gres Feature=$type State=UNKNOWN"
    done
    [[ ! $topology ]] || echo "TopologyPlugin=topology/${topology%%:*}"
    if [[ $preempt == yes ]]; then
        printf '%s\n' PreemptType=preempt/partition_prio PreemptMode=REQUEUE
        echo "PartitionName=high Nodes=ALL PriorityTier=10 PreemptMode=OFF State=UP MaxTime=INFINITE"
    fi
    echo "PartitionName=main Nodes=ALL Default=YES PriorityTier=1 State=UP MaxTime=INFINITE DefaultTime=60"
    for n in ${conf_extra[@]+"${conf_extra[@]}"}; do
        if [[ -f $n ]]; then cat "$n"; else printf '%s\n' "$n"; fi
    done
}

# names PREFIX COUNT: "leaf[1-3]"
names() { bracket "$1" 1 "$2"; }

write_topology_conf() {
    local kind=${topology%%:*} size=${topology#*:} word=SwitchName leaf=leaf n=0 first last pods leaves
    leaves=${size#*x} size=${size%x*}
    [[ $kind == tree ]] || word=BlockName leaf=block
    for ((first = 1; first <= node_count; first = last + 1)); do
        last=$((first + size - 1 < node_count ? first + size - 1 : node_count))
        echo "$word=$leaf$((++n)) Nodes=$(bracket n "$first" "$last")"
    done
    if [[ $kind == block ]]; then
        echo "BlockSizes=$size"
    elif [[ $topology != *x* ]]; then
        echo "SwitchName=spine Switches=$(names leaf "$n")"
    else
        for ((pods = 0, first = 1; first <= n; first = last + 1)); do
            last=$((first + leaves - 1 < n ? first + leaves - 1 : n))
            echo "SwitchName=pod$((++pods)) Switches=$(bracket leaf "$first" "$last")"
        done
        echo "SwitchName=core Switches=$(names pod "$pods")"
    fi
}

# GPU types of the nodes, each once.
gpu_types() {
    printf '%s\n' "${groups[@]}" | awk '$4 > 0 { for (i = 5; i <= NF; i++) { sub(/:.*/, "", $i); print $i } }' | sort -u
}

bracket() { if (($2 == $3)); then echo "$1$2"; else echo "$1[$2-$3]"; fi; }

write_gres_conf() {
    local n part count g
    for ((n = 1; n <= node_count; n++)); do
        g=0
        for part in ${node_gpus[n]}; do
            count=${part#*:}
            ((count)) || continue
            mkdir -p "$dir/dev/n$n"
            echo "NodeName=n$n Name=gpu Type=${part%:*} File=$dir/dev/n$n/$(bracket gpu $g $((g + count - 1)))"
            for ((count += g; g < count; g++)); do ln -s /dev/null "$dir/dev/n$n/gpu$g"; done
        done
    done
}

# Default arena.yaml, then --arena-set: group.key goes below its group, key to the top.
write_arena_yaml() {
    if [[ $arena_yaml ]]; then sed "s|@DIR@|$dir|g" "$arena_yaml"; return; fi
    # root measures nothing, and is refused as a name: without Arena it stands for the user there would be.
    local user=$service_user
    [[ $user != root ]] || user=arena
    local -A value=([interval_s]=1 [min_gap_s]=0.2 [socket]=$dir/run/arena.sock [profile.user]=$user
        [profile.budget_s]=8 [profile.time_limit_s]=120 [profile.spool]=$dir/profile-spool
        [profile.store]=$dir/profile-store/profiles.db)
    local pair key group type
    [[ $profile == on ]] || value[profile.enabled]=false
    for pair in ${arena_set[@]+"${arena_set[@]}"}; do value[${pair%%=*}]=${pair#*=}; done
    for key in $(printf '%s\n' "${!value[@]}" | grep -v '\.' | sort); do echo "$key: ${value[$key]}"; done
    # No pipe into grep -q: it ends at its first line, and whoever writes another then fails the pipe.
    for group in observe profile resize slowdown loan array; do
        grep -q "^$group\." <<<"$(printf '%s\n' "${!value[@]}")" || continue
        echo "$group:"
        for key in $(printf '%s\n' "${!value[@]}" | grep "^$group\." | sort); do
            echo "  ${key#*.}: ${value[$key]}"
        done
    done
    [[ $(gpu_types) ]] || return 0
    echo "gpu_types:   # fake GPUs: see hardware.yaml"
    for type in $(gpu_types); do echo "  $type: ${hardware_of[$type]}"; done
}

# With a configuration that it cannot read Arena is off, and slurmctld starts all the same.
check_arena_yaml() {
    [[ $arena == on && -x $prefix/bin/arena ]] || return 0
    local said
    said=$(ARENA_DATA_DIR=$prefix/share/slurm-arena "$prefix/bin/arena" config check "$dir/arena.yaml" 2>&1) || die "$said"
}

# slurmd gives a Prolog no environment of ours, so that this one names the private files first.
write_prolog() {
    cat <<END
#!/bin/sh
ARENA_CONF=$dir/arena.yaml ARENA_DATA_DIR=$prefix/share/slurm-arena
ARENA_LIBEXECDIR=$prefix/libexec/slurm-arena ARENA_PRIVATE_CLUSTER=$dir
export ARENA_CONF ARENA_DATA_DIR ARENA_LIBEXECDIR ARENA_PRIVATE_CLUSTER
exec $prolog "\$@"
END
}

# Made, or found empty and ours; nobody else can put anything into it from here on.
make_own_dir() {
    mkdir -p "$(dirname "$dir")"
    mkdir -m 755 "$dir" 2>/dev/null || [[ -d $dir ]] || die "$dir cannot be made"
    need_own_dir
    [[ ! $(ls -A "$dir") ]] || die "$dir exists and is not empty"
    chmod 755 "$dir"
    touch "$dir/$marker"
}

make_directories() {
    install -d -m 755 "$dir"/{bin,dev,log,run,spool}
    install -d -m 700 "$dir"/{state,profile-store,munge}
    install -d -m 755 "$dir/profile-spool"
    # One for each slurmd: PMIx names files after job and step alone, and the nodes are one host.
    local n
    for ((n = 1; n <= node_count; n++)); do install -d -m 1777 "$dir/tmp/n$n"; done
    if ((EUID == 0)); then
        chown "$slurm_user" "$dir"/{state,log,run,profile-store}
        chown "$service_user" "$dir/profile-spool"
        if [[ $service_user != "$me" ]]; then
            chgrp "$(id -gn "$slurm_user")" "$dir/profile-spool" && chmod 2750 "$dir/profile-spool"
        fi
    fi
    local name
    # shellcheck disable=SC2086  # words
    for name in slurmctld slurmd munged ${accounting:+slurmdbd mariadbd}; do
        ln -s "$(readlink -f "$(command -v "$name")")" "$dir/bin/$name" ||
            die "$name is not installed: run contrib/install-deps"
    done
}

write_files() {
    make_directories
    dd if=/dev/urandom of="$dir/munge/key" bs=128 count=1 status=none
    chmod 400 "$dir/munge/key"
    choose_address
    write_slurm_conf >"$dir/slurm.conf"
    [[ ! $accounting ]] || write_accounting_files
    write_gres_conf >"$dir/gres.conf"
    [[ ! $topology ]] || write_topology_conf >"$dir/topology.conf"
    # No control groups: a cluster may run in a container or as a normal user. Before 24.05 slurmd loads one of its
    # two plug-ins whatever the configuration says, and v2 insists on a mounted hierarchy; v1 then does nothing.
    if slurm_has 24.05; then echo "CgroupPlugin=disabled"; else echo "CgroupPlugin=cgroup/v1"; fi >"$dir/cgroup.conf"
    # Slurm's other fence, a tree, is none in jobs of fewer nodes than TreeWidth (seen in 22.05.8): ranks leave MPI_Init
    # while others are still in it, and Open MPI may crash or hang.
    echo "PMIxCollFence=ring" >"$dir/mpi.conf"
    write_arena_yaml >"$dir/arena.yaml"
    {
        echo "# SPANK plug-ins of this private cluster"
        [[ $arena == off ]] || echo "optional $spank_dir/spank_arena.so"
    } >"$dir/plugstack.conf"
    if [[ $arena == on ]]; then write_prolog >"$dir/bin/prolog"; chmod 755 "$dir/bin/prolog"; fi
    write_settings
    chmod 644 "$dir"/{slurm,gres,cgroup,mpi,plugstack}.conf "$dir"/{arena.yaml,settings}
}

# ---- what the other commands know of a cluster ----------------------------------------------------
write_settings() {
    local key
    for key in arena prefix node_count port service_user slurm_user; do
        printf '%s=%s\n' "$key" "${!key}"
    done >"$dir/settings"
}

# Parsed, never sourced: a value is no command, whoever wrote it.
read_settings() {
    local key value
    own_file "$dir/settings" || die "$dir/settings is not a file of yours"
    while IFS='=' read -r key value; do
        case $key in
            arena) [[ $value == on || $value == off ]] && arena=$value && continue ;;
            prefix) [[ $value =~ ^(/.*)?$ ]] && prefix=$value && continue ;;
            node_count) [[ $value =~ ^[1-9][0-9]{0,2}$ ]] && node_count=$value && continue ;;
            port) [[ $value =~ ^[1-9][0-9]{0,4}$ ]] && port=$value && continue ;;
            service_user) [[ $value =~ ^[A-Za-z_][A-Za-z0-9_.-]*$ ]] && service_user=$value && continue ;;
            slurm_user) [[ $value =~ ^[A-Za-z_][A-Za-z0-9_.-]*$ ]] && slurm_user=$value && continue ;;
        esac
        die "$dir/settings: \`$key=$value' is not what private-cluster writes; stop the cluster by hand, and remove $dir"
    done <"$dir/settings"
}
