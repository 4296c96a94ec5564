// SPDX-License-Identifier: GPL-2.0-or-later
// See ask_scheduler.h.
#include "cli/cluster/ask_scheduler.h"

#include <fmt/format.h>

#include <optional>

#include "cli/common/ask.h"

namespace arena::cli {
namespace {

/// What {"error": {"code", "text"}} says.
Error read_refusal(const Json& json) {
    std::optional<Error> wrong;
    Error refusal;
    std::int64_t code = 0;
    const JsonFields fields(json, "", wrong);
    if (const Json* told = fields.object("error")) {
        const JsonFields said(*told, "error", wrong);
        said.integer("code", code, 1, 3);
        said.text("text", refusal.text, 1024);
    }
    if (wrong) return bad_answer(*wrong);
    refusal.code = static_cast<ErrorCode>(code);
    return refusal;
}

}  // namespace

Result<Json> ask_scheduler(const Globals& globals, const std::string& line) {
    const Result<Config> config = load_site_config(globals);
    if (!config) return config.error();
    const Result<std::string> answer = ask_socket(config->socket, line);
    if (!answer) {
        Error error = answer.error();
        error.text += "; run it on the controller";
        return error;
    }
    Result<Json> json = parse_json(*answer);
    if (!json || !json->is_object())
        return environment_error(
            "the scheduler plug-in gave no answer: it is off or still starting; see slurmctld's "
            "log",
            config->socket);
    if (json->contains("error")) return read_refusal(*json);
    return json;
}

int show_json(const Json& json) {
    fmt::print("{}\n", dump_json(json));
    return exit_yes;
}

Error bad_answer(const Error& why) {
    return environment_error(why.message(), "answer of the scheduler plug-in");
}

}  // namespace arena::cli
