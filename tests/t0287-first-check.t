#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The first five minutes on a GPU (tests/gpu/run --first), rehearsed on the software device: every part, the file that it
# writes, a part that hangs and one that fails.
. "${ARENA_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/tap.sh"
: "${ARENA_SRCDIR:=$(cd "$(dirname "$0")/.." && pwd)}" "${ARENA_BUILDDIR:=$PWD}"
. "$ARENA_SRCDIR/tests/lib/train.sh"
. "$ARENA_SRCDIR/tests/lib/soft_gpu.sh"
first() { "$ARENA_SRCDIR/tests/gpu/run" --first --soft --out first "$@" "$ARENA_BUILDDIR" >out 2>&1; }
part() { jq -c --arg part "$1" ".parts[] | select(.part == \$part) | $2" first/first.json; }

ok "all parts are done" first
[[ $tap_failed == 0 ]] || diag "$(cat out; jq -c '.parts[] | select(.status == "failed")' first/first.json)"
is "$(jq -r '[.parts[] | .part + " " + .status] | join("; ")' first/first.json)" \
    "device ok; kernels ok; rates ok; profile-small-gpt ok; cudnn ok; train ok; estimate skipped; nccl ok; switch ok" \
    "each says how it went"
is "$(part rates '[.figures.products[] | [.precision, .tflops, .of_sheet]]')" '[["fp32",0.273,0.00408],["bf16",0.286,0.00029],["fp16",0.286,0.00029]]' \
    "rates are the software device's, beside the sheet of what it says it is"
is "$(part nccl .figures)" '{"compared":4,"recorded":5}' "NCCL's calls are recorded: four, of which a message is two"
is "$(jq -r .device.kind "first/$(part profile-small-gpt .figures.file | tr -d '"')")" cuda "the profile is one of a GPU"
like "$(grep '^| rates' first/table.md)" '^\| rates \| ok \| [0-9.]+ \| fp32 ' "rows for the document"

ARENA_FIRST_LIMIT=kernels:1 first --only kernels,nccl
is "$?" 1 "a part that hangs is no success"
is "$(part kernels .status) $(part nccl .status)" '"hung" "ok"' "the next one is done all the same"
ARENA_SOFT_FAIL=cudaMemsetAsync:1=2 first --only kernels,nccl
is "$?" 1 "nor is one that fails"
like "$(part kernels .why)" 'ended with|not ok' "it says what failed"
ARENA_SOFT_GPUS=0 first
is "$? $(part device .status) $(jq -r '[.parts[] | select(.status == "skipped")] | length' first/first.json)" '1 "failed" 8' "without a GPU nothing is tried"
done_testing
