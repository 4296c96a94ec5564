// SPDX-License-Identifier: GPL-2.0-or-later
// What may be said on the socket, and by whom: a table of verbs. A line is a verb and, where it
// takes them, a word or more. Who asks is known by SO_PEERCRED.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace arena {

/// Who may say a verb: everybody, of whose question it is up to the handler what is answered; those
/// whom the site lists for it, beside root and SlurmUser; or these two alone.
enum class Right { everybody, listed, administrator };

struct Verb {
    std::string_view name;          ///< "slowdown clear"
    std::string_view subject = {};  ///< the one word that follows, "NODE"; "" = none does
    bool more = false;              ///< and others behind it, each after one blank
    Right right = Right::everybody;
    std::vector<std::uint32_t> listed = {};  ///< uids
    bool says_why = false;                   ///< a refusal is a sentence, not an empty answer
    std::function<std::string(std::string_view word)> answer = {};
};

bool may(const Verb& verb, std::uint32_t uid, std::uint32_t slurm_user);
/// "only root and SlurmUser may say "slowdown clear"; you are uid 1000".
std::string words_of_refusal(const Verb& verb, std::uint32_t uid);

/// The verb of a line, and in `word` what follows it; nullptr where the line is none of these. The
/// longest name counts.
const Verb* find_verb(std::span<const Verb> verbs, std::string_view line, std::string_view& word);

}  // namespace arena
