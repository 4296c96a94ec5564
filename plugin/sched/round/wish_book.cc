// SPDX-License-Identifier: GPL-2.0-or-later
// See wish_book.h.
#include "plugin/sched/round/wish_book.h"

#include <utility>

#include "planner/requests/build_request.h"

namespace arena {

Wish make_wish(const std::string& record, const std::string& comment) {
    Wish wish;
    auto request = parse_record(record);
    if (!request) {
        wish.problem = "its record is not valid: " + request.error().message();
        return wish;
    }
    // job_submit/arena checked it; a site that does not load that plug-in has nobody else who does.
    if (auto sound = check_request(*request); !sound) {
        wish.problem = "its record is not valid: " + sound.error().message();
        return wish;
    }
    wish.request = std::move(request).value();
    wish.fingerprint = fingerprint(wish.request.model);
    if (auto off = apply_comment(comment, wish.request); !off)
        wish.problem = off.error().message();
    else
        wish.off = *off;
    return wish;
}

bool WishBook::knows(JobId job, std::uint64_t record_tag, std::string_view comment) const {
    const auto at = entries_.find(job);
    return at != entries_.end() && at->second.wish && at->second.tag == record_tag &&
           at->second.comment == comment;
}

SharedWish WishBook::make(const RecordText& record, const std::string& comment) {
    SharedWish& wish = parsed_[{record.text, comment}];
    if (wish) return wish;
    Wish made = make_wish(*record.text, comment);
    const auto [first, last] = shared_.equal_range(record.tag);
    for (auto at = first; at != last; ++at)
        if (SharedWish known = at->second.lock(); known && *known == made) return wish = known;
    wish = std::make_shared<const Wish>(std::move(made));
    shared_.emplace(record.tag, wish);
    return wish;
}

const SharedWish& WishBook::get(JobId job, const RecordText& record, const std::string& comment) {
    Entry& entry = entries_[job];
    if (record.text && !(entry.wish && entry.tag == record.tag && entry.comment == comment))
        entry = {record.tag, comment, make(record, comment)};
    if (!entry.wish) {  // nothing to parse and nothing known: the next round asks for the text
        static const SharedWish unread = [] {
            Wish wish;
            wish.problem = "its record has not been read yet";
            return std::make_shared<const Wish>(std::move(wish));
        }();
        return unread;
    }
    return entry.wish;
}

const std::optional<Offer>& WishBook::plan(JobId job, const std::string& offer_json) {
    PlanEntry& entry = plans_[job];
    if (entry.json == offer_json) return entry.offer;
    entry = {offer_json, std::nullopt};
    if (auto offer = parse_offer_json(offer_json)) entry.offer = std::move(offer).value();
    return entry.offer;
}

}  // namespace arena
