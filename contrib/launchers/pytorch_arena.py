# SPDX-License-Identifier: GPL-2.0-or-later
"""A plain PyTorch script with arena.py's lines, each marked: arena.py(7). It runs without Arena, too, and with one rank."""
import os
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
import arena  # 1

device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0))) if torch.cuda.is_available() else torch.device("cpu")
model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.GELU(), torch.nn.Linear(64, 1)).to(device)
if "RANK" in os.environ:
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    model = DistributedDataParallel(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
dataset = [(x, x.sum(0, keepdim=True)) for x in torch.randn(4096, 16, generator=torch.Generator().manual_seed(1))]

run = arena.start(*arena.checkpoint(os.environ.get("CHECKPOINT", "checkpoint.pt"), model=model, optimizer=optimizer),  # 2
                  model=model, batch=64, micro_batch=8)
data = run.batches(dataset, shuffle=1)  # 3
for step in run.steps(int(os.environ.get("STEPS", 1000)), save_every=100):  # 4
    for x, y in data:  # 5
        loss = (model(x.to(device)) - y.to(device)).square().mean()
        run.backward(loss)  # 6
    optimizer.step()
    optimizer.zero_grad()
if run.rank == 0:
    print(f"done: {run.step} steps")
