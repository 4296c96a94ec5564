// SPDX-License-Identifier: GPL-2.0-or-later
// A question to the scheduler plug-in whose answer is one JSON object, and whose refusal is one
// too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/json.h"
#include "cli/common/cli.h"

namespace arena::cli {

/// Nodes, and the last moment (epoch seconds), of an answer.
inline constexpr std::size_t most_nodes = 4096;
inline constexpr std::int64_t latest_s = 1'000'000'000'000;
/// Says one line on the socket that arena.yaml names. Errors: no arena.yaml, no answer, or none of
/// ours (environment); a refusal has the code and the sentence of the plug-in.
Result<Json> ask_scheduler(const Globals& globals, const std::string& line);
/// The document as it came, for --json; exit_yes.
int show_json(const Json& json);
/// An answer of the plug-in that is not as it should be.
Error bad_answer(const Error& why);

}  // namespace arena::cli
