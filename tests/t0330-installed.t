#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# What `make install` brings and what it does not touch: only files of our own, plug-ins whose every symbol
# the running Slurm has, nothing exported that Slurm did not ask for, and a scheduler plug-in that was
# built for another layout of Slurm's records switches itself off and leaves slurmctld alive, as does one
# for job_submit.
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
need_arena
make_work

# ---- files ----------------------------------------------------------------------------------------
plugins=$stage/lib/slurm-arena
foreign=$(cd "$stage" && find . \( -type f -o -type l \) ! -name .staged | sed 's|^\./||' | grep -vE \
    '^(bin/arena(-(args|train|watch))?$|include/arena_watch\.h$|lib/slurm-arena/|libexec/slurm-arena/|share/slurm-arena/|share/doc/slurm-arena/|share/man/man[1578]/[^/]*arena[^/]*$|share/bash-completion/completions/arena$|etc/slurm/(arena|plugstack\.conf\.d/arena))')
is "$foreign" "" "every installed file lies in a directory of ours or carries our name"
version=$(sed -n 's/^SLURM_VERSION = //p' "$ARENA_BUILDDIR/Makefile")
is "$(find "$plugins/$version" "$plugins/${version%.*}" -name '*.so' | sed "s|$plugins/||" | sort | tr '\n' ' ')" \
    "$version/as-backfill/sched_backfill.so $version/job_submit_arena.so $version/libarena_slurm.so $version/sched_arena.so ${version%.*}/libarena_spank.so ${version%.*}/spank_arena.so " \
    "the directories of this Slurm hold our three plug-ins, their libraries and the alias"
is "$(cd "$plugins" && for name in *.so as-backfill; do echo "$name=$(readlink "$name")"; done | tr '\n' ' ')" \
    "job_submit_arena.so=$version/job_submit_arena.so libarena_slurm.so=$version/libarena_slurm.so sched_arena.so=$version/sched_arena.so spank_arena.so=${version%.*}/spank_arena.so as-backfill=$version/as-backfill " \
    "and the directory above them links to those"
ok "the alias is a link to the scheduler plug-in" test "$plugins/as-backfill/sched_backfill.so" -ef "$plugins/sched_arena.so"
stock='' stock_plugins=$(stock_plugin_dir) || BAIL_OUT "Slurm's own plug-ins are not found"
for file in "$plugins"/*.so; do
    stock+=$(find "$stock_plugins" -name "${file##*/}")
done
is "$stock" "" "no plug-in of ours has the name of one of Slurm's"

# ---- modes ------------------------------------------------------------------------------------------
# Whatever the installing person's umask is: under 077 nobody else could load a plug-in, so that every sbatch failed;
# under 000 whoever came first could put one there that root's daemons load.
for mask in 077 000; do
    rm -rf "$work/image"
    ok "make install under umask $mask" bash -c "umask $mask && env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -s -C '$ARENA_BUILDDIR' install DESTDIR='$work/image'"
    is "$(find "$work/image" -mindepth 1 -type d ! -perm 755 -printf '%m %P\n')" "" "every directory has mode 755"
    is "$(find "$work/image" -type f ! -perm 755 ! -perm 644 -printf '%m %P\n')" "" "every file 755 or 644"
    is "$(find "$work/image" -type d -name slurm-arena | wc -l) $(find "$work/image" -name '*_arena.so' -type f | wc -l)" '3 3' "it is all there"
    is "$(find "$work/image" -name '*-lab*' -o -name '*slow*link*' -o -path '*/inject*')" "" "but for the laboratory"
