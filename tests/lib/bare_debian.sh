# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A bare Debian to install into, for tests that run as root: made once by debootstrap with Slurm's packages and
# kept in $XDG_CACHE_HOME/slurm-arena (~/.cache); each test writes into a layer of its own over it. A test may set
# debian_release before (bookworm, which is Debian 12 and the default, or trixie), and debian_more to further packages.
# It runs in namespaces of its own (mounts, processes, network, host name), so that nothing it mounts or starts outlives
# it, and no port or name of the machine is in its way. There is no systemd there: a stand-in for systemctl starts and
# stops the daemons by their pid files.
#   enter_bare_debian   makes the base where it is missing, begins the calling script again inside, and
#                       there mounts the system on $root; skips the test where that cannot be
#   typed COMMAND       types a line at root's prompt there, in the directory where slurm-arena was built
#   install_systemctl, write_stock_slurm      its stand-in; a Slurm of one node with two GPUs that are none
#   block WORD, follow NAME LINES             INSTALL.md's lines that have the word; types lines
#   doctor, job_there OPTIONS, state_there JOB arena doctor, what it said in $said; a batch job in there

: "${debian_release:=bookworm}" "${debian_more:=}"
declare -A debian_number=([bookworm]=12 [trixie]=13)
declare -A debian_libraries=(
    [bookworm]='libfmt9 libyaml-0-2 libsqlite3-0 libhwloc15 libopenblas0-pthread libdnnl2 libopenmpi3 libmicrohttpd12'
    [trixie]='libfmt10 libyaml-0-2 libsqlite3-0 libhwloc15 libopenblas0-pthread libdnnl3.6 libopenmpi40 libmicrohttpd12t64'
)

list_debian_packages() {
    # shellcheck disable=SC2086 # words
    printf '%s\n' slurm-wlm slurm-client munge \
        systemd procps `# what a booted system has anyhow` \
        ${debian_libraries[$debian_release]} make $debian_more `# what contrib/install-deps would bring and programs load; make install`
}

debian_base() {
    local sum
    sum=$(list_debian_packages | cksum | cut -d' ' -f1)
    echo "${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/slurm-arena/debian-${debian_number[$debian_release]}-$sum"
}

# The mirror that this machine has Slurm from.
debian_mirror() {
    local mirror
    mirror=$(apt-cache policy libslurm-dev 2>/dev/null | grep -oE 'https?://[^ ]+/debian/?( |$)' | head -n 1)
    echo "${mirror:-http://deb.debian.org/debian}"
}

