// SPDX-License-Identifier: GPL-2.0-or-later
// What a profile store knows of GPU types: see plan_store.h.
#include "cli/planning/plan_store.h"

#include <algorithm>

#include "cli/common/cli.h"

namespace arena::cli {

Result<PlanStore> PlanStore::open(const std::string& file) {
    PlanStore opened;
    opened.file_ = file;
    auto store = ProfileStore::open_read_only(file);
    if (!store) return store.error();
    opened.store_ = std::move(*store);
    auto runs = opened.store_->runs();
    if (!runs) return runs.error();
    opened.runs_ = std::move(*runs);
    auto observed = opened.store_->reports().all();
    if (!observed) return observed.error();
    warn(observed->bad);
    opened.observed_ = std::move(observed->runs);
    return opened;
}

std::string PlanStore::gres_type_of(const GpuPool& pool) const {
    std::string gres_type;
    for (const ProfileRun& run : runs_) {
        if (run.gpu_type == pool.gpu_type) return run.gpu_type;
        if (gres_type.empty() && run.hardware == pool.hardware.name) gres_type = run.gpu_type;
    }
    return gres_type;
}

bool PlanStore::knows(const GpuPool& pool) const {
    return !gres_type_of(pool).empty() ||
           std::any_of(observed_.begin(), observed_.end(), [&](const ObservedRun& run) {
               return run.observation.grid.gpu_type == pool.gpu_type;
           });
}

Result<ProfileTable> PlanStore::table(const GpuPool& pool) const {
    const std::string gres_type = gres_type_of(pool);
    if (gres_type.empty()) return ProfileTable();
    return store_->table(gres_type);
}

Result<std::vector<CommTime>> PlanStore::links(const std::string& gpu_type) const {
    return store_->comm().times(gpu_type);
}

std::vector<Observation> PlanStore::observations(const Workload& workload,
                                                 const GpuPool& pool) const {
    const std::string other_name = gres_type_of(pool);
    std::vector<Observation> observations;
    for (const ObservedRun& run : observed_) {
        const std::string& type = run.observation.grid.gpu_type;
        if (run.model_fingerprint != workload.model_fingerprint ||
            run.global_batch != workload.global_batch || run.launcher != workload.launcher ||
            (type != pool.gpu_type && type != other_name) || !counts(run))
            continue;
        observations.push_back(run.observation);
        observations.back().grid.gpu_type = pool.gpu_type;
    }
    return observations;
}

}  // namespace arena::cli
