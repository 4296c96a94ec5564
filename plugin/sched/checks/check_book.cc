// SPDX-License-Identifier: GPL-2.0-or-later
// See check_book.h: what becomes of checks that ran. check_start.cc starts them.
#include "plugin/sched/checks/check_book.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace arena {
namespace {

constexpr double retry_s = 10;
/// What the latest check of a node found is shown so long.
constexpr double shown_s = 86400;
constexpr Refusals::Pace pace{5, 300, 1200};

bool is_suspected(const std::vector<SlowFact>& facts, std::int64_t device) {
    return std::any_of(facts.begin(), facts.end(), [&](const SlowFact& fact) {
        return fact.device == any_gpu || fact.device == device;
    });
}

/// Whether what was checked says something of what is held against the node.
bool covers(const CheckVerdict& verdict, const std::vector<SlowFact>& facts, bool whole) {
    return whole ||
           std::any_of(verdict.devices.begin(), verdict.devices.end(),
                       [&](const DeviceVerdict& d) { return is_suspected(facts, d.device); });
}

}  // namespace

CheckBook::CheckBook(Host& host, const Config& config, Measurements& measurements, NodeBook& nodes,
                     const ServiceUser& user)
    : host_(host),
      config_(config),
      measurements_(measurements),
      nodes_(nodes),
      user_(user),
      spool_(spool_source(config.profile_spool, user.id)),
      refusals_(pace) {}

bool CheckBook::ask(const std::string& node, std::string& why) {
    if (!user_.known) {
        why = "profile.user '" + config_.profile_user + "' of arena.yaml cannot run checks";
        return false;
    }
    Entry& entry = entries_[node];
    entry.asked = true;
    entry.whole_only = false;
    entry.tries = 0;
    entry.next_try_s = 0;
    refusals_.forget(node);
    return true;
}

void CheckBook::forget(const std::string& node) {
    const auto at = entries_.find(node);
    if (at == entries_.end()) return;
    at->second.asked = false;
    at->second.due_until = 0;
}

bool CheckBook::is_wanted(const std::string& node) const {
    const auto at = entries_.find(node);
    return at != entries_.end() && (at->second.wanted() || at->second.carrier != 0);
}

/// Only what a check can tell of: nothing is measured between nodes.
bool CheckBook::waits_for(const std::string& node, const SlowFact& fact, std::int64_t now) {
    if (!can_check() || !config_.profile_enabled || fact.cause != SlowCause::compute) return false;
    const auto known = entries_.find(node);
    if (known != entries_.end() && fact.until <= known->second.given_up) return false;
    if (static_cast<double>(now) > static_cast<double>(fact.until) + config_.slowdown_recheck_s)
        return false;
    entries_[node].due_until = fact.until;
    return true;
}

/// Not again before a job has said so since the latest check that told nothing.
void CheckBook::wants(const std::string& node, const SlowFact& fact) {
    if (!can_check() || !config_.profile_enabled || fact.until == 0) return;
    const auto known = entries_.find(node);
    const auto holds_s = static_cast<std::int64_t>(std::ceil(config_.slowdown_recheck_s));
    if (known != entries_.end() && fact.until <= known->second.given_up + holds_s) return;
    entries_[node].due_until = fact.until;
}

bool CheckBook::has_work() const {
    return std::any_of(entries_.begin(), entries_.end(),
                       [](const auto& entry) { return entry.second.wanted(); });
}

std::size_t CheckBook::running() const {
    return static_cast<std::size_t>(std::count_if(
        entries_.begin(), entries_.end(), [](const auto& e) { return e.second.carrier != 0; }));
}

void CheckBook::take_in(ClusterView& view) {
    steady_s_ = view.steady_s;
    time_s_ = view.snapshot.time_s;
    for (auto& [node, entry] : entries_) {
        entry.carrier = 0;
        entry.due_until = 0;  // unless NodeBook still waits for it
    }
    std::set<JobId> listed;
    std::erase_if(view.carriers, [&](const CarrierView& carrier) {
        if (request_kind(carrier.request) != RequestKind::check) return false;
        // Somebody else's is none; one that never ran has nothing to tell.
        if (user_.known && carrier.user_id == user_.id && !carrier.node.empty()) {
            listed.insert(carrier.id);
            follow(carrier);
        }
        return true;
    });
    std::erase_if(runs_, [&](const auto& run) { return !listed.contains(run.first); });
    std::erase_if(entries_, [&](const auto& item) {
        const Entry& entry = item.second;
        return !entry.wanted() && entry.carrier == 0 &&
               (entry.last.empty() || time_s_ > entry.last_s + shown_s);
    });
    refusals_.forget_old(steady_s_, [](const std::string&) { return true; });
}

void CheckBook::follow(const CarrierView& carrier) {
    Run& run = runs_[carrier.id];
    if (!carrier.finished) {
        run.ours = true;
        entries_[carrier.node].carrier = carrier.id;
        return;
    }
    if (run.done || !measurements_.store()) return;
    const auto request = parse_check_request(carrier.request);
    if (!request) {
        run.done = true;
        return;
    }
    take_result({carrier, *request, run});
    // Until then nothing else begins there.
    if (!run.done) entries_[carrier.node].carrier = carrier.id;
}

bool CheckBook::may_come(Run& run, double grace_s) const {
    if (!run.ended_s) run.ended_s = steady_s_;
    return steady_s_ < *run.ended_s + grace_s;
}

