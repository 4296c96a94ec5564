// SPDX-License-Identifier: GPL-2.0-or-later
#include "planner/plans/schedule.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace arena {

namespace {

double extra_s(const EqualLayers& problem, std::size_t stage) {
    return (stage == 0 ? problem.first_s : 0) +
           (stage + 1 == problem.capacity.size() ? problem.last_s : 0);
}

/// Starts every stage at the level that all would have if layers could be cut: giving one layer
/// after the other to the cheapest stage passes through this state. Returns the layers that are
/// left.
std::int64_t fill_to_level(const EqualLayers& problem, std::span<std::int64_t> out) {
    const double level =
        (static_cast<double>(problem.layers) * problem.layer_s + problem.first_s + problem.last_s) /
        static_cast<double>(out.size());
    std::int64_t left = problem.layers;
    for (std::size_t i = 0; i < out.size(); ++i) {
        const double share = std::floor((level - extra_s(problem, i)) / problem.layer_s);
        const auto whole = static_cast<std::int64_t>(std::max(1.0, share));
        out[i] = std::min(whole, problem.capacity[i]);
        left -= out[i];
    }
    return left;
}

}  // namespace

bool partition_layers(const EqualLayers& problem, std::span<std::int64_t> out) {
    std::int64_t room = 0;
    for (std::int64_t capacity : problem.capacity) {
        if (capacity < 1) return false;
        room += std::min(capacity, problem.layers);
    }
    if (room < problem.layers || static_cast<std::int64_t>(out.size()) > problem.layers)
        return false;
    std::int64_t left = fill_to_level(problem, out);
    if (left < 0) {  // an embedding or a head heavier than the level: fill from the start
        std::fill(out.begin(), out.end(), 1);
        left = problem.layers - static_cast<std::int64_t>(out.size());
    }
    for (; left > 0; --left) {
        std::size_t best = out.size();
        double best_s = std::numeric_limits<double>::infinity();
        for (std::size_t i = 0; i < out.size(); ++i) {
            const double after =
                static_cast<double>(out[i] + 1) * problem.layer_s + extra_s(problem, i);
            if (out[i] < problem.capacity[i] && after <= best_s) best = i, best_s = after;
        }
        ++out[best];
    }
    return true;
}

void PipelineLength::add(double f, double g, std::int64_t in_flight, std::int64_t micro_batches) {
    const double both = f + g, ahead = static_cast<double>(in_flight - 1);
    const double m = static_cast<double>(micro_batches);
    forward_s = std::max(forward_s, f);
    backward_s = std::max(backward_s, g);
    if (in_flight < micro_batches) {
        open_s = std::max(open_s + 2 * both, sum_s + (m - ahead) * both);
        filled_s = std::max(filled_s + both, open_s + ahead * forward_s);
        drained_s = std::max(drained_s + both, open_s + ahead * backward_s);
    } else {  // all forwards, then all backwards: it cannot be passed twice
        filled_s = sum_s + both + (m - 1) * forward_s;
        drained_s = sum_s + both + (m - 1) * backward_s;
    }
    closed_s = std::max({closed_s, filled_s + ahead * backward_s, drained_s + ahead * forward_s});
    sum_s += both;
}

bool PipelineLength::at_most(const PipelineLength& o, double slack) const {
    const auto le = [&](double a, double b) { return a <= b * slack; };
    return le(sum_s, o.sum_s) && le(open_s, o.open_s) && le(closed_s, o.closed_s) &&
           le(forward_s, o.forward_s) && le(backward_s, o.backward_s) && le(filled_s, o.filled_s) &&
           le(drained_s, o.drained_s);
}

double PipelineLength::least_s(double rest_s) const {
    return std::max({open_s + 2 * rest_s, filled_s + rest_s, drained_s + rest_s, closed_s});
}

