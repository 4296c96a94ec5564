// SPDX-License-Identifier: GPL-2.0-or-later
// See pipelines.h. A run is played twice: first by the rules, which gives each device its order;
// then, where states have to be fetched, in these orders with the fetching.
#include "tests/lab/array/pipelines.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <queue>
#include <set>
#include <tuple>

namespace arena {
namespace {

enum class Work { forward, backward, weights };

struct Task {
    Work work = Work::forward;
    std::size_t unit = 0;   ///< a micro-batch of a member
    std::size_t place = 0;  ///< of the chunks, in the order of layers
};

struct Rule {
    std::size_t chunks = 1;  ///< of the model on a device; they lie in waves
    bool splits = false;     ///< the gradients of weights are computed when there is time
};

Rule rule_of(PipelineKind kind) {
    switch (kind) {
        case PipelineKind::hanayo:
            return {.chunks = 4};
        case PipelineKind::zb1p:
            return {.splits = true};
        case PipelineKind::zbv:
            return {.chunks = 2, .splits = true};
        case PipelineKind::gpipe:
        case PipelineKind::one_f_one_b:
            break;
    }
    return {};
}

/// Micro-batches between their first forward and their last backward at most. Of Hanayo's twice as
/// many as devices leave no gap, for its chunks are passed in four short visits; a device keeps
/// about half the chunks of each. What the gradients of weights wait for is kept, too.
std::size_t most_under_way(PipelineKind kind, std::size_t stages, std::size_t all) {
    switch (kind) {
        case PipelineKind::gpipe:
            break;
        case PipelineKind::one_f_one_b:
            return stages;
        case PipelineKind::hanayo:
            return 2 * stages;
        case PipelineKind::zb1p:
        case PipelineKind::zbv:
            return stages + stages / 4 + 1;
    }
    return all;
}

/// What is fixed about a run.
class Shape {
  public:
    explicit Shape(const PipelineRun& whole)
        : run(whole),
          rule(rule_of(run.kind)),
          devices(run.devices.size()),
          places(devices * rule.chunks),
          units(static_cast<std::size_t>(run.members * run.micro_batches)) {}

    [[nodiscard]] std::size_t device(std::size_t place) const {
        const std::size_t chunk = place / devices, step = place % devices;
        return chunk % 2 == 0 ? step : devices - 1 - step;
    }
    [[nodiscard]] std::size_t member(std::size_t unit) const {
        return unit / static_cast<std::size_t>(run.micro_batches);
    }
    [[nodiscard]] double share() const { return 1 / static_cast<double>(rule.chunks); }
    /// Until its output is there, without recomputation.
    [[nodiscard]] double useful_s(const Task& task) const {
        const DeviceLoad& load = run.devices[device(task.place)];
        const double backward_s = rule.splits ? load.backward_s / 2 : load.backward_s;
        return share() * (task.work == Work::forward ? load.forward_s : backward_s);
    }
    [[nodiscard]] double recompute_s(const Task& task) const {
        return task.work == Work::backward ? share() * run.devices[device(task.place)].recompute_s
                                           : 0;
    }
    [[nodiscard]] double update_s(std::size_t place) const {
        return share() * run.devices[device(place)].update_s;
    }
    [[nodiscard]] double sent_s(std::size_t from, std::size_t to) const {
        return device(from) == device(to) ? 0 : run.devices[device(from)].transfer_s;
    }

    const PipelineRun& run;
    Rule rule;
    std::size_t devices, places, units;
};

/// A member's last task at a place carries its update.
class Updates {
  public:
    explicit Updates(const Shape& shape)
        : shape_(shape),
          left_(static_cast<std::size_t>(shape.run.members) * shape.places,
                shape.run.micro_batches) {}
    double behind_s(const Task& task) {
        const bool counts = task.work == (shape_.rule.splits ? Work::weights : Work::backward);
        if (!counts) return 0;
        const std::size_t at = shape_.member(task.unit) * shape_.places + task.place;
        return --left_[at] == 0 ? shape_.update_s(task.place) : 0;
    }

