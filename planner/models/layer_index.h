// SPDX-License-Identifier: GPL-2.0-or-later
// Where the layers of a model lie, for tables over ranges of them (layer_sums.h). A table of every
// layer is quickest and takes megabytes for a model of 10,000 layers, times hundreds of shards: of
// many layers only the runs are kept, or, where two or three kinds alternate, how many of each kind
// come before each layer.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "planner/models/layers.h"

namespace arena {

/// Up to so many layers each one has its row.
inline constexpr std::int64_t max_tabled_layers = 512;

class LayerIndex {
  public:
    enum class Form { homogeneous, tabled, counted, by_run };

    explicit LayerIndex(LayerList);
    [[nodiscard]] Form form() const { return form_; }
    [[nodiscard]] const LayerList& list() const { return list_; }
    [[nodiscard]] std::int64_t layers() const { return layers_; }
    /// The run that a layer, or the end of the last one, belongs to.
    [[nodiscard]] std::size_t run_of(std::int64_t layer) const {
        const auto above = std::upper_bound(begins_.begin(), begins_.end(), layer);
        return std::min(static_cast<std::size_t>(above - begins_.begin()) - 1,
                        list_.runs.size() - 1);
    }
    [[nodiscard]] std::int64_t begin_of(std::size_t run) const { return begins_[run]; }
    /// Layers of a kind before a layer; of form `counted`.
    [[nodiscard]] std::int64_t count_before(std::size_t kind, std::int64_t layer) const {
        return counts_[static_cast<std::size_t>(layer) * list_.kinds.size() + kind];
    }

  private:
    LayerList list_;
    std::int64_t layers_ = 0;
    Form form_ = Form::homogeneous;
    std::vector<std::int64_t> begins_;   ///< of every run, and the end
    std::vector<std::uint16_t> counts_;  ///< by layer and kind
};

/// The first layer of each run as a run of a kind of its own: what enters it is what leaves another
/// kind. Kinds n, n + 1 of the result are those of run n / 2.
LayerList with_first_layers(const LayerList&);

}  // namespace arena
