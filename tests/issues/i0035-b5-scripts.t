#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Issue 35, B5: install-deps lost a site's policy-rc.d when two ran at once or one was killed; any user could keep others'
# private clusters from being started (claims of ports) or restarted (a process that calls itself slurmctld); under umask
# 000 a cluster's files were everybody's, and a blank in --dir ended in Slurm's parse error.
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh" || exit 99
make_work
chmod 755 "$work"

# ---- policy-rc.d ----------------------------------------------------------------------------------------
mkdir "$work/sbin"
policy=$work/sbin/policy-rc.d
# shellcheck disable=SC2034
install_run() ( # WHILE HELD...: as install-deps does, on a policy-rc.d of the test's
    set -e
    policy_lock=$work/lock
    . "$ARENA_SRCDIR/contrib/hold-services.sh"
    lock_services
    release_services
    hold_services
    "$@"
)
says() { local rc=0; "$policy" "$1" start >/dev/null 2>&1 || rc=$?; echo $rc; }
site_policy() { rm -rf "$work/sbin"/*; printf '#!/bin/sh\n# of the site\nexit 77\n' >"$policy" && chmod 755 "$policy"; }
whole() { [[ $(sed -n 2p "$policy") == '# of the site' && $(ls "$work/sbin") == policy-rc.d && $(stat -c %a "$policy") == 755 ]]; }

site_policy
is "$(install_run eval 'says slurmd; says ssh' | paste -sd' ')" '101 77' 'while packages are unpacked ours are held, of others the site is asked'
ok 'afterwards the site has its own again' whole
rm "$policy"
is "$(install_run eval 'says slurmd; says ssh' | paste -sd' ')" '101 0' 'where the site has none others start'
is "$(ls "$work/sbin")" '' 'and has none afterwards'

site_policy
for _ in 1 2 3 4; do install_run sleep 0.1 9>&- & done
wait
ok 'four at once leave the site its own' whole

# Killed: the children of bash's own are ended, too; nobody releases anything.
killed_run() {
    local pid
    install_run bash -c "touch '$work/held'; exec sleep 60 9>&-" &
    pid=$!
    wait_until '[[ -e $work/held ]]'
    pkill -9 -P "$pid"
    kill -9 "$pid"
    wait "$pid" 2>/dev/null
    rm "$work/held"
} 2>/dev/null
killed_run
is "$(sed -n 2p "$policy" | cut -c1-25)" '# written by install-deps' 'one that was killed leaves its wrapper'
killed_run
install_run true
ok 'two that were killed and a whole one leave the site its own' whole
killed_run
printf '#!/bin/sh\n# new\nexit 5\n' >"$policy"
install_run true
is "$(sed -n 2p "$policy") $(cat "$work/sbin"/*saved* | grep -c '# of the site')" '# new 1' \
    'what the site wrote after a kill stands, and the one before it lies beside it'

# ---- claims of ports ------------------------------------------------------------------------------------------
# shellcheck disable=SC2034,SC2317  # the variables are pick_ports' own
claims() ( # COMMAND...: with the functions of private-cluster
    registries=$work/claims- marker=.arena-private-cluster dir=$work/none port=0 me=$(id -un)
    die() { echo "died: $*"; exit 1; }
    . "$ARENA_SRCDIR/contrib/own-directory.sh"
    . "$ARENA_SRCDIR/contrib/private-cluster.d/files.sh"
    "$@"
)
mkdir "$work/living" && touch "$work/living/.arena-private-cluster"
if ((EUID == 0)); then
    foreign() { # UID OF THE NAME, OWNER, RANGE...
        local directory=$work/claims-$1 owner=$2
        shift 2
        mkdir "$directory"
        for range; do echo "$work/living" >"$directory/$range"; done
        chown -R "$owner" "$directory"
    }
    foreign 4242 4243 20000-20005
    is "$(claims claimed_ports)" '' 'a directory of another owner than it says claims nothing'
    foreign 4244 4244 1-65535 30000-30200 21000-21003 99999-99999 5-4
    is "$(claims claimed_ports | paste -sd' ')" '21000 21001 21002 21003' 'a range wider than the largest cluster claims nothing'
    foreign 4245 4245
    (cd "$work/claims-4245" && for ((i = 0; i < 20000; i++)); do echo /nowhere >"$((10000 + i))-$((10005 + i))"; done; chown -R 4245 .)
    looked() { first_line() { echo "$1" >>"$work/looked"; }; claimed_ports >/dev/null; wc -l <"$work/looked"; }
    is "$(claims looked)" "$((32 + 1))" 'of 20,000 stale claims 32 are looked at'
    foreign "$EUID" 4246
    like "$(claims eval 'pick_ports 5; echo $port in ${registry##*/}')" "^[0-9]+ in claims-${EUID}[.][A-Za-z0-9]+$" 'a directory that somebody else made under our name stops nobody'
    like "$(claims eval 'pick_ports 5; echo $port in ${registry##*/}')" "^[0-9]+ in claims-${EUID}[.]" 'nor the next time'
    is "$(find "$work" -maxdepth 1 -name "claims-$EUID.*" | wc -l)" 1 'which finds the same one again'
else
    skip 6 'only root can make files of others'
fi

# ---- a cluster --------------------------------------------------------------------------------------------
need_slurm
for word in "$work/sp ace" "$work/q'uote" "$work/per%cent" "$work/com,ma" "$work/\$x"; do
    rc=0
    out=$("$private_cluster" start --dir "$word" --nodes cpu:1x0 --arena off 2>&1) || rc=$?
    is "$rc $(grep -c 'only letters, digits and .* may be in the path' <<<"$out")" '2 1' "--dir ${word##*/} is refused with a sentence"
    [[ ! -e $word ]] || fail "and nothing is made"
done
start_open() { umask 000; start_cluster --nodes a40:1x2 --arena off; }
mask=$(umask)
start_open
umask "$mask"
is "$(find "$cluster_dir" ! -type l -perm -002 ! -perm -1000 ! -type s -printf '%m %P\n')" '' 'under umask 000 nothing of a cluster is for everybody to write'
if ((EUID == 0)); then
    mkfifo "$work/never"
    # As slurmctld and with the cluster's mark, of a user whom nothing of it belongs to.
    ARENA_PRIVATE_CLUSTER=$cluster_dir setpriv --reuid=4247 --regid=4247 --clear-groups bash -c "exec -a '$cluster_dir/bin/slurmctld' cat" 4<>"$work/never" <&4 &
    pretender=$!
    ok 'somebody calls a process slurmctld' wait_until "[[ \$(tr '\\0' ' ' </proc/$pretender/cmdline) == '$cluster_dir/bin/slurmctld ' ]]"
    ok 'slurmctld is restarted all the same' cluster ctld restart --limit 30
    unlike "$("$private_cluster" pids --dir "$cluster_dir" | paste -sd' ')" "\\b$pretender\\b" 'the process is none of the cluster'
    kill "$pretender" 2>/dev/null
    wait "$pretender" 2>/dev/null
else
    skip 3 'only root can run processes of others'
fi
done_testing
