// SPDX-License-Identifier: GPL-2.0-or-later
// What the commands about arrays share: reading files, and how a schedule is written.
#pragma once

#include <string>
#include <vector>

#include "array/search/solve.h"
#include "base/json.h"
#include "tests/lab/array/instance_file.h"

namespace CLI {
class App;
}

namespace arena::cli {

/// At most 64 MiB.
Result<std::vector<array::ArrayCase>> read_array_file(const std::string& path);
/// Of several files, in their order.
Result<std::vector<array::ArrayCase>> read_array_files(const std::vector<std::string>& paths);

struct ArrayOptions {
    std::string convention = "physical";
    array::Rules rules;
    std::string solver = "choose";
    array::SolveOptions solve;
    [[nodiscard]] array::Convention parsed_convention() const {
        return convention == "literal" ? array::Convention::literal : array::Convention::physical;
    }
};
/// --convention, --forward-first, --in-flight
void add_rule_options(CLI::App& command, ArrayOptions& options);

/// The list of [job, stage, "F" or "B", start].
Json json_of(const array::Instance& instance, const array::Schedule& schedule);
std::string name_or(const array::Instance& instance, const std::string& otherwise);

}  // namespace arena::cli
