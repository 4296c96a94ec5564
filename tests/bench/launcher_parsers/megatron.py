# SPDX-License-Identifier: GPL-2.0-or-later
"""Megatron-LM: its parse_args and validate_args, TransformerConfig, initialize_model_parallel, the layers that each
stage builds, and the schedule up to the first forward step, for a world as large as the plan's."""
import argparse
import inspect
import math
import os
import re
import sys

from . import stubs
from .plans import FACTS

STUBBED = ("torch", "numpy", "regex", "einops", "pydantic", "requests", "yaml", "sentencepiece", "transformers", "tqdm",
           "six", "transformer_engine", "megatron.rl", "megatron.core.inference", "megatron.core.ssm",
           "megatron.training.tokenizer", "megatron.core.tokenizers",
           "megatron.core.transformer.custom_layers.batch_invariant_kernels",
           "megatron.core.transformer.moe.paged_stash", "megatron.core.transformer.moe.ops")


def version(directory):
    text = open(os.path.join(directory, "megatron/core/package_info.py"), encoding="utf-8").read()
    return ".".join(re.search(rf"^{part} = (\d+)", text, re.M)[1] for part in ("MAJOR", "MINOR", "PATCH"))


class Group:
    def __init__(self, ranks):
        self.ranks = list(ranks)

    def size(self):
        return len(self.ranks)

    def rank(self):
        return self.ranks.index(0) if 0 in self.ranks else 0


def _distributed(world):
    """torch.distributed as rank 0 of `world` sees it after init_process_group."""
    stubs.put("torch.distributed.is_initialized", lambda: world > 0)
    stubs.put("torch.distributed.is_available", lambda: True)
    stubs.put("torch.distributed.new_group", lambda ranks=None, **_: Group(ranks if ranks is not None else range(world)))
    stubs.put("torch.distributed.get_world_size", lambda group=None: group.size() if group else world)
    stubs.put("torch.distributed.get_rank", lambda group=None: group.rank() if group else 0)
    stubs.put("torch.distributed.get_process_group_ranks", lambda group: group.ranks)
    stubs.put("torch.distributed.get_backend", lambda group=None: "nccl")


class Rows(list):
    """numpy's array of ranks, as far as groups inside groups are made of it."""

    def tolist(self):
        return list(self)


def groups_of_groups():
    """numpy and einops for "(l s u) -> (l u) s"."""
    stubs.put("numpy.array", lambda values, *_, **__: Rows(values))
    stubs.put("numpy.prod", math.prod)
    stubs.put("einops.rearrange", lambda ranks, _pattern, u, s, l: Rows(
        [ranks[(i * s + j) * u + k] for j in range(s)] for i in range(l) for k in range(u)))


def options_of(arguments):
    """The options of its parser, some of which are made from the fields of a dataclass; of old releases the text."""
    if not hasattr(arguments, "add_megatron_arguments"):
        return inspect.getsource(arguments)
    return arguments.add_megatron_arguments(argparse.ArgumentParser())._option_string_actions


