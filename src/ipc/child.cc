// SPDX-License-Identifier: GPL-2.0-or-later
// See child.h.
#include "ipc/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/text.h"
#include "ipc/incoming.h"

extern char** environ;

namespace arena {
namespace {

constexpr int first_other = 3;  ///< descriptors below are the standard streams
constexpr auto nap = std::chrono::milliseconds(10);

Error not_started(const std::string& program, int why) {
    return environment_error(fmt::format("cannot be started: {}", std::strerror(why)), program);
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
    std::vector<char*> list;
    for (const std::string& text : texts) list.push_back(const_cast<char*>(text.c_str()));
    list.push_back(nullptr);
    return list;
}

bool has_zero_byte(const std::vector<std::string>& texts) {
    return std::ranges::any_of(
        texts, [](const std::string& text) { return text.find('\0') != std::string::npos; });
}

struct Pipe {
    FileDescriptor read, write;
};

/// Neither end takes the number of a standard stream, which this program may have closed. False
/// with errno.
bool open_pipe(Pipe& made) {
    int fds[2];
    if (::pipe2(fds, O_CLOEXEC) != 0) return false;
    made = {FileDescriptor(fds[0]), FileDescriptor(fds[1])};
    for (FileDescriptor* end : {&made.read, &made.write}) {
        if (end->get() >= first_other) continue;
        FileDescriptor moved(::fcntl(end->get(), F_DUPFD_CLOEXEC, first_other));
        if (moved.get() < 0) return false;
        *end = std::move(moved);
    }
    return true;
}

/// The pipes of those streams that are one; the child's ends by the number of the stream.
struct Pipes {
    explicit Pipes(std::array<Stream, first_other> all) : streams(all) {}

    std::array<Stream, first_other> streams;
    std::array<FileDescriptor, first_other> ours, childs;

    bool open() {
        for (std::size_t i = 0; i < streams.size(); ++i) {
            Pipe made;
            if (streams[i] != Stream::pipe) continue;
            if (!open_pipe(made)) return false;
            childs[i] = std::move(i == 0 ? made.read : made.write);
            ours[i] = std::move(i == 0 ? made.write : made.read);
        }
        return true;
    }
    void hand_on(Child& child) {
        child.in = std::move(ours[0]);
        child.out = std::move(ours[1]);
        child.err = std::move(ours[2]);
    }
};

/// All that posix_spawn(3) is told but the words.
class SpawnFacts {
  public:
    SpawnFacts(const ChildStart& start, const Pipes& pipes) {
        posix_spawn_file_actions_init(&files_);
        for (int i = 0; i < first_other; ++i) add_stream(i, pipes);
        posix_spawn_file_actions_addclosefrom_np(&files_, first_other);
        sigset_t none, usual;
        sigemptyset(&none);
        sigemptyset(&usual);
        for (const int number : {SIGPIPE, SIGCHLD}) sigaddset(&usual, number);
        for (const int number : start.not_ignored) sigaddset(&usual, number);
        posix_spawnattr_init(&attributes_);
        posix_spawnattr_setsigmask(&attributes_, &none);
        posix_spawnattr_setsigdefault(&attributes_, &usual);
        const int flags =
            POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | (start.apart ? POSIX_SPAWN_SETSID : 0);
        posix_spawnattr_setflags(&attributes_, static_cast<short>(flags));
    }
    SpawnFacts(const SpawnFacts&) = delete;
    SpawnFacts& operator=(const SpawnFacts&) = delete;
    ~SpawnFacts() {
        posix_spawn_file_actions_destroy(&files_);
        posix_spawnattr_destroy(&attributes_);
    }
    /// 0, or errno.
    int spawn(pid_t& id, const char* file, char* const* words, char* const* variables) const {
        return ::posix_spawn(&id, file, &files_, &attributes_, words, variables);
    }

