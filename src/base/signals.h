// SPDX-License-Identifier: GPL-2.0-or-later
// Which threads meet signals. A thread that computes must not: oneDNN's GEMM kernels (seen
// in 2.6.3) use the stack pointer as one register more, for addresses of a buffer on the heap, and
// the kernel lays the frame of a handler there.
#pragma once

#include <csignal>
#include <future>
#include <initializer_list>
#include <thread>

namespace arena {

/// While it lives the signals are blocked in the calling thread, and in every thread that this
/// starts meanwhile.
class BlockedSignals {
  public:
    explicit BlockedSignals(std::initializer_list<int> signals);
    ~BlockedSignals() { restore(); }
    BlockedSignals(const BlockedSignals&) = delete;
    BlockedSignals& operator=(const BlockedSignals&) = delete;
    /// The calling thread's mask as it was before, as for a child.
    void restore() const;
    /// In the calling thread, which handlers may run on. Whoever started this program may have
    /// blocked the signals, too.
    void unblock() const;

  private:
    sigset_t signals_{}, before_{};
};

/// A thread for handlers to run on while others keep the signals blocked. (A library's threads from
/// before main, as OpenBLAS makes them, may meet signals as well.)
class SignalThread {
  public:
    explicit SignalThread(const BlockedSignals&);  ///< which outlives it
    ~SignalThread();
    SignalThread(const SignalThread&) = delete;
    SignalThread& operator=(const SignalThread&) = delete;

  private:
    std::promise<void> end_;
    std::thread thread_;
};

}  // namespace arena
