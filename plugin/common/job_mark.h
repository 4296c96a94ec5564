// SPDX-License-Identifier: GPL-2.0-or-later
// JobMark: Arena's state of one job, kept in Slurm's own job record as the one versioned entry
// "ARENA_STATE=..." of details->env_sup, so that it is saved, restored and failed over with the
// job. It is written before Arena acts (the intent); a hold that no mark explains belongs to
// somebody else.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace arena {

inline constexpr std::string_view state_variable = "ARENA_STATE";
/// The user's own excludes, while Arena's are in their place.
inline constexpr std::string_view excludes_variable = "ARENA_EXCLUDES";
/// The user's own --segment (0: none), while the plan's is in its place.
inline constexpr std::string_view segment_variable = "ARENA_SEGMENT";

enum class Phase {
    held,      ///< Arena holds the job and may plan it
    released,  ///< shape written, priority given: Slurm's own backfill reserves and may start it
    starting,  ///< shape written, select_nodes() called; Slurm may be preempting for it
    started,   ///< runs, or ran, under Arena's plan
    checkpointing,  ///< signalled; expected to exit with the requeue code, then held again
    off,            ///< the user opted out: an ordinary job from now on
    observed,  ///< let go as an ordinary job while Arena only observes; taken back when it acts
};
std::string_view to_string(Phase);

/// Who else holds the job; Arena does not plan it until the hold is released.
enum class OtherHold { none, user, admin };
std::string_view to_string(OtherHold);

/// A node that a job is not to start on again before that time.
struct AvoidedNode {
    std::string node;
    std::int64_t until = 0;  ///< epoch seconds
    bool operator==(const AvoidedNode&) const = default;
};

struct JobMark {
    static constexpr std::size_t max_moves = 12, max_avoided = 4, max_node_bytes = 48;
    static constexpr std::size_t max_took = 3;
    /// A wait between leaving and starting counts for a move up to so many seconds: it is Slurm's
    /// requeue. A longer one is the queue's, and counts for nothing.
    static constexpr std::int64_t most_requeue_s = 60;
    static constexpr std::int64_t most_took_s = 86400;  ///< of either part; longer is no move
    /// What a move took, in seconds: from the signal until the job had left and been requeued, and
    /// from its start to its first step; 0: nobody said.
    struct Took {
        std::int64_t leave_s = 0, start_s = 0;
        bool operator==(const Took&) const = default;
    };
    Phase phase = Phase::held;
    std::uint32_t restart = 0;  ///< job_ptr->restart_cnt when the mark was written
    OtherHold hold = OtherHold::none;
    std::int64_t since = 0;  ///< epoch seconds: when the phase began (checkpoint deadline)
    std::int64_t done = 0;   ///< iterations up to its last checkpoint, as far as known
    std::vector<std::int64_t> moves =
        {};  ///< epoch seconds of Arena's own resizes, oldest first, at most max_moves
    std::int64_t waited_since =
        0;  ///< epoch seconds: since when it waited for its first start; 0 = had none
    std::vector<AvoidedNode> avoid = {};  ///< at most max_avoided, the latest wish last
    std::uint32_t array = 0;    ///< the job that trains it as one of its members; 0 = none
    std::int64_t lost = 0;      ///< how often such a job has ended under it
    std::int64_t saved = 0;     ///< checkpointing: `done` before it was told to save, should it not
    int signal = 0;             ///< checkpointing: what it was told by; 0 = not known
    std::uint32_t unsaved = 0;  ///< moves in a row that it left without a checkpoint
    /// Epoch seconds of the move under way: when it was told to leave, when it had; 0 = not yet.
    std::int64_t leaves_at = 0, left_at = 0;
    std::vector<Took> took = {};  ///< of its last moves, the oldest first, at most max_took
    std::uint32_t plan =
        0;              ///< of this life: how many it was given inside the job, after its first
    bool asks = false;  ///< checkpointing: its script has ended the step, and asks for a plan
    /// What its last moves inside the job took, in seconds from the signal to the first step, the
    /// oldest first, at most max_took.
    std::vector<std::int64_t> stayed = {};
    /// Of a later version of Arena, which this one replaced: nothing but who holds the job is
    /// known, and neither the job nor its mark is touched.
    bool newer = false;
    bool operator==(const JobMark&) const = default;
};

/// The mark of the phase that begins `now`; the history of the one before stays, but for nodes that
/// need not be avoided any more. Who is held is no member; one that is so in another life than it
/// was one in has lost its array, where that is lost: else it came back by itself, or was to.
/// One that is held in another life than it was told to save in has done so: see left_unsaved().
JobMark next_mark(const std::optional<JobMark>& before, Phase, std::uint32_t restart, OtherHold,
                  std::int64_t now, bool array_is_lost = false);

/// The job has said how long it took from its start to its first step. False where nothing came of
/// that: it was not moved, or has said so before.
bool note_start(JobMark& mark, double start_s);
/// The same of its last move inside the job: its first step was done at `first_step`, epoch
/// seconds.
bool note_stay(JobMark& mark, double first_step);

/// The mark of a job that was told to save its state, and goes on inside itself with its next plan.
JobMark stays(JobMark before, std::int64_t now);

/// One more among its moves per hour; beyond max_moves the oldest is dropped.
void add_move(JobMark& mark, std::int64_t at);

/// The mark of a job that ended its life `restart - 1` without the checkpoint that it was told to
/// make: it goes on from the one before, and the hold of its next life is Arena's.
JobMark left_unsaved(JobMark mark, std::uint32_t restart, std::int64_t now);
/// The same of one that has made it, and did not say so in a way that Slurm hears.
JobMark left_saved(JobMark mark, std::uint32_t restart, std::int64_t now);

/// The job avoids these nodes, too, a known one until the later time. Beyond max_avoided the oldest
/// wish is dropped; a name of more than max_node_bytes is not taken.
void add_avoided(JobMark& mark, const std::vector<AvoidedNode>& nodes);

/// "v=1;phase=held;restart=0;hold=none;since=1700000000" (without the variable name; later versions
/// begin with "v=N;", too, and keep the words of `hold`), and where there are any
/// ";done=4000;waited=1690000000;moves=1700000000,1700000900;avoid=n3@1700003600,n7@1700000900",
/// ";array=4711;lost=1", ";saved=3000;signal=10", ";unsaved=1", ";leaves=1700000900",
/// ";left=1700000912", ";took=12+8,13+0", ";plan=2", ";asks=1", ";stayed=3,2".
std::string format_mark(const JobMark&);
/// Nothing for an unknown phase or malformed text. More than 1024 bytes is malformed. What begins
/// with "v=N;", N above 1, is a later version's, whatever follows: a `hold` that this version does
/// not know is an administrator's.
std::optional<JobMark> parse_mark(std::string_view text);

}  // namespace arena
