// SPDX-License-Identifier: GPL-2.0-or-later
// Numbers of every layer of a model, over ranges of layers: their sums and the largest. Where all
// layers are homogeneous, as in most transformers, nothing is stored but one layer; else prefix
// sums and a sparse table answer in O(1), of more than max_tabled_layers over runs or kinds of
// layers (layer_index.h), in O(log runs) or O(kinds).
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "planner/models/layer_index.h"

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

    /// The row of each kind of the index.
    void set(std::shared_ptr<const LayerIndex> index, std::vector<Row> kinds) {
        index_ = std::move(index);
        form_ = index_->form();
        kinds_ = std::move(kinds);
        prefix_.clear();
        if (form_ == Form::tabled) set_table();
        if (form_ == Form::by_run) set_runs();
    }
    [[nodiscard]] bool is_homogeneous() const { return form_ == Form::homogeneous; }

    [[nodiscard]] Row over(LayerRange range) const {
        Row sums;
        if (form_ == Form::counted || form_ == Form::by_run) {
            const Row low = before(range.begin), high = before(range.end);
            for (std::size_t k = 0; k < N; ++k) sums[k] = std::max(0.0, high[k] - low[k]);
            return sums;
        }
        for (std::size_t k = 0; k < N; ++k)
            sums[k] =
                is_homogeneous() ? static_cast<double>(range.size()) * kinds_[0][k] : sum(range, k);
        return sums;
    }
    /// The sum over the range of each number times its weight.
    [[nodiscard]] double weighed(LayerRange range, const Row& weights) const {
        double total = 0;
        if (form_ == Form::counted || form_ == Form::by_run) {
            const Row sums = over(range);
            for (std::size_t k = 0; k < N; ++k) total += weights[k] * sums[k];
            return total;
        }
        for (std::size_t k = 0; k < N; ++k)
            total += weights[k] * (is_homogeneous() ? kinds_[0][k] : sum(range, k));
        return is_homogeneous() ? static_cast<double>(range.size()) * total : total;
    }

  private:
    using Form = LayerIndex::Form;

    void set_table() {
        prefix_.assign(1, Row{});
        for (const LayerRun& run : index_->list().runs)
            for (std::int64_t i = 0; i < run.count; ++i) {
                prefix_.push_back(prefix_.back());
                for (std::size_t k = 0; k < N; ++k) prefix_.back()[k] += kinds_[run.kind][k];
            }
    }
    void set_runs() {
        const std::vector<LayerRun>& runs = index_->list().runs;
        prefix_.assign(runs.size(), Row{});
        for (std::size_t r = 0; r + 1 < runs.size(); ++r)
            for (std::size_t k = 0; k < N; ++k)
                prefix_[r + 1][k] =
                    prefix_[r][k] + static_cast<double>(runs[r].count) * kinds_[runs[r].kind][k];
    }
    [[nodiscard]] double sum(LayerRange range, std::size_t k) const {
        return prefix_[static_cast<std::size_t>(range.end)][k] -
               prefix_[static_cast<std::size_t>(range.begin)][k];
    }
    [[nodiscard]] Row before(std::int64_t layer) const {
        Row sums{};
        if (form_ == Form::by_run) {
            const std::size_t run = index_->run_of(layer);
            const Row& row = kinds_[index_->list().runs[run].kind];
            const auto own = static_cast<double>(layer - index_->begin_of(run));
            for (std::size_t k = 0; k < N; ++k) sums[k] = prefix_[run][k] + own * row[k];
            return sums;
        }
        for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
            const auto count = static_cast<double>(index_->count_before(kind, layer));
            for (std::size_t k = 0; k < N; ++k) sums[k] += count * kinds_[kind][k];
        }
        return sums;
    }

    Form form_ = Form::homogeneous;
    std::shared_ptr<const LayerIndex> index_;
    std::vector<Row> kinds_;
    std::vector<Row> prefix_;  ///< before every layer, or run
};

