#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Tokens per second of a GPT-2 in PyTorch on one GPU: bf16 autocast, fused attention, torch.compile, fused AdamW, gradient
clipping; the model and the batches' sizes that tests/gpu/run gives arena-train. Prints one number, the median over the
steps after the first ten. Exit 77 with a reason where PyTorch or its CUDA is missing.

usage: gpt_torch.py LAYERS HIDDEN HEADS VOCABULARY TOKENS-PER-SAMPLE SAMPLES STEPS
"""
import statistics
import sys
import time

try:
    import torch
    from torch import nn
    from torch.nn import functional as F
except ImportError as error:
    print(error)
    sys.exit(77)
if not torch.cuda.is_available():
    print("PyTorch sees no GPU")
    sys.exit(77)

layers, hidden, heads, vocabulary, seq, samples, steps = map(int, sys.argv[1:])


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv, self.proj = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (part.view(b, t, heads, -1).transpose(1, 2) for part in self.qkv(self.ln_1(x)).split(hidden, 2))
        context = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(context.transpose(1, 2).reshape(b, t, hidden))
        return x + self.down(F.gelu(self.up(self.ln_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, hidden), nn.Embedding(seq, hidden)
        self.blocks, self.norm = nn.ModuleList(Block() for _ in range(layers)), nn.LayerNorm(hidden)

    def forward(self, ids, labels):
        x = self.tokens(ids) + self.positions.weight
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.tokens.weight)
        return F.cross_entropy(logits.view(-1, vocabulary).float(), labels.view(-1))


torch.manual_seed(1)
torch.set_float32_matmul_precision("high")
gpt = Gpt().cuda()
model = torch.compile(gpt)
optimizer = torch.optim.AdamW(gpt.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
ids = torch.randint(vocabulary, (samples, seq + 1), device="cuda")
seconds = []
for _ in range(steps + 10):
    torch.cuda.synchronize()
    start = time.perf_counter()
    with torch.autocast("cuda", torch.bfloat16):
        loss = model(ids[:, :-1], ids[:, 1:].contiguous())
    loss.backward()
    nn.utils.clip_grad_norm_(gpt.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    torch.cuda.synchronize()
    seconds.append(time.perf_counter() - start)
print(samples * seq / statistics.median(seconds[10:]))
