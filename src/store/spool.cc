// SPDX-License-Identifier: GPL-2.0-or-later
// Reads one result of the profile spool as untrusted bytes: the directory and the file are opened
// without following links, checked by fstat on the open descriptor, read with a limit, then parsed.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/file_descriptor.h"
#include "base/text.h"
#include "store/store.h"

namespace arena {
namespace {

Error open_error(const std::string& path) {
    const int e = errno;
    if (e == ENOENT) return no_error("no result is there yet", path);
    if (e == ELOOP)
        return environment_error("is a symbolic link; results must be regular files", path);
    return environment_error(std::string("cannot open: ") + std::strerror(e), path);
}

/// Only the service user (or root, who needs no file to lie to us) may place files in the spool.
Status check_directory(int fd, const std::string& spool, unsigned owner_uid) {
    struct stat st {};
    if (::fstat(fd, &st) != 0) return open_error(spool);
    if (st.st_uid != owner_uid && st.st_uid != 0)
        return environment_error("the profile spool belongs to uid " + std::to_string(st.st_uid) +
                                     "; it must belong to uid " + std::to_string(owner_uid),
                                 spool);
    if ((st.st_mode & 022) != 0)
        return environment_error("the profile spool is writable by group or others; chmod 0755 it",
                                 spool);
    return Done{};
}

Status check_file(int fd, const std::string& path, unsigned owner_uid) {
    struct stat st {};
    if (::fstat(fd, &st) != 0) return open_error(path);
    if (!S_ISREG(st.st_mode)) return environment_error("is not a regular file", path);
    if (st.st_uid != owner_uid)
        return environment_error("belongs to uid " + std::to_string(st.st_uid) + ", expected uid " +
                                     std::to_string(owner_uid),
                                 path);
    if (st.st_size > static_cast<off_t>(max_profile_bytes))
        return environment_error("is larger than 1 MiB", path);
    return Done{};
}

Result<std::string> read_all(int fd, const std::string& path) {
    std::string text(max_profile_bytes + 1, '\0');
    std::size_t size = 0;
    while (size < text.size()) {
        const ssize_t n = ::read(fd, text.data() + size, text.size() - size);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0)
            return environment_error(std::string("cannot read: ") + std::strerror(errno), path);
        if (n == 0) break;
        size += static_cast<std::size_t>(n);
    }
    if (size > max_profile_bytes) return environment_error("is larger than 1 MiB", path);
    text.resize(size);
    return text;
}

struct SpoolFile {
    const std::string &spool, &nonce;
    unsigned owner_uid;
};

/// The text of one regular file of the spool, NONCE + suffix, as untrusted bytes.
Result<std::string> read_spool_file(const std::string& spool, const std::string& nonce,
                                    const std::string& suffix, unsigned owner_uid) {
    if (!is_nonce(nonce))
        return usage_error("a nonce is 16 to 64 letters and digits, not '" + printable(nonce) +
                           "'");
    const std::string path = spool + "/" + nonce + suffix;
    const FileDescriptor directory(
        ::open(spool.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (directory.get() < 0)
        return environment_error(
            std::string("cannot open the profile spool: ") + std::strerror(errno), spool);
    if (auto s = check_directory(directory.get(), spool, owner_uid); !s) return s.error();
    const FileDescriptor file(::openat(directory.get(), (nonce + suffix).c_str(),
                                       O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    if (file.get() < 0) return open_error(path);
    if (auto s = check_file(file.get(), path, owner_uid); !s) return s.error();
    return read_all(file.get(), path);
}

}  // namespace

namespace {

/// NONCE.json, which says of itself that it is this one's.
template <typename T>
Result<T> read_spool_result(const SpoolFile& file, Result<T> (*parse)(std::string_view)) {
    const std::string path = file.spool + "/" + file.nonce + ".json";
    auto text = read_spool_file(file.spool, file.nonce, ".json", file.owner_uid);
    if (!text) return text.error();
    auto result = parse(*text);
    if (!result) return Error{result.error().code, result.error().message(), path};
    if (result->nonce != file.nonce)
        return usage_error("the nonce inside is '" + printable(result->nonce) + "', not the file's",
                           path);
    return result;
}

}  // namespace

Result<Profile> read_spool_profile(const std::string& spool, const std::string& nonce,
                                   unsigned owner_uid) {
    return read_spool_result<Profile>({spool, nonce, owner_uid}, parse_profile);
}

Result<NodeCheck> read_spool_check(const std::string& spool, const std::string& nonce,
                                   unsigned owner_uid) {
    return read_spool_result<NodeCheck>({spool, nonce, owner_uid}, parse_node_check);
}

Result<ProfileProgress> read_spool_progress(const std::string& spool, const std::string& nonce,
                                            unsigned owner_uid) {
    const auto text = read_spool_file(spool, nonce, ".progress", owner_uid);
    if (!text) return text.error();
    return parse_progress(*text);
}

}  // namespace arena
