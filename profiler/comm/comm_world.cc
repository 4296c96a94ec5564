// SPDX-License-Identifier: GPL-2.0-or-later
// See comm_world.h.
#include "profiler/comm/comm_world.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

#include "base/file_descriptor.h"
#include "base/signals.h"
#include "base/text.h"
#include "profiler/core/recorder.h"

namespace arena {
namespace {

constexpr std::int64_t max_tasks = 65536;

std::optional<std::int64_t> number(const Lookup& env, const char* name, std::int64_t min) {
    const char* text = env(name);
    if (text == nullptr) return {};
    return parse_integer(text, min, max_tasks);
}

/// "8" or "8(x4)": the same on every node; nothing for "8,4" and the like.
std::optional<std::int64_t> tasks_per_node(std::string_view text) {
    const std::size_t more = text.find("(x");
    const bool is_one = more == std::string_view::npos || text.find(')') == text.size() - 1;
    if (!is_one) return {};
    return parse_integer(text.substr(0, more), 1, max_tasks);
}

bool is_word(std::string_view text) {
    return !text.empty() && text.size() <= 32 &&
           std::all_of(text.begin(), text.end(),
                       [](unsigned char c) { return std::isalnum(c) != 0; });
}

bool read_all(int fd, std::string& out) {
    for (std::size_t at = 0; at < out.size();) {
        const ssize_t n = ::read(fd, out.data() + at, out.size() - at);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        at += static_cast<std::size_t>(n);
    }
    return true;
}

constexpr std::initializer_list<int> passed_on{SIGINT, SIGTERM, SIGHUP};
std::vector<pid_t> children;  // a handler can reach nothing else

void pass_on(int signal_number) {
    const int saved = errno;
    for (const pid_t child : children)
        if (child > 0) ::kill(child, signal_number == SIGINT ? SIGTERM : signal_number);
    errno = saved;
}

void handle_signals(void (*handler)(int)) {
    struct sigaction action {};
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    for (const int name : passed_on) ::sigaction(name, &action, nullptr);
}

int code_of(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 3; }

/// Waits for all; the first failure stops the rest, which would wait for it until their limit.
int wait_for_children() {
    int worst = 0;
    for (std::size_t left = children.size(); left > 0;) {
        int status = 0;
        const pid_t gone = ::waitpid(-1, &status, 0);
        if (gone < 0 && errno == EINTR) continue;
        if (gone < 0) return 3;
        const auto at = std::find(children.begin(), children.end(), gone);
        if (at == children.end()) continue;
        *at = 0;
        --left;
        const int code = code_of(status);
        if (WIFSIGNALED(status) && worst <= 1)  // not one that we told to stop
            std::fprintf(stderr, "arena-profiler: rank %td was killed: %s\n", at - children.begin(),
                         ::strsignal(WTERMSIG(status)));
        if (code > 1 && worst <= 1) pass_on(SIGTERM);
        worst = std::max(worst, code);
    }
    return worst;
}

}  // namespace

Result<std::optional<CommWorld>> world_of_step(const Lookup& env) {
    const auto tasks = number(env, "SLURM_STEP_NUM_TASKS", 1);
    if (!tasks || *tasks < 2) return std::optional<CommWorld>();
    const auto rank = number(env, "SLURM_PROCID", 0), node = number(env, "SLURM_NODEID", 0),
               local = number(env, "SLURM_LOCALID", 0),
               nodes = number(env, "SLURM_STEP_NUM_NODES", 1);
    const char* spread = env("SLURM_STEP_TASKS_PER_NODE");
    const auto each = tasks_per_node(spread == nullptr ? "" : spread);
    if (!rank || !node || !local || !nodes)
        return environment_error(
            "srun has not said which task this is (SLURM_PROCID, SLURM_NODEID, "
            "SLURM_LOCALID, SLURM_STEP_NUM_NODES)");
    if (!each || *each * *nodes != *tasks)
        return usage_error(
            "needs the same number of tasks on each node: srun --ntasks-per-node=GPUS",
            "SLURM_STEP_TASKS_PER_NODE");
    const CommWorld world{*rank, *nodes, *each};
    if (*rank >= *tasks || world.node() != *node || world.local() != *local)
        return usage_error("tasks must lie in blocks: srun --distribution=block:block",
                           "SLURM_PROCID");
    return std::optional<CommWorld>(world);
}

std::string name_of_step(const Lookup& env) {
    std::string name = ".arena-comm";
    bool is_named = false;
    for (const char* part :
         {"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT", "SLURM_SRUN_COMM_PORT"}) {
        const char* value = env(part);
        if (value == nullptr || !is_word(value)) continue;
        name += std::string("-") + value;
        is_named = true;
    }
    return is_named ? name : std::string();
}

Result<std::string> MeetingPlace::share(const std::function<std::string()>& make,
                                        std::size_t size) const {
    if (!is_first_) return wait(size);
    const std::string bytes = make();
    ::unlink(path_.c_str());
    if (auto s = write_file_atomic(path_, bytes, 0600); !s) return s.error();
    return bytes;
}

Result<std::string> MeetingPlace::wait(std::size_t size) const {
    const double until = monotonic_s() + timeout_s_;
    while (true) {
        const FileDescriptor fd(
            ::open(path_.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
        const int why = errno;
        if (fd.get() >= 0) {
            struct stat st {};
            const bool is_ours = ::fstat(fd.get(), &st) == 0 && S_ISREG(st.st_mode) &&
                                 st.st_uid == ::geteuid() && (st.st_mode & 077) == 0;
            std::string bytes(size, '\0');
            if (!is_ours || static_cast<std::size_t>(st.st_size) != size ||
                !read_all(fd.get(), bytes))
                return environment_error("is not the file that rank 0 of this run wrote; remove it",
                                         path_);
            return bytes;
        }
        if (why != ENOENT && why != EINTR && why != ESTALE)
            return environment_error(std::strerror(why), path_);
        if (monotonic_s() > until)
            return environment_error("rank 0 did not come within " + human_seconds(timeout_s_) +
                                         "; do all nodes see this directory (--meet)?",
                                     path_);
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
}

void MeetingPlace::leave() const {
    if (is_first_) ::unlink(path_.c_str());
}

int run_in_children(std::int64_t count, const std::function<int(std::int64_t)>& body) {
    const pid_t parent = ::getpid();
    children.assign(static_cast<std::size_t>(count), 0);
    handle_signals(pass_on);
    std::fflush(nullptr);
    for (std::int64_t rank = 0; rank < count; ++rank) {
        // none meets a child that still has our handlers, nor one whose number is not written down
        const BlockedSignals wait(passed_on);
        const pid_t child = ::fork();
        if (child == 0) {
            handle_signals(SIG_DFL);
            wait.restore();
            ::prctl(PR_SET_PDEATHSIG, SIGTERM);
            const int code = ::getppid() == parent ? body(rank) : 3;
            std::fflush(nullptr);
            ::_exit(code);
        }
        if (child < 0) {
            std::fprintf(stderr, "arena-profiler: fork: %s\n", std::strerror(errno));
            children.resize(static_cast<std::size_t>(rank));
            pass_on(SIGTERM);
            wait_for_children();
            return 3;
        }
        children[static_cast<std::size_t>(rank)] = child;
    }
    return wait_for_children();
}

Result<std::int64_t> count_in_child(const std::function<Result<std::int64_t>()>& count) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return environment_error(std::strerror(errno), "pipe");
    std::fflush(nullptr);
    const pid_t child = ::fork();
    if (child == 0) {
        const auto found = count();
        const std::string text = found ? std::to_string(*found) : " " + found.error().message();
        [[maybe_unused]] const auto n =
            ::write(ends[1], text.data(), std::min<std::size_t>(text.size(), 400));
        ::_exit(0);
    }
    ::close(ends[1]);
    const FileDescriptor out(ends[0]);
    if (child < 0) return environment_error(std::strerror(errno), "fork");
    std::array<char, 512> text{};
    ssize_t n = 0;
    do n = ::read(out.get(), text.data(), text.size() - 1);
    while (n < 0 && errno == EINTR);
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (const auto found = parse_integer(text.data(), 0, 1024)) return *found;
    return environment_error(n > 0 ? printable(trim(text.data()), 400)
                                   : std::string("the devices cannot be counted: the process that "
                                                 "tried ended without an answer"));
}

}  // namespace arena
