// SPDX-License-Identifier: GPL-2.0-or-later
// `arena report`: a running job tells how long its iterations take; job_submit/arena checks it
// again. See core/observation.h.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "base/hostlist.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/cluster/commands.h"
#include "cli/cluster/job_id.h"
#include "cli/cluster/send_report.h"
#include "cli/common/ask.h"
#include "core/observation.h"

namespace arena::cli {
namespace {

struct ReportOptions {
    JobId job = 0;
    IterationReport report{.steps = min_reported_steps, .grid = {}, .plan = {}};
};

struct Subject {
    JobId job = 0;
    double estimated_s = 0;     ///< 0 = not known
    bool is_corrected = false;  ///< the estimate is one that reports have corrected
    std::string user;           ///< its owner's name
};

/// The value of `word=value` in AdminComment.
std::string_view word_of(std::string_view comment, std::string_view word) {
    for (const std::string_view part : split(comment, ' '))
        if (part.starts_with(word) && part.substr(word.size()).starts_with('='))
            return part.substr(word.size() + 1);
    return {};
}

/// Grid, plan and estimate as the job's own environment has them: they are of this life of the job.
Status read_own_plan(JobId job, ReportOptions& options, Subject& subject) {
    const std::string plan = environment("ARENA_PLAN");
    if (plan.empty() || environment("SLURM_JOB_ID") != std::to_string(job)) return Done{};
    const auto offer = parse_offer_json(plan);
    if (!offer) return usage_error(offer.error().message(), "ARENA_PLAN");
    options.report.grid = short_form(offer->grid);
    options.report.plan = short_form(offer->plan);
    subject.estimated_s = offer->estimate.iteration_s;
    subject.is_corrected = offer->estimate.source == Source::observed;
    return Done{};
}

/// What slurmctld says of the job: whose it is, whether it runs, and under which plan.
Status check_job(JobId job, ReportOptions& options, Subject& subject) {
    const auto shown = run_program({"scontrol", "show", "job", std::to_string(job)});
    if (!shown) return shown.error();
    if (shown->err.find("Invalid job id") != std::string::npos)
        return usage_error(fmt::format("slurmctld knows no job {}", job), "--job");
    if (shown->status != 0)
        return environment_error(printable(trim(shown->err), 200), "scontrol show job");
    const auto fields = parse_scontrol_fields(shown->out);
    const auto field = [&](const char* name) {
        const auto at = fields.find(name);
        return at == fields.end() ? std::string() : at->second;
    };
    const std::string user = field("UserId"), comment = field("AdminComment");
    if (::getuid() != 0 && !user.ends_with(fmt::format("({})", ::getuid())))
        return usage_error(fmt::format("JobId={} is another user's ({})", job, printable(user)),
                           "--job");
    subject.user = user.substr(0, user.find('('));
    const std::string_view grid = word_of(comment, "grid"), plan = word_of(comment, "plan");
    if (!comment.starts_with("arena:") || grid.empty() || field("JobState") != "RUNNING")
        return usage_error(fmt::format("JobId={} does not run under a plan of Arena's", job),
                           "--job");
    if (options.report.plan.empty()) {
        options.report.grid = grid;
        options.report.plan = plan;
    }
    if (options.report.grid != grid || options.report.plan != plan)
        return usage_error(
            fmt::format("JobId={} runs {} {}, not {} {}: a report of an earlier life of the job?",
                        job, grid, plan, printable(options.report.grid),
                        printable(options.report.plan)),
            "ARENA_PLAN");
    const IterationReport& told = options.report;
    const auto ran_s = parse_elapsed(field("RunTime"));
    if (ran_s && told.trained_s > 0 && !fits_run_time(told.trained_s, 1, *ran_s))
        return usage_error(
            fmt::format("its first step cannot have been {} ago: JobId={} has run {}",
                        human_seconds(told.trained_s), job, human_seconds(*ran_s)),
            "--trained-s");
    if (ran_s && !fits_run_time(told.iteration_s, told.steps, *ran_s))
        return usage_error(
            fmt::format("{} iterations of {} take longer than the {} that JobId={} has run",
                        told.steps, human_seconds(told.iteration_s), human_seconds(*ran_s), job),
            "--steps");
    return Done{};
}

/// What comes of a report, as far as it can be told before slurmctld has looked at it.
struct Outcome {
    std::optional<bool> counts;  ///< for its user's jobs; nothing: that depends on others
    std::string for_whom;        ///< "counts for ..."
};

/// The ratio is slurmctld's to judge where the estimate known here is not the planner's own.
Outcome outcome_of(const Globals& globals, const Subject& subject, const IterationReport& report) {
    const auto config = load_site_config(globals);
    if (config && !config->use_reports)
        return {false, "kept, and counts for nobody: profile.use_reports is false in arena.yaml"};
    const std::string own = fmt::format("counts for {}'s next jobs", printable(subject.user, 40));
    if (report.steps >= enough_steps) return {true, own};
    const std::string else_words =
        fmt::format("counts for nobody until {} jobs of {} agree, or one tells of {} steps or more",
                    outlier_jobs, printable(subject.user, 40), enough_steps);
    if (subject.estimated_s <= 0 || subject.is_corrected)
        return {std::nullopt, fmt::format("{} if it is within {:g} times the planner's estimate; "
                                          "else {}",
                                          own, max_single_ratio, else_words)};
    if (counts_alone({.grid = {},
                      .plan = {},
                      .iteration_s = report.iteration_s,
                      .estimated_s = subject.estimated_s},
                     report.steps))
        return {true, own};
    return {false, fmt::format("{} steps, more than {:g} times off: {}", report.steps,
                               max_single_ratio, else_words)};
}

void show(const Globals& globals, const Subject& subject, const IterationReport& report) {
    const Outcome outcome = outcome_of(globals, subject, report);
    if (globals.json) {
        Json json{{"schema_version", 1},
                  {"job", subject.job},
                  {"grid", report.grid},
                  {"plan", report.plan},
                  {"iteration_s", report.iteration_s},
                  {"spread", report.spread},
                  {"steps", report.steps},
                  {"counts", outcome.counts ? Json(*outcome.counts) : Json(nullptr)},
                  {"counts_for", outcome.for_whom}};
        if (subject.estimated_s > 0) json["estimated_s"] = subject.estimated_s;
        fmt::print("{}\n", dump_json(json));
        return;
    }
    std::string estimated;
    if (subject.estimated_s > 0)
        estimated = fmt::format(", estimated {} ({})", human_seconds(subject.estimated_s),
                                off_words(report.iteration_s, subject.estimated_s));
    fmt::print("JobId={} {} {}: {} per iteration{}; reported; {}\n", subject.job, report.grid,
               report.plan, human_seconds(report.iteration_s), estimated, outcome.for_whom);
}

int report(const Globals& globals, ReportOptions options) {
    const auto job = reporting_job(options.job);
    if (!job) return fail(globals, job.error());
    Subject subject{.job = *job, .user = {}};
    if (auto s = read_own_plan(*job, options, subject); !s) return fail(globals, s.error());
    // The plan is checked by what slurmctld says of it; the numbers before anybody is asked.
    IterationReport numbers = options.report;
    if (numbers.plan.empty()) numbers.grid = numbers.plan = "any";
    if (auto s = check_report(numbers); !s) return fail(globals, s.error());
    if (auto s = check_job(*job, options, subject); !s) return fail(globals, s.error());
    if (auto s = send_report(*job, format_report(options.report)); !s)
        return fail(globals, s.error());
    show(globals, subject, options.report);
    return exit_yes;
}

}  // namespace

void add_report(CLI::App& app, Globals& globals) {
    CLI::App* command =
        app.add_subcommand("report", "tell how long the iterations of a running job take");
    const auto o = std::make_shared<ReportOptions>();
    command->add_option("--iteration-s", o->report.iteration_s, "median seconds of one iteration")
        ->required();
    command->add_option("--steps", o->report.steps, "how many iterations it is the median of")
        ->capture_default_str();
    command->add_option("--spread", o->report.spread, "interquartile range / median")
        ->capture_default_str();
    command->add_option("--trained-s", o->report.trained_s,
                        "seconds since the first step of this life of the job was done");
    command->add_option("--job", o->job, "job id [SLURM_JOB_ID]")->transform(job_id());
    command->callback([&globals, o] { globals.status = report(globals, *o); });
}

}  // namespace arena::cli
