# SPDX-License-Identifier: GPL-2.0-or-later
"""arena.py's parts, one rank and no cluster: t0450 runs it."""
import ast
import contextlib
import os
import pathlib
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock
import arena

PLAN = {"ARENA_PLAN": "{}", "ARENA_PP": "1", "ARENA_DP": "1", "ARENA_TP": "1", "ARENA_MICRO_BATCH": "2", "ARENA_NUM_MICRO_BATCHES": "3",
        "ARENA_GLOBAL_BATCH": "6", "ARENA_SEQ_LENGTH": "16"}


class Ranks:
    """Stands for arena._World: one rank of several that nobody talks to."""
    backend = ""

    def __init__(self, size, rank=0, gathered=None):
        self.size, self.rank, self.gathered = size, rank, gathered

    def gather(self, value):
        return self.gathered or [value] * self.size

    def sum(self, values, group=None):
        return list(values)

    def share(self, value):
        return value

    def meet(self, group=None):
        pass


def run_of(world, *words, **options):
    """arena.start() on that rank."""
    with unittest.mock.patch.object(arena, "_World", lambda *_: world):
        return arena.start(*words, **{"environment": {}, **options})


def module(name="Module", **content):
    """Of a model, as far as arena looks at it."""
    return type(name, (), {"modules": lambda self: [self], "parameters": lambda self: iter(()), **content})()


def plan(world=1, batch=None, micro_batch=None, parallel=False, **env):
    return arena._Plan(env, world, batch, micro_batch, parallel)


class Words(unittest.TestCase):
    def parse(self, text):
        return arena._parse_word(text, 2, 8, 4)

    def test_good_ones(self):
        self.assertEqual(self.parse("split 3,5"), arena.Split([3, 5]))
        self.assertEqual(self.parse("park 0.5s"), arena.Park(0.5))
        self.assertEqual(self.parse("check 7 gpus"), arena.Check(7, True, []))
        self.assertEqual(self.parse("check 7 links 0>1,2>3|1>2"), arena.Check(7, False, [[(0, 1), (2, 3)], [(1, 2)]]))
        self.assertEqual(self.parse("check 7 gpus links 3>0"), arena.Check(7, True, [[(3, 0)]]))

    def test_what_cannot_be_obeyed_is_refused(self):
        for text in ("", "split", "split 4,5", "split 8,0", "split 2,2,4", "park 61s", "park 5", "park -1s", "check 7", "check x gpus", "check 7 gpus gpus",
                     "check 7 links 0>4", "check 7 links 0>1,1>2", "check 7 links 0>0", "check 7 links", "check 7 gpus links 0>1|", "swap 0 1",
                     "leave", "check 7 links " + "|".join(["0>1"] * 257)):
            with self.assertRaises(ValueError, msg=text):
                self.parse(text)


