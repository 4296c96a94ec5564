// SPDX-License-Identifier: GPL-2.0-or-later
// What the exact search asks of an instance and of a partial schedule: heads of all blocks that are
// left, a lower bound, and which blocks could be next on a device. See exact.h for the idea.
#pragma once

#include <span>
#include <vector>

#include "array/bounds.h"
#include "array/instance.h"

namespace arena::array {

/// A partial schedule, as views into a row of numbers:
///   ready [jobs]     earliest start of the job's next block; 0 of a job that is done
///   free [devices]   when the device could take up a block (before its switch); 0 with none left
///   loaded [devices] the block that needs no switch there, else Row::nothing or Row::any
///   placed [jobs]    how many of its blocks are appended
///   next [devices]   the block that is decided to be next there, else Row::open
struct Row {
    static constexpr Ticks nothing = -1, any = -2, open = -1;
    Ticks *ready, *free, *loaded, *placed, *next;
};

class ExactProblem {
  public:
    ExactProblem(const Instance& instance, const Rules& rules);

    [[nodiscard]] std::size_t row_size() const { return 2 * jobs_ + 3 * devices_; }
    /// Numbers from here on say what is appended and decided; the first times() say when.
    [[nodiscard]] std::size_t key_begin() const { return jobs_ + 2 * devices_; }
    [[nodiscard]] std::size_t times() const { return jobs_ + devices_; }
    [[nodiscard]] Row row(Ticks* numbers) const;
    void make_root(Ticks* numbers) const;

    /// Appends the job's next block; its end on the device.
    Ticks append(Row row, std::size_t job) const;
    /// Decides that block `b` is next on its device.
    void reserve(Row row, std::size_t b) const;
    /// Raises ready and free as far as all completions allow, and gives a bound on what is left;
    /// `bound` at once where the numbers already say so.
    Ticks settle(Row row);
    /// Blocks of which one is next on one device, in a row that is settled; none: no completion.
    /// The device is one on which fewest could be next.
    void branch(Row row, std::vector<std::size_t>& blocks);
    /// Whether `a` can end no later than `b`: same blocks appended and decided.
    [[nodiscard]] bool dominates(const Ticks* a, const Ticks* b) const;

    [[nodiscard]] const Block& block(std::size_t b) const { return instance_.blocks[b]; }
    [[nodiscard]] std::size_t next_of(Row row, std::size_t job) const {
        return instance_.first[job] + static_cast<std::size_t>(row.placed[job]);
    }
    [[nodiscard]] bool is_done(Row row, std::size_t job) const {
        return next_of(row, job) == instance_.first[job + 1];
    }

  private:
    struct DeviceCount {
        int forward_left = 0, in_flight = 0, left = 0;
    };
    [[nodiscard]] bool is_eligible(Row row, std::size_t b) const;
    [[nodiscard]] bool pays(Row row, std::size_t b) const;
    [[nodiscard]] Ticks setup_of(Ticks loaded, std::size_t b) const;
    [[nodiscard]] bool allowed(std::size_t b) const;
    [[nodiscard]] bool is_beaten(Row row, std::size_t b, std::size_t by) const;
    [[nodiscard]] bool has_twin(Row row, std::size_t job) const;
    void count(Row row);
    void find_heads(Row row);
    void raise_heads(Row row);
    [[nodiscard]] Ticks raised(Row row, std::size_t b) const;
    void raise_free(Row row, std::size_t device);
    Ticks device_bound(Row row, std::size_t device);
    [[nodiscard]] Ticks flight_bound(Row row, std::size_t device) const;
    void candidates_on(Row row, std::size_t device, std::vector<std::size_t>& blocks);
    [[nodiscard]] Ticks earliest_end(Row row, std::size_t device) const;

    Instance instance_;
    Rules rules_;
    ChainFacts facts_;
    std::size_t jobs_, devices_;
    std::vector<std::size_t> partner_;          ///< the other block of its state, else itself
    std::vector<std::vector<std::size_t>> on_;  ///< by device, blocks in the order of jobs
    std::vector<int> kind_;                     ///< jobs that are the same have the same
    std::vector<Ticks> offset_;  ///< least time from the job's begin to the block's start
    std::vector<Ticks> head_;    ///< of what is left, by block
    std::vector<DeviceCount> count_;
    std::vector<Window> windows_;
    std::vector<std::size_t> eligible_, trial_;
};

}  // namespace arena::array
