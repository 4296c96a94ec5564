// SPDX-License-Identifier: GPL-2.0-or-later
// `arena exporter`.
#pragma once

#include "cli/common/cli.h"

namespace arena::cli {

void add_exporter(CLI::App&, Globals&);

}  // namespace arena::cli
