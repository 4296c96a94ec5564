# SPDX-License-Identifier: GPL-2.0-or-later
"""PyTorch Lightning: LightningCLI's parser for the Trainer (by jsonargparse, which PYTHONPATH must name with
lightning_utilities, docstring_parser and yaml), then its connector, which chooses accelerator, strategy, precision and
environment of the cluster and checks SLURM_* as a rank of the job has them."""
import datetime
import importlib
import importlib.metadata
import os

from . import stubs
from .accelerate import ShardingStrategy, ZERO

STUBBED = ("torch", "torchmetrics", "numpy", "fsspec", "tqdm", "tensorboard", "tensorboardX", "aiohttp", "requests", "rich", "pkg_resources",
           "lightning.fabric._graveyard", "lightning.pytorch._graveyard")
HOLLOW = ("lightning",)
TORCH = "2.6.0"


def version(directory):
    for name in ("src/version.info", "src/lightning/version.info"):
        if os.path.exists(path := os.path.join(directory, name)):
            return open(path, encoding="utf-8").read().strip()
    raise SystemExit(f"launcher-parsers: no version.info in {directory}/src")


class Has:
    """RequirementCache: PyTorch and what the parser needs are there, nothing else is."""

    def __init__(self, requirement="", module=None):
        self.yes = (requirement or module).startswith(("torch>", "jsonargparse"))

    def __bool__(self):
        return self.yes


def compare(package, how, wanted, **_):
    return how(stubs.Version(TORCH if package == "torch" else "0"), stubs.Version(wanted))


class Checker:
    observes = ("world", "nodes", "per_node", "pp", "dp", "tp", "cp", "ep", "vpp", "zero", "sequence_parallel", "precision",
                "num_micro_batches", "shared_by")

    def __init__(self, directory):
        stubs.install(os.path.join(directory, "src"), STUBBED, HOLLOW)
        stubs.dtypes()
        stubs.put("torch.__version__", TORCH)
        stubs.put("torch.distributed.fsdp.ShardingStrategy", ShardingStrategy)
        stubs.put("torch.distributed.constants.default_pg_timeout", datetime.timedelta(minutes=30))
        stubs.put("torch.distributed.is_torchelastic_launched", lambda: False)
        for name in ("torch.cuda.is_available", "torch.distributed.is_available"):
            stubs.put(name, lambda: True)
        for name in ("torch.backends.mps.is_available", "torch.xpu.is_available"):
            stubs.put(name, lambda: False)
        importlib.metadata.version = lambda *_: TORCH
        from lightning_utilities.core import imports

        imports.RequirementCache, imports.compare_version = Has, compare
        cli = importlib.import_module("lightning.pytorch.cli")
        self.connector = importlib.import_module("lightning.pytorch.trainer.connectors.accelerator_connector")
        self.devices = importlib.import_module("lightning.fabric.accelerators.cuda")
        self.parallel = importlib.import_module("lightning.pytorch.strategies.parallel").ParallelStrategy
        self.cli, self.trainer = cli.LightningArgumentParser, importlib.import_module("lightning.pytorch").Trainer
        self.before = dict(os.environ)

    def expected(self, plan):
        return {**plan.expected(), "nodes": plan.nodes, "per_node": plan.per_node}

    def run(self, plan, words):
        os.environ.clear()
        os.environ.update(self.before, **slurm(plan))
        stubs.put("torch.cuda.device_count", lambda: plan.per_node)
        getattr(self.devices.num_cuda_devices, "cache_clear", lambda: None)()
        parser = self.cli()
        parser.add_lightning_class_args(self.trainer, "trainer")
        trainer = parser.instantiate_classes(parser.parse_args(list(words)))["trainer"]
        made = self.connector._AcceleratorConnector(**{key: trainer[key] for key in (
            "accelerator", "strategy", "devices", "num_nodes", "precision")})
        strategy = made.strategy
        per_node = len(strategy.parallel_devices) if isinstance(strategy, self.parallel) else 1
        nodes = getattr(strategy, "num_nodes", 1)
        if not type(made.cluster_environment).__name__.startswith(("SLURM", "Lightning")):
            raise ValueError(f"{type(made.cluster_environment).__name__} where srun started the ranks")
        return {
            "world": nodes * per_node, "nodes": nodes, "per_node": per_node, "pp": 1, "dp": nodes * per_node, "tp": 1,
            "cp": 1, "ep": 1, "vpp": 1, "zero": stage(strategy), "sequence_parallel": False,
            "shared_by": group(strategy, nodes * per_node),
            "precision": {"bf16-mixed": "bf16", "16-mixed": "fp16", "32-true": "fp32"}[made.precision_plugin.precision],
            "num_micro_batches": trainer["accumulate_grad_batches"],
        }


def slurm(plan):
    """What srun gives the first rank of such a job."""
    nodes = f"n[1-{plan.nodes}]" if plan.nodes > 1 else "n1"
    return {"SLURM_NTASKS": str(plan.gpus), "SLURM_NTASKS_PER_NODE": str(plan.per_node), "SLURM_NNODES": str(plan.nodes),
            "SLURM_JOB_NAME": "train", "SLURM_JOB_ID": "4711", "SLURM_PROCID": "0", "SLURM_LOCALID": "0",
            "SLURM_NODEID": "0", "SLURM_NODELIST": nodes, "SLURM_JOB_NODELIST": nodes}


def stage(strategy):
    name = type(strategy).__name__
    if name == "FSDPStrategy":
        if not strategy.kwargs["use_orig_params"]:  # otherwise frozen and trained weights stand in no unit together
            raise ValueError("FSDP without use_orig_params")
        return {ShardingStrategy.HYBRID_SHARD: 3, **ZERO}[strategy.sharding_strategy]
    if name not in ("DDPStrategy", "SingleDeviceStrategy"):
        raise ValueError(f"a {name} was chosen")
    return 0


def group(strategy, world):
    """Replicas that share states: setup_environment() makes a mesh of a tuple (groups, replicas of each)."""
    if getattr(strategy, "sharding_strategy", None) != ShardingStrategy.HYBRID_SHARD:
        return world
    mesh = strategy.kwargs["device_mesh"]
    if not isinstance(mesh, tuple) or mesh[0] * mesh[1] != world:
        raise ValueError(f"device_mesh is {mesh!r}")
    return mesh[1]
