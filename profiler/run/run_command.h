// SPDX-License-Identifier: GPL-2.0-or-later
// `arena-profiler run`: measure what is not known yet, show how far it is, write the profile
// whatever happens.
#pragma once

#include <functional>
#include <memory>

#include "profiler/core/operator.h"
#include "profiler/core/options.h"
#include "profiler/core/request.h"

namespace arena {

using MakeBackend = std::function<Result<std::unique_ptr<Backend>>()>;

/// Returns the exit code. `make` is called once, after the signal handlers stand.
int run_request(const Options&, const ProfileRequest&, const ProfileWork&, const MakeBackend& make);

}  // namespace arena
