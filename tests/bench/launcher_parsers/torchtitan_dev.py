# SPDX-License-Identifier: GPL-2.0-or-later
"""torchtitan's development branch after 0.2: its dataclasses of training, parallelism and activation checkpointing by
tyro, its ParallelDims, its deal of layers and its pipeline schedule. Its Trainer needs more of PyTorch than stubs have:
the arithmetic of its batch is repeated here."""
import dataclasses
import importlib

from . import stubs
from .mesh import Mesh, Schedule, Schedules
from .plans import FACTS
from .torchtitan import Part

STUBBED = tuple("""
torch spmd_types numpy torchdata datasets transformers tokenizers einops PIL triton torchao safetensors
torchtitan.components.metrics torchtitan.components.checkpointer torchtitan.components.data torchtitan.components.loss
torchtitan.components.tokenizer torchtitan.components.validate torchtitan.components.optimizer
torchtitan.components.quantization torchtitan.tools.profiler torchtitan.models torchtitan.experiments
torchtitan.distributed.deepep torchtitan.distributed.minimal_async_ep torchtitan.distributed.linear
torchtitan.observability torchtitan.ops torchtitan.overrides torchtitan.distributed.flex_shard torchtitan.protocols
torchtitan.distributed.cudagraph torchtitan.distributed.context_parallel""".split())


class Checker:
    observes = FACTS

    def __init__(self, directory):
        stubs.install(directory, STUBBED)
        stubs.dtypes()
        import tyro

        stubs.put("torch.distributed.device_mesh.init_device_mesh", Mesh.init)
        Schedules.install()
        from torchtitan.config import configs, manager
        from torchtitan.distributed import activation_checkpoint, parallel_dims

        checkpointing = activation_checkpoint
        self.pipeline = importlib.import_module("torchtitan.distributed.pipeline_parallel")
        self.fsdp = importlib.import_module("torchtitan.distributed.fsdp")
        self.kinds = {checkpointing.FullAC.Config: "full", checkpointing.SelectiveAC.Config: "selective", type(None): "none"}
        self.dims, self.tyro, self.registry = parallel_dims.ParallelDims, tyro, manager.custom_registry
        self.config = dataclasses.make_dataclass("Config", [
            ("training", configs.TrainingConfig, dataclasses.field(default_factory=configs.TrainingConfig)),
            ("parallelism", configs.ParallelismConfig, dataclasses.field(default_factory=configs.ParallelismConfig)),
            ("activation_checkpoint", checkpointing.ActivationCheckpointingConfig,
             dataclasses.field(default_factory=checkpointing.SelectiveAC.Config))])

    def run(self, plan, words):
        config = self.tyro.cli(self.config, args=list(words), default=self.config(), registry=self.registry)
        training, parallelism = config.training, config.parallelism
        dims = self.dims.from_config(parallelism, plan.gpus)
        heads = plan.model.heads if plan.model.mla else plan.model.kv_heads
        if heads % dims.tp:
            raise ValueError(f"{heads} key-value heads do not split by tensor_parallel_degree {dims.tp}")
        layers, chunks = self._layers(plan, dims, parallelism)
        dp, tokens = dims.dp_replicate * dims.dp_shard, training.num_tokens_per_microbatch_per_dp_rank
        passes = parallelism.num_pp_microbatches if dims.pp > 1 else 1
        if tokens % (dims.tp * (2 * dims.cp if dims.cp > 1 else 1)):
            raise ValueError(f"{tokens} tokens of a micro-batch do not split by sequence and context parallelism")
        if training.num_tokens_per_train_step % (tokens * passes * dp):
            raise ValueError(f"{training.num_tokens_per_train_step} tokens of a step are no multiple of "
                             f"{tokens * passes * dp}")
        sequence = training.max_context_length
        gathered = self.fsdp.get_fsdp_reshard_after_forward_policy(parallelism.fsdp_reshard_after_forward, dims.pp > 1)
        return {
            "world": dims.world_size, "pp": dims.pp, "dp": dp, "tp": dims.tp, "cp": dims.cp, "ep": dims.ep,
            "expert_tp": 1 if dims.ep > 1 else dims.tp, "vpp": chunks, "micro_batch": tokens // sequence,
            "schedule": Schedule.made.name if dims.pp > 1 else "", "shared_by": dims.dp_shard,
            "num_micro_batches": training.num_tokens_per_train_step // (tokens * dp),
            "global_batch": training.num_tokens_per_train_step // sequence,
            "recompute": self.kinds[type(config.activation_checkpoint)],
            "zero": 0 if dims.dp_shard * dims.cp == 1 else 3 if gathered else 1 if dims.pp > 1 else 2,
            "sequence_parallel": dims.tp > 1 and parallelism.enable_sequence_parallel, "stage_layers": layers,
            "precision": {"bfloat16": "bf16", "float32": "fp32"}[training.mixed_precision_param],
        }

    def _layers(self, plan, dims, parallelism):
        """(layers of each rank of the pipeline, how many chunks they are)"""
        if dims.pp == 1:
            return [plan.model.layers], 1
        Schedules.stages = dims.pp
        model = type("Model", (), {"layers": [None] * plan.model.layers, "n_layers": plan.model.layers})
        stages, layers, first, last = self.pipeline._get_pipeline_metadata(dims, parallelism, model)
        names = self.pipeline._generate_llm_fqn_per_model_part(stages, layers, first, last)
        mesh, ranks = dims.get_mesh("pp"), []
        for mesh.local_rank in reversed(range(dims.pp)):
            made, _ = self.pipeline._pipeline_module_split(Part(None), mesh, parallelism.pipeline_parallel_schedule, None, names,
                                                           get_mesh=None)
            ranks.insert(0, [sum(name.startswith("layers.") for name in names[stage.stage_index]) for stage in made])
        if len(chunks := {len(part) for part in ranks}) != 1 or any(len(set(part)) != 1 for part in ranks):
            raise ValueError(f"chunks of {ranks} layers")
        self.pipeline._build_pipeline_schedule(parallelism=parallelism, stages=made, loss_fn=None,
                                               num_microbatches=parallelism.num_pp_microbatches)
        return [sum(part) for part in ranks], chunks.pop()
