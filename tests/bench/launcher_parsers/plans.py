# SPDX-License-Identifier: GPL-2.0-or-later
"""The plans: what `arena plan` gives for each model on each cluster under a launcher, and, so that every row of a
table is met, plans pinned to degrees that are not searched. And how a plan is told: `arena-args`."""
import json
import os
import subprocess

from .models import ADAPTED_SIZES, ALL_MODELS, PRECISION_SIZE, SIZES, Model

# What the search does not choose by itself, or seldom: one plan of each is priced for every model and size.
PINNED = [
    "zero=0", "zero=1", "zero=2", "zero=3",
    "pp=2", "pp=4", "pp=4,zero=1", "pp=8,vpp=1",
    "tp=2,sp=1", "tp=4,sp=1", "tp=4,sp=0", "tp=8,sp=1", "pp=2,tp=2,sp=1", "pp=2,tp=4,sp=1", "pp=4,tp=2,sp=0",
    "recompute=none", "recompute=selective", "recompute=full", "pp=2,recompute=full", "pp=4,recompute=selective",
    "cp=2", "cp=4,tp=2,sp=1", "pp=2,cp=2", "pp=2,cp=2,tp=2,sp=1",
    "ep=2", "ep=8", "cp=2,ep=4", "tp=8,ep=4,sp=1", "tp=2,cp=2,ep=8,sp=1", "tp=2,cp=2,ep=2,sp=1", "tp=2,ep=8,sp=1", "pp=2,ep=4", "pp=2,tp=2,ep=8,sp=1", "pp=2,dp=4,tp=2,ep=8,sp=1",
    "pp=2,vpp=2", "pp=4,vpp=2", "pp=4,vpp=4,tp=2,sp=1", "pp=2,vpp=2,zero=1", "pp=2,vpp=4,cp=2",
    "zero=3,tp=2,sp=1", "zero=3,cp=2", "zero=3,recompute=full", "zero=3,recompute=selective", "zero=2,recompute=full",
    "tp=8,cp=2,ep=8,sp=1", "zero=3,tp=4,cp=4,ep=8,sp=1",  # experts over part of tp x cp
    "zero=0,recompute=none", "zero=3,recompute=none", "zero=3,cp=2,ep=4", "zero=3,cp=2,tp=2,sp=1,ep=8", "zero=0,pp=2", "zero=2,pp=2", "zero=3,pp=2",
    # groups of replicas that share ZeRO's states
    "hsdp=2", "hsdp=4", "hsdp=8", "hsdp=4,cp=2", "hsdp=2,tp=2,sp=1", "hsdp=2,pp=2", "hsdp=2,pp=2,vpp=2", "hsdp=2,zero=2", "hsdp=2,zero=3",
    "hsdp=8,zero=3", "hsdp=4,zero=3,cp=2", "hsdp=2,zero=3,tp=2,sp=1", "hsdp=2,zero=3,recompute=none", "hsdp=2,zero=2,micro_batch=all",
    # experts that ranks split
    "tp=2,ep=2,etp=2,sp=1", "tp=2,ep=4,etp=2,sp=1", "tp=4,ep=2,etp=2,sp=1", "tp=4,ep=4,etp=4,sp=1", "tp=2,pp=2,ep=2,etp=2,sp=1", "tp=2,ep=8,etp=2,sp=1",
    "tp=2,cp=2,ep=2,etp=2,sp=1", "tp=8,ep=8,etp=8,sp=1", "zero=3,tp=2,ep=4,etp=2,sp=1",
    # schedules that split backwards
    *(f"schedule={schedule},{degrees}" for schedule in ("zbh1", "zbv", "dualpipev") for degrees in (
        "pp=2", "pp=4", "pp=4,micro_batch=2", "pp=2,tp=2,sp=1", "pp=2,cp=2", "pp=2,recompute=none", "pp=2,ep=4", "pp=2,ep=4,recompute=none",
        "pp=2,tp=2,ep=4,sp=1", "pp=2,hsdp=2", "pp=2,zero=0")),
    "schedule=zbh1,pp=2,vpp=2", "schedule=zbh1,pp=4,vpp=2", "schedule=zbh1,pp=4,vpp=4,tp=2,sp=1", "schedule=zbh1,pp=2,vpp=4,ep=4",
    "schedule=zbh1,pp=2,vpp=2,hsdp=2",
]

# What a whole training framework must tell of a plan: the keys of Plan.expected().
FACTS = ("world", "pp", "dp", "tp", "cp", "ep", "vpp", "micro_batch", "num_micro_batches", "global_batch", "recompute",
         "zero", "sequence_parallel", "stage_layers", "precision", "schedule", "shared_by", "expert_tp")


