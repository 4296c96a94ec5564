// SPDX-License-Identifier: GPL-2.0-or-later
#include "array/search/exact.h"

#include <algorithm>
#include <limits>

#include "array/search/exact_layer.h"

namespace arena::array {

namespace {

/// A cap that no schedule can exceed is none; the search is better without.
Rules binding(const Instance& instance, Rules rules) {
    std::vector<int> forward(static_cast<std::size_t>(instance.devices), 0);
    for (const Block& block : instance.blocks)
        forward[static_cast<std::size_t>(block.device)] += !block.backward;
    const int most = *std::max_element(forward.begin(), forward.end());
    if (rules.in_flight_cap >= most) rules.in_flight_cap = 0;
    return rules;
}

class ExactSearch {
  public:
    ExactSearch(const Instance& instance, const Rules& rules, const ExactLimits& limits)
        : instance_(instance),
          rules_(binding(instance, rules)),
          limits_(limits),
          deadline_(limits.seconds),
          problem_(instance, rules_),
          now_(problem_),
          later_(problem_),
          child_(problem_.row_size()) {}

    ExactAnswer run(const std::optional<Schedule>& known);

  private:
    /// How a state came about: by appending a block of that job, or by a decision (job -1).
    struct Step {
        std::int32_t before = -1;
        std::int32_t job = -1;
    };
    void pass(std::size_t width);
    void expand_layer(const std::vector<std::uint32_t>& chosen);
    void expand(std::size_t i);
    void add_child(const ExactLayer::State& parent, std::size_t block, bool appended);
    void take(std::int32_t trail);
    void leave_out(Ticks bound) { left_out_ = std::min(left_out_, bound); }
    [[nodiscard]] bool must_stop();
    [[nodiscard]] Order order_to(std::int32_t trail) const;

    const Instance& instance_;
    Rules rules_;
    ExactLimits limits_;
    Deadline deadline_;
    ExactProblem problem_;
    ExactLayer now_, later_;
    std::vector<Step> log_;
    std::vector<Ticks> child_;
    std::vector<std::size_t> candidates_;
    std::optional<Schedule> best_;
    Ticks upper_ = never;     ///< makespan of best_
    Ticks left_out_ = never;  ///< least bound of what this pass did not look into
    bool stopped_ = false;
    std::size_t nodes_ = 0;
};

bool ExactSearch::must_stop() {
    if (stopped_ || nodes_ % 256 != 0) return stopped_;
    const std::size_t bytes = now_.bytes() + later_.bytes() + log_.capacity() * sizeof(Step);
    stopped_ = deadline_.passed() || bytes > limits_.memory_bytes;
    return stopped_;
}

Order ExactSearch::order_to(std::int32_t trail) const {
    Order order;
    for (; trail >= 0; trail = log_[static_cast<std::size_t>(trail)].before)
        if (const int job = log_[static_cast<std::size_t>(trail)].job; job >= 0)
            order.push_back(job);
    std::reverse(order.begin(), order.end());
    return order;
}

void ExactSearch::take(std::int32_t trail) {
    auto schedule = append(instance_, rules_, order_to(trail));
    if (!schedule || schedule->makespan >= upper_) return;
    upper_ = schedule->makespan;
    best_ = std::move(*schedule);
}

void ExactSearch::add_child(const ExactLayer::State& parent, std::size_t block, bool appended) {
    const Row row = problem_.row(child_.data());
    ExactLayer::State state{.end = parent.end};
    const int job = problem_.block(block).job;
    if (appended)
        state.end = std::max(state.end, problem_.append(row, static_cast<std::size_t>(job)));
    else
        problem_.reserve(row, block);
    state.bound = std::max({parent.bound, state.end, problem_.settle(row)});
    if (state.bound >= upper_) return;
    state.trail = static_cast<std::int32_t>(log_.size());
    ExactLayer& layer = appended ? later_ : now_;
    if (layer.insert(child_.data(), state)) log_.push_back({parent.trail, appended ? job : -1});
}

void ExactSearch::expand(std::size_t i) {
    ++nodes_;
    const ExactLayer::State parent = now_.state(i);
    problem_.branch(problem_.row(now_.row(i)), candidates_);
    for (const std::size_t block : candidates_) {
        std::copy_n(now_.row(i), problem_.row_size(), child_.data());
        const Row row = problem_.row(child_.data());
        const auto job = static_cast<std::size_t>(problem_.block(block).job);
        add_child(parent, block, problem_.next_of(row, job) == block);
    }
}

void ExactSearch::expand_layer(const std::vector<std::uint32_t>& chosen) {
    const std::size_t given = now_.size();
    const auto visit = [&](std::size_t i) {
        if (now_.state(i).dropped || now_.state(i).bound >= upper_) return;
        if (must_stop())
            leave_out(now_.state(i).bound);
        else
            expand(i);
    };
    for (const std::uint32_t i : chosen) visit(i);
    for (std::size_t i = given; i < now_.size(); ++i) visit(i);  // decisions made on the way
}

void ExactSearch::pass(std::size_t width) {
    now_.clear();
    log_.clear();
    left_out_ = never;
    problem_.make_root(child_.data());
    const Ticks bound = problem_.settle(problem_.row(child_.data()));
    if (bound >= upper_) return;
    now_.insert(child_.data(), {.bound = bound});
    for (std::size_t layer = 0; layer < instance_.blocks.size(); ++layer) {
        later_.clear();
        expand_layer(now_.best(width, left_out_));
        std::swap(now_, later_);
        if (stopped_)
            for (std::size_t i = 0; i < now_.size(); ++i)
                if (!now_.state(i).dropped) leave_out(now_.state(i).bound);
        if (stopped_ || now_.alive() == 0) return;
    }
    for (std::size_t i = 0; i < now_.size(); ++i)
        if (!now_.state(i).dropped) take(now_.state(i).trail);
}

ExactAnswer ExactSearch::run(const std::optional<Schedule>& known) {
    ExactAnswer answer;
    if (known) {
        best_ = *known;
        upper_ = known->makespan;
    }
    answer.bound = std::min(lower_bound(instance_), upper_);
    for (std::size_t width = limits_.first_width; !stopped_ && answer.bound < upper_; width *= 8) {
        pass(width);
        answer.bound = std::max(answer.bound, std::min(left_out_, upper_));
    }
    answer.proven = answer.bound >= upper_ || (!best_ && left_out_ == never && !stopped_);
    if (answer.proven && !best_) answer.bound = 0;
    answer.schedule = best_;
    answer.nodes = nodes_;
    return answer;
}

}  // namespace

ExactAnswer solve_exact(const Instance& instance, const Rules& rules,
                        const std::optional<Schedule>& known, const ExactLimits& limits) {
    return ExactSearch(instance, rules, limits).run(known);
}

}  // namespace arena::array
