// SPDX-License-Identifier: GPL-2.0-or-later
// See comm_bench.h.
#include "profiler/comm/comm_bench.h"

#include <algorithm>
#include <cmath>
#include <exception>

#include "base/statistics.h"
#include "base/text.h"

namespace arena {
namespace {

constexpr std::size_t min_samples = 5, max_samples = 25;
constexpr std::int64_t max_batch = 50;
constexpr double sample_s = 1e-3;        ///< a shorter collective is timed several at once
constexpr double longest_share_s = 0.5;  ///< of one size; more would not make it more precise

/// 1, 2, 4, ... and n itself.
std::vector<std::int64_t> powers_up_to(std::int64_t n) {
    std::vector<std::int64_t> all;
    for (std::int64_t k = 1; k < n; k *= 2) all.push_back(k);
    all.push_back(n);
    return all;
}

/// One size of one collective of one placement.
struct Point {
    CommPlacement placement;
    CommOp op = CommOp::all_reduce;
    std::int64_t bytes = 0;
};

bool is_measured(CommOp op, const CommPlacement& p) { return op != CommOp::send || p.ranks == 2; }

/// In the order of the query; a size that rounding makes equal to the one before is left out.
std::vector<Point> points_of(const CommQuery& query) {
    std::vector<Point> points;
    for (const CommPlacement& placement : query.placements)
        for (const CommOp op : query.ops) {
            std::int64_t before = 0;
            for (std::int64_t bytes = query.min_bytes; bytes <= query.max_bytes;
                 bytes *= query.factor) {
                const std::int64_t usable = usable_bytes(op, bytes, placement.ranks);
                if (is_measured(op, placement) && usable > before)
                    points.push_back({placement, op, usable});
                before = std::max(before, usable);
            }
        }
    return points;
}

class CommBench {
  public:
    CommBench(Communicator& world, const CommWorld& place, const CommQuery& query,
              const CommHooks& hooks)
        : world_(world), place_(place), query_(query), hooks_(hooks), begin_(hooks.now()) {}

    CommOutcome run() {
        const std::vector<Point> points = points_of(query_);
        outcome_.wanted = points.size();
        try {
            for (std::size_t i = 0; i < points.size() && !is_over_; ++i) {
                enter(points[i].placement);
                measure(points[i], points.size() - i);
            }
        } catch (const std::exception& e) {
            outcome_.has_failed = true;
            note(e.what());
        }
        return outcome_;
    }

  private:
    void note(const std::string& why) {
        if (outcome_.reason.empty()) outcome_.reason = why;
    }

    void enter(const CommPlacement& placement) {
        if (is_inside_ && placement == inside_) return;
        group_ = group_of(place_, placement);
        world_.regroup(group_);
        inside_ = placement;
        is_inside_ = true;
        elapsed_s_ = world_.largest({hooks_.now() - begin_})[0];
    }

    /// Seconds of one collective, the same on every rank; nothing when a timer is broken, the
    /// budget has ended or somebody was told to stop.
    std::optional<double> sample(const Point& point, std::int64_t times) {
        double seconds = 1;
        if (group_ >= 0)
            seconds = world_.execute(point.op, point.bytes, times) / static_cast<double>(times);
        const bool is_time = std::isfinite(seconds) && seconds > 0;
        const std::vector<double> all =
            world_.largest({group_ >= 0 && is_time ? seconds : 0, is_time ? 0.0 : 1.0,
                            hooks_.is_stopped() ? 1.0 : 0.0, hooks_.now() - begin_});
        elapsed_s_ = all[3];
        if (all[1] > 0) note("a timer gave no usable time for " + name_of(point));
        if (all[2] > 0) end("stopped by a signal");
        if (all[1] > 0 || all[2] > 0) return {};
        return all[0];
    }

    void end(const std::string& why) {
        is_over_ = true;
        note(why);
    }

