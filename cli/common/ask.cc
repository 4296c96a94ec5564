// SPDX-License-Identifier: GPL-2.0-or-later
// Asking the plug-in's socket and Slurm's commands: see ask.h. Nothing here waits without a limit.
#include "cli/common/ask.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/file_descriptor.h"
#include "base/text.h"
#include "ipc/child.h"
#include "ipc/incoming.h"

namespace arena::cli {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t max_answer_bytes = std::size_t{64} << 20;
/// Where too many ask at once the plug-in hangs up on those that have said nothing yet: on this
/// one, too, where the machine let it wait between connecting and asking.
constexpr int most_hang_ups = 20;

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

}  // namespace

Result<std::string> ask_socket(const std::string& path, std::string_view line,
                               std::chrono::seconds limit) {
    const auto deadline = Clock::now() + limit;
    for (int left = most_hang_ups;; --left) {
        Result<FileDescriptor> fd = connect_socket(path, limit);
        if (!fd) return fd.error();
        Incoming answer{std::move(*fd), {}};
        const char* problem = send_line(answer.fd.get(), std::string(line))
                                  ? read_to_end({&answer, 1}, deadline, max_answer_bytes)
                                  : "the scheduler plug-in does not take the question";
        const bool hung_up = answer.text.empty() && Clock::now() < deadline;
        if (hung_up && left > 0) continue;
        if (problem != nullptr) return environment_error(problem, path);
        return std::move(answer.text);
    }
}

Result<ProgramOutput> run_program(const std::vector<std::string>& argv,
                                  std::chrono::seconds limit) {
    const std::string file = find_program(argv.front());
    if (file.empty())
        return environment_error("is not in PATH; install Slurm's commands", argv.front());
    auto ran = run_child({.words = argv, .out = Stream::pipe, .err = Stream::pipe},
                         Clock::now() + limit, max_answer_bytes);
    if (!ran) return environment_error(ran.error().text, file);
    return ProgramOutput{ran->end.status, std::move(ran->out), std::move(ran->err)};
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
