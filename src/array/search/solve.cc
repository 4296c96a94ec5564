// SPDX-License-Identifier: GPL-2.0-or-later
#include "array/search/solve.h"

#include <algorithm>
#include <chrono>

#include "array/bounds.h"
#include "array/list_rule.h"
#include "array/search/exact.h"
#include "array/search/genetic.h"

namespace arena::array {

namespace {

constexpr std::pair<Solver, const char*> words[] = {{Solver::choose, "choose"},
                                                    {Solver::list, "list"},
                                                    {Solver::genetic, "genetic"},
                                                    {Solver::exact, "exact"}};

class Solving {
  public:
    Solving(const Instance& instance, const Rules& rules, const SolveOptions& options)
        : instance_(instance), rules_(rules), options_(options) {
        solution_.bound = lower_bound(instance);
        for (const Prefer prefer : {Prefer::backward, Prefer::forward})
            take(append(instance, rules, list_order(instance, rules, prefer)));
    }

    void genetic(double seconds) {
        if (is_done()) return;
        auto found = solve_genetic(instance_, rules_, {.seed = options_.seed, .seconds = seconds});
        if (found) take(std::move(*found));
    }
    void exact(double seconds) {
        if (is_done() || seconds <= 0) return;
        auto answer = solve_exact(instance_, rules_, solution_.schedule, {.seconds = seconds});
        solution_.nodes += answer.nodes;
        if (answer.schedule) take(std::move(*answer.schedule));
        solution_.bound = std::max(solution_.bound, answer.bound);
        solution_.proven = answer.proven;
    }
    [[nodiscard]] double left_s() const {
        const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin_;
        return options_.seconds - passed.count();
    }
    [[nodiscard]] bool is_small() const {
        return instance_.blocks.size() <= static_cast<std::size_t>(options_.exact_blocks) &&
               instance_.jobs <= options_.exact_members;
    }
    Solution finish() {
        if (is_done()) solution_.proven = true;
        if (solution_.proven && solution_.schedule) solution_.bound = solution_.schedule->makespan;
        if (solution_.proven && !solution_.schedule) solution_.bound = 0;
        return std::move(solution_);
    }

  private:
    void take(Result<Schedule> schedule) {
        if (!schedule) return;
        if (solution_.schedule && solution_.schedule->makespan <= schedule->makespan) return;
        solution_.schedule = std::move(*schedule);
    }
    [[nodiscard]] bool is_done() const {
        return solution_.proven ||
               (solution_.schedule && solution_.schedule->makespan <= solution_.bound);
    }

    const Instance& instance_;
    Rules rules_;
    SolveOptions options_;
    Solution solution_;
    std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace

std::optional<Solver> parse_solver(std::string_view word) {
    for (const auto& [solver, name] : words)
        if (word == name) return solver;
    return std::nullopt;
}

Solution solve(const Instance& instance, const Rules& rules, const SolveOptions& options) {
    Solving solving(instance, rules, options);
    if (options.solver == Solver::list) return solving.finish();
    if (options.solver == Solver::genetic) {
        solving.genetic(options.seconds);
        return solving.finish();
    }
    // A proof from the list rule alone takes milliseconds where there are few blocks. Where it
    // takes longer, a better schedule to beat is worth more than what was searched so far.
    // Of many blocks the genetic search does all that it would do alone, in less than half the
    // time.
    const bool small = solving.is_small();
    if (small) solving.exact(options.seconds / 3);
    solving.genetic(small ? options.seconds / 4 : options.seconds);
    solving.exact(solving.left_s());
    return solving.finish();
}

}  // namespace arena::array
