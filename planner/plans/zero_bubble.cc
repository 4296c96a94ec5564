// SPDX-License-Identifier: GPL-2.0-or-later
// The orders of ZB-H1, ZB-V and DualPipeV, as torch/distributed/pipelining/schedules.py has them,
// and their play. Each stage does its tasks in its order. A task starts when its input is there;
// stages are visited in turn until none gets further. Transfers are part of the tasks' times.
#include "planner/plans/zero_bubble.h"

#include <algorithm>
#include <deque>
#include <utility>

namespace arena {

namespace {

using Kind = PipelineTask::Kind;

/// Writes the tasks of a stage down. Of each chunk and kind micro-batches come in their order.
class Order {
  public:
    explicit Order(std::int64_t chunks) : counts_(static_cast<std::size_t>(4 * chunks), 0) {}

    void add(Kind kind, std::int64_t chunk) {
        if (kind == Kind::backward) {
            push(kind, chunk, count(Kind::inputs, chunk)++);
            ++count(Kind::weights, chunk);
            return;
        }
        push(kind, chunk, count(kind, chunk)++);
        if (kind == Kind::inputs) waiting_.push_back(chunk);
    }
    /// A forward of one chunk beside a backward of the other.
    void add_pair(std::int64_t forward, std::int64_t backward) {
        add(Kind::forward, forward);
        tasks_.back().joins_next = true;
        add(Kind::backward, backward);
    }
    /// The gradients of weights that wait longest; none where none wait.
    void add_weights() {
        if (waiting_.empty()) return;
        add(Kind::weights, waiting_.front());
        waiting_.pop_front();
    }
    /// The same of this chunk; false where none wait.
    bool add_weights_of(std::int64_t chunk) {
        const auto at = std::find(waiting_.begin(), waiting_.end(), chunk);
        if (at == waiting_.end()) return false;
        waiting_.erase(at);
        add(Kind::weights, chunk);
        return true;
    }
    [[nodiscard]] std::int64_t done(Kind kind, std::int64_t chunk) const {
        return counts_[at(kind, chunk)];
    }
    [[nodiscard]] bool has_waiting() const { return !waiting_.empty(); }
    std::vector<PipelineTask> take() { return std::move(tasks_); }

