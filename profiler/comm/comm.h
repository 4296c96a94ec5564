// SPDX-License-Identifier: GPL-2.0-or-later
// What the measuring of collectives knows of a communication library: one rank's view of the world.
// NCCL stands behind it in arena-profiler-cuda; nothing here knows which. One rank per GPU: a
// process, or a thread of one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/comm_table.h"
#include "core/profile.h"

namespace arena {

/// Ranks lie in blocks: rank = node * ranks_per_node + local.
struct CommWorld {
    std::int64_t rank = 0, nodes = 1, ranks_per_node = 1;
    [[nodiscard]] std::int64_t ranks() const { return nodes * ranks_per_node; }
    [[nodiscard]] std::int64_t node() const { return rank / ranks_per_node; }
    [[nodiscard]] std::int64_t local() const { return rank % ranks_per_node; }
    bool operator==(const CommWorld&) const = default;
};

/// Every call throws std::runtime_error with a sentence when the library or the device fails, or
/// when the others do not answer within the limit that it was made with.
class Communicator {
  public:
    virtual ~Communicator() = default;
    [[nodiscard]] virtual Device device() const = 0;
    /// Collective over the world: ranks with the same number are a group from now on; -1 = takes no
    /// part in any.
    virtual void regroup(std::int64_t group) = 0;
    /// Collective over the group, never called without one: device seconds of `times` of them, back
    /// to back, as this rank's stream saw them. bytes as CommTime::bytes, rounded by
    /// usable_bytes(); at most the largest size that it was made for.
    virtual double execute(CommOp, std::int64_t bytes, std::int64_t times) = 0;
    /// Collective over the world: for each number the largest of all ranks. No rank returns before
    /// all have called. No NaN.
    virtual std::vector<double> largest(const std::vector<double>&) = 0;
};

/// Gives the bytes that rank 0 made (called there only) to all ranks; the same number of bytes
/// everywhere.
using ShareBytes =
    std::function<Result<std::string>(const std::function<std::string()>& make, std::size_t size)>;

struct CommSetup {
    CommWorld world;
    std::int64_t max_bytes = 1;  ///< buffers hold this much
    double timeout_s = 60;       ///< no single step takes longer
    ShareBytes share;
    /// Why the run cannot go on; "" while it can. Asked while a step waits.
    std::function<std::string()> lost = [] { return std::string(); };
};

/// How many devices a process here can use.
Result<std::int64_t> count_comm_devices();
Result<std::unique_ptr<Communicator>> make_communicator(const CommSetup&);

}  // namespace arena
