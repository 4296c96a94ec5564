// SPDX-License-Identifier: GPL-2.0-or-later
// The last stage of a round: see stages.h. Why each job waits, as squeue and `arena explain` show
// it. No call of Slurm.
#include <algorithm>
#include <functional>

#include "base/hash.h"
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

bool is_control(char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7f;
}

/// Changes when there is something new to say of the job; numbers in its reason that go up and down
/// are nothing new.
std::size_t sum_of(const JobStatus& status) {
    Fnv1a sum;
    sum.bytes(status.state).mix(0);
    for (const char c : status.reason)
        if (c < '0' || c > '9') sum.mix(static_cast<unsigned char>(c));
    if (!status.chosen) return sum.value() | 1;
    sum.mix(0).bytes(status.chosen->gpu_type);
    for (const std::int64_t n : {status.chosen->nodes, status.chosen->gpus_per_node,
                                 status.chosen->stages, status.chosen->segment})
        sum.mix(static_cast<std::uint64_t>(n));
    return sum.value() | 1;
}

/// What was chosen for the job; null where its offers do not have it any more.
const Offer* chosen_offer(const JobStatus& status) {
    if (!status.chosen || !status.offers) return nullptr;
    const auto at = std::find_if(status.offers->begin(), status.offers->end(),
                                 [&](const Offer& offer) { return status.chosen->is_of(offer); });
    return at == status.offers->end() ? nullptr : &*at;
}

/// "4xa40 pp2,dp2,tp1,mb1x4: its fastest shape"
std::string words_for_history(JobId job, const JobStatus& status, const Books& books) {
    std::string text;
    if (status.chosen) {
        text = short_form(*status.chosen);
        if (const Offer* offer = chosen_offer(status)) text += " " + short_form(offer->plan);
    }
    const std::string reason = books.with_refused_update(job, status.reason);
    if (!text.empty() && !reason.empty()) text += ": ";
    text += reason;
    std::replace_if(text.begin(), text.end(), is_control, ' ');
    return text;
}

/// Of a job that ran before this scheduler did: why it was started stands in the history alone.
void recall_reason(JobId job, JobStatus& status, const JobHistory& history) {
    if (status.told != 0 || status.state != "running" || !status.reason.empty()) return;
    const JobPast* past = history.find(job);
    if (past == nullptr || past->over || past->uid != status.uid || !status.chosen) return;
    const JobEvent* last = past->last_told();
    if (last == nullptr || last->state != status.state) return;
    const std::size_t shape_ends = last->text.find(": ");
    if (shape_ends == std::string::npos) return;
    if (!last->text.starts_with(short_form(*status.chosen) + " ")) return;
    status.reason = last->text.substr(shape_ends + 2);
    status.told = sum_of(status);
}

}  // namespace

void note_history(Books& books, double now_s) {
    for (auto& [job, status] : books.statuses) {
        if (status.state.empty()) continue;
        recall_reason(job, status, books.history);
        const std::size_t sum = sum_of(status);
        if (sum == status.told) continue;
        const Offer* offer = status.state == "running" ? chosen_offer(status) : nullptr;
        if (books.history.note({.at_s = now_s,
                                .job = job,
                                .uid = status.uid,
                                .state = status.state,
                                .text = words_for_history(job, status, books),
                                .estimate_s = offer ? offer->estimate.iteration_s : 0}))
            status.told = sum;
    }
}

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
