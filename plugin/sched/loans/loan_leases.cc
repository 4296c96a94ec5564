// SPDX-License-Identifier: GPL-2.0-or-later
// See loan_book.h: how leases begin and end: by those who say `arena loan`, by their time, by
// inference's demand; and what is told of them.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/count_text.h"
#include "base/text.h"
#include "plugin/sched/loans/loan_book.h"
#include "policy/loans/reclaim_moves.h"

namespace arena {
namespace {

/// Jobs in a sentence.
constexpr std::size_t most_named = 8;

using NodesByName = std::map<std::string, NodeIndex>;

/// One that no round plans: it is in the way of whoever wants its nodes all the same.
void add_unplanned(const LoanFacts::Job& job, const NodesByName& index, Snapshot& snapshot) {
    JobState state;
    state.id = job.id;
    state.phase = JobPhase::running;
    Offer& offer = state.current.emplace();
    for (const auto& [name, gpus] : job.nodes)
        if (const auto at = index.find(name); at != index.end()) {
            state.nodes.push_back(at->second);
            offer.grid.gpu_type = snapshot.nodes[at->second].gpu_type;
            offer.grid.gpus_per_node = std::max(offer.grid.gpus_per_node, gpus);
        }
    std::sort(state.nodes.begin(), state.nodes.end());
    offer.grid.nodes = static_cast<std::int64_t>(state.nodes.size());
    if (!state.nodes.empty()) snapshot.jobs.push_back(std::move(state));
}

/// Whether a job may move now says nothing of whether it can do with fewer nodes; and one that has
/// ended since the last round is nobody's loss.
void take_jobs_of(const LoanFacts& facts, const std::vector<NodeIndex>& lent,
                  const NodesByName& index, Snapshot& snapshot) {
    std::set<JobId> there, known;
    for (const LoanFacts::Job& job : facts.jobs)
        if (!job.pending) there.insert(job.id);
    std::erase_if(snapshot.jobs, [&](const JobState& job) {
        return job.phase == JobPhase::running && !there.contains(job.id);
    });
    for (JobState& job : snapshot.jobs) {
        if (job.phase == JobPhase::running && job.current) known.insert(job.id);
        job.elastic = job.elastic || std::any_of(job.nodes.begin(), job.nodes.end(), [&](auto n) {
                          return std::binary_search(lent.begin(), lent.end(),
                                                    parts_of(snapshot.nodes, n).first);
                      });
    }
    for (const LoanFacts::Job& job : facts.jobs)
        if (!job.pending && !job.inference && !known.contains(job.id))
            add_unplanned(job, index, snapshot);
}

/// Its jobs want more than what is not lent: they wait.
bool is_short(const InferencePool& pool) {
    const auto home = pool.servers - static_cast<std::int64_t>(pool.lent.size());
    return pool.wanted_gpus > static_cast<double>(home * pool.gpus_per_server);
}

/// Some of the lent nodes, and what their going means.
class Choice {
  public:
    Choice(const Snapshot& snapshot, const Offers& offers, const LoanFacts& facts,
           const std::vector<std::string>& lent, const Leases& leases, const EndsInTime& ends)
        : offers_(offers), ends_(ends), snapshot_(snapshot) {
        NodesByName index;
        for (NodeIndex i = 0; i < snapshot_.nodes.size(); ++i) {
            NodeState& node = snapshot_.nodes[i];
            index.emplace(node.name, i);
            const bool is_lent = std::find(lent.begin(), lent.end(), node.name) != lent.end();
            if (is_lent && !node.same_node) nodes_.push_back(i);
            // One that was asked back since the last round is no job's to stay on.
            const auto lease = leases.find(node.name);
            if (lease != leases.end() && lease->second.state == LeaseState::returning)
                node.returning_s = 1;
        }
        take_jobs_of(facts, nodes_, index, snapshot_);
    }
    /// The fewest jobs preempted.
    std::vector<std::string> best(std::size_t wanted) {
        const ReclaimView view = reclaim_view(snapshot_, offers_, nodes_, wanted, false, ends_);
        std::vector<std::string> names;
        for (const ServerIndex s : choose_servers(view.problem).returned)
            names.push_back(snapshot_.nodes[view.nodes[s]].name);
        return names;
    }
    struct Going {
        std::vector<Action> moves;
        std::vector<JobId> ending;
    };
    [[nodiscard]] Going going(const std::vector<std::string>& names) const {
        std::vector<ServerIndex> returned;
        for (ServerIndex s = 0; s < nodes_.size(); ++s)
            if (std::find(names.begin(), names.end(), snapshot_.nodes[nodes_[s]].name) !=
                names.end())
                returned.push_back(s);
        const ReclaimView view =
            reclaim_view(snapshot_, offers_, nodes_, returned.size(), false, ends_);
        Going going{.moves = reclaim_moves(snapshot_, offers_, view, returned, false),
                    .ending = {}};
        for (std::size_t j = 0; j < view.jobs.size(); ++j)
            if (view.ends[j] && is_on(snapshot_.jobs[view.jobs[j]], returned))
                going.ending.push_back(snapshot_.jobs[view.jobs[j]].id);
        return going;
    }

