// SPDX-License-Identifier: GPL-2.0-or-later
// See watch.h.
#include "profiler/comm/watch.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "base/text.h"

namespace arena {

Watch::Watch(std::string who, double limit_s)
    : who_(std::move(who)), limit_s_(limit_s), thread_([this] { run(); }) {}

Watch::~Watch() {
    {
        const std::lock_guard lock(mutex_);
        is_over_ = true;
    }
    changed_.notify_one();
    thread_.join();
}

void Watch::set(const char* doing) {
    {
        const std::lock_guard lock(mutex_);
        doing_ = doing;
        ++step_;
    }
    changed_.notify_one();
}

void Watch::run() {
    std::unique_lock lock(mutex_);
    while (!is_over_) {
        const auto step = step_;
        const auto is_changed = [&] { return is_over_ || step_ != step; };
        if (doing_ == nullptr) {
            changed_.wait(lock, is_changed);
        } else if (!changed_.wait_for(lock, std::chrono::duration<double>(limit_s_), is_changed)) {
            std::fprintf(stderr,
                         "arena-profiler: %s: %s: no answer from the other ranks within %s\n",
                         who_.c_str(), doing_, human_seconds(limit_s_).c_str());
            std::fflush(nullptr);
            ::_exit(3);
        }
    }
}

}  // namespace arena