class Plan:
    """One plan of a grid, with what it should come out as."""

    def __init__(self, model, grid):
        plan = grid["proxy_plan"]
        self.model, self.grid, self.raw = model, grid, plan
        self.nodes, self.gpus, self.per_node = grid["nodes"], grid["gpus"], grid["gpus_per_node"]
        for key in ("pp", "dp", "tp", "cp", "ep", "vpp", "micro_batch", "num_micro_batches", "recompute",
                    "stage_layers"):
            setattr(self, key, plan[key])
        self.zero, self.sequence_parallel = plan["zero_stage"], plan["sequence_parallel"]
        # what JSON leaves out is as in most plans
        self.etp, self.hsdp, self.schedule = plan.get("etp", 1), plan.get("hsdp", 0), plan.get("schedule", "1f1b")
        self.global_batch = self.micro_batch * self.num_micro_batches * self.dp

    def expected(self):
        """What the framework must come out with, key by key."""
        expected = {key: getattr(self, key) for key in (
            "pp", "dp", "tp", "cp", "ep", "vpp", "micro_batch", "num_micro_batches", "global_batch", "recompute",
            "zero", "sequence_parallel")}
        expected.update(stage_layers=list(self.stage_layers), world=self.gpus, precision=self.model.precision)
        if self.dp * self.cp == 1:  # nothing to share out
            del expected["zero"]
        if self.dp > 1 and self.zero > 0:  # replicas that share states among them
            expected["shared_by"] = self.hsdp or self.dp
        if self.pp > 1:
            expected["schedule"] = self.schedule
        if self.model.experts:  # a rank's experts are split by etp ranks under expert parallelism, else as tp
            expected["expert_tp"] = self.etp if self.ep > 1 else self.tp
        if self.model.adapters:
            expected["adapters"] = self.model.adapters[:2]
        return expected

    def environment(self, job=4711):
        """The variables of a job with this plan that starts one task per GPU."""
        rank, targets, bits = self.model.adapters or (0, "attention", 16)
        return {
            "ARENA_LORA_RANK": rank, "ARENA_LORA_TARGETS": targets, "ARENA_BASE_BITS": bits,
            "ARENA_ETP": self.etp, "ARENA_HSDP": self.hsdp, "ARENA_SCHEDULE": self.schedule,
            "ARENA_PP": self.pp, "ARENA_DP": self.dp, "ARENA_TP": self.tp, "ARENA_CP": self.cp, "ARENA_EP": self.ep,
            "ARENA_VPP": self.vpp, "ARENA_MICRO_BATCH": self.micro_batch,
            "ARENA_NUM_MICRO_BATCHES": self.num_micro_batches, "ARENA_GLOBAL_BATCH": self.global_batch,
            "ARENA_STAGE_LAYERS": ",".join(map(str, self.stage_layers)), "ARENA_RECOMPUTE": self.recompute,
            "ARENA_ZERO_STAGE": self.zero, "ARENA_SEQUENCE_PARALLEL": int(self.sequence_parallel),
            "ARENA_SEQ_LENGTH": self.model.seq_length, "ARENA_RDZV_HOST": "n1",
            "ARENA_PRECISION": self.model.precision, "ARENA_MODEL_FAMILY": self.model.arena_family,
            "ARENA_KV_HEADS": 0 if self.model.mla else self.model.kv_heads, "SLURM_JOB_ID": job, "SLURM_JOB_NUM_NODES": self.nodes, "SLURM_NTASKS": self.gpus,
        }

    def key(self):
        return json.dumps([self.model.name, self.gpus, self.raw], sort_keys=True)

    def __str__(self):
        others = "".join(f",{name}{getattr(self, name)}" for name in ("vpp", "cp", "ep", "etp", "hsdp") if getattr(self, name) > 1)
        return (f"{self.model.name} {self.nodes}x{self.per_node} pp{self.pp},dp{self.dp},tp{self.tp},"
                f"mb{self.micro_batch}x{self.num_micro_batches}{others} {self.schedule} zero{self.zero} "
                f"sp{int(self.sequence_parallel)} recompute={self.recompute} "
                f"layers={','.join(map(str, self.stage_layers)) if len(set(self.stage_layers)) > 1 else self.stage_layers[0]}")


