# SPDX-License-Identifier: GPL-2.0-or-later
"""Megatron-DeepSpeed: its parse_args and validate_args, its count of micro-batches, and of the DeepSpeed that PYTHONPATH
names the deal of layers over stages and what its pipeline engine refuses. Versions are DeepSpeed's."""
import argparse
import ast
import importlib
import os
import sys

from . import stubs
from .plans import FACTS


STUBBED = ("torch", "numpy", "deepspeed", "megatron.core", "megatron.model", "megatron.data", "megatron.text_generation",
           "megatron.fused_kernels", "megatron.training", "megatron.initialize", "megatron.tokenizer", "tools", "regex",
           "einops", "six", "transformers", "megatron.optimizer", "megatron.checkpointing",
           "megatron.dist_signal_handler")


def version(directory):
    for path in sys.path:
        file = os.path.join(path, "version.txt")
        if os.path.isdir(os.path.join(path, "deepspeed")) and os.path.exists(file):
            return open(file, encoding="utf-8").read().strip()
    raise SystemExit("launcher-parsers: PYTHONPATH names no checkout of DeepSpeed beside Megatron-DeepSpeed")


def functions_of(path, names, scope):
    """The functions `names` of a file, and nothing else of it."""
    tree = ast.parse(open(path, encoding="utf-8").read())
    tree.body = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in names]
    exec(compile(tree, path, "exec"), scope)  # pylint: disable=exec-used
    return [scope[name] for name in names]


def whole_stages(weights, parts):
    """Sizes in layers of weight 1 of what partition_balanced returned."""
    return [sum(weights[a:b]) for a, b in zip(parts, parts[1:])]


class Checker:
    observes = FACTS[:-1]  # no experts

    def __init__(self, directory):
        of_deepspeed = next(path for path in sys.path if os.path.isdir(os.path.join(path, "deepspeed")))
        stubs.install(directory, STUBBED)
        stubs.dtypes()
        stubs.put("torch.__version__", "2.5.0")
        stubs.put("tools.retro.utils.get_args_path", lambda *_: "")
        import deepspeed

        deepspeed.__version__ = version(directory)
        _, config = functions_of(os.path.join(of_deepspeed, "deepspeed/__init__.py"),
                                   ["_add_core_arguments", "add_config_arguments"], {"argparse": argparse})
        deepspeed.add_config_arguments = config
        deepspeed.accelerator.get_accelerator = lambda: type("Cuda", (), {"device_name": staticmethod(lambda: "cuda")})
        os.environ["CUDA_DEVICE_MAX_CONNECTIONS"] = "1"
        self.balanced = balanced(of_deepspeed)
        self.arguments = importlib.import_module("megatron.arguments")
        self.micro_batches = importlib.import_module("megatron.microbatches")

    def cannot_train(self, model):
        return "no such experts" if model.experts else ""

    def run(self, plan, words):
        os.environ.update(RANK="0", WORLD_SIZE=str(plan.gpus), LOCAL_RANK="0")
        sys.argv = ["pretrain_gpt.py", *model_arguments(plan.model), *words]
        args = self.arguments.validate_args(self.arguments.parse_args())
        calculator = self.micro_batches.ConstantNumMicroBatches(args.global_batch_size, args.micro_batch_size,
                                                                args.data_parallel_size)
        stages = args.pipeline_model_parallel_size
        heads = plan.model.kv_heads
        if plan.model.heads % args.tensor_model_parallel_size or heads % args.tensor_model_parallel_size:
            raise ValueError(f"{heads} key-value heads are not divisible by {args.tensor_model_parallel_size}")
        if args.ds_pipeline_enabled and args.zero_stage > 1:  # deepspeed/runtime/pipe/engine.py
            raise AssertionError("ZeRO-2 and ZeRO-3 are incompatible with pipeline parallelism")
        weights = [0] + [1] * args.num_layers + [0, 0]  # embedding, layers, norm, head
        return {
            "world": args.world_size, "pp": stages, "dp": args.data_parallel_size, "tp": args.tensor_model_parallel_size,
            "cp": args.ds_sequence_parallel_size, "ep": 1, "vpp": args.virtual_pipeline_model_parallel_size or 1,
            "micro_batch": args.micro_batch_size, "num_micro_batches": calculator.get(),
            "global_batch": args.global_batch_size,
            "recompute": recompute(args), "zero": int(args.zero_stage), "sequence_parallel": bool(args.sequence_parallel),
            "stage_layers": whole_stages(weights, self.balanced(weights, stages)) if stages > 1 else [args.num_layers],
            "precision": "bf16" if args.bf16 else "fp16" if args.fp16 else "fp32",
            "schedule": "1f1b", "shared_by": args.data_parallel_size,
        }


def recompute(args):
    if args.deepspeed_activation_checkpointing and args.checkpoint_activations:
        return "full" if getattr(args, "checkpoint_num_layers", 1) == 1 else "full, in groups"
    return args.recompute_granularity or "none"


def balanced(of_deepspeed):
    """DeepSpeed's partition_balanced."""
    path = os.path.join(of_deepspeed, "deepspeed/runtime/utils.py")
    body = ast.parse(open(path, encoding="utf-8").read()).body
    tree = {node.name for node in body if isinstance(node, ast.FunctionDef)}
    wanted = [name for name in ("partition_uniform", "prefix_sum_inc", "_lprobe", "_rb_partition_balanced",
                                "partition_balanced") if name in tree]
    scope = {"bisect_left": __import__("bisect").bisect_left}
    stubs_numpy = sys.modules.setdefault("numpy", stubs.StubModule("numpy"))
    _numbers(stubs_numpy)
    return functions_of(path, wanted, scope)[-1]


class Table:
    """numpy's arrays of one and two dimensions, as far as partition_balanced goes."""

    def __init__(self, shape, value):
        self.width = shape[1] if isinstance(shape, tuple) and len(shape) > 1 else 1
        count = shape[0] * self.width if isinstance(shape, tuple) else shape
        self.cells = [value] * count

    def at(self, key):
        return key[0] * self.width + key[1] if isinstance(key, tuple) else key

    def __getitem__(self, key):
        return self.cells[self.at(key)]

    def __setitem__(self, key, value):
        if isinstance(key, slice):
            self.cells[key] = list(value)
        else:
            self.cells[self.at(key)] = value


def _numbers(module):
    module.inf = float("inf")
    module.full = Table
    module.zeros = lambda shape, dtype=None: Table(shape, 0)

    def cumsum(values):
        total, out = 0, []
        for value in values:
            total += value
            out.append(total)
        return out

    module.cumsum = cumsum


def model_arguments(model):
    words = ["--num-layers", model.layers, "--hidden-size", model.hidden, "--num-attention-heads", model.heads,
             "--ffn-hidden-size", model.ffn_hidden, "--seq-length", model.seq_length, "--max-position-embeddings",
             model.seq_length, "--train-iters", 10, "--lr", "1e-4", "--tokenizer-type", "NullTokenizer", "--vocab-size",
             model.vocab, "--deepspeed", "--deepspeed_config", "ds_config.json"]
    if model.kv_heads != model.heads:
        words += ["--num-key-value-heads", model.kv_heads]
    if model.gated:
        words += ["--swiglu", "--normalization", "rmsnorm", "--use-rotary-position-embeddings", "--disable-bias-linear",
                  "--untie-embeddings-and-output-weights"]
    return [str(word) for word in words]
