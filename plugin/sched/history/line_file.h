// SPDX-License-Identifier: GPL-2.0-or-later
// Lines that slurmctld's plug-in keeps for its next life: two files of bounded size, what is
// written, and what was before it (FILE.1). Nobody else may read or write them.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace arena {

class LineFile {
  public:
    /// `what`: of what, in messages: "the history of jobs".
    LineFile(std::string path, std::string what, std::size_t most_bytes = std::size_t{4} << 20)
        : path_(std::move(path)), what_(std::move(what)), most_bytes_(most_bytes) {}
    /// A file of this name in the directory of a profile store.
    static std::string path_beside(const std::string& profile_store, const std::string& name);

    /// Each line that is there, the oldest first. Nothing where there is no file, or what is there
    /// is not ours alone: then why it was not read, else "".
    std::string read(const std::function<void(std::string_view)>& line) const;
    /// Without fsync: a lost line is no loss of truth.
    Status append(const std::vector<std::string>& lines);

  private:
    std::string path_, what_;
    std::size_t most_bytes_;
};

}  // namespace arena
