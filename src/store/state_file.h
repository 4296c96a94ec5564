// SPDX-License-Identifier: GPL-2.0-or-later
// A document of slurmctld's own beside the profile store, so that a slurmctld that was killed or
// restarted knows what the one before knew. Replaced as a whole.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace arena {

class StateFile {
  public:
    static constexpr std::size_t most_bytes = std::size_t{64} << 20;

    explicit StateFile(std::string path) : path_(std::move(path)) {}
    /// The file of that name in the directory of a profile store.
    StateFile(const std::string& profile_store, std::string_view name);

    /// None where there is no file. Errors: it is not SlurmUser's alone, no regular file, or larger
    /// than most_bytes.
    [[nodiscard]] Result<std::optional<std::string>> read() const;
    [[nodiscard]] Status write(std::string_view text) const;

  private:
    std::string path_;
};

}  // namespace arena
