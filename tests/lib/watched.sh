# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Black-box tests of watched training in a cluster. Source it after train.sh and start_arena.
#   prepare_learning [HIDDEN SEQ]   a model of some ten milliseconds a step, text, and a job that trains it until it is told to leave
#   learn NAME STEPS OPTIONS...   submits it; NAME.out, NAME.log, NAME.watch of $gates are its output, log and its chief's logs
#   step_of NAME, step_s NAME FROM TO         latest step; median seconds of an iteration of these steps
#   events NAME FILTER, has_event NAME FILTER what its chief told, as JSON lines
#   splits NAME, split_step NAME [head|tail]  how micro-batches were dealt, and at which step
#   alone GPUS FLAGS...           the same training, not in Slurm and not disturbed: $work/alone.log
#   apart NAME FROM TO            how far the job's losses are from those: "LARGEST of N steps", relative
#   is_near APART                 whether that is below 1e-4, of one step at the least
# LEARN_UNDER: a command that starts each rank of jobs submitted from now on, with its words.
: "${ARENA_BUILDDIR=}" "${work=}" "${gates=}"   # of cluster.sh, arena.sh

prepare_learning() {
    cat >"$work/small.yaml" <<END
name: small
family: gpt
layers: 4
hidden: ${1:-128}
heads: 4
vocab: 128
seq_length: ${2:-128}
precision: fp32
END
    write_training_text "$work/text"
    trainer=("$ARENA_BUILDDIR/arena-train" --device cpu --model "$work/small.yaml" --data "$work/text" --lr 1e-4 --quiet)
    cat >"$work/life" <<END
#!/bin/bash
cd $gates || exit 1
name=\$SLURM_JOB_NAME
mkdir -p "\$name.watch"
# Its nodes are one host, whose shared memory they would take for that of one node.
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_btl=self,tcp OMPI_MCA_btl_tcp_if_include=lo
export ARENA_WATCH_LOG_DIR=$gates/\$name.watch ARENA_WATCH_RECHECK_S=6
exec srun --mpi=pmix \$LEARN_UNDER ${trainer[*]} --steps \$STEPS --log "\$name.log"
END
    chmod 755 "$work/life"
}
learn() {
    local name=$1 steps=$2
    shift 2
    submit -J "$name" -o "$gates/$name.out" --time=30 --export="ALL,STEPS=$steps,LEARN_UNDER=${LEARN_UNDER-}" --arena-model="$work/small.yaml" \
        --arena-batch=12 --arena-launcher=arena-train "$@" "$work/life"
}
alone() { "${trainer[@]}" --global-batch 12 --micro-batch 1 --ranks "$1" --log "$work/alone.log" "${@:2}"; }
apart() {
    join <(losses "$gates/$1.log" | sort) <(losses "$work/alone.log" | sort) | awk -v from="$2" -v to="$3" '$1 < from || $1 > to { next }
        { d = ($2 - $3) / $3; if (d < 0) d = -d; if (d > most) most = d; n++ } END { printf "%.1e of %d steps", most, n }'
}
is_near() { awk -v d="$1" 'BEGIN { exit !(d + 0 < 1e-4 && d ~ /of [1-9]/) }'; }
step_of() { [[ ! -e $gates/$1.log ]] || jq -r 'select(has("loss")).step' "$gates/$1.log" | tail -n 1; }
step_s() { jq -s "[.[] | select(has(\"loss\") and .step >= $2 and .step <= $3).iteration_s] | sort | .[(length / 2 | floor)]" "$gates/$1.log"; }
events() { cat "$gates/$1.watch"/arena-watch-*/log_*/events.jsonl 2>/dev/null | jq -c "select($2)"; }
has_event() { [[ $(events "$1" "$2") ]]; }
splits() { [[ ! -e $gates/$1.log ]] || jq -r 'select(.event == "split") | .micro_batches | join(",")' "$gates/$1.log"; }
split_step() { jq -r 'select(.event == "split").step' "$gates/$1.log" | "${2:-head}" -n 1; }
