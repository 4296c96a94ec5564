# SPDX-License-Identifier: GPL-2.0-or-later
"""Models of published shape, as people write them, for tests/t0052-describe-model.t. None is trained or downloaded."""
import os
import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint


def heads(x, n):
    return x.view(*x.shape[:-1], n, x.shape[-1] // n).transpose(1, 2)


def joined(x):
    return x.transpose(1, 2).flatten(2)


# ---- GPT-2: tied head, learned positions, a loss where it is given targets ----------------------------------------
class GptBlock(nn.Module):
    is_fused = True

    def __init__(self, d, n, p):
        super().__init__()
        self.n, self.ln_1, self.ln_2 = n, nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d), nn.Dropout(p))
        self.drop = nn.Dropout(p)

    def forward(self, x):
        q, k, v = (heads(t, self.n) for t in self.qkv(self.ln_1(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True) if self.is_fused else \
            (q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5).softmax(-1) @ v
        x = x + self.drop(self.proj(joined(y)))
        return x + self.mlp(self.ln_2(x))


class Gpt2(nn.Module):
    recomputes = False

    def __init__(self, vocab=50257, d=768, n=12, layers=12, positions=1024, p=0.1):
        super().__init__()
        self.wte, self.wpe, self.drop = nn.Embedding(vocab, d), nn.Embedding(positions, d), nn.Dropout(p)
        self.h = nn.ModuleList(GptBlock(d, n, p) for _ in range(layers))
        self.ln_f, self.head = nn.LayerNorm(d), nn.Linear(d, vocab, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, ids, targets=None):
        x = self.drop(self.wte(ids) + self.wpe(torch.arange(ids.shape[1], device=ids.device)))
        for block in self.h:
            x = checkpoint(block, x, use_reentrant=False) if self.recomputes else block(x)
        logits = self.head(self.ln_f(x))
        return logits if targets is None else F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


# ---- Llama 3: grouped queries, rotary positions, RMS norms, SwiGLU -------------------------------------------------
class RmsNorm(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d))

    def forward(self, x):
        wide = x.float()
        return self.weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype)


def rotated(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class LlamaBlock(nn.Module):
    def __init__(self, d, n, kv, ffn):
        super().__init__()
        self.n, self.kv = n, kv
        self.norm_1, self.norm_2 = RmsNorm(d), RmsNorm(d)
        self.q, self.k, self.v = (nn.Linear(d, d // n * h, bias=False) for h in (n, kv, kv))
        self.o = nn.Linear(d, d, bias=False)
        self.gate, self.up, self.down = nn.Linear(d, ffn, False), nn.Linear(d, ffn, False), nn.Linear(ffn, d, False)

    def forward(self, x, cos, sin):
        y = self.norm_1(x)
        q, k = rotated(heads(self.q(y), self.n), cos, sin), rotated(heads(self.k(y), self.kv), cos, sin)
        x = x + self.o(joined(F.scaled_dot_product_attention(q, k, heads(self.v(y), self.kv), is_causal=True, enable_gqa=True)))
        y = self.norm_2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self, vocab=128256, d=4096, n=32, kv=8, ffn=14336, layers=32):
        super().__init__()
        self.half = d // n // 2
        self.embed = nn.Embedding(vocab, d)
        self.layers = nn.ModuleList(LlamaBlock(d, n, kv, ffn) for _ in range(layers))
        self.norm, self.head = RmsNorm(d), nn.Linear(d, vocab, bias=False)

    def forward(self, ids, targets=None):
        x = self.embed(ids)
        angles = torch.outer(torch.arange(ids.shape[1]), 5e5 ** (-torch.arange(self.half) / self.half))
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        for layer in self.layers:
            x = layer(x, cos, sin)
        logits = self.head(self.norm(x))
        return logits if targets is None else F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


# ---- BERT-large with its pooler, of torch's own encoder layers -----------------------------------------------------
class Bert(nn.Module):
    def __init__(self, vocab=30522, d=1024, n=16, layers=24, positions=512):
        super().__init__()
        self.words, self.positions, self.types = nn.Embedding(vocab, d), nn.Embedding(positions, d), nn.Embedding(2, d)
        self.norm, self.drop = nn.LayerNorm(d), nn.Dropout(0.1)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(d, n, 4 * d, 0.1, "gelu", batch_first=True), layers)
        self.pooler = nn.Linear(d, d)

    def forward(self, ids, types):
        x = self.words(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device)) + self.types(types)
        x = self.encoder(self.drop(self.norm(x)))
        return x, torch.tanh(self.pooler(x[:, 0]))


