# SPDX-License-Identifier: GPL-2.0-or-later
"""A small GPT by torch.distributed and gloo that knows nothing of Arena: python3 -m arena plain.py OUT KIND. It trains until OUT.stop is
there; OUT.steps: how many steps rank 0 has done.
KIND: dp (DistributedDataParallel), tp (two pairs whose ranks meet in each layer, and two replicas), pp (two stages, two replicas).
$DEVICE_S: what a layer takes on a device that this stands for, asleep. $LENGTHS: sequences differ up to so many times.
OUT.slow: "RANK FACTOR", whose device is so much slower; "A+B SECONDS", ranks between which each message takes so much longer, as
slow-link(8) has it for MPI; or "all FACTOR". Read once in a step."""
import contextlib
import os
import random
import sys
import time
import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d
from torch.nn.parallel import DistributedDataParallel

out, kind = sys.argv[1:3]
torch.set_num_threads(1)
torch.manual_seed(1)
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
device_s, lengths = float(os.environ.get("DEVICE_S", 0.005)), float(os.environ.get("LENGTHS", 1))
micro_batches = 4
chance = random.Random(rank // 2 if kind != "dp" else rank)
fault = ["", 1.0]


def read_fault():
    with open(out + ".slow", "a+") as file:
        file.seek(0)
        words = file.read().split()
    fault[:] = [words[0], float(words[1])] if len(words) == 2 else ["", 1.0]


def hold_up(group, peer=None):
    """Under what is recorded: in the back-end's own calls."""
    if "+" not in fault[0]:
        return
    ends = {int(end) for end in fault[0].split("+")}
    members = set(distributed_c10d._pg_group_ranks[group]) if group in distributed_c10d._pg_group_ranks else set(range(world))
    others = members if peer is None else {sorted(members)[peer]}
    if rank in ends and ends - {rank} <= others:
        time.sleep(fault[1])


def under(name, peer):
    real = getattr(dist.ProcessGroupGloo, name)

    def held_up(group, *words, **more):
        hold_up(group, words[1] if peer else None)
        return real(group, *words, **more)
    setattr(dist.ProcessGroupGloo, name, held_up)


under("allreduce", False)
under("send", True)
dist.init_process_group("gloo")


def factor():
    return fault[1] if fault[0] in (str(rank), "all") else 1


class Layer(torch.nn.Module):
    """Half as wide where two ranks share it."""

    def __init__(self, shards):
        super().__init__()
        self.inner = torch.nn.TransformerEncoderLayer(16, 2, 64 // shards, dropout=0, batch_first=True)

    def forward(self, x):
        time.sleep(device_s * factor() * length[0])
        return self.inner(x)


class Gpt(torch.nn.Module):
    def __init__(self, layers, shards=1):
        super().__init__()
        self.words, self.head = torch.nn.Embedding(64, 16), torch.nn.Linear(16, 64)
        self.layers = torch.nn.ModuleList([Layer(shards) for _ in range(layers)])

    def forward(self, x, pair=None):
        for layer in self.layers:
            x = layer(x)
            if pair is not None:
                met = x.detach().clone()
                dist.all_reduce(met, group=pair)
        return x


length = [1.0]
pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]           # of a replica
rings = [dist.new_group([0, 2]), dist.new_group([1, 3])]           # of a stage or shard
replica, place = rank // 2, rank % 2
model = Gpt(2, 2 if kind == "tp" else 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
ids = torch.randint(0, 64, (2, 16))


def loss_of(x):
    return torch.nn.functional.cross_entropy(model.head(x).flatten(0, 1), ids.flatten())


class Loss(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gpt = model

    def forward(self, ids):
        return loss_of(model(model.words(ids)))


if kind == "dp":
    whole = DistributedDataParallel(Loss())


def step_dp():
    for number in range(micro_batches):
        length[0] = lengths ** chance.random()
        last = number + 1 == micro_batches
        with contextlib.nullcontext() if last else whole.no_sync():
            whole(ids).backward()
            time.sleep(2 * device_s * factor() * length[0])


def step_tp():
    for _ in range(micro_batches):
        length[0] = lengths ** chance.random()
        loss_of(model(model.words(ids), pairs[replica])).backward()
        time.sleep(2 * device_s * factor() * length[0])
    gradients()


def step_pp():
    first, peer = place == 0, 2 * replica + 1 - place
    kept = []
    for _ in range(micro_batches):
        length[0] = lengths ** chance.random()
        x = model.words(ids) if first else torch.empty(2, 16, 16)
        if not first:
            dist.recv(x, peer)
            x.requires_grad_()
        y = model(x)
        kept.append((x, y))
        if first:
            dist.send(y.detach(), peer)
    for x, y in kept:
        if first:
            gradient = torch.empty_like(y)
            dist.recv(gradient, peer)
            y.backward(gradient)
        else:
            loss_of(y).backward()
        time.sleep(2 * device_s * factor() * length[0])
        if not first:
            dist.send(x.grad, peer)
    gradients()


def gradients():
    for parameter in list(model.parameters())[:6]:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        dist.all_reduce(parameter.grad, group=rings[place])


step, done = {"dp": step_dp, "tp": step_tp, "pp": step_pp}[kind], 0
stop = torch.zeros(1)
while stop.item() == 0:
    read_fault()
    step()
    optimizer.step()
    optimizer.zero_grad()
    done += 1
    stop.fill_(float(os.path.exists(out + ".stop")))
    dist.all_reduce(stop, op=dist.ReduceOp.MAX)
    if rank == 0:
        with open(out + ".steps", "w") as file:
            print(done, file=file)
