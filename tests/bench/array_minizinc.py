#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
# How long MiniZinc with Gecode takes to prove the optimum of instances of arrays (arena-array(5), class japsp, physical),
# beside our exact search: a disjunction for each two blocks of a device. Usage: array_minizinc.py ARENA SECONDS FILE...
import json
import subprocess
import sys
import tempfile
import time


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
        begin = time.time()
        answer = subprocess.run(["minizinc", "--solver", "gecode", "--time-limit", str(int(limit_s * 1000)), file.name],
                                capture_output=True, text=True, check=False)
        took_s = time.time() - begin
    proved = "==========" in answer.stdout
    found = [int(line[2:]) for line in answer.stdout.splitlines() if line.startswith("T=")]
    return proved, found[-1] if found else None, took_s


def by_arena(arena, path):
    begin = time.time()
    answer = subprocess.run([arena, "--json", "array", "solve", "--solver", "exact", "--limit", "60", path],
                            capture_output=True, text=True, check=True)
    one = json.loads(answer.stdout)["instances"][0]
    return one["proven"], one["makespan"], time.time() - begin


def main():
    arena, limit_s, paths = sys.argv[1], float(sys.argv[2]), sys.argv[3:]
    ratios = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            instance = json.load(file)
        proved, makespan, their_s = by_minizinc(instance, limit_s)
        our_proof, our_makespan, our_s = by_arena(arena, path)
        if not our_proof or proved and makespan != our_makespan:
            sys.exit(f"{path}: MiniZinc {makespan} (proved: {proved}), ours {our_makespan} (proved: {our_proof})")
        ratio = their_s / our_s
        print(f"{instance['name']:30} gecode {'proves' if proved else 'open  '} {their_s:8.2f} s  ours {our_s:6.3f} s  {ratio:7.1f} times", flush=True)
        if proved:
            ratios.append((their_s, ratio))
    long = [ratio for took_s, ratio in ratios if took_s >= 1]
    print(f"proved by both: {len(ratios)}; of those that took Gecode a second and more: {len(long)}"
          + (f", least ratio {min(long):.1f}" if long else "") + " (whole processes)")


main()
