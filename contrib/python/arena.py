# SPDX-License-Identifier: GPL-2.0-or-later
"""What slurm-arena does for arena-train, for a PyTorch script of your own: arena.py(7).

    import arena
    run = arena.start(*arena.checkpoint("run.pt", model=model, optimizer=optimizer), model=model, batch=512, micro_batch=8)
    data = run.batches(dataset, shuffle=1)
    for step in run.steps(10_000):
        for x, y in data:                        # this rank's micro-batches of the step
            run.backward(loss_of(model(x), y))   # weighted: any split of them has the same gradient
        optimizer.step()
        optimizer.zero_grad()

In a job of Arena's it tells how long steps take, saves and leaves when the job is signalled, and obeys the chief of a
watched job between two steps: other micro-batch counts, parks, checks of devices and links. Elsewhere it counts, deals, saves and loads.
One file; it needs Python 3.8, and torch where ranks are several or devices are checked. What is said to the chief, and how, is
watch/wire's (frames.h, sealed_line.h, meeting.h): this file follows it."""
import collections
import contextlib
import ctypes
import datetime
import functools
import hashlib
import hmac
import inspect
import io
import json
import multiprocessing.resource_tracker
import multiprocessing.util
import os
import queue
import re
import runpy
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
import zlib

__version__ = "0.1.0"
__all__ = ["start", "watch", "checkpoint", "worker_init_fn", "Run", "hugging_face", "lightning", "accelerate", "torchtitan", "megatron"]

LONGEST_PARK_S = 60
LONGEST_CHECK_S = 60
MOST_PASSES = 256
MOST_TIMED_RANKS = 4096   # each adds a value to the sum at the end of a step


def _say(text):
    print("arena: " + text, file=sys.stderr, flush=True)


def _torch():
    import torch
    return torch


def _is_arenas(env):
    """Whether Arena has planned the job, or somebody watches it."""
    return "ARENA_PLAN" in env or "ARENA_WATCH_KEY" in env


def _number(env, name, otherwise):
    text = env.get(name, "")
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else otherwise


# ---- the signal to save and leave, which every process of a job gets --------------------------------------------------

def _signals_to_leave(env):
    return [getattr(signal, "SIG" + name, name) for name in dict.fromkeys((env.get("ARENA_CHECKPOINT_SIGNAL", "USR1"), "USR1", "TERM"))]


def worker_init_fn(_worker=0):
    """Of a DataLoader with workers: they outlive the signal, so that the step is done. run.batches() has it by itself."""
    _stay(_signals_to_leave(os.environ) if _is_arenas(os.environ) else ())


def _init_worker(own, signals, worker):
    _stay(signals)
    if own is not None:
        own(worker)


def _stay(signals):
    for number in signals:
        signal.signal(number, signal.SIG_IGN)


def _end_workers():
    """multiprocessing ends its daemons by SIGTERM at exit, and then waits for them without a limit: those that stay would hold it up."""
    workers, end = [one for one in multiprocessing.active_children() if one.daemon], time.monotonic() + 0.5
    if workers:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)   # torch's takes a worker that is killed for a failure
    for worker in workers:
        worker.terminate()
    for worker in workers:
        worker.join(max(end - time.monotonic(), 0))
        if worker.is_alive():
            worker.kill()


# ---- the chief of a watched job: watch/wire -------------------------------------------------------------------------

def _first_host(nodes):
    """Of a host list: "n[3-5,7],m1" -> "n3", "r[1-2]n[3-4]" -> "r1n3"."""
    first = re.match(r"(?:\[[^\]]*\]|[^,\[])*", nodes).group()
    return re.sub(r"\[([0-9]+)[^\]]*\]", r"\1", first)


def _meeting(env):
    """The name of the step's run, and the chief's hosts, to be tried in turn."""
    run = ".".join(str(_number(env, "SLURM_" + name, 0)) for name in ("JOB_ID", "STEP_ID", "RESTART_COUNT"))
    if env.get("ARENA_WATCH_CHIEF"):
        return run, [env["ARENA_WATCH_CHIEF"]]
    if _number(env, "SLURM_STEP_NUM_NODES", 1) < 2:
        return run, ["127.0.0.1"]
    return run, [host for host in (_first_host(env.get("SLURM_STEP_NODELIST", "")), env.get("SLURM_LAUNCH_NODE_IPADDR")) if host]


def _ports(key, run):
    """Eight, from 10000 to 19999, that follow from the job's key and the step."""
    ports, turn = [], 0
    while len(ports) < 8:
        digest = hmac.new(key, f"arena-watch ports {turn} {run}".encode(), hashlib.sha256).digest()
        for high, low in zip(digest[::2], digest[1::2]):
            port = 10000 + (high * 256 + low) % 10000
            if port not in ports and len(ports) < 8:
                ports.append(port)
        turn += 1
    return ports


class _Seal:
    """One direction of a connection: each line carries an HMAC of its number and text."""

    def __init__(self, key, direction, nonces):
        self._key = hmac.new(key, f"arena-watch 1 {direction} {nonces}".encode(), hashlib.sha256).digest()
        self._next = 0

    def _mac(self, text):
        return hmac.new(self._key, self._next.to_bytes(8, "big") + text, hashlib.sha256).hexdigest()[:32].encode()

    def seal(self, text):
        line = self._mac(text) + b" " + text + b"\n"
        self._next += 1
        return line

    def open(self, line):
        """None: not written by the other end, not the next one, or damaged."""
        mac, text = line[:32], line[33:]
        if line[32:33] != b" " or not hmac.compare_digest(mac, self._mac(text)):
            return None
        self._next += 1
        return text


class _Lost(Exception):
    pass


class _Link:
    """The connection to the chief: a thread finds it, reads it and finds it again. send() never waits."""
    longest_line, most_unsent = (1 << 20) + 33, 4 << 20

    def __init__(self, key, run, hosts):
        self.heard = queue.Queue()   # ("up" | "down", None) or ("frame", a dictionary)
        self._key, self._run, self._hosts = key, run, hosts
        self._lock = threading.Lock()
        self._socket = self._up = None
        self._unsent = bytearray()
        self._closed = False
        threading.Thread(target=self._keep, name="arena chief", daemon=True).start()

    def send(self, frame):
        text = json.dumps(frame, separators=(",", ":"), allow_nan=False).encode()
        with self._lock:
            if self._up is None:
                return
            self._unsent += self._up.seal(text)
            self._flush()

    def _flush(self):
        try:
            while self._unsent:
                del self._unsent[:self._socket.send(self._unsent, socket.MSG_DONTWAIT)]
        except BlockingIOError:
            if len(self._unsent) <= self.most_unsent:
                return
            self._hang_up()
        except OSError:
            self._hang_up()

    def _hang_up(self):
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)   # the thread reads the end

    def close(self):
        with self._lock:
            self._closed = True
            if self._socket is not None:
                self._hang_up()

    def _keep(self):
        pause_s = 0.5
        while not self._closed:
            for address in self._addresses():
                with contextlib.suppress(OSError, _Lost):
                    if self._talk(address):
                        pause_s = 0.5
                        break
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, 15)

    def _addresses(self):
        found = []
        for port in _ports(self._key, self._run):
            for host in self._hosts:
                with contextlib.suppress(OSError):
                    found += socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[:4]
        return found

    def _talk(self, address):
        """Until the connection ends. False: there was no chief."""
        family, kind, protocol, _, name = address
        with socket.socket(family, kind, protocol) as sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            sock.settimeout(2)
            sock.connect(name)
            if sock.getsockname() == sock.getpeername():
                return False   # its own port answers a port of one's own machine now and then
            sock.settimeout(5)
            lines = self._lines(sock)
            greeting = re.fullmatch(rb"arena-watch 1 ([0-9a-f]{32})", next(lines))
            if not greeting:
                return False
            nonce, own = greeting.group(1).decode(), secrets.token_hex(16)
            up, down = _Seal(self._key, "up", nonce), _Seal(self._key, "down", f"{nonce} {own}")
            sock.sendall(up.seal(own.encode()))
            if down.open(next(lines)) != b"welcome":
                return False
            sock.settimeout(None)
            with self._lock:
                if self._closed:
                    return False
                self._socket, self._up = sock, up
                self._unsent.clear()
            self.heard.put(("up", None))
            try:
                self._listen(lines, down)
            except (OSError, _Lost):
                pass
            finally:
                with self._lock:
                    self._socket = self._up = None
                self.heard.put(("down", None))
            return True

    def _listen(self, lines, down):
        for line in lines:
            text = down.open(line)
            if text is None:
                return
            try:
                frame = json.loads(text)
            except ValueError:
                return
            if isinstance(frame, dict):
                self.heard.put(("frame", frame))

    def _lines(self, sock):
        waiting = b""
        while True:
            line, end, rest = waiting.partition(b"\n")
            if end:
                waiting = rest
                yield line
                continue
            if len(waiting) > self.longest_line:
                raise _Lost
            more = sock.recv(1 << 16)
            if not more:
                raise _Lost
            waiting += more


