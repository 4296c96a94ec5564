#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
# How long MiniZinc with Gecode takes to prove the optimum of instances of arrays (arena-array(5), class japsp, physical),
# beside our exact search: a disjunction for each two blocks of a device. Of both the time of the search alone, without
# starting a process or reading a file. Usage: array_minizinc.py ARENA SECONDS FILE...
import json
import re
import subprocess
import sys
import tempfile

REPEATED = 20


def blocks_of(instance):
    jobs, stages = instance["jobs"], instance["stages"]
    zero = [[0] * stages for _ in range(jobs)]
    table = {key: instance.get(key) or zero for key in ("fp", "bp", "recompute", "update", "switch", "comm_fwd", "comm_bwd")}
    for j in range(jobs):
        chain = [("F", s) for s in range(stages)]
        if any(table["bp"][j]):
            chain += [("B", s) for s in reversed(range(stages))]
        for kind, s in chain:
            work = table["fp"][j][s] if kind == "F" else table["recompute"][j][s] + table["bp"][j][s]
            hold = work if kind == "F" else work + table["update"][j][s]
            if kind == "F":
                transfer = table["comm_fwd"][j][s] if s + 1 < stages else 0
            else:
                transfer = table["comm_bwd"][j][s - 1] if s else 0
            yield {"job": j, "stage": s, "device": instance["device_of_stage"][s], "work": work, "hold": hold,
                   "transfer": transfer, "setup": table["switch"][j][s]}


def model_of(blocks):
    horizon = sum(b["hold"] + b["transfer"] + b["setup"] for b in blocks)
    lines = [f"array[0..{len(blocks) - 1}] of var 0..{horizon}: s; var 0..{horizon}: T;"]
    for y, b in enumerate(blocks):
        lines.append(f"constraint s[{y}] + {b['hold']} <= T;")
        if y and blocks[y - 1]["job"] == b["job"]:
            before = blocks[y - 1]
            lines.append(f"constraint s[{y - 1}] + {before['work'] + before['transfer']} <= s[{y}];")
        for x in range(y):
            a = blocks[x]
            if a["device"] != b["device"]:
                continue
            if (a["job"], a["stage"]) == (b["job"], b["stage"]):
                lines.append(f"constraint s[{x}] + {a['hold']} <= s[{y}];")
            elif a["job"] == b["job"]:
                lines.append(f"constraint s[{x}] + {a['hold'] + b['setup']} <= s[{y}];")
            else:
                lines.append(f"constraint s[{x}] + {a['hold'] + b['setup']} <= s[{y}] \\/ s[{y}] + {b['hold'] + a['setup']} <= s[{x}];")
    lines.append("solve :: int_search(s, smallest, indomain_min) minimize T;")
    lines.append('output ["T=\\(T)\\n"];')
    return "\n".join(lines)


def by_minizinc(instance, limit_s):
    with tempfile.NamedTemporaryFile("w", suffix=".mzn") as file:
        file.write(model_of(list(blocks_of(instance))))
        file.flush()
        answer = subprocess.run(["minizinc", "--solver", "gecode", "--statistics", "--time-limit", str(int(limit_s * 1000)),
                                 file.name], capture_output=True, text=True, check=False)
    lines = answer.stdout.splitlines()
    found = [int(line[2:]) for line in lines if line.startswith("T=")]
    took_s = sum(float(line.split("=")[1]) for line in lines if re.match("%%%mzn-stat: (init|solve)Time=", line))
    return "==========" in lines, found[-1] if found else None, took_s


def by_arena(arena, path, instance):
    """Solved once for the makespan, and many times more for the time: it is too short for a clock otherwise."""
    answer = subprocess.run([arena, "--json", "array", "solve", "--solver", "exact", "--limit", "60", path],
                            capture_output=True, text=True, check=True)
    one = json.loads(answer.stdout)["instances"][0]
    known = {key: value for key, value in instance.items() if not key.startswith("optimal")}
    known["optimal"] = {"physical": one["makespan"]}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump({"class": "japsp-large", "instances": [known] * REPEATED}, file)
        file.flush()
        command = [arena, "--json", "evaluate-array", "--limit", "60", file.name]
        answers = [subprocess.run(command, capture_output=True, text=True, check=True) for _ in range(5)]
    # Other processes of a busy machine are not ours to count: the least.
    total_s = min(json.loads(answer.stdout)["metrics"]["total_s"] for answer in answers)
    return one["proven"], one["makespan"], total_s / REPEATED


def main():
    arena, limit_s, paths = sys.argv[1], float(sys.argv[2]), sys.argv[3:]
    ratios = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            instance = json.load(file)
        proved, makespan, their_s = by_minizinc(instance, limit_s)
        our_proof, our_makespan, our_s = by_arena(arena, path, instance)
        if not our_proof or proved and makespan != our_makespan:
            sys.exit(f"{path}: MiniZinc {makespan} (proved: {proved}), ours {our_makespan} (proved: {our_proof})")
        ratio = their_s / our_s
        print(f"{instance['name']:30} gecode {'proves' if proved else 'open  '} {their_s:10.4f} s  ours {our_s:10.6f} s  {ratio:9.1f} times",
              flush=True)
        if proved:
            ratios.append((their_s, ratio))
    long = [ratio for took_s, ratio in ratios if took_s >= 0.01]
    print(f"proved by both: {len(ratios)}" + (f", least ratio {min(ratio for _, ratio in ratios):.1f}" if ratios else "")
          + (f"; of those that take Gecode 10 ms and more {min(long):.1f}" if long else ""))
    sys.exit(1 if long and min(long) < 20 else 0)


main()
