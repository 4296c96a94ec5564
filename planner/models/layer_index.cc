// SPDX-License-Identifier: GPL-2.0-or-later
#include "planner/models/layer_index.h"

namespace arena {

namespace {

constexpr std::size_t max_counted_kinds = 8;
constexpr std::size_t many_runs = 256;

}  // namespace

LayerIndex::LayerIndex(LayerList list) : list_(std::move(list)) {
    for (const LayerRun& run : list_.runs) {
        begins_.push_back(layers_);
        layers_ += run.count;
    }
    begins_.push_back(layers_);
    if (list_.kinds.size() == 1) return;
    form_ = layers_ <= max_tabled_layers ? Form::tabled : Form::by_run;
    if (form_ == Form::tabled || list_.kinds.size() > max_counted_kinds ||
        list_.runs.size() <= many_runs || layers_ > UINT16_MAX)
        return;
    form_ = Form::counted;
    const std::size_t kinds = list_.kinds.size();
    std::vector<std::uint16_t> before(kinds);
    counts_ = before;
    counts_.reserve((static_cast<std::size_t>(layers_) + 1) * kinds);
    for (const LayerRun& run : list_.runs)
        for (std::int64_t i = 0; i < run.count; ++i) {
            ++before[run.kind];
            counts_.insert(counts_.end(), before.begin(), before.end());
        }
}

LayerList with_first_layers(const LayerList& list) {
    LayerList split;
    for (const LayerRun& run : list.runs) {
        const std::size_t kind = split.kinds.size();
        split.kinds.insert(split.kinds.end(), 2, list.kinds[run.kind]);
        split.runs.push_back({kind, 1});
        if (run.count > 1) split.runs.push_back({kind + 1, run.count - 1});
    }
    return split;
}

}  // namespace arena
