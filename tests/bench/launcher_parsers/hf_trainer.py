# SPDX-License-Identifier: GPL-2.0-or-later
"""Hugging Face Trainer: TrainingArguments by its HfArgumentParser from a user's JSON into which the words were put, and the
FSDP plugin that the accelerate which PYTHONPATH names makes of them. What the Trainer does with them, in which micro-batches
it reduces gradients and where recompute is done, is its source's, read for the lines that decide it."""
import importlib
import importlib.metadata
import json
import os
import re
import tempfile

from . import stubs
from .accelerate import ShardingStrategy, zero
from .deepspeed import put_words

STUBBED = ("torch", "numpy", "huggingface_hub", "safetensors", "tqdm", "yaml", "psutil", "tokenizers", "requests", "filelock",
           "regex", "httpx", "typer", "transformers.dependency_versions_check", "transformers.utils.versions",
           "transformers.tokenization_utils_base")
HOLLOW = ("transformers",)
# What a user may have written before.
USERS = {"output_dir": "out", "learning_rate": 1e-5, "per_device_train_batch_size": 3, "gradient_accumulation_steps": 7,
         "gradient_checkpointing": True, "fsdp_config": {"transformer_layer_cls_to_wrap": ["LlamaDecoderLayer"]}}


def version(directory):
    text = open(os.path.join(directory, "src/transformers/__init__.py"), encoding="utf-8").read()
    return re.search(r'^__version__ = "(\d+\.\d+\.\d+)', text, re.M)[1]


class Checker:
    observes = ("world", "pp", "dp", "tp", "cp", "ep", "vpp", "recompute", "zero", "sequence_parallel", "precision",
                "micro_batch", "num_micro_batches", "global_batch", "whole_gradients")

    def __init__(self, directory):
        stubs.install(os.path.join(directory, "src"), STUBBED, HOLLOW)
        stubs.dtypes()
        stubs.put("torch.__version__", "2.9.0")
        for name in ("HF_HOME", "HF_HUB_CACHE", "ENDPOINT"):
            stubs.put(f"huggingface_hub.constants.{name}", "/nonexistent")
        stubs.put("torch.distributed.fsdp.ShardingStrategy", ShardingStrategy)
        for name in ("torch.cuda.is_available", "torch.distributed.is_available", "torch.cuda.is_bf16_supported"):
            stubs.put(name, lambda *_, **__: True)
        stubs.put("torch.cuda.device_count", lambda: 8)
        importlib.metadata.version = lambda name: "2.9.0" if name == "torch" else "99.0.0"
        for name in ("torch.xpu.is_available", "torch.mps.is_available", "torch.backends.mps.is_available"):
            stubs.put(name, lambda: False)
        self.arguments = importlib.import_module("transformers.training_args")
        self.parser = importlib.import_module("transformers.hf_argparser").HfArgumentParser
        for name in dir(self.arguments):
            if re.fullmatch(r"is_\w+_(available|enabled)", name):
                yes = name in ("is_accelerate_available", "is_torch_available", "is_torch_bf16_gpu_available",
                               "is_torch_cuda_available", "is_torch_tf32_available")
                setattr(self.arguments, name, lambda *_, yes=yes, **__: yes)
        plugins = importlib.import_module("accelerate.utils.dataclasses")
        self.plugin = plugins.FullyShardedDataParallelPlugin
        text = open(os.path.join(directory, "src/transformers/trainer.py"), encoding="utf-8").read()
        self.can_sync_each = '"sync_each_batch", False' in text
        self.before = dict(os.environ)

    def expected(self, plan):
        # whole gradients in every rank while micro-batches add up are none of ZeRO 2 and 3
        return {**plan.expected(), "whole_gradients": plan.zero < 2 and plan.num_micro_batches > 1 and plan.dp > 1}

    def run(self, plan, words):
        os.environ.clear()
        os.environ.update(self.before, WORLD_SIZE=str(plan.gpus), RANK="0", LOCAL_RANK="0")
        self.arguments.TrainingArguments.device = property(lambda _: "cuda:0")
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(put_words(json.loads(json.dumps(USERS)), words), file)
            file.flush()
            args = self.parser(self.arguments.TrainingArguments).parse_json_file(file.name)[0]
        sharding, checkpointing = self._sharding(args)
        if checkpointing and args.gradient_checkpointing:
            raise ValueError("activation_checkpointing and gradient_checkpointing can't be set to True simultaneously")
        nmb, mb = args.gradient_accumulation_steps, args.per_device_train_batch_size
        if args.accelerator_config.split_batches:
            raise ValueError("split_batches: the batch is not per device")
        sync_each = (args.accelerator_config.gradient_accumulation_kwargs or {}).get("sync_each_batch", False)
        return {
            "world": plan.gpus, "pp": 1, "dp": plan.gpus, "tp": 1, "cp": 1, "ep": 1, "vpp": 1, "zero": sharding,
            "recompute": "full" if checkpointing or args.gradient_checkpointing else "none",
            "sequence_parallel": False, "micro_batch": mb, "num_micro_batches": nmb, "global_batch": mb * nmb * plan.gpus,
            "precision": "bf16" if args.bf16 else "fp16" if args.fp16 else "tf32" if args.tf32 else "fp32",
            "whole_gradients": nmb > 1 and plan.gpus > 1 and not (sync_each and self.can_sync_each),
        }

    def _sharding(self, args):
        """(ZeRO stage, recompute of FSDP)"""
        made = getattr(args, "fsdp_plugin_args", None)
        if made:
            plugin = self.plugin(**made)
            return zero(plugin), bool(plugin.activation_checkpointing)
        if made is None and hasattr(args, "fsdp_plugin_args") or os.environ.get("ACCELERATE_USE_FSDP") != "true":
            return 0, False
        plugin = self.plugin()
        if getattr(plugin, "auto_wrap_policy", None) is None:
            raise ValueError("one unit of FSDP: the layers are not wrapped")
        return zero(plugin), bool(args.fsdp_config.get("activation_checkpointing", plugin.activation_checkpointing))