# ---- ViT-B/16: drop rates from linspace, a class token -------------------------------------------------------------
class VitBlock(nn.Module):
    def __init__(self, d, n, rate):
        super().__init__()
        self.n, self.rate, self.norm1, self.norm2 = n, rate, nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.fc1, self.fc2 = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        q, k, v = (heads(t, self.n) for t in self.qkv(self.norm1(x)).chunk(3, -1))
        x = x + self.proj(joined(F.scaled_dot_product_attention(q, k, v)))
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


class Vit(nn.Module):
    def __init__(self, d=768, n=12, layers=12, patch=16, image=224, classes=1000):
        super().__init__()
        self.patch = nn.Conv2d(3, d, patch, patch)
        self.cls = nn.Parameter(torch.zeros(1, 1, d))
        self.pos = nn.Parameter(torch.zeros(1, (image // patch) ** 2 + 1, d))
        rates = [r.item() for r in torch.linspace(0, 0.1, layers)]
        self.blocks = nn.Sequential(*(VitBlock(d, n, rate) for rate in rates))
        self.norm, self.head = nn.LayerNorm(d), nn.Linear(d, classes)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(x.shape[0], -1, -1), x], 1) + self.pos
        return self.head(self.norm(self.blocks(x))[:, 0])


# ---- ResNet-50 (stride in the 3x3, as torchvision has it) ----------------------------------------------------------
class Bottleneck(nn.Module):
    def __init__(self, before, width, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(before, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = nn.Sequential(nn.Conv2d(before, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width)) \
            if stride > 1 or before != 4 * width else None

    def forward(self, x):
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn3(self.conv3(self.relu(self.bn2(self.conv2(y)))))
        y += x if self.downsample is None else self.downsample(x)
        return self.relu(y)


class ResNet(nn.Module):
    def __init__(self, blocks=(3, 4, 6, 3), classes=1000, width=64):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width)
        self.relu, self.maxpool, before = nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1), width
        for i, count in enumerate(blocks):
            layers = []
            for j in range(count):
                layers.append(Bottleneck(before, width << i, 2 if i and not j else 1))
                before = 4 * (width << i)
            setattr(self, f"layer{i + 1}", nn.Sequential(*layers))
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(before, classes)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


# ---- ConvNeXt-T: stages of blocks inside lists ---------------------------------------------------------------------
class ChannelsFirstNorm(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ConvNextBlock(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.dwconv, self.norm = nn.Conv2d(d, d, 7, padding=3, groups=d), nn.LayerNorm(d)
        self.up, self.act, self.down = nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d)
        self.gamma = nn.Parameter(torch.full((d,), 1e-6))

    def forward(self, x):
        y = self.norm(self.dwconv(x).permute(0, 2, 3, 1))
        return x + (self.gamma * self.down(self.act(self.up(y)))).permute(0, 3, 1, 2)


class ConvNext(nn.Module):
    def __init__(self, depths=(3, 3, 9, 3), widths=(96, 192, 384, 768), classes=1000):
        super().__init__()
        self.downs, self.stages = nn.ModuleList(), nn.ModuleList()
        for i, d in enumerate(widths):
            self.downs.append(nn.Sequential(ChannelsFirstNorm(widths[i - 1]), nn.Conv2d(widths[i - 1], d, 2, 2)) if i else
                              nn.Sequential(nn.Conv2d(3, d, 4, 4), ChannelsFirstNorm(d)))
            self.stages.append(nn.Sequential(*(ConvNextBlock(d) for _ in range(depths[i]))))
        self.norm, self.head = nn.LayerNorm(widths[-1]), nn.Linear(widths[-1], classes)

    def forward(self, x):
        for down, stage in zip(self.downs, self.stages):
            x = stage(down(x))
        return self.head(self.norm(x.mean([-2, -1])))


# ---- U-Net: tensors that skip layers -------------------------------------------------------------------------------
class DoubleConv(nn.Sequential):
    def __init__(self, before, after):
        super().__init__(nn.Conv2d(before, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU(True),
                         nn.Conv2d(after, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU(True))


class Up(nn.Module):
    def __init__(self, before, after):
        super().__init__()
        self.up, self.conv = nn.ConvTranspose2d(before, after, 2, 2), DoubleConv(before, after)

    def forward(self, x, skipped):
        return self.conv(torch.cat([skipped, self.up(x)], 1))


class UNet(nn.Module):
    def __init__(self, classes=2, width=64):
        super().__init__()
        self.inc = DoubleConv(3, width)
        self.downs = nn.ModuleList(nn.Sequential(nn.MaxPool2d(2), DoubleConv(width << i, width << i + 1)) for i in range(4))
        self.ups = nn.ModuleList(Up(width << i + 1, width << i) for i in reversed(range(4)))
        self.out = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        xs = [self.inc(x)]
        for down in self.downs:
            xs.append(down(xs[-1]))
        x = xs.pop()
        for up in self.ups:
            x = up(x, xs.pop())
        return self.out(x)


# ---- a language model of LSTMs (pytorch/examples) ------------------------------------------------------------------
class LstmLm(nn.Module):
    def __init__(self, vocab=33278, d=200, layers=2):
        super().__init__()
        self.encoder, self.rnn, self.decoder = nn.Embedding(vocab, d), nn.LSTM(d, d, layers), nn.Linear(d, vocab)

    def forward(self, ids):
        return self.decoder(self.rnn(self.encoder(ids))[0])


# ---- T5-base: an encoder's result and a bias go to every layer of the decoder --------------------------------------
class T5Attention(nn.Module):
    def __init__(self, d, n):
        super().__init__()
        self.n, self.q, self.k, self.v, self.o = n, *(nn.Linear(d, d, bias=False) for _ in range(4))

    def forward(self, x, memory, bias):
        scores = heads(self.q(x), self.n) @ heads(self.k(memory), self.n).transpose(-1, -2)
        weights = F.dropout((scores if bias is None else scores + bias).softmax(-1), 0.1, self.training)
        return self.o(joined(weights @ heads(self.v(memory), self.n)))


class T5Block(nn.Module):
    def __init__(self, d, n, ffn, is_decoder):
        super().__init__()
        self.norms = nn.ParameterList(nn.Parameter(torch.ones(d)) for _ in range(3 if is_decoder else 2))
        self.own, self.cross = T5Attention(d, n), T5Attention(d, n) if is_decoder else None
        self.wi, self.wo = nn.Linear(d, ffn, False), nn.Linear(ffn, d, False)

    @staticmethod
    def norm(x, weight):
        return weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)

    def forward(self, x, bias, memory=None):
        y = self.norm(x, self.norms[0])
        x = x + self.own(y, y, bias)
        if memory is not None:
            x = x + self.cross(self.norm(x, self.norms[1]), memory, None)
        return x + self.wo(F.relu(self.wi(self.norm(x, self.norms[-1]))))


class T5Stack(nn.Module):
    def __init__(self, d, n, ffn, layers, is_decoder):
        super().__init__()
        self.bias = nn.Embedding(32, n)
        self.block = nn.ModuleList(T5Block(d, n, ffn, is_decoder) for _ in range(layers))
        self.final = nn.Parameter(torch.ones(d))

    def forward(self, x, memory=None):
        at = torch.arange(x.shape[1])
        bias = self.bias((at[:, None] - at[None]).abs().clamp(max=31)).permute(2, 0, 1)[None]
        for block in self.block:
            x = block(x, bias, memory)
        return T5Block.norm(x, self.final)


class T5(nn.Module):
    def __init__(self, vocab=32128, d=768, n=12, ffn=3072, layers=12):
        super().__init__()
        self.shared = nn.Embedding(vocab, d)
        self.encoder, self.decoder = (T5Stack(d, n, ffn, layers, is_decoder) for is_decoder in (False, True))
        self.lm_head = nn.Linear(d, vocab, bias=False)
        self.lm_head.weight = self.shared.weight

    def forward(self, ids, decoder_ids):
        return self.lm_head(self.decoder(self.shared(decoder_ids), self.encoder(self.shared(ids))))


# ---- Mamba-130M: a scan over the sequence --------------------------------------------------------------------------
class MambaBlock(nn.Module):
    def __init__(self, d, inner, state=16, rank=48):
        super().__init__()
        self.state, self.rank, self.norm, self.in_proj = state, rank, RmsNorm(d), nn.Linear(d, 2 * inner, bias=False)
        self.conv = nn.Conv1d(inner, inner, 4, groups=inner, padding=3)
        self.x_proj, self.dt_proj = nn.Linear(inner, rank + 2 * state, bias=False), nn.Linear(rank, inner)
        self.A_log = nn.Parameter(torch.log(torch.arange(1, state + 1).float()).repeat(inner, 1))
        self.D, self.out_proj = nn.Parameter(torch.ones(inner)), nn.Linear(inner, d, bias=False)

    def forward(self, x):
        u, gate = self.in_proj(self.norm(x)).chunk(2, -1)
        u = F.silu(self.conv(u.transpose(1, 2))[..., :x.shape[1]].transpose(1, 2))
        dt, B, C = self.x_proj(u).split([self.rank, self.state, self.state], -1)
        dt, A = F.softplus(self.dt_proj(dt)), -torch.exp(self.A_log)
        decay, fed = torch.exp(dt[..., None] * A), dt[..., None] * B[:, :, None] * u[..., None]
        h, ys = torch.zeros_like(fed[:, 0]), []
        for t in range(x.shape[1]):
            h = decay[:, t] * h + fed[:, t]
            ys.append((h * C[:, t, None]).sum(-1))
        return x + self.out_proj((torch.stack(ys, 1) + u * self.D) * F.silu(gate))


class Mamba(nn.Module):
    def __init__(self, vocab=50280, d=768, layers=24):
        super().__init__()
        self.embed = nn.Embedding(vocab, d)
        self.layers = nn.ModuleList(MambaBlock(d, 2 * d) for _ in range(layers))
        self.norm, self.head = RmsNorm(d), nn.Linear(d, vocab, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


# ---- experts: by capacity, whose shapes depend on no data; and by nonzero, whose shapes do -------------------------
class Experts(nn.Module):
    def __init__(self, d, ffn, experts, looks):
        super().__init__()
        self.router, self.looks = nn.Linear(d, experts, bias=False), looks
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(d, ffn), nn.ReLU(), nn.Linear(ffn, d)) for _ in range(experts))

    def forward(self, x):
        flat = x.flatten(0, 1)
        best, index = self.router(flat).softmax(-1).max(-1)
        if self.looks:
            out = torch.zeros_like(flat)
            for i, expert in enumerate(self.experts):
                chosen = (index == i).nonzero().flatten()
                out = out.index_add(0, chosen, expert(flat[chosen]))
        else:
            slots = index.argsort().view(len(self.experts), -1)
            out = torch.stack([expert(flat[s]) for expert, s in zip(self.experts, slots)]).flatten(0, 1)
        return x + (out * best[:, None]).view_as(x)


def moe(d=64, ffn=256, experts=4, layers=3, looks=False):
    return nn.Sequential(nn.Linear(16, d), *(Experts(d, ffn, experts, looks) for _ in range(layers)))


# ---- what cannot be described, or says something -------------------------------------------------------------------
class Fft(nn.Module):
    def forward(self, x):
        return torch.fft.rfft(x.float()).abs().to(x.dtype)


class Sliced(nn.Module):
    """Of whose first layer the second reads an eighth."""
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(8, 64), nn.Linear(8, 8)])

    def forward(self, x):
        return self.layers[1](self.layers[0](x)[:, :8])


