// SPDX-License-Identifier: GPL-2.0-or-later
// SlowReport: what the chief of a watched job says of a GPU or a link that has become slow. It
// travels from a node as the text of `scontrol update Comment=...`, as reports of iteration times
// do (core/observation.h), and is untrusted.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "slowdown/cause.h"

namespace arena {

using SlowCause = slowdown::Cause;
/// What the job does about it by itself (S2: other micro-batches, S3: other roles), or asks for
/// (S4: to be restarted elsewhere).
enum class SlowAction { none, s2, s3, s4 };
inline constexpr std::array<std::string_view, 4> slow_actions{"none", "S2", "S3", "S4"};
std::string_view to_string(SlowAction);
std::optional<SlowCause> parse_slow_cause(std::string_view);
std::optional<SlowAction> parse_slow_action(std::string_view);

inline constexpr std::int64_t any_gpu = -1;

/// A GPU, by its index on the node as Slurm counts its GRES, or a node as a whole.
struct SlowPlace {
    std::string node;  ///< "" = there is none
    std::int64_t gpu = any_gpu;
    bool operator==(const SlowPlace&) const = default;
};
/// "n3/1", "n3".
std::string to_string(const SlowPlace&);

/// One event of one life of the job. It is said again when what is known of it has changed: the
/// latest counts, `lost_s` only grows, and `relief` ends it.
struct SlowReport {
    std::uint32_t life = 0;  ///< SLURM_RESTART_COUNT
    std::int64_t onset = 0;  ///< epoch seconds: the first slow step
    SlowPlace at;            ///< compute: a GPU, or the node where its number is not known;
                             ///< nowhere where the cause is unknown
    SlowPlace peer;          ///< communication: the other end of the link, on another node or GPU
    SlowCause cause = SlowCause::compute;
    double factor = 0;  ///< slower than healthy, (1, 1000]; cause unknown: of the steps
    /// (0, 1]. 1: measured, by a check. Below it is suspected, by who waits for whom alone.
    double confidence = 1;
    SlowAction action = SlowAction::none;
    double lost_s = 0;        ///< of the job so far, 0..1e8: sum of step time over healthy time
    std::int64_t relief = 0;  ///< epoch seconds: since when it is over; 0 = it goes on
    std::int64_t steps = 0;   ///< of the job that were watched so far; 0..2^40
    [[nodiscard]] bool is_suspicion() const { return confidence < 1; }
    bool operator==(const SlowReport&) const = default;
};

/// Whether two reports are of one event.
bool same_event(const SlowReport&, const SlowReport&);
/// "n3/1:compute:x2.1", "n3+n4:communication:x3.0", "steps:unknown:x1.9": one word. Of a suspicion
/// "n3/1:compute:x2.1:suspected=0.97".
std::string slow_word(const SlowReport&);

inline constexpr std::string_view slow_report_prefix = "arena:slow;";

/// Ranges, and what goes together; the sentence names the option of `arena slowdown report`.
Status check_slow_report(const SlowReport&);
/// "arena:slow;life=0;onset=1763887000;at=n3/1;cause=compute;factor=2.1;action=S2;lost_s=41", and
/// where there are any ";confidence=0.97", ";steps=120", ";peer=n4", ";relief=1763887100".
std::string format_slow_report(const SlowReport&);
/// Untrusted: at most 512 bytes, every key once, values in range. Whether the job, its node and its
/// GPU are there is not known here.
Result<SlowReport> parse_slowdown_report(std::string_view);
/// "n3/1" or "n3"; of the `key` that it is named by in the error.
Result<SlowPlace> parse_slow_place(std::string_view text, std::string_view key);

}  // namespace arena
