#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A GPU that fails in every way we know, below a live slurmctld: each job goes on, with the reason in the log and the
# analytic estimate (or what was measured before the fault); the carrier ends within its limit; no node is drained;
# each run is in the store once. Then the store itself: locked, corrupt, of a newer version. The device is a test's
# (arena-profiler-faulty), which reads the fault from the model's name, so that all faults are played at once.
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
faulty=$ARENA_BUILDDIR/arena-profiler-faulty
[[ -x $faulty ]] || skip_all "arena-profiler-faulty is not built (make check builds it)"
command -v jq >/dev/null || skip_all "jq is not installed"
need_arena

# As many nodes as jobs that fail at once: who finds all of them taken by jobs is planned without a profile. The runs
# take turns on this host, so that the last of eight waits for all others within its limit.
limit=180
start_cluster --arena on --hardware A40 --nodes a100:8x1,h100:1x1,v100:1x1 --arena-set profile.budget_s=4 \
    --arena-set profile.time_limit_s=$limit --arena-set profile.backoff_s=600
quick=$(script 'true')
log=$cluster_dir/log/slurmctld.log

# The model f-NAME[-at-N] asks for the fault NAME, from the N-th execution on.
cat >"$cluster_dir/arena-profiler" <<END
#!/bin/bash
fault=\$(sed -n 's/.*"name":"f-\([a-z0-9-]*\)".*/\1/p' <<<"\$SPANK_ARENA_PROFILE")
export ARENA_DATA_DIR=$ARENA_SRCDIR/etc ARENA_TEST_FAULT=\${fault/-at-/@}
case \$fault in
    full) ARENA_TEST_FAULT=none; ulimit -f 1; trap '' XFSZ ;; # KiB: the write fails as on a full disk
    used) # by somebody, on the first node that is asked
        ARENA_TEST_FAULT=none
        if mkdir $work/used; then ARENA_TEST_FAULT=busy; fi ;;
    good*) ARENA_TEST_FAULT=none ;;
esac
exec $faulty "\$@"
END
chmod 755 "$cluster_dir/arena-profiler"
chmod 1777 "$work"

# start FAULT TYPE: submits the job whose model plays the fault; its id goes to ${job[FAULT]}
declare -A job
heads=0
start() {
    heads=$((heads + 1)) # no two models have an operator in common
    printf '%s\n' "name: f-$1" 'family: gpt' 'layers: 2' "hidden: $((heads * 64 + 64))" "heads: $((heads + 1))" \
        'vocab: 1024' 'seq_length: 64' 'precision: fp32' >"$work/f-$1.yaml"
    job[$1]=$(submit --arena-model="$work/f-$1.yaml" --arena-batch=8 --arena-gpus=1 --arena-types="$2" -o /dev/null "$quick")
}
source_of() { job_field "${job[$1]}" AdminComment | sed -n 's/.*source=\([a-z]*\).*/\1/p'; }
carriers() { grep -c "arena: profile f-$1 on" "$log"; }
failures() { grep -c "profiling for [a-z0-9]* failed on .*: $1.* (try" "$log"; }
runs() { arena profile list --json | jq "[.runs[] | select(.model_name == \"f-$1\")] | $2"; }
# ends FAULT SOURCE: the job has completed on an estimate of that source
ends() {
    ok "a job completes although its GPU does this: $1" wait_for_state "${job[$1]}" COMPLETED 120
    is "$(source_of "$1")" "$2" "$1: on an estimate that is $2"
}
# shellcheck disable=SC2317 # called by ok
undrained() { local out; out=$(sinfo -h -N -t drain,drained,draining,down -o %N) && [[ ! $out ]]; }

# ---- faults of the device -----------------------------------------------------------------------------
declare -A words=([oom]='.*out of memory' [lost]='.*the GPU fell off the bus' [nan]='.*gave no usable time'
    [slow]='its GEMMs are 100 times slower than hardware entry A40' [hang]='the budget ended during'
    [busy]='.*is in use, so nothing was measured: process 4711 .python3.' [full]='.*exit code 3: .*File too large'
    [kill]='profiler was killed')
for fault in "${!words[@]}"; do start "$fault" a100; done
start lost-at-100 h100
for fault in "${!words[@]}"; do
    ends "$fault" analytic
    isnt "$(failures "${words[$fault]}")" 0 "$fault: slurmctld's log says '${words[$fault]}'"
    is "$(carriers "$fault")" 2 "$fault: and was tried twice"
