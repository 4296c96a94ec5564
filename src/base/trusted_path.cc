// SPDX-License-Identifier: GPL-2.0-or-later
// See trusted_path.h. From the root down: a part that was looked at can no longer be renamed by
// others while the rest is. Links are followed by hand, for each has an owner too.
#include "base/trusted_path.h"

#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <deque>
#include <filesystem>
#include <optional>
#include <vector>

#include "base/names.h"
#include "base/text.h"

namespace arena {
namespace {

constexpr int max_links = 40;

struct UserFacts {
    std::string name;
    gid_t group;
};

std::optional<UserFacts> find_user(uid_t uid) {
    passwd entry{};
    passwd* found = nullptr;
    std::vector<char> buffer(16384);
    if (::getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr)
        return std::nullopt;
    return UserFacts{entry.pw_name, entry.pw_gid};
}

std::string name_of(uid_t uid) {
    const auto user = find_user(uid);
    return user ? user->name : fmt::format("uid {}", uid);
}

/// The user's own: as many systems give each user a group of the same name.
bool is_private_group(gid_t gid, uid_t uid) {
    const auto user = find_user(uid);
    if (!user || user->group != gid) return false;
    group entry{};
    group* found = nullptr;
    std::vector<char> buffer(65536);
    return ::getgrgid_r(gid, &entry, buffer.data(), buffer.size(), &found) == 0 &&
           found != nullptr && user->name == entry.gr_name;
}

bool others_may_write(const struct stat& info) {
    if ((info.st_mode & S_IWOTH) != 0) return true;
    return (info.st_mode & S_IWGRP) != 0 && !is_private_group(info.st_gid, info.st_uid);
}

Status check_part(const std::string& part, const struct stat& info, uid_t owner, bool is_last) {
    if (info.st_uid != 0 && info.st_uid != owner) {
        const std::string wanted = owner == 0 ? "root" : "root or " + name_of(owner);
        return environment_error(
            fmt::format("belongs to {}, not to {}, and decides what Arena does; chown it",
                        name_of(info.st_uid), wanted),
            part);
    }
    if (S_ISLNK(info.st_mode) || (!is_last && (info.st_mode & S_ISVTX) != 0)) return Done{};
    if (others_may_write(info))
        return environment_error(
            fmt::format("others may write to it (mode {:04o}), and decide what Arena "
                        "does; chmod go-w it",
                        info.st_mode & 07777),
            part);
    return Done{};
}

void push_front(std::deque<std::string>& rest, const std::string& path) {
    std::deque<std::string> parts;
    for (const std::string_view part : split(path, '/'))
        if (!part.empty() && part != ".") parts.emplace_back(part);
    rest.insert(rest.begin(), parts.begin(), parts.end());
}

std::string link_target(const std::string& link) {
    std::error_code lost;
    return std::filesystem::read_symlink(link, lost).string();
}

}  // namespace

Status check_trusted(const std::string& path, uid_t owner) {
    std::error_code no_directory;
    std::deque<std::string> rest;
    push_front(rest, std::filesystem::absolute(path, no_directory).string());
    std::filesystem::path at = "/";
    for (int links = 0;;) {
        struct stat info {};
        if (::lstat(at.c_str(), &info) != 0) {
            if (errno == ENOENT || errno == ENOTDIR) return Done{};
            return environment_error(fmt::format("cannot be looked at: {}", std::strerror(errno)),
                                     at);
        }
        const bool is_link = S_ISLNK(info.st_mode);
        if (Status status = check_part(at, info, owner, rest.empty() && !is_link); !status)
            return status;
        if (is_link) {
            if (++links > max_links) return environment_error("leads through too many links", path);
            const std::string target = link_target(at);
            push_front(rest, target);
            at = target.starts_with('/') ? std::filesystem::path("/") : at.parent_path();
            continue;
        }
        if (rest.empty()) return Done{};
        at = rest.front() == ".." ? at.parent_path() : at / rest.front();
        rest.pop_front();
    }
}

}  // namespace arena
