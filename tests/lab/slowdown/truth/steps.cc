// SPDX-License-Identifier: GPL-2.0-or-later
#include "tests/lab/slowdown/truth/steps.h"

#include <algorithm>
#include <cmath>

#include "base/csv.h"
#include "base/statistics.h"
#include "slowdown/period.h"

namespace arena::slowdown {
namespace {

constexpr std::int64_t most = std::int64_t{1} << 60;
constexpr std::size_t prompt = 5;  ///< steps
constexpr double most_error = 0.012;

std::size_t usual_calls(std::span<const TrueStep> steps) {
    std::map<std::size_t, std::size_t> counts;
    for (const TrueStep& step : steps.last(std::min<std::size_t>(steps.size(), 8)))
        ++counts[step.calls];
    return std::max_element(counts.begin(), counts.end(),
                            [](const auto& a, const auto& b) { return a.second < b.second; })
        ->first;
}

/// The step that most of the iteration lies in, of those up to `last`.
const TrueStep& step_of(const Iteration& iteration, std::span<const TrueStep> steps,
                        std::size_t last) {
    const std::int64_t begin = iteration.end_us - iteration.duration_us;
    const auto shared = [&](const TrueStep& step) {
        return std::min(iteration.end_us, step.start_us + step.duration_us) -
               std::max(begin, step.start_us);
    };
    std::size_t best = last;
    for (std::size_t i = last; i-- > 0 && steps[i].start_us + steps[i].duration_us > begin;)
        if (shared(steps[i]) >= shared(steps[best])) best = i;
    return steps[best];
}

double error_of(const Iteration& iteration, const TrueStep& step) {
    return std::abs(static_cast<double>(iteration.duration_us - step.duration_us)) /
           static_cast<double>(step.duration_us);
}

/// Follows what is known of the period from one step to the next.
struct Watch {
    PeriodScore score;
    std::size_t wrong = 0;
    void end_step(std::size_t step, std::size_t period, const TrueStep& truth) {
        if (period > 0 && score.first_answer == 0) score.first_answer = step + 1;
        if (score.first_answer == 0) return;
        wrong = period == truth.calls ? 0 : wrong + 1;
        score.longest_wrong = std::max(score.longest_wrong, wrong);
    }
};

}  // namespace

Result<std::map<std::string, std::vector<TrueStep>>> parse_steps(std::string_view text,
                                                                 const std::string& file) {
    auto csv = sim::Csv::open(text, file, {"sequence", "start_us", "duration_us", "calls"});
    if (!csv) return csv.error();
    std::map<std::string, std::vector<TrueStep>> all;
    while (csv->next()) {
        TrueStep step;
        step.start_us = csv->integer("start_us", 0, most);
        step.duration_us = csv->integer("duration_us", 1, most);
        step.calls = static_cast<std::size_t>(csv->integer("calls", 1, most));
        std::vector<TrueStep>& steps = all[std::string(csv->word("sequence"))];
        if (!steps.empty() && step.start_us < steps.back().start_us)
            csv->refuse("start_us goes back in time: steps of a sequence stand in order of time");
        steps.push_back(step);
    }
    if (csv->error()) return *csv->error();
    return all;
}

bool PeriodScore::is_good() const {
    return period == wanted && first_answer > 0 && first_answer <= prompt &&
           longest_wrong <= prompt && measured > 0 && median_error <= most_error;
}

Result<PeriodScore> score_period(const CallStream& stream, std::span<const TrueStep> steps) {
    PeriodFinder finder;
    Watch watch;
    std::vector<double> errors;
    std::size_t now = 0;
    for (const Call& call : stream.calls) {
        for (; now + 1 < steps.size() && call.time_us >= steps[now + 1].start_us; ++now)
            watch.end_step(now, finder.period(), steps[now]);
        const auto iteration = finder.add(call);
        if (!iteration) return iteration.error();
        if (*iteration && now >= prompt)
            errors.push_back(error_of(**iteration, step_of(**iteration, steps, now)));
    }
    watch.end_step(now, finder.period(), steps[now]);
    std::sort(errors.begin(), errors.end());
    PeriodScore score = watch.score;
    score.period = finder.period();
    score.wanted = usual_calls(steps);
    score.measured = errors.size();
    score.median_error = median(errors);
    return score;
}

}  // namespace arena::slowdown
