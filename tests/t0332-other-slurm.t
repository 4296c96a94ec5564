#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The plug-ins' sources compile, with the build's warnings, against the headers of another Slurm than the build's,
# too: what is written for one release today is not in the way of the next. Compiles only; nothing is run.
# The headers are fetched once and kept in $XDG_CACHE_HOME/slurm-arena (~/.cache).
# usage: tests/t0332-other-slurm.t [RELEASE]     a release of Debian's; default: trixie, which has Slurm 24.11
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
release=${1-trixie}
grep -q '^S\["HAVE_SLURM_SRC_TRUE"\]=""$' "$ARENA_BUILDDIR/config.status" || skip_all "this build has no scheduler plug-in"

cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/slurm-arena
headers=$cache/slurm-headers-$release
fetch_headers() {
    local fresh=$headers.new.$$
    mkdir -p "$cache" && chmod 700 "$cache" || return 1
    "$ARENA_SRCDIR/contrib/get-slurm-headers" --release "$release" "$fresh" >"$headers.log" 2>&1 &&
        { mv -T "$fresh" "$headers" 2>/dev/null || [[ -d $headers ]]; }  # or another was faster
    local rc=$?
    rm -rf "$fresh"
    return $rc
}
[[ -d $headers ]] || fetch_headers ||
    skip_all "no headers of Debian $release's Slurm: $(tail -n 1 "$headers.log") (log: $headers.log)"

# shellcheck source=contrib/compile-plugins.sh
. "$ARENA_SRCDIR/contrib/compile-plugins.sh"

own=$(sed -n 's/^SLURM_SRC = //p' "$ARENA_BUILDDIR/Makefile")
included=$(run_compiler -M "$ARENA_SRCDIR/plugin/job_submit/job_submit_arena.cc" 2>&1)
like "$included" "$headers/src/slurmctld/slurmctld.h" "the headers of Slurm $(<"$headers/.debian-version") are found"
unlike "$included" "($own|/usr/include)/(slurm|src)/" "and no header of the Slurm that this was built with"
for plugin in "${slurm_plugins[@]}"; do
    mapfile -t sources < <(sources_of "$plugin")
    ok "$plugin compiles against them (${#sources[@]} files)" run_compiler "$(options_of "$plugin")" "${sources[@]}"
done
done_testing