done
if [[ -x $ARENA_BUILDDIR/arena-lab ]]; then
    rm -rf "$work/image"
    ok "make install-lab" bash -c "umask 077 && env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -s -C '$ARENA_BUILDDIR' install-lab DESTDIR='$work/image'"
    is "$(find "$work/image" -type f ! -name '*.la' ! -name '*.so' -printf '%f %m\n' | sort | paste -sd,)" \
        "arena-array.5 644,arena-inject.8 644,arena-lab 755,arena-lab.1 644,lock-clock 755,slow-link 755,slow-process 755" "brings it alone"
    is "$(find "$work/image" -mindepth 1 -type d ! -perm 755 -printf '%m %P\n')" "" "in directories of mode 755"
    ok "make uninstall-lab" bash -c "env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -s -C '$ARENA_BUILDDIR' uninstall-lab DESTDIR='$work/image'"
    is "$(find "$work/image" -type f)" "" "leaves nothing of it"
else
    skip 5 "arena-lab is not built"
fi

# ---- hardening ----------------------------------------------------------------------------------------
# A compiler that has no such option leaves it out, and configure says so.
has() { grep -q "^ *$1 *= .*$2" "$ARENA_BUILDDIR/Makefile"; }
for file in "$plugins/$version"/*.so "$plugins/${version%.*}"/*.so "$stage"/bin/arena{,-args,-train,-watch} "$stage"/libexec/slurm-arena/arena-{profiler,simulation}; do
    name=${file#"$stage/"}
    if has LDFLAGS relro,-z,now; then
        ok "$name is bound and read-only once it is loaded" bash -c "readelf -lW '$file' | grep -q GNU_RELRO && readelf -dW '$file' | grep -qE 'BIND_NOW|FLAGS_1.*NOW'"
    fi
    if has ARENA_CXXFLAGS stack-protector; then
        ok "$name guards its stack" bash -c "readelf --dyn-syms -W '$file' | grep -q __stack_chk_fail"
    fi
done

# ---- symbols --------------------------------------------------------------------------------------
ctld=$(readlink -f "$(command -v slurmctld)")
full=$(ldd "$ctld" | awk '/libslurmfull/ { print $3 }')
defined() { nm -D --defined-only "$1" | awk '{ sub(/@.*/, "", $NF); print $NF }'; }
# Symbols that FILE needs and that neither the programs nor libraries in $2.. nor its own libraries have.
unresolved() {
    local file=$1 library
    shift
    {
        for library in "$@" $(ldd "$file" | grep -o '/[^ ]*'); do defined "$library"; done
    } | sort -u >"$work/have"
    nm -D --undefined-only "$file" | awk '$1 == "U" { sub(/@.*/, "", $2); print $2 }' | sort -u | comm -23 - "$work/have"
}
for name in sched_arena job_submit_arena; do
    is "$(unresolved "$plugins/$name.so" "$ctld" "$full" "$plugins/libarena_slurm.so")" "" \
        "slurmctld and libslurmfull have every symbol that $name.so needs"
done
for name in spank_arena libarena_spank; do
    is "$(unresolved "$plugins/${version%.*}/$name.so" "$full" "$(command -v srun)")" "" \
        "srun and libslurmfull have every symbol that $name.so needs"
done
# What Slurm looks up; C++ symbols (_Z...) of ours have names that nobody else uses.
slurm_symbols() { nm -D --defined-only "$1" | awk '$2 ~ /^[TDRBV]$/ && $3 !~ /^_Z/ { print $3 }' | sort | tr '\n' ' '; }
is "$(slurm_symbols "$plugins/sched_arena.so")" "fini init plugin_name plugin_type plugin_version sched_p_reconfig " \
    "sched_arena.so exports what Slurm asks a scheduler for"
is "$(slurm_symbols "$plugins/job_submit_arena.so")" \
    "fini init job_modify job_submit plugin_name plugin_type plugin_version " \
    "job_submit_arena.so exports what Slurm asks a submit plug-in for"
is "$(nm -D --defined-only "$plugins"/*.so | awk '$2 == "u"' | wc -l)" 0 \
    "no symbol is unique in the process: the plug-ins can be unloaded"

