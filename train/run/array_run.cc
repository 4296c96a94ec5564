// SPDX-License-Identifier: GPL-2.0-or-later
#include "train/run/array_run.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <optional>

#include "base/json.h"
#include "base/text.h"
#include "train/checkpoint/checkpoint.h"
#include "train/members/serving_desk.h"
#include "train/run/journal.h"
#include "train/run/plan.h"

namespace arena::train {
namespace {

Result<watch::WatchKey> read_key(const Environment& environment) {
    const auto key = watch::parse_watch_key(environment("ARENA_ARRAY_KEY").value_or(""));
    if (!key)
        return usage_error("is the key of the array, 32 hex digits, and is not set to that",
                           "ARENA_ARRAY_KEY");
    return *key;
}

Result<std::unique_ptr<ServingDesk>> open_desk(const std::string& where,
                                               const Environment& environment) {
    const auto key = read_key(environment);
    if (!key) return key.error();
    const auto address = read_array_address(where, "--array-serve");
    if (!address) return address.error();
    auto listening = listen_at(*address);
    if (!listening) return listening.error();
    return std::make_unique<ServingDesk>(MemberDesk(*key, std::move(listening).value()));
}

ArrayOptions options_of(const TrainOptions& run, const ArrayFlags& flags) {
    ArrayOptions o;
    o.plan = run.plan;
    o.limits = {.shape = run.shape, .batch = run.plan.global_batch(), .members = flags.members};
    o.threads = run.threads;
    o.buffers = flags.buffers;
    o.solve_s = flags.solve_s;
    o.idle_s = flags.idle_s;
    o.told = &told_to_leave;
    return o;
}

std::string absolute(const std::string& path) {
    return path.empty() ? "" : std::filesystem::absolute(path).lexically_normal().string();
}

}  // namespace

Result<ArrayEnd> serve_array(const TrainOptions& run, const ArrayFlags& flags, Comm& world,
                             const DeviceMaker& make_device) {
    const ArrayOptions options = options_of(run, flags);
    std::unique_ptr<ServingDesk> desk;
    Status good = check_array(options);
    Journal journal;
    if (world.rank() == 0 && good) {
        auto opened = open_desk(flags.serve, run.environment);
        if (opened)
            desk = std::move(opened).value();
        else
            good = opened.error();
        if (good) good = journal.open(run.log, run.quiet);
    }
    if (const Status s = agree(world, good); !s) return s.error();
    journal.note(fmt::format("an array of up to {} members on {} stages, {}, at {}", flags.members,
                             options.plan.layout.pp, describe(options.plan), flags.serve),
                 {{"event", "array"}, {"stages", options.plan.layout.pp}});
    const ArrayEnd end = run_array(options, world, make_device, desk.get());
    journal.note(
        fmt::format("the array ends after {} iterations in {} rounds; {:.3f} s, by schedule "
                    "{:.3f} s; {} callers refused",
                    end.iterations, end.rounds, end.seconds, end.predicted,
                    desk ? desk->refused() : 0),
        {{"event", "array_end"},
         {"iterations", end.iterations},
         {"rounds", end.rounds},
         {"seconds", end.seconds},
         {"predicted_s", end.predicted}});
    return end;
}

Result<Attachment> find_array(const Environment& environment) {
    const auto address = read_array_address(environment("ARENA_ARRAY").value_or(""), "ARENA_ARRAY");
    if (!address) return address.error();
    if (address->path.empty() && address->host.empty())
        return usage_error("has no host: HOST:PORT, or /PATH or @NAME of a local socket",
                           "ARENA_ARRAY");
    const auto key = read_key(environment);
    if (!key) return key.error();
    return Attachment{*address, *key};
}

Result<MemberOptions> member_of(const TrainOptions& run, Index batch,
                                const Environment& environment) {
    const auto place = environment("ARENA_ARRAY_MEMBER");
    const auto member = parse_integer(place.value_or(""), 0, Index{1} << 30);
    if (!member)
        return usage_error(
            fmt::format("\"{}\" is no place in a job array", printable(place.value_or(""))),
            "ARENA_ARRAY_MEMBER");
    MemberOptions o;
    o.member = *member;
    o.shape = run.shape;
    o.optimizer = run.optimizer;
    o.batch = batch;
    o.data = absolute(run.data);
    o.width = run.width;
    o.seed = run.seed;
    o.steps = run.steps;
    o.checkpoints = absolute(run.checkpoints);
    o.save_every = run.save_every;
    o.requeue_code = run.requeue_code;
    return o;
}

int run_member(const Attachment& array, const MemberOptions& member, const std::string& log,
               bool quiet) {
    Journal journal;
    if (const Status s = journal.open(log, quiet); !s) {
        fmt::print(stderr, "arena-train: {}\n", s.error().message());
        return exit_code(s.error().code);
    }
    const MemberExit end = attach(array, member, told_to_leave, [&](const MemberLine& line) {
        journal.note(line.text, line.facts.empty() ? Json() : parse_json(line.facts).value());
    });
    if (!end.why.empty()) fmt::print(stderr, "arena-train: {}\n", end.why);
    return end.code;
}

}  // namespace arena::train
