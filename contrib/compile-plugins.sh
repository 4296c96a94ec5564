# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Compiles the plug-ins' sources, syntax only, against the headers of any Slurm: as a build compiles them, but for
# the headers. Source it; set ARENA_SRCDIR, ARENA_BUILDDIR (a configured build) and headers before.
#   run_compiler OPTION SOURCE...     sources_of PLUGIN     options_of PLUGIN
# shellcheck disable=SC2016,SC2034 # make's variables; what its users read
: "${ARENA_SRCDIR:?}" "${ARENA_BUILDDIR:?}" "${headers:=}"
slurm_plugins=(sched_arena job_submit_arena spank_arena libarena_spank)

make_value() {
    env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -s -C "$ARENA_BUILDDIR" --no-print-directory SLURM_SRC="$headers" \
        --eval "print-value: ; \$(info $1)@:" print-value | tail -n 1
}
run_compiler() {
    local option=$1 compiler
    shift
    compiler=$(make_value '$(CXX) $(DEFS) $(DEFAULT_INCLUDES) $(AM_CPPFLAGS) $(SLURM_INTERNAL_CPPFLAGS) $(AM_CXXFLAGS)')
    (cd "$ARENA_BUILDDIR" && eval "$compiler -fsyntax-only -Werror $option ${*@Q}")
}
sources_of() { make_value "\$(filter %.cc,\$(or \$($1_sources),\$($1_la_SOURCES)))" | tr ' ' '\n' | sed "s|^|$ARENA_SRCDIR/|"; }
options_of() { make_value "\$($1_la_CPPFLAGS)"; }
