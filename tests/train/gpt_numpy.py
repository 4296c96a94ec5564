#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""A GPT trained with NumPy in fp64, written from the formulas and not from train/: what arena-train's losses
are held against. Starts from the weights of a checkpoint of arena-train and prints one loss per step.

usage: gpt_numpy.py CHECKPOINT DATA STEPS LEARNING_RATE
"""
import json
import struct
import sys

import numpy as np

MASK = (1 << 64) - 1


def read_checkpoint(path):
    """Facts and weights by name (shapes from the facts)."""
    data = open(path, "rb").read()
    assert data[:16] == b"ARENA-CHECKPOINT" and data[-16:] == b"CHECKPOINT-ARENA"
    length = struct.unpack("<Q", data[-32:-24])[0]
    footer = json.loads(data[-32 - length:-32])
    weights = {}
    for array in footer["arrays"]:
        name, part = array["name"].rsplit("/", 1)
        if part == "weights":
            weights[name] = np.frombuffer(data, "<f4", array["size"], array["offset"]).astype(np.float64)
    h, f = footer["hidden"], footer["ffn"]
    shapes = {"c_attn.weight": (3 * h, h), "attn.c_proj.weight": (h, h), "c_fc.weight": (f, h), "mlp.c_proj.weight": (h, f),
              "wte.weight": (-1, h), "wpe.weight": (-1, h), "lm_head.weight": (-1, h)}
    for name in weights:
        for suffix, shape in shapes.items():
            if name.endswith(suffix):
                weights[name] = weights[name].reshape(shape)
    return footer, weights


def mix(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def sample_of(n, samples, seed):
    """The manual's order of samples: a Feistel network of four rounds, walked into the range."""
    key, bits = mix(seed ^ mix(n // samples)), 1
    while 1 << 2 * bits < samples:
        bits += 1
    x, mask = n % samples, (1 << bits) - 1
    while True:
        left, right = x >> bits, x & mask
        for r in range(4):
            left, right = right, left ^ mix(((key + r * 0x9E3779B97F4A7C15) & MASK) ^ mix(right)) & mask
        x = left << bits | right
        if x < samples:
            return x


def layer_norm(x, weight, bias):
    center = x - x.mean(-1, keepdims=True)
    inverse = 1 / np.sqrt((center ** 2).mean(-1, keepdims=True) + 1e-5)
    return center * inverse * weight + bias, (center * inverse, inverse, weight)


def layer_norm_back(dy, saved):
    normal, inverse, weight = saved
    d = dy * weight
    dx = inverse * (d - d.mean(-1, keepdims=True) - normal * (d * normal).mean(-1, keepdims=True))
    return dx, (dy * normal).sum((0, 1)), dy.sum((0, 1))


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)))


def gelu_slope(x):
    t = np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3))
    return 0.5 * (1 + t) + 0.5 * x * (1 - t ** 2) * np.sqrt(2 / np.pi) * (1 + 3 * 0.044715 * x ** 2)


def heads_of(x, heads):
    b, s, h = x.shape
    return x.reshape(b, s, heads, h // heads).transpose(0, 2, 1, 3)


def rows_of(x):
    b, n, s, d = x.shape
    return x.transpose(0, 2, 1, 3).reshape(b, s, n * d)


def block(x, w, p, heads):
    a, norm_1 = layer_norm(x, w[p + "ln_1.weight"], w[p + "ln_1.bias"])
    q, k, v = (heads_of(part, heads) for part in
               np.split(a @ w[p + "attn.c_attn.weight"].T + w[p + "attn.c_attn.bias"], 3, axis=-1))
    scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(q.shape[-1])
    scores = np.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -np.inf)
    prob = np.exp(scores - scores.max(-1, keepdims=True))
    prob /= prob.sum(-1, keepdims=True)
    context = rows_of(prob @ v)
    middle = x + context @ w[p + "attn.c_proj.weight"].T + w[p + "attn.c_proj.bias"]
    c, norm_2 = layer_norm(middle, w[p + "ln_2.weight"], w[p + "ln_2.bias"])
    up = c @ w[p + "mlp.c_fc.weight"].T + w[p + "mlp.c_fc.bias"]
    y = middle + gelu(up) @ w[p + "mlp.c_proj.weight"].T + w[p + "mlp.c_proj.bias"]
    return y, (a, norm_1, q, k, v, prob, context, c, norm_2, up)


