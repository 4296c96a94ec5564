// SPDX-License-Identifier: GPL-2.0-or-later
#include "train/run/report.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <string>

#include "base/text.h"
#include "core/observation.h"
#include "train/core/compute_clock.h"

extern char** environ;

namespace arena::train {
namespace {

constexpr std::size_t fewest = min_reported_steps;
constexpr double interval_s = 60;
constexpr int limit_ms = 5000;

std::string command() {
    const std::string beside = program_beside("arena");
    return beside.empty() ? "arena" : beside;
}

/// False when it did not end in time.
bool ends_in_time(pid_t pid) {
    const int fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
    if (fd < 0) return true;  // wait for it without a limit, as its own programs have one
    pollfd ended{fd, POLLIN, 0};
    int ready = poll(&ended, 1, limit_ms);
    while (ready < 0 && errno == EINTR) ready = poll(&ended, 1, limit_ms);
    close(fd);
    return ready != 0;
}

/// Its own sentence on stderr says why it fails.
void run(const std::vector<std::string>& words) {
    std::vector<char*> argv;
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    posix_spawnattr_t
        attributes;  // the signals that are blocked here are not the command's business
    posix_spawnattr_init(&attributes);
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    pid_t pid = -1;
    const int error = posix_spawnp(&pid, argv.front(), &actions, &attributes, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    if (error != 0) {
        fmt::print(stderr,
                   "arena-train: the iteration time is not reported: {} cannot be started\n",
                   words.front());
        return;
    }
    if (!ends_in_time(pid)) {
        fmt::print(stderr, "arena-train: the iteration time is not reported: no answer in 5 s\n");
        kill(pid, SIGKILL);
    }
    while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
}

}  // namespace

Reporter::Reporter(bool on)
    : on_(on && std::getenv("SLURM_JOB_ID") != nullptr && std::getenv("ARENA_PLAN") != nullptr) {}

void Reporter::tell(bool last) {
    if (!on_ || seconds_.size() < warm_up_steps + fewest || seconds_.size() == told_) return;
    if (!last && told_ != 0 && now_s() < told_at_s_ + interval_s) return;
    const StepTimes times = step_times(seconds_);
    run({command(), "report", "--iteration-s", fmt::format("{:.6g}", times.median_s), "--spread",
         fmt::format("{:.4g}", std::min(times.spread, 10.0)), "--steps",
         std::to_string(seconds_.size() - warm_up_steps)});
    told_ = seconds_.size();
    told_at_s_ = now_s();
}

}  // namespace arena::train
