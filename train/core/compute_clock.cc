// SPDX-License-Identifier: GPL-2.0-or-later
#include "train/core/compute_clock.h"

namespace arena::train {
namespace {

class TimedGroup final : public Group {
  public:
    TimedGroup(std::unique_ptr<Group> group, ComputeClock& clock)
        : group_(std::move(group)), clock_(clock) {}
    void all_reduce_sum(Span<Element> x) override {
        const Pause pause(clock_);
        group_->all_reduce_sum(x);
    }
    void all_reduce_sum(Span<float> x) override {
        const Pause pause(clock_);
        group_->all_reduce_sum(x);
    }
    void all_reduce_max(Span<float> x) override {
        const Pause pause(clock_);
        group_->all_reduce_max(x);
    }
    void reduce_scatter(Span<const float> whole, Span<float> part) override {
        const Pause pause(clock_);
        group_->reduce_scatter(whole, part);
    }
    void all_gather(Span<const Element> part, Span<Element> whole) override {
        const Pause pause(clock_);
        group_->all_gather(part, whole);
    }
    void send(Span<const Element> x, int to) override {
        const Pause pause(clock_);
        group_->send(x, to);
    }
    void receive(Span<Element> x, int from) override {
        const Pause pause(clock_);
        group_->receive(x, from);
    }
    void flush() override {
        const Pause pause(clock_);
        group_->flush();
    }
    void transfer(Span<Element> x, int from, int to) override { group_->transfer(x, from, to); }
    void connect(const RankLayout& layout, const Place& place) override {
        group_->connect(layout, place);
    }

  private:
    class Pause {
      public:
        explicit Pause(ComputeClock& clock) : clock_(clock) { clock_.pause(); }
        ~Pause() { clock_.resume(); }
        Pause(const Pause&) = delete;
        Pause& operator=(const Pause&) = delete;

      private:
        ComputeClock& clock_;
    };
    std::unique_ptr<Group> group_;
    ComputeClock& clock_;
};

}  // namespace

void ComputeClock::start() {
    is_running_ = on_;
    marks_ = 0;
    mark();
}

double ComputeClock::stop() {
    if (!is_running_) return 0;
    mark();
    is_running_ = false;
    device_.wait();
    double seconds = 0;
    for (std::size_t i = 0; i + 1 < marks_; i += 2) seconds += device_.seconds_between(i, i + 1);
    return seconds;
}

std::unique_ptr<Group> timed(std::unique_ptr<Group> group, ComputeClock& clock) {
    if (!clock.is_on()) return group;
    return std::make_unique<TimedGroup>(std::move(group), clock);
}

}  // namespace arena::train