double pipeline_seconds(std::span<const double> forward_s, std::span<const double> backward_s,
                        std::int64_t micro_batches) {
    PipelineLength length;
    const auto stages = static_cast<std::int64_t>(forward_s.size());
    for (std::int64_t i = 0; i < stages; ++i)
        length.add(forward_s[static_cast<std::size_t>(i)], backward_s[static_cast<std::size_t>(i)],
                   std::min(micro_batches, stages - i), micro_batches);
    return length.closed_s;
}

/// With stage times c, a path by way of stage k is sum(c before k) + (m - p + 1 + k) c_k + 2 sum(c
/// after k) long where m > p. The weights of k that make every c count equally give the first
/// bound, k the longest stage the second. For any m: one stage's forwards (or backwards) in a row;
/// and for m <= p the same weighing, of the last m - 1 stages and of the others. The last stage
/// alternates from the start: its micro-batches in a row, and the others' one.
double least_pipeline_seconds(double sum_s, double longest_s, std::int64_t stages,
                              std::int64_t micro_batches, double last_s) {
    const auto p = static_cast<double>(stages), m = static_cast<double>(micro_batches);
    const double longest = std::max(longest_s, sum_s / p);
    const double by_last = sum_s + (m - 1) * last_s;
    if (micro_batches > stages) return std::max(by_last, 2 * sum_s + (m - p - 1) * longest);
    return std::max({by_last, m * longest, sum_s + (m - 1) / 2 * longest,
                     sum_s * (1 + (m - 1) / (2 * p - m + 1))});
}

// ---- interleaved

double InterleavedStages::work_s(std::size_t stage) const {
    if (!chunks_differ)
        return static_cast<double>(chunks) * (chunk_forward_s[stage] + chunk_backward_s[stage]);
    double sum = 0;
    for (std::size_t i = stage; i < chunk_forward_s.size(); i += stages())
        sum += chunk_forward_s[i] + chunk_backward_s[i];
    return sum;
}

namespace {

double even_interleaved_seconds(const InterleavedStages& s) {
    const double m = static_cast<double>(s.micro_batches), v = static_cast<double>(s.chunks);
    double sum = s.first_forward_s + s.first_backward_s + s.last_forward_s + s.last_backward_s;
    double longest = 0;
    for (std::size_t i = 0; i < s.stages(); ++i) {
        const bool is_last = i + 1 == s.stages();
        const double chunks = s.work_s(i);
        sum += chunks;
        longest = std::max(longest, chunks + (i == 0 ? s.first_forward_s + s.first_backward_s : 0) +
                                        (is_last ? s.last_forward_s + s.last_backward_s : 0));
    }
    return m * longest + (sum - longest) / v;
}

/// What a stage does as its n-th forward; backwards take the chunks in reverse.
struct ChunkTask {
    std::int64_t chunk, micro_batch;
};

ChunkTask chunk_task(std::int64_t n, std::int64_t stages, std::int64_t chunks) {
    const std::int64_t round = stages * chunks;
    return {n % round / stages, n / round * stages + n % stages};
}

}  // namespace

std::size_t InterleavedReplay::slot(std::int64_t stage, std::int64_t chunk,
                                    std::int64_t micro_batch) const {
    return static_cast<std::size_t>((micro_batch * chunks_ + chunk) * stages_ + stage);
}

