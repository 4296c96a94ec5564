// SPDX-License-Identifier: GPL-2.0-or-later
// A decision that can be repeated: all arguments of a policy in one document. The plug-in's socket
// answers `snapshot` with it, `arena snapshot replay` and the golden tests read it.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "policy/policy.h"

namespace arena {

struct Replay {
    Snapshot snapshot;
    Offers offers;
    PolicyOptions options;
    std::string policy = {};  ///< that decided; "" = not said
    bool operator==(const Replay&) const = default;
};

/// {"schema_version":1,"policy":"fifo","snapshot":{..},"offers":{..},"options":{"reserve_depth":N,"seed":N,..}};
/// policy, options and each of its members (those of PolicyOptions) may be absent. Same limits as
/// the values' own readers.
std::string to_json(const Replay&);
Result<Replay> parse_replay(std::string_view);

}  // namespace arena
