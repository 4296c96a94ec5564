// SPDX-License-Identifier: GPL-2.0-or-later
// See belief.h.
#include "plugin/sched/belief/belief.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/count_text.h"
#include "base/text.h"
#include "plugin/common/steps_limit.h"

namespace arena {

std::string_view to_string(Belief::From from) {
    switch (from) {
        case Belief::From::steps:
            return "steps";
        case Belief::From::limit:
            return "limit";
        case Belief::From::nothing:
            break;
    }
    return "nothing";
}

double judged_iteration_s(const Request& request, const std::vector<Offer>& offers) {
    double slowest_s = 0;
    for (const Offer& offer : offers) slowest_s = std::max(slowest_s, offer.estimate.iteration_s);
    return std::clamp(request.iteration_s, slowest_s, slowest_s * least_belief_slack);
}

Belief believe(const Request& request, double limit_s, const std::vector<Offer>& offers,
               const PastUse& past, const RestartCost& restart) {
    Belief belief{.steps = request.steps, .limit_s = limit_s, .past = past};
    if (request.steps > 0) {
        const double iteration_s = judged_iteration_s(request, offers),
                     on_top_s = seconds_on_top(restart);
        belief.needs_s = 60.0 * double(minutes_for_steps(request.steps, iteration_s, on_top_s));
        if (steps_are_enforced(request.steps, iteration_s, on_top_s, limit_s))
            belief.from = Belief::From::steps;
    }
    if (belief.from == Belief::From::nothing && limit_s > 0) belief.from = Belief::From::limit;
    return belief;
}

void set_believed_work(JobState& job, const Belief& belief, double run_s, double iteration_s) {
    job.remaining_iterations = 0;
    job.overrun = false;
    if (belief.from == Belief::From::steps) {
        const auto said = static_cast<double>(belief.steps);
        const double used = said * belief.past.used;
        return set_work_left(job, job.done_iterations < used ? used : said);
    }
    // The limit stands for the work; but for what its user leaves of limits.
    const double left_s = belief.limit_s * belief.past.used - run_s;
    if (belief.from == Belief::From::limit && belief.past.used < 1 && left_s > 0)
        job.remaining_iterations = left_s / iteration_s;
}

std::string words_of(const Belief& belief, std::uint32_t uid, const std::string& account) {
    const std::string limit = belief.limit_s > 0 ? "limit of " + human_seconds(belief.limit_s)
                                                 : std::string("no time limit");
    std::string text = belief.from == Belief::From::steps
                           ? fmt::format("{} {}, as its {} enforces", grouped(belief.steps),
                                         belief.steps == 1 ? "step" : "steps", limit)
                           : limit;
    if (belief.from != Belief::From::steps && belief.steps > 0)
        text += "; its steps are not believed: " +
                (belief.limit_s > 0 ? fmt::format("the limit is longer than they need ({})",
                                                  human_seconds(belief.needs_s))
                                    : std::string("nothing ends the job"));
    if (belief.from != Belief::From::nothing && belief.past.jobs > 0)
        text += fmt::format("; x {:.2g}: what the last {} jobs of {} used of theirs",
                            belief.past.used, belief.past.jobs,
                            belief.past.of_account ? "account " + printable(account, 64)
                                                   : fmt::format("uid {}", uid));
    return text;
}

double used_of(const Belief& belief, double done, double run_s, double iteration_s) {
    const double said_s = belief.from == Belief::From::steps
                              ? static_cast<double>(belief.steps) * iteration_s
                              : belief.limit_s;
    return said_s > 0 ? std::clamp((run_s + done * iteration_s) / said_s, PastUses::least, 1.0) : 1;
}

}  // namespace arena