class Meeting(unittest.TestCase):
    def test_the_first_host_of_a_list(self):
        for nodes, host in (("n3", "n3"), ("a,b", "a"), ("n[3-5,7],m1", "n3"), ("n[01-02]-ib,b", "n01-ib"), ("r[1-2]n[3-4]", "r1n3"), ("r[1,3]n[03-04]x,y[1-2]", "r1n03x"), ("", "")):
            self.assertEqual(arena._first_host(nodes), host)

    def test_where_the_chief_is(self):
        step = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "1", "SLURM_RESTART_COUNT": "2", "SLURM_STEP_NUM_NODES": "2",
                "SLURM_STEP_NODELIST": "n[2-3]", "SLURM_LAUNCH_NODE_IPADDR": "10.0.0.1"}
        self.assertEqual(arena._meeting(step), ("7.1.2", ["n2", "10.0.0.1"]))
        self.assertEqual(arena._meeting({**step, "SLURM_STEP_NUM_NODES": "1"}), ("7.1.2", ["127.0.0.1"]))
        self.assertEqual(arena._meeting({"ARENA_WATCH_CHIEF": "h"}), ("0.0.0", ["h"]))

    def test_a_chief_that_is_found_behind_the_end_is_hung_up_on(self):
        key = bytes(16)
        with socket.socket() as server:
            server.bind(("127.0.0.1", 0))
            server.listen()
            link = arena._Link.__new__(arena._Link)
            with unittest.mock.patch.object(threading.Thread, "start"):
                link.__init__(key, "7.0.0", [])
            talk = threading.Thread(target=link._talk, args=((socket.AF_INET, socket.SOCK_STREAM, 0, "", server.getsockname()),), daemon=True)
            talk.start()
            with server.accept()[0] as chief, chief.makefile("rb") as lines:
                chief.sendall(b"arena-watch 1 " + b"a" * 32 + b"\n")
                own = arena._Seal(key, "up", "a" * 32).open(next(lines).rstrip(b"\n")).decode()
                link.close()   # before it is welcome
                chief.sendall(arena._Seal(key, "down", "a" * 32 + " " + own).seal(b"welcome"))
                chief.settimeout(20)
                self.assertEqual(lines.read(), b"")
            talk.join(20)
            self.assertTrue(link.heard.empty())

    def test_a_line_is_opened_once_and_in_order(self):
        key = bytes(16)
        writer, reader = arena._Seal(key, "up", "1 2"), arena._Seal(key, "up", "1 2")
        first, second = (writer.seal(b"text").rstrip(b"\n") for _ in range(2))
        self.assertIsNone(reader.open(second))
        self.assertEqual(reader.open(first), b"text")
        self.assertIsNone(reader.open(first))
        self.assertIsNone(reader.open(second[:-1] + b"T"))
        self.assertEqual(reader.open(second), b"text")

    def test_ports_are_eight_below_those_of_linux(self):
        ports = arena._ports(bytes(16), "7.0.0")
        self.assertEqual(len(set(ports)), 8)
        self.assertTrue(all(10000 <= port < 20000 for port in ports))


class Plans(unittest.TestCase):
    def test_a_script_of_replicas_refuses_any_other_plan(self):
        for name, value in (("PP", "2"), ("TP", "2"), ("CP", "2"), ("EP", "2"), ("VPP", "2"), ("ZERO_STAGE", "1"), ("RECOMPUTE", "full")):
            with self.assertRaisesRegex(RuntimeError, f"ARENA_{name}={value}: submit with --arena-launcher=ddp"):
                plan(2, **{**PLAN, "ARENA_" + name: value})

    def test_one_that_obeys_all_of_it_has_its_replicas(self):
        found = plan(8, parallel=True, **{**PLAN, "ARENA_PP": "2", "ARENA_DP": "2", "ARENA_TP": "2"})
        self.assertEqual([found.replica_of(rank) for rank in range(8)], [0, 0, 1, 1, 0, 0, 1, 1])

    def test_other_ranks_than_the_plan_has_are_refused(self):
        with self.assertRaisesRegex(RuntimeError, "2 ranks are not those of the plan"):
            plan(2, **PLAN)

    def test_the_plan_says_the_batch_and_outside_of_it_the_script(self):
        self.assertEqual((plan(1, 64, 8, **PLAN).batch, plan(1, 64, 8, **PLAN).total), (6, 3))
        self.assertEqual((plan(3, 64, 8).total, plan(3, 64, 8).even_counts()), (8, [3, 3, 2]))
        with self.assertRaises(ValueError):
            plan(1, 10, 3)
        with self.assertRaises(ValueError):
            plan(4, 8, 4)


class Orders(unittest.TestCase):
    def test_each_sample_of_a_step_goes_to_one_rank_however_they_are_dealt(self):
        def step(counts, seed, which):
            seen, first = [], 0
            for count in counts:
                stream = iter(arena._Order(50, seed, 24, 2, which, range(first, first + count)))
                seen += [sample for _ in range(count) for sample in next(stream)]
                first += count
            return seen
        for seed in (None, 5):
            whole = step([12], seed, 3)
            self.assertEqual(len(whole), 24)
            for counts in ([6, 6], [9, 3], [1, 5, 3, 3]):
                self.assertEqual(step(counts, seed, 3), whole)
        self.assertEqual(step([12], None, 3)[:3], [22, 23, 24])
        turn = [sample for which in range(3) for sample in step([12], 5, which)][:50]
        self.assertEqual(sorted(turn), list(range(50)))
        self.assertNotEqual(turn, list(range(50)))