# ---- layout canary --------------------------------------------------------------------------------
# The same plug-ins, their Slurm-facing files compiled against headers with one more field in job_record_t: at its
# very end, where no other field shows it.
headers=$(sed -n 's/^SLURM_SRC = //p' "$ARENA_BUILDDIR/Makefile")
make_value() { env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -s -C "$ARENA_BUILDDIR" --no-print-directory --eval "print-value: ; \$(info $1)@:" print-value | tail -n 1; }
build_shifted() {
    mkdir -p "$work/shifted" && cp -r "$headers"/src "$work/shifted/" || return 1
    local record   # slurmctld.h; job_record.h since 24.05
    record=$(grep -l '^struct job_record {' "$work"/shifted/src/{slurmctld/slurmctld,common/job_record}.h 2>/dev/null)
    sed -i '/^struct job_record {/,/^};/ s/^};/\tuint64_t field_of_another_release;\n};/' "$record"
    grep -q field_of_another_release "$record" || return 1
    [[ ! -d $headers/slurm ]] || cp -r "$headers/slurm" "$work/shifted/"
    local plugin flags compiler
    flags=$(make_value '$(DEFS) $(DEFAULT_INCLUDES) $(sched_arena_la_CPPFLAGS) $(AM_CXXFLAGS)')
    flags=${flags//$headers/$work/shifted}
    compiler=$(make_value '$(CXX)')
    cd "$ARENA_BUILDDIR" || return 1
    cp -r "$plugins" "$work/plugins"
    rm "$work/plugins/"{sched,job_submit}_arena.so
    for plugin in sched_arena job_submit_arena; do
        # shellcheck disable=SC2046
        printf '#include "%s"\n' $(make_value "\$(filter %.cc,\$(${plugin}_sources))") >"$work/$plugin.cc"
        eval "$compiler $flags -O0 -w -fPIC -c '$work/$plugin.cc' -o '$work/$plugin.o'" || return 1
    done
    link_shifted sched_arena "$work/sched_arena.o" .libs/libarena_sched_logic.a && link_shifted job_submit_arena "$work/job_submit_arena.o"
}
link_shifted() { # PLUGIN OBJECT...
    local plugin=$1
    shift
    # shellcheck disable=SC2046
    $compiler -shared -o "$work/plugins/$plugin.so" "$@" "$work/plugins/libarena_slurm.so" -Wl,-rpath,'$ORIGIN' $(make_value '$(LIBS)')
}
ok "plug-ins for another layout of job_record_t can be built" build_shifted
start_cluster --nodes a40:1x2 --arena on --profile off --plugin-dir "$work/plugins"
# The look at start, and at each reconfigure, finds no job yet and nothing wrong.
loads() { grep -c ' arena: policy' "$cluster_dir/log/slurmctld.log"; }
wait_until '(( $(loads) >= 2 ))' 3
before=$(loads)
scontrol reconfigure
ok "without jobs there is nothing to see" wait_until "(( \$(loads) > $before ))"
job=$(submit -o /dev/null --arena-model=gpt2 --arena-launcher=env --arena-batch=8 --arena-gpus=1 -t 5 --wrap true)
ok "when the first job shows the layout, Arena switches itself off with one error" wait_until \
    'grep -q "error: arena: job_record_t has [0-9]* bytes in the running Slurm and [0-9]* in the headers that sched_arena.so.*switched off" "$cluster_dir/log/slurmctld.log"'
is "$(job_state "$job")" PENDING "its job waits"
ok "an update of the job is Slurm's alone" scontrol update "jobid=$job" nice=7
is "$(job_field "$job" Nice)" 7 "which makes it"
ok "and job_submit says why" grep -q \
    'error: arena: job_record_t has [0-9]* bytes .* job_submit_arena.so .*updates not looked at' "$cluster_dir/log/slurmctld.log"
plain=$(submit -o /dev/null -t 5 --wrap true)
ok "ordinary jobs run" wait_for_state "$plain" COMPLETED 30
ok "slurmctld stays alive through a reconfigure" scontrol reconfigure
ok "and restarts with that job" cluster ctld restart
ok "the nodes come back" cluster wait
plain=$(submit -o /dev/null -t 5 --wrap true)
ok "and runs ordinary jobs" wait_for_state "$plain" COMPLETED 30

done_testing
