#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The same GPT in PyTorch, as its users write it (eager, fp32, autograd, torch.optim.AdamW): what arena-train's losses
and its speed are held against. Starts from the weights of a checkpoint of arena-train.

usage: gpt_pytorch.py [--threads N] [--compile] [--width BYTES] CHECKPOINT DATA STEPS LEARNING_RATE

Prints "LOSS SECONDS" per step. With STEPS 0 it reads numbers of steps from stdin, one a line, and does so many each time
before it prints an empty line: a benchmark that alternates keeps it waiting.
"""
import argparse
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F

from gpt_numpy import read_checkpoint, sample_of


class Gpt(torch.nn.Module):
    def __init__(self, facts, weights):
        super().__init__()
        self.heads, self.layers, self.tied = facts["heads"], facts["layers"], facts["tied"]
        self.names = {name: name.replace(".", "_") for name in weights}
        for name, value in weights.items():
            self.register_parameter(self.names[name], torch.nn.Parameter(torch.tensor(value, dtype=torch.float32)))
        mask = torch.full((facts["seq"], facts["seq"]), float("-inf")).triu(1)
        self.register_buffer("mask", mask, persistent=False)

    def w(self, name):
        return getattr(self, self.names[name])

    def attention(self, x, p):
        b, s, h = x.shape
        qkv = F.linear(x, self.w(p + "c_attn.weight"), self.w(p + "c_attn.bias"))
        q, k, v = (part.view(b, s, self.heads, h // self.heads).transpose(1, 2) for part in qkv.split(h, dim=2))
        if hasattr(F, "scaled_dot_product_attention"):
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            y = F.softmax(torch.matmul(q, k.transpose(2, 3)) * (h // self.heads) ** -0.5 + self.mask, dim=-1) @ v
        y = y.transpose(1, 2).reshape(b, s, h)
        return F.linear(y, self.w(p + "c_proj.weight"), self.w(p + "c_proj.bias"))

    def norm(self, x, p):
        return F.layer_norm(x, x.shape[-1:], self.w(p + "weight"), self.w(p + "bias"))

    def forward(self, inputs, labels):
        x = F.embedding(inputs, self.w("wte.weight")) + self.w("wpe.weight")
        for layer in range(self.layers):
            p = f"h.{layer}."
            x = x + self.attention(self.norm(x, p + "ln_1."), p + "attn.")
            up = F.linear(self.norm(x, p + "ln_2."), self.w(p + "mlp.c_fc.weight"), self.w(p + "mlp.c_fc.bias"))
            x = x + F.linear(F.gelu(up, approximate="tanh"), self.w(p + "mlp.c_proj.weight"), self.w(p + "mlp.c_proj.bias"))
        logits = F.linear(self.norm(x, "ln_f."), self.w("wte.weight" if self.tied else "lm_head.weight"))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), labels.view(-1))


class Run:
    def __init__(self, arguments):
        facts, weights = read_checkpoint(arguments.checkpoint)
        self.facts, self.step = facts, 0
        self.tokens = np.fromfile(arguments.data, f"<u{arguments.width}").astype(np.int64)
        self.model = Gpt(facts, weights)
        decayed = [p for p in self.model.parameters() if p.dim() == 2]
        others = [p for p in self.model.parameters() if p.dim() != 2]
        groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0}]
        self.optimizer = torch.optim.AdamW(groups, lr=arguments.rate, betas=(0.9, 0.95), eps=1e-8, foreach=True)
        self.forward = torch.compile(self.model) if arguments.compile else self.model

    def batch(self):
        seq, size, samples = self.facts["seq"], self.facts["global_batch"], (len(self.tokens) - 1) // self.facts["seq"]
        order = [sample_of(self.step * size + i, samples, self.facts["seed"]) for i in range(size)]
        rows = torch.from_numpy(np.array([self.tokens[n * seq:n * seq + seq + 1] for n in order]))
        return rows[:, :-1].contiguous(), rows[:, 1:].contiguous()

    def one_step(self):
        begin = time.perf_counter()
        inputs, labels = self.batch()
        loss = self.forward(inputs, labels)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.step += 1
        print(f"{loss.item():.9g} {time.perf_counter() - begin:.6f}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--width", type=int, default=1, help="bytes of a token")
    parser.add_argument("checkpoint")
    parser.add_argument("data")
    parser.add_argument("steps", type=int)
    parser.add_argument("rate", type=float)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    run = Run(arguments)
    for count in [arguments.steps] if arguments.steps else map(int, sys.stdin):
        for _ in range(count):
            run.one_step()
        if not arguments.steps:
            print(flush=True)


main()
