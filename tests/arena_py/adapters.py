# SPDX-License-Identifier: GPL-2.0-or-later
"""arena.py's adapters, called in the order in which the frameworks call: by stand-ins for their classes (t0450), each as far as the
adapter sees it. real_frameworks.py has the real ones, where they are at hand."""
import os
import signal
import sys
import tempfile
import types
import unittest
import unittest.mock
import arena

PLAN = {"ARENA_PLAN": "{}", "ARENA_PP": "1", "ARENA_DP": "1", "ARENA_TP": "1", "ARENA_MICRO_BATCH": "2", "ARENA_NUM_MICRO_BATCHES": "3",
        "ARENA_GLOBAL_BATCH": "6", "ARENA_REQUEUE_CODE": "99"}


def tell():
    os.kill(os.getpid(), signal.SIGUSR1)


def stand_in(name, **content):
    """import NAME finds this."""
    parts = name.split(".")
    for i in range(1, len(parts) + 1):
        sys.modules.setdefault(".".join(parts[:i]), types.ModuleType(".".join(parts[:i])))
    vars(sys.modules[name]).update(content)


class HuggingFace(unittest.TestCase):
    class Trainer:
        """transformers.Trainer, as to the order of its events: a step, then what the control says, then the next."""

        def __init__(self, callback, max_steps, done=0):
            self.callback, self.state = callback, types.SimpleNamespace(global_step=done, max_steps=max_steps)
            self.control = types.SimpleNamespace(should_save=False, should_evaluate=False, should_training_stop=False)
            self.saved, self.evaluated = [], []

        def call(self, event):
            self.control = getattr(self.callback, event)(None, self.state, self.control, model=None) or self.control

        def train(self, at):
            self.call("on_train_begin")
            while self.state.global_step < self.state.max_steps:
                self.control.should_save = False
                self.call("on_step_begin")
                self.state.global_step += 1
                at(self.state.global_step)
                self.control.should_evaluate = self.state.global_step % 2 == 0
                self.call("on_step_end")
                if self.control.should_evaluate:
                    self.evaluated.append(self.state.global_step)
                if self.control.should_save or self.state.global_step == self.state.max_steps:
                    self.saved.append(self.state.global_step)
                    self.call("on_save")
            self.call("on_train_end")

    def setUp(self):
        events = ("init_end", "train_begin", "train_end", "step_begin", "substep_end", "step_end", "save", "log", "epoch_begin", "epoch_end")
        stand_in("transformers", TrainerCallback=type("TrainerCallback", (), {"on_" + event: lambda *_, **__: None for event in events}))

    def test_told_to_leave_the_trainer_saves_and_the_process_ends_behind_it(self):
        trainer = self.Trainer(arena.hugging_face(environment=PLAN), 10)
        with self.assertRaises(SystemExit) as end:
            trainer.train(lambda step: step == 4 and tell())
        self.assertEqual((end.exception.code, trainer.saved, trainer.evaluated), (99, [4], [2]))   # a long evaluation would use up the grace
        trainer = self.Trainer(arena.hugging_face(environment=PLAN), 10, done=4)
        trainer.train(lambda step: step == 10 and tell())
        self.assertEqual((trainer.state.global_step, trainer.saved, trainer.callback.run.step), (10, [10], 10))

    def test_outside_of_arena_it_does_nothing(self):
        trainer = self.Trainer(arena.hugging_face(environment={}), 3)
        trainer.train(lambda _: None)
        self.assertEqual(trainer.saved, [3])


class Lightning(unittest.TestCase):
    class Trainer:
        """lightning.pytorch.Trainer: two batches make a step."""
        is_global_zero = True

        def __init__(self, callback, max_steps, done=0):
            self.callback, self.max_steps, self.global_step = callback, max_steps, done
            self.progress = types.SimpleNamespace(completed=2 * done, is_last_batch=False)
            self.fit_loop = types.SimpleNamespace(epoch_loop=types.SimpleNamespace(batch_progress=self.progress))

        def save_checkpoint(self, path):
            with open(path, "w") as file:
                file.write(f"{self.global_step} {self.progress.completed} {self.progress.is_last_batch}")

        def fit(self, at):
            self.callback.on_train_start(self, None)
            while self.global_step < self.max_steps:
                for batch in range(2):
                    self.progress.is_last_batch = self.progress.completed == 8   # of an epoch of nine, once it is fetched
                    self.callback.on_train_batch_start(self, None, None, batch)
                    self.global_step += batch
                    at(self.global_step, batch)
                    self.callback.on_train_batch_end(self, None, None, None, batch)
                    self.progress.completed += 1
            self.callback.on_train_end(self, None)

    def test_told_to_leave_it_saves_between_two_steps(self):
        stand_in("lightning.pytorch", Callback=type("Callback", (), {}))
        with tempfile.TemporaryDirectory() as folder:
            kept = arena.lightning(os.path.join(folder, "run"), environment=PLAN)
            self.assertIsNone(kept.path())
            trainer = self.Trainer(kept, 10)
            with self.assertRaises(SystemExit) as end:
                trainer.fit(lambda step, batch: (step, batch) == (3, 0) and tell())
            self.assertEqual((end.exception.code, trainer.global_step), (99, 4))
            with open(kept.path()) as file:
                self.assertEqual(file.read(), "4 8 False")   # no batch is trained on twice, none is left out
            trainer = self.Trainer(arena.lightning(folder, environment=PLAN), 10, done=4)
            trainer.fit(lambda *_: None)
            self.assertEqual(trainer.callback.run.step, 10)