class Checker:
    observes = FACTS

    def __init__(self, directory):
        stubs.install(directory, STUBBED)
        _distributed(0)
        groups_of_groups()
        stubs.put("torch.cuda.get_device_properties", lambda *_: type("H100", (), {"major": 9, "minor": 0}))
        stubs.put("torch.cuda.get_device_capability", lambda *_: (9, 0))
        stubs.put("torch.cuda.is_available", lambda: True)
        os.environ["CUDA_DEVICE_MAX_CONNECTIONS"] = "1"  # the launcher's script sets it
        from megatron.core import num_microbatches_calculator, parallel_state
        from megatron.core.pipeline_parallel import schedules
        from megatron.core.transformer import transformer_block
        from megatron.training import arguments

        self.arguments, self.mpu, self.schedules = arguments, parallel_state, schedules
        self.block, self.calculator = transformer_block, num_microbatches_calculator
        self.has_mla = "--multi-latent-attention" in options_of(arguments)
        self._keep_parsers()
        self.config_of = getattr(arguments, "core_transformer_config_from_args", None)
        if self.config_of is None:
            from megatron.training import argument_utils

            self.config_of = argument_utils.core_transformer_config_from_args

    def _keep_parsers(self):
        """One parser for each size of world: from 0.16 on making one takes seconds, for its help is read from source."""
        made, parsers = getattr(self.arguments, "add_megatron_arguments", None), {}
        if made is not None:
            def kept(parser):
                world = os.environ["WORLD_SIZE"]
                if world not in parsers:
                    parsers[world] = made(parser)
                return parsers[world]

            self.arguments.add_megatron_arguments = kept

    def cannot_train(self, model):
        return "no latent attention" if model.mla and not self.has_mla else ""

    def run(self, plan, words):
        """What Megatron-LM makes of the words; whatever it raises is a refusal."""
        _distributed(0)
        os.environ.update(RANK="0", WORLD_SIZE=str(plan.gpus), LOCAL_RANK="0")
        sys.argv = ["pretrain_gpt.py", *model_arguments(plan.model), *words]
        args = self.arguments.parse_args()
        self.arguments.validate_args(args)
        start(self.mpu, self.calculator, plan.gpus, {
            "tensor_model_parallel_size": args.tensor_model_parallel_size,
            "pipeline_model_parallel_size": args.pipeline_model_parallel_size,
            "virtual_pipeline_model_parallel_size": args.virtual_pipeline_model_parallel_size,
            "context_parallel_size": args.context_parallel_size,
            "expert_model_parallel_size": args.expert_model_parallel_size,
            "expert_tensor_parallel_size": getattr(args, "expert_tensor_parallel_size", None),
            "num_distributed_optimizer_instances": getattr(args, "num_distributed_optimizer_instances", 1)})
        config = self.config_of(args)
        self.calculator.init_num_microbatches_calculator(0, getattr(args, "rampup_batch_size", None), args.global_batch_size,
                                                         args.micro_batch_size, args.data_parallel_size)
        count, chunks = self.calculator.get_num_microbatches(), args.virtual_pipeline_model_parallel_size or 1
        layers = stage_layers(self.mpu, self.block, config, args.pipeline_model_parallel_size, chunks)
        schedule(self.schedules, config, chunks, count, args.seq_length, args.micro_batch_size)
        return {
            "world": args.world_size, "pp": args.pipeline_model_parallel_size, "dp": args.data_parallel_size,
            "tp": args.tensor_model_parallel_size, "cp": args.context_parallel_size,
            "ep": args.expert_model_parallel_size,
            "expert_tp": expert_tp(self.mpu, plan.model, args.tensor_model_parallel_size),
            "vpp": args.virtual_pipeline_model_parallel_size or 1, "micro_batch": args.micro_batch_size,
            "num_micro_batches": count, "global_batch": args.global_batch_size,
            "recompute": recompute(config), "zero": zero(args), "sequence_parallel": config.sequence_parallel,
            "stage_layers": layers, "precision": precision(config), "schedule": "1f1b",
            "shared_by": shared_by(self.mpu, args.context_parallel_size),
        }


def start(mpu, calculator, world, sizes):
    """torch.distributed and Megatron's groups for a world of this size."""
    mpu.destroy_model_parallel()
    forget = getattr(calculator, "unset_num_microbatches_calculator", None)
    (forget or calculator.destroy_num_microbatches_calculator)()
    _distributed(world)
    takes = inspect.signature(mpu.initialize_model_parallel).parameters
    sizes = {**sizes, "order": "tp-cp-ep-dp-pp", "create_gloo_process_groups": False}
    mpu.initialize_model_parallel(**{key: value for key, value in sizes.items() if key in takes})


def shared_by(mpu, cp):
    """Replicas that share the states of the distributed optimizer: neighbours, where they are several groups."""
    takes = inspect.signature(mpu.get_data_parallel_group).parameters
    partial = {"partial_data_parallel": True} if "partial_data_parallel" in takes else {}
    group = mpu.get_data_parallel_group(with_context_parallel=True, **partial)
    return group.size() // cp


def expert_tp(mpu, model, tp):
    """Ranks that split an expert, by Megatron's groups; of old releases, which know tensor parallelism alone, that."""
    size = getattr(mpu, "get_expert_tensor_parallel_world_size", lambda: tp)
    return size() if model.experts else tp