  private:
    void add_stream(int number, const Pipes& pipes) {
        const auto i = static_cast<std::size_t>(number);
        if (pipes.streams[i] == Stream::pipe)
            posix_spawn_file_actions_adddup2(&files_, pipes.childs[i].get(), number);
        if (pipes.streams[i] == Stream::nothing)
            posix_spawn_file_actions_addopen(&files_, number, "/dev/null",
                                             number == 0 ? O_RDONLY : O_WRONLY, 0);
    }
    posix_spawn_file_actions_t files_{};
    posix_spawnattr_t attributes_{};
};

/// What to start, checked and made ready: nothing is left to allocate.
struct Prepared {
    std::string file;
    std::vector<char*> words, variables;  ///< the latter may be empty: this process's own
    [[nodiscard]] char* const* environment() const {
        return variables.empty() ? environ : variables.data();
    }
};

Result<Prepared> prepare(const ChildStart& start) {
    if (start.words.empty() || start.words.front().empty())
        return usage_error("no program to start");
    const std::string& name = start.words.front();
    if (has_zero_byte(start.words) || (start.variables && has_zero_byte(*start.variables)))
        return usage_error("cannot be started: a word has a zero byte", printable(name));
    Prepared ready{find_program(name), pointers(start.words), {}};
    if (ready.file.empty()) return not_started(name, ENOENT);
    if (start.variables) ready.variables = pointers(*start.variables);
    return ready;
}

/// In the copy.
[[noreturn]] void become_copy(bool apart, Pipes& pipes, const std::function<int(CopyEnds&)>& body) {
    if (apart) ::setsid();
    ::signal(SIGPIPE, SIG_DFL);
    for (FileDescriptor& end : pipes.ours) end.reset();
    CopyEnds ends{std::move(pipes.childs[0]), std::move(pipes.childs[1])};
    int status = 1;
    try {
        status = body(ends);
    } catch (...) {  // out of memory, most likely
    }
    ::_exit(status);
}

}  // namespace

Child::Child(pid_t id) : id_(id), handle_(static_cast<int>(::syscall(SYS_pidfd_open, id, 0))) {}

Child::Child(Child&& other) noexcept { *this = std::move(other); }

Child& Child::operator=(Child&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(handle_, other.handle_);
    std::swap(in, other.in);
    std::swap(out, other.out);
    std::swap(err, other.err);
    return *this;
}

Child::~Child() {
    if (!is_running()) return;
    signal(SIGKILL);
    wait();
}

std::optional<ChildEnd> Child::take_end(int flags) {
    if (!is_running()) return ChildEnd{};
    int status = 0;
    pid_t ended = 0;
    do ended = ::waitpid(id_, &status, flags);
    while (ended < 0 && errno == EINTR);
    if (ended == 0) return std::nullopt;
    release();
    if (ended < 0) return ChildEnd{};
    if (WIFEXITED(status)) return ChildEnd{.status = WEXITSTATUS(status)};
    return ChildEnd{.status = 128 + WTERMSIG(status), .by_signal = true};
}

ChildEnd Child::wait() { return *take_end(0); }

std::optional<ChildEnd> Child::wait(Clock::time_point until) {
    for (;;) {
        if (const auto end = take_end(WNOHANG)) return end;
        if (Clock::now() >= until) return std::nullopt;
        if (handle_.get() >= 0)
            wait_for_input(handle_.get(), until);
        else
            ::poll(nullptr, 0, milliseconds_until(std::min(until, Clock::now() + nap)));
    }
}

void Child::signal(int number) {
    if (!is_running()) return;
    // By its handle: the number may be another process's by now, where somebody else waited.
    if (handle_.get() < 0 ||
        (::syscall(SYS_pidfd_send_signal, handle_.get(), number, nullptr, 0) != 0 &&
         errno == ENOSYS))
        ::kill(id_, number);
}

void Child::release() {
    id_ = -1;
    handle_.reset();
}

Result<Child> start_child(const ChildStart& start) {
    const auto ready = prepare(start);
    if (!ready) return ready.error();
    Pipes pipes({start.in, start.out, start.err});
    if (!pipes.open()) return not_started(ready->file, errno);
    const SpawnFacts facts(start, pipes);
    pid_t id = -1;
    if (const int why =
            facts.spawn(id, ready->file.c_str(), ready->words.data(), ready->environment());
        why != 0)
        return not_started(ready->file, why);
    Child child(id);
    pipes.hand_on(child);
    return child;
}

/// Its parent is a copy that ends at once, and says by its status why it could not be started.
Status start_detached(std::vector<std::string> words,
                      std::optional<std::vector<std::string>> variables) {
    const ChildStart start{.words = std::move(words),
                           .variables = std::move(variables),
                           .err = Stream::nothing,
                           .apart = true};
    const auto ready = prepare(start);
    if (!ready) return ready.error();
    const Pipes pipes({start.in, start.out, start.err});
    const SpawnFacts facts(start, pipes);
    auto parent = start_copy({}, [&](CopyEnds&) {
        pid_t id = -1;
        return facts.spawn(id, ready->file.c_str(), ready->words.data(), ready->environment());
    });
    if (!parent) return Error{parent.error().code, parent.error().text, ready->file};
    const ChildEnd end = parent->wait();
    if (end.by_signal) return environment_error("cannot be started: no process more", ready->file);
    if (end.status > 0) return not_started(ready->file, end.status);
    return Done{};
}

Result<Child> start_copy(const CopyStart& start, const std::function<int(CopyEnds&)>& body) {
    Pipes pipes({start.in, start.out, Stream::inherited});
    if (!pipes.open()) return not_started("a copy of this process", errno);
    const pid_t id = ::fork();
    if (id < 0) return not_started("a copy of this process", errno);
    if (id == 0) become_copy(start.apart, pipes, body);
    Child child(id);
    pipes.hand_on(child);
    return child;
}

Result<ChildOutput> run_child(const ChildStart& start, Child::Clock::time_point until,
                              std::size_t most_bytes) {
    auto child = start_child(start);
    if (!child) return child.error();
    child->in.reset();
    std::array<Incoming, 2> texts{Incoming{std::move(child->out), {}},
                                  Incoming{std::move(child->err), {}}};
    if (const char* problem = read_to_end(texts, until, most_bytes))
        return environment_error(problem, start.words.front());
    const auto end = child->wait(until);
    if (!end) return environment_error("does not end in time", start.words.front());
    return ChildOutput{*end, std::move(texts[0].text), std::move(texts[1].text)};
}

std::string find_program(const std::string& name) {
    if (name.find('/') != std::string::npos) return name;
    const char* path = std::getenv("PATH");
    const std::string all =
        std::string(path != nullptr ? path : "/usr/bin:/bin") + ":/usr/sbin:/sbin";
    for (const std::string_view directory : split(all, ':')) {
        const std::string file = fmt::format("{}/{}", directory, name);
        struct stat facts {};
        if (directory.starts_with('/') && ::access(file.c_str(), X_OK) == 0 &&
            ::stat(file.c_str(), &facts) == 0 && S_ISREG(facts.st_mode))
            return file;
    }
    return {};
}

}  // namespace arena