# ---- words between two steps: train/run/control.h ---------------------------------------------------------------------

Split = collections.namedtuple("Split", "counts")
Park = collections.namedtuple("Park", "seconds")
Check = collections.namedtuple("Check", "id gpus passes")


def _parse_word(text, replicas, total, world):
    """Of "split 3,1", "park 5s", "check 7 gpus links 0>1,2>3|1>2"; a ValueError says why it cannot be obeyed."""
    words = text.split()
    if len(words) == 2 and words[0] == "split" and re.fullmatch(r"[0-9]{1,9}(,[0-9]{1,9})*", words[1]):
        counts = [int(n) for n in words[1].split(",")]
        if len(counts) != replicas or sum(counts) != total or min(counts) < 1:
            raise ValueError(f"{text}: this run deals {total} micro-batches to {replicas} replicas")
        return Split(counts)
    if len(words) == 2 and words[0] == "park" and re.fullmatch(r"[0-9]+(\.[0-9]+)?s", words[1]):
        if float(words[1][:-1]) <= LONGEST_PARK_S:
            return Park(float(words[1][:-1]))
    if len(words) >= 3 and words[0] == "check" and re.fullmatch(r"[0-9]{1,18}", words[1]):
        rest, gpus, passes = words[2:], False, []
        if rest[0] == "gpus":
            gpus, rest = True, rest[1:]
        if len(rest) == 2 and rest[0] == "links":
            passes, rest = [_parse_pass(one, text, world) for one in rest[1].split("|")], []
        if not rest and len(passes) <= MOST_PASSES:
            return Check(int(words[1]), gpus, passes)
    raise ValueError(f'"{text[:120]}" is none of: split N,N...; park SECONDSs (up to {LONGEST_PARK_S}); '
                     "check ID [gpus] [links RANK>RANK,...|RANK>RANK,...]")


def _parse_pass(text, word, world):
    """No rank is in two links."""
    links = [re.fullmatch(r"([0-9]{1,6})>([0-9]{1,6})", pair) for pair in text.split(",")]
    ends = [int(end) for link in links if link for end in link.groups()]
    if None in links or len(set(ends)) != len(ends) or max(ends) >= world:
        raise ValueError(f"{word[:120]}: no pairs of ranks of 0 to {world - 1}, none of them in two")
    return list(zip(ends[::2], ends[1::2]))


class _Chief:
    """What rank 0 knows of the job's chief. A chief that is not there, goes away or talks nonsense costs a line, never a step."""
    find_s, answer_s, between_steps_s = 5, 3, 0.002
    most_complaints, most_told, most_words = 10, 500, 64

    def __init__(self, link):
        self._link = link
        self.is_up = self.is_released = self.is_event_open = False
        self._answered = self._lost = False
        self._words = collections.deque()
        self._first = []          # frames that a chief is told first, whenever it is found
        self._complaints = self._told = 0
        self._told_step_at = 0.0

    @classmethod
    def find(cls, env):
        """None where nobody watches, or nobody answers for some seconds."""
        key = env.get("ARENA_WATCH_KEY", "")
        if not key:
            return None
        if not re.fullmatch("[0-9a-f]{32}", key):
            _say("ARENA_WATCH_KEY is no key of 32 hex digits: this run goes on unwatched")
            return None
        chief = cls(_Link(bytes.fromhex(key), *_meeting(env)))
        chief._serve_until(lambda: chief.is_up, cls.find_s)
        if chief.is_up:
            return chief
        chief.close()
        _say(f"no chief of this job (arena-watch) has answered for {cls.find_s} s: this run goes on unwatched")
        return None

    def introduce(self, hello, plan):
        self._first = [hello, plan]
        for frame in self._first:
            self._link.send(frame)

    def plan(self, **changes):
        self._first[1].update(changes)
        self._link.send(self._first[1])

    def wait_for_precheck(self):
        self._serve_until(lambda: self._answered or not self.is_up, self.answer_s)
        self._answered = True

    def words(self):
        self.serve()
        words, self._words = list(self._words), collections.deque()
        return words

    def step_done(self, frame):
        now = time.monotonic()
        if now >= self._told_step_at + self.between_steps_s:
            self._told_step_at = now
            self._link.send(frame)

    def send(self, frame):
        self._link.send(frame)

    def close(self):
        self._link.close()

    def complain(self, text):
        self._complaints += 1
        if self._complaints <= self.most_complaints:
            end = "; no more of these are told" if self._complaints == self.most_complaints else ""
            _say(f"a word of the chief is left out: {text}{end}")

    def serve(self, wait_s=0.0):
        with contextlib.suppress(queue.Empty):
            self._take(*(self._link.heard.get(timeout=wait_s) if wait_s else self._link.heard.get_nowait()))
            while True:
                self._take(*self._link.heard.get_nowait())

    def _serve_until(self, enough, most_s):
        end = time.monotonic() + most_s
        while not enough() and time.monotonic() < end:
            self.serve(min(0.02, most_s))

    def _take(self, what, frame):
        if what == "up":
            self.is_up = True
            for first in self._first:
                self._link.send(first)
        elif what == "down":
            if not self._lost:
                _say("the chief of this job (arena-watch) is gone: this run goes on unwatched")
            self._lost = True
            self.is_up = self.is_event_open = False   # a chief that is found again says what is open
            self._words.clear()
        elif frame.get("type") == "say":
            self._answered = True
            word = str(frame.get("word", ""))
            if word.startswith("park"):
                self.is_released = False   # a release is of the parks that were said before it
            if len(self._words) < self.most_words:
                self._words.append(word)
        elif frame.get("type") == "release":
            self.is_released = self._answered = True
        elif frame.get("type") == "event_open":
            self.is_event_open = frame.get("open") is True
        elif frame.get("type") == "tell" and self._told < self.most_told:
            self._told += 1
            _say("the chief: " + re.sub(r"[^\x20-\x7e]", "?", str(frame.get("text", "")))[:512])


# ---- arena report: train/run/report.h ---------------------------------------------------------------------------------

