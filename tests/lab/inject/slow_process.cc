// SPDX-License-Identifier: GPL-2.0-or-later
// slow-process: makes a process run slower by a factor, from outside, by turns of SIGSTOP and
// SIGCONT: what a slow GPU or an overheated CPU does to one rank of a job. What it stopped runs
// again however it ends: a second process sees its end, or its silence, and continues the target.
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_descriptor.h"
#include "base/result.h"
#include "base/text.h"
#include "base/user_file.h"
#include "ipc/child.h"
#include "watch/ring/rank_id.h"

namespace {

using namespace arena;

/// Of a run and a stop. Where processes compete for CPUs the scheduler makes good what a short stop
/// took; longer turns are beyond its memory.
constexpr double least_turn_ms = 2, usual_turn_ms = 20, most_turn_ms = 500;
/// Of the run part of a turn: timers are no finer than that under load.
constexpr double shortest_run_s = 0.001;
constexpr double greatest_factor = 100;
/// A stopped tool leaves nobody stopped for longer.
constexpr int silence_ms = 1000;
constexpr std::size_t most_environ_bytes = 1 << 20;

constexpr const char* usage =
    "usage: slow-process [--turn-ms N] PID FACTOR [SECONDS]\n"
    "       slow-process [--turn-ms N] --rank N --job ID[.STEP] FACTOR [SECONDS]\n"
    "FACTOR: above 1, at most 100; 2 stops the process for 10 of each 20 ms. SECONDS: without it,\n"
    "until a signal or the end of the process. --rank: the rank's processes on this node.\n"
    "--turn-ms: of a run and a stop, 2 to 500; without it 20, and longer on a busy machine is "
    "truer.";

struct Wanted {
    std::vector<pid_t> pids;
    std::int64_t rank = -1, job = -1, step = -1;
    double factor = 0, seconds = 0;  ///< seconds 0: no limit
    double turn_s = usual_turn_ms / 1000;
};

/// A process, by a descriptor: its number may be another's one day.
struct Process {
    pid_t pid = 0;
    FileDescriptor handle;
};
using Target = std::vector<Process>;

int say(const Error& error) {
    fmt::print(stderr, "slow-process: {}\n", error.message());
    return static_cast<int>(error.code);
}

double now_s() {
    timespec t{};
    ::clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

// ---- who -------------------------------------------------------------------------------------

std::string process_text(pid_t pid, const char* file) {
    const FileDescriptor fd(
        ::open(fmt::format("/proc/{}/{}", pid, file).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    std::string text(most_environ_bytes, '\0');
    std::size_t length = 0;
    while (fd.get() >= 0 && length < text.size()) {
        const ssize_t got = ::read(fd.get(), text.data() + length, text.size() - length);
        if (got <= 0) break;
        length += static_cast<std::size_t>(got);
    }
    text.resize(length);
    return text;
}

/// Of the process that is asked about; rank_of_environment() takes a plain function.
std::string asked_environ;

const char* asked_variable(const char* name) {
    const std::size_t length = std::strlen(name);
    for (std::size_t at = 0; at < asked_environ.size();) {
        const char* entry = asked_environ.c_str() + at;
        if (std::strncmp(entry, name, length) == 0 && entry[length] == '=')
            return entry + length + 1;
        at += std::strlen(entry) + 1;
    }
    return nullptr;
}

/// The step of which the process is that rank. A batch script has a rank's variables, too, but no
/// step; the agent of a node is none of its ranks.
std::optional<std::int64_t> step_of_rank(pid_t pid, const Wanted& wanted) {
    asked_environ = process_text(pid, "environ");
    const auto id = watch::rank_of_environment(&asked_variable);
    if (!id || asked_variable("SLURM_STEP_ID") == nullptr) return std::nullopt;
    if (id->job != static_cast<std::uint64_t>(wanted.job) || id->rank != wanted.rank)
        return std::nullopt;
    if (wanted.step >= 0 && id->step != wanted.step) return std::nullopt;
    if (process_text(pid, "comm") == "arena-watch\n") return std::nullopt;
    return id->step;
}

Result<std::vector<pid_t>> find_rank(const Wanted& wanted) {
    std::vector<pid_t> found;
    std::set<std::int64_t> steps;
    DIR* proc = ::opendir("/proc");
    if (proc == nullptr) return environment_error("/proc cannot be read");
    while (const dirent* entry = ::readdir(proc)) {
        const auto pid = parse_integer(entry->d_name, 1, INT32_MAX);
        if (!pid) continue;
        const auto step = step_of_rank(static_cast<pid_t>(*pid), wanted);
        if (!step) continue;
        found.push_back(static_cast<pid_t>(*pid));
        steps.insert(*step);
    }
    ::closedir(proc);
    const std::string who = fmt::format("rank {} of job {}", wanted.rank, wanted.job);
    if (found.empty())
        return no_error(who +
                            " has no process on this node that you may look into; run this as "
                            "its user or root, where the rank runs",
                        "--rank");
    if (steps.size() > 1)
        return usage_error(fmt::format("{} is in several steps; say which, as in {}.{}", who,
                                       wanted.job, *steps.begin()),
                           "--job");
    return found;
}

Result<Process> open_process(pid_t pid) {
    struct stat status {};
    if (::stat(fmt::format("/proc/{}", pid).c_str(), &status) != 0)
        return no_error("there is no such process", fmt::format("PID {}", pid));
    const std::string who = fmt::format("PID {}", pid);
    if (status.st_uid != ::geteuid() && ::geteuid() != 0)
        return environment_error(
            fmt::format("belongs to uid {}, not to uid {}: only its user or root may slow it",
                        status.st_uid, ::geteuid()),
            who);
    if (pid == 1 || pid == ::getpid() || pid == ::getppid())
        return usage_error("is init, this program or what started it; name another process", who);
    Process process{pid, FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)))};
    if (process.handle.get() < 0 && errno == ESRCH) return no_error("has just ended", who);
    if (process.handle.get() < 0)
        return environment_error(fmt::format("cannot be held: {}", ::strerrordesc_np(errno)), who);
    return process;
}

/// What a rank's agent starts for a moment has its environment, too, and may be gone by now.
Result<Target> open_target(const Wanted& wanted) {
    Result<std::vector<pid_t>> pids = wanted.pids;
    if (wanted.rank >= 0) pids = find_rank(wanted);
    if (!pids) return pids.error();
    Target target;
    std::optional<Error> gone;
    for (const pid_t pid : *pids) {
        Result<Process> process = open_process(pid);
        if (process)
            target.push_back(std::move(*process));
        else if (process.error().code == ErrorCode::no)
            gone = process.error();
        else
            return process.error();
    }
    if (target.empty() && gone) return *gone;
    return target;
}

/// Whether any of them is still there.
bool signal_all(const Target& target, int number) {
    bool there = false;
    for (const Process& process : target)
        there |= ::syscall(SYS_pidfd_send_signal, process.handle.get(), number, nullptr, 0) == 0;
    return there;
}

// ---- the second process ------------------------------------------------------------------------

/// Continues the target when nothing comes for a while, and when the other end is gone.
[[noreturn]] void guard(const Target& target, int heartbeat) {
    ::prctl(PR_SET_PDEATHSIG, 0);
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGTSTP}) ::signal(number, SIG_IGN);
    ::close(STDIN_FILENO);
    ::close(STDOUT_FILENO);
    ::close(STDERR_FILENO);
    for (;;) {
        pollfd waiting{heartbeat, POLLIN, 0};
        const int ready = ::poll(&waiting, 1, silence_ms);
        char beats[256];
        if (ready < 0 && errno == EINTR) continue;
        if (ready > 0 && ::read(heartbeat, beats, sizeof beats) > 0) continue;
        signal_all(target, SIGCONT);
        if (ready != 0) ::_exit(0);
    }
}

