// SPDX-License-Identifier: GPL-2.0-or-later
// See recorder.h. The handler only writes a byte to a pipe: threads that libraries made before main
// (OpenBLAS does) may run it, the threads that measure never do.
#include "profiler/core/recorder.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "base/file_descriptor.h"
#include "base/text.h"

namespace arena {
namespace {

constexpr std::initializer_list<int> stop_signals{SIGTERM, SIGINT, SIGHUP, SIGXCPU};
int signal_pipe[2] = {-1, -1};  // a handler can reach nothing else

void on_signal(int number) {
    const int saved = errno;
    const auto byte = static_cast<unsigned char>(number);
    [[maybe_unused]] const auto n = ::write(signal_pipe[1], &byte, 1);
    errno = saved;
}

void install_handlers() {
    struct sigaction action {};
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    for (const int number : stop_signals) ::sigaction(number, &action, nullptr);
}

Status write_stdout(const std::string& text) {
    const bool good =
        std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
    if (!good) return environment_error(std::strerror(errno), "standard output");
    return Done{};
}

}  // namespace

double monotonic_s() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

Recorder::Recorder(Profile base, std::string path)
    : profile_(std::move(base)), path_(std::move(path)), begin_s_(monotonic_s()) {
    profile_.started_s =
        std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

Recorder::~Recorder() {
    if (!thread_.joinable()) return;
    on_signal(0);  // byte 0: stop
    thread_.join();
}

void Recorder::watch(double hard_limit_s) {
    if (::pipe2(signal_pipe, O_CLOEXEC | O_NONBLOCK) != 0) return;
    install_handlers();
    blocked_.emplace(stop_signals);
    thread_ = std::thread([this, hard_limit_s] {
        blocked_->unblock();
        watcher(hard_limit_s);
    });
}

void Recorder::watcher(double hard_limit_s) {
    using Clock = std::chrono::steady_clock;
    const std::chrono::duration<double> left(hard_limit_s - (monotonic_s() - begin_s_));
    const bool is_told =
        wait_for_input(signal_pipe[0], Clock::now() + std::chrono::ceil<Clock::duration>(left));
    unsigned char number = 0;
    if (is_told && ::read(signal_pipe[0], &number, 1) == 1 && number == 0) return;
    std::string why =
        is_told ? std::string("stopped by ") + ::strsignal(number) : "the budget ended";
    {
        const std::lock_guard lock(mutex_);
        if (!current_.empty()) why += " during " + current_;
    }
    ::_exit(finish(ProfileStatus::partial, why, monotonic_s() - begin_s_));
}

void Recorder::set_device(const Device& device) {
    const std::lock_guard lock(mutex_);
    profile_.device = device;
}

void Recorder::set_wanted(std::size_t wanted, std::size_t reused) {
    const std::lock_guard lock(mutex_);
    profile_.wanted = static_cast<std::int64_t>(wanted);
    profile_.reused = static_cast<std::int64_t>(reused);
}

void Recorder::amend(const std::function<void(Profile&)>& change) {
    const std::lock_guard lock(mutex_);
    change(profile_);
}

void Recorder::begin(const OpShape& shape) {
    const std::lock_guard lock(mutex_);
    current_ = op_key(shape);
}

void Recorder::add(const ProfileEntry& entry) {
    const std::lock_guard lock(mutex_);
    profile_.entries.push_back(entry);
    current_.clear();
}

int Recorder::finish(ProfileStatus status, const std::string& reason, double device_seconds) {
    const std::lock_guard lock(mutex_);
    if (written_) return exit_code_;
    if (status == ProfileStatus::partial && profile_.entries.empty())
        status = ProfileStatus::failed;
    profile_.status = status;
    profile_.reason = printable(reason, 240);
    profile_.device_seconds = device_seconds;
    written_ = true;
    exit_code_ = write_locked();
    if (tell_) tell_(profile_);
    return exit_code_;
}

int Recorder::write_locked() {
    const std::string text = to_json(profile_) + "\n";
    const Status s = path_ == "-" ? write_stdout(text) : write_file_atomic(path_, text, 0644);
    if (!s) {
        std::fprintf(stderr, "arena-profiler: %s\n", s.error().message().c_str());
        return 3;
    }
    return profile_.status == ProfileStatus::failed ? 1 : 0;
}

}  // namespace arena
