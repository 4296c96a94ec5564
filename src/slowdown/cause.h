// SPDX-License-Identifier: GPL-2.0-or-later
// What is slow when a job is: a device that computes, or a link that carries. The answers to the
// two differ (ski_rental.h).
#pragma once

#include <string_view>

namespace arena::slowdown {

enum class Cause { compute, communication };

constexpr std::string_view name(Cause cause) {
    return cause == Cause::compute ? "compute" : "communication";
}

}  // namespace arena::slowdown
