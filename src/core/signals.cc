// SPDX-License-Identifier: GPL-2.0-or-later
// Which threads meet signals: see signals.h.
#include "core/signals.h"

namespace arena {

BlockedSignals::BlockedSignals(std::initializer_list<int> signals) {
    sigset_t blocked;
    sigemptyset(&blocked);
    for (const int number : signals) sigaddset(&blocked, number);
    pthread_sigmask(SIG_BLOCK, &blocked, &before_);
}

void BlockedSignals::restore() const { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

SignalThread::SignalThread(const BlockedSignals& blocked)
    : thread_([&blocked, end = end_.get_future()] {
          blocked.restore();
          end.wait();
      }) {}

SignalThread::~SignalThread() {
    end_.set_value();
    thread_.join();
}

}  // namespace arena
