// SPDX-License-Identifier: GPL-2.0-or-later
// The "layer" operator of the CPU back-end: one layer of a LayerStack, the buffer sets being the
// stack's other layers.
#pragma once

#include <functional>
#include <vector>

#include "core/profile.h"
#include "profiler/cpu/cpu_stack.h"

namespace arena::cpu {

/// One layer of that shape; an OpKind::layer with its LayerVariant.
StackShape stack_shape(const OpShape&);

/// One pass each through `sets` layers of one stack, to be run in this order, again and again.
/// Throws std::bad_alloc.
std::vector<std::function<void()>> layer_bodies(const OpShape&, Index sets, int threads);

}  // namespace arena::cpu
