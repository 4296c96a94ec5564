// SPDX-License-Identifier: GPL-2.0-or-later
// The partial schedules of one layer of the exact search: rows of numbers, found by what is
// appended and decided, without those that another is no worse than.
#pragma once

#include <cstdint>
#include <vector>

#include "array/search/exact_problem.h"

namespace arena::array {

class ExactLayer {
  public:
    struct State {
        Ticks bound = 0;
        Ticks end = 0;            ///< latest end of what is appended
        std::int32_t trail = -1;  ///< how it came about: place in the search's log
        std::int32_t chain = -1;  ///< next of the same hash
        bool dropped = false;
    };

    explicit ExactLayer(const ExactProblem& problem)
        : problem_(&problem), row_size_(problem.row_size()), buckets_(64, -1) {}

    void clear();
    [[nodiscard]] std::size_t size() const { return states_.size(); }
    [[nodiscard]] std::size_t alive() const { return alive_; }
    [[nodiscard]] std::size_t bytes() const {
        return rows_.capacity() * sizeof(Ticks) + states_.capacity() * sizeof(State) +
               buckets_.capacity() * sizeof(std::int32_t);
    }
    State& state(std::size_t i) { return states_[i]; }
    [[nodiscard]] const State& state(std::size_t i) const { return states_[i]; }
    Ticks* row(std::size_t i) { return rows_.data() + i * row_size_; }
    [[nodiscard]] const Ticks* row(std::size_t i) const { return rows_.data() + i * row_size_; }

    /// Whether it was taken in; drops those that it dominates.
    bool insert(const Ticks* row, const State& state);
    /// The indices of the `width` states of least bound; the least bound of the others, or
    /// `otherwise`.
    std::vector<std::uint32_t> best(std::size_t width, Ticks& left_out) const;

  private:
    [[nodiscard]] std::size_t bucket(const Ticks* row) const;
    [[nodiscard]] bool same_key(const Ticks* a, const Ticks* b) const;
    void grow();
    [[nodiscard]] std::int64_t progress(std::size_t i) const;

    const ExactProblem* problem_;
    std::size_t row_size_;
    std::vector<Ticks> rows_;
    std::vector<State> states_;
    std::vector<std::int32_t> buckets_;
    std::size_t alive_ = 0;
};

}  // namespace arena::array
