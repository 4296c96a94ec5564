# SPDX-License-Identifier: GPL-2.0-or-later
"""Which rows of a launcher's table no plan met: a row is met when some plan is told otherwise, or cannot be told, once
the row is taken away. No rule of features is repeated here."""
import os
import re
import tempfile

from .plans import Words


def release(text):
    return tuple(int(part) for part in re.findall(r"\d+", text))


def holds(row, version):
    """Whether a row counts for a version: FROM <= version < BEFORE; "-" is no bound."""
    start, end = row.split()[:2]
    return (start == "-" or release(start) <= release(version)) and (end == "-" or release(version) < release(end))


def rows_of(text, version):
    """(line number, line) of the rows that count."""
    return [(i, line) for i, line in enumerate(text.splitlines())
            if re.match(r"(-|\d[\d.]*)\s+(-|\d[\d.]*)\s+\S", line) and holds(line, version)]


def samples(words, plans):
    """One plan of each way of being told: those that differ in numbers alone are alike."""
    kinds = {}
    for plan in plans:
        told, reason = words.of(plan)
        if told is not None:
            kinds.setdefault(re.sub(r"\d+", "N", " ".join(told)) + words.signature(plan), plan)
    return list(kinds.values())


def unmet(table, words, plans):
    if not os.path.exists(table):
        return []
    text, left, chosen = open(table, encoding="utf-8").read(), [], samples(words, plans)
    with tempfile.TemporaryDirectory() as work:
        for number, row in rows_of(text, words.version):
            lines = text.splitlines()
            del lines[number]
            path = os.path.join(work, os.path.basename(table))
            with open(path, "w", encoding="utf-8") as file:
                file.write("\n".join(lines) + "\n")
            without = Words(words.command[0], None, words.version, path)
            if all(without.of(plan) == words.of(plan) for plan in chosen):
                left.append(" ".join(row.split()))
    return left