  private:
    static std::size_t at(Kind kind, std::int64_t chunk) {
        return static_cast<std::size_t>(4 * chunk) + static_cast<std::size_t>(kind);
    }
    std::int64_t& count(Kind kind, std::int64_t chunk) { return counts_[at(kind, chunk)]; }
    void push(Kind kind, std::int64_t chunk, std::int64_t micro_batch) {
        tasks_.push_back({.kind = kind, .chunk = chunk, .micro_batch = micro_batch});
    }
    std::vector<std::int64_t> counts_;
    std::deque<std::int64_t> waiting_;  ///< chunks whose gradients of weights wait
    std::vector<PipelineTask> tasks_;
};

/// 1F1B that waits for gradients of inputs alone; the first gradients of weights wait for as many
/// micro-batches as there are stages before.
std::vector<PipelineTask> zb_h1_tasks(std::int64_t stage, std::int64_t stages, std::int64_t chunks,
                                      std::int64_t micro_batches) {
    const std::int64_t rounds = std::max<std::int64_t>(1, micro_batches / stages);
    const std::int64_t round = micro_batches / rounds, all = chunks * micro_batches;
    const std::int64_t warm = std::min((chunks - 1) * round + stages - 1 - stage, all);
    const auto chunk_of = [&](std::int64_t n) { return n / round % chunks; };
    Order order(chunks);
    for (std::int64_t n = 0; n < warm; ++n) order.add(Kind::forward, chunk_of(n));
    for (std::int64_t n = 0; n < all; ++n) {
        if (warm + n < all) order.add(Kind::forward, chunk_of(warm + n));
        order.add(Kind::inputs, chunks - 1 - chunk_of(n));
        if (n >= stage) order.add_weights();
    }
    while (order.has_waiting()) order.add_weights();
    return order.take();
}

void zb_v_stable(Order& order, std::int64_t micro_batches) {
    const auto forwards = [&](std::int64_t chunk) { return order.done(Kind::forward, chunk); };
    const auto backward = [&](std::int64_t chunk) {
        order.add(Kind::inputs, chunk);
        order.add_weights_of(chunk);
    };
    while (forwards(1) < forwards(0) || forwards(0) < micro_batches) {
        if (forwards(0) < micro_batches) order.add(Kind::forward, 0);
        backward(0);
        order.add(Kind::forward, 1);
        backward(1);
    }
}

/// For equal times of the three tasks it has no bubbles. It is made for 2 * stages - 1
/// micro-batches or more; of fewer, the others are left out.
std::vector<PipelineTask> zb_v_tasks(std::int64_t stage, std::int64_t stages,
                                     std::int64_t micro_batches) {
    Order order(2);
    for (std::int64_t n = 0; n < 2 * (stages - stage) - 1; ++n) order.add(Kind::forward, 0);
    for (std::int64_t n = 0; n < stage; ++n) {
        order.add(Kind::forward, 1);
        order.add(Kind::forward, 0);
    }
    for (std::int64_t n = 0; n < stages - stage; ++n) {
        order.add(Kind::forward, 1);
        order.add(Kind::inputs, 1);
        order.add_weights_of(1);
    }
    zb_v_stable(order, std::max(2 * stages - 1, micro_batches));
    for (std::int64_t n = 0; n < stage; ++n) {
        order.add(Kind::inputs, 0);
        order.add(Kind::inputs, 1);
    }
    for (std::int64_t n = 0; n < stages - stage; ++n) {
        order.add(Kind::inputs, 0);
        order.add_weights_of(0);
    }
    for (const std::int64_t chunk : {1, 0})
        while (order.add_weights_of(chunk)) continue;
    std::vector<PipelineTask> tasks = order.take();
    std::erase_if(tasks, [&](const PipelineTask& t) { return t.micro_batch >= micro_batches; });
    return tasks;
}

/// One chunk's forward beside the other's backward: PyTorch waits for the inputs of both, and sends
/// the outputs of both when both are done. The last stage's first pair is two tasks.
std::vector<PipelineTask> dual_pipe_v_tasks(std::int64_t stage, std::int64_t stages,
                                            std::int64_t micro_batches) {
    Order order(2);
    const std::int64_t after = stages - stage - 1;
    for (std::int64_t n = 0; n < 2 * after; ++n) order.add(Kind::forward, 0);
    for (std::int64_t n = 0; n <= stage; ++n)
        for (const std::int64_t chunk : {0, 1}) order.add(Kind::forward, chunk);
    for (std::int64_t n = 0; n < after; ++n) {
        order.add(Kind::inputs, 1);
        order.add_weights();
        order.add(Kind::forward, 1);
    }
    for (std::int64_t n = 0; n < micro_batches - 2 * stages + stage + 1; ++n) {
        if (n == 0 && after == 0) {
            order.add(Kind::forward, 0);
            order.add(Kind::backward, 1);
        } else {
            order.add_pair(0, 1);
        }
        order.add_pair(1, 0);
    }
    for (std::int64_t n = 0; n < after; ++n) {
        order.add(Kind::backward, 1);
        order.add_pair(1, 0);
    }
    Kind kind = Kind::backward;  // from the middle on, gradients of weights wait
    for (std::int64_t n = 0; n <= stage; ++n) {
        const bool is_middle = n == (stage + 1) / 2;
        if (is_middle && stage % 2 == 1) kind = Kind::inputs;
        order.add(kind, 1);
        if (is_middle && stage % 2 == 0) kind = Kind::inputs;
        order.add(kind, 0);
    }
    for (std::int64_t n = 0; n < after; ++n) {
        order.add_weights();
        order.add(kind, 0);
    }
    while (order.has_waiting()) order.add_weights();
    return order.take();
}

/// Plays the orders of all stages.
class Play {
  public:
    explicit Play(const SplitStages& s)
        : s_(s),
          places_(s.stages * s.chunks),
          forward_end_s_(static_cast<std::size_t>(places_ * s.micro_batches), -1),
          inputs_end_s_(forward_end_s_) {
        for (std::int64_t i = 0; i < s.stages; ++i)
            orders_.push_back(stage_tasks(s.schedule, i, s.stages, s.chunks, s.micro_batches));
    }

    double seconds() {
        std::vector<double> free_s(orders_.size(), 0);
        std::vector<std::size_t> next(orders_.size(), 0);
        for (bool any = true; any;) {
            any = false;
            for (std::size_t i = 0; i < orders_.size(); ++i)
                while (const std::size_t played =
                           run(i, std::span(orders_[i]).subspan(next[i]), free_s[i])) {
                    next[i] += played;
                    any = true;
                }
        }
        return *std::max_element(free_s.begin(), free_s.end());
    }

  private:
    [[nodiscard]] std::size_t slot(std::int64_t place, std::int64_t micro_batch) const {
        return static_cast<std::size_t>(micro_batch * places_ + place);
    }

