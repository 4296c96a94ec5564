# SPDX-License-Identifier: GPL-2.0-or-later
"""arena.py's adapters under the frameworks' own classes, where PYTHONPATH has them (by hand; adapters.py has stand-ins):
real_frameworks.py lightning|accelerate FOLDER, in two lives: the first is signalled in step 4, the second goes on to step 10."""
import dataclasses
import importlib
import os
import signal
import sys
import torch
import arena

which, folder = sys.argv[1:]
os.environ.update({"ARENA_PLAN": "{}", "ARENA_PP": "1", "ARENA_DP": os.environ.get("WORLD_SIZE", "1"), "ARENA_TP": "1", "ARENA_MICRO_BATCH": "2",
                   "ARENA_NUM_MICRO_BATCHES": "2", "ARENA_GLOBAL_BATCH": str(4 * int(os.environ.get("WORLD_SIZE", "1"))), "ARENA_REQUEUE_CODE": "99"})
data = [(torch.full((8,), float(i)), torch.tensor([float(i)])) for i in range(64)]
model = torch.nn.Linear(8, 1)


def tell(step):
    if step == 4 and os.environ.get("RANK", "0") == "0" and not os.path.exists(folder):
        os.kill(os.getpid(), signal.SIGUSR1)


def lightning():
    if torch.__version__.startswith("1.13"):   # Python 3.11 takes no default without a hash, which this part of it has
        plain = dataclasses.dataclass
        dataclasses.dataclass = lambda cls=None, **how: plain(cls, **how, unsafe_hash="__hash__" not in vars(cls)) if cls else plain(**how)
        importlib.import_module("torch.distributed._shard.sharded_tensor")
        dataclasses.dataclass = plain
    import lightning.pytorch as pl
    if not isinstance(pl.__version__, str):
        pl.__version__ = "2.0.0"   # a source tree has no file of its version

    class Module(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = model

        def training_step(self, batch, _number):
            if not os.path.exists(os.path.join(folder, "arena.ckpt")) and self.global_step == 3:
                os.kill(os.getpid(), signal.SIGUSR1)
            return (self.model(batch[0]) - batch[1]).square().mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=1e-6)
    kept = arena.lightning(folder)
    trainer = pl.Trainer(max_steps=10, accumulate_grad_batches=2, callbacks=[kept], logger=False, enable_progress_bar=False, accelerator="cpu",
                         devices=1, enable_checkpointing=False, enable_model_summary=False)
    print("goes on from", kept.path())
    trainer.fit(Module(), torch.utils.data.DataLoader(data, batch_size=2), ckpt_path=kept.path())
    print("ends after", trainer.global_step, kept.run.step)


def accelerate():
    import accelerate as library
    print("accelerate", library.__version__)
    accelerator = library.Accelerator(cpu=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    prepared, optimizer = accelerator.prepare(model, optimizer)
    run = arena.accelerate(accelerator, folder, model=prepared)
    batches = run.batches(data, shuffle=1)
    for step in run.steps(10):
        if step == 3 and run.rank == 0 and not os.path.exists(folder):
            os.kill(os.getpid(), signal.SIGUSR1)
        for x, y in batches:
            run.backward((prepared(x) - y).square().mean(), accelerator.backward)
        optimizer.step()
        optimizer.zero_grad()
    print("ends after", run.step, "weight", float(prepared.state_dict()[next(iter(prepared.state_dict()))].sum()))


{"lightning": lightning, "accelerate": accelerate}[which]()