class Accelerate(unittest.TestCase):
    class Accelerator:
        is_main_process = True

        def __init__(self):
            self.loaded = None

        def save_state(self, folder):
            os.makedirs(folder)

        def load_state(self, folder):
            self.loaded = os.path.basename(folder)

        def wait_for_everyone(self):
            pass

    def test_the_newest_two_states_are_kept(self):
        with tempfile.TemporaryDirectory() as folder:
            run = arena.accelerate(self.Accelerator(), folder, environment=PLAN)
            with self.assertRaises(SystemExit):
                for step in run.steps(100, save_every=2):
                    if step == 8:
                        tell()
            self.assertEqual(sorted(os.listdir(folder)), ["step-8", "step-9"])
            os.mkdir(os.path.join(folder, "step-12.new"))   # what a kill left
            os.mkdir(os.path.join(folder, "step-10.new"))
            accelerator = self.Accelerator()
            run = arena.accelerate(accelerator, folder, environment=PLAN)
            steps = run.steps(100, save_every=10)
            self.assertEqual((next(steps), accelerator.loaded), (9, "step-9"))
            self.assertEqual(next(steps), 10)
            self.assertEqual(sorted(os.listdir(folder)), ["step-10", "step-9"])

    def test_all_ranks_wait_until_what_a_kill_has_left_is_gone(self):
        with tempfile.TemporaryDirectory() as folder:
            stale, seen = os.path.join(folder, "step-1.new"), []
            os.mkdir(stale)
            accelerator = self.Accelerator()
            accelerator.wait_for_everyone = lambda: seen.append(os.path.exists(stale))
            for _ in arena.accelerate(accelerator, folder, environment=PLAN).steps(1):
                pass
            self.assertEqual((seen, os.listdir(folder)), ([False, True], ["step-1"]))

    def test_what_is_written_is_synced_before_it_is_renamed(self):
        with tempfile.TemporaryDirectory() as folder:
            accelerator, synced = self.Accelerator(), []

            def save_state(path):
                os.makedirs(os.path.join(path, "inner"))
                open(os.path.join(path, "inner", "file"), "w").close()
            accelerator.save_state = save_state
            with unittest.mock.patch.object(os, "fsync", lambda handle: synced.append(os.readlink(f"/proc/self/fd/{handle}")[len(folder):])):
                for _ in arena.accelerate(accelerator, folder, environment=PLAN).steps(1):
                    pass
            self.assertEqual(synced, ["/step-1.new/inner/file", "/step-1.new/inner", "/step-1.new", ""])

    def test_deepspeed_is_refused(self):
        for kind in ("DEEPSPEED", types.SimpleNamespace(value="DEEPSPEED")):
            accelerator = self.Accelerator()
            accelerator.distributed_type = kind
            with self.assertRaisesRegex(TypeError, "DeepSpeed steps inside of backward"):
                arena.accelerate(accelerator, "/nonexistent", environment=PLAN)


class Torchtitan(unittest.TestCase):
    class Trainer:
        """torchtitan.trainer.Trainer, as to its loop."""
        closed = False

        def __init__(self, steps, done=0, at=lambda _: None):
            self.total, self.step, self.at = steps, done, at
            self.checkpointer, self.saved = types.SimpleNamespace(interval=1000), []

        def train(self):
            while self.should_continue_training():
                self.step += 1
                self.train_step(None)
                if self.step % self.checkpointer.interval == 0 or self.step == self.total:
                    self.saved.append(self.step)

        def train_step(self, _data):
            self.at(self.step)

        def should_continue_training(self):
            return self.step < self.total

        def close(self):
            self.closed = True

    def test_told_to_leave_its_own_checkpoint_is_made(self):
        under_arena = arena.torchtitan(self.Trainer, environment=PLAN)
        trainer = under_arena(10, at=lambda step: step == 4 and tell())
        with self.assertRaises(SystemExit) as end:
            trainer.train()
        self.assertEqual((end.exception.code, trainer.saved, trainer.closed), (99, [4], True))
        trainer = under_arena(10, done=4, at=lambda step: step == 10 and tell())
        trainer.train()
        self.assertEqual((trainer.step, trainer.saved, trainer._arena_run.step), (10, [10], 10))

    def test_without_its_checkpoints_it_dies_of_the_signal_as_ever(self):
        before = signal.signal(signal.SIGUSR1, signal.SIG_DFL)
        try:
            for name in ("enable", "enable_checkpoint"):
                handlers = []
                trainer = arena.torchtitan(self.Trainer, environment=PLAN)(2, at=lambda _, to=handlers: to.append(signal.getsignal(signal.SIGUSR1)))
                setattr(trainer.checkpointer, name, False)
                trainer.train()
                self.assertEqual(handlers, [signal.SIG_DFL] * 2)
        finally:
            signal.signal(signal.SIGUSR1, before)

    def test_a_trainer_of_another_loop_is_refused(self):
        with self.assertRaisesRegex(TypeError, "Old has no should_continue_training, close"):
            arena.torchtitan(type("Old", (), {"train_step": lambda self: None}))


class Megatron(unittest.TestCase):
    def test_its_own_handler_hears_of_the_signal(self):
        handler = types.SimpleNamespace(signals_received=lambda: [False])
        stand_in("megatron.training.global_vars", get_signal_handler=lambda: handler)
        run = arena.megatron(environment=PLAN)
        self.assertIs(arena.megatron(environment=PLAN), run)
        self.assertEqual([any(handler.signals_received()) for _ in range(3)], [False] * 3)
        tell()
        self.assertTrue(any(handler.signals_received()))
        self.assertEqual(run.step, 4)
        stand_in("megatron.training.global_vars", get_signal_handler=lambda: None)
        with self.assertRaisesRegex(RuntimeError, "--exit-signal-handler"):
            arena.megatron(environment=PLAN)


if __name__ == "__main__":
    unittest.main()
