// SPDX-License-Identifier: GPL-2.0-or-later
// What a node's own tools say is wrong with it, and how that travels: as one word of the node's
// Comment, which the node's root writes and slurmctld saves. Extra is Arena's to write: each of the
// two fields has one writer, so none of them undoes what the other said.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace arena::health {

/// Ascending. `note`: told to who asks, and not reported; `watch`: shown; `slow` and `gone`: jobs
/// keep off the node.
enum class Severity { note, watch, slow, gone };
std::string_view name(Severity);

struct Finding {
    std::string code;            ///< of a sign: "xid79", "hw_thermal"; see signs.h
    std::string place = "node";  ///< "gpu2", "0000:3b:00" (a GPU whose index is not known),
                                 ///< "gpu2.link4", "mlx5_0.1" (a port), "node"
    Severity severity = Severity::watch;
    /// Epoch seconds: when the kernel said it last, else since when it has been reported; 0 = not
    /// known.
    std::int64_t at = 0;
    bool operator==(const Finding&) const = default;
};

/// Index of the GPU, as the driver counts; nothing for another place.
std::optional<std::int64_t> gpu_of(const Finding&);
/// "GPU 2: XID 79, it has fallen off the bus"; of a code that is not known here its name.
std::string words_of(const Finding&);

inline constexpr std::size_t max_findings = 24;

/// A node's Comment: what is Arena's of it, and what is not.
struct NodeComment {
    std::string before, after;  ///< not Arena's
    std::vector<Finding> findings;
    std::string broken;  ///< why Arena's word says nothing; "" = it is sound
    bool operator==(const NodeComment&) const = default;
};

inline constexpr std::string_view comment_mark = "arena:health:";

/// "BEFORE arena:health:v1;gone=xid79/gpu2@1790000000;watch=xid63/gpu1@1790000100 AFTER". Of any
/// bytes; at most max_findings, 64 bytes a code or place.
NodeComment parse_health_comment(std::string_view text);
/// The same again; without a finding what is not Arena's alone.
std::string format_health_comment(const NodeComment& comment);

}  // namespace arena::health
