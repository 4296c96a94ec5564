// SPDX-License-Identifier: GPL-2.0-or-later
// A job that Arena started tells how long its steps take: `arena report` from the directory of this
// program, else from PATH. Its first steps are left out; outside such a job nothing happens.
#pragma once

#include <vector>

#include "train/core/compute_clock.h"

namespace arena::train {

class Reporter {
  public:
    /// Off: tell() does nothing.
    explicit Reporter(bool on);
    void add(double step_seconds) {
        if (!on_) return;
        if (seconds_.empty()) first_at_s_ = now_s();
        seconds_.push_back(step_seconds);
    }
    /// At a checkpoint: what was added since the start, at most once a minute; `last`: in any case,
    /// where there is anything new. A report that fails costs a sentence on stderr and at most 5 s,
    /// never the run.
    void tell(bool last);

  private:
    bool on_;
    std::vector<double> seconds_;
    std::size_t told_ = 0;
    double told_at_s_ = 0, first_at_s_ = 0;
};

}  // namespace arena::train
