# SPDX-License-Identifier: GPL-2.0-or-later
"""A script that knows FSDP and nothing else, by torchrun: what torchrun starts, and that no plan needs more than replicas."""
from . import torchrun

version = torchrun.version


class Checker(torchrun.Checker):
    observes = (*torchrun.Checker.observes, "pp", "tp", "cp", "ep", "vpp", "dp")

    def expected(self, plan):
        return {**plan.expected(), **super().expected(plan)}

    def run(self, plan, words):
        ran = super().run(plan, words)
        if plan.zero == 1 or (plan.zero == 2 and plan.num_micro_batches > 1):
            raise ValueError(f"FSDP has no ZeRO {plan.zero} of {plan.num_micro_batches} micro-batches")
        return {**ran, "pp": 1, "tp": 1, "cp": 1, "ep": 1, "vpp": 1, "dp": ran["world"]}
