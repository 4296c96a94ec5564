// SPDX-License-Identifier: GPL-2.0-or-later
// From a ProfileRequest to the operators it asks for and the kind of device that may answer it.
#pragma once

#include <string>
#include <vector>

#include "core/profile.h"
#include "core/result.h"

namespace arena {

/// What the request's words mean on this installation.
struct Assignment {
    std::vector<OpShape> shapes;  ///< operator_list() of the request, most valuable first
    bool emulated = false;        ///< the hardware entry stands for a CPU
};

/// Looks the hardware entry up (built-in file and `hardware_file`) and asks the planner for the
/// list.
Result<Assignment> assign(const ProfileRequest&, const std::string& hardware_file);

/// `wanted` is cpu, cuda or auto; auto is cpu for an emulated entry, else cuda. A CPU may never
/// answer for an entry that is not emulated, nor a GPU for one that is: timings of one would pass
/// as the other's.
Result<std::string> device_kind(const std::string& wanted, bool emulated,
                                const std::string& hardware);

/// 24 letters and digits from the kernel's random numbers.
std::string make_nonce();
/// gethostname, or "unknown".
std::string host_name();

}  // namespace arena
