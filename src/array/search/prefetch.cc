// SPDX-License-Identifier: GPL-2.0-or-later
#include "array/search/prefetch.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace arena::array {

namespace {

Bytes of(const ByteTable& table, const Block& block) {
    return table[index(block.job)][index(block.stage)];
}

/// Blocks of one state that a device runs one after another.
struct Visit {
    const Block* block = nullptr;  ///< the first
    Ticks end = 0;
    bool backward = false;  ///< any of them: the state has changed
};

std::vector<std::vector<Visit>> visits_of(const Instance& instance, const Schedule& schedule) {
    std::vector<std::vector<Visit>> visits(index(instance.devices));
    for (const std::size_t b : blocks_in_order(instance, schedule)) {
        const Block& block = instance.blocks[b];
        auto& all = visits[index(block.device)];
        if (all.empty() || all.back().block->state != block.state) all.push_back({.block = &block});
        all.back().end = schedule.start[b] + block.hold;
        all.back().backward |= block.backward;
    }
    return visits;
}

/// The buffers of a device, and the next visit to fetch for.
struct Fetcher {
    struct Buffer {
        int state = -1;
        bool whole = false;    ///< with the optimiser's part
        Ticks free_at = 0;     ///< end of the last visit in it
        Bytes write_back = 0;  ///< before another state comes in
    };
    std::vector<Buffer> buffers;
    std::size_t next = 1;  ///< the first visit needs no switch

    /// That of the state, else the one that is free first.
    Buffer& buffer_for(int state) {
        for (Buffer& buffer : buffers)
            if (buffer.state == state) return buffer;
        return *std::min_element(
            buffers.begin(), buffers.end(),
            [](const Buffer& a, const Buffer& b) { return a.free_at < b.free_at; });
    }
};

class Transfers {
  public:
    Transfers(const Instance& instance, const Schedule& schedule, const PrefetchModel& model)
        : model_(model),
          visits_(visits_of(instance, schedule)),
          fetchers_(visits_.size()),
          took_(states_of(instance), 0) {
        for (std::size_t d = 0; d < visits_.size(); ++d) {
            fetchers_[d].buffers.resize(index(model.buffers));
            if (!visits_[d].empty()) occupy(fetchers_[d].buffers.front(), visits_[d].front());
        }
    }

    std::vector<Ticks> run() {
        std::vector<double> link_free(
            1 + index(*std::max_element(model_.server.begin(), model_.server.end())), 0);
        while (const auto device = next_device()) {
            const std::size_t d = *device;
            Fetcher& fetcher = fetchers_[d];
            const Visit& visit = visits_[d][fetcher.next];
            const Ticks before = visits_[d][fetcher.next - 1].end;
            Fetcher::Buffer& buffer = fetcher.buffer_for(visit.block->state);
            const double bytes = bytes_for(buffer, visit);
            double arrives = 0;
            if (bytes > 0) {
                double& link = link_free[index(model_.server[d])];
                link = arrives =
                    std::max<double>(link, issued(fetcher, d)) + bytes / model_.bytes_per_tick;
            }
            const auto stall = static_cast<Ticks>(std::min(std::ceil(arrives - before), 1e9));
            Ticks& took = took_[index(visit.block->state)];
            took = std::max({took, model_.hit, stall});
            occupy(buffer, visit);
            ++fetcher.next;
        }
        return took_;
    }

  private:
    static std::size_t states_of(const Instance& instance) {
        return index(instance.jobs) * index(instance.stages);
    }
    void occupy(Fetcher::Buffer& buffer, const Visit& visit) const {
        const bool same = buffer.state == visit.block->state;
        buffer.whole = (same && buffer.whole) || visit.backward;
        buffer.state = visit.block->state;
        buffer.free_at = visit.end;
        buffer.write_back = visit.backward ? of(model_.backward_state, *visit.block) : 0;
    }
    [[nodiscard]] double bytes_for(const Fetcher::Buffer& buffer, const Visit& visit) const {
        const Bytes wanted =
            of(visit.backward ? model_.backward_state : model_.forward_state, *visit.block);
        if (buffer.state != visit.block->state)
            return static_cast<double>(wanted + buffer.write_back);
        if (buffer.whole || !visit.backward) return 0;
        return static_cast<double>(
            std::max<Bytes>(0, wanted - of(model_.forward_state, *visit.block)));
    }
    /// When the buffer is free, and, with one buffer, nothing runs.
    [[nodiscard]] Ticks issued(Fetcher& fetcher, std::size_t d) const {
        const int state = visits_[d][fetcher.next].block->state;
        return fetcher.buffer_for(state).free_at;
    }
    /// The device whose next transfer is issued first.
    std::optional<std::size_t> next_device() {
        std::optional<std::size_t> first;
        for (std::size_t d = 0; d < visits_.size(); ++d) {
            if (fetchers_[d].next >= visits_[d].size()) continue;
            if (!first || issued(fetchers_[d], d) < issued(fetchers_[*first], *first)) first = d;
        }
        return first;
    }

    const PrefetchModel& model_;
    std::vector<std::vector<Visit>> visits_;
    std::vector<Fetcher> fetchers_;
    std::vector<Ticks> took_;
};

/// Each is at least as long as in either.
std::vector<Ticks> longer(std::vector<Ticks> a, const std::vector<Ticks>& b) {
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = std::max(a[i], b[i]);
    return a;
}

}  // namespace

std::vector<Ticks> effective_switches(const Instance& instance, const Schedule& schedule,
                                      const PrefetchModel& model) {
    return Transfers(instance, schedule, model).run();
}

Instance with_switches(const Instance& instance, const std::vector<Ticks>& by_state) {
    Instance other = instance;
    for (Block& block : other.blocks) block.setup = by_state[index(block.state)];
    return other;
}

PrefetchedSolution solve_prefetched(const Instance& instance, const Rules& rules,
                                    const PrefetchModel& model, const SolveOptions& options,
                                    int rounds) {
    std::vector<Ticks> switches(index(instance.jobs) * index(instance.stages), model.hit);
    PrefetchedSolution best{with_switches(instance, switches), {}};
    for (int round = 0; round <= rounds; ++round) {
        best.instance = with_switches(instance, switches);
        best.solution = solve(best.instance, rules, options);
        if (!best.solution.schedule) return best;
        const auto took = effective_switches(best.instance, *best.solution.schedule, model);
        const auto next = longer(switches, took);
        if (next == switches) return best;
        switches = next;
    }
    // The order stays, and waits as long as its transfers take.
    const Order order = best.solution.schedule->order;
    best.instance = with_switches(instance, switches);
    best.solution.schedule = append(best.instance, rules, order).value();
    best.solution.proven = false;
    return best;
}

}  // namespace arena::array