void CheckBook::take_result(const Ended& ended) {
    const std::string& nonce = ended.request.nonce;
    const auto known = measurements_.store()->checks().knows(nonce);
    if (known && *known) {
        ended.run.done = true;
        return;
    }
    const auto check = spool_.check(nonce);
    if (!check) {
        if (!may_come(ended.run, silence_grace_s))
            fails(ended, "the profile spool " + config_.profile_spool + " does not answer");
        return;
    }
    if (!*check && check->error().code == ErrorCode::no) {
        if (!may_come(ended.run, result_grace_s))
            fails(ended,
                  "its carrier ended without a result: it was cancelled, its node failed, "
                  "or no Prolog of Arena's runs there");
        return;
    }
    if (!*check) return fails(ended, check->error().message());
    const NodeCheck& result = **check;
    const bool answers =
        result.gpu_type == ended.request.gpu_type && result.hardware == ended.request.hardware;
    if (!answers) return fails(ended, "the result is for another request");
    // Of a run that was ended the Prolog writes it, by the host's name.
    if (!result.failure.empty()) return fails(ended, result.failure);
    if (result.node != ended.carrier.node)
        return fails(ended, "the result is of another node: " + result.node);
    judge_check(ended, result);
}

void CheckBook::judge_check(const Ended& ended, const NodeCheck& check) {
    auto known = measurements_.store()->checks().references(check);
    if (!known) return fails(ended, known.error().message());
    add_beside(check, *known);
    add_profiled(check, *known);
    const CheckVerdict verdict = judge(check, *known);
    if (auto kept = measurements_.store()->checks().keep(check, verdict); !kept) {
        // Another process holds the store, or the disk is full: the result waits in the spool for a
        // moment. It is of use without the store, where it would only be held against later ones.
        if (may_come(ended.run, result_grace_s)) return;
        host_.log_error(kept.error().message() + "; the check counts, and is not remembered");
    }
    conclude(ended, check, verdict);
}

/// Of the very same model of GPU, driver and library.
void CheckBook::add_profiled(const NodeCheck& check, References& known) {
    for (const CheckedDevice& device : check.devices) {
        const auto measured =
            measurements_.store()->measured_on(check.gpu_type, device.device.identity());
        if (!measured) return;
        for (const ProfileEntry& entry : *measured)
            known.products.try_emplace({device.index, entry.shape},
                                       Reference{entry.seconds, Reference::From::profile});
    }
}

void CheckBook::conclude(const Ended& ended, const NodeCheck& check, const CheckVerdict& verdict) {
    ended.run.done = true;
    const std::string& node = check.node;
    const std::vector<SlowFact> facts = nodes_.slow(node);
    Entry& entry = entries_[node];
    const bool one_type = entry.type.empty() && entry.next_type.empty();
    const bool all_free =
        one_type ? ended.request.devices >= ended.request.node_devices : entry.whole_type;
    const bool whole = all_free && entry.next_type.empty() && entry.others_healthy;
    entry.last = words_of(verdict) + (one_type ? "" : " on " + check.gpu_type) +
                 (all_free ? "" : "; not all of its GPUs were free");
    entry.last_s = time_s_;
    const std::string line =
        fmt::format("node {} checked (JobId={}): {}", node, ended.carrier.id, entry.last);
    verdict.is_slow() ? host_.log_error(line) : host_.log_info(line);
    ++(verdict.is_slow() ? counts_.slow : verdict.is_healthy() ? counts_.healthy : counts_.unknown);
    const NodeCheckNews news{.node = node,
                             .driver = check.devices.front().device.driver,
                             .whole = whole,
                             .verdict = verdict};
    if (!entry.next_type.empty()) {
        entry.others_healthy = entry.others_healthy && all_free && verdict.is_healthy();
        entry.type = std::exchange(entry.next_type, {});
        return nodes_.note_check(news);
    }
    entry.type.clear();
    entry.others_healthy = true;
    if (!facts.empty() && !covers(verdict, facts, whole)) {
        entry.whole_only = true;  // it goes on waiting for the GPU that is suspected
        return;
    }
    nodes_.note_check(news);
    if (whole && verdict.is_healthy()) healthy_.push_back(node);
    give_up(entry);
}

/// Facts whose time is over and that the check did not prolong run out.
void CheckBook::give_up(Entry& entry) {
    entry.asked = entry.whole_only = false;
    entry.type.clear();
    entry.next_type.clear();
    entry.others_healthy = true;
    entry.tries = 0;
    entry.waits.clear();
    entry.given_up = static_cast<std::int64_t>(time_s_);
}

void CheckBook::fails(const Ended& ended, const std::string& why) {
    ended.run.done = true;
    if (!ended.run.ours) return;  // of an earlier life: counted and told of there
    ++counts_.failed;
    const std::string& node = ended.carrier.node;
    Entry& entry = entries_[node];
    ++entry.tries;
    entry.next_try_s = steady_s_ + retry_s;
    entry.last = "failed: " + printable(why, 300);
    entry.last_s = time_s_;
    host_.log_error(fmt::format("check of node {} (JobId={}) failed: {} (try {} of {})", node,
                                ended.carrier.id, printable(why, 300), entry.tries, max_tries));
    if (entry.tries >= max_tries) give_up(entry);
}

}  // namespace arena
