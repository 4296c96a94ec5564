// SPDX-License-Identifier: GPL-2.0-or-later
#include "array/search/exact_layer.h"

#include <algorithm>
#include <numeric>

#include "base/hash.h"

namespace arena::array {

namespace {

/// A dominated state is compared with this many of its key at most: some then live on, which costs
/// time and never an optimum.
constexpr int most_compared = 4096;

}  // namespace

void ExactLayer::clear() {
    rows_.clear();
    states_.clear();
    std::fill(buckets_.begin(), buckets_.end(), -1);
    alive_ = 0;
}

std::size_t ExactLayer::bucket(const Ticks* row) const {
    Fnv1a words;
    for (std::size_t i = problem_->key_begin(); i < row_size_; ++i)
        words.mix(static_cast<std::uint64_t>(row[i] + 3));
    const std::uint64_t hash = words.value();
    return static_cast<std::size_t>((hash ^ (hash >> 29)) & (buckets_.size() - 1));
}

bool ExactLayer::same_key(const Ticks* a, const Ticks* b) const {
    return std::equal(a + problem_->key_begin(), a + row_size_, b + problem_->key_begin());
}

void ExactLayer::grow() {
    buckets_.assign(buckets_.size() * 4, -1);
    for (std::size_t i = 0; i < states_.size(); ++i) {
        if (states_[i].dropped) continue;
        std::int32_t& head = buckets_[bucket(row(i))];
        states_[i].chain = head;
        head = static_cast<std::int32_t>(i);
    }
}

bool ExactLayer::insert(const Ticks* row, const State& state) {
    if (alive_ > buckets_.size()) grow();
    std::int32_t& head = buckets_[bucket(row)];
    std::int32_t* link = &head;
    for (int compared = 0; *link >= 0 && compared < most_compared; ++compared) {
        const auto i = static_cast<std::size_t>(*link);
        State& other = states_[i];
        if (!same_key(this->row(i), row)) {
            link = &other.chain;
            continue;
        }
        if (other.end <= state.bound && problem_->dominates(this->row(i), row)) {
            // What dominated once will again: to the front.
            *link = other.chain;
            other.chain = head;
            head = static_cast<std::int32_t>(i);
            return false;
        }
        if (state.end <= other.bound && problem_->dominates(row, this->row(i))) {
            other.dropped = true;
            --alive_;
            *link = other.chain;
            continue;
        }
        link = &other.chain;
    }
    State& added = states_.emplace_back(state);
    added.chain = head;
    head = static_cast<std::int32_t>(states_.size() - 1);
    rows_.insert(rows_.end(), row, row + row_size_);
    ++alive_;
    return true;
}

/// How much time has been used up: of equal bounds, less is better.
std::int64_t ExactLayer::progress(std::size_t i) const {
    const Ticks* times = row(i);
    return std::accumulate(times, times + problem_->times(), std::int64_t{0});
}

std::vector<std::uint32_t> ExactLayer::best(std::size_t width, Ticks& left_out) const {
    std::vector<std::pair<std::pair<Ticks, std::int64_t>, std::uint32_t>> all;
    for (std::size_t i = 0; i < states_.size(); ++i)
        if (!states_[i].dropped)
            all.push_back({{states_[i].bound, progress(i)}, static_cast<std::uint32_t>(i)});
    if (all.size() > width) {
        const auto cut = all.begin() + static_cast<std::ptrdiff_t>(width);
        std::nth_element(all.begin(), cut, all.end());
        for (auto one = cut; one != all.end(); ++one)
            left_out = std::min(left_out, one->first.first);
        all.erase(cut, all.end());
    }
    std::vector<std::uint32_t> chosen;
    for (const auto& one : all) chosen.push_back(one.second);
    return chosen;
}

}  // namespace arena::array