/// The writing end of its heartbeat.
Result<FileDescriptor> start_guard(const Target& target) {
    auto child = start_copy({.in = Stream::pipe, .apart = true},
                            [&](const CopyEnds& ends) -> int { guard(target, ends.in.get()); });
    if (!child) return child.error();
    child->release();
    ::fcntl(child->in.get(), F_SETFL, O_NONBLOCK);
    return std::move(child->in);
}

// ---- turns -----------------------------------------------------------------------------------

volatile std::sig_atomic_t ended = 0;
void note_end(int) { ended = 1; }

void take_signals() {
    struct sigaction action {};
    action.sa_handler = note_end;
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) ::sigaction(number, &action, nullptr);
    // A stopped tool would leave its target stopped until the guard misses it.
    for (const int number : {SIGTSTP, SIGPIPE, SIGTTOU}) ::signal(number, SIG_IGN);
}

void wait_until(double at_s) {
    timespec t{};
    t.tv_sec = static_cast<time_t>(at_s);
    t.tv_nsec = static_cast<long>((at_s - static_cast<double>(t.tv_sec)) * 1e9);
    while (ended == 0 && ::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, nullptr) == EINTR) {
    }
}

struct Outcome {
    double lasted_s = 0, stopped_s = 0;
    bool gone = false, unguarded = false;
};

