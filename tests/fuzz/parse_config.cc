// SPDX-License-Identifier: GPL-2.0-or-later
// Any bytes may be arena.yaml.
#include "fuzz.h"
#include "site/config.h"

FUZZ(text) { (void)arena::parse_config(text, "fuzz"); }
