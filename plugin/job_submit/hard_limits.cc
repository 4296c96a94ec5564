// SPDX-License-Identifier: GPL-2.0-or-later
// See hard_limits.h. As acct_policy_validate() and _valid_job_part() count; copying, no rules.
#include "plugin/job_submit/hard_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "base/text.h"
#include "plugin/common/slurm_text.h"

namespace arena {
namespace {

/// For as long as its records are read.
class AssocLocks {
  public:
    AssocLocks() {
        locks_.assoc = locks_.qos = locks_.tres = locks_.user = READ_LOCK;
        assoc_mgr_lock(&locks_);
    }
    ~AssocLocks() { assoc_mgr_unlock(&locks_); }
    AssocLocks(const AssocLocks&) = delete;
    AssocLocks& operator=(const AssocLocks&) = delete;

  private:
    assoc_mgr_lock_t locks_{};
};

/// -1: GPUs are not counted (AccountingStorageTRES).
int gpu_position() {
    std::string type = "gres", name = "gpu";
    slurmdb_tres_rec_t wanted{};
    wanted.type = type.data();
    wanted.name = name.data();
    return assoc_mgr_find_tres_pos(&wanted, true);
}

class Reader {
  public:
    explicit Reader(int gpus) : gpus_(static_cast<std::size_t>(gpus)) {}

    void add_qos(const slurmdb_qos_rec_t* qos) {
        if (qos == nullptr) return;
        const std::string owner = "QOS " + printable(text_of(qos->name), 40);
        add(HardLimit::Of::gpus, qos->max_tres_pj_ctld, owner, "MaxTRESPerJob");
        add(HardLimit::Of::gpus, qos->max_tres_pu_ctld, owner, "MaxTRESPerUser");
        add(HardLimit::Of::gpus, qos->max_tres_pa_ctld, owner, "MaxTRESPerAccount");
        add(HardLimit::Of::gpus, qos->grp_tres_ctld, owner, "GrpTRES");
        add(HardLimit::Of::gpus_per_node, qos->max_tres_pn_ctld, owner, "MaxTRESPerNode");
    }

    void add_associations(const slurmdb_assoc_rec_t* assoc) {
        for (; assoc != nullptr;
             assoc = assoc->usage != nullptr ? assoc->usage->parent_assoc_ptr : nullptr) {
            const std::string owner = "account " + printable(text_of(assoc->acct), 40);
            add(HardLimit::Of::gpus, assoc->max_tres_ctld, owner, "MaxTRESPerJob");
            add(HardLimit::Of::gpus, assoc->grp_tres_ctld, owner, "GrpTRES");
            add(HardLimit::Of::gpus_per_node, assoc->max_tres_pn_ctld, owner, "MaxTRESPerNode");
        }
    }

    std::vector<HardLimit> take() { return std::move(limits_); }

  private:
    void add(HardLimit::Of of, const std::uint64_t* counts, const std::string& owner,
             std::string_view name) {
        if (counts == nullptr) return;
        const std::uint64_t most = counts[gpus_];
        if (most == INFINITE64 || most == NO_VAL64 || most > limits_end) return;
        limits_.push_back({of, static_cast<std::int64_t>(most),
                           fmt::format("{} ({} gres/gpu={}, DenyOnLimit)", owner, name, most)});
    }

    static constexpr std::uint64_t limits_end = std::uint64_t{1} << 40;
    std::size_t gpus_;
    std::vector<HardLimit> limits_;
};

slurmdb_assoc_rec_t* association_of(const job_desc_msg_t* job, const part_record_t* part) {
    slurmdb_assoc_rec_t wanted{}, *found = nullptr;
    wanted.acct = job->account;
    wanted.partition = part->name;
    wanted.uid = job->user_id;
    (void)assoc_mgr_fill_in_assoc(acct_db_conn, &wanted, accounting_enforce, &found, true);
    return found;
}

/// Its own, else its association's, else the cluster's default; nullptr where Slurm knows none.
slurmdb_qos_rec_t* qos_of(const job_desc_msg_t* job, const slurmdb_assoc_rec_t* assoc) {
    std::string normal = "normal";
    slurmdb_qos_rec_t wanted{}, *found = nullptr;
    const auto is_id = [](std::uint32_t id) { return id != 0 && id != NO_VAL && id != INFINITE; };
    if (job->qos != nullptr)
        wanted.name = job->qos;
    else if (assoc != nullptr && is_id(assoc->def_qos_id))
        wanted.id = assoc->def_qos_id;
    else
        wanted.name = normal.data();
    (void)assoc_mgr_fill_in_qos(acct_db_conn, &wanted, 0, &found, true);
    return found;
}

bool denies(const slurmdb_qos_rec_t* qos) {
    return qos != nullptr && (qos->flags & QOS_FLAG_DENY_LIMIT) != 0;
}

/// With ALL each partition must take the job, with ANY one.
void add_partitions(const std::vector<const part_record_t*>& parts, const slurmdb_qos_rec_t* qos,
                    std::vector<HardLimit>& limits) {
    const bool lifted = qos != nullptr && (qos->flags & QOS_FLAG_PART_MAX_NODE) != 0;
    if (slurm_conf.enforce_part_limits == PARTITION_ENFORCE_NONE || lifted) return;
    const bool any = slurm_conf.enforce_part_limits == PARTITION_ENFORCE_ANY;
    std::vector<HardLimit> own;
    for (const part_record_t* part : parts)
        if (part->max_nodes != INFINITE && part->max_nodes != NO_VAL)
            own.push_back({HardLimit::Of::nodes, static_cast<std::int64_t>(part->max_nodes),
                           fmt::format("partition {} (MaxNodes, EnforcePartLimits={})",
                                       printable(text_of(part->name), 40), any ? "ANY" : "ALL")});
    if (own.empty() || (any && own.size() < parts.size())) return;
    const auto less = [](const HardLimit& a, const HardLimit& b) { return a.most < b.most; };
    limits.push_back(any ? *std::max_element(own.begin(), own.end(), less)
                         : *std::min_element(own.begin(), own.end(), less));
}

}  // namespace

std::vector<HardLimit> hard_limits(const job_desc_msg_t* job,
                                   const std::vector<const part_record_t*>& parts) {
    std::vector<HardLimit> limits;
    if (parts.empty()) return limits;
    const AssocLocks locks;
    const slurmdb_assoc_rec_t* assoc = association_of(job, parts.front());
    const slurmdb_qos_rec_t* qos = qos_of(job, assoc);
    const slurmdb_qos_rec_t* of_part = parts.front()->qos_ptr;
    const int gpus = gpu_position();
    const bool enforced = (accounting_enforce & ACCOUNTING_ENFORCE_LIMITS) != 0 && gpus >= 0;
    if (enforced && (denies(qos) || denies(of_part))) {
        Reader reader(gpus);
        reader.add_qos(qos);
        if (of_part != qos) reader.add_qos(of_part);
        reader.add_associations(assoc);
        limits = reader.take();
    }
    add_partitions(parts, qos, limits);
    return limits;
}

}  // namespace arena
