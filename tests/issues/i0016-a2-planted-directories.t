#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Issue 16, A2: in a shared directory another user plants what root's scripts would find there: settings of a
# cluster that are commands, an empty directory, links, port claims, a build directory, headers. Nothing of it
# is read, run, written to or deleted.
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/arena.sh"
can_be_user || skip_all "only root can play the other user ($arena_user)"
make_work
owned=$work/owned
shared=$work/shared
mkdir -m 1777 "$shared"
marker=.arena-private-cluster

# plant DIR: what makes status, stop and the others believe in a cluster, as that user
plant() {
    as_user sh -c "umask 022; mkdir -p '$1' && cd '$1' && touch $marker slurm.conf &&
        printf 'arena=off\nnode_count=1\nport=10000\nservice_user=root\nslurm_user=root\ntouch $owned\n' >settings"
}
refused() { # PATTERN COMMAND...
    local pattern=$1 out rc=0
    shift
    out=$(timeout 60 "$@" 2>&1 </dev/null) || rc=$?
    [[ $rc == 3 && $out =~ $pattern && ! -e $owned ]] && return
    echo "exit $rc$([[ ! -e $owned ]] || echo ', and the planted command was run'): $out"
    rm -f "$owned"
    return 1
}

# ---- settings -------------------------------------------------------------------------------------
plant "$shared/arena-cluster-root"
env -u ARENA_CLUSTER_DIR TMPDIR="$shared" timeout 60 "$private_cluster" status >/dev/null 2>&1
ok "status looks for no cluster where somebody else can plant one" test ! -e "$owned"
trap_dir=$shared/arena-cluster-root
for words in status stop 'stop --keep' env 'shell true' pids wait 'ctld stop' 'dbd start' 'node n1 down' start; do
    # shellcheck disable=SC2086  # words
    ok "$words: a directory of another user is refused" refused "is not used.* belongs to $arena_user" \
        "$private_cluster" --dir "$trap_dir" $words
done
ok "nothing was removed from it" test -e "$trap_dir/settings"
as_user mkdir "$shared/empty"
ok "an empty directory of another user is refused" refused "belongs to $arena_user" "$private_cluster" start --dir "$shared/empty"
is "$(ls -A "$shared/empty")" "" "and nothing is written to it"

own=$work/own
mkdir -m 755 "$own" && touch "$own/$marker" && printf 'arena=off\nnode_count=1\nport=10000\n' >"$own/settings"
ok "a directory of one's own is used" "$private_cluster" pids --dir "$own"
as_user ln -s "$own" "$shared/link"
ok "a link is refused" refused 'is a link' "$private_cluster" pids --dir "$shared/link"
ok "a link with a slash behind it is refused" refused 'is a link' "$private_cluster" pids --dir "$shared/link/"
chmod 777 "$own"
ok "a directory that others may write to is refused" refused "others may write to $own" "$private_cluster" pids --dir "$own"
chmod 770 "$own" && chgrp "$(id -g "$arena_user")" "$own"
ok "so is one that another group may write to" refused "others may write to $own" "$private_cluster" pids --dir "$own"
chmod 755 "$own"
# shellcheck disable=SC2016
for line in 'port=$(touch '"$owned"')' 'touch '"$owned" 'slurm_user=root; touch '"$owned" 'PATH=/tmp' 'prefix=`touch '"$owned"'`'; do
    echo "$line" >>"$own/settings"
    ok "settings are not commands: $line" refused 'is not what private-cluster writes' "$private_cluster" pids --dir "$own"
    sed -i '$d' "$own/settings"
done
mv "$own/settings" "$work/settings" && ln -s "$work/settings" "$own/settings"
ok "settings that are a link are refused" refused 'not a file of yours' "$private_cluster" pids --dir "$own"
rm "$own/settings" && mv "$work/settings" "$own/settings"

as_user mkdir "$shared/theirs"
cp -r "$own" "$shared/theirs/own"
ok "a directory of one's own below another user's is refused" refused "$shared/theirs belongs to $arena_user" \
    "$private_cluster" pids --dir "$shared/theirs/own"
mkdir -m 777 "$work/open" && cp -r "$own" "$work/open/own"
ok "so is one below a directory without the sticky bit" refused "others may write to $work/open " \
    "$private_cluster" pids --dir "$work/open/own"
cp -r "$own" "$shared/mine"
ok "with the sticky bit it is used" "$private_cluster" pids --dir "$shared/mine"

# Who swaps a link between good and bad gets one of both, judged after it was resolved.
as_user sh -c "while [ ! -e '$work/stop' ]; do ln -sfn '$own' '$shared/swap'; rm -f '$shared/swap'
    mkdir '$shared/swap' && cp '$trap_dir'/settings '$trap_dir'/$marker '$shared/swap'; rm -rf '$shared/swap'; done" 2>/dev/null &
for ((i = 0; i < 25; i++)); do timeout 20 "$private_cluster" pids --dir "$shared/swap" >/dev/null 2>&1; done
touch "$work/stop" && wait
ok "a directory that is swapped meanwhile runs nothing" test ! -e "$owned"

