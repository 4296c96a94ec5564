# SPDX-License-Identifier: GPL-2.0-or-later
"""torchrun: PyTorch's torch/distributed/run.py, its parser and the launch configuration that comes out of it. The plan
itself is the script's to read."""
import os
import re

from . import stubs

STUBBED = ("torch.distributed.elastic", "torch.distributed.launcher", "torch.utils", "torch.numa", "torch.cuda")
HOLLOW = ("torch", "torch.distributed")


def version(directory):
    text = open(os.path.join(directory, "torch/version.py"), encoding="utf-8").read()
    return re.search(r"__version__ = '(\d+\.\d+\.\d+)", text)[1]


class Checker:
    observes = ("world", "nodes", "per_node")

    def __init__(self, directory):
        stubs.install(directory, STUBBED, HOLLOW)
        import torch.distributed.run as run

        self.torchrun, self.made = run, {}
        run.LaunchConfig = lambda **how: self.made.update(how) or how

    def expected(self, plan):
        return {"world": plan.gpus, "nodes": plan.nodes, "per_node": plan.per_node}

    def run(self, plan, words):
        for name in [name for name in os.environ if name.startswith("PET_")]:
            del os.environ[name]
        self.made.clear()
        self.torchrun.config_from_args(self.torchrun.parse_args([*words, "train.py"]))
        made = self.made
        if made["min_nodes"] != made["max_nodes"]:
            raise ValueError(f"{made['min_nodes']} to {made['max_nodes']} nodes")
        if not re.fullmatch(r"[\w.-]+:\d+", made["rdzv_endpoint"]):
            raise ValueError(f"rendezvous at {made['rdzv_endpoint']!r}")
        return {"nodes": made["max_nodes"], "per_node": made["nproc_per_node"],
                "world": made["max_nodes"] * made["nproc_per_node"]}
