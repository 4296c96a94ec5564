# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs describe-model many times in one process, for torch takes seconds to start. Each line of stdin is NAME WORDS...:
leaves NAME.yaml, NAME.err and NAME.rc.   usage: run.py DESCRIBE_MODEL"""
import contextlib
import importlib.machinery
import importlib.util
import shlex
import sys

sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("describe", sys.argv[1])
describe = importlib.util.module_from_spec(importlib.util.spec_from_loader("describe", loader))
loader.exec_module(describe)
for line in sys.stdin:
    name, *sys.argv[1:] = shlex.split(line)
    with open(name + ".yaml", "w") as out, open(name + ".err", "w") as err, \
            contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = describe.main()
        except SystemExit as leaves:
            code = leaves.code
    with open(name + ".rc", "w") as file:
        file.write(str(code))
