# SPDX-License-Identifier: GPL-2.0-or-later
"""torchtitan 0.2: its ConfigManager (by tyro, which PYTHONPATH must name) and the whole of its Trainer's constructor,
with its parallelize and pipelining functions, for a world as large as the plan's. The mesh and the model are stubs."""
import dataclasses
import importlib
import os

from . import stubs
from .mesh import Mesh, Schedule, Schedules
from .plans import FACTS

STUBBED = ("torch", "torchtitan.datasets", "torchtitan.hf_datasets", "torchtitan.components.checkpoint",
           "torchtitan.components.metrics", "torchtitan.components.tokenizer", "torchtitan.components.validate",
           "torchtitan.components.optimizer", "torchtitan.components.lr_scheduler", "torchtitan.components.ft",
           "torchtitan.components.dataloader", "torchtitan.tools.profiling", "torchtitan.models.moe",
           "torchtitan.models.attention", "torchtitan.distributed.deepep", "torchtitan.distributed.dual_pipe_v",
           "numpy", "torchdata", "datasets", "transformers", "tokenizers", "einops", "PIL", "torchtitan.experiments",
           "torchtitan.models.llama3.model", "torchtitan.models.llama4.model", "torchtitan.models.deepseek_v3.model",
           "torchtitan.models.llama3.infra.pipeline", "torchtitan.models.llama3_ft")
# family -> the function that splits a model of it
PARALLELIZE = {
    "dense": ("torchtitan.models.llama3.infra.parallelize", "parallelize_llama"),
    "moe": ("torchtitan.models.llama4.infra.parallelize", "parallelize_llama"),
    "mla": ("torchtitan.models.deepseek_v3.infra.parallelize", "parallelize_deepseekv3"),
}


def is_development(directory):
    return os.path.exists(os.path.join(directory, "torchtitan/config/configs.py"))


def version(directory):
    if is_development(directory):  # its version is still that of the release before
        return "0.3.0"
    return open(os.path.join(directory, "assets/version.txt"), encoding="utf-8").read().strip()


def family(model):
    return "mla" if model.mla else "moe" if model.experts else "dense"


def checker(directory):
    if is_development(directory):
        from . import torchtitan_dev

        return torchtitan_dev.Checker(directory)
    return Checker(directory)


