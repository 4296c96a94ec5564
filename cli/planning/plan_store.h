// SPDX-License-Identifier: GPL-2.0-or-later
// What a profile store knows of the GPU types that `arena plan` is asked about.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/observation.h"
#include "planner/plans/pool.h"
#include "store/store.h"

namespace arena::cli {

/// A store opened for reading. It is asked by GRES type: the pool's own name, else the name of the
/// newest run on the same hardware.
class PlanStore {
  public:
    PlanStore() = default;  ///< of nothing
    /// Reports in it that cannot be are left out, and standard error says so.
    static Result<PlanStore> open(const std::string& file);
    [[nodiscard]] bool is_open() const { return store_ != nullptr; }
    [[nodiscard]] const std::string& file() const { return file_; }
    /// Whether it has a run or a report of the pool.
    [[nodiscard]] bool knows(const GpuPool&) const;
    /// Empty where it has no entry.
    [[nodiscard]] Result<ProfileTable> table(const GpuPool&) const;
    [[nodiscard]] Result<std::vector<CommTime>> links(const std::string& gpu_type) const;

    struct Workload {
        std::string model_fingerprint;
        std::int64_t global_batch = 0;
        std::string launcher;
    };
    /// What jobs of the workload reported from the pool, under the pool's name.
    [[nodiscard]] std::vector<Observation> observations(const Workload&, const GpuPool&) const;

  private:
    [[nodiscard]] std::string gres_type_of(const GpuPool&) const;  ///< "" = no run
    std::string file_;
    std::unique_ptr<ProfileStore> store_;
    std::vector<ProfileRun> runs_;  ///< newest first
    std::vector<ObservedRun> observed_;
};

}  // namespace arena::cli