class Planner:
    """Asks the built `arena` of one build directory."""

    def __init__(self, arena, launcher, work):
        self.arena, self.launcher, self.work = arena, launcher, work

    def ask(self, model, gpus, *options):
        name, text = model.file()
        path = os.path.join(self.work, name)
        if not os.path.exists(path):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        command = [self.arena, "plan", "--model", path, "--global-batch", str(model.batch), "--seq-length",
                   str(model.seq_length), "--gpu-type", model.gpu_type, "--gpus", str(gpus), "--launcher", self.launcher,
                   "--json", *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        answer = json.loads(done.stdout) if done.stdout.startswith("{") else {}
        if "grids" not in answer:
            if done.returncode == 2 and "cannot be told" in done.stderr:  # by this launcher
                return []
            raise SystemExit(f"launcher-parsers: {' '.join(command)}: {done.stderr.strip()}")
        return [Plan(model, grid) for grid in answer["grids"] if grid["feasible"]]

    def pinned(self, model, gpus):
        """PINNED with the rest of the degrees made to fit, priced under this launcher."""
        for pin in PINNED:
            fixed = complete(model, gpus, dict(part.split("=") for part in pin.split(",")))
            if fixed:
                yield from self.ask(model, gpus, "--fixed", fixed)

    def all(self, models=ALL_MODELS, sizes=SIZES):
        """Every plan once: the best of each grid, the Pareto front of each grid, and the pinned ones."""
        seen = {}
        for model in map(Model, models):
            for gpus in sizes:
                for plan in self.of(model, gpus):
                    seen.setdefault(plan.key(), plan)
        return list(seen.values())

    def of(self, model, gpus):
        if model.precision != "bf16":  # what no search is asked for: one size
            return list(self.pinned(model, gpus)) if gpus == PRECISION_SIZE else []
        if model.adapters and gpus not in ADAPTED_SIZES:
            return []
        return self.ask(model, gpus) + self.ask(model, gpus, "--pareto") + list(self.pinned(model, gpus))


def save(path, plans):
    with open(path, "w", encoding="utf-8") as file:
        json.dump([[plan.model.name, plan.grid] for plan in plans], file)


def load(path):
    with open(path, encoding="utf-8") as file:
        return [Plan(Model(name), grid) for name, grid in json.load(file)]


def complete(model, gpus, pin):
    """A whole plan for --fixed from a few degrees; None where they do not fit the GPUs, the batch or the model."""
    number = {key: int(value) for key, value in pin.items() if value.isdigit()}
    pp, tp, cp = number.get("pp", 1), number.get("tp", 1), number.get("cp", 1)
    ep, etp, schedule = number.get("ep", 1), number.get("etp", 1), pin.get("schedule", "1f1b")
    vpp = number.get("vpp", 2 if schedule in ("zbv", "dualpipev") else 1)
    if gpus % (pp * tp * cp) or model.heads % tp or pp * vpp > model.layers or (ep > 1 and model.experts % ep):
        return None
    dp = number.get("dp", gpus // (pp * tp * cp))
    if pp * dp * tp * cp != gpus or model.batch % dp or (dp * tp * cp) % (ep * etp) or (ep > 1 and not model.experts):
        return None
    micro_batch = model.batch // dp if pin.get("micro_batch") == "all" else number.get("micro_batch", 1)
    count, is_simple = model.batch // dp // micro_batch, vpp == 1 and schedule == "1f1b"
    if not is_simple and (pp == 1 or model.layers % (pp * vpp) or count % pp or (schedule == "dualpipev" and count < 2 * pp)):
        return None
    hsdp = number.get("hsdp", 0)
    if hsdp and (dp % hsdp or dp == hsdp):
        return None
    recompute = "none" if schedule in ("zbh1", "zbv") else "full"  # these go without
    parts = {"pp": pp, "dp": dp, "tp": tp, "micro_batch": micro_batch, "recompute": pin.get("recompute", recompute),
             "zero": number.get("zero", 1), "sp": number.get("sp", 0), "vpp": vpp, "cp": cp, "ep": ep, "etp": etp,
             "schedule": schedule, **({"hsdp": hsdp} if hsdp else {})}
    return ",".join(f"{key}={value}" for key, value in parts.items())


class Words:
    """arena-args of one launcher and version, or of a table, remembered by plan."""

    def __init__(self, arena_args, framework, version, table=None):
        self.version = version
        self.command = [arena_args, *(["--table", table] if table else [framework]), "--version", version]
        self.known = {}

    def of(self, plan):
        """(words, None), or (None, why it cannot be told)."""
        key = plan.key()
        if key not in self.known:
            environment = {"PATH": os.environ["PATH"], **{name: str(value) for name, value in plan.environment().items()}}
            done = subprocess.run(self.command, env=environment, capture_output=True, text=True, check=False)
            self.known[key] = (done.stdout.splitlines(), None) if done.returncode == 0 else (None, done.stderr.strip())
        return self.known[key]

    @staticmethod
    def signature(plan):
        """What of a plan may need a row of its own without other words."""
        return str([plan.model.precision, plan.pp > 1, plan.pp > 2, plan.dp > 1, plan.tp > 1, plan.cp > 1, plan.ep > 1, plan.vpp > 1, plan.zero,
                    plan.sequence_parallel, plan.recompute, plan.num_micro_batches > 1, len(set(plan.stage_layers)),
                    plan.model.kv_heads % plan.tp, plan.ep > plan.dp, plan.ep % (plan.tp * plan.cp), plan.etp > 1,
                    plan.hsdp > 0, plan.schedule, plan.model.adapters])
