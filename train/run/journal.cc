// SPDX-License-Identifier: GPL-2.0-or-later
#include "train/run/journal.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/json.h"

namespace arena::train {
namespace {

bool write(std::FILE* to, const std::string& line) {
    return std::fputs((line + "\n").c_str(), to) >= 0 && std::fflush(to) == 0;
}

}  // namespace

Status Journal::open(const std::string& log, bool quiet) {
    is_open_ = true;
    is_quiet_ = quiet;
    if (log.empty()) return Done{};
    log_.reset(std::fopen(log.c_str(), "ae"));
    if (!log_) return environment_error("cannot be written to", log);
    return Done{};
}

void Journal::note(const std::string& text, nlohmann::json facts) {
    if (!is_open_) return;
    if (!is_quiet_) write(stdout, "arena-train: " + text);
    if (!log_ || facts.empty()) return;
    facts["schema_version"] = 1;
    if (!write(log_.get(), dump_json(facts)) && !std::exchange(complained_, true))
        fmt::print(stderr, "arena-train: the log cannot be written to: {}\n", std::strerror(errno));
}

}  // namespace arena::train