done
ok "a job completes although its GPU does this: lost-at-100" wait_for_state "${job[lost-at-100]}" COMPLETED 120
is "$(runs lost-at-100 'map(.status) | join(",")')" '"partial"' "what was measured before the fault is in the store"
is "$(carriers lost-at-100)" 1 "and nothing was measured again"

# ---- somebody uses the GPU: the second try takes another node ---------------------------------------------
start used a100
ends used profiled
is "$(carriers used)" 2 "the second try measured"
is "$(grep -o 'on n[0-9]*: arena: profile f-used' "$log" | sort -u | wc -l)" 2 "on another node"

# ---- what all of them left behind ---------------------------------------------------------------------------
ok "no node was drained" undrained
times=$(scontrol -o show job | grep 'JobName=arena-profile' | tr ' ' '\n' | sed -n 's/^RunTime=//p')
isnt "$(grep -c . <<<"$times")" 0 "slurmctld still knows a carrier"
late=$(awk -F: -v limit=$limit '$1 * 3600 + $2 * 60 + $3 > limit + 5' <<<"$times")
is "$late" "" "each carrier ended within its limit and 5 s"
is "$(arena profile verify)" "ok    every row of the profile store" "the store is whole"
is "$(arena profile list --json | jq '[.runs[].nonce] | length == (unique | length)')" true "each run is in it once"
for fault in oom lost nan slow kill; do
    is "$(runs "$fault" length)" 2 "$fault: both of its runs"
done
ok "the spool is there" test -d "$cluster_dir/profile-spool"
is "$(find "$cluster_dir/profile-spool" -name '*.part' -o -name '*.progress' | wc -l)" 0 "nothing half-written is in the spool"

# ---- another process holds the store ---------------------------------------------------------------------------
store=$(echo "$cluster_dir"/profile-store/*.db)
if command -v sqlite3 >/dev/null; then
    mkfifo "$work/hold"
    sqlite3 "$store" <"$work/hold" >"$work/held" 2>&1 &
    holder=$!
    exec 9>"$work/hold"
    echo "BEGIN IMMEDIATE; SELECT 'held';" >&9
    ok "another process has the store to itself" wait_until "grep -q held '$work/held'"
    start good-locked v100
    ends good-locked profiled
    isnt "$(grep -c 'another process holds it.*waits in the spool, and counts meanwhile' "$log")" 0 "slurmctld's log says why the store has it not"
    echo "COMMIT;" >&9
    exec 9>&-
    wait $holder
    ok "the store takes it once it is free" wait_until "grep -q 'profile store: it has taken 1 result that waited' '$log'" 60
    is "$(arena profile verify)" "ok    every row of the profile store" "the store is whole"
    start good-unlocked v100
    ends good-unlocked profiled
else
    skip 8 "sqlite3 is not installed: nobody can hold the store"
fi

# ---- a corrupt store, and one of a newer version, at the start of slurmctld ------------------------------------
ok "slurmctld saves the jobs" wait_saved
cluster ctld kill
rm -f "$store-wal" "$store-shm"
# What is left of its header says that it is a store: any other file would stay as it is.
head -c 3996 /dev/zero | tr '\0' 'x' | dd of="$store" bs=1 seek=100 conv=notrunc status=none
cluster ctld start
ok "slurmctld starts over a corrupt store" cluster wait
ok "and says that it set it aside" wait_until "grep -q 'profile store was corrupt' '$log'" 30
ok "where it is kept" compgen -G "$store.corrupt-*"
start good-again v100
ends good-again profiled
is "$(arena profile verify)" "ok    every row of the profile store" "the new store is whole"
if command -v sqlite3 >/dev/null; then
    ok "slurmctld saves the jobs" wait_saved
    cluster ctld kill
    sqlite3 "$store" 'PRAGMA user_version=99;'
    cluster ctld start
    ok "slurmctld starts beside a store of a newer version" cluster wait
    ok "and says what it does not know" wait_until "grep -q 'profile store has schema version 99' '$log'" 30
    start good-newer v100
    ends good-newer analytic
    is "$(sqlite3 "$store" 'PRAGMA user_version')" 99 "the store stays as it is"
else
    skip 6 "sqlite3 is not installed: no store of a newer version can be made"
fi
ok "no node was drained" undrained
done_testing
