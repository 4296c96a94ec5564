// SPDX-License-Identifier: GPL-2.0-or-later
// RequestCache: what jobs carry, parsed once. A queue of thousands of jobs with large models must
// not be kept twice: equal requests are one value, and the text of a record stays with Slurm alone.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "plugin/sched/host/host.h"
#include "request/request.h"

namespace arena {

/// What a job asks for now: its record, which job_submit/arena keeps up with `Comment=arena:...`,
/// with the present Comment applied to it where that plug-in did not.
struct EffectiveRequest {
    Request request;
    bool off = false;         ///< arena:off: leave the job to Slurm
    std::string problem;      ///< why it cannot be planned; shown as the pending reason
    std::string fingerprint;  ///< of request.model; "" with a problem
    bool operator==(const EffectiveRequest&) const = default;
};

/// What a record says, as the comment changes it.
EffectiveRequest make_effective_request(const std::string& record, const std::string& comment);

using SharedRequest = std::shared_ptr<const EffectiveRequest>;

class RequestCache {
  public:
    /// Whether get() needs no text for the job's record of this tag beside this comment.
    [[nodiscard]] bool knows(JobId job, std::uint64_t record_tag, std::string_view comment) const;
    /// Keyed by job, renewed when record or comment changed.
    const SharedRequest& get(JobId job, const RecordText& record, const std::string& comment);
    /// ARENA_PLAN as the offer it is; nothing for "" or what is none. Good until the job's next
    /// call.
    const std::optional<Offer>& plan(JobId job, const std::string& offer_json);
    /// Forgets jobs (entries of a map by job) that are gone. At the end of a round.
    template <typename Gone>
    void forget(Gone gone) {
        std::erase_if(entries_, gone);
        std::erase_if(plans_, gone);
        std::erase_if(shared_, [](const auto& entry) { return entry.second.expired(); });
        parsed_.clear();
    }
    /// Different requests that are kept.
    [[nodiscard]] std::size_t size() const { return shared_.size(); }

  private:
    struct Entry {
        std::uint64_t tag = 0;
        std::string comment;
        SharedRequest wanted;
    };
    struct PlanEntry {
        std::string json;
        std::optional<Offer> offer;
    };
    SharedRequest make(const RecordText& record, const std::string& comment);

    std::map<JobId, Entry> entries_;
    std::map<JobId, PlanEntry> plans_;
    /// By record tag. Nobody knows whether two texts of one tag are equal; their requests are
    /// compared.
    std::unordered_multimap<std::uint64_t, std::weak_ptr<const EffectiveRequest>> shared_;
    /// Of this round: jobs whose text is one value have it parsed once.
    std::map<std::pair<std::shared_ptr<const std::string>, std::string>, SharedRequest> parsed_;
};

}  // namespace arena
