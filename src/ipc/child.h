// SPDX-License-Identifier: GPL-2.0-or-later
// The one place that starts other processes: a program beside this one (start_child), with its
// output (run_child), one that outlives this process (start_detached), or a copy of this process
// (start_copy). Safe in a threaded program: memory is made ready before, and between the new
// process and its program only posix_spawn(3) acts. No shell is ever asked. What no caller needs is
// left out: another user, another directory, a signal at the parent's death.
//
// A started program has no signal blocked, and SIGPIPE ends it. Of this program's descriptors it
// has the three standard ones alone.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/file_descriptor.h"
#include "base/result.h"

namespace arena {

/// What a standard stream of a child is.
enum class Stream {
    inherited,  ///< this process's own
    nothing,    ///< /dev/null
    pipe,       ///< whose other end the Child has
};

struct ChildStart {
    /// The program and its arguments. A name without a slash is looked up (find_program).
    std::vector<std::string> words;
    /// NAME=value; none: this process's own.
    std::optional<std::vector<std::string>> variables = std::nullopt;
    Stream in = Stream::nothing, out = Stream::nothing, err = Stream::inherited;
    /// A session and process group of its own: no terminal, and no signal that is meant for ours.
    bool apart = false;
    /// Signals that this program ignores for itself and the child is not to. (What is ignored stays
    /// so through exec, as nohup(1) wants it.)
    std::vector<int> not_ignored = {};
};

struct ChildEnd {
    /// Exit status; 128 + N: signal N ended it; -1: not known, for SIGCHLD is ignored here or
    /// somebody else has waited for it.
    int status = -1;
    bool by_signal = false;
};

/// A started process. One that has not ended when its Child goes is killed and waited for.
class Child {
  public:
    using Clock = std::chrono::steady_clock;

    Child() = default;
    /// Of start_child() and start_copy().
    explicit Child(pid_t id);
    Child(Child&& other) noexcept;
    Child& operator=(Child&& other) noexcept;
    ~Child();

    [[nodiscard]] bool is_running() const { return id_ > 0; }  ///< its end was not taken yet
    [[nodiscard]] pid_t id() const { return id_; }
    /// Readable once it has ended, for poll(2); -1 where there is none.
    [[nodiscard]] int ended() const { return handle_.get(); }
    /// Its end, if it comes before `until`. Takes it: is_running() is false afterwards.
    std::optional<ChildEnd> wait(Clock::time_point until);
    ChildEnd wait();
    /// Nothing happens where it has ended.
    void signal(int number);
    /// Nobody here waits for it any more. (It stays a zombie, if it ends before this process.)
    void release();

    FileDescriptor in, out, err;  ///< this process's ends of its pipes

  private:
    std::optional<ChildEnd> take_end(int flags);
    pid_t id_ = -1;
    FileDescriptor handle_;  ///< pidfd_open(2); none before Linux 5.3
};

/// Returns when the program runs, or says why it cannot.
Result<Child> start_child(const ChildStart&);

/// As start_child(), in a session of its own, without any stream, and without a parent: nobody here
/// waits for it, and it keeps nothing of this process. (A container that a resource manager made
/// keeps all of them.)
Status start_detached(std::vector<std::string> words,
                      std::optional<std::vector<std::string>> variables = std::nullopt);

/// A copy of this process, which runs `body` and ends with what it returns (1 where it throws), by
/// _exit(2): no destructor, no buffer of stdio. Streams that are no pipe are inherited; `apart` as
/// above; descriptors stay. For programs with one thread: of more the copy has this one alone, and
/// what others had locked stays locked in it.
struct CopyStart {
    Stream in = Stream::inherited, out = Stream::inherited;
    bool apart = false;
};
/// The copy's ends of its pipes.
struct CopyEnds {
    FileDescriptor in, out;
};
Result<Child> start_copy(const CopyStart&, const std::function<int(CopyEnds&)>& body);

struct ChildOutput {
    ChildEnd end;
    std::string out, err;  ///< of streams that are pipes
};
/// Starts it, and reads its pipes to their ends. A child that is not done by `until` is killed, and
/// an error, as one that says more than `most_bytes` on a pipe.
Result<ChildOutput> run_child(const ChildStart&, Child::Clock::time_point until,
                              std::size_t most_bytes);

/// What to start: a name with a slash as it is, else the first program of that name in the absolute
/// directories of PATH, in /usr/sbin and in /sbin; "" where there is none.
std::string find_program(const std::string& name);

}  // namespace arena
