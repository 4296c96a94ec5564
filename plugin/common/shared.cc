// SPDX-License-Identifier: GPL-2.0-or-later
// One eventfd, one thread-local flag and two lists of what jobs said: the only state that the
// plug-ins share.
#include "plugin/common/shared.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <utility>

namespace arena {
namespace {

thread_local int own_depth = 0;
std::atomic<int> round_fd{-1};

/// What job_modify leaves for the scheduler. The latest of a job stands for it: one that says
/// something without end crowds nobody else out.
template <typename Item>
class Letterbox {
  public:
    void leave(Item item) {
        const std::lock_guard lock(mutex_);
        std::erase_if(items_, [&](const Item& earlier) { return earlier.job == item.job; });
        if (items_.size() >= most) items_.erase(items_.begin());
        items_.push_back(std::move(item));
    }
    std::vector<Item> take() {
        const std::lock_guard lock(mutex_);
        return std::exchange(items_, {});
    }

  private:
    static constexpr std::size_t most = 256;
    std::mutex mutex_;
    std::vector<Item> items_;
};
Letterbox<LeftReport> reports;
Letterbox<LeftUpdate> updates;

}  // namespace

bool own_call() { return own_depth > 0; }
OwnCall::OwnCall() { ++own_depth; }
OwnCall::~OwnCall() { --own_depth; }

void request_round() {
    const int fd = round_fd.load();
    if (fd < 0) return;
    const std::uint64_t one = 1;
    // A full counter means a round is already due; nothing else can fail on an eventfd.
    [[maybe_unused]] const auto written = ::write(fd, &one, sizeof one);
}

void leave_report(LeftReport report) { reports.leave(std::move(report)); }
std::vector<LeftReport> take_reports() { return reports.take(); }
void leave_update(LeftUpdate update) { updates.leave(std::move(update)); }
std::vector<LeftUpdate> take_updates() { return updates.take(); }

int open_round_fd() {
    close_round_fd();
    round_fd.store(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    return round_fd.load();
}

void close_round_fd() {
    const int fd = round_fd.exchange(-1);
    if (fd >= 0) ::close(fd);
}

}  // namespace arena