class Clocks(unittest.TestCase):
    def test_what_waits_for_others_does_not_count(self):
        clock = arena._ComputeClock(False, False)
        clock.add(0, 50, 54, (False, True))   # buffers came from another rank
        clock.add(54, 55, 58, (True, True))
        clock.add(58, 59, 62, (True, True))
        clock.add(62, 63, 160, (True, False))
        self.assertEqual(clock.step_s(), 4)
        clock.add(0, 2, 100, (True, False))   # the only one of its step: its way forward is a quarter of a micro-batch
        self.assertEqual(clock.step_s(), 8)
        clock.add(0, 50, 100, (False, False))   # nothing new
        self.assertEqual(clock.step_s(), 8)

    def test_a_rank_alone_waits_for_nobody(self):
        clock = arena._ComputeClock(False, True)
        clock.add(0, None, 4, (False, False))
        self.assertEqual(clock.step_s(), 4)

    def test_what_is_not_known_is_not_said(self):
        clock = arena._ComputeClock(False, False)
        clock.add(0, 1, 4, (False, False))
        self.assertEqual(clock.step_s(), 0)


class Reports(unittest.TestCase):
    def test_the_steps_behind_the_first_two_are_told(self):
        with tempfile.TemporaryDirectory() as folder:
            command, said = os.path.join(folder, "arena"), os.path.join(folder, "said")
            with open(command, "w") as file:
                file.write(f'#!/bin/sh\necho "$*" >>{said}\n')
            os.chmod(command, stat.S_IRWXU)
            path, os.environ["PATH"] = os.environ["PATH"], folder
            try:
                reporter = arena._Reporter({"SLURM_JOB_ID": "1", "ARENA_PLAN": "{}"})
                for seconds in (9, 9, 0.25, 0.25):
                    reporter.add(seconds)
                reporter.tell(last=True)
                self.assertFalse(os.path.exists(said))
                reporter.add(0.25)
                os.environ["PATH"] = folder + ":" + path
                reporter.tell(last=True)
                reporter.tell(last=True)
                for _ in range(20):
                    reporter.add(0.5)
                reporter.tell(last=True)
            finally:
                os.environ["PATH"] = path
            with open(said) as file:
                self.assertEqual(file.read(), "report --iteration-s 0.25 --spread 0 --steps 3\n"
                                              "report --iteration-s 0.5 --spread 0 --steps 23\n")
            arena._Reporter({}).tell(last=True)


