// SPDX-License-Identifier: GPL-2.0-or-later
// See loan_book.h. What a round finds and does; how leases begin and end is in loan_leases.cc.
#include "plugin/sched/loans/loan_book.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

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

void LoanBook::take_over(Memory memory) {
    known_ = std::move(memory.known);
    deadlines_ = std::move(memory.deadlines);
    saved_ = std::move(memory.saved);
    counts_ = std::move(memory.counts);
    newest_ = memory.newest;
    steady_s_ = memory.steady_s;
    first_ = memory.steady_s <= 0;
}

/// What is lent goes back, and what an administrator broke is cleared, where lending is off, too.
bool LoanBook::is_active() const {
    return config_.loan_enabled || !leases_.empty() || !known_.empty() || !broken_.empty() ||
           unfinished_;
}

void LoanBook::complain(const std::string& about, const std::string& why) {
    if (why.empty())
        complaints_.erase(about);
    else if (std::exchange(complaints_[about], why) != why)
        host_.log_error(fmt::format("{}: {}", about, why));
}

// ---- what is -----------------------------------------------------------------------------------

void LoanBook::read_leases() {
    leases_.clear();
    for (const auto& [node, fact] : nodes_.facts("loan")) {
        auto lease = lease_of(fact);
        if (!lease) {
            break_lease(node, "its lease cannot be read: " + lease.error().message());
            leases_[node] = {.loan = 0, .state = LeaseState::broken};
            continue;
        }
        newest_ = std::max(newest_, lease->loan);
        leases_[node] = *lease;
    }
}

void LoanBook::new_round(const ClusterView& view) {
    planned_.clear();
    must_end_.clear();
    read_leases();
    has_looked_ = true;
    if (!is_active()) {
        read_ = false;
        moves_.clear();
        return;
    }
    read_facts();
    read_ = true;
    hurries_ = false;
    note_clocks(view);
    notice_hands();
    notice_partition();
    look_at_net();
    for (const std::string& node : nodes_concerned()) {
        const LoanNode is = look(node);
        const auto guard = facts_.guards.find(node);
        planned_.push_back(
            {.node = node,
             .is = is,
             .step = next_step(is),
             .guard = guard == facts_.guards.end() ? LoanFacts::Guard() : guard->second});
    }
    fill_list();
    plan_moves();
    first_ = false;
}

void LoanBook::read_facts() {
    facts_ = host_.read_loans({config_.loan_inference_partitions, config_.loan_partition});
}

void LoanBook::note_clocks(const ClusterView& view) {
    const double before_s = std::exchange(steady_s_, view.steady_s);
    time_s_ = view.snapshot.time_s;
    index_.clear();
    states_ = view.snapshot.nodes;
    for (NodeIndex i = 0; i < states_.size(); ++i) index_.emplace(states_[i].name, i);
    used_.clear();
    inferences_.clear();
    others_.clear();
    for (const LoanFacts::Job& job : facts_.jobs)
        for (const auto& [node, gpus] : job.nodes) {
            (job.inference ? inferences_ : used_).insert(node);
            if (!job.inference && !job.preemptable) others_.insert(node);
        }
    if (before_s > 0) count_use(std::max(0.0, steady_s_ - before_s));
    std::erase_if(deadlines_, [&](const auto& known) {
        const auto lease = leases_.find(known.first);
        return lease == leases_.end() || lease->second != known.second.lease;
    });
    for (const auto& [node, lease] : leases_) {
        if (lease.state != LeaseState::returning || deadlines_.contains(node)) continue;
        // Of an earlier life, or by hand: nobody knows how long it was, and no half of it is kept.
        const double left = std::max(0.0, static_cast<double>(lease.until_s) - time_s_);
        deadlines_[node] = {lease, std::max(left, 2 * ending_s()), steady_s_ + left};
    }
}

double LoanBook::left_s(const std::string& node) const {
    const auto at = deadlines_.find(node);
    return at == deadlines_.end() ? 0 : at->second.end_s - steady_s_;
}

void LoanBook::count_use(double seconds) {
    for (const LoanFacts::Job& job : facts_.jobs) {
        if (job.inference) continue;
        for (const auto& [node, gpus] : job.nodes)
            if (leases_.contains(node))
                counts_.lent_gpu_s[job.account] += seconds * static_cast<double>(gpus);
    }
}

