// SPDX-License-Identifier: GPL-2.0-or-later
// Which threads meet signals: see signals.h.
#include "base/signals.h"

namespace arena {

BlockedSignals::BlockedSignals(std::initializer_list<int> signals) {
    sigemptyset(&signals_);
    for (const int number : signals) sigaddset(&signals_, number);
    pthread_sigmask(SIG_BLOCK, &signals_, &before_);
}

void BlockedSignals::restore() const { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

void BlockedSignals::unblock() const { pthread_sigmask(SIG_UNBLOCK, &signals_, nullptr); }

SignalThread::SignalThread(const BlockedSignals& blocked)
    : thread_([&blocked, end = end_.get_future()] {
          blocked.unblock();
          end.wait();
      }) {}

SignalThread::~SignalThread() {
    end_.set_value();
    thread_.join();
}

}  // namespace arena
