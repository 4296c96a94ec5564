// SPDX-License-Identifier: GPL-2.0-or-later
// The signals that can tell a job to save its state and leave: those that a program can handle, and
// that mean nothing else to a batch system.
#pragma once

#include <array>
#include <csignal>
#include <optional>
#include <string_view>

#include "base/names.h"

namespace arena {

inline constexpr std::array<Name<int>, 8> leave_signals{{{SIGUSR1, "USR1"},
                                                         {SIGUSR2, "USR2"},
                                                         {SIGTERM, "TERM"},
                                                         {SIGINT, "INT"},
                                                         {SIGHUP, "HUP"},
                                                         {SIGCONT, "CONT"},
                                                         {SIGURG, "URG"},
                                                         {SIGQUIT, "QUIT"}}};

/// Their names, in the order of the table.
inline constexpr auto leave_signal_names = [] {
    std::array<std::string_view, leave_signals.size()> names;
    for (std::size_t i = 0; i < names.size(); ++i) names[i] = leave_signals[i].name;
    return names;
}();

}  // namespace arena