make_debian_base() {
    local base=$1 fresh=$1.new.$$ list
    list=$(list_debian_packages | paste -sd,)
    mkdir -p "${base%/*}" && chmod 700 "${base%/*}" || return 1
    if timeout 900 debootstrap --variant=minbase --include="$list" "$debian_release" "$fresh" "$(debian_mirror)" >"$base.log" 2>&1; then
        rm -rf "$fresh"/var/cache/apt/archives/*.deb "$fresh"/var/lib/apt/lists/*
        mv -T "$fresh" "$base" 2>/dev/null || { rm -rf "$fresh"; [[ -d $base ]]; }  # another was faster
    else
        rm -rf "$fresh"
        return 1
    fi
}

need_bare_debian() {
    [[ ${debian_number[$debian_release]-} ]] || BAIL_OUT "debian_release is $debian_release, not one of: ${!debian_number[*]}"
    ((EUID == 0)) || skip_all "needs root, for a chroot and its daemons"
    local tool
    for tool in debootstrap unshare chroot ip; do
        command -v "$tool" >/dev/null || skip_all "$tool is not installed"
    done
    unshare --mount --pid --net --uts --fork true 2>/dev/null || skip_all "this machine gives no namespaces (unshare)"
    local base
    base=$(debian_base)
    [[ -d $base ]] || make_debian_base "$base" ||
        skip_all "no Debian base system: debootstrap failed: $(grep -aE '^(E|W):' "$base.log" | tail -n 1) (log: $base.log)"
}

enter_bare_debian() {
    if [[ ${BARE_DEBIAN_INSIDE-} ]]; then mount_bare_debian; return; fi
    need_bare_debian
    unset MAKEFLAGS MFLAGS MAKELEVEL
    layer=$(mktemp -d) || exit 99
    trap 'rm -rf "$layer"' EXIT
    BARE_DEBIAN_INSIDE=$layer unshare --mount --pid --net --uts --fork --kill-child --mount-proc bash "$0" "$@" &
    trap 'kill -KILL $!; exit 99' HUP INT TERM  # and with it all processes and mounts in there
    wait $!
    exit
}

mount_layer() { # LOWER NAME POINT
    mkdir -p "$layer/$2.upper" "$layer/$2.work" "$3"
    mount -t overlay overlay -o "lowerdir=$1,upperdir=$layer/$2.upper,workdir=$layer/$2.work" "$3"
}

mount_bare_debian() {
    layer=$BARE_DEBIAN_INSIDE root=$BARE_DEBIAN_INSIDE/root
    mount --make-rprivate /
    mount -t tmpfs -o mode=755 tmpfs "$layer"  # overlays need it where /tmp itself is one
    mount_layer "$(debian_base)" system "$root" || skip_all "this machine mounts no overlay file system"
    chmod 755 "$root"
    mount -t proc proc "$root/proc" && mount -t sysfs sysfs "$root/sys" 2>/dev/null
    mount -t tmpfs -o mode=755 tmpfs "$root/dev" && mount -t tmpfs -o mode=755 tmpfs "$root/run"
    mount --rbind /sys/fs/cgroup "$root/sys/fs/cgroup"  # slurmd wants one there, even to use none
    local name numbers
    while read -r name numbers; do
        # shellcheck disable=SC2086 # two words
        mknod -m 666 "$root/dev/$name" c $numbers
    done <<<$'null 1 3\nzero 1 5\nfull 1 7\nrandom 1 8\nurandom 1 9\ntty 5 0\nfake-gpu0 1 3\nfake-gpu1 1 3'
    mkdir -m 1777 "$root/dev/shm" && ln -s /proc/self/fd "$root/dev/fd"
    # glibc finds no address for a host that has none but 127.0.0.1.
    hostname node1 && ip link set lo up && ip address add 10.77.0.1/32 dev lo
    printf '127.0.0.1 localhost\n10.77.0.1 node1\n' >"$root/etc/hosts"
    echo node1 >"$root/etc/hostname"
}

typed() { in_root bash -c "cd '$ARENA_BUILDDIR' && $1"; }
in_root() {
    chroot "$root" /usr/bin/env -i HOME=/root LC_ALL=C.UTF-8 TERM=dumb \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@" </dev/null
}

# The stand-in: start, stop and restart of munge, slurmctld and slurmd, as their units run them.
install_systemctl() {
    install -d -m 755 "$root/run/munge" && chroot "$root" chown munge:munge /run/munge
    cat >"$root/usr/local/sbin/systemctl" <<'END'
#!/bin/bash
verb=$1 unit=${2%.service}
declare -A pid_of=([munge]=/run/munge/munged.pid [slurmctld]=/run/slurmctld.pid [slurmd]=/run/slurmd.pid)
file=${pid_of[$unit]?no such unit here}
wait_for() { local i; for ((i = 0; i < 2400; i++)); do "$@" && return; read -rt 0.05 <> <(:); done; return 1; }
gone() { ! kill -0 "$pid" 2>/dev/null; }
up() { [[ -s $file ]] && kill -0 "$(<"$file")" 2>/dev/null; }
answers() { up || exit 1; ! [[ $unit == slurmctld ]] || scontrol ping 2>/dev/null | grep -q 'is UP'; }
if [[ $verb == stop || $verb == restart ]] && up; then pid=$(<"$file"); kill "$pid"; wait_for gone || kill -9 "$pid"; fi
[[ $verb == start || $verb == restart ]] || exit 0
case $unit in
    munge) setpriv --reuid munge --regid munge --clear-groups munged ;;
    *) "$unit" >>/var/log/slurm/$unit.out 2>&1 ;;
esac && wait_for up && wait_for answers
END
    chmod 755 "$root/usr/local/sbin/systemctl"
}

write_stock_slurm() {
    cat >"$root/etc/slurm/slurm.conf" <<'END'
ClusterName=bare
SlurmctldHost=node1
SlurmUser=slurm
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/lib/slurm/slurmd
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd.log
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=1
ReturnToService=2
KillWait=2
GresTypes=gpu
NodeName=node1 CPUs=4 RealMemory=4000 Gres=gpu:a100:2
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE
END
    echo 'Name=gpu Type=a100 File=/dev/fake-gpu[0-1]' >"$root/etc/slurm/gres.conf"
    # Slurm 24.05 and later want control groups of systemd's unless they are told; 22.05 does not know the word.
    [[ $debian_release == bookworm ]] || echo 'CgroupPlugin=disabled' >"$root/etc/slurm/cgroup.conf"
    chmod 644 "$root"/etc/slurm/*.conf
}
node_is() { [[ $(in_root sinfo -hn node1 -o %T 2>/dev/null) == "$1" ]]; }

# ---- INSTALL.md
# block WORD: the lines of INSTALL.md's indented code block that has the word, in steps 1 to 7
block() {
    sed -n '/^## Steps/,/^## What has run/p' "$ARENA_SRCDIR/INSTALL.md" |
        awk -v word="$1" '/^ *```/ { if (on && index(text, word)) printf "%s", text; on = !on; text = ""; next }
            on { sub(/^   /, ""); text = text $0 "\n" }'
}
follow() { # NAME LINES: each is typed; the step passes when all do
    local line said
    while read -r line; do
        [[ $line ]] || continue
        note "# $line"
        said=$(typed "$line" 2>&1) || { fail "$1" "$line"$'\n'"$said"; return; }
        [[ ! $said ]] || note "${said:0:300}"
    done <<<"$2"
    pass "$1"
}

doctor() { said=$(in_root arena doctor 2>&1) && ! grep -q '^warn' <<<"$said"; }
job_there() { in_root sbatch --parsable -D /tmp -o /tmp/job.out "$@"; }
state_there() { in_root scontrol show job "$1" | sed -n 's/.*JobState=\([A-Z_]*\).*/\1/p'; }
