// SPDX-License-Identifier: GPL-2.0-or-later
// See loan_book.h. What a round finds and does; how leases begin and end is in loan_leases.cc.
#include "plugin/sched/loans/loan_book.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace arena {
namespace {

/// A controller that has just begun knows of no node.
constexpr double gone_s = 30;

bool contains(const std::vector<std::string>& sorted, const std::string& name) {
    return std::binary_search(sorted.begin(), sorted.end(), name);
}

}  // namespace

LoanBook::LoanBook(Host& host, const Config& config, NodeBook& nodes)
    : host_(host), config_(config), nodes_(nodes), desk_(lending_rules(config)) {}

void LoanBook::take_over(LoanMemory memory) {
    memory_ = std::move(memory);
    state_.is_first = memory_.steady_s <= 0;
}

/// What is lent goes back, and what an administrator broke is cleared, where lending is off, too.
bool LoanBook::is_active() const {
    return config_.loan_enabled || !view_.leases.empty() || !memory_.known.empty() ||
           !hands_.broken.empty() || state_.is_unfinished;
}

void LoanBook::complain(const std::string& about, const std::string& why) {
    if (why.empty())
        complaints_.erase(about);
    else if (std::exchange(complaints_[about], why) != why)
        host_.log_error(fmt::format("{}: {}", about, why));
}

// ---- what is -----------------------------------------------------------------------------------

void LoanBook::read_leases() {
    view_.leases.clear();
    for (const auto& [node, fact] : nodes_.facts("loan")) {
        auto lease = lease_of(fact);
        if (!lease) {
            break_lease(node, "its lease cannot be read: " + lease.error().message());
            view_.leases[node] = {.loan = 0, .state = LeaseState::broken};
            continue;
        }
        memory_.newest = std::max(memory_.newest, lease->loan);
        view_.leases[node] = *lease;
    }
}

void LoanBook::new_round(const ClusterView& view) {
    plan_.nodes.clear();
    plan_.must_end.clear();
    read_leases();
    state_.has_looked = true;
    if (!is_active()) {
        view_.is_read = false;
        plan_.moves.clear();
        return;
    }
    view_.facts = host_.read_loans(places_of(config_));
    view_.is_read = true;
    state_.hurries = false;
    note_cluster(view, view_);
    note_clocks(view);
    notice_hands();
    notice_partition();
    look_at_net();
    for (const std::string& node : nodes_concerned(view_)) {
        const LoanNode is = look(node);
        const auto guard = view_.facts.guards.find(node);
        plan_.nodes.push_back(
            {.node = node,
             .is = is,
             .step = next_step(is),
             .guard = guard == view_.facts.guards.end() ? LoanFacts::Guard() : guard->second});
    }
    plan_.list = nodes_to_list(plan_, view_.facts, hands_);
    plan_moves();
    state_.is_first = false;
}

void LoanBook::note_clocks(const ClusterView& view) {
    const double before_s = std::exchange(memory_.steady_s, view.steady_s);
    if (before_s > 0) count_use(std::max(0.0, memory_.steady_s - before_s));
    std::erase_if(memory_.deadlines, [&](const auto& known) {
        const auto lease = view_.leases.find(known.first);
        return lease == view_.leases.end() || lease->second != known.second.lease;
    });
    for (const auto& [node, lease] : view_.leases) {
        if (lease.state != LeaseState::returning || memory_.deadlines.contains(node)) continue;
        // Of an earlier life, or by hand: nobody knows how long it was, and no half of it is kept.
        const double left = std::max(0.0, static_cast<double>(lease.until_s) - view_.time_s);
        memory_.deadlines[node] = {lease, std::max(left, 2 * ending_s()), memory_.steady_s + left};
    }
}

double LoanBook::left_s(const std::string& node) const {
    const auto at = memory_.deadlines.find(node);
    return at == memory_.deadlines.end() ? 0 : at->second.end_s - memory_.steady_s;
}

void LoanBook::count_use(double seconds) {
    for (const LoanFacts::Job& job : view_.facts.jobs) {
        if (job.inference) continue;
        for (const auto& [node, gpus] : job.nodes)
            if (view_.leases.contains(node))
                memory_.counts.lent_gpu_s[job.account] += seconds * static_cast<double>(gpus);
    }
}

void LoanBook::break_lease(const std::string& node, const std::string& why) {
    if (std::exchange(hands_.broken[node], why) != why)
        host_.log_error(
            fmt::format("node {}: {}; it goes back when no job of training is there", node, why));
}

/// Somebody else's hand in a node's Extra.
void LoanBook::notice_hands() {
    for (const auto& [node, lease] : memory_.known) {
        const auto now = view_.leases.find(node);
        if (now == view_.leases.end())
            break_lease(node,
                        fmt::format("lease {} is gone from its Extra", loan_name(lease.loan)));
        else if (now->second != lease && now->second.state != LeaseState::broken)
            host_.log_info(fmt::format("node {}: its lease was changed by hand to {}", node,
                                       format_lease(now->second)));
    }
    memory_.known = view_.leases;
    std::erase_if(hands_.broken, [&](const auto& entry) {
        const auto lease = view_.leases.find(entry.first);
        return lease == view_.leases.end() ? !view_.facts.guards.contains(entry.first)
                                           : lease->second.state != LeaseState::broken;
    });
}

