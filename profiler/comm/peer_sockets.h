// SPDX-License-Identifier: GPL-2.0-or-later
// TCP connections between the ranks of a run: each rank says where it listens in a file beside the
// meeting place, and tells a secret of rank 0's when it connects. For what a communication library
// does not tell (that a rank is gone), and for collectives between hosts without one.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/file_descriptor.h"
#include "base/result.h"
#include "profiler/comm/comm.h"

namespace arena {

/// Where the files of a run's ranks lie: a path that all ranks see, "" = nowhere.
struct PeerPlace {
    std::string path;
    double timeout_s = 60;
};

/// What a rank's file says: where it listens, and the run's secret (rank 0's file; zeros in
/// others').
struct PeerAddress {
    char host[256] = "";
    std::uint32_t port = 0;
    char secret[16] = "";
};

class PeerSockets {
  public:
    enum class Shape {
        star,  ///< rank 0 and each other
        mesh,  ///< all with all
    };
    /// Collective. Rank 0's listening address and the secret are `path`, rank N's `path`.N; each
    /// goes when its owner has met all. Refuses what others than the run's user wrote; who calls
    /// without the secret, or says nothing, keeps no rank waiting. IPv6 and IPv4.
    static Result<std::unique_ptr<PeerSockets>> join(const CommWorld&, const PeerPlace&, Shape);
    /// The connection with that rank; -1 = none.
    [[nodiscard]] int with(std::int64_t rank) const;

  private:
    std::vector<FileDescriptor> sockets_;
};

/// Watches over a run's ranks: knows within a moment when one ended without leave().
class Lifeline {
  public:
    static Result<std::unique_ptr<Lifeline>> join(const CommWorld&, const PeerPlace&);
    virtual ~Lifeline() = default;
    /// Why this run cannot go on, as "rank 3 is gone"; "" while it can.
    [[nodiscard]] virtual std::string lost() const = 0;
    /// This rank ends as it should.
    virtual void leave() = 0;
};

}  // namespace arena
