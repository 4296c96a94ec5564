// SPDX-License-Identifier: GPL-2.0-or-later
// See measured_links.h. The formulas are linear in start-up and in 1 / rate, so two sizes of one
// placement give both.
#include "planner/hardware/measured_links.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "base/statistics.h"
#include "planner/hardware/collectives.h"

namespace arena {

namespace {

constexpr double most_oversubscription = 1000;  ///< as Uplink has it

double median_high_of(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return median_high(values);
}

/// Passes through the buffer: a reduce-scatter and an all-gather make an all-reduce. 0 = other ops.
double passes(CommOp op) {
    if (op == CommOp::all_reduce) return 2;
    return op == CommOp::all_gather || op == CommOp::reduce_scatter ? 1 : 0;
}

/// One op and placement: t = start_s + bytes * per_byte_s.
struct Line {
    CommTime small, large;
    [[nodiscard]] bool is_usable() const {
        return large.bytes > small.bytes && large.median_s > small.median_s;
    }
    [[nodiscard]] double per_byte_s() const {
        return (large.median_s - small.median_s) / real(large.bytes - small.bytes);
    }
    [[nodiscard]] double start_s() const {
        return std::max(0.0, small.median_s - real(small.bytes) * per_byte_s());
    }
    [[nodiscard]] double pass() const { return passes(small.op); }
    [[nodiscard]] std::int64_t per_node() const { return small.ranks / small.nodes; }
    /// Ranks of a node at work. Groups share their nodes, unless all of them together are the ranks
    /// of `all`, the largest single group, which lies on more nodes than one of them does.
    [[nodiscard]] std::int64_t busy(const Line& all) const {
        const bool is_spread =
            small.ranks * small.groups == all.small.ranks && small.nodes < all.small.nodes;
        return is_spread ? all.per_node() : per_node() * small.groups;
    }
};

/// Of groups that span so much, those on one node among them.
std::vector<Line> lines_of(const std::vector<CommTime>& times, CommSpan span) {
    std::map<std::tuple<CommOp, std::int64_t, std::int64_t, std::int64_t>, Line> lines;
    for (const CommTime& t : times) {
        if (passes(t.op) == 0 || (t.nodes > 1 && t.span != span)) continue;
        const auto [at, is_new] = lines.try_emplace({t.op, t.ranks, t.nodes, t.groups}, Line{t, t});
        if (t.bytes < at->second.small.bytes) at->second.small = t;
        if (t.bytes > at->second.large.bytes) at->second.large = t;
    }
    std::vector<Line> usable;
    for (const auto& [key, line] : lines)
        if (line.is_usable()) usable.push_back(line);
    return usable;
}

void fit(Link& link, const std::vector<double>& alphas, const std::vector<double>& rates) {
    if (rates.empty()) return;
    link.alpha_s = std::max(median_high_of(alphas), 1e-9);
    link.bytes_per_s = median_high_of(rates);
}

/// intra_pass_s() of collectives.cc. What joins a domain joins its nodes' GPUs, too.
void fit_intra(Link& link, const std::vector<Line>& lines) {
    std::vector<double> alphas, rates;
    for (const Line& line : lines) {
        if (line.small.groups != 1) continue;
        alphas.push_back(line.start_s() / line.pass() * 2 / (4 + real(line.small.ranks) / 2));
        rates.push_back(line.pass() * ring_share(line.small.ranks) / line.per_byte_s());
    }
    fit(link, alphas, rates);
}

/// hierarchical_pass_s(): what the part inside the nodes takes is taken off first.
void fit_inter(Link& link, const Link& intra, const std::vector<Line>& lines) {
    Line all{};
    for (const Line& line : lines)
        if (line.small.groups == 1 && line.small.ranks > all.small.ranks) all = line;
    std::int64_t busiest = 0;
    for (const Line& line : lines)
        if (line.small.nodes > 1) busiest = std::max(busiest, line.busy(all));
    std::vector<double> alphas, rates;
    for (const Line& line : lines) {
        const std::int64_t nodes = line.small.nodes, p = line.per_node();
        if (nodes == 1 || line.busy(all) != busiest) continue;
        const double inside_start = p > 1 ? intra.alpha_s * (4 + real(p) / 2) / 2 : 0;
        const double inside_byte = ring_share(p) / intra.bytes_per_s;
        const double start = line.start_s() / line.pass();
        const double slowdown =
            cross_rail_slowdown({intra, link, busiest, busiest, nodes}, {line.small.ranks, p});
        const double per_byte = (line.per_byte_s() / line.pass() - inside_byte) / slowdown;
        if (per_byte <= 0) continue;  // the network is no part of it that can be seen
        const double tree = (start - inside_start) / (2 + std::log2(real(nodes)));
        // ring_pass_s(): a gather starts as late as the later of a tree and a ring does
        const double ring =
            2 * (start - intra.alpha_s / 3 * real(line.small.ranks - nodes)) / real(nodes - 1);
        alphas.push_back(std::max(0.0, line.pass() > 1 ? tree : std::min(tree, ring)));
        rates.push_back(real(busiest) * ring_share(nodes) / real(p) / per_byte);
    }
    fit(link, alphas, rates);
}

/// So that link_over() gives this link over the span; never faster than one level below.
void set_uplink(GpuType& type, Span span, const Link& over) {
    const auto level = static_cast<std::size_t>(span) - 1;
    const Link below = link_over(type, static_cast<Span>(level));
    type.uplinks[level] = {
        std::clamp(below.bytes_per_s / over.bytes_per_s, 1.0, most_oversubscription),
        std::max(0.0, over.alpha_s - below.alpha_s)};
}

}  // namespace

GpuType with_measured_links(GpuType type, const std::vector<CommTime>& times) {
    const auto has = [&](CommSpan span) {
        return std::ranges::any_of(
            times, [&](const CommTime& t) { return t.nodes > 1 && t.span == span; });
    };
    const CommSpan near = has(CommSpan::leaf) ? CommSpan::leaf : CommSpan::unsaid;
    fit_intra(type.intra, lines_of(times, CommSpan::domain));
    fit_inter(type.inter, type.intra, lines_of(times, near));
    for (const auto& [span, measured] :
         {std::pair(Span::pod, CommSpan::pod), std::pair(Span::pods, CommSpan::pods)}) {
        if (!has(measured)) continue;
        Link over = link_over(type, span);
        const Link formula = over;
        fit_inter(over, type.intra, lines_of(times, measured));
        if (over != formula) set_uplink(type, span, over);
    }
    return type;
}

}  // namespace arena
