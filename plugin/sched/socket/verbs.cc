// SPDX-License-Identifier: GPL-2.0-or-later
// See verbs.h.
#include "plugin/sched/socket/verbs.h"

#include <algorithm>

namespace arena {
namespace {

/// Whether the line is the verb, with what it takes behind it.
bool reads_as(const Verb& verb, std::string_view line, std::string_view& word) {
    if (!line.starts_with(verb.name)) return false;
    const std::string_view rest = line.substr(verb.name.size());
    if (verb.subject.empty()) return rest.empty();
    if (rest.size() < 2 || rest.front() != ' ') return false;
    if (!verb.more && rest.find(' ', 1) != std::string_view::npos) return false;
    word = rest.substr(1);
    return true;
}

}  // namespace

bool may(const Verb& verb, std::uint32_t uid, std::uint32_t slurm_user) {
    if (verb.right == Right::everybody || uid == 0 || uid == slurm_user) return true;
    return verb.right == Right::listed &&
           std::find(verb.listed.begin(), verb.listed.end(), uid) != verb.listed.end();
}

std::string words_of_refusal(const Verb& verb, std::uint32_t uid) {
    const std::string who = verb.right == Right::listed
                                ? "root, SlurmUser and whom arena.yaml lists"
                                : "root and SlurmUser";
    return "only " + who + " may say \"" + std::string(verb.name) + "\"; you are uid " +
           std::to_string(uid);
}

const Verb* find_verb(std::span<const Verb> verbs, std::string_view line, std::string_view& word) {
    const Verb* found = nullptr;
    for (const Verb& verb : verbs)
        if (std::string_view rest; reads_as(verb, line, rest) &&
                                   (found == nullptr || verb.name.size() > found->name.size())) {
            found = &verb;
            word = rest;
        }
    return found;
}

}  // namespace arena
