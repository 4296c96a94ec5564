#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# arena measure: plans really run, as threads, as MPI processes and as a step of an allocation of two nodes, beside what
# was estimated; what it keeps in a profile store, what it refuses, what stays when a run fails.
# shellcheck disable=SC2016,SC2317  # functions are called by ok, conditions evaluated by wait_until
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/train.sh"
command -v jq >/dev/null || skip_all 'jq is not installed'
make_work
unset "${!SLURM_@}" ARENA_PLAN
export ARENA_DATA_DIR=$ARENA_SRCDIR/etc ARENA_CONF=$work/none.yaml TMPDIR=$work
arena=$ARENA_BUILDDIR/arena
write_tiny_model "$work/tiny.yaml"
tiny=(measure --model "$work/tiny.yaml" --global-batch 4 --rounds 1 --steps 3)
measured() { "$arena" --json "${tiny[@]}" "$@" >"$work/json" 2>"$work/err" || { cat "$work/err"; return 1; }; }
holds() { jq -e "$1" "$work/json" >/dev/null || { cat "$work/json"; return 1; }; }
refused() {   # refused CODE SENTENCE OPTIONS...
    local code=$1 sentence=$2 out rc=0
    shift 2
    out=$("$arena" "$@" 2>&1 >/dev/null) || rc=$?
    is "$rc" "$code" "exit code $code: $sentence"
    like "$out" "$sentence" "says: $sentence"
}

# ---- what is refused ---------------------------------------------------------------------------------
refused 2 'does not divide by dp \* micro_batch' "${tiny[@]}" --fixed pp=1,dp=3,tp=1,micro_batch=1
refused 2 'pp, dp, tp and micro_batch are needed' "${tiny[@]}" --fixed pp=1
refused 2 'which arena-train cannot run' "${tiny[@]}" --fixed pp=2,dp=1,tp=1,micro_batch=1,vpp=2
refused 2 'arena-train runs GPT-2 alone' measure --model llama-7b --global-batch 4
refused 2 '--with' "${tiny[@]}" --with ssh
refused 2 'none.such' "${tiny[@]}" --gpu-type none.such
refused 3 'none.here' "${tiny[@]}" --trainer "$work/none.here" --fixed pp=1,dp=1,tp=1,micro_batch=4
is "$(find "$work" -name 'arena-measure.*')" "" "no directory of a run is left"

# ---- threads -----------------------------------------------------------------------------------------
ok "all plans of two ranks" measured
ok "are 11 of one and two ranks" holds '.n == 11 and (.plans | length == 11) and .ranks_as == "threads"'
ok "each with a time and an estimate" holds '[.plans[] | .measured_s > 0 and .estimate.iteration_s > 0 and (.rounds_s | length == 1)] | all'
ok "whose error is that of the two" holds \
    '[.plans[] | (.estimate.iteration_s / .measured_s - 1 - .error) | fabs < 1e-9] | all'
ok "the summary is theirs" holds '([.plans[].error | fabs] | add / length) - .mean_abs | fabs < 1e-9'
like "$("$arena" "${tiny[@]}" --fixed pp=2,dp=1,tp=1,micro_batch=2)" 'pp2,dp1,tp1,mb2x2 +2,2 .* 2 .*1 plan' "as a table, one plan"

# ---- a store -----------------------------------------------------------------------------------------
two=(--fixed "pp=1,dp=1,tp=1,micro_batch=4" --fixed "pp=1,dp=2,tp=1,micro_batch=2")
observed() { "$arena" --json profile observed --store "$1"; }
ok "two plans with a store" measured "${two[@]}" --store "$work/kept.db"
is "$(observed "$work/kept.db" | jq '.observed | length')" 2 "keeps both"
printf '%s\n' 'gpu_types:' '  - name: snail' '    memory_gib: 4' '    tflops: {fp32: 0.0001}' '    memory_gb_per_s: 0.1' '    sm_count: 1' \
    '    gpus_per_node: 4' '    intra: {name: shared-memory, gb_per_s: 4, alpha_us: 20}' '    inter: {name: loopback, gb_per_s: 1, alpha_us: 60}' \
    '    emulated: true' >"$work/snail.yaml"
