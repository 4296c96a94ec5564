// SPDX-License-Identifier: GPL-2.0-or-later
// See slow_nodes.h.
#include "plugin/sched/nodes/slow_nodes.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>

namespace arena {
namespace {

using Facts = std::vector<const SlowFact*>;

/// Facts that speak for the same: of one device, of a link, of all links of a node.
struct Case {
    Facts facts;
    /// By a check, or by the node's own tools.
    [[nodiscard]] bool is_checked() const {
        return std::any_of(facts.begin(), facts.end(), [](auto* f) {
            return f->checked != 0 ||
                   (f->finding && f->finding->severity >= health::Severity::slow);
        });
    }
    /// Different users; an administrator's jobs each. What is only suspected has none.
    [[nodiscard]] std::int64_t voices() const {
        std::int64_t most = 0;
        std::set<std::pair<std::uint32_t, JobId>> all;
        for (const SlowFact* fact : facts) {
            if (fact->confidence < 1 || fact->finding) continue;
            most = std::max(most, fact->seen);
            for (const SlowVoice& voice : fact->by) all.emplace(voice.key());
        }
        return std::max(most, std::ssize(all));
    }
    /// What nobody but an administrator can have said.
    [[nodiscard]] std::int64_t trusted_voices() const {
        std::set<JobId> jobs;
        std::int64_t written = 0;
        for (const SlowFact* fact : facts) {
            if (fact->confidence < 1 || fact->finding) continue;
            if (fact->by.empty()) written = std::max(written, fact->seen);
            for (const SlowVoice& voice : fact->by)
                if (voice.user == admin_user) jobs.insert(voice.job);
        }
        return std::max(written, std::ssize(jobs));
    }
    [[nodiscard]] std::int64_t jobs_of(std::uint32_t user) const {
        std::set<JobId> jobs;
        for (const SlowFact* fact : facts)
            for (const SlowVoice& voice : fact->by)
                if (voice.user == user) jobs.insert(voice.job);
        return std::ssize(jobs);
    }
    [[nodiscard]] Suspect suspect(NodeIndex node, const SlowdownRules& rules) const {
        Suspect suspect{.node = node, .trusted = is_trusted(rules)};
        for (const SlowFact* fact : facts) {
            suspect.since = std::max(suspect.since, fact->since);
            suspect.factor = std::max(suspect.factor, fact->factor);
            suspect.gone |= fact->finding && fact->finding->severity == health::Severity::gone;
        }
        return suspect;
    }
    [[nodiscard]] bool is_confirmed(const SlowdownRules& rules) const {
        return is_checked() || voices() >= rules.confirmations;
    }
    [[nodiscard]] bool is_trusted(const SlowdownRules& rules) const {
        return is_checked() || trusted_voices() >= rules.confirmations;
    }
};

class Judge {
  public:
    Judge(const FactsByNode& facts, const std::vector<NodeState>& nodes, const SlowdownRules& rules)
        : rules_(rules) {
        std::map<std::string_view, NodeIndex> names;
        for (NodeIndex i = 0; i < nodes.size(); ++i) names.emplace(nodes[i].name, i);
        for (const auto& [node, list] : facts)
            for (const SlowFact& fact : *list) {
                if (fact.peer.empty()) {
                    direct_[node].push_back({{&fact}});
                } else if (const auto peer = names.find(fact.peer);
                           peer != names.end() && peer->second != node) {
                    links_[std::minmax(node, peer->second)].facts.push_back(&fact);
                    ends_[node].emplace_back(peer->second, &fact);
                }
                for (const SlowVoice& voice : fact.by) users_.insert(voice.user);
            }
        users_.erase(unnamed_user);
    }

    SlowNodes run() {
        std::vector<SlowNodeLink> links;
        for (const auto& [ends, link] : links_) {
            links.push_back({ends, 1});
            for (const SlowFact* fact : link.facts)
                links.back().factor = std::max(links.back().factor, fact->factor);
        }
        const LinkCulprits culprits = find_link_culprits(std::move(links));
        culprits_.insert(culprits.nodes.begin(), culprits.nodes.end());
        result_.open = culprits.open;
        judge_nodes();
        judge_pairs();
        find_innocent();
        return std::move(result_);
    }

  private:
    /// A node's cases: each device, and, where it is at fault for them, its links together.
    [[nodiscard]] std::vector<Case> cases_of(NodeIndex node) const {
        std::vector<Case> cases;
        if (const auto at = direct_.find(node); at != direct_.end()) cases = at->second;
        if (!culprits_.contains(node)) return cases;
        Case links;
        for (const auto& [peer, fact] : ends_.at(node)) links.facts.push_back(fact);
        cases.push_back(std::move(links));
        return cases;
    }

    void judge_nodes() {
        std::set<NodeIndex> nodes = culprits_;
        for (const auto& [node, cases] : direct_) nodes.insert(node);
        for (const NodeIndex node : nodes) judge_node(node, cases_of(node));
    }

    void judge_node(NodeIndex node, const std::vector<Case>& cases) {
        std::optional<Suspect> suspect;
        for (const Case& one : cases) {
            if (!one.is_confirmed(rules_)) continue;
            const Suspect found = one.suspect(node, rules_);
            if (!suspect) suspect = found;
            suspect->since = std::max(suspect->since, found.since);
            suspect->factor = std::max(suspect->factor, found.factor);
            suspect->trusted |= found.trusted;
            suspect->gone |= found.gone;
        }
        if (suspect) result_.confirmed.push_back(*suspect);
        for (const std::uint32_t user : users_)
            if (std::any_of(cases.begin(), cases.end(), [&](const Case& one) {
                    return one.jobs_of(user) >= rules_.confirmations;
                }))
                result_.own[user].nodes.push_back(node);
    }

    void judge_pairs() {
        for (const NodePair& ends : result_.open) {
            const Case& link = links_.at(ends);
            if (link.is_confirmed(rules_)) result_.pairs.push_back({ends, link.is_trusted(rules_)});
            for (const std::uint32_t user : users_)
                if (link.jobs_of(user) >= rules_.confirmations)
                    result_.own[user].pairs.push_back(ends);
        }
    }

    void find_innocent() {
        for (const auto& [node, ends] : ends_) {
            if (direct_.contains(node) || culprits_.contains(node)) continue;
            const bool is_explained = std::all_of(ends.begin(), ends.end(), [&](const auto& end) {
                return culprits_.contains(end.first);
            });
            (is_explained ? result_.innocent : result_.linked).push_back(node);
        }
    }

    const SlowdownRules& rules_;
    std::map<NodeIndex, std::vector<Case>> direct_;
    std::map<NodePair, Case> links_;
    std::map<NodeIndex, std::vector<std::pair<NodeIndex, const SlowFact*>>> ends_;
    std::set<NodeIndex> culprits_;
    std::set<std::uint32_t> users_;
    SlowNodes result_;
};

}  // namespace

SlowNodes judge_slow_nodes(const FactsByNode& facts, const std::vector<NodeState>& nodes,
                           const SlowdownRules& rules) {
    return Judge(facts, nodes, rules).run();
}

}  // namespace arena
