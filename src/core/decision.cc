// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/decision.h"

#include "base/names.h"

namespace arena {
namespace {

constexpr std::array<Name<ActionKind>, 5> action_names{
    {{ActionKind::start, "start"},
     {ActionKind::reshape_and_wait, "reshape_and_wait"},
     {ActionKind::resize, "resize"},
     {ActionKind::profile, "profile"},
     {ActionKind::preempt, "preempt"}}};

}  // namespace

std::string_view to_string(ActionKind a) { return name_of(action_names, a); }
std::optional<ActionKind> parse_action_kind(std::string_view s) {
    return value_of(action_names, s);
}

}  // namespace arena
