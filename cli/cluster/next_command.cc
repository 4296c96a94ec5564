// SPDX-License-Identifier: GPL-2.0-or-later
// `arena next`: the script of a job under --arena-elastic=inplace, whose step has saved its state
// and ended, asks for its next plan and prints it for the shell. See reports/next_plan.h.
#include <fmt/format.h>
#include <sys/random.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <set>
#include <thread>

#include "base/text.h"
#include "cli/cluster/commands.h"
#include "cli/cluster/send_report.h"
#include "cli/common/ask.h"
#include "reports/next_plan.h"

namespace arena::cli {
namespace {

using std::chrono::milliseconds;

/// Between two looks: soon for a plan that is there at once, seldom while slurmctld is away.
constexpr milliseconds soon{200}, later{1000};
constexpr int soon_looks = 25;

Result<std::uint32_t> number_of(const char* name, const char* otherwise) {
    const std::string text = environment(name);
    if (text.empty() && otherwise == nullptr)
        return usage_error("is not set: is this a job under --arena-elastic=inplace?", name);
    const auto number = parse_integer(text.empty() ? otherwise : text, 0, UINT32_MAX);
    if (!number) return usage_error(fmt::format("\"{}\" is no number", printable(text)), name);
    return static_cast<std::uint32_t>(*number);
}

Result<NextAsk> make_ask() {
    const auto plan = number_of(plan_number_variable.data(), nullptr);
    if (!plan) return plan.error();
    const auto life = number_of("SLURM_RESTART_COUNT", "0");
    if (!life) return life.error();
    std::uint64_t id = 0;
    if (::getrandom(&id, sizeof id, 0) != static_cast<ssize_t>(sizeof id))
        return environment_error("the kernel gives no randomness");
    return NextAsk{.life = *life, .plan = *plan, .id = fmt::format("{:x}", id)};
}

/// As a shell reads it back whatever it holds.
std::string shell_word(std::string_view value) {
    std::string text = "'";
    for (const char c : value) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return text + "'";
}

/// Beside what is given, what was given for the last plan and is not for this one.
std::string shell_lines(const NextAnswer& answer) {
    std::set<std::string_view> given;
    std::string lines;
    for (const auto& [name, value] : answer.variables) {
        given.insert(name);
        lines += fmt::format("export {}={}\n", name, shell_word(value));
    }
    const std::string before = environment("ARENA_GIVEN");
    for (const std::string_view name : split(before, ' ')) {
        const bool is_name = name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") ==
                             std::string_view::npos;
        if (name.starts_with("ARENA_") && is_name && !name.ends_with("_KEY") &&
            !given.contains(name))
            lines += fmt::format("unset {}\n", name);
    }
    return lines;
}

/// Nothing: not yet.
std::optional<NextAnswer> look(JobId job, const NextAsk& ask) {
    const auto shown = run_program({"scontrol", "show", "job", std::to_string(job)});
    if (!shown || shown->status != 0) return std::nullopt;
    const auto fields = parse_scontrol_fields(shown->out);
    const auto comment = fields.find("SystemComment");
    if (comment == fields.end()) return std::nullopt;
    auto answer = parse_next_answer(comment->second);
    if (!answer || answer->id != ask.id) return std::nullopt;
    return std::move(*answer);
}

/// A slurmctld that does not answer is waited for: whoever requeues the job ends this, too.
int next(const Globals& globals, JobId given) {
    const auto job = reporting_job(given);
    if (!job) return fail(globals, job.error());
    const auto ask = make_ask();
    if (!ask) return fail(globals, ask.error());
    bool is_told = false;
    for (int looks = 0;; ++looks) {
        const Status sent = send_report(*job, format_next_ask(*ask));
        if (!sent && sent.error().code == ErrorCode::usage) return fail(globals, sent.error());
        const bool is_away = !sent && sent.error().code == ErrorCode::environment;
        if (is_away && !std::exchange(is_told, true))
            fmt::print(stderr, "arena next: waits for slurmctld: {}\n", sent.error().message());
        if (const auto answer = is_away ? std::nullopt : look(*job, *ask)) {
            fmt::print("{}", shell_lines(*answer));
            return exit_yes;
        }
        std::this_thread::sleep_for(looks < soon_looks && !is_away ? soon : later);
    }
}

}  // namespace

void add_next(CLI::App& app, Globals& globals) {
    CLI::App* command = app.add_subcommand(
        "next", "in a job under --arena-elastic=inplace: wait for its next plan, and print it");
    const auto job = std::make_shared<JobId>(0);
    command->add_option("--job", *job, "job id [SLURM_JOB_ID]");
    command->callback([&globals, job] { globals.status = next(globals, *job); });
}

}  // namespace arena::cli
