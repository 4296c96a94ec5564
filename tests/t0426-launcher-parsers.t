#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# tests/bench/launcher-parsers finds what it is for: a framework that refuses a plan, one that runs another plan than was
# priced, a row of the table that no plan meets. The framework here is a parser of ours.
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
command -v python3 >/dev/null || skip_all "no python3"
bench=$ARENA_SRCDIR/tests/bench/launcher-parsers
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT

cat >"$work/checker.py" <<'END'
import argparse, os


def version(directory):
    return "0.13.0"


class Checker:
    observes = ("pp", "dp", "tp", "global_batch", "shared_by", "schedule")

    def __init__(self, directory):
        self.mode = open(os.path.join(directory, "mode"), encoding="utf-8").read().strip()

    def run(self, plan, words):
        parser = argparse.ArgumentParser()
        for name in ("tensor-model-parallel-size", "pipeline-model-parallel-size", "global-batch-size"):
            parser.add_argument("--" + name, type=int)
        parser.add_argument("--num-distributed-optimizer-instances", type=int, default=1)
        parser.add_argument("--parallelism.pipeline_parallel_schedule", dest="schedule", default="1F1B")
        args, _ = parser.parse_known_args(words)
        if self.mode == "torchtitan":
            known = {"1F1B": "1f1b", "Interleaved1F1B": "1f1b", "ZBVZeroBubble": "zbv", "InterleavedZeroBubble": "zbh1"}
            return {**dict.fromkeys(self.observes), **plan.expected(), "schedule": known[args.schedule]}
        if self.mode == "refuse" and args.pipeline_model_parallel_size > 1:
            raise ValueError(f"{args.pipeline_model_parallel_size} stages are too many")
        if self.mode == "crash" and args.tensor_model_parallel_size > 1:
            parser.error("no tensor parallelism here")
        dp = plan.gpus // args.tensor_model_parallel_size // args.pipeline_model_parallel_size // plan.cp
        groups = 1 if self.mode == "whole" else args.num_distributed_optimizer_instances
        return {"pp": args.pipeline_model_parallel_size, "tp": args.tensor_model_parallel_size, "schedule": "1f1b",
                "shared_by": dp // groups,
                "dp": dp // 2 if self.mode == "other" and dp > 1 else dp, "global_batch": args.global_batch_size}
END
framework=megatron
# try MODE [OPTION...]: sets out and rc
try() {
    mkdir -p "$work/framework"
    echo "$1" >"$work/framework/mode"
    shift
    rc=0
    out=$(python3 "$bench" "$framework" "$work/framework" --checker "$work/checker.py" --build "$ARENA_BUILDDIR" \
        --models llama-3-8b --sizes 8 "$@" 2>&1) || rc=$?
}

out=$(python3 "$bench" megatron "$work/nowhere")
is "$?$out" "0skipped: no checkout of megatron at $work/nowhere" "without a checkout it says so and is content"
try agree --plans "$work/plans"
is "$rc" 0 "a framework that runs every plan as priced"
like "$out" 'megatron 0.13.0 \(rows of 0.13.0\): [1-9][0-9]* plans, [1-9][0-9]* run as priced, 0 refused, 0 run as something else' "says how many"
try refuse --plans "$work/plans"
is "$rc" 1 "a framework that refuses plans is found out"
like "$out" 'refused +[1-9][0-9]* +llama-3-8b.*ValueError: [0-9]+ stages are too many' "with its own words, once for all of a kind"
is "$(grep -c '^refused' <<<"$out")" 1 "refusals that differ in numbers alone are one line"
try crash --plans "$work/plans"
like "$rc $out" '1 .*error: no tensor parallelism here' "and one whose parser ends the process"
try other --plans "$work/plans"
is "$rc" 1 "a framework that runs another plan is found out"
like "$out" 'differs +[1-9][0-9]* +llama-3-8b.*dp is [0-9]+, not [0-9]+' "with what came out and what was priced"
try whole --plans "$work/plans"
like "$rc $out" '1 .*hsdp2 .*shared_by is [0-9]+, not 2' "and one that shares states among all where groups were priced"
try agree --models llama-3-8b-lora-qv --plans "$work/adapters"
like "$rc $out" '^1 .* 0 plans' "a launcher that trains all weights has no plan of adapters"
try agree --plans "$work/plans" --models bert-large
is "$rc" 1 "no plan at all is no success"
try agree --plans "$work/one" --sizes 1
like "$out" 'no plan met: 0[.0-9]* [.0-9]* sp --sequence-parallel' "rows that no plan met are named"
try agree --models gpt-9
like "$rc $out" '^2 .*no model gpt-9; there are gpt2-xl' "an unknown model is a usage error with the known ones"
framework=torchtitan
try torchtitan --version 0.2.2
like "$rc $out" "1 .*refused +[1-9][0-9]* +llama-3-8b.* dualpipev .*KeyError: 'DualPipeV'" "schedules that split backwards are among the plans"
framework=accelerate
try torchtitan --version 1.6 --sizes 8,16 --models llama-3-8b-lora-attention,llama-3-8b-lora-mlp,llama-3-8b-lora-qv,llama-3-8b-lora-4bit
like "$rc $out" 'accelerate 0.13.0 .rows of 1.6.: ([5-9][0-9]|[1-9][0-9][0-9]) plans' "and fifty plans of adapters"
done_testing
