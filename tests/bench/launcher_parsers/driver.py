# SPDX-License-Identifier: GPL-2.0-or-later
"""The command line of launcher-parsers: plans in, refusals, differences and rows that no plan met out."""
import argparse
import collections
import contextlib
import importlib
import importlib.util
import io
import logging
import os
import re
import sys
import tempfile
import traceback
import warnings

from .models import ALL_MODELS, SIZES
from .plans import Planner, Words, load, save
from .rows import unmet

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
# launcher -> the module here that runs its framework
FRAMEWORKS = {
    "megatron": "megatron",
    "torchtitan": "torchtitan",
    "nemo": "nemo",
    "torchrun": "torchrun",
    "deepspeed": "deepspeed",
    "megatron-deepspeed": "megatron_deepspeed",
    "accelerate": "accelerate",
    "hf-trainer": "hf_trainer",
    "lightning": "lightning",
    "fsdp": "fsdp",
}


def parse(arguments):
    parser = argparse.ArgumentParser(prog="launcher-parsers")
    parser.add_argument("framework", choices=sorted(FRAMEWORKS))
    parser.add_argument("directory")
    parser.add_argument("--version", help="rows of the table [the checkout's version]")
    parser.add_argument("--build", default=os.environ.get("ARENA_BUILDDIR", os.path.join(SOURCE, "build")))
    parser.add_argument("--models", default=",".join(ALL_MODELS))
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--plans", metavar="FILE", help="keep the plans there, and take them from there the next time")
    parser.add_argument("--checker", metavar="FILE", help="a Python file in place of what is known of the framework")
    parser.add_argument("--tables", metavar="DIR", help="where the tables lie [src/request/launchers]")
    parser.add_argument("--also", default="", metavar="WORDS", help="arguments after those of the table")
    parser.add_argument("--all", action="store_true", help="print every refusal, not one of each kind")
    options = parser.parse_args(arguments)
    options.models, options.sizes = options.models.split(","), [int(size) for size in options.sizes.split(",")]
    if unknown := [name for name in options.models if name not in ALL_MODELS]:
        parser.error(f"no model {', '.join(unknown)}; there are {', '.join(ALL_MODELS)}")
    return options


def find_module(options):
    if not options.checker:
        return importlib.import_module(f"launcher_parsers.{FRAMEWORKS[options.framework]}")
    spec = importlib.util.spec_from_file_location("checker", options.checker)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def find_plans(options, version):
    if options.plans and os.path.exists(options.plans):
        plans = load(options.plans)
    else:
        with tempfile.TemporaryDirectory() as work:
            planner = Planner(os.path.join(options.build, "arena"), f"{options.framework}@{version}", work)
            plans = planner.all(options.models, options.sizes)
        if options.plans:
            save(options.plans, plans)
    return [plan for plan in plans if plan.model.name in options.models and plan.gpus in options.sizes]


def why(error, said):
    """One line: the parser's own, the message, or for an assertion without one its place."""
    text = " ".join(str(error).split())
    if isinstance(error, SystemExit):
        lines = [line for line in said.splitlines() if "rror" in line or "nrecognized" in line]
        return " ".join(lines[-2:]) or f"exit {text}"
    if text:
        return f"{type(error).__name__}: {text}"[:300]
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} at {os.path.basename(frame.filename)}:{frame.lineno}: {frame.line}"


def kind(text):
    """Refusals that differ in numbers alone are of one kind."""
    return re.sub(r"\d+", "N", text)[:160]


def outcome(checker, plan, words):
    """None when the framework runs the plan, else (refused or differs, one line)."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            got = checker.run(plan, words)
    except (Exception, SystemExit) as error:  # whatever it raises, it refuses
        return "refused", why(error, said.getvalue())
    if missing := set(checker.observes) - set(got):
        raise RuntimeError(f"the checker did not tell {sorted(missing)}")
    expected = checker.expected(plan) if hasattr(checker, "expected") else plan.expected()
    wrong = [f"{key} is {got[key]}, not {value}" for key, value in expected.items() if key in got and got[key] != value]
    return ("differs", "; ".join(wrong)) if wrong else None


class Tally:
    """What became of the plans."""

    def __init__(self):
        self.cases, self.runs, self.without = collections.defaultdict(list), 0, collections.Counter()

    def add(self, plan, bad):
        if bad is None:
            self.runs += 1
        else:
            self.cases[bad[0], kind(bad[1])].append((plan, bad[1]))

    def count(self, how):
        return sum(len(cases) for (what, _), cases in self.cases.items() if what == how)

    def show(self, everything):
        for (name, reason), number in self.without.items():
            print(f"skipped  {number:5}  plans of {name}: {reason}")
        for (how, _), cases in sorted(self.cases.items(), key=lambda item: (item[0][0], -len(item[1]))):
            for plan, text in cases if everything else cases[:1]:
                print(f"{how:8} {len(cases):5}  {plan}: {text}")


def try_all(checker, plans, words, also):
    tally, cannot = Tally(), getattr(checker, "cannot_train", lambda _: "")
    for plan in plans:
        if reason := cannot(plan.model):
            tally.without[plan.model.name, reason] += 1
            continue
        told, reason = words.of(plan)
        tally.add(plan, ("untold", reason) if told is None else outcome(checker, plan, told + also))
    return tally


def main(arguments):
    options = parse(arguments)
    if not os.path.isdir(options.directory):
        print(f"skipped: no checkout of {options.framework} at {options.directory}")
        return 0
    for program in ("arena", "arena-args"):
        if not os.access(os.path.join(options.build, program), os.X_OK):
            print(f"launcher-parsers: {options.build}/{program} is not built: run make, or name the build by --build",
                  file=sys.stderr)
            return 3
    os.environ.setdefault("ARENA_DATA_DIR", os.path.join(SOURCE, "etc"))
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    module = find_module(options)
    found = module.version(options.directory)
    version = options.version or found
    words = Words(os.path.join(options.build, "arena-args"), options.framework, version)
    plans = find_plans(options, version)
    checker = getattr(module, "checker", module.Checker)(options.directory)
    tally = try_all(checker, plans, words, options.also.split())
    tally.show(options.all)
    tables = options.tables or os.path.join(SOURCE, "src/request/launchers")
    for row in unmet(os.path.join(tables, f"{options.framework}.table"), words, plans):
        print(f"no plan met: {row}")
    bad = [tally.count(how) for how in ("refused", "differs", "untold")]
    print(f"{options.framework} {found} (rows of {version}): {len(plans)} plans, {tally.runs} run as priced, "
          f"{bad[0]} refused, {bad[1]} run as something else, {bad[2]} not told, "
          f"{sum(tally.without.values())} skipped")
    return 1 if sum(bad) or not plans else 0
