// SPDX-License-Identifier: GPL-2.0-or-later
// What a card is called by makers, drivers and sites: "NVIDIA A100-SXM4-80GB",
// nvidia_a100-sxm4-80gb (AutoDetect=nvml of gres.conf), A100-SXM4-80GB. Case, '-', '_', blanks and
// the vendor's words tell no card from another.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/hardware.h"

namespace arena {

/// In lower case, of ASCII.
std::string lower_word(std::string_view word);
/// The same but for case.
bool same_word(std::string_view a, std::string_view b);
/// Whether two words are names of one card; a word of vendor's words alone is none.
bool same_card(std::string_view name, std::string_view word);
/// Of the entry's name or one of its aliases.
bool same_card(const GpuType&, std::string_view word);
/// Names of the entries that a word may mean: what find_hardware() has, then those whose names
/// begin with its parts ("a100": A100-SXM-80GB, A100-SXM-40GB, ...).
std::vector<std::string> hardware_like(const std::vector<GpuType>&, std::string_view word);

}  // namespace arena
