// SPDX-License-Identifier: GPL-2.0-or-later
// See state_file.h.
#include "store/state_file.h"

#include <unistd.h>

#include <filesystem>

#include "base/text.h"
#include "base/trusted_path.h"

namespace arena {

StateFile::StateFile(const std::string& profile_store, std::string_view name)
    : path_((std::filesystem::path(profile_store).parent_path() / name).string()) {}

Result<std::optional<std::string>> StateFile::read() const {
    std::error_code none;
    if (!std::filesystem::exists(path_, none)) return std::optional<std::string>();
    if (auto trusted = check_trusted(path_, ::geteuid()); !trusted) return trusted.error();
    auto text = read_regular_file(path_, most_bytes);
    if (!text) return text.error();
    return std::optional(*std::move(text));
}

Status StateFile::write(std::string_view text) const {
    return write_file_atomic(path_, text, 0600);
}

}  // namespace arena
