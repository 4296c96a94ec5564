// SPDX-License-Identifier: GPL-2.0-or-later
// How the script of a job that moves inside itself (--arena-elastic=inplace) comes by its next
// plan: it asks by an update of its Comment, as a report is sent, and finds the answer in its
// SystemComment.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace arena {

inline constexpr std::string_view ask_prefix = "arena:next;";
/// In the environment of such a job: how many plans it was given in this life after its first.
inline constexpr std::string_view plan_number_variable = "ARENA_PLAN_NUMBER";
/// In slurmctld's record of one that is told to save its state: where it goes on, and by what.
inline constexpr std::string_view next_plan_variable = "ARENA_NEXT_PLAN";
inline constexpr std::string_view next_nodes_variable = "ARENA_NEXT_NODES";

struct NextAsk {
    std::uint32_t life = 0;  ///< SLURM_RESTART_COUNT
    std::uint32_t plan = 0;  ///< ARENA_PLAN_NUMBER of the plan that the script has
    std::string id;          ///< 1 to 32 hex digits: which question an answer is to
    bool operator==(const NextAsk&) const = default;
};
/// "arena:next;life=0;plan=1;id=4f2a"; untrusted, at most 128 bytes.
Result<NextAsk> parse_next_ask(std::string_view text);
std::string format_next_ask(const NextAsk&);

struct NextAnswer {
    std::string id;
    std::vector<std::pair<std::string, std::string>> variables;  ///< ARENA_* and SLURM_*
    bool operator==(const NextAnswer&) const = default;
};
/// "arena next {...}" in one line, at most 64 KiB. An error for what is no answer.
Result<NextAnswer> parse_next_answer(std::string_view text);
std::string format_next_answer(const NextAnswer&);

}  // namespace arena