def stage_layers(mpu, block, config, stages, chunks):
    """How many layers each stage builds, by Megatron's own count."""
    takes = inspect.signature(block.get_num_layers_to_build).parameters
    layers = []
    for rank in range(stages):
        mpu.set_pipeline_model_parallel_rank(rank)
        total = 0
        for chunk in range(chunks):
            if chunks > 1:
                mpu.set_virtual_pipeline_model_parallel_rank(chunk)
            asked = {"vp_stage": chunk if chunks > 1 else None, "pp_rank": rank}
            total += block.get_num_layers_to_build(config, **{k: v for k, v in asked.items() if k in takes})
        layers.append(total)
    mpu.set_pipeline_model_parallel_rank(0)
    if chunks > 1:
        mpu.set_virtual_pipeline_model_parallel_rank(0)
    return layers


def schedule(schedules, config, chunks, count, seq_length, micro_batch):
    """The schedule of the first stage up to its first forward step."""
    import torch

    class Chunk(torch.nn.Module):
        vp_stage = 0

        def __init__(self):
            self.config, self.module = config, None

    def step(*_, **__):
        raise stubs.Reached("the first forward step")

    parts = [Chunk() for _ in range(chunks)]
    try:
        schedules.get_forward_backward_func()(
            forward_step_func=step, data_iterator=[iter(())] * chunks if chunks > 1 else iter(()),
            model=parts if chunks > 1 else parts[0], num_microbatches=count, seq_length=seq_length,
            micro_batch_size=micro_batch, forward_only=False)
    except stubs.Reached:
        return
    raise RuntimeError("the schedule made no step")


def zero(args):
    if getattr(args, "use_torch_fsdp2", False) or getattr(args, "use_megatron_fsdp", False):
        return 3
    return 1 if args.use_distributed_optimizer else 0


def precision(config):
    if getattr(config, "fp4", None):
        return "nvfp4"
    if getattr(config, "fp8", None):
        return "mxfp8" if getattr(config, "fp8_recipe", None) == "mxfp8" else "fp8"
    return "bf16" if config.bf16 else "fp16" if config.fp16 else "fp32"


def recompute(config):
    """Ours: full is every layer, checkpointed one by one; selective is core attention alone."""
    if config.recompute_granularity is None:
        return "none"
    if config.recompute_granularity == "selective":
        modules = getattr(config, "recompute_modules", None) or ["core_attn"]
        return "selective" if list(modules) == ["core_attn"] else f"selective of {modules}"
    if (config.recompute_method, config.recompute_num_layers) != ("uniform", 1):
        return f"full, {config.recompute_method} {config.recompute_num_layers}"
    return "full"


def model_arguments(model):
    """What the user says of the model, as in Megatron-LM's own example scripts."""
    words = ["--num-layers", model.layers, "--hidden-size", model.hidden, "--num-attention-heads", model.heads,
             "--ffn-hidden-size", model.ffn_hidden, "--seq-length", model.seq_length, "--max-position-embeddings",
             model.seq_length, "--train-iters", 10, "--lr", "1e-4", "--lr-decay-style", "cosine", "--mock-data",
             "--tokenizer-type", "NullTokenizer", "--vocab-size", model.vocab, "--use-mcore-models",
             "--transformer-impl", "transformer_engine"]
    if model.kv_heads != model.heads:
        words += ["--group-query-attention", "--num-query-groups", model.kv_heads]
    if model.gated:
        words += ["--swiglu", "--normalization", "RMSNorm", "--position-embedding-type", "rope",
                  "--disable-bias-linear", "--untie-embeddings-and-output-weights"]
    if model.experts:
        words += ["--num-experts", model.experts, "--moe-router-topk", model.top_k, "--moe-grouped-gemm",
                  "--moe-token-dispatcher-type", "alltoall", "--moe-aux-loss-coeff", "1e-2"]
    if model.mla:
        config = model.config
        words += ["--multi-latent-attention", "--no-rope-fusion", "--q-lora-rank", config["q_lora_rank"], "--kv-lora-rank",
                  config["kv_lora_rank"], "--qk-head-dim", config["qk_nope_head_dim"], "--qk-pos-emb-head-dim",
                  config["qk_rope_head_dim"], "--v-head-dim", config["v_head_dim"], "--moe-ffn-hidden-size",
                  model.moe_ffn_hidden, "--moe-layer-freq",
                  f"([0]*{model.dense_layers}+[1]*{model.layers - model.dense_layers})"]
    return [str(word) for word in words]
