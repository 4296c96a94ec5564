// SPDX-License-Identifier: GPL-2.0-or-later
// CheckBook: which nodes are to be checked, being checked, or cannot be. A check is a carrier of
// the service user on exactly that node, with all of its GPUs that are free; nobody is preempted.
// What is remembered is a cache: facts stand in the nodes' Extra, carriers in Slurm's job list,
// times in the store; only who asked for a check is known here alone.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "checks/judge.h"
#include "plugin/sched/host/host.h"
#include "plugin/sched/host/refusals.h"
#include "plugin/sched/nodes/node_book.h"
#include "plugin/sched/profiles/measurements.h"
#include "plugin/sched/profiles/profile_book.h"
#include "plugin/sched/profiles/spool_reader.h"
#include "site/config.h"

namespace arena {

class CheckBook : public NodeChecks {
  public:
    /// Carriers of checks at once: each keeps a whole node from everybody.
    static constexpr std::size_t max_running = 4;
    static constexpr int max_tries = 2;

    CheckBook(Host& host, const Config& config, Measurements& measurements, NodeBook& nodes,
              const ServiceUser& user);

    /// Once a round, before NodeBook::new_round(): takes carriers of checks out of the view, and
    /// what they measured in.
    void take_in(ClusterView& view);
    /// After it: starts what is due, and takes its GPUs out of the view.
    void start(ClusterView& view);

    /// An administrator wants the node checked; false, with the reason in `why`, where none can be.
    bool ask(const std::string& node, std::string& why);
    /// What was asked for is not wanted any more; a carrier that runs goes on.
    void forget(const std::string& node);

    [[nodiscard]] bool waits_for(const std::string& node, const SlowFact& fact,
                                 std::int64_t now) override;
    void wants(const std::string& node, const SlowFact& fact) override;
    [[nodiscard]] bool is_wanted(const std::string& node) const override;

    /// Nodes that a check found healthy since this was last asked, all of their GPUs.
    [[nodiscard]] std::vector<std::string> take_healthy() { return std::exchange(healthy_, {}); }
    /// A round is needed although Slurm has no job of Arena's.
    [[nodiscard]] bool has_work() const;

    struct Counts {
        std::uint64_t started = 0, healthy = 0, slow = 0, unknown = 0, failed = 0;
    };
    [[nodiscard]] const Counts& counts() const { return counts_; }
    [[nodiscard]] std::size_t running() const;

    struct Entry {
        bool asked = false;          ///< by an administrator
        bool whole_only = false;     ///< a part of its GPUs was not the part that matters
        std::int64_t due_until = 0;  ///< a fact's `until` that has passed; 0 = none has
        std::int64_t given_up = 0;   ///< epoch: facts over by then wait for no check
        int tries = 0;               ///< that failed
        double next_try_s = 0;       ///< monotonic
        JobId carrier = 0;           ///< that runs; 0 = none
        std::string waits;           ///< why it does not begin
        std::string last;            ///< what the latest check found
        double last_s = 0;           ///< and when, by the epoch
        /// Of a node with several GPU types, which are checked one after the other: the one that is
        /// checked now, "" = the first; the one after it, "" = none; whether all of its GPUs take
        /// part; and whether those before it were all found healthy.
        std::string type, next_type;
        bool whole_type = true, others_healthy = true;
        [[nodiscard]] bool wanted() const { return asked || due_until != 0; }
    };
    using Entries = std::map<std::string, Entry>;  ///< by node
    [[nodiscard]] const Entries& entries() const { return entries_; }
    /// What was asked for and found under another configuration.
    [[nodiscard]] Entries take_entries() { return std::exchange(entries_, {}); }
    void take_over(Entries entries) { entries_ = std::move(entries); }

  private:
    struct Run {
        bool ours = false;  ///< seen running in this life: its failure is told
        bool done = false;
        std::optional<double> ended_s;
    };
    struct Ended {
        const CarrierView& carrier;
        const CheckRequest& request;
        Run& run;
    };
    [[nodiscard]] bool can_check() const { return user_.known && measurements_.store(); }
    void follow(const CarrierView& carrier);
    void take_result(const Ended& ended);
    [[nodiscard]] bool may_come(Run& run, double grace_s) const;
    void judge_check(const Ended& ended, const NodeCheck& check);
    void add_profiled(const NodeCheck& check, References& known);
    void conclude(const Ended& ended, const NodeCheck& check, const CheckVerdict& verdict);
    void fails(const Ended& ended, const std::string& why);
    void give_up(Entry& entry);
    void start_one(const std::string& name, Entry& entry, ClusterView& view);
    [[nodiscard]] std::string why_not_now(const Entry& entry, const ClusterView& view,
                                          NodeIndex index) const;
    [[nodiscard]] std::optional<CarrierSpec> spec_for(const ClusterView& view, NodeIndex index,
                                                      const Entry& entry);
    [[nodiscard]] std::vector<OpShape> profiled_products(const std::string& gpu_type);
    void note_refusal(const std::string& name, Entry& entry, const CarrierStart& start);

    Host& host_;
    Config config_;
    Measurements& measurements_;
    NodeBook& nodes_;
    ServiceUser user_;
    SpoolReader spool_;
    Refusals refusals_;
    Entries entries_;
    std::map<JobId, Run> runs_;
    std::vector<std::string> healthy_;
    Counts counts_;
    double steady_s_ = 0, time_s_ = 0;
};

}  // namespace arena
