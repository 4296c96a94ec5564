// SPDX-License-Identifier: GPL-2.0-or-later
#include "watch/chief/report_sender.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "watch/chief/lines.h"

extern char** environ;

namespace arena::watch {
namespace {

constexpr int no_slurmctld = 3;  ///< exit code: an outage, as of each command of `arena`

/// As a command of its own: nothing of ours blocked or ignored, nothing of ours to read or write
/// but stderr. 0, or errno.
int spawn(const std::vector<std::string>& words, pid_t& pid) {
    std::vector<char*> argv;
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t none, usual;
    sigemptyset(&none);
    sigfillset(&usual);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &usual);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    const int error = posix_spawnp(&pid, argv.front(), &files, &attributes, argv.data(), environ);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
    return error;
}

}  // namespace

std::vector<std::string> report_command(const std::string& program, const SlowReport& report,
                                        double wait_s) {
    std::vector<std::string> words{program,
                                   "slowdown",
                                   "report",
                                   "--wait",
                                   fmt::format("{:.6g}", wait_s),
                                   "--onset",
                                   std::to_string(report.onset)};
    if (!report.at.node.empty()) words.insert(words.end(), {"--at", to_string(report.at)});
    words.insert(
        words.end(),
        {"--cause", std::string(slowdown::name(report.cause)), "--factor",
         fmt::format("{:.6g}", report.factor), "--action", std::string(to_string(report.action)),
         "--lost-s", fmt::format("{:.6g}", report.lost_s), "--life", std::to_string(report.life)});
    if (report.is_suspicion())
        words.insert(words.end(), {"--confidence", fmt::format("{:.3g}", report.confidence)});
    if (!report.peer.node.empty()) words.insert(words.end(), {"--peer", to_string(report.peer)});
    if (report.relief != 0) words.insert(words.end(), {"--relief", std::to_string(report.relief)});
    if (report.steps != 0) words.insert(words.end(), {"--steps", std::to_string(report.steps)});
    return words;
}

ReportSender::ReportSender(std::string program, double wait_s)
    : program_(std::move(program)), wait_s_(wait_s) {}

ReportSender::~ReportSender() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGTERM);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
}

void ReportSender::add(const SlowReport& report) {
    const auto same = std::ranges::find_if(
        waiting_, [&](const SlowReport& one) { return same_event(one, report); });
    if (same != waiting_.end()) {
        *same = report;
        return;
    }
    if (waiting_.size() >= most_waiting) waiting_.pop_front();
    waiting_.push_back(report);
}

void ReportSender::start(std::vector<LogLine>& lines) {
    said_ = waiting_.front();
    waiting_.pop_front();
    began_ = Clock::now();
    const int error = spawn(report_command(program_, said_, wait_s_), pid_);
    if (error != 0) {
        pid_ = -1;
        lines.push_back(problem(fmt::format("not reported: {}: {} cannot be started: {}",
                                            slow_word(said_), program_, std::strerror(error)),
                                "not_reported"));
        return;
    }
    ended_ = FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
}

/// Where slurmctld was not there all the time that a child waits, the report waits on: for the next
/// child. One that fails at once would be said without end.
void ReportSender::take_end(int code, std::vector<LogLine>& lines) {
    if (code == 0)
        return lines.push_back(line("slurmctld knows of " + slow_word(said_), "delivered"));
    lines.push_back(problem(
        fmt::format("not reported: {}: `arena slowdown report` ended with {}", slow_word(said_),
                    code > 0 ? fmt::format("exit code {}", code) : "a signal"),
        "not_reported"));
    const std::chrono::duration<double> waited = Clock::now() - began_;
    const bool is_newer = std::ranges::any_of(
        waiting_, [&](const SlowReport& one) { return same_event(one, said_); });
    if (code == no_slurmctld && waited.count() >= wait_s_ / 2 && !is_newer)
        waiting_.push_front(said_);
}

std::vector<LogLine> ReportSender::poll() {
    std::vector<LogLine> lines;
    if (pid_ > 0) {
        int status = 0;
        const pid_t ended = ::waitpid(pid_, &status, WNOHANG);
        if (ended == 0 || (ended < 0 && errno == EINTR)) return lines;
        pid_ = -1;
        ended_.reset();
        take_end(ended > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1, lines);
    }
    if (!waiting_.empty()) start(lines);
    return lines;
}

}  // namespace arena::watch
