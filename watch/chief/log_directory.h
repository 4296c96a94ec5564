// SPDX-License-Identifier: GPL-2.0-or-later
// The chief's lines on disk, in files and spellings that users of Greyhound know:
// arena-watch-JOBID/log_TIMESTAMP_noderankN/ with global_controller_IP.log,
// local_controller_NODE.log and events.jsonl. Nothing is written before something was slow or went
// wrong, unless asked for, and never more than a bounded size.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>

#include "base/file_descriptor.h"
#include "watch/chief/chief.h"

namespace arena::watch {

struct LogPlace {
    std::string parent;   ///< directory that is there: ARENA_WATCH_LOG_DIR, else the job's own
    std::string job;      ///< "4711"; names arena-watch-4711
    std::string address;  ///< of the chief: 10.0.0.3, or a host's name
    /// Written from the first line on, for ARENA_WATCH_LOG_DIR asks for it.
    bool from_the_start = false;
    std::int64_t node_rank = 0;  ///< of the chief's node in the job
};

class LogDirectory {
  public:
    static constexpr std::size_t most_bytes = 16 << 20;  ///< of all files of one life together
    static constexpr std::size_t most_waiting = 512;     ///< lines kept back while all is well
    static constexpr std::size_t most_files = 256;       ///< nodes that have a file of their own

    explicit LogDirectory(LogPlace place) : place_(std::move(place)) {}
    /// Keeps lines back until one is_problem; from then on each is written. An error is returned
    /// once; from then on nothing is written.
    Status write(const std::vector<LogLine>& lines, const Now& now);
    /// "": nothing has been written yet.
    [[nodiscard]] const std::string& path() const { return path_; }

  private:
    struct Waiting {
        LogLine line;
        Now at;
    };
    Status open(const Now& now);
    Status append(const Waiting& one);
    Status append(const std::string& file, const std::string& text);

    LogPlace place_;
    std::string path_;
    FileDescriptor directory_;
    std::map<std::string, FileDescriptor> files_;
    std::deque<Waiting> waiting_;
    std::size_t written_ = 0;
    bool is_closed_ = false;
};

}  // namespace arena::watch