ok "on hardware that is far slower by its entry" measured "${two[@]}" --store "$work/far.db" --hardware "$work/snail.yaml" --gpu-type snail
is "$(observed "$work/far.db" | jq '[.observed[] | select(.counts)] | length')" 2 "both are kept and count, however far off"
like "$("$arena" profile observed --store "$work/far.db")" ' times faster' "and the table says which way"

# ---- a run that fails --------------------------------------------------------------------------------
cat >"$work/fails-second" <<END
#!/bin/bash
[[ ! -e $work/failed ]] || { echo 'the second run fails' >&2; exit 3; }
touch $work/failed
exec $ARENA_BUILDDIR/arena-train "\$@"
END
chmod 755 "$work/fails-second"
rc=0
out=$("$arena" "${tiny[@]}" "${two[@]}" --trainer "$work/fails-second" 2>&1) || rc=$?
is "$rc" 3 "a run that fails: exit code 3"
like "$out" 'pp1,dp2,tp1,mb2x1: .*the second run fails' "says which plan, and what its program said"
like "$out" 'pp1,dp1,tp1,mb4x1 .*1 plan' "and shows what was measured before"
rm "$work/failed"
rc=0
"$arena" --json "${tiny[@]}" "${two[@]}" --trainer "$work/fails-second" >"$work/json" 2>"$work/err" || rc=$?
is "$rc" 3 "with --json: exit code 3"
like "$(cat "$work/err")" 'pp1,dp2,tp1,mb2x1: .*the second run fails' "the same sentence"
ok "one document of what was measured, with the error" jq -es 'length == 1 and (.[0] | .schema_version == 1 and .n == 1 and
    .plans[0].measured_s > 0 and (.plans[0].plan | .dp == 1) and
    .error.where == "pp1,dp2,tp1,mb2x1" and (.error.text | test("the second run fails")))' "$work/json"
rc=0
"$arena" --json "${tiny[@]}" "${two[@]}" --trainer "$work/fails-second" >"$work/json" 2>"$work/err" || rc=$?
is "$rc" 3 "where the first run fails: exit code 3"
ok "and the error alone" jq -es 'length == 1 and (.[0] | has("plans") | not) and .[0].error.where == "pp1,dp1,tp1,mb4x1"' "$work/json"
ok "a store that cannot be written" eval '! measured "${two[@]}" --store "$work/none/kept.db" >"$work/said"'
ok "is told in the one document as well" jq -es 'length == 1 and .[0].n == 2 and (.[0].error.where | test("none"))' "$work/json"

# ---- MPI processes, and a step of two nodes ----------------------------------------------------------
if ! grep -q '#define HAVE_MPI 1' "$ARENA_BUILDDIR/config.h"; then skip 6 "this build has no MPI"
else
    ok "by mpirun" measured --with mpi "${two[@]}"
    ok "as MPI processes" holds '.ranks_as == "mpi" and .n == 2'
    if ! command -v slurmctld >/dev/null; then skip 4 "Slurm is not installed"
    elif lacks=$(mpi_in_slurm_lacks); then skip 4 "$lacks"
    else
        start_cluster --nodes cpu:2x0
        cat >"$work/job" <<END
#!/bin/bash
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_btl=self,tcp OMPI_MCA_btl_tcp_if_include=lo
cd $work/shared && exec $arena --json ${tiny[*]} --fixed pp=2,dp=1,tp=1,micro_batch=2
END
        mkdir "$work/shared"
        id=$(submit -N 2 -n 2 -t 10 -o "$work/step.json" "$work/job")
        ok "in an allocation of two nodes it ends" wait_for_state "$id" 'COMPLETED|FAILED' 120
        is "$(job_state "$id")" COMPLETED "with success" || sed 's/^/# /' "$work/step.json"
        ok "as a step" jq -e '.ranks_as == "srun" and .n == 1 and .plans[0].measured_s > 0' "$work/step.json"
        is "$(find "$work/shared" -mindepth 1)" "" "its working directory, which both nodes see, is as it was"
    fi
fi
done_testing