# ---- where a cluster lies by default --------------------------------------------------------------
named() { sed -n 's/.*no private cluster in \([^ ]*\) .*/\1/p' <<<"$1"; }
mkdir "$work/runtime" "$work/home" && chown "$arena_user" "$work/runtime" "$work/home"
user_default() { named "$(as_user env -u ARENA_CLUSTER_DIR -u XDG_CACHE_HOME "$@" HOME="$work/home" "$private_cluster" env 2>&1)"; }
is "$(user_default XDG_RUNTIME_DIR="$work/runtime")" "$work/runtime/arena-cluster" "a user's cluster lies in XDG_RUNTIME_DIR"
is "$(user_default -u XDG_RUNTIME_DIR)" "$work/home/.cache/arena-cluster" "without that, in the cache directory"
is "$(user_default XDG_RUNTIME_DIR="$own")" "$work/home/.cache/arena-cluster" "as where XDG_RUNTIME_DIR is not the user's"

# ---- port claims ----------------------------------------------------------------------------------
# shellcheck disable=SC1091,SC2034,SC2317  # the variables are pick_ports' own
claim() (
    registries=$shared/claims- registry=$shared/claims-$EUID dir=$own port=0
    die() { echo "$*"; exit 1; }
    . "$ARENA_SRCDIR/contrib/own-directory.sh" 2>/dev/null
    . "$ARENA_SRCDIR/contrib/private-cluster.d/files.sh"
    pick_ports 6 && echo "$port"
)
mkdir "$work/victim" && touch "$work/victim/shadow-" "$work/victim/20000-20005"
as_user ln -s "$work/victim" "$shared/claims-evil"
ok "ports are found beside another user's claims" claim
is "$(ls "$work/victim" | tr '\n' ' ')" "20000-20005 shadow- " "and nothing is deleted where those are a link"
greedy=$shared/claims-$(id -u "$arena_user")
as_user mkdir "$greedy"
as_user sh -c "echo '$trap_dir' >'$greedy/1-999999999'; mkfifo '$greedy/2-3'"
# shellcheck disable=SC2317
claim_in_time() { local pid; (ulimit -v 2000000; claim >"$work/claimed") & pid=$!; wait_until "! kill -0 $pid 2>/dev/null" 5 || { kill "$pid"; return 1; }; grep -q . "$work/claimed"; }
ok "a claim of a thousand million ports costs nothing" claim_in_time

# ---- what is built from and run -------------------------------------------------------------------
# shellcheck disable=SC2034,SC2317
build_dir() ( # ARENA_BUILD: prints the directory that would be built in
    export ARENA_BUILD=$1
    top=$ARENA_SRCDIR
    . "$ARENA_SRCDIR/contrib/build-lib.sh"
    build=$ARENA_BUILD
    choose_build_dir && echo "$build"
)
is "$(build_dir "$work/built")" "$work/built" "a build directory of one's own is used"
as_user mkdir "$shared/build" && as_user ln -s "$work/built" "$shared/build-link"
ok "a build directory of another user is refused" refused 'belongs to' bash -c \
    "top='$ARENA_SRCDIR' ARENA_BUILD='$shared/build'; . '$ARENA_SRCDIR/contrib/build-lib.sh'; choose_build_dir"
ok "so is a link to one of ours" refused 'is a link' bash -c \
    "top='$ARENA_SRCDIR' ARENA_BUILD='$shared/build-link'; . '$ARENA_SRCDIR/contrib/build-lib.sh'; choose_build_dir"
mkdir -m 777 "$work/open/build"
ok "so is one that others may rename" refused 'others may write to' bash -c \
    "top='$ARENA_SRCDIR' ARENA_BUILD='$work/open/build'; chmod 755 '$work/open/build'; . '$ARENA_SRCDIR/contrib/build-lib.sh'; choose_build_dir"
# A tree that others cannot enter is built elsewhere: where nobody else can be first.
mkdir -m 700 "$work/hidden" && mkdir "$work/hidden/contrib" && cp "$ARENA_SRCDIR"/contrib/{build-lib,own-directory}.sh "$work/hidden/contrib" 2>/dev/null
elsewhere=$(bash -c "unset ARENA_BUILD; top='$work/hidden'; . '$work/hidden/contrib/build-lib.sh'; choose_build_dir; echo \"\$build\"")
not_ok "the other build directory of root's is in no place where others may write ($elsewhere)" \
    as_user test -w "${elsewhere%/*}"
[[ $elsewhere != /var/*/slurm-arena-build-* ]] || rmdir "$elsewhere"
version=$(dpkg-query -W -f='${source:Version}' libslurm-dev 2>/dev/null)
if [[ $version ]]; then
    as_user sh -c "mkdir '$shared/slurm-headers' && echo '$version' >'$shared/slurm-headers/.debian-version'"
    ok "headers that another user has put there are refused" refused 'not yours' \
        "$ARENA_SRCDIR/contrib/get-slurm-headers" "$shared/slurm-headers"
else
    skip 1 "libslurm-dev is not installed as a package"
fi
done_testing