void LoanBook::break_lease(const std::string& node, const std::string& why) {
    if (std::exchange(broken_[node], why) != why)
        host_.log_error(
            fmt::format("node {}: {}; it goes back when no job of training is there", node, why));
}

/// Somebody else's hand in a node's Extra.
void LoanBook::notice_hands() {
    for (const auto& [node, lease] : known_) {
        const auto now = leases_.find(node);
        if (now == leases_.end())
            break_lease(node,
                        fmt::format("lease {} is gone from its Extra", loan_name(lease.loan)));
        else if (now->second != lease && now->second.state != LeaseState::broken)
            host_.log_info(fmt::format("node {}: its lease was changed by hand to {}", node,
                                       format_lease(now->second)));
    }
    known_ = leases_;
    std::erase_if(broken_, [&](const auto& entry) {
        const auto lease = leases_.find(entry.first);
        return lease == leases_.end() ? !facts_.guards.contains(entry.first)
                                      : lease->second.state != LeaseState::broken;
    });
}

/// Somebody else's hand in the list of the partition. Slurm itself goes back to that of slurm.conf
/// when it reads it again.
void LoanBook::notice_partition() {
    if (std::exchange(configured_, facts_.configured) != facts_.configured) {
        taken_out_.clear();
        put_in_.clear();
        listed_.reset();
    }
    if (!listed_ || *listed_ == facts_.listed) return;
    const auto before = *std::exchange(listed_, facts_.listed);
    std::vector<std::string> gone, come;
    std::set_difference(before.begin(), before.end(), facts_.listed.begin(), facts_.listed.end(),
                        std::back_inserter(gone));
    std::set_difference(facts_.listed.begin(), facts_.listed.end(), before.begin(), before.end(),
                        std::back_inserter(come));
    for (const std::string& node : gone) {
        taken_out_.insert(node);
        put_in_.erase(node);
        const auto lease = leases_.find(node);
        if (lease == leases_.end()) continue;
        break_lease(node, "an administrator took it out of partition " + config_.loan_partition);
        lease->second.state = LeaseState::broken;
        put(node, lease->second);
    }
    for (const std::string& node : come) {
        put_in_.insert(node);
        taken_out_.erase(node);
    }
    if (!come.empty())
        host_.log_info(fmt::format("partition {} has {} by an administrator's hand",
                                   config_.loan_partition, join(come, ",")));
}

std::set<std::string> LoanBook::nodes_concerned() const {
    std::set<std::string> nodes;
    for (const auto& [node, lease] : leases_) nodes.insert(node);
    for (const auto& [node, guard] : facts_.guards) nodes.insert(node);
    std::erase_if(nodes, [&](const std::string& node) { return !index_.contains(node); });
    return nodes;
}

LoanNode LoanBook::look(const std::string& node) {
    LoanNode is;
    if (const auto lease = leases_.find(node); lease != leases_.end()) is.lease = lease->second;
    is.used = used_.contains(node);
    is.lents = is.used && !others_.contains(node);
    is.inference = inferences_.contains(node);
    const auto guard = facts_.guards.find(node);
    const bool is_ours =
        guard != facts_.guards.end() &&
        (!is.lease || is.lease->loan == 0 || guard->second.lease == loan_name(is.lease->loan));
    if (is_ours) is.guard = guard->second.kind;
    note_guard(node, is_ours);
    is.settled = lends_ && saved_.contains(node);
    is.up = states_[index_.find(node)->second].up;
    is.open = net_.is_open(node);
    note_gone(node, is);
    return is;
}

void LoanBook::note_guard(const std::string& node, bool is_right) {
    if (!is_right)
        saved_.erase(node);
    else if (first_)
        saved_.insert(node);
}

void LoanBook::note_gone(const std::string& node, LoanNode& is) {
    if (is.up || is.used || is.inference) {
        gone_since_.erase(node);
        return;
    }
    is.gone = steady_s_ - gone_since_.try_emplace(node, steady_s_).first->second >= gone_s;
}

