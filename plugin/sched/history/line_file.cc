// SPDX-License-Identifier: GPL-2.0-or-later
// See line_file.h.
#include "plugin/sched/history/line_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/file_descriptor.h"
#include "base/text.h"

namespace arena {
namespace {

/// Nobody else may have written what we say to users, nor read what we write of them.
bool is_ours(int fd) {
    struct stat info {};
    return ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == ::geteuid() &&
           (info.st_mode & 077) == 0;
}

bool write_all(int fd, std::string_view text) {
    while (!text.empty()) {
        const ssize_t n = ::write(fd, text.data(), text.size());
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        text.remove_prefix(static_cast<std::size_t>(n));
    }
    return true;
}

}  // namespace

std::string LineFile::path_beside(const std::string& profile_store, const std::string& name) {
    return (std::filesystem::path(profile_store).parent_path() / name).string();
}

std::string LineFile::read(const std::function<void(std::string_view)>& line) const {
    std::string problem;
    for (const std::string& path : {path_ + ".1", path_}) {
        const FileDescriptor fd(
            ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
        if (fd.get() < 0 && errno == ENOENT) continue;
        if (fd.get() < 0 || !is_ours(fd.get())) {
            problem = path + ": is not a file of SlurmUser's alone (0600): it is not read";
            continue;
        }
        // One append may go over the limit before the next one turns the files.
        const auto text = read_regular_file(path, 4 * most_bytes_);
        if (!text) {
            problem = text.error().message();
            continue;
        }
        for (const std::string_view piece : split(*text, '\n'))
            if (!piece.empty()) line(piece);
    }
    return problem;
}

Status LineFile::append(const std::vector<std::string>& lines) {
    if (lines.empty()) return Done{};
    std::string text;
    for (const std::string& line : lines) text += line + "\n";
    if (text.size() > most_bytes_) text.erase(0, text.find('\n', text.size() - most_bytes_) + 1);
    const auto failed = [&](const char* doing) {
        return environment_error(std::string(doing) + " " + what_ + ": " + std::strerror(errno),
                                 path_);
    };
    FileDescriptor fd(::open(
        path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
    if (fd.get() < 0) return failed("cannot open");
    if (!is_ours(fd.get()))
        return environment_error("is not a file of SlurmUser's alone (0600): remove it", path_);
    struct stat before {};
    const bool is_sized = ::fstat(fd.get(), &before) == 0;
    if (!write_all(fd.get(), text)) {
        Status why = failed("cannot write");
        // Half a line would spoil the next one.
        if (is_sized) (void)!::ftruncate(fd.get(), before.st_size);
        return why;
    }
    struct stat info {};
    const bool full =
        ::fstat(fd.get(), &info) == 0 && static_cast<std::size_t>(info.st_size) >= most_bytes_;
    if (full && std::rename(path_.c_str(), (path_ + ".1").c_str()) != 0)
        return failed("cannot put aside");
    return Done{};
}

}  // namespace arena