/// The largest of one number of each layer, over ranges that are not empty.
class LayerMost {
  public:
    /// That of each kind of the index.
    void set(std::shared_ptr<const LayerIndex> index, std::vector<double> kinds) {
        index_ = std::move(index);
        form_ = index_->form();
        kinds_ = std::move(kinds);
        if (form_ == Form::tabled || form_ == Form::by_run) set_levels();
    }
    [[nodiscard]] double over(LayerRange range) const {
        if (form_ == Form::homogeneous) return kinds_[0];
        if (form_ == Form::counted) return over_kinds(range);
        if (form_ == Form::tabled)
            return over_values(static_cast<std::size_t>(range.begin),
                               static_cast<std::size_t>(range.end));
        return over_values(index_->run_of(range.begin), index_->run_of(range.end - 1) + 1);
    }

  private:
    using Form = LayerIndex::Form;

    void set_levels() {
        std::vector<double> values;
        for (const LayerRun& run : index_->list().runs)
            values.insert(values.end(),
                          form_ == Form::tabled ? static_cast<std::size_t>(run.count) : 1,
                          kinds_[run.kind]);
        levels_ = {std::move(values)};
        for (std::size_t half = 1; 2 * half <= levels_[0].size(); half *= 2) {
            const std::vector<double>& last = levels_.back();
            std::vector<double> next(levels_[0].size() - 2 * half + 1);
            for (std::size_t i = 0; i < next.size(); ++i)
                next[i] = std::max(last[i], last[i + half]);
            levels_.push_back(std::move(next));
        }
    }
    [[nodiscard]] double over_values(std::size_t begin, std::size_t end) const {
        const auto level = static_cast<std::size_t>(std::bit_width(end - begin)) - 1;
        const std::vector<double>& row = levels_[level];
        return std::max(row[begin], row[end - (std::size_t{1} << level)]);
    }
    [[nodiscard]] double over_kinds(LayerRange range) const {
        double most = 0;
        for (std::size_t kind = 0; kind < kinds_.size(); ++kind)
            if (index_->count_before(kind, range.end) > index_->count_before(kind, range.begin))
                most = std::max(most, kinds_[kind]);
        return most;
    }

    Form form_ = Form::homogeneous;
    std::shared_ptr<const LayerIndex> index_;
    std::vector<double> kinds_;
    std::vector<std::vector<double>> levels_;  ///< n: over 2^n layers, or runs, from each one on
};

/// What enters the first layer, and what leaves each one.
class LayerEnds {
  public:
    /// `kinds`: what leaves a layer of each kind.
    void set(std::shared_ptr<const LayerIndex> index, double first, std::vector<double> kinds) {
        index_ = std::move(index);
        first_ = first;
        kinds_ = std::move(kinds);
        if (std::all_of(kinds_.begin(), kinds_.end(), [&](double v) { return v == first_; }))
            kinds_.resize(1);
        table_.clear();
        if (kinds_.size() == 1 || index_->form() != LayerIndex::Form::tabled) return;
        table_.push_back(first_);
        for (const LayerRun& run : index_->list().runs)
            table_.insert(table_.end(), static_cast<std::size_t>(run.count), kinds_[run.kind]);
    }
    /// Behind a layer: 0 = before the first.
    [[nodiscard]] double at(std::int64_t behind) const {
        if (!table_.empty()) return table_[static_cast<std::size_t>(behind)];
        if (behind == 0 || kinds_.size() == 1) return behind == 0 ? first_ : kinds_[0];
        if (index_->form() == LayerIndex::Form::by_run)
            return kinds_[index_->list().runs[index_->run_of(behind - 1)].kind];
        std::size_t kind = 0;
        while (index_->count_before(kind, behind) == index_->count_before(kind, behind - 1)) ++kind;
        return kinds_[kind];
    }
    [[nodiscard]] double first() const { return first_; }
    /// That any layer lets out.
    [[nodiscard]] double least() const { return *std::min_element(kinds_.begin(), kinds_.end()); }

  private:
    std::shared_ptr<const LayerIndex> index_;
    double first_ = 0;
    std::vector<double> kinds_;  ///< one: the same everywhere
    std::vector<double> table_;
};

}  // namespace arena
