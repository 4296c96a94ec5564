// SPDX-License-Identifier: GPL-2.0-or-later
// How the ranks of a run talk: one interface, two implementations. Threads of one process (tests,
// and runs on one machine without MPI) and MPI. Collectives are called by all ranks of the group in
// the same order with the same sizes. Both are deterministic: the same ranks give the same sums.
#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>

namespace arena::train {

/// What operations of a group with a limit throw: it is of no use from then on.
class GivenUp final : public std::exception {
  public:
    [[nodiscard]] const char* what() const noexcept override {
        return "not all ranks came in time";
    }
};

class Comm {
  public:
    Comm() = default;
    Comm(const Comm&) = delete;
    Comm& operator=(const Comm&) = delete;
    virtual ~Comm() = default;

    [[nodiscard]] virtual int rank() const = 0;  ///< in [0, size)
    [[nodiscard]] virtual int size() const = 0;
    /// Among those ranks that run on this machine. Collective.
    [[nodiscard]] virtual int node_rank() = 0;

    /// Every rank's values become the element-wise sum, bit-equal on all ranks.
    virtual void all_reduce_sum(std::span<float>) = 0;
    virtual void all_reduce_sum(std::span<double>) = 0;
    virtual void all_reduce_max(std::span<float>) = 0;
    /// whole.size() = size() * part.size(); this rank's part of the sum of all wholes. `part` may
    /// lie in `whole`, at its own place; the rest of `whole` is kept.
    virtual void reduce_scatter(std::span<const float> whole, std::span<float> part) = 0;
    /// The parts one after the other, in order of ranks. `part` may lie in `whole`, at its own
    /// place.
    virtual void all_gather(std::span<const float> part, std::span<float> whole) = 0;
    /// At most 2^31 - 1 bytes.
    virtual void broadcast(std::span<std::byte>, int root) = 0;

    /// Never waits for the receiver: `values` may be changed at once. Messages between two ranks
    /// arrive in the order in which they were sent, and are as long as what receive() asks for.
    virtual void send(std::span<const float> values, int to) = 0;
    virtual void receive(std::span<float> values, int from) = 0;
    /// Returns when what was sent needs no more memory here.
    virtual void flush() = 0;

    /// A group of the ranks that gave the same color, in the order of their keys, of equal ones in
    /// that of their ranks here. Collective.
    virtual std::unique_ptr<Comm> split(int color, int key) = 0;
    std::unique_ptr<Comm> split(int color) { return split(color, rank()); }

    /// Between two ranks that both call it, while nothing else is under way between them: `to` gets
    /// the values of `from`. Returns when they have arrived, for `from` when it needs them no more;
    /// no copy is kept. At most 2^31 - 1 values.
    virtual void transfer(std::span<float> values, int from, int to) = 0;
    /// Waits for all ranks of the group, asleep: who computes meanwhile has the machine. Waiting
    /// for up to excused_s is no stall.
    virtual void meet(double excused_s) = 0;

    /// For a group of one's own (split()): its meet(), transfer() and all_reduce_sum() of doubles
    /// throw GivenUp where they have not ended so many seconds from now; nothing: they wait for
    /// ever. What is left behind disturbs no other group, but the group itself and memory given to
    /// transfer() have to live on.
    virtual void limit(std::optional<double> seconds) = 0;
    [[nodiscard]] virtual bool has_limit() const = 0;
    /// It has a limit, which has passed.
    [[nodiscard]] virtual bool is_over() const = 0;

    /// Said from time to time by a rank that does something else: it is not stalled.
    virtual void still_here() {}
};

/// Runs body on `ranks` threads of this process, each with its own Comm; returns when all are done.
/// ranks in 1..256. An exception of one rank ends the others where they wait for it, and is thrown
/// here.
void run_threads(int ranks, const std::function<void(Comm&)>& body);

/// Whether this build has MPI.
bool have_mpi();
/// Whether an MPI launcher (mpirun, srun --mpi=pmix) started this process.
bool started_by_mpi();
/// What run_mpi() does when a rank fails. All of it ends all ranks with 3, after the sentence.
struct MpiFaults {
    std::function<void(int rank, const std::exception&)> failed;  ///< an exception of body
    int stall_limit_s = 0;                  ///< 0 = wait for other ranks for ever
    std::function<void(int rank)> stalled;  ///< no operation has ended for so long
};
/// MPI_Init, body with MPI_COMM_WORLD, MPI_Finalize. Needs have_mpi().
void run_mpi(const std::function<void(Comm&)>& body, const MpiFaults&);

}  // namespace arena::train
