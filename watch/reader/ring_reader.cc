// SPDX-License-Identifier: GPL-2.0-or-later
#include "watch/reader/ring_reader.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/file_descriptor.h"
#include "watch/ring/process.h"
#include "watch/ring/ring_file.h"

namespace arena::watch {
namespace {

Error refused(const std::string& path, std::string why) {
    return environment_error(std::move(why), path);
}

Status check_owner(const struct stat& info, std::uint32_t uid, const std::string& path) {
    if (!S_ISREG(info.st_mode)) return refused(path, "is no regular file, so no ring");
    if (info.st_uid != uid)
        return refused(path,
                       fmt::format("belongs to uid {}, not to uid {}: not read", info.st_uid, uid));
    if ((info.st_mode & 077) != 0)
        return refused(path, fmt::format("others may open it (mode {:o}, not 600): not read",
                                         info.st_mode & 0777));
    return Done{};
}

Result<RingFacts> read_header(int fd, std::uint64_t bytes, const std::string& path) {
    char head[sizeof(RingHeader)];
    const ssize_t n = ::pread(fd, head, sizeof head, 0);
    if (n < 0) return refused(path, fmt::format("cannot be read: {}", std::strerror(errno)));
    auto facts = parse_ring_header({head, static_cast<std::size_t>(n)}, bytes);
    if (!facts) return refused(path, facts.error().text);
    return facts;
}

Result<Ring> map(int fd, std::uint64_t capacity, const std::string& path) {
    void* memory = ::mmap(nullptr, ring_bytes(capacity), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        return refused(path, fmt::format("cannot be mapped: {}", std::strerror(errno)));
    auto* slots = reinterpret_cast<Slot*>(static_cast<char*>(memory) + sizeof(RingHeader));
    return Ring{static_cast<RingHeader*>(memory), slots, capacity - 1};
}

}  // namespace

Result<RingFacts> parse_ring_header(std::string_view bytes, std::uint64_t file_bytes) {
    if (bytes.size() < sizeof(RingHeader)) return usage_error("is shorter than a ring's header");
    RingHeader header;
    std::memcpy(static_cast<void*>(&header), bytes.data(), sizeof header);
    if (header.magic != ring_magic) return usage_error("is no ring of arena-watch");
    if (header.version != ring_version || header.slot_bytes != sizeof(Slot))
        return usage_error(fmt::format("is a ring of version {}, this program reads version {}",
                                       header.version, ring_version));
    const std::uint64_t capacity = header.capacity;
    if (capacity < least_records || capacity > most_records || !std::has_single_bit(capacity) ||
        file_bytes != ring_bytes(capacity))
        return usage_error(
            fmt::format("says {} records, which {} bytes are not", capacity, file_bytes));
    return RingFacts{header.owner, capacity};
}

Result<std::vector<std::string>> find_rings(std::uint32_t uid) {
    std::error_code failed;
    std::vector<std::string> paths;
    for (std::filesystem::directory_iterator at(ring_folder, failed), end; !failed && at != end;
         at.increment(failed)) {
        struct stat info {};
        const std::string path = at->path();
        if (at->path().filename().string().starts_with(ring_prefix) &&
            ::lstat(path.c_str(), &info) == 0 && check_owner(info, uid, path))
            paths.push_back(path);
    }
    if (failed) return refused(ring_folder, fmt::format("cannot be listed: {}", failed.message()));
    std::sort(paths.begin(), paths.end());
    return paths;
}

Result<RingReader> RingReader::open(const std::string& path, std::uint32_t uid) {
    const FileDescriptor file(::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat info {};
    if (file.get() < 0 || ::fstat(file.get(), &info) != 0)
        return refused(path, fmt::format("cannot be opened: {}", std::strerror(errno)));
    if (const Status own = check_owner(info, uid, path); !own) return own.error();
    const auto facts = read_header(file.get(), static_cast<std::uint64_t>(info.st_size), path);
    if (!facts) return facts.error();
    const auto ring = map(file.get(), facts->capacity, path);
    if (!ring) return ring.error();
    RingReader reader;
    reader.path_ = path;
    reader.facts_ = *facts;
    reader.ring_ = *ring;
    return reader;
}

RingReader::RingReader(RingReader&& other) noexcept { *this = std::move(other); }

RingReader& RingReader::operator=(RingReader&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(facts_, other.facts_);
    std::swap(ring_, other.ring_);
    std::swap(next_, other.next_);
    std::swap(dropped_, other.dropped_);
    return *this;
}

RingReader::~RingReader() {
    if (ring_.header != nullptr) ::munmap(ring_.header, ring_bytes(facts_.capacity));
}

/// A ticket that its writer dropped is never written; one that is about to be is waited for.
bool RingReader::skips(std::uint64_t ticket, std::uint64_t head) {
    const std::uint64_t stamp =
        ring_.slots[ticket & ring_.mask].stamp.load(std::memory_order_acquire);
    if (ticket + 1 >= head || stamp == writing(ticket) || dropped_ >= ring_.header->dropped)
        return false;
    dropped_ += 1;
    return true;
}

RingReader::Batch RingReader::read(std::size_t most) {
    Batch batch;
    const std::uint64_t head = calls();
    if (head > next_ + facts_.capacity) {
        batch.lost = head - facts_.capacity - next_;
        next_ = head - facts_.capacity;
    }
    Record record;
    for (; next_ < head && batch.records.size() < most; ++next_) {
        const Seen seen = read_record(ring_, next_, record);
        if (seen == Seen::record)
            batch.records.push_back(record);
        else if (seen == Seen::lost || skips(next_, head))
            batch.lost += 1;
        else
            break;
    }
    return batch;
}

std::uint64_t RingReader::calls() const { return ring_.header->head.load(); }
std::int32_t RingReader::device() const { return ring_.header->device.load(); }
bool RingReader::ended() const { return ring_.header->ended.load() != 0; }
bool RingReader::alive() const {
    const std::uint64_t begin = process_started(facts_.owner.pid);
    return begin != 0 && begin == facts_.owner.pid_started;
}
void RingReader::set_control(Control control) { ring_.header->control.store(control); }
void RingReader::remove() { ::unlink(path_.c_str()); }

}  // namespace arena::watch
