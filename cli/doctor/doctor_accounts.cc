// SPDX-License-Identifier: GPL-2.0-or-later
// `arena doctor`: where Slurm takes jobs of known associations only, the service user needs one,
// for profile runs are its jobs.
#include <fmt/format.h>

#include "base/text.h"
#include "cli/common/ask.h"
#include "cli/doctor/doctor_parts.h"

namespace arena::cli {
namespace {

std::vector<std::string> lines_of(std::string_view text) {
    std::vector<std::string> out;
    for (const std::string_view line : split(text, '\n'))
        if (!trim(line).empty()) out.emplace_back(trim(line));
    return out;
}

}  // namespace

/// Each of these asks for an association, as slurm.conf(5) has it.
bool wants_associations(std::string_view enforce) {
    for (const std::string_view word : split(enforce, ','))
        for (const char* one : {"associations", "limits", "qos", "safe", "wckeys", "all"})
            if (trim(word) == one) return true;
    return false;
}

Accounts read_accounts(const std::string& user) {
    const auto answer =
        [](const std::vector<std::string>& words) -> Result<std::vector<std::string>> {
        std::vector<std::string> command{"sacctmgr", "-nP", "show"};
        command.insert(command.end(), words.begin(), words.end());
        const auto text = program_text(command);
        if (!text) return text.error();
        return lines_of(*text);
    };
    return {answer({"assoc", "user=" + user, "format=account"}),
            answer({"account", "format=account"})};
}

std::vector<Finding> check_accounts(const Facts& facts) {
    const std::string name = "association",
                      enforce = running_value(facts, "AccountingStorageEnforce");
    if (!facts.config || !facts.config->profile_enabled || !wants_associations(enforce)) return {};
    const std::string& user = facts.config->profile_user;
    if (!facts.accounts.own) return {skip(name, facts.accounts.own.error().message())};
    if (!facts.accounts.own->empty())
        return {ok(name, fmt::format("{} in {}", user, join(*facts.accounts.own, ", ")))};
    std::string account = "root";
    if (facts.accounts.all)
        for (const std::string& other : *facts.accounts.all)
            if (account == "root") account = other;
    return {fail(name,
                 fmt::format("AccountingStorageEnforce={}, and {} has none: no profile run is "
                             "accepted; in each account "
                             "whose jobs are to pay for their profile runs, at least in one:",
                             enforce, user),
                 {fmt::format("sacctmgr -i add user {} account={}", shell_word(user),
                              shell_word(account))})};
}

}  // namespace arena::cli
