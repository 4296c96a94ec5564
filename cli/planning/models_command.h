// SPDX-License-Identifier: GPL-2.0-or-later
// `arena models`: the built-in names, with what they stand for.
#pragma once

#include "cli/common/cli.h"

namespace arena::cli {

void add_models(CLI::App&, Globals&);

}  // namespace arena::cli
