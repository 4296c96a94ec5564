// SPDX-License-Identifier: GPL-2.0-or-later
// One checkpoint in one file: whole tensors, so that any plan writes it and any plan reads it.
//   "ARENA-CHECKPOINT" | per tensor, in the order of all_specs(): weights, first and second moments
//   (fp32, little-endian) | footer (JSON) | footer's length, its checksum (8 bytes each) |
//   "CHECKPOINT-ARENA"
// The file comes into being as NAME.new, is synced and then renamed; a kill at any moment leaves
// whole files under their names. Every array and the footer have a checksum that no damage of a
// single word passes.
#pragma once

#include <array>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/file_descriptor.h"
#include "train/core/parameters.h"

namespace arena::train {

/// What the data order and the model depend on; a run that differs in one of them does not resume.
struct CheckpointFacts {
    GptShape shape;
    Index step = 0;  ///< steps done
    std::uint64_t seed = 0;
    Index global_batch = 0, data_tokens = 0;
    bool operator==(const CheckpointFacts&) const = default;
};

/// The three arrays of a tensor, in this order.
enum class Part { weights, first, second };
inline constexpr std::array parts{Part::weights, Part::first, Part::second};

/// Folded over 64-bit words, each step a bijection: one changed word always changes the sum.
std::uint64_t checksum(std::span<const std::byte>);

class CheckpointWriter {
  public:
    /// Called before each write, sync, rename and removal: for tests that kill the process there.
    using Hook = std::function<void()>;
    CheckpointWriter(std::string path, Hook hook = {});
    ~CheckpointWriter();
    CheckpointWriter(const CheckpointWriter&) = delete;
    CheckpointWriter& operator=(const CheckpointWriter&) = delete;

    Status create();
    /// The next array of the next tensor.
    Status append(const TensorSpec&, Part, std::span<const float> whole);
    /// Footer, sync, rename, sync of the directory. Without it nothing remains.
    Status finish(const CheckpointFacts&);

  private:
    Status write(const void* data, std::size_t bytes);
    Status refuse(const char* what);
    std::string path_, new_path_;
    Hook hook_;
    int fd_ = -1;
    std::string entries_;  ///< JSON of the footer's list
    Index offset_ = 0;
};

class CheckpointReader {
  public:
    /// Reads the footer and checks it, both marks and the file's length: a truncated file is
    /// refused here, and what is no regular file, a link too: nobody waits for a fifo's writer.
    static Result<CheckpointReader> open(const std::string& path);
    [[nodiscard]] const CheckpointFacts& facts() const { return facts_; }
    [[nodiscard]] const std::string& path() const { return path_; }
    /// A whole array; refuses what is not there, has another size or does not match its checksum.
    /// The file stays open between calls: what is read is of one file, whatever becomes of its
    /// name.
    Status read(const TensorSpec&, Part, std::span<float> whole) const;

  private:
    struct Entry {
        Index offset = 0, size = 0;
        std::uint64_t sum = 0;
    };
    Status parse_footer(std::string_view text);
    [[nodiscard]] Error damaged(const std::string& what) const;
    std::string path_;
    FileDescriptor file_;
    CheckpointFacts facts_;
    std::map<std::string, Entry> entries_;  ///< by "name/part"
    Index data_end_ = 0;
};

/// DIR/step-0000000120.arena
std::string checkpoint_path(const std::string& directory, Index step);
/// Steps of the checkpoints in a directory, newest first; a missing directory has none.
Result<std::vector<Index>> checkpoint_steps(const std::string& directory);
/// Once the one of step `saved` is written: removes those of earlier steps but `before`, the one
/// that this run resumed from or wrote before it ("" = there is none), and what a killed writer
/// left. Those two are known to be whole, by whoever wrote or read them. What has a higher number
/// was passed by, or is somebody else's: it stays, and pushes nothing out.
Status remove_old_checkpoints(const std::string& directory, Index saved, const std::string& before,
                              const CheckpointWriter::Hook& hook = {});

}  // namespace arena::train