    void measure(const Point& point, std::size_t remaining) {
        const double left = query_.budget_s - elapsed_s_;
        if (left <= 0) return end("the budget of " + human_seconds(query_.budget_s) + " ended");
        const double until =
            elapsed_s_ + std::min(longest_share_s, left / static_cast<double>(remaining));
        const auto cold = sample(point, 1);
        const auto warm = cold ? sample(point, batch_for(*cold)) : cold;
        if (!warm) return;
        const std::int64_t batch = batch_for(*warm);
        std::vector<double> samples;
        while (samples.size() < max_samples &&
               (samples.size() < min_samples || elapsed_s_ < until)) {
            const auto seconds = sample(point, batch);
            if (!seconds) return;
            samples.push_back(*seconds);
        }
        tell(point, statistics_of(samples));
    }

    static std::int64_t batch_for(double seconds) {
        return std::clamp(static_cast<std::int64_t>(std::ceil(sample_s / seconds)), std::int64_t{1},
                          max_batch);
    }

    static std::string name_of(const Point& point) {
        return std::string(to_string(point.op)) + " of " +
               human_bytes(static_cast<double>(point.bytes)) + " over " +
               std::to_string(point.placement.ranks) + " ranks";
    }

    [[nodiscard]] CommSpan span_of(std::int64_t nodes) const {
        const auto at = static_cast<std::size_t>(nodes - 1);
        return nodes > 1 && at < query_.spans.size() ? query_.spans[at] : CommSpan::unsaid;
    }

    void tell(const Point& point, const SampleStatistics& s) {
        const CommTime time{query_.gpu_type,
                            point.op,
                            point.placement.ranks,
                            point.placement.nodes,
                            point.placement.groups,
                            point.bytes,
                            s.min,
                            s.median,
                            s.p95,
                            span_of(point.placement.nodes)};
        if (auto good = check_comm_time(time); !good)
            return note(name_of(point) + ": " + good.error().text);
        ++outcome_.measured;
        hooks_.on_time(time);
    }

    Communicator& world_;
    const CommWorld& place_;
    const CommQuery& query_;
    const CommHooks& hooks_;
    double begin_, elapsed_s_ = 0;  ///< elapsed: that of the rank that began first
    std::int64_t group_ = -1;
    CommPlacement inside_;
    bool is_inside_ = false, is_over_ = false;
    CommOutcome outcome_;
};

}  // namespace

std::vector<CommPlacement> all_placements(const CommWorld& world) {
    std::vector<CommPlacement> all;
    for (const std::int64_t nodes : powers_up_to(world.nodes))
        for (const std::int64_t each : powers_up_to(world.ranks_per_node)) {
            if (nodes * each < 2) continue;
            all.push_back({nodes * each, nodes, 1});
            if (const std::int64_t groups = world.ranks_per_node / each; groups > 1)
                all.push_back({nodes * each, nodes, groups});
        }
    return all;
}

std::int64_t group_of(const CommWorld& world, const CommPlacement& placement) {
    const std::int64_t each = placement.ranks / placement.nodes;
    const std::int64_t group = world.local() / each;
    return world.node() < placement.nodes && group < placement.groups ? group : -1;
}

std::int64_t usable_bytes(CommOp op, std::int64_t bytes, std::int64_t ranks) {
    const bool is_divided =
        op == CommOp::all_gather || op == CommOp::reduce_scatter || op == CommOp::all_to_all;
    const std::int64_t piece = is_divided ? 16 * ranks : 16;
    return bytes / piece * piece;
}

SampleStatistics statistics_of(std::vector<double> samples) {
    std::sort(samples.begin(), samples.end());
    return {samples.front(), median(samples), percentile(samples, 0.95)};
}

CommOutcome measure_comm(Communicator& communicator, const CommWorld& world, const CommQuery& query,
                         const CommHooks& hooks) {
    return CommBench(communicator, world, query, hooks).run();
}

}  // namespace arena
