#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Collectives over several nodes: arena-profiler comm as the tasks of an srun step, between host memories (no GPU is
# needed), into the store, and from there into the planner's prices, each with the span that Slurm tells a task. A rank that dies ends the others at once, long
# before --timeout: Slurm's PMIx sees to it, whether the others wait in MPI or in NCCL (a stand-in of the tests).
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/train.sh"
faulty=$ARENA_BUILDDIR/arena-profiler-faulty profiler=$ARENA_BUILDDIR/arena-profiler
[[ -x $faulty && -x $profiler ]] || skip_all "arena-profiler-faulty is not built (make check builds it)"
command -v jq >/dev/null || skip_all "jq is not installed"
need_slurm
need_mpi_in_slurm
start_cluster --nodes a40:3x2 --topology tree:2   # below one leaf switch n1 and n2, below another n3
export ARENA_DATA_DIR=$ARENA_SRCDIR/etc
arena=$ARENA_BUILDDIR/arena
mkdir -m 700 "$work/store"
# Both nodes are this host: their shared memory would have the same names.
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_btl=self,tcp OMPI_MCA_btl_tcp_if_include=lo

# over_nodes PROGRAM... : as four tasks on $nodes, two of them; its exit code in $code. No limit of ours ends it: --timeout is 120 s
nodes='n[1-2]'
over_nodes() {
    srun --mpi=pmix -w "$nodes" -N 2 --ntasks-per-node=2 -t 30 "$@" >"$work/out" 2>"$work/err"
    code=$?
}

# ---- the whole way of a table ---------------------------------------------------------------------------
over_nodes "$profiler" comm --device cpu --gpu-type emulated-cpu --min-bytes 8K --max-bytes 1M --factor 128 --budget 600 \
    --timeout 120 --out "$work/table.csv" -v
is "$code" 0 "four tasks on two nodes measure all sizes"
((code == 0)) || diag "$(<"$work/err")"
table() { tail -n +2 "$work/table.csv" | cut -d, -f2-5 | sort -u | tr '\n' ' '; }
is "$(table)" "all_gather,2,1,1 all_gather,2,2,1 all_gather,2,2,2 all_gather,4,2,1 all_reduce,2,1,1 all_reduce,2,2,1 \
all_reduce,2,2,2 all_reduce,4,2,1 all_to_all,2,1,1 all_to_all,2,2,1 all_to_all,2,2,2 all_to_all,4,2,1 \
reduce_scatter,2,1,1 reduce_scatter,2,2,1 reduce_scatter,2,2,2 reduce_scatter,4,2,1 send,2,1,1 send,2,2,1 send,2,2,2 " \
    "of every group inside a node and over both, alone and at once"
# spans FILE: number of nodes and span of each kind of row
spans() { tail -n +2 "$1" | cut -d, -f4,11 | sort -u | tr '\n' ' '; }
is "$(spans "$work/table.csv")" "1,node 2,leaf " "and the span is what Slurm tells the tasks: below one leaf switch"
nodes='n[2-3]'
over_nodes "$profiler" comm --device cpu --gpu-type emulated-cpu --ops all_reduce --min-bytes 8K --max-bytes 8K --budget 600 \
    --timeout 120 --out "$work/apart.csv" -v
nodes='n[1-2]'
is "$code $(spans "$work/apart.csv")" "0 1,node 2,pod " "on nodes of two leaves below one switch it is another"
ok "the table goes into the store" "$arena" profile --store "$work/store/p.db" import-comm "$work/table.csv"
tp_comm_s='.grids[0].estimate.tp_comm_s'
price() { # [OPTION...]: seconds of tensor-parallel communication of two GPUs in a node
    env -u SLURM_CONF -u ARENA_CONF "$arena" plan --json --model gpt2 --global-batch 8 --gpu-type emulated-cpu --gpus 2 \
        --fixed pp=1,dp=1,tp=2,micro_batch=8 "$@" | jq "$tp_comm_s"
}
measured=$(price --profiles "$work/store/p.db") entry=$(price --profiles none)
note "tensor-parallel communication: $measured s as measured, $entry s by the hardware entry"
ok "and from there into the planner's prices" jq -en "$measured > 0 and $entry > 0 and $measured != $entry"
awk -F, -v OFS=, -v CONVFMT=%.17g -v OFMT=%.17g 'NR > 1 { for (i = 7; i <= 9; i++) $i *= 100 } 1' "$work/table.csv" >"$work/slow.csv"
ok "a table of times 100 times as long takes its place" "$arena" profile --store "$work/store/p.db" import-comm "$work/slow.csv"
slow=$(price --profiles "$work/store/p.db")
# What is measured on a busy machine need not grow with the bytes, and the planner holds it in bounds: 106 and 135 times were seen.
ok "and makes communication many times as long" jq -en "$slow > 50 * $measured"

# ---- a rank dies --------------------------------------------------------------------------------------------
# The last rank is killed when the first size is measured.
cat >"$work/dying" <<END
#!/bin/bash
if ((SLURM_PROCID == 3)); then
    (until grep -q 'GB/s' $work/err 2>/dev/null; do sleep 0.05; done; kill -KILL \$\$) &
fi
exec "\$@"
END
chmod 755 "$work/dying"
begin=$SECONDS
over_nodes --kill-on-bad-exit=0 "$work/dying" "$profiler" comm --device cpu --gpu-type emulated-cpu --min-bytes 16M --max-bytes 64M \
    --budget 3000 --timeout 3000 --out "$work/part.csv" -v
isnt "$code" 0 "a rank that is killed ends the run"
like "$(cat "$work/err")" 'tasks? (2-)?3: Killed' "srun says which"
ok "what was measured before is kept" test -s "$work/part.csv"
ok "long before the limit of 3000 s" test $((SECONDS - begin)) -lt 1500
begin=$SECONDS
ARENA_TEST_FAULT=orphan@3 over_nodes --kill-on-bad-exit=0 "$faulty" comm --gpu-type A40 --max-bytes 4K --budget 3000 \
    --timeout 3000 --out "$work/orphans.csv" -v
isnt "$code" 0 "a library that does not notice, too"
like "$(cat "$work/err")" 'task 1: Killed' "srun says which"
ok "long before the limit of 3000 s" test $((SECONDS - begin)) -lt 1500

# ---- tasks that cannot find each other ----------------------------------------------------------------------
srun --mpi=none -N 2 -n 4 "$profiler" comm --device cpu --gpu-type emulated-cpu --out "$work/none.csv" 2>"$work/err"
is "$?" 2 "srun without PMIx is refused"
like "$(cat "$work/err")" 'find each other by PMIx: srun --mpi=pmix' "with what to type"
over_nodes --distribution=cyclic "$profiler" comm --device cpu --gpu-type emulated-cpu --out "$work/none.csv"
is "$code" 2 "so are tasks that do not lie in blocks"
like "$(cat "$work/err")" 'in blocks: srun --ntasks-per-node=GPUS --distribution=block:block' "with what to type"
not_ok "nothing is written" test -e "$work/none.csv"
done_testing
