// SPDX-License-Identifier: GPL-2.0-or-later
// What the planner derives from a hardware entry: the precision it computes in, memory left for
// tensors.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/hardware.h"

namespace arena {

/// The precision that operators run in on this type: the model's; fp32 on emulated types; nothing
/// when the type has no rate for it.
std::optional<Precision> effective_precision(const GpuType&, Precision);
/// "fp32, tf32, fp16, bf16": what the type computes in, for messages.
std::string precisions_of(const GpuType&);
/// What is above leaves and pods of a site leaves no more of the rate than this says. Each >= 1.
void set_oversubscription(GpuType&, double leaf, double pod);
/// Path of the built-in file: $ARENA_DATA_DIR, else the installed data directory, else
/// $ARENA_SRCDIR/etc (running from a build tree).
std::string builtin_hardware_path();

/// Hardware entries: built-in hardware.yaml (installed in pkgdatadir) overridden/extended by a
/// file.
Result<std::vector<GpuType>> load_hardware(const std::string& extra_file);
/// `share_of` names an earlier entry of the text, or one of `wholes`.
Result<std::vector<GpuType>> parse_hardware(std::string_view text, std::string_view name,
                                            const std::vector<GpuType>& wholes = {});
Result<GpuType> find_hardware(const std::vector<GpuType>&, std::string_view name_or_alias);

}  // namespace arena
