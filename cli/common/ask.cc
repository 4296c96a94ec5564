// SPDX-License-Identifier: GPL-2.0-or-later
// Asking the plug-in's socket and Slurm's commands: see ask.h. Nothing here waits without a limit.
#include "cli/common/ask.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/file_descriptor.h"
#include "base/text.h"

extern char** environ;

namespace arena::cli {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t max_answer_bytes = std::size_t{64} << 20;
/// Where too many ask at once the plug-in hangs up on those that have said nothing yet: on this
/// one, too, where the machine let it wait between connecting and asking.
constexpr int most_hang_ups = 20;

struct Stream {
    FileDescriptor fd;
    std::string text;
};

/// Reads what is there; closes the stream at its end. False on an error or an answer without end.
bool read_some(Stream& stream) {
    char buffer[65536];
    const ssize_t n = ::read(stream.fd.get(), buffer, sizeof buffer);
    if (n < 0) return errno == EINTR || errno == EAGAIN;
    if (n == 0) stream.fd.reset();
    stream.text.append(buffer, static_cast<std::size_t>(n));
    return stream.text.size() <= max_answer_bytes;
}

/// Reads all streams to their ends; nullptr, or what went wrong.
const char* drain(std::vector<Stream*> streams, Clock::time_point deadline) {
    for (;;) {
        std::erase_if(streams, [](const Stream* s) { return s->fd.get() < 0; });
        if (streams.empty()) return nullptr;
        std::vector<pollfd> polls;
        for (const Stream* s : streams) polls.push_back({s->fd.get(), POLLIN, 0});
        const int ready = ::poll(polls.data(), polls.size(), milliseconds_until(deadline));
        if (ready < 0 && errno != EINTR) return "cannot wait for the answer";
        if (ready == 0) return "no answer in time";
        for (std::size_t i = 0; i < polls.size(); ++i) {
            if (polls[i].revents == 0) continue;
            if (!read_some(*streams[i])) return "the answer cannot be read, or is too long";
        }
    }
}

Result<FileDescriptor> connect_socket(const std::string& path, std::chrono::seconds most) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) {
        return usage_error("a socket path has at most 107 bytes", path);
    }
    path.copy(address.sun_path, path.size());
    FileDescriptor fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const timeval limit{most.count(), 0};
    if (fd.get() >= 0) ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    if (fd.get() < 0 ||
        ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        return environment_error(
            fmt::format("the scheduler plug-in does not answer: {}", std::strerror(errno)), path);
    }
    return fd;
}

