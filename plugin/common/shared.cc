// SPDX-License-Identifier: GPL-2.0-or-later
// One eventfd, one thread-local flag and a list of reports: the only state that the plug-ins share.
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
constexpr std::size_t max_reports = 256;
std::mutex reports_mutex;
std::vector<LeftReport> reports;

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

void leave_report(LeftReport report) {
    const std::lock_guard lock(reports_mutex);
    // The latest of a job stands for it: one that reports without end crowds nobody else out.
    std::erase_if(reports, [&](const LeftReport& earlier) { return earlier.job == report.job; });
    if (reports.size() >= max_reports) reports.erase(reports.begin());
    reports.push_back(std::move(report));
}

std::vector<LeftReport> take_reports() {
    const std::lock_guard lock(reports_mutex);
    return std::exchange(reports, {});
}

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
