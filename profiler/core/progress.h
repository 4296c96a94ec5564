// SPDX-License-Identifier: GPL-2.0-or-later
// How far a run is, for whoever watches: a bar on a terminal, one line of JSON per operator for a
// program, a small file that the scheduler shows as the pending reason. Never changes what is
// measured, and a sink that fails is given up with one sentence.
#pragma once

#include <cstddef>
#include <functional>
#include <mutex>
#include <string>

#include "core/profile.h"

namespace arena {

struct ProgressOptions {
    bool bar = false;    ///< redrawn in place on standard error
    bool lines = false;  ///< one line per operator on standard error
    bool json = false;   ///< one JSON object per line on standard output
    std::string file;    ///< replaced at most once a second; "" = none
    double budget_s = 60;
    std::function<double()> now;  ///< monotonic seconds
};

class Progress {
  public:
    explicit Progress(ProgressOptions options) : options_(std::move(options)) {}
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

    /// `wanted` operators will be measured, `reused` are known already.
    void start(const Device&, std::size_t wanted, std::size_t reused);
    void begin(const OpShape&);
    void measured(const ProfileEntry&);
    /// The end of the run, however it ended; removes bar and file. Called once, perhaps by another
    /// thread in the middle of an operator.
    void finish(const Profile&);

    /// Seconds until the last operator, by the mean of those behind us, never beyond the budget.
    [[nodiscard]] double left_s() const;

  private:
    void draw(const std::string& what);
    void clear_bar();
    void write_file();
    ProgressOptions options_;
    std::mutex mutex_;
    std::size_t wanted_ = 0, done_ = 0;
    double begin_s_ = 0, written_s_ = -1;
    bool finished_ = false;
};

/// "12 of 40 operators measured, 31 re-used (44 %), 20.1 s of the device; ..." for people; the
/// share is that of all operators the plans ask for.
std::string summary_of(const Profile&);

}  // namespace arena
