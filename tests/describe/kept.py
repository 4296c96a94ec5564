# SPDX-License-Identifier: GPL-2.0-or-later
"""What a forward really leaves allocated on the CPU, by torch's profiler of memory: what backward needs.
usage: kept.py MODELS.py CALLABLE SHAPE[:DTYPE]   prints bytes, without what forward returns"""
import importlib.util
import sys
import torch
from torch.profiler import ProfilerActivity, profile

path, name, given = sys.argv[1:]
spec = importlib.util.spec_from_file_location("models", path)
models = importlib.util.module_from_spec(spec)
spec.loader.exec_module(models)
shape, _, dtype = given.partition(":")
shape = [int(s) for s in shape.split("x")]
torch.set_num_threads(1)
model = getattr(models, name)().train()
with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
    x = torch.zeros(shape, dtype=getattr(torch, dtype)) if dtype else torch.randn(shape)
    out = model(x)
left = sum(e.nbytes() for e in seen.profiler.kineto_results.events() if e.name() == '[memory]')
print(left - out.numel() * out.element_size())