def linear_back(name, dy, x, w, g):
    g[name + ".weight"] = np.einsum("bso,bsi->oi", dy, x)
    g[name + ".bias"] = dy.sum((0, 1))
    return dy @ w[name + ".weight"]


def block_back(dy, saved, w, g, p, heads):
    a, norm_1, q, k, v, prob, context, c, norm_2, up = saved
    d_up = linear_back(p + "mlp.c_proj", dy, gelu(up), w, g) * gelu_slope(up)
    d, g[p + "ln_2.weight"], g[p + "ln_2.bias"] = layer_norm_back(linear_back(p + "mlp.c_fc", d_up, c, w, g), norm_2)
    dy = dy + d
    d_context = heads_of(linear_back(p + "attn.c_proj", dy, context, w, g), heads)
    d_prob = d_context @ v.transpose(0, 1, 3, 2)
    d_scores = prob * (d_prob - (d_prob * prob).sum(-1, keepdims=True)) / np.sqrt(q.shape[-1])
    d_qkv = np.concatenate([rows_of(d_scores @ k), rows_of(d_scores.transpose(0, 1, 3, 2) @ q),
                            rows_of(prob.transpose(0, 1, 3, 2) @ d_context)], axis=-1)
    d, g[p + "ln_1.weight"], g[p + "ln_1.bias"] = layer_norm_back(linear_back(p + "attn.c_attn", d_qkv, a, w, g), norm_1)
    return dy + d


def loss_and_gradients(facts, w, inputs, labels):
    x = w["wte.weight"][inputs] + w["wpe.weight"]
    saved, g = [], {}
    for layer in range(facts["layers"]):
        x, state = block(x, w, f"h.{layer}.", facts["heads"])
        saved.append(state)
    out, norm = layer_norm(x, w["ln_f.weight"], w["ln_f.bias"])
    head = "wte.weight" if facts["tied"] else "lm_head.weight"
    logits = out @ w[head].T
    prob = np.exp(logits - logits.max(-1, keepdims=True))
    prob /= prob.sum(-1, keepdims=True)
    picked = np.take_along_axis(prob, labels[..., None], -1)
    loss = -np.log(picked).mean()
    d = prob / labels.size
    np.put_along_axis(d, labels[..., None], np.take_along_axis(d, labels[..., None], -1) - 1 / labels.size, -1)
    g[head] = np.einsum("bsv,bsh->vh", d, out)
    d, g["ln_f.weight"], g["ln_f.bias"] = layer_norm_back(d @ w[head], norm)
    for layer in reversed(range(facts["layers"])):
        d = block_back(d, saved[layer], w, g, f"h.{layer}.", facts["heads"])
    table = np.zeros_like(w["wte.weight"])
    np.add.at(table, inputs, d)
    g["wte.weight"] = g.get("wte.weight", 0) + table
    g["wpe.weight"] = d.sum(0)
    return loss, g


def adamw(w, g, moments, step, rate):
    """Weight decay on matrices alone, gradients clipped to norm 1."""
    norm = np.sqrt(sum((value ** 2).sum() for value in g.values()))
    factor = min(1, 1 / norm)
    for name, value in g.items():
        m, v = moments.setdefault(name, (0, 0))
        value = value * factor
        m, v = 0.9 * m + 0.1 * value, 0.95 * v + 0.05 * value ** 2
        moments[name] = m, v
        decay = 0.1 if w[name].ndim == 2 else 0
        w[name] = w[name] * (1 - rate * decay) - rate * (m / (1 - 0.9 ** step)) / (np.sqrt(v / (1 - 0.95 ** step)) + 1e-8)


def main():
    facts, w = read_checkpoint(sys.argv[1])
    tokens = np.fromfile(sys.argv[2], np.uint8).astype(np.int64)
    steps, rate = int(sys.argv[3]), float(sys.argv[4])
    seq, batch, moments = facts["seq"], facts["global_batch"], {}
    samples = (len(tokens) - 1) // seq
    for step in range(steps):
        order = [sample_of(step * batch + i, samples, facts["seed"]) for i in range(batch)]
        rows = np.array([tokens[n * seq:n * seq + seq + 1] for n in order])
        loss, g = loss_and_gradients(facts, w, rows[:, :-1], rows[:, 1:])
        adamw(w, g, moments, step + 1, rate)
        print(f"{loss:.9g}")


if __name__ == "__main__":
    main()
