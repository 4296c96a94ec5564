// SPDX-License-Identifier: GPL-2.0-or-later
// The chief of a watched job: hears its agents and its trainer, finds out which GPU or link is slow
// and what to do about it (Greyhound, ATC'25: tracking, profiling, validation, mitigation). A state
// machine: no clock, no socket, no file. Its host carries frames, writes lines (log_directory.h)
// and has reports sent (report_sender.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "reports/slow_report.h"
#include "reports/slowdown_mode.h"
#include "watch/wire/frames.h"

namespace arena::watch {

struct ChiefOptions {
    SlowdownMode mode = SlowdownMode::watch;  ///< watch or mitigate
    double threshold = 1.10;                  ///< slowdown.threshold
    bool precheck = true;                     ///< slowdown.precheck
    double poll_s = 5;                        ///< slowdown.poll_s
    double recheck_s = 30;  ///< of what an open event hides; ARENA_WATCH_RECHECK_S
    /// Jobs without a trainer that says so: Slurm may restart it elsewhere (S4).
    bool elastic = false;
    std::uint32_t life = 0;  ///< SLURM_RESTART_COUNT
};

/// Two clocks at one moment.
struct Now {
    double steady_s = 0;        ///< of a clock that nobody sets; never falls
    std::int64_t epoch_ms = 0;  ///< for people and for reports
};

struct Message {
    PeerId to = 0;
    Frame frame;
};

/// A line of the guide's logs, and the same for machines.
struct LogLine {
    std::string node;  ///< "": of the chief, else of that node's local controller
    std::string text;  ///< "": only for machines
    std::string json;  ///< an object in one line, without time and version; "": only for people
    bool is_problem = false;  ///< a trainer that is here has it in the job's own output, too
};

struct Actions {
    std::vector<Message> messages;  ///< in this order
    std::vector<LogLine> lines;
    std::vector<SlowReport> reports;
};

class Chief {
  public:
    explicit Chief(const ChiefOptions&);
    Chief(Chief&&) noexcept;
    Chief& operator=(Chief&&) noexcept;
    ~Chief();

    /// A frame that parse_watch_frame() took, of a peer that proved to be of this job. Frames that
    /// only a chief says are told of and left out. A peer is an agent or a trainer by its first
    /// frame.
    Actions on(PeerId from, const Frame& frame, const Now& now);
    /// The connection has ended, or was closed.
    Actions gone(PeerId peer, const Now& now);
    /// To be called about once a second.
    Actions tick(const Now& now);

  private:
    class State;
    std::unique_ptr<State> state_;
};

}  // namespace arena::watch
