// SPDX-License-Identifier: GPL-2.0-or-later
// `arena-watch list|dump|clean`: the rings of this node's ranks, seen from outside. They are those
// of the user who asks; nobody else's are read. `arena-watch run` and `agent` are watch/agent's.
// Exit codes: 0 done, 1 there is no such ring, 2 usage, 3 a ring cannot be read.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "base/user_file.h"
#include "watch/agent/commands.h"
#include "watch/reader/ring_csv.h"
#include "watch/reader/ring_reader.h"

using namespace arena;
using namespace arena::watch;

namespace {

constexpr std::string_view usage =
    "usage: arena-watch list|dump|clean [--job JOB[.STEP]] [--rank N] [--pid N] [--timings] "
    "[RING...], arena-watch run [--mpi] [--] CMD...; arena-watch(1)";

struct Arguments {
    std::string command;
    std::vector<std::string> paths;
    std::optional<std::int64_t> job, step, rank, pid;
    bool timings = false;
};

Error misuse(std::string_view text) { return usage_error(fmt::format("{}; {}", text, usage)); }

Status take_job(Arguments& a, std::string_view text) {
    const std::vector<std::string_view> parts = split(text, '.');
    a.job = parse_integer(parts[0], 0, INT64_MAX);
    if (parts.size() > 1) a.step = parse_integer(parts[1], 0, UINT32_MAX);
    if (!a.job || parts.size() > 2 || (parts.size() == 2 && !a.step))
        return misuse(fmt::format("--job {} is no JOB or JOB.STEP", printable(text, 40)));
    return Done{};
}

Status take_value(Arguments& a, std::string_view option, std::string_view text) {
    if (option == "--job") return take_job(a, text);
    auto& value = option == "--rank" ? a.rank : a.pid;
    value = parse_integer(text, 0, UINT32_MAX);
    if (!value) return misuse(fmt::format("{} {} is no number", option, printable(text, 40)));
    return Done{};
}

Result<Arguments> parse_arguments(const std::vector<std::string_view>& words) {
    Arguments a;
    if (words.empty()) return misuse("say what to do");
    a.command = words[0];
    if (a.command != "list" && a.command != "dump" && a.command != "clean")
        return misuse(fmt::format("unknown command {}", printable(a.command, 40)));
    for (std::size_t i = 1; i < words.size(); ++i) {
        const std::string_view word = words[i];
        if (word == "--timings") {
            a.timings = true;
        } else if (word == "--job" || word == "--rank" || word == "--pid") {
            if (++i == words.size()) return misuse(fmt::format("{} needs a value", word));
            if (const Status taken = take_value(a, word, words[i]); !taken) return taken.error();
        } else if (word.starts_with("-")) {
            return misuse(fmt::format("unknown option {}", printable(word, 40)));
        } else {
            a.paths.emplace_back(word);
        }
    }
    return a;
}

bool is_wanted(const Arguments& a, const RingOwner& owner) {
    const auto is = [](const std::optional<std::int64_t>& wanted, std::uint64_t value) {
        return !wanted || static_cast<std::uint64_t>(*wanted) == value;
    };
    return is(a.job, owner.job) && is(a.step, owner.step) && is(a.rank, owner.rank) &&
           is(a.pid, owner.pid);
}

/// Those that were named; else those of the user's that fit. One that is found and cannot be read
/// is said and left out: another program's object must not hide the others.
Result<std::vector<RingReader>> open_rings(const Arguments& a) {
    std::vector<RingReader> rings;
    const bool named = !a.paths.empty();
    const auto paths = named ? Result<std::vector<std::string>>(a.paths) : find_rings(::geteuid());
    if (!paths) return paths.error();
    for (const std::string& path : *paths) {
        auto ring = RingReader::open(path, ::geteuid());
        if (!ring && named) return ring.error();
        if (!ring)
            fmt::print(stderr, "arena-watch: {}\n", ring.error().message());
        else if (is_wanted(a, ring->facts().owner))
            rings.push_back(std::move(ring).value());
    }
    if (rings.empty()) return no_error("there is no such ring on this node");
    return rings;
}

std::string state_of(const RingReader& ring) {
    return ring.alive() ? "runs" : ring.ended() ? "ended" : "died";
}

void list(const std::vector<RingReader>& rings) {
    fmt::print("JOB STEP RANK PID STATE CALLS RING\n");
    for (const RingReader& ring : rings) {
        const RingOwner& owner = ring.facts().owner;
        fmt::print("{} {} {} {} {} {} {}\n", owner.job, owner.step, owner.rank, owner.pid,
                   state_of(ring), ring.calls(), ring.path());
    }
}

void dump(std::vector<RingReader>& rings, bool timings) {
    fmt::print("{}", csv_head());
    for (RingReader& ring : rings) {
        const RingReader::Batch batch = ring.read(ring.facts().capacity);
        if (batch.lost > 0)
            fmt::print(stderr, "arena-watch: rank {}: {} older records are overwritten\n",
                       ring.facts().owner.rank, batch.lost);
        fmt::print("{}", csv_rows(ring, batch.records, timings ? Kind::timing : Kind::call));
    }
}

void clean(std::vector<RingReader>& rings) {
    std::size_t removed = 0;
    for (RingReader& ring : rings) {
        if (ring.alive()) continue;
        ring.remove();
        removed += 1;
    }
    fmt::print("{} of {} rings removed\n", removed, rings.size());
}

Status run(const std::vector<std::string_view>& words) {
    const std::vector<std::string_view> rest(words.begin() + (words.empty() ? 0 : 1), words.end());
    if (!words.empty() && words[0] == "agent") return agent_command(rest);
    if (!words.empty() && words[0] == "run") return run_command(rest);
    const auto arguments = parse_arguments(words);
    if (!arguments) return arguments.error();
    auto rings = open_rings(*arguments);
    if (!rings) return rings.error();
    if (arguments->command == "list")
        list(*rings);
    else if (arguments->command == "dump")
        dump(*rings, arguments->timings);
    else
        clean(*rings);
    return Done{};
}

int main_of(int argc, char** argv) {
    const std::vector<std::string_view> words(argv + 1, argv + argc);
    if (!words.empty() && (words[0] == "--help" || words[0] == "-h")) {
        fmt::print("{}\n", usage);
        return 0;
    }
    const Status done = run(words);
    if (done) return 0;
    fmt::print(stderr, "arena-watch: {}\n", done.error().message());
    return exit_code(done.error().code);
}

}  // namespace

int main(int argc, char** argv) {
    return arena::run_program("arena-watch", [&] { return main_of(argc, argv); });
}
