// SPDX-License-Identifier: GPL-2.0-or-later
// Wish: what a job asks for now, that is its record as changed by `Comment=arena:...`.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "core/request.h"
#include "core/result.h"
#include "core/values.h"

namespace arena {

struct Wish {
    Request request;
    bool off = false;          ///< arena:off: leave the job to Slurm
    bool overridden = false;   ///< the comment changed plan or range
    std::string problem;       ///< why it cannot be planned; shown as the pending reason
    std::string fingerprint;   ///< of request.model; "" with a problem
};

/// "arena:plan=pp2,dp2,tp1", "arena:gpus=4-8", "arena:off"; several joined by ';'. A comment that does
/// not begin with "arena:" changes nothing. Errors say what is accepted.
Status apply_comment(std::string_view comment, Wish& wish);

/// Parses what jobs carry once; keyed by job, renewed when record, comment or plan changed.
class WishBook {
  public:
    const Wish& get(JobId job, const std::string& record, const std::string& comment);
    /// ARENA_PLAN as the offer it is; nothing for "" or what is none. Good until the job's next call.
    const std::optional<Offer>& plan(JobId job, const std::string& offer_json);
    /// Forgets jobs that are not in `alive`.
    template <typename Alive>
    void keep(Alive alive) {
        std::erase_if(entries_, [&](const auto& entry) { return !alive(entry.first); });
        std::erase_if(plans_, [&](const auto& entry) { return !alive(entry.first); });
    }

  private:
    struct Entry {
        std::string record, comment;
        Wish wish;
    };
    struct PlanEntry {
        std::string json;
        std::optional<Offer> offer;
    };
    std::map<JobId, Entry> entries_;
    std::map<JobId, PlanEntry> plans_;
};

}  // namespace arena
