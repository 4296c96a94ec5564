// SPDX-License-Identifier: GPL-2.0-or-later
// How the ranks of a run talk without NCCL: MPI processes (mpi_transport.cc) or threads of this
// process (thread_transport.cc). MPI is a module that is opened when a launcher started several
// ranks: arena-profiler runs on nodes that have no Open MPI, too.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/comm_table.h"

namespace arena {

/// One rank's view. Every call but lost() and give_up() is collective and throws
/// std::runtime_error with a sentence; destroying it is collective, too.
class Transport {
  public:
    Transport() = default;
    Transport(const Transport&) = delete;
    Transport& operator=(const Transport&) = delete;
    virtual ~Transport() = default;

    [[nodiscard]] virtual std::string name() const = 0;
    [[nodiscard]] virtual int rank() const = 0;
    /// For each rank the lowest one of its node.
    virtual std::vector<int> first_on_node() = 0;
    /// Rank 0's bytes, the same number everywhere.
    virtual void broadcast(std::span<char>) = 0;
    /// Each number becomes the largest of all ranks.
    virtual void largest(std::span<double>) = 0;
    /// Ranks with the same number are a group from now on; -1 = in none.
    virtual void regroup(int group) = 0;
    /// The ranks of the group wait for one another.
    virtual void meet() = 0;
    /// Within the group. `floats` are those of the larger buffer, as CommTime::bytes.
    virtual void collective(CommOp, const float* send, float* receive, std::size_t floats) = 0;
    /// Why the run cannot go on; "" while it can.
    [[nodiscard]] virtual std::string lost() const { return {}; }
    /// This rank has failed, and with it all: MPI ends every process with this code at once,
    /// threads throw where they wait for one another.
    virtual void give_up(int code) = 0;
};

}  // namespace arena

extern "C" {
/// What the module gives; compared, as text, before it is used: it is of the program's build.
extern const char* const arena_profiler_module_version;
std::unique_ptr<arena::Transport> arena_profiler_open_mpi();
}

namespace arena {
inline constexpr const char* comm_module_version = "arena-profiler " ARENA_VERSION;
}
