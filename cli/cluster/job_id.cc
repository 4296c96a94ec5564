// SPDX-License-Identifier: GPL-2.0-or-later
// See job_id.h.
#include "cli/cluster/job_id.h"

#include <fmt/format.h>

#include <cstdint>

#include "base/text.h"
#include "cli/common/ask.h"

namespace arena::cli {
namespace {

/// "" and the id in place of the word, or what is wrong.
std::string to_job_id(std::string& word) {
    if (parse_integer(word, 1, UINT32_MAX)) return {};
    const std::size_t at = word.find('_');
    const std::string_view whole = word;
    if (at == std::string::npos || !parse_integer(whole.substr(0, at), 1, UINT32_MAX) ||
        !parse_integer(whole.substr(at + 1), 0, UINT32_MAX))
        return fmt::format("'{}' is no job: give a job id, or ARRAY_TASK for a task of a job array",
                           printable(word, 60));
    const auto text = program_text({"scontrol", "show", "job", word});
    if (!text) return fmt::format("job {}: {}", word, text.error().message());
    const auto fields = parse_scontrol_fields(*text);
    const auto id = fields.find("JobId");
    if (id == fields.end() || !parse_integer(id->second, 1, UINT32_MAX))
        return fmt::format("job {}: scontrol shows no JobId for it", word);
    word = id->second;
    return {};
}

}  // namespace

CLI::Validator job_id() { return {to_job_id, "JOB"}; }

}  // namespace arena::cli
