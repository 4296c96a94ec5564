// SPDX-License-Identifier: GPL-2.0-or-later
// The last stage of a round: see stages.h. Why each job waits, as squeue and `arena explain` show
// it. No call of Slurm.
#include <algorithm>

#include "plugin/sched/round/launch.h"
#include "plugin/sched/round/shares.h"
#include "plugin/sched/round/stages.h"

namespace arena {
namespace {

/// As Slurm's main loop says it.
constexpr const char* down_words =
    "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions";
constexpr const char* held_words = "arena:v1 state=held";

/// With why an update of the job was refused, if one was, before what it waits for.
std::string in_our_words(JobId job, const std::string& reason, const Books& books) {
    return "Arena: " + books.with_refused_update(job, reason);
}

void keep(const Note& note, JobStatus& status) {
    status.state = note.state;
    if (note.reason) status.reason = *note.reason;
    if (!note.keeps_chosen) status.chosen = note.chosen;
}

std::optional<Host::Reason> reason_of(const Note& note, const Books& books) {
    const JobId id = note.job->id;
    const bool refused = books.refused_updates.contains(id);
    switch (note.shown) {
        case Note::Shown::no:
            return std::nullopt;
        case Note::Shown::released:
            if (note.job->facts.held ||
                (!refused && !note.job->reason.starts_with("Arena: update refused")))
                return std::nullopt;
            return Host::Reason{
                .job = id, .text = refused ? in_our_words(id, {}, books) : "", .released = true};
        case Note::Shown::slurms:
            if (!refused)
                return Host::Reason{.job = id, .text = *note.reason, .admin_comment = held_words};
            [[fallthrough]];
        case Note::Shown::ours:
            return Host::Reason{.job = id,
                                .text = in_our_words(id, *note.reason, books),
                                .admin_comment = held_words};
    }
    return std::nullopt;
}

}  // namespace

std::vector<Host::Reason> explain(const Round& round, const Decision& decision,
                                  const Journal& journal, Books& books) {
    std::vector<Host::Reason> reasons;
    for (const auto* notes : {&round.notes, &journal.notes})
        for (const Note& note : *notes) {
            keep(note, books.statuses[note.job->id]);
            if (auto reason = reason_of(note, books)) reasons.push_back(*std::move(reason));
        }
    NodePools pools(round.view);
    // Jobs with the same offers say the same of them.
    std::map<std::pair<const std::vector<Offer>*, std::string_view>, std::string> comments;
    for (const auto& [id, why] : decision.waiting) {
        const auto at = round.planned.find(id);
        if (at == round.planned.end() || at->second.role != Role::waits) continue;
        const PlannedJob& planned = at->second;
        // Whether the nodes that would do, were they up, are why none of its offers has any.
        const bool down =
            !can_hold_any(pools.of(planned.view->node_set, true, {}), *planned.offers);
        const Note note = waits_for(*planned.view, down ? down_words : why,
                                    down ? Note::Shown::slurms : Note::Shown::ours);
        JobStatus& status = books.statuses[id];
        keep(note, status);
        std::string& comment = comments[{planned.offers.get(), status.unmeasured}];
        if (comment.empty()) comment = system_comment(*planned.offers, status.unmeasured);
        reasons.push_back(*reason_of(note, books));
        reasons.back().system_comment = comment;
    }
    return reasons;
}

}  // namespace arena
