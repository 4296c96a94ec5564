// SPDX-License-Identifier: GPL-2.0-or-later
// Ranks on the host's side: what they agree on before NCCL has met, and collectives between host
// memories, which `arena-profiler comm --device cpu` measures: times of an emulated type's network,
// never a GPU's.
#pragma once

#include <vector>

#include "profiler/comm/comm.h"
#include "profiler/comm/transport.h"
#include "profiler/comm/watch.h"

namespace arena {

class HostRanks final : public Communicator {
  public:
    /// No step takes longer than timeout_s.
    HostRanks(Transport& transport, const CommWorld& world, double timeout_s);
    [[nodiscard]] const CommWorld& world() const { return world_; }
    /// Memory for collectives of this size, before the first.
    Status reserve(std::int64_t max_bytes);
    /// See ShareBytes.
    Result<std::string> share(const std::function<std::string()>& make, std::size_t size);
    [[nodiscard]] std::string lost() const { return transport_.lost(); }
    void give_up(int code) { transport_.give_up(code); }

    [[nodiscard]] Device device() const override;
    void regroup(std::int64_t group) override;
    double execute(CommOp, std::int64_t bytes, std::int64_t times) override;
    std::vector<double> largest(const std::vector<double>&) override;

  private:
    Transport& transport_;
    CommWorld world_;
    Watch watch_;
    std::vector<float> send_, receive_;
};

}  // namespace arena