  private:
    const Shape& shape_;
    std::vector<std::int64_t> left_;
};

// ---- by the rules ------------------------------------------------------------------------------

class Player {
  public:
    explicit Player(const PipelineRun& run)
        : shape_(run),
          updates_(shape_),
          devices_(shape_.devices),
          most_(most_under_way(run.kind, shape_.devices, shape_.units)) {}

    /// The order of each device; `seconds` is when the last one is free.
    std::vector<std::vector<Task>> orders(double& seconds) {
        for (std::size_t unit = 0; unit < shape_.units; ++unit)
            add({Work::forward, unit, 0});  // all input is there
        for (std::size_t device = 0; device < shape_.devices; ++device) dispatch(device, 0);
        while (!events_.empty()) {
            const double now = events_.top().at_s;
            std::set<std::size_t> awake;
            while (!events_.empty() && events_.top().at_s <= now) {
                const Event event = events_.top();
                events_.pop();
                if (event.arrives) add(event.task);
                awake.insert(event.device);
            }
            for (const std::size_t device : awake) dispatch(device, now);
        }
        seconds = end_s_;
        std::vector<std::vector<Task>> all;
        for (Device& device : devices_) all.push_back(std::move(device.order));
        return all;
    }

  private:
    struct Event {
        double at_s = 0;
        std::size_t device = 0;
        bool arrives = false;  ///< else the device is free
        Task task;
        bool operator<(const Event& other) const { return at_s > other.at_s; }
    };
    /// The smallest key is next.
    using Key = std::tuple<std::size_t, std::size_t>;
    struct Device {
        std::set<Key> forward, backward, weights;
        std::vector<Task> order;
        double free_s = 0;
        std::size_t forwards = 0;  ///< that have begun
    };

    /// Deeper chunks first going forward, older micro-batches first else.
    void add(const Task& task) {
        Device& device = devices_[shape_.device(task.place)];
        if (task.work == Work::forward)
            device.forward.emplace(shape_.places - task.place, task.unit);
        else
            (task.work == Work::backward ? device.backward : device.weights)
                .emplace(task.unit, task.place);
    }

    [[nodiscard]] bool may_go_forward(const Device& device) const {
        if (device.forward.empty()) return false;
        const bool begins = std::get<0>(*device.forward.begin()) == shape_.places;
        return !begins || under_way_ < most_;
    }
    [[nodiscard]] bool may_go_back(const Device& device) const {
        if (device.backward.empty()) return false;
        return shape_.run.kind != PipelineKind::gpipe || device.forwards == shape_.units;
    }

    void dispatch(std::size_t index, double now) {
        Device& device = devices_[index];
        if (device.free_s > now) return;
        if (may_go_back(device)) {
            const auto [unit, place] = *device.backward.begin();
            device.backward.erase(device.backward.begin());
            start(device, {Work::backward, unit, place}, now);
        } else if (may_go_forward(device)) {
            const auto [depth, unit] = *device.forward.begin();
            device.forward.erase(device.forward.begin());
            start(device, {Work::forward, unit, shape_.places - depth}, now);
        } else if (!device.weights.empty()) {
            const auto [unit, place] = *device.weights.begin();
            device.weights.erase(device.weights.begin());
            start(device, {Work::weights, unit, place}, now);
        }
    }

    void start(Device& device, const Task& task, double now) {
        const double done_s = now + shape_.recompute_s(task) + shape_.useful_s(task);
        device.free_s = done_s + updates_.behind_s(task);
        device.order.push_back(task);
        end_s_ = std::max(end_s_, device.free_s);
        const bool splits = shape_.rule.splits;
        if (task.work == Work::forward) {
            device.forwards += 1;
            if (task.place == 0) under_way_ += 1;
            const bool turns = task.place + 1 == shape_.places;
            send({turns ? Work::backward : Work::forward, task.unit,
                  turns ? task.place : task.place + 1},
                 task.place, done_s);
        } else if (task.work == Work::backward) {
            if (task.place > 0)
                send({Work::backward, task.unit, task.place - 1}, task.place, done_s);
            if (splits) send({Work::weights, task.unit, task.place}, task.place, done_s);
        }
        if (task.place == 0 && task.work == (splits ? Work::weights : Work::backward))
            under_way_ -= 1;
        events_.push({.at_s = device.free_s, .device = shape_.device(task.place), .task = {}});
    }
    void send(const Task& next, std::size_t from, double done_s) {
        events_.push({.at_s = done_s + shape_.sent_s(from, next.place),
                      .device = shape_.device(next.place),
                      .arrives = true,
                      .task = next});
    }

