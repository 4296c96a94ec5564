#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Where ranks meet (issue 35, A3). Nodes of a private cluster have names that nothing resolves: MASTER_ADDR and the words
# of launchers name NodeAddr, by which ranks do meet; a host of the user's own comes before it, from the environment of
# sbatch or from --export, and is refused where it is none; a resolver that does not answer keeps nobody for long.
# shellcheck disable=SC2016,SC2030,SC2031  # expands in the jobs; a subshell's own variables
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
need_arena
command -v python3 >/dev/null || skip_all "no python3, which ranks meet by here"
unset ARENA_RDZV_HOST
start_cluster --arena on --nodes a40:2x2 --profile off
# A machine may have hosts of these names: then they are what ranks meet at.
place=127.0.0.1
[[ ! $(getent ahosts n1 | grep -v '^127\.') ]] || place=n1
PATH=$stage/bin:$PATH

# Rank 0 listens where MASTER_PORT says, the others call MASTER_ADDR, as torch.distributed's store does.
cat >"$work/meet.py" <<'END'
import os, socket, time
rank, world, port = (int(os.environ[n]) for n in ("RANK", "WORLD_SIZE", "MASTER_PORT"))
print(f"rank {rank} of {world} at {os.environ['MASTER_ADDR']}", flush=True)
if os.environ.get("ARENA_RDZV_HOST"): raise SystemExit
if rank == 0:
    server = socket.create_server(("", port))
    for _ in range(world - 1): server.accept()[0].sendall(b"met")
else:
    for _ in range(600):
        try: met = socket.create_connection((os.environ["MASTER_ADDR"], port), 5); break
        except ConnectionRefusedError: time.sleep(0.1)
    print(f"rank {rank} {met.recv(3).decode()}", flush=True)
END
job=$(script 'echo "words $(arena-args torchrun | paste -sd" ")"
echo "words $(ARENA_ZERO_STAGE=0 arena-args accelerate | paste -sd" ")"
echo "own ${ARENA_RDZV_HOST-unset} ${ARENA_MYVAR-unset}"
srun -w n2 -N1 -n1 bash -c "echo second \$MASTER_ADDR"
srun timeout 60 python3 "$work/meet.py"')
export work
# answer OPTIONS...: what the job prints
answer() {
    local id
    id=$(submit -o "$work/%j.out" --arena-model=gpt2 --arena-launcher=env --arena-batch=16 --arena-gpus=4-4 --arena-types=a40 --arena-plan=dp4,tp1,pp1 -t 5 "$@" "$job") ||
        { diag "$id"; return 1; }
    wait_for_state "$id" COMPLETED 60
    cat "$work/$id.out"
}
at=$(answer)
for rank in 0 1 2 3; do
    like "$at" "rank $rank of 4 at $place"$'(\n|$)' "rank $rank finds where the first node is: $place"
    ((rank == 0)) || like "$at" "rank $rank met" "and meets rank 0 there"
done
like "$at" "words .*--rdzv_endpoint=$place:2[0-9]{4}"$'(\n|$)' "torchrun is told the same"
like "$at" "words .*--main_process_ip=$place --" "and accelerate"
like "$at" "second ${place/n1/n2}"$'(\n|$)' "ranks of a step on the second node meet there"
like "$at" 'own unset unset' "the script of a user who says nothing has no host of the user's"

like "$(ARENA_RDZV_HOST=10.9.8.7 ARENA_MYVAR=1 answer)" 'own 10.9.8.7 unset.*rank 0 of 4 at 10.9.8.7' \
    "the user's own host in the environment of sbatch reaches script and ranks, and other ARENA_* do not"
at=$(answer --export=ALL,ARENA_RDZV_HOST=head.example.org)
like "$at" 'rank [0-3] of 4 at head.example.org' "in --export as well"
like "$at" 'words .*--rdzv_endpoint=head.example.org:2' "and launchers are told it"
for bad in 'n1;id' '-n1' 'n1:29500'; do
    refusal=$(ARENA_RDZV_HOST=$bad answer 2>&1) && fail "a host that is none is taken: $bad"
    like "$refusal" "arena: ARENA_RDZV_HOST: '$bad' is no host name and no address: give the host where the ranks meet" \
        "refused at submit: $bad"
done

# ---- a resolver that does not answer ---------------------------------------------------------------
# In a mount namespace of its own resolv.conf names a server that takes questions and keeps them.
plan=(ARENA_PP=1 ARENA_DP=2 ARENA_TP=1 ARENA_MICRO_BATCH=1 ARENA_NUM_MICRO_BATCHES=1 ARENA_GLOBAL_BATCH=2 ARENA_STAGE_LAYERS=1)
cat >"$work/deaf.py" <<'END'
import socket, sys, time
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("127.0.0.77", 53))
print("ready", flush=True)
while True: server.recv(4096)
END
printf 'nameserver 127.0.0.77\noptions timeout:30 attempts:5\n' >"$work/resolv.conf"
printf 'hosts: files dns\n' >"$work/nsswitch.conf"
# deaf COMMAND...: where names are asked of that server
deaf() {
    unshare --mount bash -c 'mount --bind "$work/resolv.conf" "$(readlink -f /etc/resolv.conf)" &&
        mount --bind "$work/nsswitch.conf" /etc/nsswitch.conf && "$@"' _ "$@"
}
if ((EUID != 0)) || ! deaf true 2>/dev/null; then
    skip 3 "needs root and mount namespaces"
else
    python3 "$work/deaf.py" >"$work/deaf.out" &
    server=$!
    ok "a name server listens that never answers" wait_until '[[ -s $work/deaf.out ]]'
    deaf timeout 5 getent ahosts n1 >/dev/null
    is "$?" 124 "who asks it waits"
    is "$(deaf timeout 100 env "${plan[@]}" SLURM_JOB_ID=7 SLURM_JOB_NODELIST='n[1-2]' SLURM_JOB_NUM_NODES=2 "$stage/bin/arena-args" torchrun | grep endpoint)" \
        "--rdzv_endpoint=127.0.0.1:20007" "arena-args goes on with NodeAddr after a moment"
    kill "$server"
fi
done_testing
