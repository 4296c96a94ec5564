// SPDX-License-Identifier: GPL-2.0-or-later
#include "watch/ring/ring_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>

#include "watch/ring/process.h"

namespace arena::watch {
namespace {

struct Name {
    char text[128];
};

Name rank_prefix(const RingOwner& owner) {
    Name name{};
    std::snprintf(name.text, sizeof name.text, "%s%llu.%u.%u.", ring_prefix,
                  static_cast<unsigned long long>(owner.job), owner.step, owner.rank);
    return name;
}

/// A process has one ring: another of its own is of the program that it was before exec.
bool is_over(int fd) {
    RingHeader header;
    if (::pread(fd, static_cast<void*>(&header), sizeof header, 0) != sizeof header) return false;
    const RingOwner& owner = header.owner;
    return header.magic == ring_magic && (owner.pid == static_cast<std::uint32_t>(::getpid()) ||
                                          process_started(owner.pid) != owner.pid_started);
}

void remove_dead(const RingOwner& owner) {
    const Name prefix = rank_prefix(owner);
    DIR* folder = ::opendir(ring_folder);
    if (folder == nullptr) return;
    while (const dirent* entry = ::readdir(folder)) {
        if (std::strncmp(entry->d_name, prefix.text, std::strlen(prefix.text)) != 0) continue;
        const int fd = ::openat(::dirfd(folder), entry->d_name,
                                O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        struct stat info {};
        if (fd >= 0 && ::fstat(fd, &info) == 0 && info.st_uid == ::geteuid() &&
            S_ISREG(info.st_mode) && is_over(fd))
            ::unlinkat(::dirfd(folder), entry->d_name, 0);
        if (fd >= 0) ::close(fd);
    }
    ::closedir(folder);
}

/// Beyond the limit a signal would end the process.
bool may_write(std::uint64_t bytes) {
    rlimit limit{};
    return ::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur >= bytes;
}

/// A new object of `bytes`, or -1.
int create_object(const RingOwner& owner, std::uint64_t bytes, Name& name) {
    errno = EFBIG;
    if (!may_write(bytes)) return -1;
    std::uint64_t random = 0;
    if (::getrandom(&random, sizeof random, 0) != sizeof random) return -1;
    const Name prefix = rank_prefix(owner);
    std::snprintf(name.text, sizeof name.text, "/%.100s%016llx", prefix.text,
                  static_cast<unsigned long long>(random));
    const int fd = ::shm_open(name.text, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0) return -1;
    const int why = ::posix_fallocate(fd, 0, static_cast<off_t>(bytes));
    if (why == 0) return fd;
    ::close(fd);
    ::shm_unlink(name.text);
    errno = why;
    return -1;
}

}  // namespace

Ring create_ring(const RingOwner& owner, std::uint64_t capacity) {
    remove_dead(owner);
    Name name{};
    const std::uint64_t bytes = ring_bytes(capacity);
    const int fd = create_object(owner, bytes, name);
    if (fd < 0) return {};
    void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    const int why = errno;
    ::close(fd);
    if (memory == MAP_FAILED) {
        ::shm_unlink(name.text);
        errno = why;
        return {};
    }
    auto* header = new (memory) RingHeader;
    header->version = ring_version;
    header->slot_bytes = sizeof(Slot);
    header->capacity = capacity;
    header->owner = owner;
    // Slots are zero as they come: no record's stamp.
    auto* slots = reinterpret_cast<Slot*>(static_cast<char*>(memory) + sizeof(RingHeader));
    std::atomic_ref(header->magic).store(ring_magic, std::memory_order_release);
    return {header, slots, capacity - 1};
}

}  // namespace arena::watch
