# SPDX-License-Identifier: GPL-2.0-or-later
"""A plain DDP script, as most users have one: what Arena tells it is the micro-batch and how many of them make a step.
Every rank has the whole model. Each life writes one line of what was really trained: samples are counted, not computed.
usage: ddp.py OUT [STEPS]   OUT.pt: checkpoint; OUT.json: a line for each life. SIGUSR1: save, leave, come back."""
import contextlib, json, os, signal, sys, time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

out, steps = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 2
told = torch.zeros(1)
signal.signal(signal.SIGUSR1, lambda *_: told.fill_(1))
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
micro, accumulate = int(os.environ["ARENA_MICRO_BATCH"]), int(os.environ["ARENA_NUM_MICRO_BATCHES"])


def samples(step, number):
    """The same of a step in any world: sample `number` of all of them."""
    x = torch.randn(1, 8, generator=torch.Generator().manual_seed(100_000 * step + number))
    return x, x.sum(1, keepdim=True)


torch.manual_seed(1)
model = DistributedDataParallel(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
first = 0
if os.path.exists(out + ".pt"):
    state = torch.load(out + ".pt")
    first = state["step"]
    model.module.load_state_dict(state["model"])
shapes, trained, loss_sum = set(), torch.zeros(1), torch.zeros(1)
step = first
while step < steps:
    passes = 0
    trained.zero_(), loss_sum.zero_(), optimizer.zero_grad()
    for part in range(accumulate):
        begin = (part * world + rank) * micro
        x, y = (torch.cat(t) for t in zip(*(samples(step, begin + i) for i in range(micro))))
        with model.no_sync() if part + 1 < accumulate else contextlib.nullcontext():
            loss = (model(x) - y).square().mean()
            (loss / accumulate).backward()
        passes += 1
        shapes.add(len(x))
        trained += len(x)
        loss_sum += loss.detach() * len(x)
    optimizer.step()
    step += 1
    leaving = told.clone()
    for value in (trained, loss_sum, leaving):
        dist.all_reduce(value)
    if step == first + 1 and rank == 0:
        open(out + ".begun", "w").close()
    if leaving > 0:
        break
    if steps > 1000:  # until it is told to leave: the processors are others', too
        time.sleep(0.05)
if rank == 0:
    torch.save({"step": step, "model": model.module.state_dict()}, out + ".pt.new")
    os.replace(out + ".pt.new", out + ".pt")
    print(json.dumps({"world": world, "micro_batch": sorted(shapes), "accumulation": passes, "batch": int(trained),
                      "from": first, "to": step, "loss": float(loss_sum / trained),
                      "weight": float(model.module.weight.detach().norm())}), file=open(out + ".json", "a"), flush=True)
    if step < steps and os.environ.get("ARENA_LEFT_FILE"):
        open(os.environ["ARENA_LEFT_FILE"], "w").close()
sys.exit(0 if step >= steps else int(os.environ.get("ARENA_REQUEUE_CODE", 99)))
