// SPDX-License-Identifier: GPL-2.0-or-later
// The control of a watched job: its chief (arena-watch) hears of every step and says words between
// two of them. A chief that is not there, that goes away or talks nonsense costs a line, never a
// step.
#pragma once

#include <deque>
#include <functional>
#include <memory>

#include "train/run/control.h"
#include "train/run/trainer.h"
#include "watch/wire/frames.h"
#include "watch/wire/link.h"

namespace arena::train {

/// On rank 0.
class ChiefControl final : public Control {
  public:
    /// Waits some seconds until the chief answers; null, after a line, where none does. Null
    /// without a word where nobody watches this job.
    static std::unique_ptr<ChiefControl> find(const WatchOptions&, const TrainPlan&);
    /// What a chief is told first, now and whenever it is found again.
    void introduce(watch::TrainerHello hello, watch::TrainerPlan plan);

    /// The first time it waits some seconds for the pre-check.
    std::vector<Word> before(Index step) override;
    bool is_released() override;
    void step_done(const StepFacts&) override;
    void obeyed(Index step, const Word&, double seconds) override;
    void checked(const CheckResult&) override;
    void dealt(const std::vector<Index>& micro_batches) override;
    void saved(double seconds) override;
    [[nodiscard]] bool is_event_open() const override { return is_event_open_; }

  private:
    ChiefControl(watch::Link link, const WatchOptions& options, const TrainPlan& plan)
        : link_(std::move(link)), options_(options), plan_(plan) {}
    void serve();
    void serve_until(const std::function<bool()>& enough, double most_s);
    void take(const watch::LinkEvent&);
    void take(const watch::Say&);
    void complain(const std::string& text);
    void say_plan();

    watch::Link link_;
    WatchOptions options_;
    TrainPlan plan_;
    watch::TrainerHello hello_;
    watch::TrainerPlan told_;
    double ready_s_ = 0;  ///< from the start of the process to the first step
    bool is_introduced_ = false, is_up_ = false, is_answered_ = false;
    bool is_released_ = false, is_event_open_ = false, is_lost_ = false;
    double told_step_s_ = 0;
    std::deque<Word> words_;
    int complaints_ = 0, told_lines_ = 0;
};

}  // namespace arena::train
