// SPDX-License-Identifier: GPL-2.0-or-later
#include "watch/chief/report_sender.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>

#include "watch/chief/lines.h"

namespace arena::watch {
namespace {

constexpr int no_slurmctld = 3;  ///< exit code: an outage, as of each command of `arena`

/// What the agent leaves to the ranks is this command's to obey.
std::vector<int> all_signals() {
    std::vector<int> all;
    for (int number = 1; number < SIGRTMIN; ++number)
        if (number != SIGKILL && number != SIGSTOP) all.push_back(number);
    return all;
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
    if (!report.peer.node.empty()) words.insert(words.end(), {"--peer", to_string(report.peer)});
    if (report.relief != 0) words.insert(words.end(), {"--relief", std::to_string(report.relief)});
    if (report.steps != 0) words.insert(words.end(), {"--steps", std::to_string(report.steps)});
    return words;
}

ReportSender::ReportSender(std::string program, double wait_s)
    : program_(std::move(program)), wait_s_(wait_s) {}

ReportSender::~ReportSender() {
    if (!child_.is_running()) return;
    child_.signal(SIGTERM);
    child_.wait();
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
    auto child = start_child(
        {.words = report_command(program_, said_, wait_s_), .not_ignored = all_signals()});
    if (child) {
        child_ = std::move(*child);
        return;
    }
    lines.push_back(problem(
        fmt::format("not reported: {}: {} {}", slow_word(said_), program_, child.error().text),
        "not_reported"));
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
    if (child_.is_running()) {
        const auto end = child_.wait(Clock::now());
        if (!end) return lines;
        take_end(end->by_signal ? -1 : end->status, lines);
    }
    if (!waiting_.empty()) start(lines);
    return lines;
}

}  // namespace arena::watch
