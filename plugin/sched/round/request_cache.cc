// SPDX-License-Identifier: GPL-2.0-or-later
// See request_cache.h.
#include "plugin/sched/round/request_cache.h"

#include <utility>

#include "planner/requests/build_request.h"

namespace arena {

EffectiveRequest make_effective_request(const std::string& record, const std::string& comment) {
    EffectiveRequest wanted;
    auto request = parse_record(record);
    if (!request) {
        wanted.problem = "its record is not valid: " + request.error().message();
        return wanted;
    }
    // job_submit/arena checked it; a site that does not load that plug-in has nobody else who does.
    if (auto sound = check_request(*request); !sound) {
        wanted.problem = "its record is not valid: " + sound.error().message();
        return wanted;
    }
    wanted.request = std::move(request).value();
    wanted.fingerprint = fingerprint(wanted.request.model);
    if (auto off = apply_comment(comment, wanted.request); !off)
        wanted.problem = off.error().message();
    else
        wanted.off = *off;
    return wanted;
}

bool RequestCache::knows(JobId job, std::uint64_t record_tag, std::string_view comment) const {
    const auto at = entries_.find(job);
    return at != entries_.end() && at->second.wanted && at->second.tag == record_tag &&
           at->second.comment == comment;
}

SharedRequest RequestCache::make(const RecordText& record, const std::string& comment) {
    SharedRequest& wanted = parsed_[{record.text, comment}];
    if (wanted) return wanted;
    EffectiveRequest made = make_effective_request(*record.text, comment);
    const auto [first, last] = shared_.equal_range(record.tag);
    for (auto at = first; at != last; ++at)
        if (SharedRequest known = at->second.lock(); known && *known == made) return wanted = known;
    wanted = std::make_shared<const EffectiveRequest>(std::move(made));
    shared_.emplace(record.tag, wanted);
    return wanted;
}

const SharedRequest& RequestCache::get(JobId job, const RecordText& record,
                                       const std::string& comment) {
    Entry& entry = entries_[job];
    if (record.text && !(entry.wanted && entry.tag == record.tag && entry.comment == comment))
        entry = {record.tag, comment, make(record, comment)};
    if (!entry.wanted) {  // nothing to parse and nothing known: the next round asks for the text
        static const SharedRequest unread = [] {
            EffectiveRequest wanted;
            wanted.problem = "its record has not been read yet";
            return std::make_shared<const EffectiveRequest>(std::move(wanted));
        }();
        return unread;
    }
    return entry.wanted;
}

const std::optional<Offer>& RequestCache::plan(JobId job, const std::string& offer_json) {
    PlanEntry& entry = plans_[job];
    if (entry.json == offer_json) return entry.offer;
    entry = {offer_json, std::nullopt};
    if (auto offer = parse_offer_json(offer_json)) entry.offer = std::move(offer).value();
    return entry.offer;
}

}  // namespace arena
