// SPDX-License-Identifier: GPL-2.0-or-later
// Keeps what was measured so far and writes it exactly once: at the end of the run, on SIGTERM,
// SIGINT or SIGHUP, or when the budget has run out in the middle of a long operator. The last two
// come from a watching thread, so that a kernel that takes minutes cannot cost the results before
// it.
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/signals.h"
#include "core/profile.h"

namespace arena {

class Recorder {
  public:
    /// Writes to `path` by write, fsync, rename; "-" is standard output. `base` has all but the
    /// results.
    Recorder(Profile base, std::string path);
    ~Recorder();
    Recorder(const Recorder&) = delete;
    Recorder& operator=(const Recorder&) = delete;

    /// Installs the signal handlers and starts the watcher, on which they run; before the caller
    /// starts threads that compute. After `hard_limit_s` it writes and
    /// exits.
    void watch(double hard_limit_s);
    void set_device(const Device&);
    /// Operators that the request's plans ask for, and how many of them are known already.
    void set_wanted(std::size_t wanted, std::size_t reused);
    /// Completes the profile at the end of a run that was not cut short; before finish().
    void amend(const std::function<void(Profile&)>&);
    /// Called with the profile as it is written, by whichever thread does that.
    void on_finish(std::function<void(const Profile&)> tell) { tell_ = std::move(tell); }
    void begin(const OpShape&);
    void add(const ProfileEntry&);
    /// Writes the profile; a second call does nothing. Returns the exit code: 0, 1 (failed), 3
    /// (cannot write).
    int finish(ProfileStatus, const std::string& reason, double device_seconds);

  private:
    void watcher(double hard_limit_s);
    int write_locked();
    std::mutex mutex_;
    Profile profile_;
    std::string path_, current_;
    double begin_s_ = 0;
    bool written_ = false;
    int exit_code_ = 0;
    std::function<void(const Profile&)> tell_;
    std::optional<BlockedSignals> blocked_;  ///< in all threads but the watcher
    std::thread thread_;
};

/// Seconds of the monotonic clock.
double monotonic_s();

}  // namespace arena
