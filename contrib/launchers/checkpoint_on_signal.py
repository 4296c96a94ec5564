# SPDX-License-Identifier: GPL-2.0-or-later
"""Checkpoint on a signal: what a script under --arena-elastic has to do, in plain PyTorch.

Data parallel: plans of whole replicas (the launcher ddp, or torchrun.sh, which pins them); any other is refused.
SIGUSR1 (or SIGTERM) -> finish the step, save, exit with the RequeueExitHold code; Arena starts the job
again in another shape and it goes on from the checkpoint. All ranks must decide alike: they ask each other."""
import os, signal, sys
import torch
import torch.distributed as dist

STEPS, PATH = int(os.environ.get("STEPS", 1000)), os.environ.get("CHECKPOINT", "checkpoint.pt")
REQUEUE = int(os.environ.get("ARENA_REQUEUE_CODE", 99))  # resize.requeue_exit_code of arena.yaml
REPLICAS = {"PP": "1", "TP": "1", "CP": "1", "EP": "1", "VPP": "1", "ZERO_STAGE": "0", "RECOMPUTE": "none"}
for name, value in REPLICAS.items():
    if os.environ.get("ARENA_" + name, value) != value:
        sys.exit(f"checkpoint_on_signal.py is data parallel and cannot run a plan of ARENA_{name}={os.environ['ARENA_' + name]}: "
                 "submit with --arena-launcher=ddp, or with --arena-plan=pp1,tp1,zero0,none")
told = torch.zeros(1)
for number in (signal.SIGUSR1, signal.SIGTERM):
    signal.signal(number, lambda *_: told.fill_(1))

if "RANK" in os.environ:
    dist.init_process_group("gloo")  # all is on the CPU here; for a model on GPUs "cpu:gloo,cuda:nccl"
rank, world = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
torch.manual_seed(1)
model = torch.nn.Linear(16, 1)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
first, batch = 0, int(os.environ.get("ARENA_GLOBAL_BATCH", 8))
micro = int(os.environ.get("ARENA_MICRO_BATCH", batch // world))
if batch % (world * micro):
    sys.exit(f"checkpoint_on_signal.py: {world} ranks do not share out {batch} samples in micro-batches of {micro}")
if os.path.exists(PATH):
    state = torch.load(PATH, map_location="cpu")
    first = state["step"]
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
for step in range(first, STEPS):
    x = torch.randn(batch, 16, generator=torch.Generator().manual_seed(step))[rank::world]  # of any world size
    optimizer.zero_grad()
    for part in x.split(micro):  # ARENA_NUM_MICRO_BATCHES of them
        loss = (model(part) - part.sum(1, keepdim=True)).square().sum() / batch
        loss.backward()
    leaving = told.clone()
    for value in [p.grad for p in model.parameters()] + [leaving] if world > 1 else []:
        dist.all_reduce(value)
    optimizer.step()
    if rank == 0 and (leaving > 0 or step + 1 == STEPS):  # beside its name, then renamed: never half a file
        torch.save({"step": step + 1, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, PATH + ".new")
        os.replace(PATH + ".new", PATH)
        print(f"saved after step {step + 1}", flush=True)
    if leaving > 0 and step + 1 < STEPS:
        if rank == 0 and os.environ.get("ARENA_LEFT_FILE"):  # for torchrun.sh
            open(os.environ["ARENA_LEFT_FILE"], "w").close()
        sys.exit(REQUEUE)
