# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Jobs of tests/train/ddp.py, a plain DDP script that writes down what it trained. Source it after cluster.sh.
#   need_torch               skips the test where Debian's PyTorch is missing
#   write_ddp_jobs           after start_cluster: $work/ddp.sh (by srun) and $work/torchrun.sh (the shipped one)
#   submit_ddp LAUNCHER MODEL BATCH [OPTIONS...]   prints sbatch's answer and, last, the job's id. steps=N (2), or until-resized:
#                            endless in the first life, three steps more in the second. ddp: nothing is said of the launcher
#   priced JOB LIFE          the offer (JSON) that the life ran with      trained JOB LIFE   what it trained (JSON)
#   of_plan, of_training     "WORLD MICRO-BATCH ACCUMULATION BATCH" of either, from standard input
#   as_priced JOB LIFE BATCH that both are the same, and the batch the one asked for
: "${work=}" "${ARENA_SRCDIR=}" "${stage=}"   # of cluster.sh

need_torch() {
    /usr/bin/python3 -c 'import torch.distributed' 2>/dev/null || skip_all "python3-torch is not installed (contrib/install-deps)"
    command -v jq >/dev/null || skip_all 'jq is not installed'
}

write_ddp_jobs() {
    printf 'name: tiny\nfamily: gpt\nlayers: 4\nhidden: 32\nheads: 4\nvocab: 128\nseq_length: 32\nprecision: fp32\n' >"$work/tiny.yaml"
    cp "$ARENA_SRCDIR/tests/train/ddp.py" "$work/ddp.py"
    # Names of the private cluster's nodes do not resolve everywhere.
    cat >"$work/begin" <<END
export MASTER_ADDR=127.0.0.1 ARENA_RDZV_HOST=127.0.0.1 OMP_NUM_THREADS=1 PATH=$ARENA_SRCDIR/tests/train:$stage/bin:\$PATH
cd $work || exit
printf '%s\n' "\$ARENA_PLAN" >>plan.\$SLURM_JOB_ID
if [[ \$steps == until-resized ]]; then
    steps=1000000000
    [[ ! -e done.\$SLURM_JOB_ID.json ]] || steps=\$((\$(tail -n 1 done.\$SLURM_JOB_ID.json | jq .to) + 3))
fi
END
    # shellcheck disable=SC2016  # expands in the job
    printf '#!/bin/bash\n. %q\nsrun /usr/bin/python3 ddp.py done."$SLURM_JOB_ID" "$steps"\n' "$work/begin" >"$work/ddp.sh"
    # With what belongs to this cluster; the shipped one's own options stay.
    sed "s|^set -uo pipefail\$|&\n. '$work/begin'; set -- ddp.py done.\$SLURM_JOB_ID \"\$steps\"|" \
        "$ARENA_SRCDIR/contrib/launchers/torchrun.sh" >"$work/torchrun.sh"
    grep -q "^. '$work/begin'" "$work/torchrun.sh" || BAIL_OUT "torchrun.sh has no line 'set -uo pipefail'"
}

submit_ddp() {
    local launcher=$1 model=$2 batch=$3 script=$work/ddp.sh
    local -a options=()
    shift 3
    case $launcher in
        ddp) ;;
        env) options=(--arena-launcher=env "--arena-plan=pp1,tp1,zero0,none") ;;
        torchrun) script=$work/torchrun.sh ;;   # its own #SBATCH lines say the rest
    esac
    (cd "$work" && steps=${steps-2} sbatch --parsable --time=10 -o "$work/out.%j" --arena-model="$model" --arena-batch="$batch" \
        "${options[@]}" "$@" "$script")
}

priced() { sed -n "$(($2 + 1))p" "$work/plan.$1"; }
trained() { sed -n "$(($2 + 1))p" "$work/done.$1.json"; }
of_plan() { jq -r '.plan | "\(.stage_dp[0]) \(.micro_batch) \(.num_micro_batches) \(.stage_dp[0] * .micro_batch * .num_micro_batches)"'; }
of_training() { jq -r '"\(.world) \(.micro_batch | map(tostring) | join(",")) \(.accumulation) \(.batch)"'; }
as_priced() {
    local planned found
    planned=$(priced "$1" "$2" | of_plan) found=$(trained "$1" "$2" | of_training)
    is "$found" "$planned" "job $1, life $2: world, micro-batch, accumulation and batch are trained as priced"
    is "${found##* }" "$3" "job $1, life $2: the batch is the one that was asked for"
}