def frozen():
    model = Sliced()
    model.layers[0].requires_grad_(False)
    return model


class Mixed(nn.Module):
    """Constants that are not cast with the module."""
    def forward(self, x):
        return x @ torch.ones(8, 8)


class Branches(nn.Module):
    """Branches in a list, which do not run one after the other."""
    def __init__(self):
        super().__init__()
        self.branches, self.unused = nn.ModuleList(nn.Linear(8, 8) for _ in range(3)), nn.Linear(8, 8)

    def forward(self, x):
        return sum(branch(x) for branch in self.branches)


class Residuals(nn.Module):
    """Lists of lists; the sums are their parent's (lucidrains/vit-pytorch). It prints, as nanoGPT does."""
    def __init__(self, d=8, layers=3):
        super().__init__()
        self.layers = nn.ModuleList(nn.ModuleList([nn.Linear(d, d), nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))])
                                    for _ in range(layers))
        self.head = nn.Linear(d, 2)
        print("made")

    def forward(self, x):
        print("called", flush=True)
        os.write(1, b"as a library does")
        for mix, feed in self.layers:
            x = mix(x) + x
            x = feed(x) + x
        return self.head(x)


class SmallGpt(Gpt2):
    """Whose attention keeps its scores, so that the CPU keeps what is described."""
    def __init__(self, recomputes=False):
        super().__init__(vocab=512, d=64, n=4, layers=3, positions=64, p=0.0)
        self.recomputes = recomputes
        for block in self.h:
            block.is_fused = False


def small_resnet():
    return ResNet((1, 1, 1, 1), 10, 16)


def wrong():
    return 7