/// CPU time that the target has had.
double cpu_s(const Target& target) {
    double sum = 0;
    for (const Process& process : target) {
        clockid_t clock{};
        timespec t{};
        if (::clock_getcpuclockid(process.pid, &clock) != 0 || ::clock_gettime(clock, &t) != 0)
            continue;
        sum += static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
    }
    return sum;
}

class Turns {
  public:
    Turns(const Target& target, const Wanted& wanted)
        : target_(target),
          stopped_share_(1 - 1 / wanted.factor),
          run_s_(std::max(wanted.turn_s / wanted.factor, shortest_run_s)),
          longest_stop_s_(std::min(4 * run_s_ * wanted.factor, 0.9e-3 * silence_ms)) {}

    /// Runs, then stops for as long as makes the stopped share of all time right: what a late timer
    /// added or took, and what the target still did after its signal, is made good in later turns.
    void take() {
        const double ran_s = cpu_s(target_), from_s = now_s();
        wait_until(from_s + run_s_);
        const double at_s = now_s();
        const double due_s =
            (stopped_share_ * (at_s - begin_s_) - stopped_s_) / (1 - stopped_share_);
        if (ended != 0 || due_s <= 0) return;
        signal_all(target_, SIGSTOP);
        const double until_s = cpu_s(target_);
        wait_until(at_s + std::min(due_s, longest_stop_s_));
        const double after_s = cpu_s(target_) - until_s;
        signal_all(target_, SIGCONT);
        const double threads = std::max(1.0, (until_s - ran_s) / (at_s - from_s));
        stopped_s_ += now_s() - at_s - after_s / threads;
    }
    [[nodiscard]] double lasted_s() const { return now_s() - begin_s_; }
    [[nodiscard]] double stopped_s() const { return stopped_s_; }

  private:
    const Target& target_;
    double stopped_share_, run_s_, longest_stop_s_;
    double begin_s_ = now_s(), stopped_s_ = 0;
};

Outcome take_turns(const Target& target, const Wanted& wanted, int heartbeat) {
    Outcome out;
    Turns turns(target, wanted);
    while (ended == 0 && (wanted.seconds == 0 || turns.lasted_s() < wanted.seconds)) {
        turns.take();
        out.unguarded = ::write(heartbeat, "", 1) < 0 && errno == EPIPE;
        out.gone = !signal_all(target, 0);
        if (out.unguarded || out.gone) break;
    }
    signal_all(target, SIGCONT);
    out.lasted_s = turns.lasted_s();
    out.stopped_s = turns.stopped_s();
    return out;
}

int slow(const Wanted& wanted, pid_t parent) {
    Result<Target> target = open_target(wanted);
    if (!target) return say(target.error());
    take_signals();
    Result<FileDescriptor> heartbeat = start_guard(*target);
    if (!heartbeat) return say(heartbeat.error());
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) return 0;
    // Turns of milliseconds want to be punctual; without the right to it they are a little less so.
    sched_param priority{};
    priority.sched_priority = 10;
    ::sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &priority);
    const Outcome out = take_turns(*target, wanted, heartbeat->get());
    fmt::print("{} process{} slowed for {:.2f} s, stopped for {:.1f} % of it: factor {:.3f}{}\n",
               target->size(), target->size() == 1 ? "" : "es", out.lasted_s,
               100 * out.stopped_s / out.lasted_s, out.lasted_s / (out.lasted_s - out.stopped_s),
               out.gone ? "; it has ended" : "");
    if (!out.unguarded) return 0;
    return say(environment_error("the process that guards this one was killed, so it ends, too"));
}

