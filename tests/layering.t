#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
# The house stands as tests/rooms says: arrows point down only, in the sources and in what is linked; no include circle,
# no room of more than 25 code files, no prototype whose definition lies in another room, no function of more than 60
# lines or 7 parameters, no class of more than 15 public methods or 12 data members; no Slurm, CUDA, NCCL or MPI where it does not belong; and what a file uses of the standard
# library it includes, itself or by our headers; what `arena` links. Checks first that each check can fail.
import collections
import os
import re
import subprocess
import sys

top = os.environ.get("ARENA_SRCDIR") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
build = os.environ.get("ARENA_BUILDDIR", "")
MOST_FILES = 25
MOST_LINES = 60
MOST_PARAMETERS = 7
MOST_METHODS = 15  # public ones, but for constructors, destructors and assignments
MOST_MEMBERS = 12
CODE = (".cc", ".h", ".cu", ".cuh")
FOREIGN = re.compile(r"slurm/|src/(common|slurmctld|slurmd|plugins|interfaces)/|cuda|cublas|cudnn|nccl|nvml|hwloc|cblas|"
                     r"openblas|dnnl|mpi\.h")
# Headers of the standard library include each other, differently in each release of a compiler: what is found by way of
# one of them today is not found tomorrow.
STANDARD = {
    "algorithm": "(ranges::)?(sort|stable_sort|find|find_if|find_if_not|min|max|clamp|any_of|all_of|none_of|count|count_if|copy|copy_n|copy_if|"
                 "transform|reverse|unique|lower_bound|upper_bound|equal_range|binary_search|max_element|min_element|fill|fill_n|rotate|shuffle|"
                 "nth_element|partial_sort|is_sorted|equal|mismatch|next_permutation|push_heap|pop_heap|for_each|partition|adjacent_find)[(]",
    "array": "array<", "atomic": "atomic<", "bit": "(bit_cast|popcount|has_single_bit|countr_zero|bit_width|bit_ceil)[(<]",
    "cctype": "(isdigit|isspace|isalpha|isalnum|isxdigit|tolower|toupper)[(]", "charconv": "(from|to)_chars[(]", "chrono": "chrono::",
    "cmath": "(sqrt|pow|exp|log|log2|ceil|floor|round|lround|llround|isfinite|isnan|isinf|fabs|cbrt|hypot|fmod|ldexp|trunc|log1p|expm1)[(]",
    "condition_variable": "condition_variable", "cstdint": "u?int(8|16|32|64|max|ptr)_t", "cstdio": "(printf|fprintf|snprintf|fputs|fopen|puts|FILE)",
    "cstdlib": "(getenv|abort|exit|strtol|strtoul|strtod|malloc|free|atoi|_Exit)[(]",
    "cstring": "(memcpy|memset|memmove|memcmp|strlen|strcmp|strncmp|strerror|strchr|strrchr|strstr)[(]",
    "deque": "deque<", "filesystem": "filesystem::", "fstream": "[io]?fstream", "functional": "(function|hash|less|greater|reference_wrapper)<",
    "iostream": "(cout|cerr|cin|clog)", "limits": "numeric_limits<", "map": "(multi)?map<", "memory": "((unique|shared|weak)_ptr|make_(unique|shared))<",
    "mutex": "(mutex|lock_guard|unique_lock|scoped_lock|once_flag|call_once)", "numeric": "(accumulate|iota|reduce|gcd|lcm|partial_sum|inner_product)[(]",
    "optional": "(optional<|nullopt)", "random": "(mt19937|random_device|[a-z]+(_int|_real)?_distribution)", "set": "(multi)?set<", "span": "span<",
    "sstream": "[io]?stringstream", "string": "(string|to_string|stoi|stod)", "string_view": "string_view", "thread": "(j?thread|this_thread)",
    "tuple": "(tuple<|tie[(]|make_tuple)", "type_traits": "(is_same_v|enable_if_t|decay_t|remove_cvref_t|is_integral_v|conditional_t|invoke_result_t)",
    "unordered_map": "unordered_map<", "unordered_set": "unordered_set<", "utility": "(exchange[(]|pair<)",
    "variant": "(variant<|get_if<|holds_alternative<|monostate)", "vector": "vector<",
}
# Each row of the built-in models is held to a published count of parameters.
TABLES = ("planner/models/zoo.cc",)
# Classes beyond the limits: public methods, data members, why. The list only shrinks: who makes one smaller lowers its
# numbers, and no class is added but for an interface of another program's calls.
LARGE_CLASSES = {
    "arena::BlockedOffers": (16, 8, "what a round refuses, asked by every stage"),
    "arena::CheckBook": (14, 13, "to be a value, a pure step and effects in one place"),
    "arena::Exhaustive": (2, 15, "state of one search, which its steps share: nothing is allocated on the way"),
    "arena::Fabric": (17, 10, "facts of a network, read once and asked by every stage"),
    "arena::Foresight": (2, 14, "tables of one decision, hot"),
    "arena::Measurements": (12, 13, "to be a value, a pure step and effects in one place"),
    "arena::MemoryModel": (8, 19, "coefficients of one formula, each once"),
    "arena::MixedSearch": (4, 18, "state of one search, as Exhaustive"),
    "arena::NodeBook": (21, 16, "to be a value, a pure step and effects in one place"),
    "arena::HostJobs": (16, 0, "all that is done to users' jobs, for SlurmHost"),
    "arena::ObservingHost": (38, 3, "implements Host, as SlurmHost"),
    "arena::OfferBook": (15, 13, "to be a value, a pure step and effects in one place"),
    "arena::Packing": (31, 15, "what is placed, and undone, in one decision, hot"),
    "arena::PoolSearch": (8, 13, "state of one search, as Exhaustive"),
    "arena::Problem": (26, 18, "tables of one decision, asked by every stage, hot"),
    "arena::ProfileBook": (10, 14, "to be a value, a pure step and effects in one place"),
    "arena::ProfileStore": (16, 6, "to be a value, a pure step and effects in one place"),
    "arena::Scheduler": (24, 11, "to be a value, a pure step and effects in one place"),
    "arena::array::ExactProblem": (13, 14, "what an exact search asks of its problem, hot"),
    "arena::array::src/array/search/exact.cc::ExactSearch": (1, 15, "state of one search, as Exhaustive"),
    "arena::cuda::profiler/cuda/cuda_layer.cc::LayerBuilder": (1, 41, "the tensors of a layer, by their names in the literature"),
    "arena::cuda::profiler/cuda/cudnn_attention.cc::AttentionGraph": (8, 14, "cuDNN's descriptors of one graph"),
    "arena::plugin/sched/slurm/host_slurm_carrier.cc::SlurmHost": (39, 5, "implements Host: one method for each thing that is asked of slurmctld"),
    "arena::plugin/sched/slurm/sched_arena.cc::Plugin": (3, 19, "to be a value, a pure step and effects in one place"),
    "arena::profiler/comm/nccl_communicator.cc::NcclCommunicator": (4, 14, "buffers and handles of NCCL, which are released together"),
    "arena::sim::Simulation": (2, 32, "the state of a simulated cluster: to be a value and steps"),
    "arena::slowdown::PeriodFinder": (3, 23, "state of one pass over a stream, hot"),
    "arena::train::ChiefControl": (10, 16, "what a chief has told, asked between two steps"),
    "arena::train::Comm": (20, 0, "an interface: one method for each collective"),
    "arena::train::Device": (43, 2, "an interface: one method for each operation of a device"),
    "arena::train::Head": (3, 15, "buffers of the last stage of training"),
    "arena::train::Member": (14, 16, "what one sibling has, and is asked"),
    "arena::train::Role": (17, 19, "what a rank is in training, asked by every part"),
    "arena::train::Skeleton": (13, 15, "buffers that siblings share"),
    "arena::train::Stage": (3, 17, "buffers of one stage of training"),
    "arena::train::train/array/array_executor.cc::ArrayRank": (1, 16, "the parts of a rank of an array, made in their order"),
    "arena::train::train/comm/comm_mpi.cc::MpiComm": (19, 8, "implements Comm"),
    "arena::train::train/comm/comm_threads.cc::ThreadComm": (18, 3, "implements Comm"),
    "arena::train::train/cpu/cpu_device.cc::CpuDevice": (30, 4, "implements Device"),
    "arena::train::train/cuda/cuda_device.cc::CudaDevice": (35, 3, "implements Device"),
    "arena::train::train/run/trainer.cc::Rank": (1, 22, "the parts of a training rank, made in their order"),
    "arena::watch::Chief::State": (4, 39, "to be a value, a pure step and effects in one place"),
    "arena::watch::Culprits": (16, 4, "to be a value, a pure step and effects in one place"),
    "arena::watch::RankWatch": (12, 19, "to be a value, a pure step and effects in one place"),
    "arena::watch::Trainer": (25, 11, "to be a value, a pure step and effects in one place"),
}
number = failures = 0