    Shape shape_;
    Updates updates_;
    std::vector<Device> devices_;
    std::size_t most_, under_way_ = 0;
    std::priority_queue<Event> events_;
    double end_s_ = 0;
};

// ---- in given orders, with fetching ------------------------------------------------------------

/// The states that one device holds.
class States {
  public:
    States(const Shape& shape, const DeviceLoad& load, const std::vector<Task>& order)
        : load_(load) {
        for (const Task& task : order) {
            const std::size_t member = shape.member(task.unit);
            if (holds_.empty() || holds_.back().member != member) holds_.push_back({member, false});
            holds_.back().changes |= task.work != Work::forward;
        }
        slots_.resize(static_cast<std::size_t>(shape.run.buffers));
    }
    /// When the next member's state is there; the device was free from free_s on.
    double next(std::size_t member, double free_s) {
        if (begun_ && holds_[at_].member == member) return 0;
        if (begun_) leave(free_s);
        begun_ = true;
        return fetch(holds_[at_]);
    }

  private:
    struct Hold {
        std::size_t member = 0;
        bool changes = false;
    };
    struct Slot {
        bool full = false, whole = false, changed = false;
        std::size_t member = 0;
        double left_s = 0;  ///< when it was last used
    };
    void leave(double now) {
        for (Slot& slot : slots_)
            if (slot.full && slot.member == holds_[at_].member) {
                slot.left_s = now;
                slot.changed |= holds_[at_].changes;
            }
        at_ += 1;
    }
    double fetch(const Hold& hold) {
        Slot& slot = room_for(hold.member);
        double begin_s = std::max(in_s_, slot.left_s), take_s = 0;
        if (slot.full && slot.member != hold.member && slot.changed) {
            out_s_ = std::max(out_s_, slot.left_s) + load_.fetch_state_s;  // as long going back
            begin_s = std::max(begin_s, out_s_);
        }
        if (!slot.full) {
            slot = {.full = true, .whole = true, .member = hold.member};  // it begins with these
            return 0;
        }
        if (slot.member != hold.member) {
            take_s = hold.changes ? load_.fetch_state_s : load_.fetch_weights_s;
            slot = {.full = true, .whole = hold.changes, .member = hold.member};
        } else if (hold.changes && !slot.whole) {
            take_s = load_.fetch_state_s - load_.fetch_weights_s;
            slot.whole = true;
        }
        if (take_s <= 0) return 0;
        in_s_ = begin_s + take_s;
        return in_s_;
    }
    /// Its own, a free one, or that whose member is not needed for longest; that of the member
    /// before it is in use while this one's state comes, so that it is taken only where it is the
    /// only one.
    Slot& room_for(std::size_t member) {
        Slot* best = nullptr;
        std::size_t latest = 0;
        for (Slot& slot : slots_)
            if (slot.full && slot.member == member) return slot;
        for (Slot& slot : slots_) {
            if (!slot.full) return slot;
            if (slots_.size() > 1 && at_ > 0 && slot.member == holds_[at_ - 1].member) continue;
            std::size_t use = at_;
            while (use < holds_.size() && holds_[use].member != slot.member) ++use;
            if (best == nullptr || use > latest) best = &slot, latest = use;
        }
        return *best;
    }

    const DeviceLoad& load_;
    std::vector<Hold> holds_;
    std::vector<Slot> slots_;
    std::size_t at_ = 0;
    bool begun_ = false;
    double in_s_ = 0, out_s_ = 0;
};

class Follower {
  public:
    Follower(const PipelineRun& run, const std::vector<std::vector<Task>>& orders)
        : shape_(run),
          updates_(shape_),
          orders_(orders),
          next_(orders.size()),
          free_s_(orders.size()),
          forward_s_(shape_.units * shape_.places, unknown),
          backward_s_(forward_s_) {
        for (std::size_t d = 0; d < orders.size(); ++d)
            states_.emplace_back(shape_, run.devices[d], orders[d]);
    }
    /// When the last device is free; what all waited for states goes to `waited_s`.
    double seconds(double& waited_s) {
        for (bool moved = true; moved;) {
            moved = false;
            for (std::size_t d = 0; d < orders_.size(); ++d)
                while (next_[d] < orders_[d].size() && step(d)) moved = true;
        }
        waited_s = waited_s_;
        return *std::ranges::max_element(free_s_);
    }