void LoanBook::look_at_net() {
    // One that has just come home is inference's, though Slurm has not started anybody there yet.
    std::erase_if(home_since_, [&](const auto& entry) {
        return inferences_.contains(entry.first) || steady_s_ - entry.second > LoanNet::patience_s;
    });
    LoanNet::Places places;
    const auto add = [&](const std::string& node, bool comes_back) {
        const auto at = index_.find(node);
        if (at == index_.end() || inferences_.contains(node)) return;
        const NodeState& state = states_[at->second];
        places[node] = {state.gpu_type, state.total_gpus, comes_back};
    };
    for (const auto& [node, lease] : leases_)
        if (lease.state == LeaseState::lent || lease.state == LeaseState::returning)
            add(node, lease.state == LeaseState::returning);
    for (const auto& [node, since_s] : home_since_) add(node, true);
    net_.new_round(facts_, places, steady_s_);
    std::erase_if(open_since_, [&](const auto& entry) { return !net_.is_open(entry.first); });
    for (const std::string& node : net_.open()) {
        if (!open_since_.try_emplace(node, steady_s_).second) continue;
        ++counts_.preemptions;
        host_.log_info(
            fmt::format("node {}: {} waits for more than comes back: open to Slurm's preemption",
                        node, partition_of(node)));
    }
}

// ---- what is to be -----------------------------------------------------------------------------

/// As long as there are jobs that may have lent nodes it has theirs: Slurm takes no update of a job
/// whose first partition is without nodes, and that is where such a job last ran.
void LoanBook::fill_list() {
    std::set<std::string> nodes;
    for (const Planned& planned : planned_)
        if (planned.step.listed) nodes.insert(planned.node);
    std::set<std::string> inferences;
    for (const auto& [partition, names] : facts_.inference)
        inferences.insert(names.begin(), names.end());
    for (const std::string& node : facts_.training)
        if (!inferences.contains(node)) nodes.insert(node);
    nodes.insert(put_in_.begin(), put_in_.end());
    for (const std::string& node : taken_out_) nodes.erase(node);
    list_.assign(nodes.begin(), nodes.end());
}

void LoanBook::plan_moves() {
    moves_.clear();
    std::erase_if(overstayed_, [&](JobId id) {
        return std::none_of(facts_.jobs.begin(), facts_.jobs.end(),
                            [&](const LoanFacts::Job& job) { return job.id == id; });
    });
    for (const Planned& planned : planned_)
        if (planned.is.lease && planned.is.lease->state == LeaseState::returning && planned.is.used)
            move_off(planned);
    for (const Planned& planned : planned_)
        if (planned.is.open) yield(planned);
}

/// Who is told saves its state before it is ended. Slurm preempts for the first job that waits in a
/// partition, and for the next one when that runs: to all others GraceTime is kept here.
void LoanBook::yield(const Planned& planned) {
    const double open_s = steady_s_ - open_since_.at(planned.node);
    for (const LoanFacts::Job& job : facts_.jobs) {
        if (!job.preemptable || !job.is_on(planned.node)) continue;
        if (open_s >= facts_.grace_s + margin_s) must_end_.insert(job.id);
        moves_[job.id].push_back(planned.node);
    }
}

/// What ending a job takes that does not obey.
double LoanBook::ending_s() const { return facts_.kill_wait_s + config_.interval_s + margin_s; }

/// What of a deadline is kept for that. Of a short one half is for saving.
double LoanBook::to_end_s(double deadline_s) const { return std::min(ending_s(), deadline_s / 2); }

/// As long as it can still save its state in time.
bool LoanBook::is_let_run(const Planned& planned, JobId job) {
    const auto& ends = planned.is.lease->ends;
    if (!std::binary_search(ends.begin(), ends.end(), job)) return false;
    const double needed_s =
        to_end_s(deadlines_[planned.node].total_s) + config_.restart_checkpoint_s;
    if (left_s(planned.node) > needed_s) return true;
    if (overstayed_.insert(job).second) {
        ++counts_.overstayed;
        host_.log_info(fmt::format(
            "JobId={} has not ended in time on node {}, as its user's word had it: it is told to "
            "leave",
            job, planned.node));
    }
    return false;
}

/// One that is deaf is ended while there is still time for it to end.
void LoanBook::move_off(const Planned& planned) {
    const bool ends = left_s(planned.node) <= to_end_s(deadlines_[planned.node].total_s);
    for (const LoanFacts::Job& job : facts_.jobs) {
        if (job.inference || !job.is_on(planned.node) || is_let_run(planned, job.id)) continue;
        if (ends) must_end_.insert(job.id);
        moves_[job.id].push_back(planned.node);
    }
}

