// SPDX-License-Identifier: GPL-2.0-or-later
// Measured times of collectives: who talks (ranks, nodes, how many groups at once), how much, how
// long. Written by `arena-profiler comm`, kept in the profile store. Bus bandwidth as nccl-tests
// defines it, so that numbers can be compared with what sites measure already.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace arena {

enum class CommOp { all_reduce, all_gather, reduce_scatter, all_to_all, send };
std::string_view to_string(CommOp);
/// Words of to_string(); '-' stands for '_' too.
std::optional<CommOp> parse_comm_op(std::string_view);

/// How far apart the nodes of a group lie: in one leaf, over leaves of a pod, over pods, or in one
/// NVLink domain. unsaid: nobody knows, or it is one node.
enum class CommSpan : std::uint8_t { unsaid, leaf, pod, pods, domain };
std::string_view to_string(CommSpan);  ///< "" for unsaid
std::optional<CommSpan> parse_comm_span(std::string_view);

struct CommTime {
    std::string gpu_type;  ///< GRES type
    CommOp op = CommOp::all_reduce;
    std::int64_t ranks = 2;   ///< of one group
    std::int64_t nodes = 1;   ///< that the group touches, the same number of ranks on each
    std::int64_t groups = 1;  ///< of the same kind that communicated at the same time
    std::int64_t bytes = 1;   ///< nccl-tests' size: the larger of a rank's two buffers
    double min_s = 0, median_s = 0, p95_s = 0;
    CommSpan span = CommSpan::unsaid;
    bool operator==(const CommTime&) const = default;
};
/// gpu_type a name, ranks 2..limits::gpus, nodes 1..ranks and a divisor, groups 1..limits::gpus,
/// bytes 1..2^50, 0 < min <= median <= p95 <= 3600 s; a span of several nodes alone.
Status check_comm_time(const CommTime&);

/// Bytes per second that each rank's link carried: bytes / median times 2(n-1)/n for an all-reduce,
/// (n-1)/n for all-gather, reduce-scatter and all-to-all, 1 for a send.
double bus_bytes_per_s(const CommTime&);

inline constexpr std::size_t max_comm_bytes = 64 << 20;
/// Columns by name in the first line: op; ranks or group_size; nodes or hosts_crossed; groups or
/// concurrent_groups; bytes; median_s or time_s; min_s, p95_s (default: the median); span: leaf,
/// pod, pods, domain, node of one node, or nothing (default: nothing); gpu_type
/// (default: `gpu_type`). A column `table` names several tables in one file: `table` says which one
/// ("" = the only one). `gpu_type` not empty replaces the column. Rows beyond the limits of
/// check_comm_time() and keys that come twice are refused with their line; lines over 4096 bytes
/// and files over max_comm_bytes too.
Result<std::vector<CommTime>> parse_comm_csv(std::string_view text, const std::string& gpu_type,
                                             const std::string& table);
/// The same with today's column names.
std::string to_csv(const std::vector<CommTime>&);

}  // namespace arena