def result(name, faults):
    global number, failures
    number += 1
    for fault in faults:
        print(f"# {fault}")
    failures += bool(faults)
    print(f"{'not ok' if faults else 'ok'} {number} - {name}", flush=True)


def sees(name, faults):
    result(f"the check sees {name}", [] if faults else ["it does not"])


def skip(name, reason):
    global number
    number += 1
    print(f"ok {number} - {name} # SKIP {reason}")


def read_rooms():
    with open(os.path.join(top, "tests/rooms"), encoding="utf-8") as file:
        rows = [line.split() for line in file if line.strip() and not line.startswith("#")]
    return {room: (library, allowed) for room, library, *allowed in rows}


def read_texts(paths):
    texts = {}
    for path in paths:
        with open(os.path.join(top, path), encoding="utf-8") as file:
            texts[path] = file.read()
    return texts


def read_files():
    """Path -> the headers that it includes in quotes and in <>."""
    paths = []
    for folder in ("src", "planner", "profiler", "train", "watch", "plugin", "cli", "tests/lab"):
        for path, _, names in os.walk(os.path.join(top, folder)):
            for name in names:
                if name.endswith(CODE):
                    paths.append(os.path.relpath(os.path.join(path, name), top))
    return {path: re.findall(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', text, re.M) for path, text in read_texts(paths).items()}


def room_of(path):
    return os.path.dirname(path)


def include_edges(files):
    for path, headers in files.items():
        for header in headers:
            target = header if header in files else "src/" + header
            if target in files:
                yield path, target


def arrows_astray(files, rooms):
    for path, target in include_edges(files):
        here, there = room_of(path), room_of(target)
        if here != there and there not in rooms.get(here, ("", []))[1]:
            yield f"{path} includes {target}: {here} may not use {there}"


def arrows_up(rooms):
    seen = set()
    for room, (_, allowed) in rooms.items():
        for other in allowed:
            if other not in seen:
                yield f"{room} uses {other}, which does not stand above it in tests/rooms"
        seen.add(room)


def circles(edges):
    users = collections.defaultdict(list)
    for path, target in edges:
        users[path].append(target)
    state = {}

    def visit(path, chain):
        state[path] = "open"
        for target in users[path]:
            if state.get(target) == "open":
                yield " -> ".join([*chain[chain.index(target):], target] if target in chain else [path, target])
            elif target not in state:
                yield from visit(target, [*chain, target])
        state[path] = "done"

    for path in list(users):
        if path not in state:
            yield from visit(path, [path])


def strangers(files, rooms):
    for path in files:
        if room_of(path) not in rooms:
            yield f"{path}: {room_of(path)} is no room of tests/rooms"


def full_rooms(files):
    for room, n in collections.Counter(map(room_of, files)).items():
        if n > MOST_FILES:
            yield f"{room} has {n} code files, {MOST_FILES} is the most"


def foreign_headers(files):
    """Slurm is for plug-ins, devices for the programs that measure and train."""
    for path, headers in files.items():
        for header in headers:
            known = header in files or "src/" + header in files
            if not known and path.startswith(("src/", "planner/", "cli/")) and FOREIGN.match(header):
                yield f"{path} includes {header}"
            if not known and path.startswith(("train/", "profiler/")) and header.startswith(("slurm/", "src/slurm")):
                yield f"{path} includes {header}"


def found_by_chance(files, texts):
    """What a file uses of the standard library and does not include, nor a header of ours that it includes."""
    ours, reached = collections.defaultdict(list), {}
    for path, target in include_edges(files):
        ours[path].append(target)

    def reach(path):
        if path not in reached:
            reached[path] = set(files[path])
            for target in ours[path]:
                reached[path] |= reach(target)
        return reached[path]

    for path, text in texts.items():
        code = re.sub(r"//[^\n]*", "", re.sub(r'"(?:\\.|[^"\\\n])*"', '""', text))
        used = set(re.findall(r"\bstd::((?:ranges::)?\w+(?:::|[(<])?)", code))
        included = reach(path)
        for header, words in STANDARD.items():
            if header not in included:
                for word in sorted({word.rstrip("(<:") for word in used if re.fullmatch(f"({words})([(<]|::)?", word)}):
                    yield f"{path} uses std::{word} and does not include <{header}>"


def internals(files, texts):
    """One header includes Slurm's internals, one asks which Slurm it is."""
    for path, headers in files.items():
        for header in headers:
            if re.match(r"src/(common|conmgr|interfaces|slurmctld|slurmd|stepmgr)/", header) and path != "plugin/common/slurm_internal.h":
                yield f"{path} includes {header}: plugin/common/slurm_internal.h is the place"
    for path, text in texts.items():
        if path != "plugin/common/slurm_compat.h" and re.search(r"SLURM_VERSION_NUM\(|SLURM_VERSION_NUMBER\s*[<>=!]|#\s*(el)?if.*SLURM_VERSION", text):
            yield f"{path} asks which Slurm it is: plugin/common/slurm_compat.h is the place"


def tags(paths, kinds="fp"):
    """(path, kind, scope::name, lines, signature) of what these files have of such kinds: functions."""
    text = subprocess.run(["ctags", "-f", "-", "--language-force=C++", f"--kinds-C++={kinds}", "--fields=KsSne", "--sort=no", "-L", "-"],
                          input="\n".join(paths), capture_output=True, text=True, check=True, cwd=top).stdout
    for line in text.splitlines():
        name, path, _, kind, *fields = line.split("\t")
        facts = dict(field.split(":", 1) for field in fields)
        scope = next((facts[key] for key in ("namespace", "class", "struct") if key in facts), "")
        lines = int(facts.get("end", facts["line"])) - int(facts["line"]) + 1
        yield path, kind, f"{scope}::{name}", lines, facts.get("signature", "()")


def parameters_of(signature):
    """Commas outside of brackets, of "(int, map<int, int>) const"."""
    inside, depth, commas = signature[1:signature.rindex(")")], 0, 0
    for c in inside:
        depth += (c in "<([{") - (c in ">)]}")
        commas += c == "," and depth == 0
    return commas + bool(inside.strip())


def too_large(entries):
    for path, kind, name, lines, signature in entries:
        if kind == "function" and lines > MOST_LINES:
            yield f"{name} of {path} has {lines} lines, {MOST_LINES} is the most"
        if (n := parameters_of(signature)) > MOST_PARAMETERS:
            yield f"{name} of {path} has {n} parameters, {MOST_PARAMETERS} is the most"


def sizes_of_classes(paths):
    """Class -> (its path, public methods, data members). Structs are values, and not counted."""
    text = subprocess.run(["ctags", "-f", "-", "--language-force=C++", "--kinds-C++=fpm", "--fields=KsSa", "--sort=no", "-L", "-"],
                          input="\n".join(paths), capture_output=True, text=True, check=True, cwd=top).stdout
    methods, members, homes = collections.defaultdict(set), collections.Counter(), {}
    for line in text.splitlines():
        name, path, pattern, kind, *fields = line.split("\t")
        facts = dict(field.split(":", 1) for field in fields if ":" in field)
        owner = re.sub(r"__anon\w+::", f"{path}::", facts.get("class", ""))
        short = owner.rsplit("::", 1)[-1]
        if not owner or (kind == "member" and re.search(r"\bstatic\b", pattern)):
            continue
        if kind == "member":
            members[owner] += 1
            homes[owner] = path
        elif facts.get("access") == "public" and name not in (short, f"~{short}") and not name.startswith("operator ="):
            methods[owner].add((name, facts.get("signature")))
            homes.setdefault(owner, path)
    return {owner: (path, len(methods[owner]), members[owner]) for owner, path in homes.items()}


def large_classes(sizes, known):
    for owner, (path, methods, members) in sorted(sizes.items()):
        most_methods, most_members, _ = known.get(owner, (0, 0, ""))
        if methods > max(MOST_METHODS, most_methods) or members > max(MOST_MEMBERS, most_members):
            yield (f"{owner} of {path} has {methods} public methods and {members} members; {max(MOST_METHODS, most_methods)} and "
                   f"{max(MOST_MEMBERS, most_members)} are the most")


def grown_small(sizes, known):
    """Entries that say more than there is."""
    for owner, (most_methods, most_members, why) in known.items():
        _, methods, members = sizes.get(owner, ("", 0, 0))
        if methods <= MOST_METHODS and members <= MOST_MEMBERS:
            yield f"{owner} is within the limits now: take it out of LARGE_CLASSES"
        elif (methods, members) != (most_methods, most_members) and methods <= most_methods and members <= most_members:
            yield f"{owner} has {methods} public methods and {members} members now: lower its numbers in LARGE_CLASSES"
        elif not why:
            yield f"{owner} needs a reason"


def numbers_in_a_row(texts):
    """Braces with numbers of which nothing says what each is. Lists are of one thing; a row of TABLES has its columns above it."""
    number = r"(?<![\w.])-?\d[\d'.]*(?:e[+-]?\d+)?"
    row = re.compile(r'\{\s*(?:"|[A-Za-z_]\w*[^{}=;.]*?,)[^{}=;.]*?(?:' + number + r"\s*,\s*){4,}" + number)
    for path, text in texts.items():
        for match in row.finditer(re.sub(r"//[^\n]*", "", text)):
            if path not in TABLES:
                yield f"{path}: name the members of {match.group(0)[:60]!r}"


def members_of(code, start):
    """What stands between the commas of the braces that open at `start`; nothing where they hold statements."""
    depth, begin, members = 0, start + 1, []
    for at in range(start, len(code)):
        c = code[at]
        depth += (c in "([{") - (c in ")]}")
        if c == ";":
            return []
        if depth == 0 or (c == "," and depth == 1):
            members.append(code[begin:at].strip())
            begin = at + 1
        if depth == 0:
            return members
    return []


def silent_members(texts):
    """One object of five members and more, some of which ({}, 0, true, "") say nothing of what they are. Of a row in a table
    its neighbours do."""
    silent = re.compile(r'\{\}|""|nullptr|true|false|-?[\d.]+')
    for path, text in texts.items():
        code = re.sub(r'//[^\n]*|"(?:[^"\\\n]|\\.)*"', lambda m: '""' if m.group(0) == '""' else "word", text)
        for match in re.finditer(r"(?<![{,\]>=])(?<=\S)\s*\{", code) if path not in TABLES else ():
            members = members_of(code, match.end() - 1)
            named = any(m.startswith((".", "{")) and m != "{}" for m in members)
            if len(members) >= 5 and not named and len({bool(silent.fullmatch(m)) for m in members}) == 2:
                yield f"{path}: name the members of {{{', '.join(members)[:80]}}}"


def defined_elsewhere(entries):
    """Prototypes of headers whose definitions all lie in other rooms. Two implementations of one interface are in its
    own room or in a program's (nccl_communicator.cc beside no_communicator.cc)."""
    declared, defined = collections.defaultdict(set), collections.defaultdict(set)
    for path, kind, name, *_ in entries:
        if name.startswith("::") or "__anon" in name:  # nobody else calls it by name
            continue
        if kind == "prototype" and path.endswith((".h", ".cuh")):
            declared[name].add(path)
        elif kind == "function":
            defined[name].add(path)
    for name, headers in sorted(declared.items()):
        homes = {room_of(path) for path in headers}
        rooms = {room_of(path) for path in defined[name]}
        if rooms and not rooms & homes:
            yield f"{name} of {', '.join(sorted(headers))} is defined in {', '.join(sorted(defined[name]))}"


def named_twice(entries):
    """Types of one name in several files: who links both has the members of one and the destructor of the other."""
    homes = collections.defaultdict(set)
    for path, _, name, *_ in entries:
        if not name.startswith("::") and "__anon" not in name and "/no_" not in path:  # no_x.cc is built in place of x.cc
            homes[name].add(path)
    for name, paths in sorted(homes.items()):
        if len(paths) > 1:
            yield f"{name} is defined in {', '.join(sorted(paths))}"


def read_units():
    """List of local.mk -> the sources that become one translation unit."""
    units = {}
    for folder, _, names in os.walk(top):
        if "local.mk" in names:
            with open(os.path.join(folder, "local.mk"), encoding="utf-8") as file:
                for unit, text in re.findall(r"^(\w+)_sources = ((?:.*\\\n)+)", file.read(), re.M):
                    units[unit] = [word for word in text.split() if word.endswith(".cc")]
    return units


def hidden(paths):
    """(path, name, its type and parameters) of what anonymous namespaces hold, as far as two files can have it at once."""
    text = subprocess.run(["ctags", "-f", "-", "--language-force=C++", "--kinds-C++=fvscgue", "--fields=KsS", "--sort=no", "-L", "-"],
                          input="\n".join(paths), capture_output=True, text=True, check=True, cwd=top).stdout
    for line in text.splitlines():
        name, path, _, kind, *fields = line.split("\t")
        facts = dict(field.split(":", 1) for field in fields if ":" in field)
        space = facts.get("namespace", facts.get("enum", "") if kind == "enumerator" else "")
        if re.search(r"__anon\w*$", space):
            names = re.sub(r"\b\w+(?=[,)=])|=[^,)]*", "", facts.get("signature", "")) if kind == "function" else ""
            yield path, name, names


def hidden_twice(entries, units):
    """One unit includes all of them: a name may stand in one, but for functions of different parameters."""
    found = collections.defaultdict(list)
    for path, name, parameters in entries:
        found[path].append((name, parameters))
    for unit, paths in sorted(units.items()):
        homes, kinds = collections.defaultdict(set), collections.defaultdict(set)
        for path in paths:
            for name, parameters in found[path]:
                homes[name, parameters].add(path)
                kinds[name].add((path, parameters != ""))
        for (name, parameters), where in sorted(homes.items()):
            if len(where) > 1:
                yield f"{name}{parameters} is hidden in {' and '.join(sorted(where))}, which {unit}_sources has both"
        for name, seen in sorted(kinds.items()):
            if len({is_function for _, is_function in seen}) > 1 and len({path for path, _ in seen}) > 1:
                yield f"{name} is a function and something else in {' and '.join(sorted({path for path, _ in seen}))} ({unit}_sources)"


def leaking(texts, units):
    """A using-directive of a whole file, or a macro, is one of all files behind it."""
    for unit, paths in sorted(units.items()):
        for path in paths:
            for line in re.findall(r"^(?:using namespace .*|#\s*define .*)", texts.get(path, ""), re.M):
                yield f"{path}: {line} reaches into the rest of {unit}_sources"


def symbols(archive, kinds):
    text = subprocess.run(["nm", "-P", "-g", archive], capture_output=True, text=True, check=True).stdout
    return {line.split()[0] for line in text.splitlines() if len(line.split()) > 1 and line.split()[1] in kinds}


def linked_astray(needs, gives, rooms):
    """What a room's objects need of ours lies in the rooms that it may use."""
    owner = {symbol: room for room, list_ in gives.items() for symbol in list_}
    for room, wanted in needs.items():
        for symbol in sorted(wanted):
            home = owner.get(symbol, room)
            if home != room and home not in rooms[room][1] and symbol not in gives[room]:
                yield f"{room} needs {symbol} of {home}"


def check_libraries(rooms):
    archives = {room: os.path.join(build, f".libs/libarena_{library}.a") for room, (library, _) in rooms.items() if library != "-"}
    archives = {room: path for room, path in archives.items() if os.path.exists(path)}
    if not archives:
        return skip("libraries need rooms below them only", "nothing is built here")
    gives = {room: symbols(path, "TDBR") for room, path in archives.items()}
    needs = {room: {s for s in symbols(path, "U") if "5arena" in s} for room, path in archives.items()}
    sees("what is linked from above", list(linked_astray({"src/base": {"x"}}, {"src/base": set(), "src/core": {"x"}}, rooms)))
    return result("libraries need rooms below them only", list(linked_astray(needs, gives, rooms)))


def check_spank():
    library, module = (os.path.join(build, ".libs", name) for name in ("libarena_spank.so", "spank_arena.so"))
    if not os.path.exists(library):
        return skip("SPANK's library holds no policy and no SQLite", "it is not built here")
    names, needs = (subprocess.run(words, capture_output=True, text=True, check=True).stdout
                    for words in (["nm", "-P", library], ["readelf", "--dynamic", module]))
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", needs)
    result("SPANK's library holds no policy and no SQLite", sorted(set(re.findall(r"sqlite3_\w+|\S*decide_\w+", names)))[:5])
    result("what each command of Slurm's loads needs the C library alone", [name for name in needed if not name.startswith(("libc.so", "ld-linux"))])


# Of the simulator, of a baseline, of the laboratory.
ELSEWHERE = re.compile(r"\S*(?:5arena3sim8simulate|decide_gavel|add_lab_|13compare_array|5array14check_schedule)\S*")


def check_arena():
    """Whoever runs jobs builds and starts none of it."""
    program, other = (os.path.join(build, name) for name in ("arena", "arena-simulation"))
    if not os.path.exists(program) or not os.path.exists(other):
        return skip("arena holds no simulator, no baseline and no laboratory", "it is not built here")
    names, known = (subprocess.run(["nm", "-P", path], capture_output=True, text=True, check=True).stdout for path in (program, other))
    sees("a simulator in a program", ELSEWHERE.findall(known))
    return result("arena holds no simulator, no baseline and no laboratory", sorted(set(ELSEWHERE.findall(names)))[:5])


def main():
    rooms, files = read_rooms(), read_files()
    texts = read_texts(files)
    sees("an arrow that tests/rooms does not have", list(arrows_astray({"src/base/a.h": ["core/b.h"], "src/core/b.h": []}, rooms)))
    result("files include what their rooms may use", list(arrows_astray(files, rooms)))
    sees("an arrow up", list(arrows_up({"low": ("-", ["high"]), "high": ("-", [])})))
    result("tests/rooms has no arrow up", list(arrows_up(rooms)))
    sees("a circle", list(circles([("a", "b"), ("b", "c"), ("c", "a")])))
    result("no file includes itself by way of others", list(circles(include_edges(files))))
    sees("a folder that is no room", list(strangers({"src/attic/a.h": []}, rooms)))
    result("every folder with code is a room", list(strangers(files, rooms)))
    sees("a full room", list(full_rooms({f"src/base/{n}.h": [] for n in range(MOST_FILES + 1)})))
    result(f"no room has more than {MOST_FILES} code files", list(full_rooms(files)))
    for header in ("slurm/slurm.h", "src/slurmctld/slurmctld.h", "cuda_runtime.h", "nccl.h", "mpi.h"):
        sees(header, list(foreign_headers({"planner/search/a.h": [header]})))
    result("Slurm, CUDA, NCCL and MPI stay where they belong", list(foreign_headers(files)))
    sees("another file with Slurm's internals", list(internals({"plugin/spank/a.h": ["src/common/list.h"]}, {})))
    for question in ("#if SLURM_VERSION_NUMBER\n", "if (SLURM_VERSION_NUMBER >= n)", "n < SLURM_VERSION_NUM(24, 5, 0)"):
        sees(f"another question of Slurm's version: {question.strip()}", list(internals({}, {"plugin/spank/a.h": question})))
    result("Slurm's internals and versions have one header each", list(internals(files, texts)))
    for text, header in (("std::uint64_t seed = 1;", "string"), ("std::sort(v.begin(), v.end());", "vector"), ("std::function<void()> f;", "map")):
        sees(f"{text} by way of <{header}>", list(found_by_chance({"src/base/a.h": [header]}, {"src/base/a.h": text})))
    result("what is used of the standard library is included", list(found_by_chance(files, texts)))
    sees("numbers without names", list(numbers_in_a_row({"src/core/a.cc": 'T t{"a", 1, 2.5, 3, 4e9, 5};'})))
    result("no aggregate has five numbers without their names", list(numbers_in_a_row(texts)))
    sees("members that say nothing", list(silent_members({"src/core/a.cc": 'f({id, text(s), "", {}, true});'})))
    result("no object of five members has some that say nothing", list(silent_members(texts)))
    try:
        entries = list(tags(sorted(files)))
    except FileNotFoundError:
        skip("prototypes are defined in their own rooms, functions are small", "ctags is not installed")
    else:
        away = [("src/base/a.h", "prototype", "arena::f", 1, "()"), ("src/core/a.cc", "function", "arena::f", 1, "()")]
        sees("a function that is declared elsewhere", list(defined_elsewhere(away)))
        result("prototypes are defined in their own rooms", list(defined_elsewhere(entries)))
        sees("a type that is defined twice", list(named_twice([("src/a.h", "s", "arena::T"), ("src/b.h", "s", "arena::T")])))
        result("a type is defined once", list(named_twice(tags(sorted(files), "scgu"))))
        at_most = f"(std::map<int, int> m, f g(int, int){', int' * (MOST_PARAMETERS - 2)}) const"
        result("a function at both limits is none too large", list(too_large([("a.cc", "function", "::f", MOST_LINES, at_most)])))
        sees("a long function", list(too_large([("a.cc", "function", "::f", MOST_LINES + 1, "()")])))
        sees("a parameter too many", list(too_large([("a.h", "prototype", "::f", 1, f"(int{', int' * MOST_PARAMETERS})")])))
        result(f"no function has more than {MOST_LINES} lines or {MOST_PARAMETERS} parameters", list(too_large(entries)))
        sizes = sizes_of_classes(sorted(files))
        result("the classes of this house are counted", [] if sizes.get("arena::Host", ("", 0, 0))[1] + len(sizes) > 100 else [str(len(sizes))])
        sees("a method too many", list(large_classes({"C": ("a.h", MOST_METHODS + 1, 0)}, {})))
        sees("a member too many", list(large_classes({"C": ("a.h", 0, MOST_MEMBERS + 1)}, {})))
        sees("a large class that grows", list(large_classes({"C": ("a.h", 0, MOST_MEMBERS + 3)}, {"C": (0, MOST_MEMBERS + 2, "reason")})))
        result(f"no class has more than {MOST_METHODS} public methods or {MOST_MEMBERS} members", list(large_classes(sizes, LARGE_CLASSES)))
        sees("an exception that is none", list(grown_small({"C": ("a.h", 1, 1)}, {"C": (16, 1, "reason")})))
        sees("an exception that allows more than there is", list(grown_small({"C": ("a.h", 17, 1)}, {"C": (18, 1, "reason")})))
        sees("an exception without a reason", list(grown_small({"C": ("a.h", 17, 1)}, {"C": (17, 1, "")})))
        result("the list of larger classes says no more than there is, and why", list(grown_small(sizes, LARGE_CLASSES)))
        units = read_units()
        sees("a name that two files of a unit hide", list(hidden_twice([("a.cc", "f", "()"), ("b.cc", "f", "()")], {"u": ["a.cc", "b.cc"]})))
        sees("a table and a function of one name", list(hidden_twice([("a.cc", "f", "()"), ("b.cc", "f", "")], {"u": ["a.cc", "b.cc"]})))
        result("two files of a unit hide no same name", list(hidden_twice(hidden(sorted(sum(units.values(), []))), units)))
        sees("a macro of a file in a unit", list(leaking({"a.cc": "#define A 1\n"}, {"u": ["a.cc"]})))
        result("no file of a unit has a using-directive or a macro for the others", list(leaking(texts, units)))
        result("what is in a unit exists", [path for paths in units.values() for path in paths if path not in texts])
    check_libraries(rooms)
    check_spank()
    check_arena()
    print(f"1..{number}")
    return 1 if failures else 0


sys.exit(main())
