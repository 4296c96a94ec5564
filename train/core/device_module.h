// SPDX-License-Identifier: GPL-2.0-or-later
// What arena-train looks up in a module that brings it a device (run/device_choice.h).
#pragma once

#include <memory>

#include "train/core/device.h"

extern "C" {
/// Compared, as text, before anything else is used: the program and its module are of one build.
extern const char* const arena_train_module_version;
std::unique_ptr<arena::train::Device> arena_train_open_device(int threads,
                                                              arena::train::Comm& world);
}

namespace arena::train {
inline constexpr const char* module_version = "arena-train " ARENA_VERSION;
}
