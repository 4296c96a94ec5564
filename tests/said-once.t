#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Facts that stood in several places, and disagreed, stand in one: a pattern for each, and where it may stand.
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99

rooms=(src planner plugin profiler train watch cli tests/lab)

# elsewhere TREE PATTERN PLACES: lines of code that match the pattern outside those files (both are extended REs).
elsewhere() {
    (cd "$1" && grep -rnE --include='*.cc' --include='*.h' --include='*.cu' --include='*.cuh' -e "$2" "${rooms[@]}" |
        grep -vE "^($3):" | grep -vE '^[^:]*:[0-9]+: *//')
}

# once NAME PATTERN PLACES [LINE]: LINE, in another file, would be found.
once() {
    is "$(elsewhere "$ARENA_SRCDIR" "$2" "$3")" '' "$1"
    printf '%s\n' "$4" >"$work/tree/src/other.cc"
    is "$(elsewhere "$work/tree" "$2" "$3")" "src/other.cc:1:$4" "- and another place would be found"
}

work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
mkdir -p "${rooms[@]/#/$work/tree/}"

# 65536 is also a width of models, a size of buffers and a number of threads.
once "GPUs of a job, and what is as many at most" "(integer|integers|Range)\(.*(gpus|nodes|stages?|degree|dp|tp|ranks|groups)\b.*\b65'?536\b" \
    'src/core/limits\.h' '    fields.integer("gpus", out.gpus, 1, 65536);'
once "samples of an iteration, tokens of a sample" 'batch.*(<< 24|16777216)|[Tt]okens.*(<< 24|16777216)' \
    'src/core/limits\.h|src/request/options\.cc' '    fields.integer("batch", out.batch, 1, std::int64_t{1} << 24);'
once "what a GPU type may be called" "c == '_' \|\| c == '[.-]' \|\| c == '[.-]'" \
    'src/core/limits\.cc' "    return c == '_' || c == '.' || c == '-';"
once "from GRES type to hardware entry" '\bgres_type == ' \
    'src/site/config\.cc' '        if (mapping.gres_type == type) return mapping.hardware;'
once "from an error's code to an exit code" 'ErrorCode::[a-z]+ *\? *[0-9a-z]|case ErrorCode::' \
    'src/base/result\.h' '    return error.code == ErrorCode::usage ? 2 : 3;'
once "the median of sorted samples" '\[[a-z_.]*(size\(\)|n) / 2\]' \
    'src/base/statistics\.h' '    const double median = samples[n / 2];'
once "waiting for one descriptor until a moment" '::poll\(&' \
    'src/base/file_descriptor\.h|tests/lab/inject/slow_process\.cc' '        ready = ::poll(&wait, 1, left);'
once "FNV-1a, which is for tables" '0x100000001b3|1099511628211' \
    'src/base/hash\.h' '        hash = (hash ^ byte) * 0x100000001b3;'
once "SplitMix64, but for a device's" '0xbf58476d1ce4e5b9U?\b' \
    'src/base/hash\.h|profiler/cuda/cuda_kernels\.cu' '    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;'
once "what is escaped in HTML" '"&(lt|amp|quot|#39);"' \
    'src/html/document\.cc' '            out += "&lt;";'
once "a count as a real number" '^ *(constexpr |inline |static )*double real\(' \
    'src/base/statistics\.h' 'double real(std::int64_t value) { return static_cast<double>(value); }'
once "starting another process" '\b(v?fork|posix_spawnp?|popen)\(' \
    'src/ipc/child\.cc' '    const pid_t child = ::fork();'
done_testing