class Checker:
    observes = FACTS

    def __init__(self, directory):
        stubs.install(directory, STUBBED)
        import tyro  # noqa: F401  # PYTHONPATH names it

        import torch

        stubs.put("torch.distributed.device_mesh.init_device_mesh", Mesh.init)
        torch.bfloat16, torch.float32 = "bf16", "fp32"
        Schedules.install()
        for name in ("torch.distributed.is_initialized", "torch.distributed.is_available"):
            stubs.put(name, lambda: True)
        from torchtitan.config import manager
        from torchtitan.distributed import pipeline_parallel
        from torchtitan import train

        self.manager, self.pipeline, self.train = manager, pipeline_parallel, train
        self.split = pipeline_parallel.pipeline_module_split
        if hasattr(train, "FTManager"):  # fault tolerance off
            train.FTManager = lambda *_: FaultTolerance()
        self.made = {}

    def run(self, plan, words):
        self.made = made = {}
        Schedules.stages = plan.pp
        os.environ.update(RANK="0", WORLD_SIZE=str(plan.gpus), LOCAL_RANK="0")
        config = self.manager.ConfigManager().parse_args(
            ["--model.name", "ours", "--model.flavor", "ours", "--training.seq_len", str(plan.model.seq_length), *words])
        heads = plan.model.heads if plan.model.mla else plan.model.kv_heads
        if heads % config.parallelism.tensor_parallel_degree:  # found by view() in its attention alone
            raise ValueError(f"{heads} key-value heads do not split by tensor_parallel_degree "
                             f"{config.parallelism.tensor_parallel_degree}")
        module, function = PARALLELIZE[family(plan.model)]
        module = importlib.import_module(module)
        self._record(module)
        self.train.train_spec_module.get_train_spec = lambda _: Spec(plan.model, getattr(module, function),
                                                                     self._pipelining())
        self.train.dist_utils.init_distributed = lambda *_, **__: plan.gpus
        self.train.dist_utils.set_determinism = lambda *_, **__: None
        self.train.utils.get_peak_flops = lambda *_: 1.0
        self.train.utils.set_default_dtype = lambda *_: stubs.Stub()
        self.train.build_model_converters = lambda *_: stubs.Stub()
        self.train.ensure_pp_loss_visible = lambda *_: None
        amp = self.train.dist_utils.maybe_enable_amp
        self.train.torch.autocast = self.train.dist_utils.torch.autocast = lambda *_, dtype=None, **__: made.update(amp=dtype)
        try:
            trainer = self.train.Trainer(config)
        finally:
            self.train.dist_utils.maybe_enable_amp = amp
        return self._facts(plan, config, trainer)

    def _record(self, module):
        """The last steps of parallelize functions are torch's work: what they are called with is what counts."""
        made = self.made
        for name in ("apply_tp", "apply_non_moe_tp"):
            if hasattr(module, name):
                setattr(module, name, lambda *_, **__: made.update(tp=True))
        module.apply_ac = lambda model, config, **__: made.update(recompute=config.mode)
        module.apply_moe_ep_tp = lambda *_, **how: made.update(experts=how)
        module.apply_fsdp = lambda model, mesh, **how: made.update(fsdp=mesh, **how)
        module.apply_ddp = lambda model, mesh, **_: made.update(ddp=mesh)
        module.maybe_enable_async_tp = lambda *_: None
        module.apply_compile = lambda *_: None

    def _pipelining(self):
        """Its own split of the model, asked for the stages of each rank; those of rank 0 go on."""
        def split(model, mesh, schedule, device, names, *others):
            self.made["layers"], made = [], []
            for mesh.local_rank in reversed(range(mesh.size())):
                made = self.split(model, mesh, schedule, device, names, *others)
                layers = [sum(name.startswith("layers.") for name in names[stage.stage_index]) for stage in made[0]]
                self.made["layers"].insert(0, layers)
            return made

        self.pipeline.pipeline_module_split = split
        return self.pipeline.pipeline_llm

    def _facts(self, plan, config, trainer):
        dims, made, training = trainer.parallel_dims, self.made, config.training
        pipelined = dims.pp > 1
        micro_batch = config.parallelism.pipeline_parallel_microbatch_size if pipelined else training.local_batch_size
        per_step = training.local_batch_size // micro_batch if pipelined else 1
        layers = made.get("layers", [[plan.model.layers]])
        if len(chunks := {len(part) for part in layers}) != 1 or any(len(set(part)) != 1 for part in layers):
            raise ValueError(f"chunks of {layers} layers")
        return {
            "world": dims.world_size, "pp": dims.pp, "dp": dims.dp_replicate * dims.dp_shard, "tp": dims.tp,
            "cp": dims.cp, "ep": dims.ep, "expert_tp": dims.etp if dims.ep > 1 else dims.tp,
            "vpp": chunks.pop(), "schedule": Schedule.made.name if pipelined else "", "shared_by": shared_by(made, dims),
            "micro_batch": micro_batch, "num_micro_batches": per_step * trainer.gradient_accumulation_steps,
            "global_batch": training.global_batch_size if training.global_batch_size > 0
            else training.local_batch_size * dims.dp_replicate * dims.dp_shard,
            "recompute": made.get("recompute", "none"), "zero": zero(made, pipelined),
            "sequence_parallel": dims.tp > 1,  # always with tensor parallelism
            "stage_layers": [sum(part) for part in layers],
            "precision": made["param_dtype"] if "fsdp" in made else made.get("amp", training.dtype)
            if training.dtype == "float32" else training.dtype,
        }


def zero(made, pipelined):
    """ZeRO stage of what FSDP does: with a pipeline PyTorch's stages hold back the reduction of gradients until the
    last micro-batch, so that parameters and gradients stay whole unless parameters are resharded after forward."""
    if "fsdp" not in made:  # shards lie on the ranks of context parallelism, too
        return 0
    policy = made["reshard_after_forward_policy"]
    if policy == "default":
        policy = "never" if pipelined else "always"
    if policy == "always":
        return 3
    return 1 if pipelined else 2


def shared_by(made, dims):
    """Replicas that share states: the last dimension of FSDP's mesh, which has the ranks of context parallelism, too."""
    return made["fsdp"].shape[-1] // dims.cp if "fsdp" in made else 1


class FaultTolerance(stubs.Stub):
    def get_dp_info(self, degree, rank):
        return degree, rank


class Part:
    """A model, or a stage of one."""

    def __init__(self, config):
        self.config = self.model_args = config

    def __deepcopy__(self, _):
        return Part(self.config)

    def named_children(self):
        return ()

    def __getattr__(self, name):
        return stubs.Stub()


class Spec:
    """A TrainSpec whose components are stubs, and the functions that split the model theirs."""

    def __init__(self, model, parallelize, pipelining):
        self.name, self.cls, self.model_cls = "ours", Part, Part
        self.model_args = {"ours": Arguments(model.layers, model.heads, model.kv_heads, model.hidden)}
        self.parallelize_fn, self.pipelining_fn = parallelize, pipelining

    def __getattr__(self, name):
        if name in ("build_tokenizer_fn", "build_metrics_processor_fn", "build_dataloader_fn", "build_optimizers_fn",
                    "build_lr_schedulers_fn", "build_loss_fn"):
            return lambda *_, **__: stubs.Stub()
        if name in ("state_dict_adapter", "build_validator_fn"):
            return None
        raise AttributeError(name)


@dataclasses.dataclass
class Arguments:
    n_layers: int
    n_heads: int
    n_kv_heads: int
    dim: int
    use_flex_attn: bool = False
    attn_type: str = "sdpa"

    def update_from_config(self, *_, **__):
        pass

    def get_nparams_and_flops(self, *_):
        return 1, 1.0
