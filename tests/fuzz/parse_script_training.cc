// SPDX-License-Identifier: GPL-2.0-or-later
// Any text may be a batch script: what is put in for its variables is bounded, and no model is what
// only a shell knows.
#include "fuzz.h"
#include "request/script_programs.h"
#include "request/script_training.h"

FUZZ(text) {
    if (arena::with_own_variables(text).size() > 6 * arena::max_script_bytes) std::abort();
    const arena::ScriptTraining training = arena::parse_script_training(text);
    if (training.model.find('$') != std::string::npos || training.batch_on(8) < 0) std::abort();
}
