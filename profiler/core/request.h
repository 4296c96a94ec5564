// SPDX-License-Identifier: GPL-2.0-or-later
// From a ProfileRequest to the operators it asks for and the kind of device that may answer it.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "core/profile.h"
#include "planner/search/planner.h"

namespace arena {

/// What the request's words mean on this installation.
struct ProfileWork {
    std::vector<OpShape> shapes;  ///< operator_list() of the request, most valuable first
    bool emulated = false;        ///< the hardware entry stands for a CPU
    PlanQuery query;              ///< what the request's job may take: all grids
};

/// Looks the hardware entry up (built-in file and `hardware_file`) and asks the planner for the
/// list.
Result<ProfileWork> work_of(const ProfileRequest&, const std::string& hardware_file);

/// Device seconds that running every feasible grid for direct_iterations would take: what a profile
/// saves. GPUs times iteration seconds, as the planner estimates from `measured`.
double direct_seconds(const ProfileWork&, const ProfileTable& measured);

/// Why these times cannot be those of the hardware entry; "" = they may be. The median GEMM of at
/// least four is held against the roofline: 20 times slower is a device in trouble (clocks, another
/// process), 4 times faster is the wrong entry. Emulated entries are never judged.
std::string implausible(const ProfileWork&, const std::vector<ProfileEntry>& measured);

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
