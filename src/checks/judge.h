// SPDX-License-Identifier: GPL-2.0-or-later
// Whether a checked GPU or link is slow: each is compared with what it took before, or, where that
// is not known, with what others of its type take. Pure; the rule is slowdown/locate.h's.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "checks/node_check.h"

namespace arena {

/// What a time is held against.
struct Reference {
    enum class From {
        own,      ///< earlier checks of the same device, when it was healthy
        others,   ///< checks of the same type's devices of other nodes
        beside,   ///< the other GPUs of this very check
        profile,  ///< a profile of the type: shorter samples, at other clocks
    };
    double seconds = 0;
    From from = From::own;
};
/// "its own earlier checks"
std::string_view words_of(Reference::From from);

struct References {
    std::map<std::pair<std::int64_t, OpShape>, Reference> products;    ///< device, product
    std::map<std::pair<std::int64_t, std::int64_t>, Reference> links;  ///< from, to
};
/// Those of an earlier check of the same devices.
References references_of(const NodeCheck& before, Reference::From from = Reference::From::own);
/// Fills in, for GPUs that have none and that are several (by their UUIDs), what the others of this
/// check take.
void add_beside(const NodeCheck& check, References& known);

struct DeviceVerdict {
    enum class State { healthy, slow, unknown };  ///< unknown: nothing to compare it with
    std::int64_t device = 0;
    State state = State::unknown;
    double factor = 1;  ///< times slower, of its slowest product
    Reference::From from = Reference::From::own;
};
struct LinkVerdict {
    std::int64_t from = 0, to = 0;
    double factor = 1;
};
struct CheckVerdict {
    std::vector<DeviceVerdict> devices;   ///< all that were checked, by index
    std::vector<LinkVerdict> slow_links;  ///< the slowest first
    [[nodiscard]] bool is_slow() const;
    /// No device is slow, and each was compared with something.
    [[nodiscard]] bool is_healthy() const;
};

/// Slower than this times the reference is slow: GPUs as LocateLimits has it; against a profile,
/// whose samples are shorter, 1.3.
inline constexpr double profile_limit = 1.3;
CheckVerdict judge(const NodeCheck& check, const References& known);

/// "GPU 1 computes 2.1 times slower than its own earlier checks; link 0>1 is 1.4 times slower", or
/// "healthy beside its own earlier checks", or that there is nothing to compare with.
std::string words_of(const CheckVerdict& verdict);

}  // namespace arena