/// Nothing is to be avoided: the nodes' guards keep the job off until they are home, and when they
/// are lent again it may have them.
void LoanBook::impose(std::map<JobId, Move>& imposed) {
    std::erase_if(imposed, [](const auto& entry) { return entry.second.gives_back; });
    for (const auto& [job, nodes] : moves_) {
        const std::string& node = nodes.front();
        const std::string when = net_.is_open(node)
                                     ? "at once, for that waits"
                                     : "by " + clock_words(leases_.find(node)->second.until_s);
        imposed.insert_or_assign(job,
                                 Move{.why = fmt::format("gives {} back to {} {}", join(nodes, ","),
                                                         partition_of(node), when),
                                      .gives_back = true});
    }
}

// ---- the steps ---------------------------------------------------------------------------------

void LoanBook::carry_out() {
    if (!read_) return;
    for (Planned& planned : planned_)
        if (!host_.stopping()) set_guard(planned);
    list_failed_ = false;
    if (!host_.stopping()) set_list();
    if (host_.stopping()) return;
    for (const Planned& planned : planned_) keep_lease(planned);
}

void LoanBook::set_guard(Planned& planned) {
    const LoanGuard wanted = planned.step.guard;
    const bool has = wanted == planned.is.guard && saved_.contains(planned.node);
    if (wanted == LoanGuard::none || has) return;
    const std::string lease =
        planned.is.lease ? loan_name(planned.is.lease->loan) : planned.guard.lease;
    const std::string why = host_.guard(planned.node, {wanted, lease});
    complain(fmt::format("node {} not reserved", planned.node), why);
    planned.failed = !why.empty();
    if (!planned.failed) saved_.insert(planned.node);
    hurries_ = hurries_ || !planned.failed;
}

void LoanBook::set_list() {
    if (!facts_.has_partition || list_ == facts_.listed) {
        if (facts_.has_partition) listed_ = list_;
        return;
    }
    const std::string why = host_.set_partition(config_.loan_partition, list_);
    complain(fmt::format("partition {} not filled", config_.loan_partition), why);
    list_failed_ = !why.empty();
    if (list_failed_) return;
    listed_ = list_;
    hurries_ = true;
}

/// A node that is still listed, or not guarded, keeps the lease that it has.
void LoanBook::keep_lease(const Planned& planned) {
    if (planned.step.lease == planned.is.lease || planned.failed) return;
    hurries_ = true;
    if (planned.step.lease) {
        host_.log_info(fmt::format("node {} of {} is lent: lease {}", planned.node,
                                   partition_of(planned.node),
                                   loan_name(planned.step.lease->loan)));
        return put(planned.node, *planned.step.lease);
    }
    if (list_failed_ && contains(facts_.listed, planned.node)) return;
    drop(planned.node);
}

void LoanBook::finish(const std::vector<std::string>& written) {
    if (!read_) return;
    unfinished_ = list_failed_;
    for (const Planned& planned : planned_) {
        if (host_.stopping()) return;
        const bool drops = planned.is.lease && !planned.step.lease;
        if (drops && std::find(written.begin(), written.end(), planned.node) == written.end())
            continue;
        if (drops) went_home(planned);
        const bool has = facts_.guards.contains(planned.node);
        const bool listed = list_failed_ && contains(facts_.listed, planned.node);
        // While it is open, Slurm is asked to look again: GraceTime may be over.
        const bool opens = has || planned.is.open;
        if (!opens || planned.step.guard != LoanGuard::none || listed) continue;
        const std::string why = host_.guard(planned.node, {});
        complain(fmt::format("node {} not given back", planned.node), why);
        unfinished_ = unfinished_ || !why.empty();
    }
}

void LoanBook::went_home(const Planned& planned) {
    const std::string lease = loan_name(planned.is.lease->loan);
    home_since_[planned.node] = steady_s_;
    if (planned.is.lease->state != LeaseState::returning) {
        ++counts_.lost;
        host_.log_error(
            fmt::format("node {} is down or drained: its lease {} ends", planned.node, lease));
        return;
    }
    const double left = left_s(planned.node);
    ++counts_.returns;
    counts_.late += left < 0 ? 1 : 0;
    deadlines_.erase(planned.node);
    host_.log_info(fmt::format("node {} is back with {}: lease {}, {:.0f} s {} its deadline",
                               planned.node, partition_of(planned.node), lease, std::abs(left),
                               left < 0 ? "after" : "before"));
}

void LoanBook::put(const std::string& node, const Lease& lease) {
    if (nodes_.put(node, fact_of(lease))) known_[node] = lease;
}

void LoanBook::drop(const std::string& node) {
    nodes_.drop(node, "loan");
    known_.erase(node);
}

}  // namespace arena
