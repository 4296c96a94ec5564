// SPDX-License-Identifier: GPL-2.0-or-later
#include "policy/policy.h"

#include "base/names.h"

namespace arena {
namespace {

constexpr std::array<Name<Objective>, 3> objectives{{{Objective::jct, "jct"},
                                                     {Objective::throughput, "throughput"},
                                                     {Objective::fairness, "fairness"}}};

constexpr std::array<Name<QueueOrder>, 2> orders{
    {{QueueOrder::priority, "priority"}, {QueueOrder::value, "value"}}};

}  // namespace

std::string_view to_string(QueueOrder order) { return name_of(orders, order); }
std::optional<QueueOrder> parse_queue_order(std::string_view text) {
    return value_of(orders, text);
}
std::string_view to_string(Objective objective) { return name_of(objectives, objective); }
std::optional<Objective> parse_objective(std::string_view text) {
    return value_of(objectives, text);
}

}  // namespace arena
