// SPDX-License-Identifier: GPL-2.0-or-later
// gres.conf as slurmd reads it (Slurm's parse_config.c and gres.c): which devices the lines of a
// node name, and what keeps slurmd from starting. Left out: counts, cores, links and flags, and
// what AutoDetect finds. Not the Gres= of a node: that is parse_gres_config().
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace arena {

/// A line that begins with Name or NodeName.
struct GresLine {
    std::vector<std::string> nodes;  ///< of its NodeName; none = it has no NodeName: every node's
    bool has_nodes = false;
    std::string name, type, auto_detect;  ///< "" = not said
    std::vector<std::string> files;       ///< of File, Files or MultipleFiles, expanded
};

struct GresConf {
    std::vector<GresLine> lines;             ///< those of included files behind the others
    std::string auto_detect;                 ///< of the line that has it alone; "" = none
    std::vector<std::string> faults;         ///< "FILE:LINE: ...": slurmd does not start
    std::vector<std::string> includes = {};  ///< not yet followed; none from read_gres_conf()
};

/// One text, whose Include lines end in `includes`, each "LINE FILE", and in no line.
GresConf parse_gres_conf(std::string_view text, std::string_view file);
/// At most 64 files, 1 MiB each. A file that cannot be read is an error; one that an Include names
/// is a fault.
Result<GresConf> read_gres_conf(const std::string& path);
/// Whether slurmd goes by it on the node.
bool applies_to(const GresLine&, const std::vector<std::string>& names_of_node);

/// "/dev/nvidia[0-1],/dev/x" -> "/dev/nvidia0", "/dev/nvidia1", "/dev/x"; at most 65536.
std::vector<std::string> expand_list(std::string_view list);

}  // namespace arena
