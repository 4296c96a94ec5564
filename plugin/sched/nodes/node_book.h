// SPDX-License-Identifier: GPL-2.0-or-later
// NodeBook: what is known of nodes beyond what Slurm says: which are slow, which are lent. Truth is
// each node's Extra field; this is what was read there last, and what is to be written there. Nodes
// that several jobs found slow are avoided, within bounds.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "checks/judge.h"
#include "plugin/sched/host/host.h"
#include "plugin/sched/nodes/avoidance.h"
#include "plugin/sched/nodes/node_extra.h"
#include "plugin/sched/nodes/slow_fact.h"
#include "plugin/sched/nodes/slow_nodes.h"

namespace arena {

/// What a check of a node found.
struct NodeCheckNews {
    std::string node, driver;
    bool whole = false;  ///< all GPUs of the node were checked
    CheckVerdict verdict;
};

/// Who has slow nodes checked.
class NodeChecks {
  public:
    virtual ~NodeChecks() = default;
    /// The fact's time is over: whether it stands until a check has said more.
    [[nodiscard]] virtual bool waits_for(const std::string& node, const SlowFact& fact,
                                         std::int64_t now) = 0;
    /// Jobs say so, and a check has to tell whether it is true.
    virtual void wants(const std::string& node, const SlowFact& fact) = 0;
    /// A check of the node is to begin, or goes on: it needs to be reached.
    [[nodiscard]] virtual bool is_wanted(const std::string& node) const = 0;
};

class NodeBook {
  public:
    explicit NodeBook(SlowdownRules rules) : rules_(rules) {}

    /// Reads what changed, takes in verdicts, drops what is over, says in the view which nodes are
    /// slow, lent or returning. Without a fact anywhere nothing is done.
    void new_round(ClusterView& view, NodeChecks* checks = nullptr);

    /// Taken in by the next round; one that takes back what the job said, too. False, and nothing
    /// noted, of a verdict that cannot be.
    bool note(const SlowVerdict& verdict);
    /// Those that no round has taken in, or none has written yet.
    [[nodiscard]] std::vector<SlowVerdict> take_verdicts();
    /// An administrator says that the node is sound: its slow facts and what was noted before end
    /// with the next round; what is noted after it counts.
    void clear(const std::string& node);
    /// Takes back what it found healthy, prolongs and corrects what it found slow; what is between
    /// nodes, and what it could not compare, stays. With the next round.
    void note_check(NodeCheckNews news) { checked_.push_back(std::move(news)); }
    /// The driver of a node's devices, as a measurement there told it.
    void note_driver(const std::string& node, const std::string& driver);

    /// Nodes that no job of Arena's is to start on, ascending.
    [[nodiscard]] const std::vector<NodeIndex>& avoided() const { return avoided_.nodes; }
    /// The same, and what else jobs avoid: see Avoidance.
    [[nodiscard]] const AvoidedNodes& avoidance() const { return avoided_; }
    /// "GPU 1 computes 2.1 times slower"; "" of a node of which nothing is known, or what is to be
    /// watched alone.
    [[nodiscard]] std::string why(const std::string& node) const;
    /// Whether others have to believe it: enough voices, or a check.
    [[nodiscard]] bool is_confirmed(const std::string& node) const;
    /// Its slow facts; none of an unknown node.
    [[nodiscard]] std::vector<SlowFact> slow(const std::string& node) const;

    /// Facts of one kind ("loan"), by node; "health": what the node's own tools find, with
    /// `severity`.
    [[nodiscard]] std::vector<std::pair<std::string, Fact>> facts(std::string_view kind) const;
    /// Puts a fact of a kind of which a node has one, in place of the one that it has. False where
    /// an administrator has broken Arena's part of the node's Extra.
    bool put(const std::string& node, const Fact& fact);
    void drop(const std::string& node, std::string_view kind);
    /// Whether put() would.
    [[nodiscard]] bool takes(const std::string& node) const;

    /// What is to be written: after a round nothing of it is left.
    [[nodiscard]] std::vector<HostNodes::ExtraChange> take_changes();
    /// These nodes have what was to be written. Of others the verdicts are taken in again, where
    /// somebody was faster.
    void note_written(const std::vector<std::string>& nodes);
    [[nodiscard]] std::vector<HostNodes::Fencing> take_fencings();
    /// Why a node could not be fenced, "" = it was. Whether that is new, and so to be said.
    bool note_fencing(const std::string& node, const std::string& why);
    struct Line {
        bool error;
        std::string text;
    };
    [[nodiscard]] std::vector<Line> take_log() { return std::exchange(log_, {}); }

    [[nodiscard]] const SlowdownRules& rules() const { return rules_; }

  private:
    struct Entry {
        std::string text;  ///< as it was read
        NodeExtra extra;   ///< as it is to be, less its slow facts
        std::vector<SlowFact> slow;
        std::string comment;  ///< as it was read; what it says is in `slow`
        NodeExtra was;        ///< whole() of the text
        bool told_full = false;
        [[nodiscard]] bool is_pending() const { return whole() != was; }
        [[nodiscard]] NodeExtra whole() const;
    };
    using Names = std::map<std::string, NodeIndex, std::less<>>;

    void read(const ClusterView& view, const Names& names);
    void take_again(const Names& names);
    void take_in_verdict(const SlowVerdict& verdict, std::int64_t now);
    Entry parse(const std::string& node, const std::string& text);
    void parse_comment(const std::string& node, const std::string& text, Entry& entry);
    void tell_findings(const std::string& node, const Entry& now);
    void take_in(const ClusterView& view, const Names& names);
    void take_in_check(const NodeCheckNews& news, std::int64_t now);
    void drop_ended(const ClusterView& view, const Names& names, NodeChecks* checks);
    void choose(const ClusterView& view);
    void judge(const ClusterView& view, const Names& names);
    void choose_pairs(const ClusterView& view);
    std::set<NodeIndex> gone(const ClusterView& view);
    void tell_beyond_cap(const std::vector<NodeIndex>& allowed, const ClusterView& view);
    void have_checked(const ClusterView& view, const Names& names, NodeChecks* checks);
    void describe(ClusterView& view, const Names& names) const;
    void fence(const ClusterView& view, const NodeChecks* checks);
    void tell(const ClusterView& view);
    void log(bool error, std::string text) { log_.push_back({error, std::move(text)}); }

    SlowdownRules rules_;
    std::map<std::string, Entry, std::less<>> entries_;
    std::vector<SlowVerdict> verdicts_;
    /// By node: taken in, and not yet known to be written.
    std::map<std::string, std::vector<SlowVerdict>> taken_;
    std::set<std::string> cleared_;
    std::vector<NodeCheckNews> checked_;
    std::map<std::string, double> down_since_;     ///< by the monotonic clock
    std::map<std::string, std::string> unfenced_;  ///< and why, as the log has it
    std::map<std::string, std::string> drivers_;
    SlowNodes slow_;
    std::set<std::string> confirmed_;  ///< nodes that are slow for everybody
    AvoidedNodes avoided_;
    std::set<std::string> beyond_cap_;         ///< as the log has it
    std::map<std::string, std::string> told_;  ///< avoided nodes and why, as the log has it
    std::vector<HostNodes::Fencing> fencings_;
    std::vector<Line> log_;
};

/// Writes what is to be written and tells what is to be told; which nodes were written.
std::vector<std::string> write_facts(NodeBook& book, Host& host);

/// What makes a job leave these nodes of its own: at least one, the first is the one that is named.
Move leave_slow(const std::vector<std::string>& nodes, const NodeBook& book);

}  // namespace arena
