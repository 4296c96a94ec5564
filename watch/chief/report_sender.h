// SPDX-License-Identifier: GPL-2.0-or-later
// Reports on their way to slurmctld: each a child `arena slowdown report --wait`, one at a time, so
// that a controller that is down holds up nothing else. Of an event the latest counts: what waits
// is replaced.
#pragma once

#include <chrono>
#include <deque>
#include <string>
#include <vector>

#include "ipc/child.h"
#include "reports/slow_report.h"
#include "watch/chief/chief.h"

namespace arena::watch {

/// argv of the child.
std::vector<std::string> report_command(const std::string& program, const SlowReport& report,
                                        double wait_s);

class ReportSender {
  public:
    static constexpr std::size_t most_waiting = 64;  ///< events; more: the oldest is dropped

    /// program: `arena`, by path or as PATH has it.
    explicit ReportSender(std::string program, double wait_s = 600);
    ReportSender(const ReportSender&) = delete;
    ReportSender& operator=(const ReportSender&) = delete;
    /// Ends the child.
    ~ReportSender();

    void add(const SlowReport& report);
    /// Never blocks: takes the child's end, starts the next. Lines: what was said, what failed.
    std::vector<LogLine> poll();
    /// Readable when the child has ended: for the host's poll(2); -1: none runs, or not known.
    [[nodiscard]] int fd() const { return child_.ended(); }
    [[nodiscard]] bool is_idle() const { return !child_.is_running() && waiting_.empty(); }
    [[nodiscard]] std::size_t waiting() const { return waiting_.size(); }

  private:
    using Clock = std::chrono::steady_clock;
    void start(std::vector<LogLine>& lines);
    void take_end(int code, std::vector<LogLine>& lines);

    std::string program_;
    double wait_s_;
    std::deque<SlowReport> waiting_;
    Child child_;
    SlowReport said_;          ///< by the child,
    Clock::time_point began_;  ///< which began then
};

}  // namespace arena::watch