// ---- the command -----------------------------------------------------------------------------

Status read_job(std::string_view text, Wanted& wanted) {
    const std::size_t dot = text.find('.');
    const auto job = parse_integer(text.substr(0, dot), 1, INT64_MAX);
    const auto step = dot == std::string_view::npos
                          ? std::optional<std::int64_t>(-1)
                          : parse_integer(text.substr(dot + 1), 0, UINT32_MAX);
    if (!job || !step)
        return usage_error(fmt::format("'{}' is no JOB or JOB.STEP", printable(text)), "--job");
    wanted.job = *job;
    wanted.step = *step;
    return Done{};
}

Status read_numbers(const std::vector<std::string_view>& words, Wanted& wanted) {
    const std::size_t first = wanted.rank >= 0 ? 0 : 1;
    if (words.size() < first + 1 || words.size() > first + 2) return usage_error(usage);
    if (first == 1) {
        const auto pid = parse_integer(words[0], 1, INT32_MAX);
        if (!pid) return usage_error(fmt::format("'{}' is no number", printable(words[0])), "PID");
        wanted.pids = {static_cast<pid_t>(*pid)};
    }
    const auto factor = parse_number(words[first], 1, greatest_factor);
    if (!factor || *factor <= 1)
        return usage_error(fmt::format("'{}' is not above 1 and at most {:g}",
                                       printable(words[first]), greatest_factor),
                           "FACTOR");
    wanted.factor = *factor;
    if (words.size() == first + 1) return Done{};
    const auto seconds = parse_number(words[first + 1], 0.001, 1e7);
    if (!seconds)
        return usage_error(
            fmt::format("'{}' is not from 0.001 to 10^7", printable(words[first + 1])), "SECONDS");
    wanted.seconds = *seconds;
    return Done{};
}

Status read_option(std::string_view option, const char* value, Wanted& wanted) {
    if (option == "--job") return read_job(value, wanted);
    if (option == "--turn-ms") {
        const auto turn_ms = parse_number(value, least_turn_ms, most_turn_ms);
        if (!turn_ms)
            return usage_error(fmt::format("'{}' is not from {:g} to {:g}", printable(value),
                                           least_turn_ms, most_turn_ms),
                               "--turn-ms");
        wanted.turn_s = *turn_ms / 1000;
        return Done{};
    }
    const auto rank = parse_integer(value, 0, UINT32_MAX);
    if (!rank) return usage_error(fmt::format("'{}' is no rank", printable(value)), "--rank");
    wanted.rank = *rank;
    return Done{};
}

Result<Wanted> read_command(int count, char** values) {
    Wanted wanted;
    std::vector<std::string_view> words;
    for (int i = 1; i < count; ++i) {
        const std::string_view word = values[i];
        if (word == "--rank" || word == "--job" || word == "--turn-ms") {
            if (++i == count) return usage_error(fmt::format("{} needs a value", word));
            if (const Status read = read_option(word, values[i], wanted); !read)
                return read.error();
        } else if (word.starts_with("--")) {
            return usage_error(fmt::format("unknown option {}\n{}", printable(word), usage));
        } else {
            words.push_back(word);
        }
    }
    if ((wanted.rank >= 0) != (wanted.job >= 0))
        return usage_error("are given together: a rank, and the job that it is of",
                           "--rank, --job");
    if (const Status status = read_numbers(words, wanted); !status) return status.error();
    return wanted;
}

int main_of(int count, char** values, pid_t parent) {
    if (count == 2 && std::string_view(values[1]) == "--help") {
        fmt::print("{}\n", usage);
        return 0;
    }
    const Result<Wanted> wanted = read_command(count, values);
    return wanted ? slow(*wanted, parent) : say(wanted.error());
}

}  // namespace

int main(int count, char** values) {
    const pid_t parent = ::getppid();
    return arena::run_program("slow-process", [&] { return main_of(count, values, parent); });
}
