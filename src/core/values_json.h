// SPDX-License-Identifier: GPL-2.0-or-later
// The values as parts of other documents. Slow to compile (nlohmann): for .cc files that read or
// write JSON.
#pragma once

#include <optional>
#include <string>

#include "base/json.h"
#include "core/decision.h"
#include "core/hardware.h"
#include "core/profile.h"

namespace arena {

Json json_of(const GpuPlace&);
Json json_of(const Model&);
Json json_of(const GpuType&);
Json json_of(const Grid&);
Json json_of(const Plan&);  ///< with pp, dp, tp, which are derived and ignored on reading
Json json_of(const Estimate&);
Json json_of(const Offer&);
Json json_of(const Snapshot&);
Json json_of(const Offers&);
Json json_of(const Decision&);

void read(const Json&, const std::string& where, std::optional<Error>&, Model&);
void read(const Json&, const std::string& where, std::optional<Error>&, GpuType&);
void read(const Json&, const std::string& where, std::optional<Error>&, Grid&);
void read(const Json&, const std::string& where, std::optional<Error>&, Plan&);
void read(const Json&, const std::string& where, std::optional<Error>&, Estimate&);
void read(const Json&, const std::string& where, std::optional<Error>&, Offer&);
void read(const Json&, const std::string& where, std::optional<Error>&, Snapshot&);
void read(const Json&, const std::string& where, std::optional<Error>&, Offers&);
void read(const Json&, const std::string& where, std::optional<Error>&, Decision&);

/// A whole document that is one value.
template <typename T>
Result<T> parse_value(std::string_view text) {
    const Result<Json> json = parse_json(text);
    if (!json) return json.error();
    T value;
    std::optional<Error> error;
    read(*json, "", error, value);
    if (error) return *error;
    return value;
}

}  // namespace arena
