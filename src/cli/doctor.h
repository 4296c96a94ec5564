// SPDX-License-Identifier: GPL-2.0-or-later
// The checks of `arena doctor`, apart from their printing: each is a pure function of what was read
// before, so that tests need no broken cluster.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/config.h"
#include "core/result.h"
#include "core/values.h"

namespace arena::cli {

enum class Verdict { ok, bad, skip };
std::string_view to_string(Verdict);

struct Finding {
    std::string check;  ///< what was looked at
    Verdict verdict = Verdict::ok;
    std::string text;   ///< what was found, and when bad what to do
};

/// What `arena doctor` reads before it judges.
struct Facts {
    std::string config_path;
    Result<Config> config = environment_error("not read");
    Result<std::vector<GpuType>> hardware = environment_error("not read");
    Result<std::string> slurm_version = environment_error("not read");  ///< "22.05.8"
    Result<std::map<std::string, std::string>> slurm_config = environment_error("not read");
    Result<std::vector<std::string>> gres_types = environment_error("not read");
};

/// "slurm-wlm 22.05.8" -> "22.05.8".
std::string parse_slurm_version(std::string_view text);
/// GPU types of all "Gres=gpu:a40:4(S:0-1),gpu:a100:2" fields, each once; "" for an untyped GPU.
std::vector<std::string> parse_gres_types(std::string_view scontrol_show_node);
/// Whether a list such as "1,5-9,99" (RequeueExitHold) has the code.
bool list_has_code(std::string_view list, std::int64_t code);

std::vector<Finding> check_config(const Facts&);
std::vector<Finding> check_profile_files(const Facts&);
std::vector<Finding> check_slurm(const Facts&);
std::vector<Finding> check_gres(const Facts&);

}  // namespace arena::cli
