// SPDX-License-Identifier: GPL-2.0-or-later
// Numbers of every layer of a model, over ranges of layers: their sums and the largest. Where all
// layers are alike, as in most transformers, nothing is stored but one layer; else prefix sums and
// a sparse table answer in O(1).
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace arena {

/// The layers [begin, end) of a model.
struct LayerRange {
    std::int64_t begin = 0, end = 0;
    [[nodiscard]] std::int64_t size() const { return end - begin; }
};

/// N numbers of a layer, none negative, so that sums never fall when a range grows at its end.
template <std::size_t N>
class LayerSums {
  public:
    using Row = std::array<double, N>;

    /// Every layer has this row.
    void set_alike(const Row& row) {
        alike_ = row;
        prefix_.clear();
    }
    /// The rows of all layers, in order.
    void set(const std::vector<Row>& rows) {
        prefix_.assign(rows.size() + 1, Row{});
        for (std::size_t i = 0; i < rows.size(); ++i)
            for (std::size_t k = 0; k < N; ++k) prefix_[i + 1][k] = prefix_[i][k] + rows[i][k];
    }
    [[nodiscard]] bool is_alike() const { return prefix_.empty(); }

    [[nodiscard]] Row over(LayerRange range) const {
        Row sums;
        for (std::size_t k = 0; k < N; ++k)
            sums[k] = is_alike() ? static_cast<double>(range.size()) * alike_[k] : sum(range, k);
        return sums;
    }
    /// The sum over the range of each number times its weight.
    [[nodiscard]] double weighed(LayerRange range, const Row& weights) const {
        double total = 0;
        for (std::size_t k = 0; k < N; ++k)
            total += weights[k] * (is_alike() ? alike_[k] : sum(range, k));
        return is_alike() ? static_cast<double>(range.size()) * total : total;
    }

  private:
    [[nodiscard]] double sum(LayerRange range, std::size_t k) const {
        return prefix_[static_cast<std::size_t>(range.end)][k] -
               prefix_[static_cast<std::size_t>(range.begin)][k];
    }

    Row alike_{};
    std::vector<Row> prefix_;
};

/// The largest of one number of each layer, over ranges that are not empty.
class LayerMost {
  public:
    void set_alike(double value) {
        alike_ = value;
        levels_.clear();
    }
    /// Of every layer, in order, at least one.
    void set(std::vector<double> values) {
        levels_ = {std::move(values)};
        for (std::size_t half = 1; 2 * half <= levels_[0].size(); half *= 2) {
            const std::vector<double>& last = levels_.back();
            std::vector<double> next(levels_[0].size() - 2 * half + 1);
            for (std::size_t i = 0; i < next.size(); ++i)
                next[i] = std::max(last[i], last[i + half]);
            levels_.push_back(std::move(next));
        }
    }
    [[nodiscard]] double over(LayerRange range) const {
        if (levels_.empty()) return alike_;
        const auto size = static_cast<std::size_t>(range.size());
        const auto level = static_cast<std::size_t>(std::bit_width(size)) - 1;
        const std::vector<double>& row = levels_[level];
        return std::max(row[static_cast<std::size_t>(range.begin)],
                        row[static_cast<std::size_t>(range.end) - (std::size_t{1} << level)]);
    }

  private:
    double alike_ = 0;
    std::vector<std::vector<double>> levels_;  ///< n: over 2^n layers from each one on
};

}  // namespace arena
