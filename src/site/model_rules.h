// SPDX-License-Identifier: GPL-2.0-or-later
// What a site says of jobs that do not say it themselves: which model they train. One file for the
// jobs of its accounting (arena trace import --models) and for those that an observing Arena sees.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/limits.h"

namespace arena {

/// Of a job, what rules go by.
struct RuledJob {
    std::string user, account, partition, name;
    std::int64_t gpus = 0;
};

/// Says of some jobs what they train. Patterns are those of the shell (fnmatch(3)); an empty one
/// fits all.
struct ModelRule {
    std::string user, account, partition, name;
    std::int64_t min_gpus = 1, max_gpus = limits::gpus;
    std::string model;  ///< a name of `arena models`
    std::int64_t batch = 0;
    [[nodiscard]] bool fits(const RuledJob&) const;
};

inline constexpr std::size_t max_model_rules_bytes = 64 * 1024;

/// `models:` a list of {user, account, partition, name, gpus: N or N-M, model, batch}: of a job the
/// first rule that fits.
Result<std::vector<ModelRule>> parse_model_rules(std::string_view text, std::string_view name);
/// Of a file that arena.yaml names, as a daemon reads it (check_trusted()); none for "".
Result<std::vector<ModelRule>> load_model_rules(const std::string& path);
/// The first that fits; nullptr: none does.
const ModelRule* find_rule(const std::vector<ModelRule>& rules, const RuledJob& job);

}  // namespace arena
