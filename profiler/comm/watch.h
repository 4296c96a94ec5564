// SPDX-License-Identifier: GPL-2.0-or-later
// Ends the process when a step lasts too long: a call of NCCL or MPI that waits for other ranks
// cannot be ended from within.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

namespace arena {

class Watch {
  public:
    /// `who` begins its sentence, as "rank 3: NCCL"; the process ends with 3.
    Watch(std::string who, double limit_s);
    ~Watch();
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

    void begin(const char* doing) { set(doing); }
    void end() { set(nullptr); }

  private:
    void set(const char* doing);
    void run();
    std::string who_;
    double limit_s_;
    std::mutex mutex_;
    std::condition_variable changed_;
    const char* doing_ = nullptr;
    std::uint64_t step_ = 0;
    bool is_over_ = false;
    std::thread thread_;  ///< last: it uses the others
};

/// One step under watch.
class WatchedStep {
  public:
    WatchedStep(Watch& watch, const char* doing) : watch_(watch) { watch_.begin(doing); }
    ~WatchedStep() { watch_.end(); }
    WatchedStep(const WatchedStep&) = delete;
    WatchedStep& operator=(const WatchedStep&) = delete;

  private:
    Watch& watch_;
};

}  // namespace arena