    /// When its input is there; negative while that has not been played.
    [[nodiscard]] double ready_s(std::int64_t place, const PipelineTask& task) const {
        const std::size_t own = slot(place, task.micro_batch);
        if (task.kind == Kind::weights) return inputs_end_s_[own];
        if (task.kind == Kind::forward)
            return place > 0 ? forward_end_s_[slot(place - 1, task.micro_batch)] : 0;
        return place + 1 < places_ ? inputs_end_s_[slot(place + 1, task.micro_batch)]
                                   : forward_end_s_[own];
    }

    [[nodiscard]] double work_s(std::size_t stage, const PipelineTask& task) const {
        const auto at = static_cast<std::size_t>(task.chunk * s_.stages) + stage;
        if (task.kind == Kind::forward) return s_.forward_s[at];
        if (task.kind == Kind::weights) return s_.weights_s[at];
        return s_.inputs_s[at] + (task.kind == Kind::backward ? s_.weights_s[at] : 0);
    }

    [[nodiscard]] std::int64_t place(std::size_t stage, const PipelineTask& task) const {
        return s_.place(static_cast<std::int64_t>(stage), task.chunk);
    }

    /// Plays the first of these tasks, and what it joins; says how many. None while an input is
    /// not there.
    std::size_t run(std::size_t stage, std::span<const PipelineTask> left, double& free_s) {
        if (left.empty()) return 0;
        const auto tasks = left.first(left.front().joins_next ? 2 : 1);
        double start_s = free_s, work = 0;
        for (const PipelineTask& task : tasks) {
            const double ready = ready_s(place(stage, task), task);
            if (ready < 0) return 0;
            start_s = std::max(start_s, ready);
            work += work_s(stage, task);
        }
        free_s = start_s + work;
        for (const PipelineTask& task : tasks) {
            std::vector<double>& end_s =
                task.kind == Kind::forward ? forward_end_s_ : inputs_end_s_;
            if (task.kind != Kind::weights)
                end_s[slot(place(stage, task), task.micro_batch)] = free_s;
        }
        return tasks.size();
    }

    const SplitStages& s_;
    std::int64_t places_;
    std::vector<double> forward_end_s_, inputs_end_s_;
    std::vector<std::vector<PipelineTask>> orders_;
};

}  // namespace

std::vector<PipelineTask> stage_tasks(Schedule schedule, std::int64_t stage, std::int64_t stages,
                                      std::int64_t chunks, std::int64_t micro_batches) {
    if (schedule == Schedule::zb_v) return zb_v_tasks(stage, stages, micro_batches);
    if (schedule == Schedule::dual_pipe_v) return dual_pipe_v_tasks(stage, stages, micro_batches);
    return zb_h1_tasks(stage, stages, chunks, micro_batches);
}

std::int64_t most_chunks_held(std::span<const PipelineTask> tasks) {
    std::int64_t held = 0, most = 0;
    for (const PipelineTask& task : tasks) {
        if (task.kind == Kind::forward) most = std::max(most, ++held);
        if (task.kind == Kind::weights || task.kind == Kind::backward) --held;
    }
    return most;
}

namespace {

/// The published bubbles, where gradients of weights take as long as those of inputs.
double unplayed_split_seconds(const SplitStages& s) {
    double way = 0;
    for (std::size_t i = 0; i + 1 < static_cast<std::size_t>(s.stages); ++i)
        way += s.forward_s[i] + (s.schedule == Schedule::dual_pipe_v ? s.inputs_s[i] : 0);
    return least_split_seconds(s) + way;
}

}  // namespace

double split_seconds(const SplitStages& s, std::int64_t max_tasks) {
    constexpr std::int64_t least_groups = 4;
    const std::int64_t groups = s.micro_batches / s.stages;
    const std::int64_t playable = max_tasks / (3 * s.stages * s.chunks) / s.stages;
    if (groups <= playable) return Play(s).seconds();
    if (playable < least_groups) return unplayed_split_seconds(s);
    SplitStages some = s;
    some.micro_batches = (playable - 1) * s.stages;
    const double before = Play(some).seconds();
    some.micro_batches = playable * s.stages;
    const double length = Play(some).seconds();
    const double more =
        static_cast<double>(s.micro_batches - some.micro_batches) / static_cast<double>(s.stages);
    return std::max(length + more * (length - before), least_split_seconds(s));
}

double least_split_seconds(const SplitStages& s) {
    double most = 0;
    const auto stages = static_cast<std::size_t>(s.stages);
    for (std::size_t i = 0; i < stages; ++i) {
        double work = 0;
        for (std::size_t at = i; at < s.forward_s.size(); at += stages)
            work += s.forward_s[at] + s.inputs_s[at] + s.weights_s[at];
        most = std::max(most, work);
    }
    return static_cast<double>(s.micro_batches) * most;
}

}  // namespace arena
