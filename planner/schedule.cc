// SPDX-License-Identifier: GPL-2.0-or-later
#include "planner/schedule.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace arena {

namespace {

double extra_s(const LayerDeal& deal, std::size_t stage) {
    return (stage == 0 ? deal.first_s : 0) + (stage + 1 == deal.capacity.size() ? deal.last_s : 0);
}

/// Starts every stage at the level that all would have if layers could be cut: dealing one layer
/// after the other to the cheapest stage passes through this state. Returns the layers still to be
/// dealt.
std::int64_t deal_to_level(const LayerDeal& deal, std::span<std::int64_t> out) {
    const double level =
        (static_cast<double>(deal.layers) * deal.layer_s + deal.first_s + deal.last_s) /
        static_cast<double>(out.size());
    std::int64_t left = deal.layers;
    for (std::size_t i = 0; i < out.size(); ++i) {
        const double share = std::floor((level - extra_s(deal, i)) / deal.layer_s);
        const auto whole = static_cast<std::int64_t>(std::max(1.0, share));
        out[i] = std::min(whole, deal.capacity[i]);
        left -= out[i];
    }
    return left;
}

}  // namespace

bool deal_layers(const LayerDeal& deal, std::span<std::int64_t> out) {
    std::int64_t room = 0;
    for (std::int64_t capacity : deal.capacity) {
        if (capacity < 1) return false;
        room += std::min(capacity, deal.layers);
    }
    if (room < deal.layers || static_cast<std::int64_t>(out.size()) > deal.layers) return false;
    std::int64_t left = deal_to_level(deal, out);
    if (left < 0) {  // an embedding or a head heavier than the level: deal from the start
        std::fill(out.begin(), out.end(), 1);
        left = deal.layers - static_cast<std::int64_t>(out.size());
    }
    for (; left > 0; --left) {
        std::size_t best = out.size();
        double best_s = std::numeric_limits<double>::infinity();
        for (std::size_t i = 0; i < out.size(); ++i) {
            const double after = static_cast<double>(out[i] + 1) * deal.layer_s + extra_s(deal, i);
            if (out[i] < deal.capacity[i] && after <= best_s) best = i, best_s = after;
        }
        ++out[best];
    }
    return true;
}

double pipeline_seconds(std::span<const double> stage_s, std::int64_t micro_batches) {
    return pipeline_seconds(stage_s, micro_batches, 1);
}

double pipeline_seconds(std::span<const double> stage_s, std::int64_t micro_batches,
                        std::int64_t vpp) {
    const double sum = std::accumulate(stage_s.begin(), stage_s.end(), 0.0);
    const double longest = *std::max_element(stage_s.begin(), stage_s.end());
    return static_cast<double>(micro_batches) * longest +
           (sum - longest) / static_cast<double>(vpp);
}

}  // namespace arena
