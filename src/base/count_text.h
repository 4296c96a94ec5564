// SPDX-License-Identifier: GPL-2.0-or-later
// How many parameters a model has, for people.
#pragma once

#include <string>

namespace arena {

/// Three digits: "8.03 B", "124 M".
std::string count_text(double n);

}  // namespace arena