void LoanBook::notice_partition() {
    const ListChange change = note_list(view_.facts, hands_);
    for (const std::string& node : change.gone) {
        const auto lease = view_.leases.find(node);
        if (lease == view_.leases.end()) continue;
        break_lease(node, "an administrator took it out of partition " + config_.loan_partition);
        lease->second.state = LeaseState::broken;
        put(node, lease->second);
    }
    if (!change.come.empty())
        host_.log_info(fmt::format("partition {} has {} by an administrator's hand",
                                   config_.loan_partition, join(change.come, ",")));
}

LoanNode LoanBook::look(const std::string& node) {
    LoanNode is = node_as_seen(node, view_);
    note_guard(node, has_own_guard(node, is.lease, view_));
    is.settled = state_.lends && memory_.saved.contains(node);
    is.open = net_.is_open(node);
    note_gone(node, is);
    return is;
}

void LoanBook::note_guard(const std::string& node, bool is_right) {
    if (!is_right)
        memory_.saved.erase(node);
    else if (state_.is_first)
        memory_.saved.insert(node);
}

void LoanBook::note_gone(const std::string& node, LoanNode& is) {
    if (is.up || is.used || is.inference) {
        since_.gone.erase(node);
        return;
    }
    is.gone =
        memory_.steady_s - since_.gone.try_emplace(node, memory_.steady_s).first->second >= gone_s;
}

void LoanBook::look_at_net() {
    // One that has just come home is inference's, though Slurm has not started anybody there yet.
    std::erase_if(since_.home, [&](const auto& entry) {
        return view_.inferences.contains(entry.first) ||
               memory_.steady_s - entry.second > LoanNet::patience_s;
    });
    net_.new_round(view_.facts, places_not_there(view_, since_.home), memory_.steady_s);
    std::erase_if(since_.open, [&](const auto& entry) { return !net_.is_open(entry.first); });
    for (const std::string& node : net_.open()) {
        if (!since_.open.try_emplace(node, memory_.steady_s).second) continue;
        ++memory_.counts.preemptions;
        host_.log_info(
            fmt::format("node {}: {} waits for more than comes back: open to Slurm's preemption",
                        node, partition_of(view_.facts, node)));
    }
}

// ---- what is to be -----------------------------------------------------------------------------

void LoanBook::plan_moves() {
    plan_.moves.clear();
    std::erase_if(since_.overstayed, [&](JobId id) {
        return std::none_of(view_.facts.jobs.begin(), view_.facts.jobs.end(),
                            [&](const LoanFacts::Job& job) { return job.id == id; });
    });
    for (const Planned& planned : plan_.nodes)
        if (planned.is.lease && planned.is.lease->state == LeaseState::returning && planned.is.used)
            move_off(planned);
    for (const Planned& planned : plan_.nodes)
        if (planned.is.open) yield(planned);
}

/// Who is told saves its state before it is ended. Slurm preempts for the first job that waits in a
/// partition, and for the next one when that runs: to all others GraceTime is kept here.
void LoanBook::yield(const Planned& planned) {
    const double open_s = memory_.steady_s - since_.open.at(planned.node);
    for (const LoanFacts::Job& job : view_.facts.jobs) {
        if (!job.preemptable || !job.is_on(planned.node)) continue;
        if (open_s >= view_.facts.grace_s + margin_s) plan_.must_end.insert(job.id);
        plan_.moves[job.id].push_back(planned.node);
    }
}

/// What ending a job takes that does not obey.
double LoanBook::ending_s() const {
    return view_.facts.kill_wait_s + config_.interval_s + margin_s;
}

/// What of a deadline is kept for that. Of a short one half is for saving.
double LoanBook::to_end_s(double deadline_s) const { return std::min(ending_s(), deadline_s / 2); }

/// As long as it can still save its state in time.
bool LoanBook::is_let_run(const Planned& planned, JobId job) {
    const auto& ends = planned.is.lease->ends;
    if (!std::binary_search(ends.begin(), ends.end(), job)) return false;
    const double needed_s =
        to_end_s(memory_.deadlines[planned.node].total_s) + config_.restart_checkpoint_s;
    if (left_s(planned.node) > needed_s) return true;
    if (since_.overstayed.insert(job).second) {
        ++memory_.counts.overstayed;
        host_.log_info(fmt::format(
            "JobId={} has not ended in time on node {}, as its user's word had it: it is told to "
            "leave",
            job, planned.node));
    }
    return false;
}

/// One that is deaf is ended while there is still time for it to end.
void LoanBook::move_off(const Planned& planned) {
    const bool ends = left_s(planned.node) <= to_end_s(memory_.deadlines[planned.node].total_s);
    for (const LoanFacts::Job& job : view_.facts.jobs) {
        if (job.inference || !job.is_on(planned.node) || is_let_run(planned, job.id)) continue;
        if (ends) plan_.must_end.insert(job.id);
        plan_.moves[job.id].push_back(planned.node);
    }
}