class Runs(unittest.TestCase):
    def test_outside_of_arena_it_counts_and_nothing_else(self):
        before = signal.getsignal(signal.SIGTERM)
        saved = []
        run = arena.start(saved.append, lambda: 3, batch=6, micro_batch=2, environment={})
        self.assertEqual(list(run.steps(7, save_every=2)), [3, 4, 5, 6])
        self.assertEqual(saved, [4, 6, 7])
        self.assertFalse(run.is_active)
        self.assertEqual(signal.getsignal(signal.SIGTERM), before)
        self.assertEqual((len(run.micro_batches), list(run.micro_batches), run.weight), (3, [0, 1, 2], 1 / 3))

    def test_told_to_leave_it_saves_and_ends_with_the_code_by_which_it_comes_back(self):
        for name, codes in (("USR1", {"ARENA_REQUEUE_CODE": "99"}), ("USR2", {"ARENA_REQUEUE_CODE": "42"}), ("TERM", {})):
            with tempfile.TemporaryDirectory() as folder:
                left, saved, done = os.path.join(folder, "left"), [], []
                env = {**PLAN, **codes, "ARENA_CHECKPOINT_SIGNAL": name, "ARENA_LEFT_FILE": left}

                def life():
                    run = arena.start(saved.append, lambda: saved[-1] if saved else None, environment=env)
                    for step in run.steps(5):
                        done.append(step)
                        if step == 2 and len(done) == 3:
                            os.kill(os.getpid(), getattr(signal, "SIG" + name))
                with self.assertRaises(SystemExit) as end:
                    life()
                self.assertEqual(end.exception.code, int(codes.get("ARENA_REQUEUE_CODE", 143)))
                self.assertTrue(os.path.exists(left))
                life()
                self.assertEqual((done, saved), ([0, 1, 2, 3, 4], [3, 5]))

    def test_behind_its_last_step_signals_are_the_scripts_again(self):
        heard = []
        before = [signal.signal(number, lambda *_: heard.append(1)) for number in (signal.SIGTERM, signal.SIGUSR1)]
        try:
            run = arena.start(lambda _: None, environment=PLAN)
            for _ in run.steps(1):
                pass
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGUSR1)
            self.assertEqual(len(heard), 2)
            run = arena.start(lambda _: None, environment=PLAN)
            with self.assertRaises(SystemExit):
                for _ in run.steps(2):
                    os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGTERM)   # again, before the process has ended
            self.assertEqual(len(heard), 2)
        finally:
            for number, handler in zip((signal.SIGTERM, signal.SIGUSR1), before):
                signal.signal(number, handler)

    def test_a_script_that_saves_nothing_dies_of_the_signal_as_ever(self):
        signal.signal(signal.SIGUSR1, signal.SIG_DFL)
        arena.start(environment=PLAN)
        self.assertEqual(signal.getsignal(signal.SIGUSR1), signal.SIG_DFL)

    def test_gradients_of_two_ranks_count_by_micro_batches(self):
        """By hand what DistributedDataParallel does: the mean over ranks of what each has summed up."""
        class Loss(float):
            def __mul__(self, weight):
                return Loss(float(self) * weight)

            def backward(self):
                summed.append(float(self))
        losses = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
        for counts in ([3, 3], [5, 1], [2, 4]):
            summed = []
            for rank in range(2):
                run = run_of(Ranks(2, rank), batch=24, micro_batch=4)
                run._obey_split(run._parse("split " + ",".join(map(str, counts))))
                self.assertEqual(len(run.micro_batches), counts[rank])
                for number in run.micro_batches:
                    run.backward(Loss(losses[number]))
            self.assertEqual(len(summed), 6)
            self.assertAlmostEqual(sum(summed) / 2, sum(losses) / len(losses))

    def test_micro_batches_are_timed_only_where_their_times_are_told(self):
        for most, steps in ((4096, 1), (1, 0)):
            with unittest.mock.patch.object(arena, "MOST_TIMED_RANKS", most):
                run = run_of(Ranks(2), batch=8, micro_batch=2)
                run._is_watched = True
                list(run.micro_batches)
                self.assertEqual(len(run._clock._now), 2 * steps)

    def test_ranks_that_meet_in_a_micro_batch_have_as_many_each(self):
        fsdp = type("FullyShardedDataParallel", (), {"modules": lambda self: [self], "parameters": lambda self: iter(())})
        inside = module(modules=lambda self: [self, module("SyncBatchNorm")])
        for model, env in ((fsdp(), {}), (type("Own", (fsdp,), {})(), {}), (module(set_requires_gradient_sync=lambda *_: None), {}), (inside, {}),
                           (None, {"ARENA_ZERO_STAGE": "2"}), (None, {"ARENA_ZERO_STAGE": "3"})):
            with self.assertRaisesRegex(ValueError, "3 micro-batches cannot be dealt evenly to 2 replicas"):
                run_of(Ranks(2), model=model, batch=12, micro_batch=4, environment=env)
            run = run_of(Ranks(2), model=model, batch=24, micro_batch=4, environment=env)
            with self.assertRaises(ValueError):
                run._parse("split 4,2")
        with self.assertRaisesRegex(ValueError, "splits=False"):
            run_of(Ranks(2), splits=False, batch=12, micro_batch=4)
        self.assertEqual(run_of(Ranks(2), model=module(), batch=12, micro_batch=4).counts, [2, 1])
        self.assertEqual(run_of(Ranks(2), model=module(), batch=24, micro_batch=4)._parse("split 4,2"), arena.Split([4, 2]))

    def test_whole_gradients_are_kept_only_where_the_plan_has_memory_for_them(self):
        def kept(env, **content):
            told = []

            def no_sync(_):
                told.append("no_sync")
                return contextlib.nullcontext()
            model = module(**{"no_sync": no_sync, "set_requires_gradient_sync": lambda _, last: told.append(last), **content})
            run = run_of(Ranks(2), model=model, parallel=True, batch=8, micro_batch=2, environment=env)
            list(run.micro_batches)
            return told
        ddp = {"will_sync_module_buffers": lambda _: False}
        planned = {**PLAN, "ARENA_DP": "2", "ARENA_NUM_MICRO_BATCHES": "2", "ARENA_GLOBAL_BATCH": "8"}
        with unittest.mock.patch.object(arena.Run, "_meet_chief"):
            for env in ({}, {**planned, "ARENA_ZERO_STAGE": "2"}, {**planned, "ARENA_ZERO_STAGE": "3"}):
                self.assertEqual((kept(env), kept(env, **ddp)), ([], ["no_sync"]))
            self.assertEqual(kept({**planned, "ARENA_ZERO_STAGE": "0"}), ["no_sync"])

    def test_ranks_that_have_loaded_different_steps_stop(self):
        run = run_of(Ranks(3, gathered=[40, 40, 0]), None, lambda: 40)
        with self.assertRaisesRegex(RuntimeError, "ranks 0, 1: step 40; rank 2: step 0"):
            run.resume()

    def test_lines_of_the_readme_train_outside_of_arena(self):
        with open(os.path.join(os.environ["ARENA_SRCDIR"], "README.md")) as file:
            lines = next(part for part in file.read().split("```") if "import arena" in part)
        before = """import torch
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
dataset = [(torch.ones(4) * i, torch.ones(1)) for i in range(100)]
loss_of = torch.nn.functional.mse_loss
first = [one.clone() for one in model.parameters()]
"""
        behind = "\nprint(run.step, all((a != b).any() for a, b in zip(first, model.parameters())))\n"
        env = {"WORLD_SIZE": "2", "PYTHONPATH": os.path.dirname(os.path.abspath(arena.__file__)), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
        alone = "arena: WORLD_SIZE is 2, but torch.distributed has no process group: this run goes on as one rank alone\n"
        with tempfile.TemporaryDirectory() as folder:
            for number, said, out in (("2", "", "2 True\n"), ("3", "arena: run.pt is of step 2: the run goes on from there\n", "3 True\n"),
                                      ("3", "arena: nothing left to do: run.pt is of step 3\n", "3 True\n")):
                self.assertEqual(lines.count("10_000"), 1)
                life = subprocess.run([sys.executable, "-c", before + lines.replace("10_000", number) + behind], cwd=folder, env=env,
                                      capture_output=True, text=True)
                self.assertEqual((life.stdout, life.stderr), (out, alone + said))

    def test_a_group_of_its_own_is_made_when_ranks_first_agree(self):
        dist, made = unittest.mock.MagicMock(), []
        dist.get_rank.return_value, dist.get_world_size.return_value, dist.get_backend.return_value = 0, 2, "gloo"
        dist.new_group.side_effect = lambda **_: made.append(1)
        with unittest.mock.patch.object(arena._World, "_distributed", staticmethod(lambda: dist)):
            run = arena.start(lambda _: None, environment={})
            self.assertEqual((list(run.steps(2)), made), ([0, 1], []))

    def test_a_backend_of_several_counts_by_the_one_of_gpus(self):
        dist = unittest.mock.MagicMock()
        torch = unittest.mock.MagicMock()
        with unittest.mock.patch.object(arena._World, "_distributed", staticmethod(lambda: dist)), \
                unittest.mock.patch.object(arena, "_torch", lambda: torch):
            dist.get_rank.return_value, dist.get_world_size.return_value = 0, 1
            for name, cuda, device in (("nccl", True, "cuda"), ("cpu:gloo,cuda:nccl", True, "cuda"), ("undefined", True, "cuda"),
                                       ("undefined", False, "cpu"), ("gloo", True, "cpu")):
                dist.get_backend.return_value, torch.cuda.is_available.return_value = name, cuda
                self.assertEqual(arena.start(environment={})._device, device, msg=name)

    def test_shuffle_false_is_the_order_of_the_data(self):
        run = arena.start(batch=4, micro_batch=2, environment={})
        for shuffle in (None, False):
            self.assertEqual([batch.tolist() for batch in run.batches(list(range(10)), shuffle=shuffle)], [[0, 1], [2, 3]])
        self.assertNotEqual([batch.tolist() for batch in run.batches(list(range(10)), shuffle=0)], [[0, 1], [2, 3]])

    def test_more_ranks_without_a_process_group_are_refused(self):
        with self.assertRaisesRegex(RuntimeError, "after torch.distributed.init_process_group"):
            arena.start(environment={**PLAN, "WORLD_SIZE": "2"})

    def test_a_chief_that_is_not_there_costs_a_line(self):
        env = {**PLAN, "ARENA_WATCH_KEY": "f" * 32, "ARENA_WATCH_CHIEF": "127.0.0.1"}
        arena._Chief.find_s, kept = 0.3, arena._Chief.find_s
        try:
            run = arena.start(environment=env)
        finally:
            arena._Chief.find_s = kept
        self.assertEqual(list(run.steps(2)), [0, 1])


class Workers(unittest.TestCase):
    """Of a DataLoader: Slurm signals them as it signals the rank."""
    script = """
import multiprocessing, os, subprocess, sys, arena
data = list(range(600))
if __name__ == "__main__":
    method, whose = sys.argv[1:]
    run = arena.start(lambda _: None)
    options = dict(num_workers=2, multiprocessing_context=method)
    if whose == "own":
        import torch
        batches = iter(torch.utils.data.DataLoader(data, batch_size=2, worker_init_fn=arena.worker_init_fn, **options))
    else:
        batches = run.batches(data, **options)
    for step in run.steps(100):
        for _ in run.micro_batches if whose == "own" else batches:
            if whose == "own":
                next(batches)
            if step == 2 and not run._told:
                pids = [str(process.pid) for process in multiprocessing.active_children()]
                for name in ("USR1", "TERM"):
                    subprocess.run(["kill", "-" + name, *pids, str(os.getpid())], check=True)   # by another process than their parent
        if step == 2:
            for process in multiprocessing.active_children():
                process.join(0.2)
            print(run._told, len(multiprocessing.active_children()))
"""

    def test_they_outlive_the_signal_and_end_with_the_rank(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "script.py")
            with open(path, "w") as file:
                file.write(self.script)
            env = {**PLAN, "ARENA_REQUEUE_CODE": "99", "PATH": os.environ["PATH"], "PYTHONPATH": os.environ["PYTHONPATH"], "PYTHONDONTWRITEBYTECODE": "1"}
            lives = [(words, subprocess.Popen([sys.executable, path, *words], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
                     for words in (("fork", "batches"), ("fork", "own"), ("spawn", "batches"))]
            for words, life in lives:
                out, error = life.communicate(timeout=120)
                self.assertEqual((life.returncode, out, error), (99, "True 2\n", "arena: told to leave: saved after step 3\n"), msg=words)


class Checkpoints(unittest.TestCase):
    class State:
        def __init__(self, value=0):
            self.value = value

        def state_dict(self):
            return {"value": self.value}

        def load_state_dict(self, state):
            self.value = state["value"]

    def test_it_comes_back(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "run.pt")
            save, load = arena.checkpoint(path, model=self.State(7))
            self.assertEqual(load(), 0)
            save(5)
            self.assertEqual(os.listdir(folder), ["run.pt"])
            other = self.State()
            self.assertEqual((arena.checkpoint(path, model=other)[1](), other.value), (5, 7))
            with self.assertRaisesRegex(RuntimeError, "has no optimizer"):
                arena.checkpoint(path, optimizer=other)[1]()

    def test_it_is_loaded_so_that_no_code_of_it_is_run(self):
        import torch
        real, told = torch.load, []

        def load(file, map_location=None, weights_only=False):
            """torch 2's, as far as it is asked."""
            told.append(weights_only)
            found = real(file, map_location=map_location)
            if weights_only and "path" in str(type(found).__module__):
                raise RuntimeError("not plain")
            return found
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.object(torch, "load", load):
            path = os.path.join(folder, "run.pt")
            save, load = arena.checkpoint(path, model=self.State([7, 0.5, {"a": torch.ones(1)}]))
            save(1)
            self.assertEqual((load(), set(told)), (1, {True}))
            with self.assertRaisesRegex(TypeError, "the state of model has a PosixPath"):
                arena.checkpoint(path, model=self.State([{"a": pathlib.Path("/")}]))

    def test_states_of_torch_come_back(self):
        import torch
        with tempfile.TemporaryDirectory() as folder:
            def objects():
                model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
                optimizer = torch.optim.AdamW(model.parameters())
                return {"model": model, "optimizer": optimizer, "schedule": torch.optim.lr_scheduler.StepLR(optimizer, 10),
                        "scaler": torch.cuda.amp.GradScaler(enabled=False)}
            first, second = objects(), objects()
            first["model"](torch.ones(3, 2)).sum().backward()
            first["optimizer"].step()
            path = os.path.join(folder, "run.pt")
            arena.checkpoint(path, **first)[0](3)
            self.assertEqual(arena.checkpoint(path, **second)[1](), 3)
            self.assertTrue(torch.equal(first["model"][0].weight, second["model"][0].weight))

    def test_no_link_is_followed_where_it_writes(self):
        with tempfile.TemporaryDirectory() as folder:
            path, aim = os.path.join(folder, "run.pt"), os.path.join(folder, "aim")
            os.symlink(aim, path + ".new")
            with self.assertRaises(OSError):
                arena.checkpoint(path, model=self.State(7))[0](1)
            self.assertFalse(os.path.exists(aim))

    def test_what_is_in_pieces_on_its_ranks_is_refused(self):
        sharded = type("FlatParameter", (), {})
        optimizer = type("Optimizer", (self.State,), {"param_groups": [{"params": [sharded()]}]})()
        module = type("FullyShardedDataParallel", (self.State,), {"parameters": lambda self: []})()
        for one in (optimizer, module):
            with self.assertRaisesRegex(TypeError, "is in pieces on its ranks"):
                arena.checkpoint("/nonexistent", it=one)


class File(unittest.TestCase):
    def test_it_is_python_3_8_and_needs_nothing(self):
        with open(arena.__file__) as file:
            tree = ast.parse(file.read(), feature_version=(3, 8))
        imported = {name.name.split(".")[0] for node in tree.body if isinstance(node, ast.Import) for name in node.names}
        self.assertLessEqual(imported, set(sys.stdlib_module_names))
        lean = subprocess.run([sys.executable, "-c", "import sys, arena; list(arena.start().steps(3)); print('torch' in sys.modules)"],
                              env={"PYTHONPATH": os.environ["PYTHONPATH"], "PYTHONDONTWRITEBYTECODE": "1"}, capture_output=True, text=True)
        self.assertEqual((lean.stdout, lean.stderr), ("False\n", ""))

    def test_a_step_of_a_job_costs_little(self):
        run = arena.start(environment=PLAN)
        costs = []
        for _ in run.steps(2000):
            costs.append(time.perf_counter())
        gaps = sorted(b - a for a, b in zip(costs, costs[1:]))
        self.assertLess(gaps[len(gaps) // 2], 1e-3)


if __name__ == "__main__":
    unittest.main()
