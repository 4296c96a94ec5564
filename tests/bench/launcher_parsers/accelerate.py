# SPDX-License-Identifier: GPL-2.0-or-later
"""accelerate: `accelerate launch`, its parser and checks, the environment that it gives the ranks, and the FSDP plugin
that Accelerator makes of that environment in each. The script's own batch is not its business."""
import enum
import importlib
import importlib.metadata
import os
import re

from . import stubs

STUBBED = ("torch", "numpy", "psutil", "yaml", "huggingface_hub", "safetensors", "tqdm")


class ShardingStrategy(enum.Enum):
    """torch.distributed.fsdp's."""

    FULL_SHARD = 1
    SHARD_GRAD_OP = 2
    NO_SHARD = 3
    HYBRID_SHARD = 4
    _HYBRID_SHARD_ZERO2 = 5


ZERO = {ShardingStrategy.FULL_SHARD: 3, ShardingStrategy.SHARD_GRAD_OP: 2, ShardingStrategy.NO_SHARD: 0}


def version(directory):
    text = open(os.path.join(directory, "src/accelerate/__init__.py"), encoding="utf-8").read()
    return re.search(r'__version__ = "(\d+\.\d+\.\d+)', text)[1]


class Checker:
    observes = ("world", "nodes", "per_node", "pp", "dp", "tp", "cp", "ep", "vpp", "recompute", "zero",
                "sequence_parallel", "precision", "wrapped")

    def __init__(self, directory):
        stubs.install(os.path.join(directory, "src"), STUBBED)
        stubs.put("torch.__version__", "2.9.0")
        stubs.put("torch.distributed.fsdp.ShardingStrategy", ShardingStrategy)
        stubs.put("torch.cuda.is_available", lambda: True)
        stubs.put("torch.cuda.device_count", lambda: 8)
        stubs.put("torch.distributed.is_available", lambda: True)
        importlib.metadata.version = lambda name: {"torch": "2.9.0"}.get(name, "9.9.9")
        from accelerate.commands import launch
        from accelerate.utils import FullyShardedDataParallelPlugin, launch as environment

        for name in ("torch.xpu.is_available", "torch.mps.is_available", "torch.backends.mps.is_available"):
            stubs.put(name, lambda: False)
        for module in (launch, environment, importlib.import_module("accelerate.utils.dataclasses")):
            for name in dir(module):
                if re.fullmatch(r"is_\w+_available", name):  # other makers' devices, other libraries
                    setattr(module, name, lambda *_, yes=name == "is_cuda_available", **__: yes)
        environment.is_port_in_use = lambda *_: False
        self.launch, self.environment, self.plugin = launch, environment, FullyShardedDataParallelPlugin
        self.before = dict(os.environ)

    def expected(self, plan):
        return {**plan.expected(), "nodes": plan.nodes, "per_node": plan.per_node, "wrapped": True}

    def run(self, plan, words):
        os.environ.clear()
        os.environ.update(self.before)
        args = self.launch.launch_command_parser().parse_args([*words, "train.py"])
        validate = getattr(self.launch, "_validate_launch_command", None) or self.launch._validate_launch_args
        args = validate(args)[0]
        if not (args.multi_gpu or args.use_fsdp or args.num_processes == 1):
            raise ValueError(f"{args.num_processes} processes, but neither --multi_gpu nor --use_fsdp")
        os.environ.update(self.environment.prepare_multi_gpu_env(args))
        meeting = args.rdzv_endpoint if args.num_machines > 1 else f"n1:{args.master_port}"
        if args.rdzv_backend != "static" or not re.fullmatch(r"n1:2\d{4}", meeting):  # c10d meets at 29400 on one node
            raise ValueError(f"rendezvous by {args.rdzv_backend} at {meeting!r}")
        sharding, checkpointing, wrapped = 0, False, True
        if os.environ.get("ACCELERATE_USE_FSDP") == "true":
            plugin = self.plugin()
            sharding, checkpointing = zero(plugin), plugin.activation_checkpointing
            if getattr(plugin, "fsdp_version", 1) == 1 and plan.model.adapters and not plugin.use_orig_params:
                raise ValueError("frozen and trained weights in a unit of FSDP 1 without use_orig_params")
            wrapped = getattr(plugin, "auto_wrap_policy", None) is not None
        nodes = args.num_machines
        return {
            "world": args.num_processes, "nodes": nodes, "per_node": args.num_processes // nodes, "pp": 1,
            "dp": args.num_processes, "tp": 1, "cp": 1, "ep": 1, "vpp": 1, "zero": sharding,
            "recompute": "full" if checkpointing else "none", "sequence_parallel": False,
            "precision": {"no": "fp32"}.get(os.environ["ACCELERATE_MIXED_PRECISION"],
                                            os.environ["ACCELERATE_MIXED_PRECISION"]),
            "wrapped": wrapped,
        }


def zero(plugin):
    if getattr(plugin, "fsdp_version", 1) == 2:
        return 3 if plugin.reshard_after_forward else 2
    strategy = plugin.sharding_strategy or plugin.reshard_after_forward
    if strategy not in ZERO:
        raise ValueError(f"{strategy} shards over part of the ranks")
    return ZERO[strategy]
