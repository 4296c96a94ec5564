// SPDX-License-Identifier: GPL-2.0-or-later
// What is known of a slow device: who found it so, how often, until when that holds, and which
// nodes are kept from jobs because of it. Pure rules over values.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "checks/judge.h"
#include "core/cluster.h"
#include "health/finding.h"
#include "plugin/sched/nodes/node_extra.h"
#include "reports/quarantine.h"
#include "reports/slow_report.h"
#include "site/config.h"

namespace arena {

SlowdownRules slowdown_rules(const Config& config);

/// Of a node: what is beyond it has to be forgotten, for the text that keeps them has an end.
inline constexpr std::size_t max_slow_facts = 12;

/// Whose word root's and SlurmUser's is.
inline constexpr std::uint32_t admin_user = 0;
inline constexpr std::uint32_t unnamed_user = UINT32_MAX;

/// A job that found something slow.
struct SlowVoice {
    JobId job = 0;
    std::uint32_t user = unnamed_user;
    bool operator==(const SlowVoice&) const = default;
    /// All jobs of a user are one voice: he may say what he likes by as many as he likes. An
    /// administrator has no need to, and of unknown users nothing is known.
    [[nodiscard]] std::pair<std::uint32_t, JobId> key() const {
        return {user, user == admin_user || user == unnamed_user ? job : 0};
    }
};

/// A device that computes or sends slower than its like, or a link of the node to another one.
struct SlowFact {
    static constexpr std::size_t max_by = 8;
    std::int64_t device = any_gpu;  ///< any_gpu: the whole node
    SlowCause cause = SlowCause::compute;
    std::string peer;           ///< of a link: the other node, which may be the slow one; "" = none
    double factor = 1;          ///< times slower; 1 to 10,000
    std::int64_t seen = 1;      ///< different voices so far
    std::vector<SlowVoice> by;  ///< some, at most max_by; an administrator's Extra names none
    std::int64_t since = 0;     ///< epoch seconds: the first verdict; 0 = not known
    std::int64_t until = 0;     ///< epoch seconds; 0 = until somebody takes it back
    std::int64_t checked = 0;   ///< epoch seconds: the check that confirmed it; 0 = none has
    double confidence = 1;      ///< below 1: jobs suspect it, and nobody has measured it
    std::string driver;         ///< of the device as it was found slow; "" = not known
    /// What the node's own tools say: of this no job and no check has a say, and it stands in the
    /// node's Comment, not in its Extra.
    std::optional<health::Finding> finding = {};
    bool operator==(const SlowFact&) const = default;
};

/// Nothing for a fact of another kind; `why` is set where it is one of this kind and not sound.
std::optional<SlowFact> slow_fact(const Fact& fact, std::string* why);
/// "slow=1:compute:2.10 seen=2 by=7:1000,9:1001 since=... until=...", by=JOB:UID; device "*" for
/// the whole node; of a link "slow=1:communication:3.00 peer=n4 ...", suspected "...
/// suspected=0.97".
Fact fact_of(const SlowFact& slow);

/// Of what a node's own tools say; its factor is the least that is documented.
SlowFact fact_of(const health::Finding& finding);

/// "1:compute:x2.10", as AdminComment has it.
std::string short_form(const SlowFact& slow);
/// "GPU 1 computes 2.1 times slower", "its link to n4 is 3.0 times slower"; of a suspicion with
/// what it rests on.
std::string words_of(const SlowFact& slow);

/// What one job says of one device.
struct SlowVerdict {
    JobId job = 0;
    std::uint32_t user = unnamed_user;  ///< whose word it is
    std::string node;
    std::int64_t device = any_gpu;
    SlowCause cause = SlowCause::compute;
    std::string peer = {};  ///< of a link to another node
    double factor = 1;
    double confidence = 1;  ///< SlowReport::confidence
    bool is_over = false;   ///< what it said of it before holds no longer
};
/// The device is found slow by this job, perhaps again. The latest factor counts. Beyond
/// max_slow_facts the one that ends first is forgotten, of those that no other job has confirmed.
/// A fact without an end, which an administrator wrote, gets none. The fact as it is now.
SlowFact& add_verdict(std::vector<SlowFact>& facts, const SlowVerdict& verdict, std::int64_t now,
                      const SlowdownRules& rules);
/// The job does not find the device slow any more: it counts no more, and the last one takes the
/// fact along. False: it is not among those that are known to have said so.
bool take_back(std::vector<SlowFact>& facts, const SlowVerdict& verdict);

/// A fact of the future is of a clock that was set back since: it begins now, and holds as long as
/// it would have.
void set_back(SlowFact& fact, std::int64_t now);
/// Whether the fact has ended: by its time, because the node has booted since (`booted`, epoch
/// seconds; 0 = not known), or by another driver.
bool is_over(const SlowFact& fact, std::int64_t now, std::int64_t booted,
             const std::string& driver);

/// Whether a check has found healthy what the fact is about. Nothing between nodes is checked; what
/// is held against the whole node needs all of its GPUs.
bool is_cleared(const SlowFact& fact, const CheckVerdict& verdict, bool whole);
/// Where the check found slow what the fact is about: it holds for recheck_s more (without an end:
/// as before), with the factor that was measured.
bool prolong(SlowFact& fact, const CheckVerdict& verdict, std::int64_t now,
             const SlowdownRules& rules);

/// One voice never suffices, unless the site says so; a check does. Nobody's suspicion does.
inline bool is_confirmed(const SlowFact& fact, const SlowdownRules& rules) {
    if (fact.finding) return fact.finding->severity >= health::Severity::slow;
    return fact.checked != 0 || (fact.confidence >= 1 && fact.seen >= rules.confirmations);
}
/// Whether jobs enough say so of a GPU, and nobody who is trusted: then a check has to tell. What
/// is suspected alone is checked at one job's word.
bool wants_check(const SlowFact& fact, const SlowdownRules& rules);

}  // namespace arena
