// SPDX-License-Identifier: GPL-2.0-or-later
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
            tasks_.push_back({kind, chunk, count(Kind::inputs, chunk)++});
            ++count(Kind::weights, chunk);
            return;
        }
        tasks_.push_back({kind, chunk, count(kind, chunk)++});
        if (kind == Kind::inputs) waiting_.push_back(chunk);
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
    [[nodiscard]] std::int64_t done(Kind kind, std::int64_t chunk) { return count(kind, chunk); }
    [[nodiscard]] bool has_waiting() const { return !waiting_.empty(); }
    std::vector<PipelineTask> take() { return std::move(tasks_); }

  private:
    std::int64_t& count(Kind kind, std::int64_t chunk) {
        return counts_[static_cast<std::size_t>(4 * chunk) + static_cast<std::size_t>(kind)];
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

/// One chunk's forward beside the other's backward: their transfers hide, which are no part of the
/// times here, and their work follows each other.
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
    for (std::int64_t n = 0; n < micro_batches - 2 * stages + stage + 1; ++n)
        for (const std::int64_t chunk : {0, 1}) {
            order.add(Kind::forward, chunk);
            order.add(Kind::backward, 1 - chunk);
        }
    for (std::int64_t n = 0; n < after; ++n) {
        order.add(Kind::backward, 1);
        order.add(Kind::forward, 1);
        order.add(Kind::backward, 0);
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
                while (next[i] < orders_[i].size() && run(i, orders_[i][next[i]], free_s[i]))
                    ++next[i], any = true;
        }
        return *std::max_element(free_s.begin(), free_s.end());
    }

  private:
    [[nodiscard]] std::size_t slot(std::int64_t place, std::int64_t micro_batch) const {
        return static_cast<std::size_t>(micro_batch * places_ + place);
    }

    /// False while what it waits for has not been played. Ends are negative until then.
    bool run(std::size_t stage, const PipelineTask& task, double& free_s) {
        const std::int64_t place = s_.place(static_cast<std::int64_t>(stage), task.chunk);
        const std::size_t own = slot(place, task.micro_batch);
        const auto at = static_cast<std::size_t>(task.chunk * s_.stages) + stage;
        const bool is_forward = task.kind == Kind::forward;
        double ready = 0;
        if (is_forward && place > 0) ready = forward_end_s_[slot(place - 1, task.micro_batch)];
        if (task.kind == Kind::weights) ready = inputs_end_s_[own];
        if (task.kind == Kind::inputs || task.kind == Kind::backward)
            ready = place + 1 < places_ ? inputs_end_s_[slot(place + 1, task.micro_batch)]
                                        : forward_end_s_[own];
        if (ready < 0) return false;
        const double start_s = std::max(free_s, ready);
        if (is_forward) {
            free_s = forward_end_s_[own] = start_s + s_.forward_s[at];
        } else if (task.kind == Kind::weights) {
            free_s = start_s + s_.weights_s[at];
        } else {
            const double weights_s = task.kind == Kind::backward ? s_.weights_s[at] : 0;
            free_s = inputs_end_s_[own] = start_s + s_.inputs_s[at] + weights_s;
        }
        return true;
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

double split_seconds(const SplitStages& s, std::int64_t max_tasks) {
    const std::int64_t groups = s.micro_batches / s.stages;
    const std::int64_t playable =
        std::max<std::int64_t>(4, max_tasks / (3 * s.stages * s.chunks * s.stages));
    if (groups <= playable) return Play(s).seconds();
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
