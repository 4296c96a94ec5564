// SPDX-License-Identifier: GPL-2.0-or-later
// SlurmHost: Host on slurmctld's own data structures and calls. Reading is in host_slurm_read.cc,
// changing jobs in host_slurm_apply.cc, carrier jobs in host_slurm_carrier.cc. Nothing here
// decides.
#pragma once

#include <atomic>
#include <memory>

#include "plugin/sched/host/host.h"

namespace arena {

/// lent_in: the partition for lent nodes, "" = nothing is lent. slice_ms: longest time a lock is
/// meant to be held while many jobs are visited. `stopping` outlives the host: the plug-in is told
/// to stop.
std::unique_ptr<Host> make_slurm_host(std::int64_t slice_ms, const std::string& lent_in,
                                      HostMode mode, const std::atomic<bool>& stopping);

/// Slurm's own backfill, loaded from PluginDir (ours by that name skipped). Its thread runs until
/// unload.
class StockBackfill {
  public:
    StockBackfill() = default;
    ~StockBackfill() { unload(); }
    StockBackfill(const StockBackfill&) = delete;
    StockBackfill& operator=(const StockBackfill&) = delete;
    /// Empty on success, else why not.
    std::string load();
    void reconfig();
    void unload();

  private:
    void* handle_ = nullptr;
};

}  // namespace arena
