// SPDX-License-Identifier: GPL-2.0-or-later
#include "tests/lab/array/array_files.h"

#include <CLI/CLI.hpp>
#include <iterator>

#include "base/user_file.h"
#include "tests/lab/array/schedule_check.h"

namespace arena::cli {

Result<std::vector<array::ArrayCase>> read_array_file(const std::string& path) {
    const auto text = read_user_file(path, JsonLimits{}.bytes);
    if (!text) return text.error();
    auto cases = array::parse_array_instance(*text, path);
    if (cases && cases->empty()) return usage_error("there is no instance in it", path);
    return cases;
}

Result<std::vector<array::ArrayCase>> read_array_files(const std::vector<std::string>& paths) {
    std::vector<array::ArrayCase> all;
    for (const std::string& path : paths) {
        auto cases = read_array_file(path);
        if (!cases) return cases.error();
        std::move(cases->begin(), cases->end(), std::back_inserter(all));
    }
    return all;
}

void add_rule_options(CLI::App& command, ArrayOptions& options) {
    command.add_option("--convention", options.convention, "physical | literal [physical]")
        ->check(CLI::IsMember({"physical", "literal"}));
    command.add_flag("--forward-first", options.rules.forward_first,
                     "each device runs all its forward blocks first");
    command
        .add_option("--in-flight", options.rules.in_flight_cap,
                    "most states in flight on a device [no limit]")
        ->check(CLI::Range(1, 1 << 16));
}

Json json_of(const array::Instance& instance, const array::Schedule& schedule) {
    Json list = Json::array();
    for (const auto& one : array::placed_blocks(instance, schedule))
        list.push_back({one.job, one.stage, one.backward ? "B" : "F", one.start});
    return list;
}

std::string name_or(const array::Instance& instance, const std::string& otherwise) {
    return instance.name.empty() ? otherwise : instance.name;
}

}  // namespace arena::cli
