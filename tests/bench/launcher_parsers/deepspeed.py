# SPDX-License-Identifier: GPL-2.0-or-later
"""Plain DeepSpeed: its DeepSpeedConfig, with its assertions, on a user's JSON into which the words were put."""
import importlib
import json
import os

from . import pydantic_shim, stubs

STUBBED = ("torch", "numpy", "hjson", "cpuinfo", "psutil", "tqdm", "deepspeed.ops", "deepspeed.comm",
           "deepspeed.accelerator", "deepspeed.git_version_info", "deepspeed.utils",
           "deepspeed.runtime.compiler", "deepspeed.compile", "deepspeed.runtime.tensor_parallel.config")
HOLLOW = ("deepspeed", "deepspeed.runtime", "deepspeed.runtime.zero", "deepspeed.comm", "deepspeed.monitor",
          "deepspeed.inference", "deepspeed.profiling", "deepspeed.autotuning", "deepspeed.nebula",
          "deepspeed.runtime.fp16", "deepspeed.runtime.activation_checkpointing", "deepspeed.runtime.tensor_parallel",
          "deepspeed.compression", "deepspeed.runtime.swap_tensor")
# What a user may have written before: other sizes, another stage.
USERS = {"train_batch_size": 7, "train_micro_batch_size_per_gpu": 7, "gradient_accumulation_steps": 1,
         "zero_optimization": {"stage": 3}, "bf16": {"enabled": False}, "fp16": {"enabled": False},
         "gradient_clipping": 1.0}


def version(directory):
    return open(os.path.join(directory, "version.txt"), encoding="utf-8").read().strip()


def put_words(config, words):
    """What deepspeed.sh does with KEY=VALUE."""
    for word in words:
        key, _, value = word.partition("=")
        *path, last = key.split(".")
        inner = config
        for part in path:
            inner = inner.setdefault(part, {})
        inner[last] = json.loads(value)
    return config


def load(directory):
    """DeepSpeedConfig and the module it is in."""
    pydantic_shim.install()
    stubs.install(directory, STUBBED, HOLLOW)
    stubs.put("torch.__version__", "2.5.0")
    stubs.put("torch.version.cuda", "12.4")
    stubs.dtypes()
    return importlib.import_module("deepspeed.runtime.config")


class Checker:
    observes = ("world", "pp", "dp", "tp", "cp", "ep", "vpp", "micro_batch", "num_micro_batches", "global_batch",
                "zero", "precision", "sequence_parallel")

    def __init__(self, directory):
        self.config = load(directory)

    def run(self, plan, words):
        world = plan.gpus
        self.config.dist.get_world_size = lambda *_: world
        self.config.dist.get_rank = lambda *_: 0
        got = self.config.DeepSpeedConfig(put_words(json.loads(json.dumps(USERS)), words))
        return facts(got, world)


def facts(got, world):
    return {
        "world": world, "pp": 1, "dp": got.world_size, "tp": 1, "cp": 1, "ep": 1, "vpp": 1,
        "micro_batch": got.train_micro_batch_size_per_gpu, "num_micro_batches": got.gradient_accumulation_steps,
        "global_batch": got.train_batch_size, "zero": int(got.zero_optimization_stage) if got.zero_enabled else 0,
        "precision": precision(got), "sequence_parallel": False,
    }


def precision(got):
    def on(name):
        old = getattr(got, f"{name}_enabled", None)
        if old is None or callable(old):
            section = getattr(got, f"{name}_config", None) or getattr(got, name, None)
            old = getattr(section, "enabled", False)
        return bool(old)

    return "bf16" if on("bfloat16") or on("bf16") else "fp16" if on("float16") or on("fp16") else "fp32"