class _Reporter:
    """On rank 0: tells Arena how long the steps of the plan take, once there are enough, then ever less often."""
    warm_up, fewest, soon, first_pause_s, longest_pause_s = 2, 3, 10, 60, 3600

    def __init__(self, env):
        self._on = "SLURM_JOB_ID" in env and "ARENA_PLAN" in env
        self._seconds = collections.deque(maxlen=10_000)
        self._steps = self._told = 0
        self._next_s, self._pause_s = 0.0, self.first_pause_s
        self._running = None

    def add(self, seconds):
        self._steps += 1
        if self._steps == 1:
            self._first_s = time.monotonic()
        if self._steps > self.warm_up:
            self._seconds.append(seconds)
        if len(self._seconds) >= self.soon and time.monotonic() >= self._next_s:
            self.tell()

    def tell(self, last=False):
        """Waits where it is the last one: the process ends, and with it the step. A report that fails costs a line."""
        if not self._on or len(self._seconds) < self.fewest or self._steps == self._told:
            return
        self._reap(5)
        times = sorted(self._seconds)
        middle = times[len(times) // 2]
        spread = (times[len(times) * 3 // 4] - times[len(times) // 4]) / middle
        words = [self._command(), "report", "--iteration-s", f"{middle:.6g}", "--spread", f"{min(spread, 10):.4g}",
                 "--steps", str(len(times)), "--trained-s", f"{time.monotonic() - self._first_s:.3f}"]
        self._told = self._steps
        self._next_s, self._pause_s = time.monotonic() + self._pause_s, min(2 * self._pause_s, self.longest_pause_s)
        try:
            self._running = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        except OSError:
            _say(f"the iteration time is not reported: {words[0]} cannot be started")
            self._on = False
        if last:
            self._reap(5)

    def _reap(self, wait_s):
        if self._running is None:
            return
        try:
            self._running.wait(wait_s)
        except subprocess.TimeoutExpired:
            _say(f"the iteration time is not reported: no answer in {wait_s} s")
            self._running.kill()
            self._running.wait()
        self._running = None

    @staticmethod
    def _command():
        """On PATH, else of the installation that this file belongs to: PREFIX/share/slurm-arena/python."""
        beside = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../../bin/arena")
        return shutil.which("arena") or (os.path.realpath(beside) if os.access(beside, os.X_OK) else "arena")


# ---- ranks that agree -----------------------------------------------------------------------------------------------

class _World:
    """All ranks, by a gloo group of its own: it talks beside what the script sends, and never waits for a GPU."""

    def __init__(self, env):
        self.rank, self.size, self._group = 0, 1, None
        dist = self._distributed()
        if dist is None:
            if _number(env, "WORLD_SIZE", 1) > 1:
                if _is_arenas(env):
                    raise RuntimeError("arena.start() comes after torch.distributed.init_process_group()")
                _say(f"WORLD_SIZE is {env['WORLD_SIZE']}, but torch.distributed has no process group: this run goes on as one rank alone")
            return
        self.rank, self.size = dist.get_rank(), dist.get_world_size()

    def _own_group(self):
        """Made by whatever comes first that all ranks do. Who is gone is noticed by the script's own group: here a rank may wait long,
        as for a validation of rank 0 alone."""
        if self._group is None:
            self._group = self.new_group(datetime.timedelta(hours=24), "gloo")
        return self._group

    @staticmethod
    def _distributed():
        torch = sys.modules.get("torch")
        if torch is None or not torch.distributed.is_available() or not torch.distributed.is_initialized():
            return None
        return torch.distributed

    @property
    def backend(self):
        """"cpu:gloo,cuda:nccl" counts as nccl, and so does what is not chosen where there are GPUs."""
        dist = self._distributed()
        name = dist.get_backend() if dist else ""
        if name == "undefined":
            return "nccl" if _torch().cuda.is_available() else "gloo"
        return "nccl" if "nccl" in name else name

    def new_group(self, limit, backend):
        group = self._distributed().new_group(timeout=limit, backend=backend)
        _Recorder.own_groups.append(group)
        return group

    def sum(self, values, group=None):
        if self.size == 1:
            return list(values)
        torch = _torch()
        whole = torch.tensor(list(values), dtype=torch.float64)
        torch.distributed.all_reduce(whole, group=group or self._own_group())
        return whole.tolist()

    def meet(self, group=None):
        self.sum([0], group)

    def share(self, value):
        """Rank 0's, on all ranks."""
        if self.size == 1:
            return value
        box = [value]
        _torch().distributed.broadcast_object_list(box, src=0, group=self._own_group())
        return box[0]

    def gather(self, value):
        if self.size == 1:
            return [value]
        all_values = [None] * self.size
        _torch().distributed.all_gather_object(all_values, value, group=self._own_group())
        return all_values


# ---- checks of devices and links: train/run/hardware_check.h ------------------------------------------------------------

def _gpu_of_rank(env, local):
    """As Slurm counts the node's GPUs; -1: not known."""
    for name in ("SLURM_STEP_GPUS", "CUDA_VISIBLE_DEVICES"):
        gpus = env.get(name, "").split(",")
        if all(re.fullmatch("[0-9]{1,4}", gpu) for gpu in gpus):
            return int(gpus[0] if len(gpus) == 1 else gpus[local] if local < len(gpus) else -1)
    return -1


class _HardwareCheck:
    """The same product on every device, then the same bytes over named links, while training stands still. Where ranks compute on
    processors and a machine has fewer of them than its ranks have threads, they take turns: else they would measure each other."""
    sample_s, samples, batch_s = 0.06, 5, 0.002
    transfer_s, longest_s, first_bytes, most_bytes = 0.005, 0.1, 1 << 16, 64 << 20
    transfers, looks, most_left = 3, 5, 3
    late = "not all ranks came to it in time"

    def __init__(self, world, device, env, limit_s=LONGEST_CHECK_S):
        torch = _torch()
        self._world, self._device, self._limit = world, device, datetime.timedelta(seconds=limit_s)
        self._cuda = device.type == "cuda"
        kind = torch.cuda.get_device_name(device) if self._cuda else "cpu"
        local = _number(env, "LOCAL_RANK", _number(env, "SLURM_LOCALID", 0))
        self.hosts = world.gather({
            "node": env.get("SLURMD_NODENAME") or socket.gethostname(), "gpu": _gpu_of_rank(env, local), "type": kind[:64],
            "machine": _read("/proc/sys/kernel/random/boot_id") or socket.gethostname(),
            "processors": sorted(os.sched_getaffinity(0)), "threads": torch.get_num_threads()})
        self._turn_of, self._turns = self._find_turns()
        side, kind = (4096, torch.bfloat16) if self._cuda else (256, torch.float32)
        random = torch.Generator().manual_seed(1)
        self._a, self._b = (torch.rand(side, side, generator=random).sub_(0.5).to(device, kind) for _ in range(2))
        self._c = torch.empty_like(self._a)
        self._left = 0
        self._join()
        self._message = None
        if world.size > 1:
            self._choose_length()

    @property
    def link_bytes(self):
        return 0 if self._message is None else self._message.numel()

    def _find_turns(self):
        """Of each rank, and how many."""
        turn_of, turns, machines = [0] * len(self.hosts), 1, {}
        for rank, host in enumerate(self.hosts):
            machines.setdefault(host["machine"], []).append(rank)
        for ranks in machines.values() if not self._cuda else ():
            processors = {one for rank in ranks for one in self.hosts[rank]["processors"]}
            if len(processors) < sum(self.hosts[rank]["threads"] for rank in ranks):
                turns = max(turns, len(ranks))
                for turn, rank in enumerate(ranks):
                    turn_of[rank] = turn
        return turn_of, turns

    def _join(self):
        """Collective. Of its own, with a limit: who hangs in it is left behind with it."""
        self._meeting = self._links = None
        if self._world.size > 1:
            self._meeting = self._world.new_group(self._limit, "gloo")
            self._links = self._world.new_group(self._limit, "nccl") if self._cuda else self._meeting

    def run(self, check):
        """A dictionary as frames.h has it, the same on all ranks, but for a rank that gave up before others did."""
        start = time.perf_counter()
        found = {"type": "checked", "id": check.id, "gpus": [], "links": [], "seconds": 0.0, "failure": ""}
        if self._left == self.most_left:
            found["failure"] = "earlier ones were given up: no more are made"
            return found
        try:
            self._measure(check, found)
        except RuntimeError:   # gloo's limit
            found.update(gpus=[], links=[], failure=self.late)
        if self._world.sum([found["failure"] != ""])[0]:
            found.update(gpus=[], links=[], failure=self.late)
            self._left += 1
            self._join()
        found["seconds"] = time.perf_counter() - start
        return found

    def _measure(self, check, found):
        if check.gpus:
            mine = 0.0
            for turn in range(self._turns):
                self._world.meet(self._meeting)
                if self._turn_of[self._world.rank] == turn:
                    mine = self._product_ms()
            all_ms = self._world.sum([mine if rank == self._world.rank else 0 for rank in range(self._world.size)], self._meeting)
            found["gpus"] = [{"rank": rank, "ms": ms, "type": self.hosts[rank]["type"]} for rank, ms in enumerate(all_ms)]
        for one in check.passes:
            found["links"] += self._time_pass(one)

    def _wait(self):
        if self._cuda:
            _torch().cuda.synchronize(self._device)

    def _seconds_of(self, products):
        torch, start = _torch(), time.perf_counter()
        for _ in range(products):
            torch.mm(self._a, self._b, out=self._c)
        self._wait()
        return time.perf_counter() - start

    def _product_ms(self):
        """Median of samples, each the mean of its products."""
        batch = 1
        self._seconds_of(batch)
        while self._seconds_of(batch) < self.batch_s:
            batch *= 2
        means = []
        for _ in range(self.samples):
            products, start = 0, time.perf_counter()
            while time.perf_counter() - start < self.sample_s:
                self._seconds_of(batch)
                products += batch
            means.append(1e3 * (time.perf_counter() - start) / products)
        return sorted(means)[self.samples // 2]

    def _choose_length(self):
        pairs, length = [(rank, rank + 1) for rank in range(0, self._world.size - 1, 2)], self.first_bytes
        while True:
            self._message = _torch().zeros(length, dtype=_torch().uint8, device=self._device)
            looks = [[link["ms"] for link in self._time_pass(pairs)] for _ in range(self.looks)]
            least = [min(times) for times in zip(*looks)]
            most = min(1e3 * self.transfer_s / min(least), 1e3 * self.longest_s / max(least))
            if most <= 1 or length >= self.most_bytes:
                return
            wanted = length * most
            while length < self.most_bytes and length < wanted:
                length *= 2

    def _time_pass(self, links):
        parts = [links] if self._turns == 1 else [[link] for link in links]
        mine = {}
        for part in parts:
            self._world.meet(self._meeting)
            for link in part:
                if self._world.rank in link:
                    mine[link] = self._time_link(*link)
        self._world.meet(self._meeting)
        counted = [mine.get(link, (0, 0)) if self._world.rank == link[0] else (0, 0) for link in links]
        times = self._world.sum([value for pair in counted for value in pair], self._meeting)
        return [{"from": a, "to": b, "ms": times[2 * i], "latency_ms": times[2 * i + 1]} for i, (a, b) in enumerate(links)]

    def _time_link(self, a, b):
        """There and back: what comes back says that the message has arrived."""
        least = self._message[:1]

        def seconds(there):
            start = time.perf_counter()
            self._carry(there, a, b)
            self._carry(least, b, a)
            self._wait()
            return time.perf_counter() - start
        seconds(self._message)
        whole = sum(seconds(self._message) for _ in range(self.transfers)) / self.transfers
        trips = sorted(seconds(least) for _ in range(self.transfers))
        return 1e3 * whole, 1e3 * trips[self.transfers // 2] / 2

    def _carry(self, message, a, b):
        dist = _torch().distributed
        if self._world.rank == a:
            dist.send(message, b, group=self._links)
        else:
            dist.recv(message, a, group=self._links)


def _read(path):
    with contextlib.suppress(OSError), open(path) as file:
        return file.read(4096).strip()
    return ""


def _process_age_s():
    """Since the kernel started it; 0 where that is not to be had."""
    fields = _read("/proc/self/stat").rpartition(")")[2].split()
    if len(fields) < 20:
        return 0.0
    return max(time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf("SC_CLK_TCK"), 0.0)


# ---- how long this rank computes ------------------------------------------------------------------------------------

class _ComputeClock:
    """Seconds of computing per micro-batch, what a rank waits for others left out: a slow rank shows here, while all ranks of a
    synchronous step take equally long. DistributedDataParallel exchanges gradients as the last micro-batch of a step goes backward,
    and may share buffers as the first one goes forward. Where no other is left, one's way forward counts, and what share of a
    micro-batch that is."""
    usual_share = 1 / 3

    def __init__(self, cuda, alone):
        self._cuda, self._alone = cuda, alone
        self._now, self._steps = [], collections.deque()
        self._share, self._last = self.usual_share, 0.0

    def mark(self):
        if not self._cuda:
            return time.perf_counter()
        event = _torch().cuda.Event(enable_timing=True)
        event.record()
        return event

    def add(self, begin, forward, end, is_free):
        """begin, end of a micro-batch; between them the end of its way forward, or None. is_free: whether forward and backward are
        without an exchange."""
        self._now.append((begin, forward, end, (True, True) if self._alone else is_free))

    def _between(self, a, b):
        if not self._cuda:
            return b - a
        b.synchronize()
        return a.elapsed_time(b) / 1e3

    def step_s(self):
        """0: not known. On a GPU of the step before: its work is done by now, and nobody waits for it."""
        self._steps.append(self._now)
        self._now = []
        if self._cuda and len(self._steps) == 1:
            return 0.0
        marks = self._steps.popleft()
        whole = [(begin, forward, end) for begin, forward, end, is_free in marks if all(is_free)]
        ahead = [self._between(begin, forward) for begin, forward, _, is_free in marks if is_free[0] and forward is not None]
        if whole:
            seconds = sum(self._between(begin, end) for begin, _, end in whole)
            shares = [self._between(begin, forward) for begin, forward, _ in whole if forward is not None]
            if len(shares) == len(whole) and sum(shares) > 0:
                self._share = sum(shares) / seconds
            self._last = seconds / len(whole)
        elif ahead:
            self._last = sum(ahead) / len(ahead) / self._share
        return self._last


# ---- the run --------------------------------------------------------------------------------------------------------

class _Recorder:
    """The recorder that is preloaded in a watched rank (arena_watch.h): told where steps begin, and of communication that it does
    not see itself. Nothing where there is none."""
    operations = {"send": 0, "recv": 1, "broadcast": 3, "all_gather": 4, "all_gather_into_tensor": 4, "_all_gather_base": 4,
                  "reduce_scatter": 5, "reduce_scatter_tensor": 5, "_reduce_scatter_base": 5, "all_reduce": 6, "reduce": 8,
                  "all_to_all": 9, "all_to_all_single": 9, "gather": 10, "scatter": 11, "barrier": 12}
    sees_itself = ("", "nccl", "mpi")
    own_groups = []     # of arena.py: what goes through them is no part of training

    def __init__(self):
        library = ctypes.CDLL(None)
        self._step = getattr(library, "arena_watch_step_tokens", None)
        self._call = getattr(library, "arena_watch_call", None)
        self._names, self._seen = {}, {}

    def step(self, tokens):
        if self._step is not None:
            self._step(ctypes.c_uint64(tokens))

    def hook(self, backend, model):
        """Where no front sees the back-end: functions of torch.distributed are timed from when they are entered to when they are
        left, and so is the exchange of gradients of DistributedDataParallel, which calls none of them."""
        if self._call is None or backend in self.sees_itself:
            return
        self._time_functions()
        if isinstance(model, _torch().nn.parallel.DistributedDataParallel):
            self._time_gradients(model)

    def hook_all(self):
        """The same of a script that tells neither its back-end nor its model: each call and each model as it comes."""
        if self._call is None or not _torch().distributed.is_available():
            return
        parallel = _torch().nn.parallel.DistributedDataParallel
        if hasattr(parallel.forward, "arena_times"):
            return
        self._time_functions()
        forward, seen = parallel.forward, weakref.WeakSet()

        @functools.wraps(forward)
        def first_of_all(model, *words, **more):
            if model not in seen:
                seen.add(model)
                self._time_gradients(model)
            return forward(model, *words, **more)
        first_of_all.arena_times = True
        parallel.forward = first_of_all

    def _time_functions(self):
        dist = _torch().distributed
        for name, operation in self.operations.items():
            function = getattr(dist, name, None)
            if function is not None and not hasattr(function, "arena_times"):
                setattr(dist, name, self._timed(function, operation))

    def _time_gradients(self, model):
        if _torch().distributed.get_backend(model.process_group) == "gloo":
            with contextlib.suppress(RuntimeError):   # the script has a hook of its own
                model.register_comm_hook(model.process_group, self._exchange)

    def _is_seen(self, group):
        if group not in self._seen:
            name = str(_torch().distributed.get_backend(group))
            self._seen[group] = "nccl" in name or name in self.sees_itself
        return self._seen[group]

    def _timed(self, function, operation):
        @functools.wraps(function)
        def timed(*words, **more):
            began = time.monotonic_ns()
            result = function(*words, **more)
            group = more.get("group") or next((word for word in words if type(word).__name__.startswith("ProcessGroup")), None)
            if not any(group is own for own in self.own_groups) and not self._is_seen(group):
                peer = next((word for word in (*words[1:2], more.get("dst"), more.get("src")) if isinstance(word, int)), -1)
                peer = self._ranks(group).index(peer) if operation < 2 and peer >= 0 else -1
                waited = result is None or operation < 2   # else it goes on beside the caller
                self._note(operation, group, self._bytes_of(words), peer, time.monotonic_ns() - began if waited else 0)
            return result
        timed.arena_times = True
        return timed

    def _exchange(self, group, bucket):
        """As DistributedDataParallel does it without a hook."""
        whole = bucket.buffer()
        whole.div_(group.size())
        began = time.monotonic_ns()
        future = group.allreduce([whole]).get_future()

        def done(future):
            self._note(6, group, whole.numel() * whole.element_size(), -1, time.monotonic_ns() - began)
            return future.value()[0]
        return future.then(done)

    def _note(self, operation, group, size, peer, duration_ns):
        self._call(ctypes.c_uint32(operation), ctypes.c_uint64(self._name(group)), ctypes.c_uint64(size), ctypes.c_int32(peer),
                   ctypes.c_uint64(max(duration_ns, 0)))

    def _name(self, group):
        """The same on all ranks of the group, and another one for other ranks."""
        if group not in self._names:
            ranks = self._ranks(group)
            self._names[group] = 1 if len(ranks) == _torch().distributed.get_world_size() else 2 + zlib.crc32(repr(ranks).encode())
        return self._names[group]

    @staticmethod
    def _ranks(group):
        """In their order, as the recorder numbers a group's ranks."""
        core = _torch().distributed.distributed_c10d
        if group is None or group is core._get_default_group():
            return list(range(_torch().distributed.get_world_size()))
        return sorted(core.get_process_group_ranks(group) if hasattr(core, "get_process_group_ranks") else core._pg_group_ranks[group])

    @staticmethod
    def _bytes_of(words):
        """Of the first tensor, or of the first of its list."""
        first = words[0] if words else None
        while isinstance(first, (list, tuple)) and first:
            first = first[0]
        return first.numel() * first.element_size() if hasattr(first, "element_size") else 0


class _Plan:
    """What Arena has planned, in numbers; outside of Arena what the script says of itself."""

    def __init__(self, env, world, batch, micro_batch, parallel):
        self.is_given = "ARENA_PLAN" in env
        self.is_active = _is_arenas(env)
        size = {name: _number(env, "ARENA_" + name, 1) for name in ("DP", "PP", "TP", "CP")} if self.is_given else {}
        self.stages, self.shards = size.get("PP", 1), size.get("TP", 1) * size.get("CP", 1)
        if not parallel:
            self._need_replicas(env)
        if parallel and not self.is_given:
            self.stages, self.shards = parallel if isinstance(parallel, tuple) else (1, 1)
        self.replicas = world // (self.stages * self.shards)
        if self.replicas * self.stages * self.shards != world or (self.is_given and self.replicas != size["DP"]):
            raise RuntimeError(f"arena: {world} ranks are not those of the plan: dp {size.get('DP', self.replicas)}, "
                               f"pp {self.stages}, shards {self.shards}: start one rank for each GPU of the job")
        self.batch = _number(env, "ARENA_GLOBAL_BATCH", batch) if self.is_given else batch
        self.micro_batch = _number(env, "ARENA_MICRO_BATCH", micro_batch) if self.is_given else micro_batch
        self.total = self.replicas
        if self.is_given:
            self.total = self.replicas * _number(env, "ARENA_NUM_MICRO_BATCHES", 1)
        elif self.batch and self.micro_batch:
            self.total = self.batch // self.micro_batch
            if self.total * self.micro_batch != self.batch or self.total < self.replicas:
                raise ValueError(f"arena: {self.batch} samples are not dealt to {self.replicas} replicas in micro-batches of "
                                 f"{self.micro_batch}")
        self.has_whole_gradients = self.is_given and _number(env, "ARENA_ZERO_STAGE", 0) == 0   # on each rank
        self.tokens = _number(env, "ARENA_SEQ_LENGTH", 0) * (self.batch or 0)

    def _need_replicas(self, env):
        replicas = {"PP": "1", "TP": "1", "CP": "1", "EP": "1", "VPP": "1", "ZERO_STAGE": "0", "RECOMPUTE": "none"}
        for name, value in replicas.items():
            said = env.get("ARENA_" + name, value)
            if self.is_given and said != value:
                raise RuntimeError(f"arena: this script is data parallel and cannot run a plan of ARENA_{name}={said}: submit with "
                                   "--arena-launcher=ddp, or say arena.start(parallel=True) where it obeys all of the plan")

    def even_counts(self):
        each, more = divmod(self.total, self.replicas)
        return [each + (replica < more) for replica in range(self.replicas)]

    def replica_of(self, rank):
        """Ranks as Megatron-LM and arena-train number them: (stage * replicas + replica) * shards + shard."""
        return rank // self.shards % self.replicas


def _why_even(env, model):
    """Why each replica needs as many micro-batches as the others: ranks meet in each of them, and one that has fewer never comes to the
    rest. Empty: they meet behind the last one alone."""
    if _number(env, "ARENA_ZERO_STAGE", 0) >= 2:
        return f"ARENA_ZERO_STAGE={env['ARENA_ZERO_STAGE']} gathers parameters or shards gradients in each micro-batch"
    for module in model.modules() if hasattr(model, "modules") else ():
        names = {cls.__name__ for cls in type(module).__mro__}
        if "FullyShardedDataParallel" in names or hasattr(module, "set_requires_gradient_sync"):
            return "FSDP gathers parameters in each micro-batch"
        if "SyncBatchNorm" in names:
            return "SyncBatchNorm sums up over ranks in each micro-batch"
    return ""


class Run:
    """What start() returns. `rank` and `world`; `replica` of `replicas`, the rank's place among data parallel ranks; `step`, done so
    far; `batch` and `micro_batch`, samples of a step and of a micro-batch; `total`, micro-batches of a step; `counts`, of each
    replica now; `weight`, by which the mean loss of a micro-batch counts where gradients are averaged over replicas; `is_active`,
    whether Arena has planned this job or somebody watches it."""

    def __init__(self, save=None, load=None, model=None, batch=None, micro_batch=None, device=None, parallel=False,
                 splits=True, environment=os.environ):
        self._env, self._save, self._load, self._model = environment, save, load, model
        self._all = _World(environment)
        self._plan = plan = _Plan(environment, self._all.size, batch, micro_batch, parallel)
        self.rank, self.world, self.is_active = self._all.rank, self._all.size, plan.is_active
        self.replicas, self.replica = plan.replicas, plan.replica_of(self._all.rank)
        self.batch, self.micro_batch, self.total, self.counts = plan.batch, plan.micro_batch, plan.total, plan.even_counts()
        self.weight = self.replicas / self.total
        self.step, self._saved = 0, -1
        self._told, self._tokens, self._forward = False, 0, None
        self.signals, self._handlers = [], {}   # that tell it to leave; what the script did at them
        self._chief = self._check = None
        self._is_watched, self._splits = False, self._may_split(splits)
        self._device = self._find_device(device)
        self._clock = _ComputeClock(self._device == "cuda", self._all.size == 1)
        self._reporter = _Reporter(environment if self.rank == 0 else {})
        self._recorder = _Recorder()
        self._took_s = 0.0
        if self.is_active:
            self._hear_signals()
            self._recorder.hook(self._all.backend, model)
            self._meet_chief()

    # ---- what a script calls

    def steps(self, number, save_every=0):
        """Numbers of the steps to do, from 0, over all lives of the job: each once. Saves every so many steps, at the end, and
        where the job is told to leave: then the process ends, with the code by which it comes back."""
        self.resume()
        if self.step and self.rank == 0:
            kept = f"{getattr(self._load, 'path', 'the checkpoint')} is of step {self.step}"
            _say(f"nothing left to do: {kept}" if self.step >= number else f"{kept}: the run goes on from there")
        while self.step < number:
            self.begin()
            yield self.step
            leaving = self.end(self.step + 1 == number)
            if leaving or self.step == number or (save_every and self.step % save_every == 0):
                self.save()
            if leaving and self.step < number:
                self.leave()
        self.finish()

    @property
    def micro_batches(self):
        """This rank's of this step: their numbers among all of the step's, to be iterated over once in each step."""
        return _MicroBatches(self)

    def batches(self, dataset, shuffle=None, **options):
        """This rank's micro-batches of data, to be iterated over once in each step. Sample n of step s is number s * batch + n of
        the data set, again and again, whatever the number of ranks and however micro-batches are dealt. `shuffle`: a seed, for
        another order in each turn; None or False: none. `options` are those of torch's DataLoader."""
        return _Batches(self, dataset, None if shuffle is False else shuffle, options)

    def backward(self, loss, by=None):
        """Of the mean loss of a micro-batch. `by` in place of Tensor.backward: accelerator.backward."""
        if self._is_timed:
            self._forward = self._clock.mark()
        weighted = loss * self.weight
        weighted.backward() if by is None else by(weighted)

    def tokens(self, number):
        """So many more tokens of this step, on this rank: for batches of unequal length."""
        self._tokens += int(number)

    # ---- what a framework calls, which has a loop of its own

    def resume(self):
        """Loads, where there is something to be loaded; then what the chief asks before the first step."""
        if self._load is not None:
            self.step = self._saved = self._agreed(int(self._load() or 0))
        if self._is_watched:
            if self._chief and self._env.get("ARENA_WATCH_PRECHECK") != "0":
                self._chief.wait_for_precheck()
            self._obey(self._all.share(self._due_words()))

    def begin(self):
        if self.is_active:
            self._tokens = 0
            self._recorder.step(self._plan.tokens // self.world)
            self._began = time.perf_counter()

    def end(self, last=False):
        """A step is done. Collective. True, on all ranks: save() and leave()."""
        self.step += 1
        if not self.is_active:
            return False
        words = self._due_words()
        sums = [float(self._told), float(bool(words)), float(self._tokens)]
        if self._is_timed:
            mine = self._clock.step_s()
            sums += [mine if rank == self.rank else 0.0 for rank in range(self.world)]
        sums = self._all.sum(sums)
        self._tell_step(time.perf_counter() - self._began, sums[2], sums[3:])
        leaving = sums[0] > 0
        if sums[1] and not leaving and not last:
            self._obey(self._all.share(words))
        return leaving

    def save(self):
        """By the script's own function, on all ranks."""
        if self._save is None or self._saved == self.step:
            return
        start = time.perf_counter()
        self._save(self.step)
        if self.is_active:
            self._all.meet()   # nobody leaves before all have saved
        self._saved = self.step
        self._tell_restart(time.perf_counter() - start)

    def leave(self):
        """Ends this process, with the code by which an elastic job comes back."""
        self._close("ARENA_REQUEUE_CODE" in self._env)
        if self.rank == 0 and self._env.get("ARENA_LEFT_FILE"):
            open(self._env["ARENA_LEFT_FILE"], "w").close()   # launchers end with codes of their own
        self._all.meet()
        if self.rank == 0:
            _say(f"told to leave: saved after step {self.step}")
        raise SystemExit(_number(self._env, "ARENA_REQUEUE_CODE", 128 + signal.SIGTERM))

    def finish(self):
        """All steps are done."""
        self._close(True)
        self._give_signals_back()

    def _close(self, reports):
        """A job that is cancelled has no plan any more that could be reported. Who leaves may be signalled again."""
        if reports:
            self._reporter.tell(last=True)
        if self._chief:
            self._chief.close()

    # ---- inside

    @property
    def _is_timed(self):
        """Whether micro-batches are; end() takes what they took."""
        return self._is_watched and self.world <= MOST_TIMED_RANKS

    def _agreed(self, step):
        """The step that this rank has loaded, and every other."""
        ranks_of = collections.OrderedDict()
        for rank, each in enumerate(self._all.gather(step)):
            ranks_of.setdefault(each, []).append(rank)
        if len(ranks_of) == 1:
            return step
        told = "; ".join(f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks[:8]))}{' and more' if len(ranks) > 8 else ''}: step {each}"
                         for each, ranks in list(ranks_of.items())[:8])
        raise RuntimeError(f"arena: ranks have loaded different checkpoints ({told}): keep them where all nodes see the same files")

    def _may_split(self, splits):
        why = _why_even(self._env, self._model) or ("" if splits else "splits=False")
        if why and self.total % self.replicas:
            raise ValueError(f"arena: {self.total} micro-batches cannot be dealt evenly to {self.replicas} replicas, and have to be: {why}; "
                             f"choose a batch that {self.replicas} replicas x {self.micro_batch} samples divide")
        return not why

    def _find_device(self, device):
        if device is None and self._model is not None:
            device = next((parameter.device for parameter in self._model.parameters()), None)
        if device is None and self._all.backend == "nccl":
            device = "cuda"
        return str(device or "cpu").partition(":")[0]

    def _hear_signals(self):
        """A script that saves nothing dies of them as ever: Arena requeues it from whatever it keeps itself."""
        if self._save is None:
            return
        self.signals = _signals_to_leave(self._env)
        if isinstance(self.signals[0], str):
            raise RuntimeError(f"arena: ARENA_CHECKPOINT_SIGNAL={self.signals[0]} is the name of no signal")
        try:
            self._handlers = {number: signal.signal(number, self._hear) for number in self.signals}
        except ValueError:
            raise RuntimeError("arena.start() is called by the main thread: only it can take the signal to save") from None
        multiprocessing.util.Finalize(None, _end_workers, exitpriority=100)   # before multiprocessing's own

    def _give_signals_back(self):
        """To the handlers that the script had. One that was not set by Python cannot be had again."""
        for number, handler in self._handlers.items():
            if handler is not None and signal.getsignal(number) == self._hear:
                signal.signal(number, handler)
        self._handlers = {}

    def _hear(self, *_):
        self._told = True

    def _meet_chief(self):
        if self.rank == 0:
            self._chief = _Chief.find(self._env)
        self._is_watched = self._all.sum([self._chief is not None])[0] > 0
        if not self._is_watched:
            return
        torch = _torch()
        device = torch.device("cuda", torch.cuda.current_device()) if self._device == "cuda" else torch.device("cpu")
        self._check = _HardwareCheck(self._all, device, self._env)
        if not self._chief:
            return
        self._ready_s = self._took_s = _process_age_s()
        hosts = self._check.hosts
        # No gradients and no activations: what a change of roles would save. Roles stay as they are.
        self._chief.introduce(
            {"type": "trainer_hello", "nodes": [host["node"] for host in hosts], "gpus": [host["gpu"] for host in hosts]},
            {"type": "trainer_plan", "dp": self.replicas, "pp": self._plan.stages, "tp": self._plan.shards,
             "micro_batches": self.counts if self._splits else [1] * self.replicas, "gradient_bytes": 0, "activation_bytes": 0,
             "state_bytes": [], "link_bytes": self._check.link_bytes, "same_state_in_stage": False,
             "checkpoints": self._save is not None and self._env.get("ARENA_WATCH_ELASTIC") == "1", "restart_s": self._ready_s})

    def _is_as_planned(self):
        """What was worked around for its slowness says nothing of how long the plan's steps take."""
        return self.counts == self._plan.even_counts() and not (self._chief and self._chief.is_event_open)

    def _tell_step(self, seconds, tokens, compute_s):
        if self.rank != 0:
            return
        if self._is_as_planned():
            self._reporter.add(seconds)
        if not self._chief:
            return
        of_replica = [0.0] * self.replicas if compute_s else []
        for rank, each in enumerate(compute_s):
            replica = self._plan.replica_of(rank)
            of_replica[replica] = max(of_replica[replica], each)
        ranks_of_replica = self._plan.stages * self._plan.shards
        self._chief.step_done({"type": "step_done", "step": self.step, "end_ms": int(time.time() * 1000), "seconds": seconds,
                               "tokens": int(tokens / ranks_of_replica) or self._plan.tokens,
                               "micro_batch_s": of_replica if all(of_replica) else []})

    def _tell_restart(self, save_s):
        if self._chief and abs(self._ready_s + save_s - self._took_s) > 0.1 * self._took_s:
            self._took_s = self._ready_s + save_s
            self._chief.plan(restart_s=self._took_s)

    def _parse(self, text):
        splits = (self.replicas, self.total) if self._splits else (0, 0)
        return _parse_word(text, *splits, self.world)

    def _due_words(self):
        """On rank 0: what comes before the next step, as far as it can be obeyed."""
        good = []
        for text in self._chief.words() if self._chief else ():
            try:
                self._parse(text)
                good.append(text)
            except ValueError as error:
                self._chief.complain(str(error))
        return good

    def _obey(self, words):
        for text in words:
            start, word = time.perf_counter(), self._parse(text)
            {Split: self._obey_split, Park: self._obey_park, Check: self._obey_check}[type(word)](word)
            if self._chief:
                seconds = time.perf_counter() - start
                self._chief.send({"type": "obeyed", "step": self.step + 1, "word": text, "seconds": seconds})
                _say(f"{text.partition(' links ')[0]} before step {self.step + 1}, in {seconds:.3f} s")

    def _obey_split(self, word):
        self.counts = word.counts
        if self._chief:
            self._chief.plan(micro_batches=word.counts)

    def _obey_park(self, word):
        """By rank 0's clock; the others wait for it asleep."""
        end = time.monotonic() + word.seconds
        chief = self._chief
        while chief and chief.is_up and not chief.is_released and not self._told and time.monotonic() < end:
            chief.serve(0.01)
        self._all.meet()

    def _obey_check(self, word):
        found = self._check.run(word)
        if self._chief:
            self._chief.send(found)

    def _exchange(self, last):
        """(What keeps gradients on this rank until the last micro-batch; whether it goes forward, and backward, without an exchange.)
        Only DistributedDataParallel is known so well: others fetch parameters as they go. Gradients that FSDP keeps are whole, on each
        rank: that has memory only where the plan counts whole ones."""
        model = self._model
        if self.replicas == 1:
            return contextlib.nullcontext(), (True, True)
        is_known = hasattr(model, "will_sync_module_buffers")
        if not is_known and not self._plan.has_whole_gradients:
            return contextlib.nullcontext(), (False, False)
        if hasattr(model, "no_sync"):
            is_free = (is_known and not model.will_sync_module_buffers(), is_known and not last)
            return contextlib.nullcontext() if last else model.no_sync(), is_free
        if hasattr(model, "set_requires_gradient_sync"):
            model.set_requires_gradient_sync(last)
        return contextlib.nullcontext(), (False, False)

    @contextlib.contextmanager
    def _micro_batch(self, last):
        inside, is_free = self._exchange(last)
        if not self._is_timed:
            with inside:
                yield
            return
        self._forward = None
        begin = self._clock.mark()
        with inside:
            yield
        self._clock.add(begin, self._forward, self._clock.mark(), is_free)

    def _mine(self):
        first = sum(self.counts[:self.replica])
        return range(first, first + self.counts[self.replica])


class _MicroBatches:
    def __init__(self, run):
        self._run, self._numbers = run, run._mine()

    def __len__(self):
        return len(self._numbers)

    def __iter__(self):
        for number in self._numbers:
            with self._run._micro_batch(number == self._numbers[-1]):
                yield number


class _Order:
    """Numbers of samples, a list for each micro-batch of one rank, from a step on and without an end."""

    def __init__(self, size, seed, batch, micro_batch, step, mine):
        self._size, self._seed, self._batch, self._micro_batch = size, seed, batch, micro_batch
        self._step, self._mine = step, mine
        self._turns = collections.OrderedDict()

    def __iter__(self):
        step = self._step
        while True:
            for number in self._mine:
                first = step * self._batch + number * self._micro_batch
                yield [self._sample(first + i) for i in range(self._micro_batch)]
            step += 1

    def _sample(self, number):
        turn, place = divmod(number, self._size)
        if self._seed is None:
            return place
        if turn not in self._turns:
            torch = _torch()
            self._turns[turn] = torch.randperm(self._size, generator=torch.Generator().manual_seed(self._seed + turn))
            while len(self._turns) > 2:
                self._turns.popitem(last=False)
        return int(self._turns[turn][place])


class _Batches:
    def __init__(self, run, dataset, shuffle, options):
        if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
            raise TypeError("arena: run.batches() takes a data set with a length, whose samples have numbers; for a stream use "
                            "run.micro_batches, and deal it out by the numbers that these are")
        if not run.micro_batch or not run.batch:
            raise ValueError("arena: outside of Arena no plan says the batch: say it by arena.start(..., batch=512, micro_batch=8)")
        self._run, self._dataset, self._shuffle, self._options = run, dataset, shuffle, options
        self._stream, self._next = None, None

    def __iter__(self):
        """What a DataLoader has fetched ahead is of the counts as they were: it begins anew where they change."""
        run, mine = self._run, self._run._mine()
        if self._stream is None or self._next != (run.step, mine):
            order = _Order(len(self._dataset), self._shuffle, run.batch, run.micro_batch, run.step, mine)
            self._stream = self._fetch(order)
        self._next = None
        for number in mine:
            batch = next(self._stream)
            with run._micro_batch(number == mine[-1]):
                yield batch
        self._next = (run.step + 1, mine)

    def _fetch(self, order):
        """Signals wait for workers that are being started: they have nothing yet by which they stay."""
        options, signals = dict(self._options), self._run.signals
        if not options.get("num_workers") or not signals:
            return iter(_torch().utils.data.DataLoader(self._dataset, batch_sampler=order, **options))
        options["worker_init_fn"] = functools.partial(_init_worker, options.get("worker_init_fn"), signals)
        if options.get("multiprocessing_context") is not None or multiprocessing.get_start_method() != "fork":
            multiprocessing.resource_tracker.ensure_running()   # it would let SIGTERM through again as it starts
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
        try:
            return iter(_torch().utils.data.DataLoader(self._dataset, batch_sampler=order, **options))
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def start(save=None, load=None, **options):
    """The Run of this process. Called on all ranks, after torch.distributed.init_process_group(), by the main thread.
    save(step): keeps the state after so many steps; called on all ranks. load(): takes it back and returns the step, or nothing.
    model: the module whose gradients are exchanged (DistributedDataParallel, FSDP), once a step.
    batch, micro_batch: samples, where no plan says them. device: "cuda" or "cpu", where model does not say it.
    parallel: the script obeys all of the plan, not replicas alone. splits=False: each rank's count of micro-batches is fixed, and the
    same. It has to be where ranks meet in a forward or backward; of FSDP, ZeRO stages 2 and 3 and SyncBatchNorm that is known."""
    return Run(save, load, **options)


def watch():
    """Of a script that does nothing else for Arena: the recorder of a watched rank hears of what goes over gloo, and of nothing where
    the rank is not watched. To be called before functions of torch.distributed are imported by name."""
    _Recorder().hook_all()


def _run_script(words):
    """python3 -m arena [-m MODULE | SCRIPT] WORDS...: that program, watched, without a line of its own."""
    if not words or words[0] == "-h" or words == ["-m"]:
        sys.exit("usage: python3 -m arena SCRIPT WORDS... | -m MODULE WORDS...: runs it, and has its calls of torch.distributed "
                 "recorded where the rank is watched")
    is_module = words[0] == "-m"
    sys.argv = words[1:] if is_module else words
    with contextlib.suppress(ImportError):
        watch()
    if is_module:
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(words[0]))
        runpy.run_path(words[0], run_name="__main__")


def checkpoint(path, **objects):
    """(save, load) for start(): one file of the state_dict() of each object. Rank 0 writes it beside its name, then renames it."""
    def bare(one):
        """As it is without DistributedDataParallel: what it is resumed by may have other ranks, or one."""
        torch = _torch()
        return one.module if isinstance(one, torch.nn.parallel.DistributedDataParallel) else one

    def parts(one):
        """What tells that it is in pieces: parameters of an optimizer, tensors of a module."""
        if hasattr(one, "param_groups"):
            return [parameter for group in one.param_groups for parameter in group["params"]]
        return [one] + list(one.parameters()) if hasattr(one, "parameters") else []

    for name, one in objects.items():
        if any(type(part).__name__ in ("DTensor", "ShardedTensor", "FlatParameter", "FullyShardedDataParallel") for part in parts(one)):
            raise TypeError(f"arena.checkpoint: {name} is in pieces on its ranks, and this would keep one of them: give arena.start() a save "
                            "and a load of your own (torch.distributed.checkpoint)")

        strange = _not_plain(bare(one).state_dict())
        if strange:
            raise TypeError(f"arena.checkpoint: the state of {name} has a {strange}, which torch.load(weights_only=True) does not take back, for it could "
                            "run code of the file: give arena.start() a save and a load of your own")

    def save(step):
        torch = _torch()
        state = {name: bare(one).state_dict() for name, one in objects.items()}
        if torch.distributed.is_available() and torch.distributed.is_initialized() and torch.distributed.get_rank() != 0:
            return
        # No link that somebody has put there is followed.
        with os.fdopen(os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o666), "wb") as file:
            torch.save({"step": step, **state}, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(path + ".new", path)

    def load():
        if not os.path.exists(path):
            return 0
        state = _load_plain(path)
        missing = sorted({"step", *objects} - set(state))
        if missing:
            raise RuntimeError(f"arena: {path} has no {', '.join(missing)}: it is the checkpoint of another script")
        for name, one in objects.items():
            bare(one).load_state_dict(state[name])
        return state["step"]
    load.path = path
    return save, load


def _load_plain(file):
    """torch.load() that runs no code of the file, where torch can: before 2.0 weights_only is missing, or takes no floats."""
    return _torch().load(file, map_location="cpu", **({"weights_only": True} if _takes_plain() else {}))


def _takes_plain():
    torch, file = _torch(), io.BytesIO()
    if "weights_only" not in inspect.signature(torch.load).parameters:
        return False
    torch.save({"lr": 0.5}, file)
    file.seek(0)
    with contextlib.suppress(Exception):
        torch.load(file, weights_only=True)
        return True
    return False


def _not_plain(value):
    """The name of a type in it that torch.load() would not take back without running code; else nothing."""
    torch = _torch()
    if type(value) in (int, float, str, bool, type(None), torch.Tensor, torch.nn.Parameter):
        return None
    if type(value) in (dict, collections.OrderedDict):
        return _not_plain(list(value.keys())) or _not_plain(list(value.values()))
    if type(value) in (list, tuple):
        return next(filter(None, map(_not_plain, value)), None)
    try:
        file = io.BytesIO()
        torch.save(value, file)
        file.seek(0)
        _load_plain(file)
    except Exception:   # whatever pickle or torch has against it
        return type(value).__name__
    return None


def _sync_one(path):
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sync(folder):
    """All that is in it, then itself: a rename may reach the disk before what it names."""
    for within, _, names in os.walk(folder, topdown=False):
        for path in [os.path.join(within, name) for name in names] + [within]:
            _sync_one(path)


# ---- frameworks, which have a loop of their own -------------------------------------------------------------------------
# Their ranks' counts of micro-batches are fixed: such a run is watched, parked, checked and moved, but not dealt anew. That needs
# the loop of Run.steps(), which accelerate() has.

def _kept_by_framework(_step):
    """Who calls it has saved."""


def hugging_face(**options):
    """A callback for the Trainer of transformers: Trainer(..., callbacks=[arena.hugging_face()]). Told to leave, it has the Trainer
    save, and ends the process behind that. The script goes on by
    trainer.train(resume_from_checkpoint=get_last_checkpoint(output_dir))."""
    from transformers import TrainerCallback

    class ArenaCallback(TrainerCallback):
        run = None
        leaves = False

        def on_train_begin(self, args, state, control, **_):
            self.run = start(_kept_by_framework, lambda: state.global_step, splits=False, **{"parallel": True, **options})
            self.run.resume()

        def on_step_begin(self, args, state, control, **_):
            self.run.begin()

        def on_step_end(self, args, state, control, **_):
            self.leaves = self.run.end(state.global_step >= state.max_steps) and state.global_step < state.max_steps
            if self.leaves:
                control.should_save, control.should_evaluate = True, False   # it would evaluate first
            return control

        def on_save(self, args, state, control, **_):
            self.run.save()
            if self.leaves:
                self.run.leave()

        def on_train_end(self, args, state, control, **_):
            self.run.finish()
    return ArenaCallback()


def lightning(folder, **options):
    """A callback for the Trainer of Lightning: Trainer(..., callbacks=[kept := arena.lightning("run1")]), then
    trainer.fit(model, ckpt_path=kept.path()). Told to leave, it saves folder/arena.ckpt, and ends the process."""
    try:
        from lightning.pytorch import Callback
    except ImportError:
        from pytorch_lightning import Callback
    file = os.path.join(folder, "arena.ckpt")

    class ArenaCallback(Callback):
        run = None
        done = -1      # steps, as the Trainer counts them
        is_in_step = leaves = False

        def path(self):
            """Where it goes on from; None at the beginning."""
            return file if os.path.exists(file) else None

        def on_train_start(self, trainer, pl_module):
            def save(_step):
                trainer.save_checkpoint(file + ".new")
                if trainer.is_global_zero:
                    os.replace(file + ".new", file)
            os.makedirs(folder, exist_ok=True)
            self.done = trainer.global_step
            self.run = start(save, lambda: trainer.global_step, splits=False, **{"parallel": True, **options})
            self.run.resume()

        def on_train_batch_start(self, trainer, pl_module, *_, **__):
            if self.leaves:   # not before: the Trainer counts a batch as done behind on_train_batch_end
                # Said of the batch that is fetched and will not begin: were it kept, the next life would leave that batch out.
                trainer.fit_loop.epoch_loop.batch_progress.is_last_batch = False
                self.run.save()
                self.run.leave()
            if not self.is_in_step:
                self.run.begin()
            self.is_in_step = True

        def on_train_batch_end(self, trainer, pl_module, *_, **__):
            if trainer.global_step == self.done:
                return   # more micro-batches to come
            self.done, self.is_in_step = trainer.global_step, False
            self.leaves = self.run.end(trainer.global_step == trainer.max_steps)

        def on_train_end(self, trainer, pl_module):
            self.run.finish()
    return ArenaCallback()


def accelerate(accelerator, folder, model=None, **options):
    """A Run whose state accelerator.save_state() keeps, in folder/step-N, the newest two. model: as prepare() returned it.
    accelerator.gradient_accumulation_steps stays 1; the loop is that of Run.steps(), and
    run.backward(loss, accelerator.backward) stands for accelerator.backward(loss)."""
    def steps_kept():
        if not os.path.isdir(folder):
            return []
        found = (re.fullmatch(r"step-([0-9]+)", name) for name in os.listdir(folder))
        return sorted(int(name.group(1)) for name in found if name)

    kind = getattr(accelerator, "distributed_type", "")
    if str(getattr(kind, "value", kind)) == "DEEPSPEED":
        raise TypeError("arena.accelerate: DeepSpeed steps inside of backward, and scales the loss by itself, so that run.backward() and "
                        "optimizer.step() are not its loop: use the Trainer of transformers and arena.hugging_face()")

    def path(step):
        return os.path.join(folder, f"step-{step}")

    def clean():
        """Of what a kill has left."""
        for name in os.listdir(folder) if os.path.isdir(folder) else ():
            if re.fullmatch(r"step-[0-9]+\.new", name):
                shutil.rmtree(os.path.join(folder, name), ignore_errors=True)

    def save(step):
        if accelerator.is_main_process:
            clean()
        accelerator.wait_for_everyone()
        accelerator.save_state(path(step) + ".new")
        accelerator.wait_for_everyone()
        if not accelerator.is_main_process:
            return
        if not os.path.exists(path(step)):
            _sync(path(step) + ".new")
            os.replace(path(step) + ".new", path(step))
            _sync_one(folder)
        for old in steps_kept()[:-2]:
            shutil.rmtree(path(old), ignore_errors=True)

    def load():
        kept = steps_kept()
        if not kept:
            return 0
        accelerator.load_state(path(kept[-1]))
        return kept[-1]
    return start(save, load, model=model, **{"parallel": True, **options})


def torchtitan(trainer_class, **options):
    """The class of a Trainer of torchtitan, and one that is under Arena: Trainer = arena.torchtitan(Trainer). Its own checkpoints
    are what it goes on from (checkpoint.enable); without them it dies of the signal as ever."""
    missing = [name for name in ("train_step", "should_continue_training", "close") if not callable(getattr(trainer_class, name, None))]
    if missing:
        raise TypeError(f"arena.torchtitan: {trainer_class.__name__} has no {', '.join(missing)}: it is no Trainer of torchtitan, or of a "
                        "release whose loop does not ask should_continue_training() between steps")

    class ArenaTrainer(trainer_class):
        _arena_run = None
        _arena_leaves = False

        def train_step(self, *words, **more):
            if self._arena_run is None:
                done = self.step - 1
                own = self.checkpointer
                keeps = getattr(own, "enable", getattr(own, "enable_checkpoint", True))
                self._arena_run = start(_kept_by_framework if keeps else None, lambda: done, splits=False, **{"parallel": True, **options})
                self._arena_run.resume()
            run, last = self._arena_run, not trainer_class.should_continue_training(self)
            run.begin()
            result = super().train_step(*words, **more)
            self._arena_leaves = run.end(last) and not last
            if self._arena_leaves:
                self.checkpointer.interval = 1   # the Trainer saves behind each step that its interval divides
            return result

        def should_continue_training(self):
            if self._arena_leaves:
                self._arena_run.save()
                self.close()   # what is written beside training is written
                self._arena_run.leave()
            return super().should_continue_training()
    return ArenaTrainer


def megatron(handler=None, **options):
    """In Megatron-LM's model provider, which runs behind its initialization: arena.megatron(). It needs --exit-signal-handler: each
    iteration then asks all ranks for the signal, and so this run. Told to leave, Megatron-LM saves and ends with 0; the job script
    knows the rest (arena-args --elastic)."""
    if handler is None:
        from megatron.training.global_vars import get_signal_handler
        handler = get_signal_handler()
    if handler is None:
        raise RuntimeError("arena.megatron() needs --exit-signal-handler")
    if hasattr(handler, "arena_run"):
        return handler.arena_run   # a provider runs once for each chunk of a stage
    own = handler.signals_received
    run = start(_kept_by_framework, splits=False, **{"parallel": True, **options})
    handler.arena_run = run
    run.resume()
    run.begin()

    def signals_received():
        leaves = run.end()
        if leaves:
            run._close(True)
        run.begin()
        return [leaves] + list(own())
    handler.signals_received = signals_received
    return run


if __name__ == "__main__":
    sys.modules["arena"] = sys.modules["__main__"]
    _run_script(sys.argv[1:])
