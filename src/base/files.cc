// SPDX-License-Identifier: GPL-2.0-or-later
// File reads and writes of text.h and user_file.h. A read never follows a symlink unless a person
// named the file, never blocks on a fifo and never reads an endless device: only regular files of a
// bounded size are accepted.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

#include "base/file_descriptor.h"
#include "base/text.h"
#include "base/user_file.h"

namespace arena {
namespace {

Error system_error(const char* what, const std::string& path) {
    return environment_error(fmt::format("{}: {}", what, std::strerror(errno)), path);
}

bool read_all(int fd, std::size_t max_bytes, std::string& out) {
    char buffer[16384];
    while (out.size() <= max_bytes) {
        const ssize_t n = ::read(fd, buffer, sizeof buffer);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return false;
        if (n == 0) return true;
        out.append(buffer, static_cast<std::size_t>(n));
    }
    return true;
}

bool write_all(int fd, std::string_view content) {
    while (!content.empty()) {
        const ssize_t n = ::write(fd, content.data(), content.size());
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return false;
        content.remove_prefix(static_cast<std::size_t>(n));
    }
    return true;
}

int output_failed(const char* name, int error) {
    std::fprintf(stderr,
                 "%s: standard output cannot be written%s%s; what was written is not whole\n", name,
                 error != 0 ? ": " : "", error != 0 ? std::strerror(error) : "");
    return 3;
}

}  // namespace

int run_program(const char* name, const std::function<int()>& run,
                const std::function<void(const std::exception&)>& told) {
    // Whoever started this may have children's ends go nowhere; those of ours are asked for.
    if (std::signal(SIGCHLD, SIG_DFL) == SIG_ERR) return 3;
    int status = 3;
    try {
        status = run();
    } catch (const std::exception& thrown) {
        const auto* error = dynamic_cast<const std::system_error*>(&thrown);
        if (std::ferror(stdout) != 0)  // fmt throws what a FILE only notes
            return output_failed(name, error != nullptr ? error->code().value() : 0);
        if (told)
            told(thrown);
        else
            std::fprintf(stderr, "%s: internal error: %s\n", name, thrown.what());
        return 3;
    }
    const bool noted = std::ferror(stdout) != 0;
    errno = 0;
    if (std::fflush(stdout) == 0 && !noted) return status;
    return status > 1 ? status : output_failed(name, errno);
}

Result<std::string> read_regular_file(const std::string& path, std::size_t max_bytes) {
    const FileDescriptor file(
        ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
    if (file.get() < 0 && errno == ELOOP) {
        return environment_error("is a symbolic link; give the file itself", path);
    }
    if (file.get() < 0) return system_error("cannot open", path);
    struct stat info {};
    if (::fstat(file.get(), &info) != 0) return system_error("cannot stat", path);
    if (!S_ISREG(info.st_mode)) return environment_error("is not a regular file", path);
    std::string content;
    if (!read_all(file.get(), max_bytes, content)) return system_error("cannot read", path);
    if (content.size() > max_bytes) {
        return usage_error(fmt::format("is larger than {} bytes", max_bytes), path);
    }
    return content;
}

Result<std::string> read_user_file(const std::string& path, std::size_t max_bytes) {
    const std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr),
                                                           &std::free);
    if (real == nullptr) return system_error("cannot open", path);
    return read_regular_file(real.get(), max_bytes);
}

Status write_file_atomic(const std::string& path, std::string_view content, unsigned mode) {
    struct stat old {};
    if (::stat(path.c_str(), &old) == 0 && !S_ISREG(old.st_mode) && !S_ISDIR(old.st_mode))
        return environment_error("is not a regular file, and stays as it is", path);
    const std::string fresh = path + ".new";
    if (::unlink(fresh.c_str()) != 0 && errno != ENOENT)
        return system_error("cannot remove", fresh);
    FileDescriptor file(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                               static_cast<mode_t>(mode)));
    if (file.get() < 0) return system_error("cannot create", fresh);
    const bool written = ::fchmod(file.get(), static_cast<mode_t>(mode)) == 0 &&
                         write_all(file.get(), content) && ::fsync(file.get()) == 0 && file.close();
    if (!written || ::rename(fresh.c_str(), path.c_str()) != 0) {
        Error error = system_error("cannot write", path);
        ::unlink(fresh.c_str());
        return error;
    }
    return sync_directory(path);
}

std::string program_beside(const std::string& name) {
    std::error_code ignored;
    const auto path = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path() / name;
    return ::access(path.c_str(), X_OK) == 0 ? path.string() : "";
}

Status sync_directory(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    const std::string directory = slash == std::string::npos ? "." : path.substr(0, slash + 1);
    const FileDescriptor file(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (file.get() < 0 || ::fsync(file.get()) != 0) return system_error("cannot sync", directory);
    return Done{};
}

}  // namespace arena
