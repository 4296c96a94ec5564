#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# arena-train in a real cluster: its ranks start by srun and PMIx under Arena's plan; a resize saves a checkpoint, and
# the next life goes on from it in another shape, with the losses of a run on one rank.
# shellcheck disable=SC2016,SC2317  # functions are called by ok, conditions evaluated by wait_until
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/train.sh"
need_arena
need_mpi_in_slurm

start_cluster --arena on --profile off --nodes a40:1x2 --arena-set resize.checkpoint_grace_s=60
write_tiny_model "$work/tiny.yaml"
write_training_text "$work/text"
mkdir "$work/saved" "$work/kept" "$work/pmix"
# The second life does 20 steps more than the first has saved, and keeps what it began with.
cat >"$work/job" <<END
#!/bin/bash
export SLURM_PMIX_TMPDIR=$work/pmix OMPI_MCA_mpi_yield_when_idle=1
life=\${SLURM_RESTART_COUNT:-0} steps=1000000000
if ((life)); then
    last=\$(ls $work/saved | tail -n 1)
    cp "$work/saved/\$last" $work/kept/
    steps=\${last#step-} steps=\$((10#\${steps%.arena} + 20))
fi
echo \$steps >$work/steps.\$life
exec srun --mpi=pmix $ARENA_BUILDDIR/arena-train --device cpu --model $work/tiny.yaml --data $work/text --steps \$steps \\
    --checkpoint $work/saved --log $work/log.\$life --quiet
END
chmod 755 "$work/job"
word() { job_field "$job" AdminComment | sed -n "s/.* $1=\([^ ]*\).*/\1/p"; }

job=$(submit --arena-model="$work/tiny.yaml" --arena-batch=8 --arena-gpus=2 --arena-elastic --arena-launcher=arena-train \
    -t 30 -o "$work/out" "$work/job")
ok "the job starts on two GPUs" wait_for_state "$job" RUNNING 60
# shellcheck disable=SC2016
ok "its two ranks train" wait_until '[[ $(grep -c "\"loss\"" "$work/log.0" 2>/dev/null) -ge 3 ]]' 60
like "$(head -n 1 "$work/log.0")" "$(word plan | sed 's/,mb.*//')" "under the plan that scontrol shows"
like "$(head -n 1 "$work/log.0")" '"ranks":2' "as two processes"

scontrol update JobId="$job" Comment=arena:gpus=1-1
ok "its user wants one GPU: it saves, starts again and completes" wait_for_state "$job" COMPLETED 120
is "$(job_field "$job" Restarts)" 1 "after one restart"
like "$(word grid)" '^a40$|^1xa40$' "on one GPU"
saved=$(($(<"$work/steps.1") - 20))
is "$(losses "$work/log.0" | tail -n 1 | cut -d' ' -f1)" "$saved" "the checkpoint was that of the last step"
is "$(jq 'select(.event == "resumed").step' "$work/log.1")" "$saved" "the second life begins there"
is "$(losses "$work/log.1" | cut -d' ' -f1 | tr '\n' ' ')" "$(seq -s' ' $((saved + 1)) $((saved + 20))) " \
    "and does every step after it, once and in order"
ok "a run on one rank from the same checkpoint" "$ARENA_BUILDDIR/arena-train" --device cpu --model "$work/tiny.yaml" --data "$work/text" \
    --global-batch 8 --steps $((saved + 20)) --checkpoint "$work/kept" --log "$work/alone" --quiet
ok "has the same losses" awk '{ d = $2 - $4; if ($1 != $3 || d > 1e-4 * $4 || d < -1e-4 * $4) { print; bad = 1 } n++ } END { exit bad || n != 20 }' \
    <(paste -d' ' <(losses "$work/log.1") <(losses "$work/alone"))
ok "the run left no files of PMIx" wait_until '[[ ! $(ls "$work/pmix") ]]'
done_testing
