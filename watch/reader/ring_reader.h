// SPDX-License-Identifier: GPL-2.0-or-later
// The reading side of the rings of a node: finds them, trusts only those of one user, follows each,
// and outlives its writer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "watch/ring/ring.h"

namespace arena::watch {

/// What a ring's header says, once looked at.
struct RingFacts {
    RingOwner owner;
    std::uint64_t capacity = 0;
    bool operator==(const RingFacts&) const = default;
};

/// The head of an object of `file_bytes`; refuses another version and sizes that do not fit.
Result<RingFacts> parse_ring_header(std::string_view bytes, std::uint64_t file_bytes);

/// Paths of the rings that `uid` owns, in the order of their names; those of others are left out.
Result<std::vector<std::string>> find_rings(std::uint32_t uid);

class RingReader {
  public:
    /// `path` is a ring of `uid`'s, mode 0600, else an error that says what it is.
    static Result<RingReader> open(const std::string& path, std::uint32_t uid);
    RingReader(RingReader&& other) noexcept;
    RingReader& operator=(RingReader&& other) noexcept;
    ~RingReader();

    struct Batch {
        std::vector<Record> records;  ///< in order of sequence
        std::uint64_t lost = 0;       ///< overwritten, or dropped by their writer, before them
    };
    /// What came since the last call, `most` records at most; never waits. A record that is being
    /// written ends the batch.
    Batch read(std::size_t most = usual_records);

    [[nodiscard]] const RingFacts& facts() const { return facts_; }
    [[nodiscard]] const std::string& path() const { return path_; }
    /// Calls so far, those that were lost among them.
    [[nodiscard]] std::uint64_t calls() const;
    [[nodiscard]] std::int32_t device() const;
    [[nodiscard]] bool ended() const;  ///< its process left by exit
    [[nodiscard]] bool alive() const;  ///< its process is there
    void set_control(Control control);
    /// Takes the name away; what is mapped stays readable.
    void remove();

  private:
    RingReader() = default;
    bool skips(std::uint64_t ticket, std::uint64_t head);

    std::string path_;
    RingFacts facts_;
    Ring ring_;
    std::uint64_t next_ = 0;
    std::uint64_t dropped_ = 0;  ///< of those that their writers dropped, accounted for
};

}  // namespace arena::watch