/// Nothing is to be avoided: the nodes' guards keep the job off until they are home, and when they
/// are lent again it may have them.
void LoanBook::impose(std::map<JobId, Move>& imposed) {
    std::erase_if(imposed, [](const auto& entry) { return entry.second.gives_back; });
    for (const auto& [job, nodes] : plan_.moves) {
        const std::string& node = nodes.front();
        const std::string when = net_.is_open(node)
                                     ? "at once, for that waits"
                                     : "by " + clock_words(view_.leases.find(node)->second.until_s);
        imposed.insert_or_assign(job,
                                 Move{.why = fmt::format("gives {} back to {} {}", join(nodes, ","),
                                                         partition_of(view_.facts, node), when),
                                      .gives_back = true});
    }
}

// ---- the steps ---------------------------------------------------------------------------------

void LoanBook::carry_out() {
    if (!view_.is_read) return;
    for (Planned& planned : plan_.nodes)
        if (!host_.stopping()) set_guard(planned);
    state_.list_failed = false;
    if (!host_.stopping()) set_list();
    if (host_.stopping()) return;
    for (const Planned& planned : plan_.nodes) keep_lease(planned);
}

void LoanBook::set_guard(Planned& planned) {
    const LoanGuard wanted = planned.step.guard;
    const bool has = wanted == planned.is.guard && memory_.saved.contains(planned.node);
    if (wanted == LoanGuard::none || has) return;
    const std::string lease =
        planned.is.lease ? loan_name(planned.is.lease->loan) : planned.guard.lease;
    const std::string why = host_.guard(planned.node, {wanted, lease});
    complain(fmt::format("node {} not reserved", planned.node), why);
    planned.failed = !why.empty();
    if (!planned.failed) memory_.saved.insert(planned.node);
    state_.hurries = state_.hurries || !planned.failed;
}

void LoanBook::set_list() {
    if (!view_.facts.has_partition || plan_.list == view_.facts.listed) {
        if (view_.facts.has_partition) hands_.listed = plan_.list;
        return;
    }
    const std::string why = host_.set_partition(config_.loan_partition, plan_.list);
    complain(fmt::format("partition {} not filled", config_.loan_partition), why);
    state_.list_failed = !why.empty();
    if (state_.list_failed) return;
    hands_.listed = plan_.list;
    state_.hurries = true;
}

/// A node that is still listed, or not guarded, keeps the lease that it has.
void LoanBook::keep_lease(const Planned& planned) {
    if (planned.step.lease == planned.is.lease || planned.failed) return;
    state_.hurries = true;
    if (planned.step.lease) {
        host_.log_info(fmt::format("node {} of {} is lent: lease {}", planned.node,
                                   partition_of(view_.facts, planned.node),
                                   loan_name(planned.step.lease->loan)));
        return put(planned.node, *planned.step.lease);
    }
    if (state_.list_failed && contains(view_.facts.listed, planned.node)) return;
    drop(planned.node);
}

void LoanBook::finish(const std::vector<std::string>& written) {
    if (!view_.is_read) return;
    state_.is_unfinished = state_.list_failed;
    for (const Planned& planned : plan_.nodes) {
        if (host_.stopping()) return;
        const bool drops = planned.is.lease && !planned.step.lease;
        if (drops && std::find(written.begin(), written.end(), planned.node) == written.end())
            continue;
        if (drops) went_home(planned);
        const bool has = view_.facts.guards.contains(planned.node);
        const bool listed = state_.list_failed && contains(view_.facts.listed, planned.node);
        // While it is open, Slurm is asked to look again: GraceTime may be over.
        const bool opens = has || planned.is.open;
        if (!opens || planned.step.guard != LoanGuard::none || listed) continue;
        const std::string why = host_.guard(planned.node, {});
        complain(fmt::format("node {} not given back", planned.node), why);
        state_.is_unfinished = state_.is_unfinished || !why.empty();
    }
}

void LoanBook::went_home(const Planned& planned) {
    const std::string lease = loan_name(planned.is.lease->loan);
    since_.home[planned.node] = memory_.steady_s;
    if (planned.is.lease->state != LeaseState::returning) {
        ++memory_.counts.lost;
        host_.log_error(
            fmt::format("node {} is down or drained: its lease {} ends", planned.node, lease));
        return;
    }
    const double left = left_s(planned.node);
    ++memory_.counts.returns;
    memory_.counts.late += left < 0 ? 1 : 0;
    memory_.deadlines.erase(planned.node);
    host_.log_info(fmt::format("node {} is back with {}: lease {}, {:.0f} s {} its deadline",
                               planned.node, partition_of(view_.facts, planned.node), lease,
                               std::abs(left), left < 0 ? "after" : "before"));
}

void LoanBook::put(const std::string& node, const Lease& lease) {
    if (nodes_.put(node, fact_of(lease))) memory_.known[node] = lease;
}

void LoanBook::drop(const std::string& node) {
    nodes_.drop(node, "loan");
    memory_.known.erase(node);
}

}  // namespace arena
