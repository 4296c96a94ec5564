// SPDX-License-Identifier: GPL-2.0-or-later
// See carrier_words.h.
#include "plugin/sched/arrays/carrier_words.h"

#include <fmt/format.h>

#include "base/json.h"
#include "base/text.h"

namespace arena {
namespace {

constexpr std::size_t longest_facts = 4096;
/// Arena ends an array that nobody needs. Its members may be long with other things before they
/// attach, so it waits for them as long as it may where nothing else would end it.
constexpr int most_idle_s = 3600;

/// As the rest of a comment has it: three digits, never an exponent.
std::string seconds(double value) {
    return fmt::format("{:.{}f}s", value, value >= 100 ? 0 : value >= 10 ? 1 : value >= 1 ? 2 : 4);
}

std::string layers_of(const Plan& plan) {
    std::vector<std::string> parts;
    for (const std::int64_t layers : plan.stage_layers) parts.push_back(std::to_string(layers));
    return join(parts, ",");
}

/// arena.yaml allows blanks and quotes in paths.
std::string in_quotes(std::string_view text) {
    std::string out = "'";
    for (const char c : text) {
        if (c == '\'')
            out += "'\\''";
        else
            out += c;
    }
    return out + "'";
}

std::string model_words(const Model& m) {
    return fmt::format(
        "--layers {} --hidden {} --heads {} --ffn {} --vocab {} --seq-length {} --untied", m.layers,
        m.hidden, m.heads, m.ffn_hidden, m.vocab, m.seq_length);
}

}  // namespace

std::string format_carrier(const CarrierFacts& f) {
    return dump_json({{"v", 1},
                      {"group", f.group},
                      {"key", f.key},
                      {"socket", f.socket},
                      {"members", f.members},
                      {"member_cpus", f.member_cpus},
                      {"member_memory_mb", f.member_memory_mb},
                      {"partition", f.partition},
                      {"plan", f.plan},
                      {"iteration_s", f.iteration_s},
                      {"bubble", f.bubble}});
}

std::optional<CarrierFacts> read_carrier(std::string_view text) {
    const auto json = parse_json(text, {.bytes = longest_facts, .depth = 2});
    if (!json) return std::nullopt;
    std::optional<Error> error;
    const JsonFields read(*json, "", error);
    CarrierFacts f;
    std::int64_t version = 0;
    read.integer("v", version, 1, 1);
    read.text("group", f.group, 64);
    read.text("key", f.key, 64);
    read.text("socket", f.socket, 2048);
    read.integer("members", f.members, 1, 4096);
    read.integer("member_cpus", f.member_cpus, 1, 4096);
    read.integer("member_memory_mb", f.member_memory_mb, 0, std::int64_t{1} << 40);
    read.text("partition", f.partition, 1024);
    read.text("plan", f.plan, 1024);
    read.number("iteration_s", f.iteration_s, 0, 1e12);
    read.number("bubble", f.bubble, 0, 1);
    if (error) return std::nullopt;
    return f;
}

std::string carrier_script(const Request& request, const ArrayOffer& offer,
                           const CarrierFacts& facts, const Config& config) {
    std::string words = fmt::format(
        "srun --mpi={} arena-train --array-serve {} --array-members {} --array-idle {} "
        "--array-solve {:g} {} --global-batch {} --micro-batch {} --pp {} --stage-layers {} "
        "--recompute full",
        config.array_mpi, in_quotes(facts.socket), facts.members, most_idle_s, config.array_solve_s,
        model_words(request.model), request.global_batch, request.global_batch, offer.plan.pp(),
        layers_of(offer.plan));
    // On CPUs, which this does not know of, states stay where they are unless this is said.
    if (config.array_buffers != Config{}.array_buffers)
        words += fmt::format(" --array-buffers {}", config.array_buffers);
    return fmt::format(
        "#!/bin/sh\n"
        "# Written by Arena: trains members of job arrays on one pipeline (ArrayPipe).\n"
        "PATH=$PATH${{ARENA_BINDIR:+:$ARENA_BINDIR}}\n"
        "{}\n"
        "code=$?\n"
        "[ $code != {} ] || code=0\n"
        "exit $code\n",
        words, config.requeue_exit_code);
}

std::string carrier_comment(const CarrierFacts& f) {
    return fmt::format("arena:v1 state=running members={} plan={} est={} bubble={:.0f}%", f.members,
                       f.plan, seconds(f.iteration_s), 100 * f.bubble);
}

std::string member_comment(JobId carrier, const JobView& member, const CarrierFacts& f) {
    return fmt::format("arena:v1 state=running array={} member={}/{} T={}", carrier,
                       member.array.task, f.members, seconds(f.iteration_s));
}

std::vector<std::string> member_environment(const JobView& member, const CarrierFacts& facts,
                                            const Request& request) {
    return {"ARENA_ARRAY=" + facts.socket, "ARENA_ARRAY_KEY=" + facts.key,
            // Tasks of several arrays may be on one pipeline: a number of each job's own.
            fmt::format("ARENA_ARRAY_MEMBER={}", member.id),
            fmt::format("ARENA_GLOBAL_BATCH={}", request.global_batch)};
}

}  // namespace arena
