// SPDX-License-Identifier: GPL-2.0-or-later
// The history of jobs as JSON lines beside the profile store, so that a restart of slurmctld does
// not forget it. A line that was cut by a kill is left out when it is read.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "plugin/sched/history/job_history.h"
#include "plugin/sched/history/line_file.h"

namespace arena {

std::string format_history_line(const HistoryLine& line);
/// At most 4 KiB. Errors: not such a line.
Result<HistoryLine> parse_history_line(std::string_view text);

class HistoryFile {
  public:
    explicit HistoryFile(std::string path, std::size_t most_bytes = std::size_t{4} << 20)
        : file_(std::move(path), "the history of jobs", most_bytes) {}
    /// Of a profile store: history.jsonl in the same directory.
    static std::string path_beside(const std::string& profile_store);

    /// All that is there, the oldest first; lines that are none are counted. Nothing where there is
    /// no file, or what is there is not ours alone.
    struct Read {
        std::vector<HistoryLine> lines;
        std::size_t broken = 0;
        std::string problem;  ///< why it was not read; "" = it was, or is not there
    };
    [[nodiscard]] Read read() const;
    /// Without fsync: a lost line is no loss of truth.
    Status append(const std::vector<HistoryLine>& lines);

  private:
    LineFile file_;
};

}  // namespace arena