  private:
    static constexpr double unknown = -1;
    [[nodiscard]] std::size_t at(std::size_t unit, std::size_t place) const {
        return unit * shape_.places + place;
    }
    /// When its input is there; unknown where what makes it has not been placed.
    [[nodiscard]] double ready_s(const Task& task) const {
        const auto after = [&](const std::vector<double>& done_s, std::size_t place) {
            const double s = done_s[at(task.unit, place)];
            return s < 0 ? unknown : s + shape_.sent_s(place, task.place);
        };
        if (task.work == Work::weights) return after(backward_s_, task.place);
        if (task.work == Work::forward)
            return task.place == 0 ? 0 : after(forward_s_, task.place - 1);
        return task.place + 1 == shape_.places ? after(forward_s_, task.place)
                                               : after(backward_s_, task.place + 1);
    }
    bool step(std::size_t device) {
        const Task& task = orders_[device][next_[device]];
        const double ready = ready_s(task);
        if (ready < 0) return false;
        const double could = std::max(ready, free_s_[device]);
        const double held = states_[device].next(shape_.member(task.unit), free_s_[device]);
        const double start = std::max(could, held);
        waited_s_ += start - could;
        const double done = start + shape_.recompute_s(task) + shape_.useful_s(task);
        free_s_[device] = done + updates_.behind_s(task);
        if (task.work == Work::forward) forward_s_[at(task.unit, task.place)] = done;
        if (task.work == Work::backward) backward_s_[at(task.unit, task.place)] = done;
        next_[device] += 1;
        return true;
    }

    Shape shape_;
    Updates updates_;
    const std::vector<std::vector<Task>>& orders_;
    std::vector<std::size_t> next_;
    std::vector<double> free_s_, forward_s_, backward_s_;
    std::vector<States> states_;
    double waited_s_ = 0;
};

PipelineTime shares_of(const PipelineRun& run, double seconds, double waited_s) {
    double forward_s = 0, backward_s = 0, overhead_s = waited_s;
    const auto members = static_cast<double>(run.members);
    const double units = members * static_cast<double>(run.micro_batches);
    for (const DeviceLoad& load : run.devices) {
        forward_s += units * load.forward_s;
        backward_s += units * load.backward_s;
        overhead_s += units * load.recompute_s + members * load.update_s;
    }
    const double all_s = seconds * static_cast<double>(run.devices.size());
    if (all_s <= 0) return {.bubble = 1};
    PipelineTime time{.seconds = seconds,
                      .forward = forward_s / all_s,
                      .backward = backward_s / all_s,
                      .overhead = overhead_s / all_s};
    time.bubble = 1 - time.forward - time.backward - time.overhead;
    return time;
}

}  // namespace

std::string_view words_of(PipelineKind kind) {
    switch (kind) {
        case PipelineKind::gpipe:
            return "GPipe";
        case PipelineKind::one_f_one_b:
            return "1F1B (BPipe)";
        case PipelineKind::hanayo:
            return "Hanayo, 2 waves";
        case PipelineKind::zb1p:
            return "ZB1P";
        case PipelineKind::zbv:
            break;
    }
    return "ZBV";
}

std::int64_t in_flight(PipelineKind kind, std::int64_t stages, std::int64_t all) {
    if (kind == PipelineKind::hanayo) return std::min(stages, all);
    const auto most =
        most_under_way(kind, static_cast<std::size_t>(stages), static_cast<std::size_t>(all));
    return std::min(static_cast<std::int64_t>(most), all);
}

PipelineTime play(const PipelineRun& run) {
    double seconds = 0, waited_s = 0;
    const auto orders = Player(run).orders(seconds);
    if (run.buffers > 0 && run.buffers < run.members)
        seconds = Follower(run, orders).seconds(waited_s);
    return shares_of(run, seconds, waited_s);
}

}  // namespace arena