bool send_line(int fd, std::string text) {
    text += '\n';
    std::string_view rest = text;
    while (!rest.empty()) {
        const ssize_t n = ::send(fd, rest.data(), rest.size(), MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        rest.remove_prefix(static_cast<std::size_t>(n));
    }
    return true;
}

/// argv[0] with its directory, searched in PATH and where daemons' tools live.
std::string find_program(const std::string& name) {
    if (name.find('/') != std::string::npos) return name;
    const char* path = std::getenv("PATH");
    const std::string all =
        std::string(path != nullptr ? path : "/usr/bin:/bin") + ":/usr/sbin:/sbin";
    for (const std::string_view directory : split(all, ':')) {
        const std::string file = fmt::format("{}/{}", directory, name);
        if (directory.starts_with('/') && ::access(file.c_str(), X_OK) == 0) return file;
    }
    return {};
}

class SpawnActions {
  public:
    SpawnActions() { posix_spawn_file_actions_init(&actions_); }
    SpawnActions(const SpawnActions&) = delete;
    SpawnActions& operator=(const SpawnActions&) = delete;
    ~SpawnActions() { posix_spawn_file_actions_destroy(&actions_); }
    posix_spawn_file_actions_t* get() { return &actions_; }

  private:
    posix_spawn_file_actions_t actions_{};
};

struct Pipe {
    FileDescriptor read, write;
};

bool open_pipe(Pipe& pipe) {
    int fds[2];
    if (::pipe2(fds, O_CLOEXEC) != 0) return false;
    pipe = {FileDescriptor(fds[0]), FileDescriptor(fds[1])};
    return true;
}

/// Starts the program with its output in the pipes; its pid, or -1 with errno.
pid_t spawn(const std::string& file, const std::vector<std::string>& argv, int out, int err) {
    std::vector<char*> words;
    for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    SpawnActions actions;
    posix_spawn_file_actions_addopen(actions.get(), 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(actions.get(), out, 1);
    posix_spawn_file_actions_adddup2(actions.get(), err, 2);
    pid_t pid = -1;
    const int error =
        ::posix_spawn(&pid, file.c_str(), actions.get(), nullptr, words.data(), environ);
    errno = error;
    return error == 0 ? pid : -1;
}

int reap(pid_t pid) {
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

Result<std::string> ask_socket(const std::string& path, std::string_view line,
                               std::chrono::seconds limit) {
    const auto deadline = Clock::now() + limit;
    for (int left = most_hang_ups;; --left) {
        Result<FileDescriptor> fd = connect_socket(path, limit);
        if (!fd) return fd.error();
        Stream stream{std::move(*fd), {}};
        const char* problem = send_line(stream.fd.get(), std::string(line))
                                  ? drain({&stream}, deadline)
                                  : "the scheduler plug-in does not take the question";
        const bool hung_up = stream.text.empty() && Clock::now() < deadline;
        if (hung_up && left > 0) continue;
        if (problem != nullptr) return environment_error(problem, path);
        return std::move(stream.text);
    }
}

Result<ProgramOutput> run_program(const std::vector<std::string>& argv,
                                  std::chrono::seconds limit) {
    const std::string file = find_program(argv.front());
    if (file.empty())
        return environment_error("is not in PATH; install Slurm's commands", argv.front());
    Pipe out, err;
    if (!open_pipe(out) || !open_pipe(err)) return environment_error(std::strerror(errno), "pipe");
    const pid_t pid = spawn(file, argv, out.write.get(), err.write.get());
    if (pid < 0) {
        return environment_error(fmt::format("cannot start: {}", std::strerror(errno)), file);
    }
    out.write.reset();
    err.write.reset();
    Stream text{std::move(out.read), {}}, complaint{std::move(err.read), {}};
    const char* problem = drain({&text, &complaint}, Clock::now() + limit);
    if (problem != nullptr) ::kill(pid, SIGKILL);
    const int status = reap(pid);
    if (problem != nullptr) return environment_error(problem, file);
    return ProgramOutput{status, std::move(text.text), std::move(complaint.text)};
}

Result<std::string> program_text(const std::vector<std::string>& argv) {
    Result<ProgramOutput> output = run_program(argv);
    if (!output) return output.error();
    if (output->status == 0) return std::move(output->out);
    std::string_view complaint = trim(output->err.empty() ? output->out : output->err);
    complaint = complaint.substr(0, complaint.find('\n'));
    return environment_error(printable(complaint, 200), join(argv, " "));
}

std::map<std::string, std::string> parse_scontrol_fields(std::string_view text) {
    std::map<std::string, std::string> fields;
    for (std::string_view line : split(text, '\n')) {
        line = trim(line);
        const std::string_view first = line.substr(0, line.find('='));
        if (first.size() == line.size()) continue;
        if (first.ends_with("Comment") || first == "Command" || first == "JobName") {
            fields.emplace(first, line.substr(first.size() + 1));
            continue;
        }
        for (const std::string_view word : split(line, ' ')) {
            const std::size_t equal = word.find('=');
            if (equal != std::string_view::npos) {
                fields.emplace(word.substr(0, equal), word.substr(equal + 1));
            }
        }
    }
    return fields;
}

std::map<std::string, std::string> parse_scontrol_config(std::string_view text) {
    std::map<std::string, std::string> fields;
    for (const std::string_view line : split(text, '\n')) {
        const std::size_t equal = line.find('=');
        if (equal == std::string_view::npos) continue;
        fields.emplace(trim(line.substr(0, equal)), trim(line.substr(equal + 1)));
    }
    return fields;
}

}  // namespace arena::cli