/// The next task of the stage's fixed order; false when what it waits for has not been played, or
/// all is done. Ends are negative until played.
bool InterleavedReplay::run_task(const InterleavedStages& s, std::int64_t stage) {
    const auto index = static_cast<std::size_t>(stage);
    const std::int64_t total = chunks_ * micro_batches_, n = next_[index];
    const std::int64_t warm = std::min(total, 2 * (stages_ - stage - 1) + (chunks_ - 1) * stages_);
    if (n == 2 * total) return false;
    const std::int64_t steady = n - warm;
    const bool forward = n < warm || (n < 2 * total - warm && steady % 2 == 0);
    const std::int64_t count = n < warm                ? n
                               : n >= 2 * total - warm ? n - total
                               : forward               ? warm + steady / 2
                                                       : steady / 2;
    ChunkTask task = chunk_task(count, stages_, chunks_);
    if (!forward) task.chunk = chunks_ - 1 - task.chunk;
    const std::int64_t last = stages_ - 1;
    const bool first_chunk = stage == 0 && task.chunk == 0;
    const bool last_chunk = stage == last && task.chunk == chunks_ - 1;
    double ready = 0;
    if (forward && !first_chunk)
        ready = stage > 0 ? forward_end_s_[slot(stage - 1, task.chunk, task.micro_batch)]
                          : forward_end_s_[slot(last, task.chunk - 1, task.micro_batch)];
    if (!forward && last_chunk) ready = forward_end_s_[slot(stage, task.chunk, task.micro_batch)];
    if (!forward && !last_chunk)
        ready = stage < last ? backward_end_s_[slot(stage + 1, task.chunk, task.micro_batch)]
                             : backward_end_s_[slot(0, task.chunk + 1, task.micro_batch)];
    if (ready < 0) return false;
    const std::size_t at = s.at(index, static_cast<std::size_t>(task.chunk));
    double took = forward ? s.chunk_forward_s[at] : s.chunk_backward_s[at];
    if (first_chunk) took += forward ? s.first_forward_s : s.first_backward_s;
    if (last_chunk) took += forward ? s.last_forward_s : s.last_backward_s;
    free_s_[index] = std::max(free_s_[index], ready) + took;
    (forward ? forward_end_s_ : backward_end_s_)[slot(stage, task.chunk, task.micro_batch)] =
        free_s_[index];
    ++next_[index];
    return true;
}

double InterleavedReplay::play(const InterleavedStages& s) {
    stages_ = static_cast<std::int64_t>(s.stages());
    chunks_ = s.chunks;
    micro_batches_ = s.micro_batches;
    const auto tasks = static_cast<std::size_t>(stages_ * chunks_ * micro_batches_);
    forward_end_s_.assign(tasks, -1);
    backward_end_s_.assign(tasks, -1);
    free_s_.assign(static_cast<std::size_t>(stages_), 0);
    next_.assign(static_cast<std::size_t>(stages_), 0);
    for (bool any = true; any;) {
        any = false;
        for (std::int64_t i = 0; i < stages_; ++i)
            while (run_task(s, i)) any = true;
    }
    return *std::max_element(free_s_.begin(), free_s_.end());
}

double InterleavedReplay::seconds(const InterleavedStages& s, std::int64_t max_tasks) {
    constexpr std::int64_t least_groups = 8;
    const auto stages = static_cast<std::int64_t>(s.stages());
    const std::int64_t groups = s.micro_batches / stages;
    const std::int64_t playable = max_tasks / (stages * s.chunks) / stages;
    if (groups <= std::max<std::int64_t>(playable, 1)) return play(s);
    if (playable < least_groups) return even_interleaved_seconds(s);
    InterleavedStages some = s;
    some.micro_batches = (playable - 1) * stages;
    const double before = play(some);
    some.micro_batches = playable * stages;
    const double length = play(some);
    return std::max(length + static_cast<double>(groups - playable) * (length - before),
                    least_interleaved_seconds(s));
}

/// A stage waits for the first chunk of those before it, does all its work, and they finish theirs.
double least_interleaved_seconds(const InterleavedStages& s) {
    const double m = static_cast<double>(s.micro_batches);
    double around = 0, least = 0;
    for (std::size_t i = 0; i < s.stages(); ++i) {
        const std::size_t at = s.at(i, 0);
        const double first = i == 0 ? s.first_forward_s + s.first_backward_s : 0;
        const double last = i + 1 == s.stages() ? s.last_forward_s + s.last_backward_s : 0;
        least = std::max(least, around + m * (s.work_s(i) + first + last));
        around += s.chunk_forward_s[at] + s.chunk_backward_s[at] + first;
    }
    return least;
}

}  // namespace arena
