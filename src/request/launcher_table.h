// SPDX-License-Identifier: GPL-2.0-or-later
// The table of one launcher: how it starts ranks, and for a range of its versions the words for
// each feature of a plan. Written as text (arena-launchers(7)): `src/request/launchers/NAME.table`
// are compiled in, `arena-args --table` reads one of a user's own. What a version can be told
// follows from its rows.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "request/launcher_features.h"

namespace arena {

/// "0.13", "2.1.1": at most 4 numbers of at most 9999; what is not said is 0.
struct Version {
    std::array<std::int16_t, 4> part = {};
    auto operator<=>(const Version&) const = default;
};
std::optional<Version> parse_version(std::string_view text);
std::string to_string(const Version&);

struct LauncherRow {
    std::optional<Version> from, before;  ///< absent: no limit
    Feature feature = Feature::always;
    FeatureSet beside;  ///< its words are said only where the plan has these, too
    std::vector<std::string> words;
    [[nodiscard]] bool holds_in(const std::optional<Version>&) const;
};

struct Launcher {
    std::string name, title;
    std::string script;  ///< what a plan asks of the job's script, for people; "" = nothing
    std::vector<std::string> programs;  ///< by which a batch script names it; '*' = any characters
    bool one_task_per_node = false;     ///< it starts the ranks of a node itself
    bool wants_ranks = false;           ///< its ranks read RANK, WORLD_SIZE, MASTER_ADDR, ...
    bool uneven = false;                ///< its nodes may have different numbers of ranks
    std::optional<Version> version;     ///< meant when none is said; absent: it has none
    FeatureSet asked = asked_features();  ///< see Capabilities
    std::vector<LauncherRow> rows;

    /// Whether a row is for this version.
    [[nodiscard]] bool knows(const Version&) const;
    /// "0.9 to before 1.0"; several ranges where there are gaps.
    [[nodiscard]] std::string known_versions() const;
    /// Where what it can be told, or how, changes: the first known version and each further limit.
    [[nodiscard]] std::vector<Version> changes() const;
    /// Of a version that it knows; none: its own, where it has one.
    [[nodiscard]] Capabilities can(std::optional<Version> = {}) const;
    /// Whether words name what is known only on the job's nodes ({host}, {job}, ...).
    [[nodiscard]] bool names_hosts() const;
};

/// A version that the launcher knows. Errors say what is accepted.
Result<Version> parse_version_of(const Launcher&, std::string_view text);

/// Where a plan runs. Zero and "" = not known.
struct RankPlace {
    std::int64_t nodes = 0, node_rank = 0, job = 0, port = 0;
    std::string host;
    bool uneven = false;  ///< with different numbers of GPUs: {per_node} is "gpu", all there are
};

/// The numbers of a plan that words may name.
struct PlanWords {
    PlanFacts facts;
    std::int64_t micro_batch = 1, global_batch = 1, seq_length = 0;
    std::vector<std::int64_t> stage_layers;
    RankPlace place = {};
};
PlanWords words_of(const Model&, std::int64_t global_batch, const Plan&);

/// The words for each need of the plan, in the order of the features. Errors (no): what cannot be
/// said.
Result<std::vector<std::string>> render(const Launcher&, std::optional<Version>, const PlanWords&);

/// At most 64 KiB, 1024 rows of 64 words. Errors name the line.
Result<Launcher> parse_launcher_table(std::string_view text, std::string_view name);

}  // namespace arena
