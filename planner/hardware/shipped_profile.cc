// SPDX-License-Identifier: GPL-2.0-or-later
// See shipped_profile.h.
#include "planner/hardware/shipped_profile.h"

#include <algorithm>
#include <filesystem>

#include "base/text.h"
#include "planner/hardware/hardware.h"
#include "request/request.h"

namespace arena {

namespace {

constexpr std::size_t max_files = 256;

std::vector<std::string> profile_files(const std::string& directory) {
    std::vector<std::string> files;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(directory, error))
        if (entry.path().extension() == ".json") files.push_back(entry.path().string());
    std::sort(files.begin(), files.end());
    if (files.size() > max_files) files.resize(max_files);
    return files;
}

/// Nothing, with a complaint, for what is no profile of a GPU.
std::optional<Profile> read_one(const std::string& file, std::vector<std::string>& complaints) {
    auto profile = read_profile(file);
    if (!profile) {
        complaints.push_back(profile.error().message());
        return std::nullopt;
    }
    if (profile->device.kind == "cuda") return std::move(profile).value();
    complaints.push_back(file + ": is a CPU's profile, which speaks for no other machine");
    return std::nullopt;
}

}  // namespace

ShippedProfile read_shipped_profile(const std::string& directory, const std::string& hardware) {
    ShippedProfile shipped;
    std::vector<Profile> profiles;
    for (const std::string& file : profile_files(directory)) {
        auto profile = read_one(file, shipped.complaints);
        if (profile && profile->hardware == hardware) profiles.push_back(*std::move(profile));
    }
    std::stable_sort(profiles.begin(), profiles.end(),
                     [](const Profile& a, const Profile& b) { return a.started_s < b.started_s; });
    if (profiles.empty()) return shipped;
    const std::string identity = profiles.back().device.identity();
    shipped.device = profiles.back().device.name;
    OpSeconds seconds;
    for (const Profile& profile : profiles)
        if (profile.device.identity() == identity) add_entries(profile, seconds);
    shipped.table = ProfileTable(seconds);
    return shipped;
}

std::string shipped_profiles_path() {
    return (std::filesystem::path(builtin_hardware_path()).parent_path() / "profiles").string();
}

ShippedProfile shipped_profile(const std::string& hardware) {
    return read_shipped_profile(shipped_profiles_path(), hardware);
}

}  // namespace arena
