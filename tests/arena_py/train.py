# SPDX-License-Identifier: GPL-2.0-or-later
"""A small GPT by DistributedDataParallel and gloo, under arena.py: what a user's script looks like, and what it writes down.
usage: train.py OUT STEPS. OUT.pt: checkpoint; OUT.log: a line of JSON for each step, by rank 0.
$DEVICE_S: what a micro-batch takes on a device that this stands for, asleep. While OUT.slow holds the number of a rank, its device
takes three times as long for that, and for the products of a check."""
import json
import os
import sys
import time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
import arena

out, steps = sys.argv[1], int(sys.argv[2])
torch.set_num_threads(1)
torch.manual_seed(1)
if int(os.environ.get("WORLD_SIZE", 1)) > 1:
    dist.init_process_group("gloo")


class Gpt(torch.nn.Module):
    def __init__(self, vocab=64, hidden=16, seq=16):
        super().__init__()
        self.words, self.places = torch.nn.Embedding(vocab, hidden), torch.nn.Embedding(seq, hidden)
        self.block = torch.nn.TransformerEncoderLayer(hidden, 2, 4 * hidden, dropout=0, batch_first=True)
        self.head = torch.nn.Linear(hidden, vocab)
        self.register_buffer("ahead", torch.full((seq, seq), float("-inf")).triu(1), persistent=False)

    def forward(self, ids):
        return self.head(self.block(self.words(ids) + self.places(torch.arange(ids.shape[1])), self.ahead))


class Text(torch.utils.data.Dataset):
    def __init__(self, samples=500, seq=16):
        random = torch.Generator().manual_seed(7)
        self.ids = torch.cumsum(torch.randint(0, 3, (samples, seq + 1), generator=random), 1) % 64

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, number):
        return number, self.ids[number, :-1], self.ids[number, 1:]


model = Gpt().double()
if dist.is_initialized():
    model = DistributedDataParallel(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
device_s = float(os.environ.get("DEVICE_S") or 0)
seconds_of = arena._HardwareCheck._seconds_of


def factor():
    if not device_s or not os.path.exists(out + ".slow"):
        return 1
    with open(out + ".slow") as file:
        return 3 if file.read().strip() == os.environ.get("RANK") else 1


def products(self, number):
    """Of a check: on that device, too, so that nothing here depends on what else this machine does."""
    if not device_s:
        return seconds_of(self, number)
    time.sleep(device_s / 4 * number * factor())
    return device_s / 4 * number * factor()


arena._HardwareCheck._seconds_of = products
run = arena.start(*arena.checkpoint(out + ".pt", model=model, optimizer=optimizer), model=model, batch=24, micro_batch=2)
data = run.batches(Text(), shuffle=3)
for step in run.steps(steps):
    began = time.perf_counter()
    loss_sum, seen = torch.zeros(1, dtype=torch.float64), torch.zeros(len(data._dataset))
    for numbers, ids, labels in data:
        time.sleep(device_s * factor())
        loss = torch.nn.functional.cross_entropy(model(ids).flatten(0, 1), labels.flatten())
        run.backward(loss)
        loss_sum += loss.detach() * len(ids)
        seen[numbers] += 1
    optimizer.step()
    optimizer.zero_grad()
    if dist.is_initialized():
        dist.all_reduce(loss_sum)
        dist.all_reduce(seen)
    if run.rank == 0:
        print(json.dumps({"step": step, "loss": float(loss_sum) / run.batch, "s": time.perf_counter() - began, "counts": run.counts,
                          "world": run.world, "samples": int(seen.sum()), "most": int(seen.max()),
                          "seen": hash(tuple(seen.nonzero().flatten().tolist()))}),
              file=open(out + ".log", "a"), flush=True)
