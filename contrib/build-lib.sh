# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# What contrib/check and contrib/quickstart share: bring a clone to a staged installation, quietly and
# again in a second when nothing changed. Source it; set top (the source tree) before.
: "${top:?}"
build=${ARENA_BUILD-} unity=''

# shellcheck source=contrib/own-directory.sh
. "$top/contrib/own-directory.sh"

say() { printf '%s\n' "== $*"; }
die() { echo "${0##*/}: $*" >&2; exit 3; }

# Whoever may write to the source tree needs no trap in its build directory.
why_not_trusted() {
    if [[ $1 != "$(realpath "$top")"/* ]]; then why_not_ours "$1"; elif ! own_directory "$1"; then echo "it is not yours alone"; fi
}

# $top/build, unless we are root and other users (the service users of private clusters) cannot enter it.
# What lies in it is run: it is ours alone, and so is the place where root's other one is made.
choose_build_dir() {
    [[ $build ]] || build=$top/build
    if ((EUID == 0)) && mkdir -p "$build" && ! runuser -u nobody -- test -x "$build"; then
        [[ ! ${ARENA_BUILD-} ]] || die "$build: other users cannot enter it, and private clusters started by root need that"
        build=/var/cache/slurm-arena-build-$(cksum <<<"$top" | cut -d' ' -f1)
    fi
    [[ ! -L ${build%/} ]] || die "$build is a link; set ARENA_BUILD to the directory itself"
    (umask 022 && mkdir -p "$build")
    build=$(realpath "$build")
    local why
    why=$(why_not_trusted "$build")
    [[ ! $why ]] || die "$build is not used, for others could change what is in it: $why; set ARENA_BUILD to a directory of your own"
    chmod 755 "$build"
    export ARENA_SRCDIR=$top ARENA_BUILDDIR=$build
}

# Runs a step with its output in a log; shows the end of the log when it fails.
logged() {
    local log=$build/$1.log
    shift
    "$@" >"$log" 2>&1 || { tail -n 40 "$log" >&2; die "failed: $* (log: $log)"; }
}

install_packages() {
    local missing
    command -v dpkg-query >/dev/null || { say "not Debian: no package is installed"; return; }
    missing=$("$top/contrib/install-deps" --missing) || die "contrib/install-deps --missing failed"
    missing=${missing//$'\n'/ }
    if [[ ! $missing ]]; then return; fi
    if [[ $1 == no ]]; then
        say "not installed, by --no-install: $missing"
    else
        say "installing: $missing"
        logged install "$top/contrib/install-deps"
    fi
}

# With ccache, where it is installed: what does not include Slurm's headers is compiled once for all Slurms, and for all
# clones. In another directory it is the same object, but for what a debugger is told of that directory.
export CCACHE_NOHASHDIR=1 CCACHE_BASEDIR=$top
run_configure() { # OPTIONS...
    local ccache=''
    ! command -v ccache >/dev/null || ccache='ccache '
    say "configuring in $build"
    # Functions and lines are enough to read a trace; all of what a debugger could ask takes 40 % of the compiler's time.
    (cd "$build" && logged configure "$top/configure" "$@" CC="${CC-${ccache}gcc}" CXX="${CXX-${ccache}g++}" \
        CFLAGS="${CFLAGS--O2 -g1}" CXXFLAGS="${CXXFLAGS--O2 -g1}")
}

make_configure() {
    [[ ! -x $top/configure || $top/configure.ac -nt $top/configure ]] || return 0
    say "making configure"
    (cd "$top" && logged autoreconf autoreconf -fi)
}

# unity: yes or no, where a caller wants one translation unit for each room, or single files; "": as it is, or the default.
unity_of_build() { if grep -q '^S\["UNITY_TRUE"\]=""$' "$build/config.status"; then echo yes; else echo no; fi; }

# ARENA_BUILT: the build was made on another system than it is used on (contrib/slurm-smoke), and is taken as it is.
configure_tree() {
    [[ ! ${ARENA_BUILT-} ]] || return 0
    make_configure
    # Of a package that another one only names dpkg-query has an entry, too.
    if dpkg-query -W -f='${db:Status-Abbrev}' libslurm-dev 2>/dev/null | grep -q '^ii'; then
        logged headers "$top/contrib/get-slurm-headers" "$build/slurm-headers"
    fi
    if [[ -e $build/config.status && $build/config.status -nt $top/configure && $(unity_of_build) == "${unity:-$(unity_of_build)}" ]]; then return; fi
    run_configure --prefix="$build/stage" ${unity:+"--enable-unity=$unity"}
    sed -n '/^slurm-arena /,$p' "$build/configure.log"
}

# Every progress_s seconds a line of how far make is: a first build takes minutes.
progress_s=${ARENA_PROGRESS_S:-15}
show_progress() { # LOG TOTAL BEGIN: until it is killed
    local done_ last nap=''
    trap 'kill "$nap"; exit' TERM
    while sleep "$progress_s" >/dev/null 2>&1 & nap=$!; wait "$nap"; do
        done_=$(grep -cE '^  (CC|CXX) ' "$1") || true
        last=$(grep -E '^  (CC|CXX|CCLD|CXXLD|GEN) ' "$1" | tail -n 1 | awk '{ print $2 }') || true
        printf '   %d s: %d of %d files compiled%s\n' $((SECONDS - $3)) "$done_" "$2" "${last:+, $last}"
    done
}

# Files that a make of these targets would compile.
files_to_compile() { make -n -C "$build" -k "$@" 2>/dev/null | grep -cE 'echo "  (CC|CXX) ' || true; }

compile() { # [TARGET...]: all without one
    (($#)) || set -- all
    local total watcher rc=0
    [[ ! ${ARENA_BUILT-} ]] || return 0
    total=$(files_to_compile "$@")
    say "building with $build_jobs jobs$( ((!total)) || echo ", $total files (a first build takes some minutes)")"
    : >"$build/make.log"
    show_progress "$build/make.log" "$total" "$SECONDS" &
    watcher=$!
    (logged make make -C "$build" -k -j"$build_jobs" "$@") || rc=$?
    kill "$watcher" 2>/dev/null
    wait "$watcher" 2>/dev/null || true
    ((!rc)) || exit "$rc"
}

# The comment at the head of a script, for --help.
head_comment() { sed -n '3,/^[^#]/s/^# \{0,1\}//p' "$1"; }

# `make install` into $build/stage, once, and again only when something was rebuilt. Under a lock, so that
# tests may run side by side.
stage_build() {
    (
        exec 7>"$build/.stage.lock"
        flock 7
        unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES
        cd "$build" || exit 1
        if [[ -e stage/.staged && ! $(find . "$top/etc" "$top/plugin" \( -path ./stage -o -path ./tests \) -prune -o -newer stage/.staged \
            -type f \( -name '*.so' -o -name 'arena*' -o -name '*.yaml' -o -name config.status \) -print -quit) ]]; then
            exit 0
        fi
        # contrib/quickstart builds what its loop runs.
        local target=install
        if [[ -e arena-simulation ]]; then
            make -s -j"$build_jobs" all >stage.log 2>&1 || exit 1
        else
            target=install-loop
        fi
        make -s "$target" DESTDIR= prefix="$build/stage" sysconfdir="$build/stage/etc" >stage.log 2>&1 && touch stage/.staged
    )
}

build_jobs=$(nproc)
