// SPDX-License-Identifier: GPL-2.0-or-later
// One eventfd, one thread-local flag, lists of what jobs said and counts of it: the only state that
// the plug-ins share.
#include "plugin/common/shared.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <set>
#include <utility>

namespace arena {
namespace {

thread_local int own_depth = 0;
std::atomic<int> round_fd{-1};

template <typename Item>
bool same_matter(const Item& a, const Item& b) {
    return a.job == b.job;
}
bool same_matter(const LeftSlowReport& a, const LeftSlowReport& b) {
    return a.job == b.job && same_event(a.report, b.report);
}

/// What job_modify leaves for the scheduler. The latest of a job on a matter stands for it: one
/// that says something without end crowds nobody else out.
template <typename Item>
class Letterbox {
  public:
    void leave(Item item) {
        const std::lock_guard lock(mutex_);
        drop_earlier(item);
        if (items_.size() >= most) items_.erase(items_.begin());
        items_.push_back(std::move(item));
    }
    /// False where the box is full of others.
    bool leave_if_room(Item item) {
        const std::lock_guard lock(mutex_);
        drop_earlier(item);
        if (items_.size() >= most) return false;
        items_.push_back(std::move(item));
        return true;
    }
    std::vector<Item> take() {
        const std::lock_guard lock(mutex_);
        return std::exchange(items_, {});
    }

  private:
    void drop_earlier(const Item& item) {
        std::erase_if(items_, [&](const Item& earlier) { return same_matter(earlier, item); });
    }
    static constexpr std::size_t most = 256;
    std::mutex mutex_;
    std::vector<Item> items_;
};
Letterbox<LeftReport> reports;
Letterbox<LeftSlowReport> slow_reports;
Letterbox<LeftUpdate> updates;

std::mutex unsaved_mutex;
std::set<JobId> unsaved_plans;

std::atomic<std::uint64_t> slow_taken{0}, slow_refused{0}, slow_over_rate{0};

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

void set_unsaved_plan(JobId job, bool is_unsaved) {
    const std::lock_guard lock(unsaved_mutex);
    if (is_unsaved)
        unsaved_plans.insert(job);
    else
        unsaved_plans.erase(job);
}

bool has_unsaved_plan(JobId job) {
    const std::lock_guard lock(unsaved_mutex);
    return unsaved_plans.contains(job);
}

void leave_report(LeftReport report) { reports.leave(std::move(report)); }
std::vector<LeftReport> take_reports() { return reports.take(); }
bool leave_slow_report(LeftSlowReport report) {
    return slow_reports.leave_if_room(std::move(report));
}
std::vector<LeftSlowReport> take_slow_reports() { return slow_reports.take(); }

void count_slow_reports(const SlowReportCounts& more) {
    slow_taken += more.taken;
    slow_refused += more.refused;
    slow_over_rate += more.over_rate;
}

SlowReportCounts slow_report_counts() {
    return {.taken = slow_taken, .refused = slow_refused, .over_rate = slow_over_rate};
}

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
