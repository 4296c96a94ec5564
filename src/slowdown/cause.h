// SPDX-License-Identifier: GPL-2.0-or-later
// What is slow when a job is: a device that computes, or a link that carries. The answers to the
// two differ (ski_rental.h). Unknown: its steps are slow, and nobody can tell which of them it is.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace arena::slowdown {

enum class Cause { compute, communication, unknown };

inline constexpr std::array<std::string_view, 3> causes{"compute", "communication", "unknown"};

constexpr std::string_view name(Cause cause) { return causes[static_cast<std::size_t>(cause)]; }

}  // namespace arena::slowdown