  private:
    [[nodiscard]] bool is_on(const JobState& job, const std::vector<ServerIndex>& servers) const {
        return std::any_of(servers.begin(), servers.end(), [&](ServerIndex s) {
            return std::find(job.nodes.begin(), job.nodes.end(), nodes_[s]) != job.nodes.end();
        });
    }

    const Offers& offers_;
    EndsInTime ends_;
    Snapshot snapshot_;
    std::vector<NodeIndex> nodes_;  ///< lent, ascending
};

}  // namespace

std::string LoanBook::problem() const {
    if (!config_.loan_enabled) return "loan.enabled is false in arena.yaml";
    if (!state_.lends) return "Arena is off or only observes: nothing is lent";
    if (!view_.is_read) return "the cluster has not been looked at yet: ask again in a few seconds";
    if (!view_.facts.has_partition)
        return fmt::format("slurm.conf has no partition {}: add it, without nodes",
                           config_.loan_partition);
    for (const std::string& partition : config_.loan_inference_partitions)
        if (!view_.facts.inference.contains(partition))
            return fmt::format("slurm.conf has no partition {} of loan.inference_partitions",
                               partition);
    return {};
}

// ---- offers ------------------------------------------------------------------------------------

static bool is_by_demand(const Config& config) { return config.loan_source == "demand"; }

Status LoanBook::check_offer(const std::vector<std::string>& nodes) const {
    if (const std::string why = problem(); !why.empty()) return usage_error(why);
    if (is_by_demand(config_))
        return no_error(
            "nothing is lent by hand while loan.source in arena.yaml is demand: what inference's "
            "own jobs leave free beyond its head-room is lent by itself, and anything else would "
            "be asked back in the same round; to decide by arena loan set source: commands under "
            "loan: and run scontrol reconfigure");
    for (const std::string& node : nodes) {
        if (!view_.index.contains(node))
            return usage_error(fmt::format("no node is called {}", node));
        const bool owned = std::any_of(
            view_.facts.inference.begin(), view_.facts.inference.end(), [&](const auto& partition) {
                return std::binary_search(partition.second.begin(), partition.second.end(), node);
            });
        if (!owned)
            return usage_error(fmt::format("node {} is in none of loan.inference_partitions: {}",
                                           node, join(config_.loan_inference_partitions, ", ")));
        if (const auto lease = memory_.known.find(node); lease != memory_.known.end())
            return usage_error(fmt::format("node {} has a lease already: {}, {}", node,
                                           loan_name(lease->second.loan),
                                           to_string(lease->second.state)));
        if (!nodes_.takes(node))
            return usage_error(fmt::format(
                "node {}: somebody has changed Arena's part of its Extra; scontrol update "
                "NodeName={} Extra= ends that",
                node, node));
        if (hands_.broken.contains(node) || view_.facts.guards.contains(node))
            return usage_error(fmt::format("node {} is not yet free of its last lease", node));
    }
    return Done{};
}

void LoanBook::lend(const std::vector<std::string>& nodes, std::int64_t until) {
    memory_.newest = std::max(memory_.newest, newest_loan(view_.facts));
    for (const std::string& node : nodes) {
        const Lease lease{.loan = ++memory_.newest,
                          .state = LeaseState::offered,
                          .since_s = static_cast<std::int64_t>(view_.time_s),
                          .until_s = until};
        put(node, lease);
        ++memory_.counts.leases;
        host_.log_info(fmt::format("node {} of {} is offered to training: lease {}", node,
                                   partition_of(view_.facts, node), loan_name(lease.loan)));
    }
    state_.hurries = state_.hurries || !nodes.empty();
}

Result<LoanBook::Offered> LoanBook::offer(const OfferWords& words) {
    if (const Status status = check_offer(words.nodes); !status) return status.error();
    if (words.until != 0 && words.until <= static_cast<std::int64_t>(view_.time_s))
        return usage_error(fmt::format("until={} is over already", words.until));
    // It was taken out of the partition by hand before: an offer by name is the later word.
    for (const std::string& node : words.nodes) hands_.taken_out.erase(node);
    lend(words.nodes, words.until);
    Offered offered;
    for (const std::string& node : words.nodes)
        offered.leases.emplace_back(loan_name(memory_.known.at(node).loan), node);
    return offered;
}

// ---- reclaims ----------------------------------------------------------------------------------

/// Who is let run has time to save its state all the same, should it not have ended by then.
EndsInTime LoanBook::ends_within(double deadline_s) const {
    return {
        .within_s = std::max(0.0, deadline_s - to_end_s(deadline_s) - config_.restart_checkpoint_s),
        .restart_s = config_.restart_checkpoint_s + config_.restart_launch_cap_s};
}

void LoanBook::announce(const std::vector<std::string>& nodes, const Snapshot& snapshot,
                        const Offers& offers, const EndsInTime& ends, Returned& returned) {
    auto going = Choice(snapshot, offers, view_.facts, open_leases(memory_), memory_.known, ends)
                     .going(nodes);
    const auto is_foreign = [&](JobId id) {
        return std::any_of(
            view_.facts.jobs.begin(), view_.facts.jobs.end(),
            [&](const LoanFacts::Job& job) { return job.id == id && job.is_foreign; });
    };
    for (const Action& move : going.moves)
        if (move.kind == ActionKind::resize)
            returned.scaled_in.push_back(move.job);
        else if (!is_foreign(move.job))
            returned.preempted.push_back(move.job);
    returned.ending = std::move(going.ending);
    std::sort(returned.ending.begin(), returned.ending.end());
}

std::vector<JobId> LoanBook::ending_on(const std::string& node, const Returned& returned) const {
    std::vector<JobId> jobs;
    for (const LoanFacts::Job& job : view_.facts.jobs)
        if (job.is_on(node) &&
            std::binary_search(returned.ending.begin(), returned.ending.end(), job.id))
            jobs.push_back(job.id);
    std::sort(jobs.begin(), jobs.end());
    return jobs;
}

/// Jobs there that Arena cannot end, and a time in which none ends that does not obey.
void LoanBook::note_doubts(const std::vector<std::string>& nodes, double deadline_s,
                           Returned& returned) const {
    const bool is_short = to_end_s(deadline_s) < ending_s();
    std::vector<std::string> foreign;
    for (const std::string& node : nodes) {
        bool doubtful = false;
        for (const LoanFacts::Job& job : view_.facts.jobs) {
            if (job.inference || !job.is_on(node)) continue;
            doubtful = doubtful || job.is_foreign || is_short;
            if (job.is_foreign && foreign.size() < most_named)
                foreign.push_back(fmt::format("JobId={}", job.id));
        }
        returned.missing += doubtful ? 1 : 0;
    }
    if (!foreign.empty())
        returned.why = fmt::format("Arena cannot end {}: scancel it", join(foreign, ", "));
    else if (returned.missing > 0)
        returned.why = fmt::format(
            "{:g} s are less than twice what ending a job may take (KillWait {:g} s, and a round): "
            "jobs that do not obey their signal may be there longer",
            deadline_s, view_.facts.kill_wait_s);
}

LoanBook::Returned LoanBook::give_back(const std::vector<std::string>& nodes, double deadline_s,
                                       EndsInTime ends, const Snapshot& snapshot,
                                       const Offers& offers) {
    Returned returned;
    announce(nodes, snapshot, offers, ends, returned);
    const bool too_many = std::any_of(nodes.begin(), nodes.end(), [&](const std::string& node) {
        return ending_on(node, returned).size() > Lease::most_ends;
    });
    if (too_many) {
        returned = {};
        announce(nodes, snapshot, offers, {}, returned);
    }
    memory_.counts.preemptions += returned.preempted.size();
    memory_.counts.scaled_in += returned.scaled_in.size();
    memory_.counts.let_end += returned.ending.size();
    note_doubts(nodes, deadline_s, returned);
    const auto deadline = static_cast<std::int64_t>(view_.time_s + deadline_s);
    for (const std::string& node : nodes) {
        Lease lease = memory_.known.at(node);
        lease.state = LeaseState::returning;
        lease.until_s = deadline;
        lease.ends = ending_on(node, returned);
        put(node, lease);
        memory_.deadlines[node] = {lease, deadline_s, memory_.steady_s + deadline_s};
        returned.nodes.push_back({loan_name(lease.loan), node, deadline});
        host_.log_info(fmt::format("node {} goes back to {}: lease {}, by {}", node,
                                   partition_of(view_.facts, node), loan_name(lease.loan),
                                   clock_words(deadline)));
    }
    state_.hurries = state_.hurries || !nodes.empty();
    return returned;
}

Result<LoanBook::Returned> LoanBook::reclaim(const ReclaimWords& words, const Snapshot& snapshot,
                                             const Offers& offers) {
    if (!view_.is_read) return usage_error(problem());
    const std::vector<std::string> open = open_leases(memory_);
    for (const std::string& node : words.nodes) {
        if (!view_.index.contains(node))
            return usage_error(fmt::format("no node is called {}", node));
        const auto lease = memory_.known.find(node);
        if (lease == memory_.known.end())
            return usage_error(fmt::format("node {} is not lent", node));
        if (!is_open(lease->second.state))
            return usage_error(fmt::format("node {}: lease {} is {} already", node,
                                           loan_name(lease->second.loan),
                                           to_string(lease->second.state)));
    }
    if (words.count > static_cast<std::int64_t>(open.size()))
        return usage_error(
            fmt::format("asked back: {}; lent: {}", counted(words.count, "node"), open.size()));
    const double deadline_s =
        words.deadline_s > 0 ? static_cast<double>(words.deadline_s) : config_.loan_deadline_s;
    view_.facts = host_.read_loans(places_of(config_));
    const EndsInTime ends = ends_within(deadline_s);
    const std::vector<std::string> nodes =
        words.count > 0 ? Choice(snapshot, offers, view_.facts, open, memory_.known, ends)
                              .best(static_cast<std::size_t>(words.count))
                        : words.nodes;
    return give_back(nodes, deadline_s, ends, snapshot, offers);
}

// ---- by themselves -----------------------------------------------------------------------------

bool LoanBook::decide(const Snapshot& snapshot, const Offers& offers) {
    if (!view_.is_read) return false;
    const bool ended = end_leases(snapshot, offers);
    return (problem().empty() && is_by_demand(config_) && follow_demand(snapshot, offers)) || ended;
}

/// Nobody plans jobs then: who does not end is requeued when there is just time for it to end.
bool LoanBook::ask_all_back() {
    const std::vector<std::string> nodes = open_leases(memory_);
    if (!view_.is_read || nodes.empty()) return false;
    (void)give_back(nodes, config_.loan_deadline_s, {}, {}, {});
    return true;
}

bool LoanBook::end_leases(const Snapshot& snapshot, const Offers& offers) {
    std::vector<std::string> over;
    for (const Planned& planned : plan_.nodes) {
        const auto lease = memory_.known.find(planned.node);
        if (lease == memory_.known.end() || !is_open(lease->second.state)) continue;
        if (!config_.loan_enabled ||
            ends_by_itself(planned.is, static_cast<std::int64_t>(view_.time_s)))
            over.push_back(planned.node);
    }
    std::vector<std::string> wanted;
    for (std::string& node : wanted_by_inference(snapshot, offers))
        if (std::find(over.begin(), over.end(), node) == over.end())
            wanted.push_back(std::move(node));
    const double deadline_s = config_.loan_deadline_s;
    if (!over.empty()) (void)give_back(over, deadline_s, ends_within(deadline_s), snapshot, offers);
    // Somebody waits for these.
    if (!wanted.empty()) (void)give_back(wanted, deadline_s, {}, snapshot, offers);
    return !over.empty() || !wanted.empty();
}

/// Where nobody asks for them while inference waits: idle nodes, and what several jobs share.
std::vector<std::string> LoanBook::wanted_by_inference(const Snapshot& snapshot,
                                                       const Offers& offers) const {
    std::vector<std::string> nodes, shared = net_.sought();
    for (const std::string& node : net_.idle())
        if (memory_.known.contains(node) && memory_.known.at(node).state == LeaseState::lent)
            nodes.push_back(node);
    if (net_.missing() == 0) return nodes;
    std::erase_if(shared, [&](const std::string& node) {
        const auto lease = memory_.known.find(node);
        return lease == memory_.known.end() || !is_open(lease->second.state);
    });
    const auto count = std::min(net_.missing(), shared.size());
    for (std::string& node :
         Choice(snapshot, offers, view_.facts, shared, memory_.known, {}).best(count))
        nodes.push_back(std::move(node));
    return nodes;
}

bool LoanBook::follow_demand(const Snapshot& snapshot, const Offers& offers) {
    std::vector<std::string> leased;
    for (const auto& [node, lease] : memory_.known) leased.push_back(node);
    const auto pools = inference_pools(view_.facts, view_.states, open_leases(memory_), leased);
    const auto wishes = desk_.decide(pools, memory_.steady_s);
    for (const auto& [pool, step] : wishes) {
        if (step.reclaim > 0) {
            const auto count = std::min(static_cast<std::size_t>(step.reclaim), pool->lent.size());
            const double deadline_s = config_.loan_deadline_s;
            const EndsInTime ends = is_short(*pool) ? EndsInTime() : ends_within(deadline_s);
            const auto nodes =
                Choice(snapshot, offers, view_.facts, pool->lent, memory_.known, ends).best(count);
            (void)give_back(nodes, deadline_s, ends, snapshot, offers);
        }
        std::vector<std::string> idle = pool->idle;
        std::erase_if(idle, [&](const std::string& node) {
            return !nodes_.takes(node) || hands_.broken.contains(node);
        });
        std::reverse(idle.begin(), idle.end());
        idle.resize(std::min(idle.size(), static_cast<std::size_t>(step.lend)));
        lend(idle, 0);
    }
    return !wishes.empty();
}

// ---- what is told ------------------------------------------------------------------------------

LoanBook::Told LoanBook::told() const {
    Told told{.leases = {}, .problem = problem()};
    Leases all = memory_.known;
    for (const auto& [node, why] : hands_.broken)
        all.try_emplace(node, Lease{.state = LeaseState::broken});
    for (const auto& [node, lease] : all) {
        LeaseLine line{.id = lease.loan > 0 ? loan_name(lease.loan) : "",
                       .node = node,
                       .partition = partition_of(view_.facts, node),
                       .state = std::string(to_string(lease.state)),
                       .since = lease.since_s,
                       .jobs = {},
                       .why = {}};
        (lease.state == LeaseState::returning ? line.deadline : line.until) = lease.until_s;
        for (const LoanFacts::Job& job : view_.facts.jobs)
            if (job.is_on(node)) line.jobs.push_back(job.id);
        if (const auto why = hands_.broken.find(node); why != hands_.broken.end())
            line.why = why->second;
        else if (net_.is_open(node))
            line.why = "open to Slurm's preemption: inference waits";
        told.leases.push_back(std::move(line));
    }
    return told;
}

}  // namespace arena
