// SPDX-License-Identifier: GPL-2.0-or-later
// What the agents, the trainer and the chief of a watched job say to each other. The chief listens,
// the others call it. Values alone: who may speak is sealed_line.h's, how lines travel link.h's.
// Untrusted until parsed: any process of the job can write to the chief's port.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"

namespace arena::watch {

inline constexpr std::size_t longest_frame = 1 << 20;  ///< bytes of a frame's text
inline constexpr std::int64_t most_ranks = 65'536;

/// A caller of the chief's, as long as it is connected; never given again.
using PeerId = std::uint64_t;

// ---- agent -> chief ----------------------------------------------------------------------------

/// The first frame of an agent.
struct AgentHello {
    std::string node;
    std::int64_t poll_ms = 5000;
};
/// A rank whose ring the agent reads; said again when a fact of it changes.
struct RankHere {
    std::int64_t rank = 0, ranks = 0;  ///< ranks 0: not known
    std::int64_t gpu = -1;  ///< index on the node as Slurm counts its GRES; -1: not known
};
/// Iterations of one rank that have ended since the last such frame.
struct Iterations {
    std::int64_t rank = 0;
    std::int64_t series = 0;  ///< another number: other calls are timed, no baseline of these
    struct One {
        std::int64_t end_ms = 0;   ///< epoch
        std::int64_t time_us = 0;  ///< > 0
        std::int64_t tokens = 0;   ///< 0: not said
    };
    std::vector<One> done;  ///< in their order, at most 4,096
};
/// What one rank's calls of each communicator took in some iterations, while it was profiled.
struct GroupTimes {
    std::int64_t rank = 0;
    struct One {
        std::string group;            ///< the communicator, the same on all its ranks
        std::string kind;             ///< what its calls are: "all_reduce", "send", ...
        std::int64_t bytes = 0;       ///< median over the iterations
        std::int64_t peer = -1;       ///< of sends and receives: rank in the communicator; -1: none
        std::vector<double> seconds;  ///< of each iteration
    };
    std::vector<One> groups;     ///< at most 1,024
    std::vector<double> step_s;  ///< each iteration; at most most_profiled
};
inline constexpr std::size_t most_profiled = 64;
/// No call for `seconds` while ranks live: nothing is known of them. Said once.
struct Silent {
    std::int64_t rank = 0;
    double seconds = 0;
};
/// Watching these ranks cost more than allowed, and was thinned out, or has stopped.
struct TooDear {
    double share = 0;  ///< of the step time
    bool stopped = false;
};

// ---- trainer (rank 0) -> chief -----------------------------------------------------------------

/// The first frame of a trainer. Index: rank as started.
struct TrainerHello {
    std::vector<std::string> nodes;
    std::vector<std::int64_t> gpus;  ///< as RankHere::gpu
};
/// What the chief may ask of this run. Ranks as started: (stage * dp + replica) * tp + shard.
struct TrainerPlan {
    std::int64_t dp = 1, pp = 1, tp = 1;
    std::vector<std::int64_t> micro_batches;  ///< of each replica, now
    double gradient_bytes = 0;                ///< all-reduced by each rank of a stage's ring
    double activation_bytes = 0;              ///< between two stages, of one micro-batch
    std::vector<double> state_bytes;          ///< parameters and moments of a rank, by stage
    double link_bytes = 0;                    ///< that one transfer of a check carries
    bool same_state_in_stage = true;          ///< replicas hold the same
    bool checkpoints = false;                 ///< it can be restarted (S4)
    double restart_s = 0;                     ///< what a restart costs; 0: not known
};
/// A step has ended.
struct StepDone {
    std::int64_t step = 0;  ///< from 1
    std::int64_t end_ms = 0;
    double seconds = 0;
    std::int64_t tokens = 0;
    /// Of each replica: seconds of computing per micro-batch of its slowest stage, communication
    /// left out.
    std::vector<double> micro_batch_s;
};
/// A word was obeyed before this step.
struct Obeyed {
    std::int64_t step = 0;
    std::string word;
    double seconds = 0;
};
/// Answer to a word "check": ranks as started.
struct Checked {
    std::int64_t id = 0;
    struct Gpu {
        std::int64_t rank = 0;
        double ms = 0;  ///< of the same matrix product everywhere; > 0
        std::string type;
    };
    struct Link {
        std::int64_t from = 0, to = 0;
        double ms = 0;          ///< there the same bytes everywhere, back the smallest message; > 0
        double latency_ms = 0;  ///< of the smallest message; >= 0
    };
    std::vector<Gpu> gpus;
    std::vector<Link> links;
    double seconds = 0;   ///< that training stood still
    std::string failure;  ///< why nothing was found: a rank or link hung; "" = all was measured
};

// ---- chief -> agent ----------------------------------------------------------------------------

/// Timings are wanted for so many iterations; 0: no more.
struct Profile {
    std::int64_t iterations = 0;
};
/// An event is open, or none is: a trainer leaves these steps out of the iteration time that it
/// reports.
struct EventOpen {
    bool open = false;
};

// ---- chief -> trainer --------------------------------------------------------------------------

/// Obeyed before the next step: "split 5,3", "swap 0 2", "park 5s", "check ID gpus", "check ID
/// links 0>1,2>3|1>2": passes apart by |, which run one after another; "check ID gpus links ...".
struct Say {
    std::string word;
};
/// A park ends now.
struct Release {};
/// A line for the job's own output: something is slow, or went wrong.
struct Tell {
    std::string text;  ///< at most longest_tell bytes
};
inline constexpr std::size_t longest_tell = 512;
/// EventOpen goes to the trainer, too.

/// All of them.
using Frame =
    std::variant<AgentHello, RankHere, Iterations, GroupTimes, Silent, TooDear, TrainerHello,
                 TrainerPlan, StepDone, Obeyed, Checked, Profile, EventOpen, Say, Release, Tell>;

/// One line of JSON without its end: {"type":"step_done","step":7,...}.
std::string format_watch_frame(const Frame&);
/// Untrusted: at most longest_frame bytes, every number finite and in range, every list bounded,
/// unknown keys left out.
Result<Frame> parse_watch_frame(std::string_view);

}  // namespace arena::watch
