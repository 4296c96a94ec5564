// SPDX-License-Identifier: GPL-2.0-or-later
// See node_book.h.
#include "plugin/sched/nodes/node_book.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/text.h"

namespace arena {
namespace {

/// More than come of honest jobs between two rounds.
constexpr std::size_t max_waiting = 256;
/// A node that is away for so long is not counted upon: a controller that has just begun knows of
/// none.
constexpr double away_s = 60;

const NodeRecord& record_of(const ClusterView& view, NodeIndex index) {
    static const NodeRecord none;
    const auto at = view.node_records.find(index);
    return at == view.node_records.end() ? none : at->second;
}

Fence fence_of(Quarantine quarantine) {
    if (quarantine == Quarantine::reserve) return Fence::reserved;
    return quarantine == Quarantine::drain ? Fence::drained : Fence::none;
}

}  // namespace

NodeExtra NodeBook::Entry::whole() const {
    NodeExtra all = extra;
    std::vector<Fact> facts;
    for (const SlowFact& fact : slow)
        if (!fact.finding) facts.push_back(fact_of(fact));
    all.facts.insert(all.facts.begin(), facts.begin(), facts.end());
    // Last, because earlier versions take what follows an unknown word for somebody else's.
    std::stable_partition(all.facts.begin(), all.facts.end(),
                          [](const Fact& fact) { return fact.kind != "sound"; });
    return all;
}

void NodeBook::new_round(ClusterView& view, NodeChecks* checks) {
    avoided_ = {};
    slow_ = {};
    confirmed_.clear();
    if (view.node_records.empty() && entries_.empty() && verdicts_.empty()) {
        cleared_.clear();
        checked_.clear();
        return tell(view);
    }
    Names names;
    for (NodeIndex i = 0; i < view.snapshot.nodes.size(); ++i)
        names.emplace(view.snapshot.nodes[i].name, i);
    read(view, names);
    for (const NodeCheckNews& news : std::exchange(checked_, {}))
        take_in_check(news, static_cast<std::int64_t>(view.snapshot.time_s));
    drop_ended(view, names, checks);
    take_in(view, names);
    judge(view, names);
    choose(view);
    have_checked(view, names, checks);
    describe(view, names);
    fence(view, checks);
    tell(view);
}

/// What is still to be written stays, where the text is the one that it was to change.
void NodeBook::read(const ClusterView& view, const Names& names) {
    std::map<std::string, Entry, std::less<>> now;
    for (const auto& [index, record] : view.node_records) {
        if (record.extra.empty() && record.comment.empty()) continue;
        const std::string& node = view.snapshot.nodes[index].name;
        const auto known = entries_.find(node);
        if (known != entries_.end() && known->second.text == record.extra &&
            known->second.comment == record.comment) {
            now.emplace(node, std::move(known->second));
            continue;
        }
        Entry& entry = now.emplace(node, parse(node, record.extra)).first->second;
        parse_comment(node, record.comment, entry);
        tell_findings(node, entry);
    }
    for (auto& [node, entry] : entries_) {
        const auto at = names.find(node);
        const bool as_it_was =
            at != names.end() && !now.contains(node) && entry.text.empty() && entry.comment.empty();
        if (as_it_was && entry.is_pending()) now.emplace(node, std::move(entry));
    }
    entries_ = std::move(now);
    take_again(names);
}

/// Verdicts that were to be written where an administrator has written meanwhile.
void NodeBook::take_again(const Names& names) {
    std::erase_if(taken_, [&](auto& taken) {
        const auto entry = entries_.find(taken.first);
        if (entry != entries_.end() && entry->second.is_pending()) return false;
        if (names.contains(taken.first))
            verdicts_.insert(verdicts_.begin(), taken.second.begin(), taken.second.end());
        return true;
    });
}

void NodeBook::note_written(const std::vector<std::string>& nodes) {
    for (const std::string& node : nodes) {
        taken_.erase(node);
        const auto at = entries_.find(node);
        if (at == entries_.end()) continue;
        // A second change may come before the next round reads this one.
        at->second.was = at->second.whole();
        at->second.text = format_node_extra(at->second.was);
    }
}

void NodeBook::clear(const std::string& node) {
    std::erase_if(verdicts_, [&](const SlowVerdict& verdict) { return verdict.node == node; });
    taken_.erase(node);
    cleared_.insert(node);
}

NodeBook::Entry NodeBook::parse(const std::string& node, const std::string& text) {
    Entry entry;
    entry.text = text;
    entry.extra = parse_node_extra(text);
    std::vector<Fact> others;
    for (const Fact& fact : entry.extra.facts) {
        if (const auto slow = slow_fact(fact, &entry.extra.broken))
            entry.slow.push_back(*slow);
        else
            others.push_back(fact);
    }
    entry.extra.facts = std::move(others);
    if (!entry.extra.broken.empty()) {
        entry.extra.facts.clear();
        entry.slow.clear();
        log(true, fmt::format("node {}: its Extra is left alone, and says nothing: {}; scontrol "
                              "update NodeName={} Extra= ends that",
                              node, entry.extra.broken, node));
    }
    entry.was = entry.whole();
    return entry;
}

/// Findings by the time at which an administrator took the node for sound count no more.
void NodeBook::parse_comment(const std::string& node, const std::string& text, Entry& entry) {
    entry.comment = text;
    const health::NodeComment comment = health::parse_health_comment(text);
    if (!comment.broken.empty())
        log(true, fmt::format("node {}: what its Comment has of its health says nothing: {}; the "
                              "next arena slowdown report --from-health writes it anew",
                              node, comment.broken));
    std::int64_t sound = 0;
    for (const Fact& fact : entry.extra.facts)
        if (fact.kind == "sound") sound = parse_integer(fact.value, 0, INT64_MAX).value_or(0);
    bool is_needed = false;
    for (const health::Finding& finding : comment.findings) {
        const bool is_old = finding.at <= sound && sound != 0;
        is_needed |= is_old;
        if (!is_old) entry.slow.push_back(fact_of(finding));
    }
    if (sound != 0 && !is_needed)
        std::erase_if(entry.extra.facts, [](const Fact& fact) { return fact.kind == "sound"; });
}

/// What is new of them, and that all are over.
void NodeBook::tell_findings(const std::string& node, const Entry& now) {
    const auto before = entries_.find(node);
    const auto had = [&](const health::Finding& finding) {
        return before != entries_.end() &&
               std::any_of(before->second.slow.begin(), before->second.slow.end(),
                           [&](const SlowFact& fact) {
                               return fact.finding && fact.finding->code == finding.code &&
                                      fact.finding->place == finding.place;
                           });
    };
    for (const SlowFact& fact : now.slow)
        if (fact.finding && !had(*fact.finding))
            log(false, fmt::format("node {}: its own tools find: {} ({})", node, words_of(fact),
                                   health::name(fact.finding->severity)));
}

bool NodeBook::note(const SlowVerdict& verdict) {
    const bool sound = verdict.job != 0 && std::isfinite(verdict.factor) && verdict.factor >= 1 &&
                       verdict.factor <= 1e4 && verdict.device >= any_gpu &&
                       verdicts_.size() < max_waiting;
    if (sound) verdicts_.push_back(verdict);
    return sound;
}

std::vector<SlowVerdict> NodeBook::take_verdicts() {
    std::vector<SlowVerdict> list;
    for (const auto& [node, verdicts] : std::exchange(taken_, {}))
        list.insert(list.end(), verdicts.begin(), verdicts.end());
    list.insert(list.end(), verdicts_.begin(), verdicts_.end());
    verdicts_.clear();
    return list;
}

void NodeBook::note_driver(const std::string& node, const std::string& driver) {
    if (!driver.empty()) drivers_[node] = driver;
}

void NodeBook::take_in_verdict(const SlowVerdict& verdict, std::int64_t now) {
    Entry& entry = entries_[verdict.node];
    if (!entry.extra.broken.empty()) return;
    if (verdict.is_over) {
        if (!take_back(entry.slow, verdict)) return;
        if (entry.is_pending()) taken_[verdict.node].push_back(verdict);
        return log(false, fmt::format("JobId={} no longer finds node {} slow: it does not count "
                                      "among those that do",
                                      verdict.job, verdict.node));
    }
    const SlowFact& fact = add_verdict(entry.slow, verdict, now, rules_);
    if (entry.is_pending()) taken_[verdict.node].push_back(verdict);
    const char* but = "";
    if (!fact.peer.empty())
        but = ": either end may be";
    else if (fact.confidence < 1)
        but = ": others avoid it once a check finds it, too";
    else if (!arena::is_confirmed(fact, rules_))
        but = ": others avoid it once another user's job, or a check, finds it, too";
    log(false, fmt::format("JobId={} finds node {} slow: {}{}", verdict.job, verdict.node,
                           words_of(fact), but));
}

/// What was noted of a node before it was cleared is gone already.
void NodeBook::take_in(const ClusterView& view, const Names& names) {
    const auto now = static_cast<std::int64_t>(view.snapshot.time_s);
    for (const std::string& node : std::exchange(cleared_, {})) {
        const auto at = entries_.find(node);
        if (at == entries_.end() || at->second.slow.empty()) continue;
        log(false, fmt::format("node {} is sound again: it was told so", node));
        std::int64_t sound = 0;  // not before what it takes back: clocks differ
        for (const SlowFact& fact : at->second.slow)
            if (fact.finding) sound = std::max({sound, now, fact.finding->at});
        if (sound != 0) (void)put(node, {"sound", std::to_string(sound), {}});
        at->second.slow.clear();
    }
    for (const SlowVerdict& verdict : std::exchange(verdicts_, {}))
        if (names.contains(verdict.node)) take_in_verdict(verdict, now);
}

void NodeBook::take_in_check(const NodeCheckNews& news, std::int64_t now) {
    note_driver(news.node, news.driver);
    const auto at = entries_.find(news.node);
    if (at == entries_.end()) return;
    taken_.erase(news.node);
    std::vector<SlowFact>& facts = at->second.slow;
    std::erase_if(facts, [&](const SlowFact& fact) {
        if (!is_cleared(fact, news.verdict, news.whole)) return false;
        log(false, fmt::format("node {}: {} no more: a check found it healthy", news.node,
                               words_of(fact)));
        return true;
    });
    for (SlowFact& fact : facts) {
        if (!prolong(fact, news.verdict, now, rules_)) continue;
        if (!news.driver.empty()) fact.driver = news.driver;
        log(false, fmt::format("node {}: a check found: {}; checked again in {:g} s", news.node,
                               words_of(fact), rules_.recheck_s));
    }
}

void NodeBook::drop_ended(const ClusterView& view, const Names& names, NodeChecks* checks) {
    const auto now = static_cast<std::int64_t>(view.snapshot.time_s);
    for (auto& [node, entry] : entries_) {
        const auto at = names.find(node);
        if (at == names.end()) continue;
        const auto booted = static_cast<std::int64_t>(record_of(view, at->second).boot_s);
        const auto known = drivers_.find(node);
        const std::string driver = known == drivers_.end() ? "" : known->second;
        const bool drained = record_of(view, at->second).fence == Fence::drained;
        std::erase_if(entry.slow, [&](SlowFact& fact) {
            set_back(fact, now);
            if (!is_over(fact, now, booted, driver)) return false;
            SlowFact unending = fact;
            unending.until = 0;
            // A check cannot reach a drained node.
            if (checks && !drained && !is_over(unending, now, booted, driver) &&
                checks->waits_for(node, fact, now))
                return false;
            log(false, fmt::format("node {}: no longer held slow ({})", node, words_of(fact)));
            return true;
        });
    }
}

void NodeBook::judge(const ClusterView& view, const Names& names) {
    FactsByNode facts;
    for (const auto& [node, entry] : entries_)
        if (const auto at = names.find(node); at != names.end() && !entry.slow.empty())
            facts.emplace(at->second, &entry.slow);
    if (!facts.empty()) slow_ = judge_slow_nodes(facts, view.snapshot.nodes, rules_);
    for (const Suspect& suspect : slow_.confirmed)
        confirmed_.insert(view.snapshot.nodes[suspect.node].name);
}

/// Nodes that have been down or drained for a while.
std::set<NodeIndex> NodeBook::gone(const ClusterView& view) {
    std::set<NodeIndex> gone;
    std::map<std::string, double> down;
    for (NodeIndex i = 0; i < view.snapshot.nodes.size(); ++i) {
        const NodeState& node = view.snapshot.nodes[i];
        if (node.up) continue;
        const auto since = down_since_.find(node.name);
        const double at_s = since == down_since_.end() ? view.steady_s : since->second;
        down.emplace(node.name, at_s);
        if (view.steady_s - at_s > away_s) gone.insert(i);
    }
    down_since_ = std::move(down);
    return gone;
}

/// Which of the confirmed are avoided; in mode `report` none.
void NodeBook::choose(const ClusterView& view) {
    if (rules_.quarantine == Quarantine::report) return;
    std::vector<Suspect> confirmed = slow_.confirmed;
    const std::set<NodeIndex> away = gone(view);
    const auto allowed = choose_quarantined(confirmed, view.snapshot.nodes, rules_);
    tell_beyond_cap(allowed, view);
    std::erase_if(confirmed, [&](const Suspect& suspect) {
        return !std::binary_search(allowed.begin(), allowed.end(), suspect.node);
    });
    for (const NodeIndex node :
         choose_quarantined(std::move(confirmed), view.snapshot.nodes, rules_, away))
        view.add_parts(node, avoided_.nodes);
    choose_pairs(view);
    avoided_.open = slow_.open;
    avoided_.linked = slow_.linked;
    avoided_.innocent = slow_.innocent;
    if (rules_.max_quarantined_percent > 0) avoided_.own = slow_.own;
}

/// Of users' word alone both ends count among the nodes of their types.
void NodeBook::choose_pairs(const ClusterView& view) {
    const auto& nodes = view.snapshot.nodes;
    std::map<std::string_view, double> room;
    for (const NodeState& node : nodes)
        room[node.gpu_type] += node.total_gpus > 0 ? rules_.max_quarantined_percent / 100 : 0;
    for (const NodeIndex index : avoided_.nodes) room[nodes[index].gpu_type] -= 1;
    for (const SlowPair& pair : slow_.pairs) {
        double &a = room[nodes[pair.ends.first].gpu_type],
               &b = room[nodes[pair.ends.second].gpu_type];
        const bool fits = &a == &b ? a >= 2 : a >= 1 && b >= 1;
        if (rules_.max_quarantined_percent <= 0 || (!pair.trusted && !fits)) continue;
        a -= 1;
        b -= 1;
        avoided_.pairs.push_back(pair.ends);
    }
}

/// Where nearly all are slow the measure is wrong, not the nodes: what administrators or checks say
/// of one too many is forgotten. What users' jobs say waits for a check, and their own jobs heed
/// it.
void NodeBook::tell_beyond_cap(const std::vector<NodeIndex>& allowed, const ClusterView& view) {
    std::set<std::string> beyond;
    for (const Suspect& suspect : slow_.confirmed) {
        if (std::binary_search(allowed.begin(), allowed.end(), suspect.node)) continue;
        const std::string& node = view.snapshot.nodes[suspect.node].name;
        if (!suspect.trusted) beyond.insert(node);
        if (!suspect.trusted && beyond_cap_.contains(node)) continue;
        const std::string what =
            fmt::format("node {} is not avoided although {}: ", node, why(node));
        const std::string cap =
            fmt::format("max_quarantined_percent={:g}", rules_.max_quarantined_percent);
        if (!suspect.trusted) {
            log(false, what + "that is the word of users' jobs, which keep no more than " + cap +
                           " of a GPU type from others; arena slowdown check " + node + " tells");
            continue;
        }
        log(true, what + "it would be the last of its GPU type, or one more than " + cap +
                      " allows; look at the nodes yourself");
        std::erase_if(entries_[node].slow,
                      [&](const SlowFact& fact) { return arena::is_confirmed(fact, rules_); });
    }
    beyond_cap_ = std::move(beyond);
    std::erase_if(slow_.confirmed, [&](const Suspect& suspect) {
        return suspect.trusted && !std::binary_search(allowed.begin(), allowed.end(), suspect.node);
    });
}

/// So that a user who has a partition alone is believed by others, too, and nobody is whose GPU is
/// well.
void NodeBook::have_checked(const ClusterView& view, const Names& names, NodeChecks* checks) {
    if (checks == nullptr || rules_.quarantine == Quarantine::report) return;
    for (const auto& [node, entry] : entries_) {
        const auto at = names.find(node);
        if (at == names.end() || record_of(view, at->second).fence == Fence::drained) continue;
        for (const SlowFact& fact : entry.slow)
            if (wants_check(fact, rules_)) checks->wants(node, fact);
    }
}

/// What policies and snapshots have of it.
void NodeBook::describe(ClusterView& view, const Names& names) const {
    for (const Suspect& suspect : slow_.confirmed)
        view.snapshot.nodes[suspect.node].slow = suspect.factor;
    for (const auto& [node, entry] : entries_) {
        const auto at = names.find(node);
        if (at == names.end()) continue;
        NodeState& state = view.snapshot.nodes[at->second];
        for (const Fact& fact : entry.extra.facts) {
            const std::string *phase = fact.find("state"), *until = fact.find("until");
            const bool returns = phase && *phase == "returning";
            if (fact.kind != "loan" || !(returns || (phase && *phase == "lent"))) continue;
            state.lent = fact.value;
            if (returns && until) state.returning_s = parse_number(*until, 0, 1e15).value_or(0);
        }
        const NodeParts parts = parts_of(view.snapshot.nodes, at->second);
        for (NodeIndex n = parts.first + 1; n < parts.last; ++n) {
            view.snapshot.nodes[n].slow = state.slow;
            view.snapshot.nodes[n].lent = state.lent;
            view.snapshot.nodes[n].returning_s = state.returning_s;
        }
    }
}

void NodeBook::fence(const ClusterView& view, const NodeChecks* checks) {
    fencings_.clear();
    const Fence wanted = fence_of(rules_.quarantine);
    const auto look = [&](NodeIndex index, Fence fence) {
        const std::string& node = view.snapshot.nodes[index].name;
        const Fence now = record_of(view, index).fence;
        // Somebody has resumed it to have it checked: jobs wait for that.
        if (fence == Fence::drained && now != fence && checks && checks->is_wanted(node))
            fence = Fence::reserved;
        if (now != fence) fencings_.push_back({node, fence, why(node), rules_.check_user});
    };
    for (const NodeIndex index : avoided_.nodes)
        if (!view.snapshot.nodes[index].same_node) look(index, wanted);
    for (const auto& [index, record] : view.node_records)
        if (record.fence != Fence::none &&
            !std::binary_search(avoided_.nodes.begin(), avoided_.nodes.end(), index))
            look(index, Fence::none);
}

/// One line where avoidance begins, and one where it ends.
void NodeBook::tell(const ClusterView& view) {
    std::map<std::string, std::string> now;
    const auto name = [&](NodeIndex index) { return view.snapshot.nodes[index].name; };
    for (const NodeIndex index : avoided_.nodes)
        now.emplace(fmt::format("node {} is", name(index)), why(name(index)));
    for (const NodePair& pair : avoided_.pairs)
        now.emplace(fmt::format("nodes {} and {} are", name(pair.first), name(pair.second)),
                    "the link between them is slow, and which end is the cause is not known; jobs "
                    "of one node may have them");
    for (const auto& [who, words] : now)
        if (!told_.contains(who)) log(false, fmt::format("{} avoided: {}", who, words));
    for (const auto& [who, words] : told_)
        if (!now.contains(who)) log(false, who + " no longer avoided");
    told_ = std::move(now);
}

std::string NodeBook::why(const std::string& node) const {
    const SlowFact* worst = nullptr;
    const auto at = entries_.find(node);
    if (at == entries_.end()) return {};
    // What its own tools say is why, as far as it is more than to be watched.
    const auto worth = [](const SlowFact& fact) {
        const auto severity = fact.finding ? fact.finding->severity : health::Severity::note;
        return std::tuple(severity, fact.seen, fact.factor);
    };
    for (const SlowFact& fact : at->second.slow)
        if (!(fact.finding && fact.finding->severity < health::Severity::slow) &&
            (!worst || worth(*worst) < worth(fact)))
            worst = &fact;
    return worst ? words_of(*worst) : std::string();
}

bool NodeBook::is_confirmed(const std::string& node) const { return confirmed_.contains(node); }

std::vector<SlowFact> NodeBook::slow(const std::string& node) const {
    const auto at = entries_.find(node);
    return at == entries_.end() ? std::vector<SlowFact>() : at->second.slow;
}

std::vector<std::pair<std::string, Fact>> NodeBook::facts(std::string_view kind) const {
    std::vector<std::pair<std::string, Fact>> list;
    for (const auto& [node, entry] : entries_)
        for (const SlowFact& fact : entry.slow)
            if (kind == "health" && fact.finding)
                list.emplace_back(
                    node, Fact{"health",
                               fact.finding->code,
                               {{"severity", std::string(health::name(fact.finding->severity))}}});
    for (const auto& [node, entry] : entries_)
        for (const Fact& fact : entry.whole().facts)
            if (fact.kind == kind) list.emplace_back(node, fact);
    return list;
}

bool NodeBook::put(const std::string& node, const Fact& fact) {
    Entry& entry = entries_[node];
    if (!entry.extra.broken.empty()) return false;
    drop(node, fact.kind);
    entry.extra.facts.push_back(fact);
    return true;
}

bool NodeBook::takes(const std::string& node) const {
    const auto at = entries_.find(node);
    return at == entries_.end() || at->second.extra.broken.empty();
}

void NodeBook::drop(const std::string& node, std::string_view kind) {
    const auto at = entries_.find(node);
    if (at == entries_.end()) return;
    std::erase_if(at->second.extra.facts, [&](const Fact& fact) { return fact.kind == kind; });
}

std::vector<HostNodes::ExtraChange> NodeBook::take_changes() {
    std::vector<HostNodes::ExtraChange> changes;
    for (auto& [node, entry] : entries_) {
        if (!entry.is_pending()) continue;
        std::string text = format_node_extra(entry.whole());
        if (text.size() <= max_extra_bytes)
            changes.push_back({node, entry.text, std::move(text)});
        else if (!std::exchange(entry.told_full, true))
            log(true, fmt::format("node {}: there is no room in its Extra for what is known of it: "
                                  "{} bytes, {} are possible",
                                  node, text.size(), max_extra_bytes));
    }
    return changes;
}

std::vector<HostNodes::Fencing> NodeBook::take_fencings() { return std::exchange(fencings_, {}); }

bool NodeBook::note_fencing(const std::string& node, const std::string& why) {
    if (why.empty()) return unfenced_.erase(node) != 0;
    return std::exchange(unfenced_[node], why) != why;
}

std::vector<std::string> write_facts(NodeBook& book, Host& host) {
    for (const NodeBook::Line& line : book.take_log())
        line.error ? host.log_error(line.text) : host.log_info(line.text);
    const auto changes = book.take_changes();
    if (changes.empty()) return {};
    std::vector<std::string> written = host.write_extras(changes);
    book.note_written(written);
    return written;
}

Move leave_slow(const std::vector<std::string>& nodes, const NodeBook& book) {
    const std::string why = book.why(nodes.front());
    Move move{.why = "leaves " + join(nodes, ",") + ": " + (why.empty() ? "it was asked to" : why),
              .counts = true,
              .leaves_slow = true};
    if (const auto slow = book.slow(nodes.front()); !slow.empty())
        move.comment = fmt::format("slow={}/{} action=S4", nodes.front(), short_form(slow.front()));
    return move;
}

}  // namespace arena
