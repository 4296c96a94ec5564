// SPDX-License-Identifier: GPL-2.0-or-later
// Who the ranks are and how they find each other: tasks of one srun step, or processes that we fork
// ourselves on one node. The first bytes (NCCL's unique id) pass through a file in a directory that
// all ranks see: no PMI library to agree on, and every cluster that runs jobs over several nodes
// has such a directory.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "profiler/comm/comm.h"

namespace arena {

/// The value of an environment variable; null where it is not set.
using Lookup = std::function<const char*(const char*)>;

/// The tasks of the srun step that this process is one of; nothing outside a step of several tasks.
/// Refuses tasks that are not the same number on each node, or not in blocks.
Result<std::optional<CommWorld>> world_of_step(const Lookup&);
/// Tells one step, and one try of a requeued job, from all others: a file name. Empty outside.
std::string name_of_step(const Lookup&);

/// A file of one writer that others wait for. It must be ours, regular, of mode 0600 and no link:
/// what another user puts there is refused.
class MeetingPlace {
  public:
    MeetingPlace(std::string path, bool is_first, double timeout_s)
        : path_(std::move(path)), is_first_(is_first), timeout_s_(timeout_s) {}
    /// The first writes what `make` gives, the others wait for it.
    Result<std::string> share(const std::function<std::string()>& make, std::size_t size) const;
    /// When all have met; does nothing for others than the first.
    void leave() const;

  private:
    Result<std::string> wait(std::size_t size) const;
    std::string path_;
    bool is_first_;
    double timeout_s_;
};

/// Calls body(rank) in `count` child processes, waits for all, and passes SIGINT and SIGTERM on to
/// them. When one fails, the others are told to stop. The largest exit code; 3 for a child that a
/// signal killed. No other thread may run in the caller.
int run_in_children(std::int64_t count, const std::function<int(std::int64_t)>& body);
/// A number that `count` finds in a child process, so that the caller never touches the device.
Result<std::int64_t> count_in_child(const std::function<Result<std::int64_t>()>& count);

}  // namespace arena
